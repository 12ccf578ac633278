// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metaltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const trialDir = "METALSIM_TEST_TRIAL_DIR"

// TestEndedProcess: Apple's code ends the process while the GPU is opened, compiled
// for or used for the first time. The next process runs on the CPU and says why;
// one that insists tries again, and when that goes well the GPU is back.
func TestEndedProcess(t *testing.T) {
	if dir := os.Getenv(trialDir); dir != "" {
		metalsim.Open(t)
		t.Setenv("MAST3R_CACHE_DIR", dir)
		e := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
		infer(t, e, picture(32, 32, 0), picture(32, 32, 3))
		i := e.Info()
		fmt.Printf("runs on %s: %s\n", i.Backend, i.FallbackReason)
		return
	}
	s := metalsim.Open(t)
	s.SimulatorOnly()
	for _, where := range []string{"device", "compile", "encode"} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			process := func(env ...string) string {
				t.Helper()
				cmd := exec.Command(os.Args[0], "-test.run=^TestEndedProcess$", "-test.count=1")
				cmd.Env = append(append(os.Environ(), trialDir+"="+dir), env...)
				out, err := cmd.CombinedOutput()
				if died := strings.Contains(string(out), "pass manager failed"); (err != nil) != died {
					t.Fatalf("%v\n%s", err, out)
				}
				return string(out)
			}
			files := func() (names []string) {
				list, err := os.ReadDir(dir)
				check(t, err)
				for _, f := range list {
					names = append(names, filepath.Base(f.Name()))
				}
				return names
			}
			if out := process("METALSIM_CRASH=" + where); !strings.Contains(out, "pass manager failed") {
				t.Fatalf("the process lived:\n%s", out)
			}
			for range 2 {
				if out := process(); !strings.Contains(out, "runs on cpu: "+"using the GPU ended a process") {
					t.Errorf("the next process:\n%s", out)
				}
			}
			for _, env := range []string{"MAST3R_BACKEND=metal", "MAST3R_BACKEND="} {
				if out := process(env); !strings.Contains(out, "runs on metal: \n") {
					t.Errorf("%s:\n%s", env, out)
				}
			}
			if left := files(); len(left) != 0 {
				t.Errorf("files are left: %q", left)
			}
		})
	}
}
