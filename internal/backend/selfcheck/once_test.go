// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
)

// TestOnce: a device is compared with a reference once in a process for each precision and variant of its
// settings; one that could not be compared is asked again, and nothing is compared where the variable says so.
func TestOnce(t *testing.T) {
	dev, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	opened, refuse := 0, error(nil)
	open := func() (backend.Backend, error) {
		opened++
		if refuse != nil {
			return nil, refuse
		}
		return cpu.New(cpu.Config{Threads: 1})
	}
	try := func(p backend.Precision, variant string, want int) {
		t.Helper()
		if err := Once(dev, open, p, variant); !errors.Is(err, refuse) {
			t.Fatalf("error %v, want %v", err, refuse)
		}
		if opened != want {
			t.Errorf("%v %q: %d references were opened, want %d", p, variant, opened, want)
		}
	}
	t.Setenv(Env, "off")
	try(backend.FP32, "test of once", 0)
	t.Setenv(Env, "")
	refuse = errors.New("no reference")
	try(backend.FP32, "test of once", 1)
	refuse = nil
	try(backend.FP32, "test of once", 2)
	try(backend.FP32, "test of once", 2)
	try(backend.FP32, "another", 3)
	try(backend.FP16, "test of once", 4)
	try(backend.FP16, "test of once", 4)
}
