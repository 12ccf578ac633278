// SPDX-License-Identifier: Apache-2.0

package pyext_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/capi/pyext"
)

var model = filepath.Join("..", "..", "python", "mast3r_runtime", "models", "mast3r_tiny", "unified.safetensors")

func TestEngine(t *testing.T) {
	e, err := pyext.Open("", 64, "", 2, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if e.Ready() {
		t.Error("ready without a model")
	}
	if err := e.Load(model); err != nil {
		t.Fatal(err)
	}
	if err := e.Warmup(1); err != nil {
		t.Error(err)
	}
	text, err := e.Info()
	var info struct{ Variant string }
	if err != nil || json.Unmarshal([]byte(text), &info) != nil || info.Variant != "mast3r_tiny" {
		t.Errorf("info %q: %v", text, err)
	}
	if !e.Ready() || !strings.HasPrefix(e.Name(), "mast3r_tiny on cpu") {
		t.Errorf("%q, ready %v", e.Name(), e.Ready())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestNothingPanics calls every method of an engine that never was: the fault
// must not reach the caller, whose process it would end.
func TestNothingPanics(t *testing.T) {
	e := &pyext.Engine{}
	if e.Ready() || e.Name() != "" {
		t.Error("an empty engine says something")
	}
	for name, err := range map[string]error{
		"load": e.Load(model), "warmup": e.Warmup(1), "export": e.ExportONNX("x", 1, 1, false), "close": e.Close(),
	} {
		if err == nil || !strings.Contains(err.Error(), "internal ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Info(); err == nil {
		t.Error("info of an empty engine")
	}
	if _, err := pyext.Open("", -1, "", 0, "cpu"); err == nil {
		t.Error("a negative resolution")
	}
}
