// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// Kinds of errors, for errors.Is. Errors with details are also a *ConfigError, an
// *ImageError and so on, for errors.As.
var (
	// ErrNotLoaded is returned by calls that need a model before Load.
	ErrNotLoaded = errors.New("gomps: no model is loaded, call Load first")
	// ErrClosed is returned by calls on a closed engine.
	ErrClosed = errors.New("gomps: the engine is closed")

	ErrConfig  = errors.New("gomps: a setting cannot be used") // *ConfigError
	ErrImage   = errors.New("gomps: a picture cannot be used") // *ImageError
	ErrShape   = errors.New("gomps: sizes do not fit")         // *ShapeError
	ErrWeights = errors.New("gomps: a model cannot be used")   // *WeightsError
	ErrFile    = errors.New("gomps: a file was refused")       // *FileError
	ErrDevice  = errors.New("gomps: the device failed")        // *DeviceError

	// ErrOutOfMemory is a *DeviceError too: the device has no memory for the work. The
	// engine stays usable, for smaller pictures or fewer at once.
	ErrOutOfMemory = errors.New("gomps: the device has too little memory")
)

// Is makes errors.Is find the kind.
func (e *ConfigError) Is(target error) bool  { return target == ErrConfig }
func (e *ImageError) Is(target error) bool   { return target == ErrImage }
func (e *ShapeError) Is(target error) bool   { return target == ErrShape }
func (e *WeightsError) Is(target error) bool { return target == ErrWeights }
func (e *FileError) Is(target error) bool    { return target == ErrFile }
func (e *DeviceError) Is(target error) bool {
	return target == ErrDevice || target == ErrOutOfMemory && errors.Is(e.Err, backend.ErrOutOfMemory)
}

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

// ShapeError says which argument has a wrong size, and the size that is valid.
type ShapeError struct{ What, Got, Want string }

func (e *ShapeError) Error() string {
	return fmt.Sprintf("gomps: %s: got %s, want %s", e.What, e.Got, e.Want)
}

// WeightsError says why a model file cannot be used.
type WeightsError struct {
	Path string
	Err  error
}

func (e *WeightsError) Error() string {
	return fmt.Sprintf("gomps: load %s: %v", weights.Quoted(e.Path), e.Err)
}
func (e *WeightsError) Unwrap() error { return e.Err }

// FileError means that the system refused to read or write a file. Err has the
// path.
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
