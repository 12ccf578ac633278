// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// TestOldSystem: where classes are missing because macOS is old, the answer is that
// it is old. Classes are looked up once, so each system is a process.
func TestOldSystem(t *testing.T) {
	if os.Getenv("METALSIM_TEST_OLD") != "" {
		if _, err := device.Open(); !errors.Is(err, device.ErrOldSystem) {
			t.Errorf("got %v", err)
		}
		return
	}
	s := metalsim.Open(t)
	s.SimulatorOnly()
	for _, system := range []string{"12.3", "13.6", "14.7"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOldSystem$", "-test.count=1")
		cmd.Env = append(os.Environ(), "METALSIM_TEST_OLD=1", "METALSIM_OS="+system)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("macOS %s: %v\n%s", system, err, out)
		}
	}
}
