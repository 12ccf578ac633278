// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// TestErrorKinds: every error with details is of one kind, and of no other.
func TestErrorKinds(t *testing.T) {
	cause := errors.New("cause")
	kinds := map[error]error{
		gomps.ErrConfig: &gomps.ConfigError{}, gomps.ErrImage: &gomps.ImageError{Err: cause}, gomps.ErrShape: &gomps.ShapeError{},
		gomps.ErrWeights: &gomps.WeightsError{Err: cause}, gomps.ErrFile: &gomps.FileError{Err: cause}, gomps.ErrDevice: &gomps.DeviceError{Err: cause},
	}
	for kind, err := range kinds {
		wrapped := fmt.Errorf("call: %w", err)
		for other := range kinds {
			if got, want := errors.Is(wrapped, other), other == kind; got != want {
				t.Errorf("errors.Is(%T, %v) is %v", err, other, got)
			}
		}
	}
	if _, err := gomps.Open(gomps.Config{Backend: "abacus"}); !errors.Is(err, gomps.ErrConfig) {
		t.Errorf("backend abacus: %v", err)
	}
}

// TestDeviceMemory: a device that runs out of memory is a failure of the device and
// of the kind of all that does not fit.
func TestDeviceMemory(t *testing.T) {
	full := fmt.Errorf("wrapped: %w", &gomps.DeviceError{Op: "compile", Err: fmt.Errorf("xla: %w", backend.ErrOutOfMemory)})
	if !errors.Is(full, gomps.ErrMemory) || !errors.Is(full, gomps.ErrDevice) {
		t.Errorf("%v: ErrMemory %v, ErrDevice %v", full, errors.Is(full, gomps.ErrMemory), errors.Is(full, gomps.ErrDevice))
	}
	if other := error(&gomps.DeviceError{Op: "compile", Err: errors.New("broken")}); errors.Is(other, gomps.ErrMemory) {
		t.Errorf("%v is no lack of memory", other)
	}
}
