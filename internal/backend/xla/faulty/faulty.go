// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/dl"
)

//go:embed testdata/faulty.c
var source []byte

// Function is a position in the plugin's table of functions.
type Function int

// The functions that can fail.
const (
	Await    Function = 8
	Compile  Function = 20
	Upload   Function = 22
	Execute  Function = 55
	Download Function = 70
)

// The codes of errors: no memory is left, a fault inside, and a device that is gone.
const (
	ResourceExhausted = 8
	Internal          = 13
	Unavailable       = 14
)

// Plugin is the plugin of this process.
type Plugin struct {
	File                 string
	fail, hold, together uintptr
}

// build compiles the plugin, once in a process: it stays loaded.
var build = sync.OnceValues(func() (*Plugin, error) {
	dir, err := os.MkdirTemp("", "faulty")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what is loaded stays
	p := &Plugin{File: filepath.Join(dir, "faulty.so")}
	c := filepath.Join(dir, "faulty.c")
	if err := os.WriteFile(c, source, 0o644); err != nil {
		return nil, err
	}
	cc := exec.Command("cc", "-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", p.File, c, "-ldl")
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	lib, err := dl.Open(p.File, false)
	if err != nil {
		return nil, err
	}
	var use uintptr
	for name, to := range map[string]*uintptr{"fail": &p.fail, "hold": &p.hold, "together": &p.together, "real": &use} {
		if *to, err = dl.Symbol(lib, "faulty_"+name); err != nil {
			return nil, err
		}
	}
	worker := append([]byte(os.Getenv("MAST3R_PJRT_CPU")), 0)
	if ok, _, _ := purego.SyscallN(use, uintptr(unsafe.Pointer(&worker[0]))); int32(ok) == 0 {
		return nil, fmt.Errorf("%s is no plugin", worker[:len(worker)-1])
	}
	return p, nil
})

// Open makes the plugin. The test is skipped without MAST3R_PJRT_CPU, which names the
// plugin that does the work, and without a C compiler.
func Open(t testing.TB) *Plugin {
	t.Helper()
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: XLA is not run")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler here: the plugin that fails is not built")
	}
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Fail(-1, 0, 0); p.Hold(false) })
	return p
}

// Fail has a function fail once, after some calls that do not.
func (p *Plugin) Fail(f Function, code, after int) {
	purego.SyscallN(p.fail, uintptr(f), uintptr(code), uintptr(after))
}

// Hold has those who wait for the device wait on, or not, and says how many do.
func (p *Plugin) Hold(on bool) int {
	n := uintptr(0)
	if on {
		n = 1
	}
	n, _, _ = purego.SyscallN(p.hold, n)
	return int(int32(n))
}

// Together is how many threads compiled at once, at most.
func (p *Plugin) Together() int {
	n, _, _ := purego.SyscallN(p.together)
	return int(int32(n))
}
