// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"fmt"
)

// ErrNotLoaded is returned by calls that need a model before Load.
var ErrNotLoaded = errors.New("gomps: no model is loaded, call Load first")

// ErrClosed is returned by calls on a closed engine.
var ErrClosed = errors.New("gomps: the engine is closed")

// ConfigError says which setting cannot be used.
type ConfigError struct{ Field, Got, Want string }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("gomps: %s is %q, want %s", e.Field, e.Got, e.Want)
}

// ImageError says why a picture cannot be used. Index counts from 0.
type ImageError struct {
	Index int
	Err   error
}

func (e *ImageError) Error() string { return fmt.Sprintf("gomps: image %d: %v", e.Index, e.Err) }
func (e *ImageError) Unwrap() error { return e.Err }

// ShapeError says which argument has which size instead of another.
type ShapeError struct{ What, Got, Want string }

func (e *ShapeError) Error() string {
	return fmt.Sprintf("gomps: %s: got %s, want %s", e.What, e.Got, e.Want)
}

// WeightsError says why a model file cannot be used.
type WeightsError struct {
	Path string
	Err  error
}

func (e *WeightsError) Error() string { return fmt.Sprintf("gomps: load %q: %v", e.Path, e.Err) }
func (e *WeightsError) Unwrap() error { return e.Err }

// FileError is the system's refusal to read or write a file. Err has the path.
type FileError struct{ Err error }

func (e *FileError) Error() string { return fmt.Sprintf("gomps: %v", e.Err) }
func (e *FileError) Unwrap() error { return e.Err }

// DeviceError is a failure of the device or of its memory. The engine stays
// usable.
type DeviceError struct {
	Op  string
	Err error
}

func (e *DeviceError) Error() string { return fmt.Sprintf("gomps: %s: %v", e.Op, e.Err) }
func (e *DeviceError) Unwrap() error { return e.Err }
