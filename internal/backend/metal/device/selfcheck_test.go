// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device_test

import (
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	_ "github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// Two declarations that are wrong on purpose: a result of the wrong width, and a
// method that no system has.
var (
	_ = objc.Instance[func(o objc.ID) uint32]("NSString", "length", objc.V(12, 1))
	_ = objc.Instance[func(o objc.ID)]("MTLDevice", "selfDestruct", objc.V(12, 1))
)

func TestSelfCheck(t *testing.T) {
	s := metalsim.Open(t)
	rep, err := device.SelfCheck()
	if err != nil {
		t.Fatal(err)
	}
	if rep.Checked < 120 || len(rep.Unchecked) != 0 {
		t.Errorf("%d checked, unchecked: %v", rep.Checked, rep.Unchecked)
	}
	found := map[string]string{}
	for _, m := range rep.Mismatches {
		found[m.Decl.String()] = m.Error()
	}
	if len(found) != 2 || !strings.Contains(found["-[NSString length]"], "I@:") || !strings.Contains(found["-[MTLDevice selfDestruct]"], "missing") {
		t.Errorf("mismatches: %v, want exactly the two planted ones", found)
	}
	// Newer methods are not looked for on an older system.
	s.Set("os", "13.0")
	old, err := device.SelfCheck()
	if err != nil {
		t.Fatal(err)
	}
	if old.Checked >= rep.Checked || len(old.Mismatches) > 2 {
		t.Errorf("on macOS 13: %d checked of %d, mismatches %v", old.Checked, rep.Checked, old.Mismatches)
	}
	// Without a GPU the protocols' own descriptions answer.
	s.Set("os", "15.0")
	s.Set("no_device", "1")
	without, err := device.SelfCheck()
	if err != nil {
		t.Fatal(err)
	}
	if without.Checked != rep.Checked || len(without.Unchecked) != 0 || len(without.Mismatches) != 2 {
		t.Errorf("without a GPU: %d checked of %d, unchecked %v, mismatches %v", without.Checked, rep.Checked, without.Unchecked, without.Mismatches)
	}
}
