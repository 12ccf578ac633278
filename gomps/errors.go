// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/memory"
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
	ErrMemory  = errors.New("gomps: too little memory")        // *MemoryError
	// ErrUnsupported is the kind of *UnsupportedError.
	ErrUnsupported = errors.New("gomps: the network cannot do this")
)

// Is makes errors.Is find the kind.
func (e *ConfigError) Is(target error) bool  { return target == ErrConfig }
func (e *ImageError) Is(target error) bool   { return target == ErrImage }
func (e *ShapeError) Is(target error) bool   { return target == ErrShape }
func (e *WeightsError) Is(target error) bool { return target == ErrWeights }
func (e *FileError) Is(target error) bool    { return target == ErrFile }
func (e *MemoryError) Is(target error) bool  { return target == ErrMemory }

// Is makes errors.Is find the kind; running out of the device's memory is of two.
func (e *DeviceError) Is(target error) bool {
	return target == ErrDevice || target == ErrMemory && errors.Is(e.Err, backend.ErrOutOfMemory)
}

// Is makes errors.Is find the kind.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// UnsupportedError says what the loaded network does not have, and what to do instead.
type UnsupportedError struct{ Network, What, Instead string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("gomps: %s has no %s: %s", e.Network, e.What, e.Instead)
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

// MemoryError refuses a call before anything is allocated for it: the bytes that it
// needs, those that there are, and what sets that limit. The engine stays usable.
type MemoryError struct {
	What       string
	Need, Free int64
	Limit      string
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("gomps: %s needs %s of memory, %s leaves %s", e.What, memory.Size(e.Need), e.Limit, memory.Size(e.Free))
}
