// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metaltest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	trialDir = "METALSIM_TEST_TRIAL_DIR"
	trialEnd = "METALSIM_TEST_TRIAL_END"
)

// TestTrialChild is what the processes of the tests below do.
func TestTrialChild(t *testing.T) {
	dir := os.Getenv(trialDir)
	if dir == "" {
		t.Skip("run by the others")
	}
	metalsim.Open(t)
	t.Setenv("MAST3R_CACHE_DIR", dir)
	if end := os.Getenv(trialEnd); end != "" {
		metal.Try("opening it")
		fmt.Println("trying")
		if end == "exit" {
			os.Exit(0)
		}
		time.Sleep(time.Minute) // killed before
	}
	e := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
	infer(t, e, picture(32, 32, 0), picture(32, 32, 3))
	i := e.Info()
	fmt.Printf("runs on %s: %s\n", i.Backend, i.FallbackReason)
}

// trial is a cache folder, used by processes one after another.
type trial struct {
	*testing.T
	dir string
}

func (t trial) command(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestTrialChild$", "-test.count=1")
	cmd.Env = append(append(os.Environ(), trialDir+"="+t.dir), env...)
	return cmd
}

func (t trial) process(env ...string) string {
	t.Helper()
	out, err := t.command(env...).CombinedOutput()
	if died := strings.Contains(string(out), "pass manager failed"); (err != nil) != died {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func (t trial) dies(where string) {
	t.Helper()
	if out := t.process("METALSIM_CRASH=" + where); !strings.Contains(out, "pass manager failed") {
		t.Fatalf("the process lived:\n%s", out)
	}
}

func (t trial) runsOn(where string, env ...string) {
	t.Helper()
	if out := t.process(env...); !strings.Contains(out, "runs on "+where) {
		t.Errorf("%q, want %s:\n%s", env, where, out)
	}
}

func (t trial) files(pattern string) (paths []string) {
	paths, err := filepath.Glob(filepath.Join(t.dir, pattern))
	check(t.T, err)
	return paths
}

// later is some minutes after the record was made.
func (t trial) later() {
	t.Helper()
	records, then := t.files("*.ended"), time.Now().Add(-5*time.Minute)
	if len(records) != 1 {
		t.Fatalf("records %q, want one", records)
	}
	check(t.T, os.Chtimes(records[0], then, then))
}

func (t trial) nothingLeft() {
	t.Helper()
	if left := t.files("*"); len(left) != 0 {
		t.Errorf("files are left: %q", left)
	}
}

const (
	onCPU = "cpu: using the GPU ended a process"
	onGPU = "metal: \n"
)

// TestEndedProcess: Apple's code ends the process while the GPU is opened, compiled
// for or used for the first time. The next processes run on the CPU and say why; a
// later one tries once more, and where that ends too it is the CPU for good. One that
// insists tries again, and when that goes well the GPU is back.
func TestEndedProcess(t *testing.T) {
	s := metalsim.Open(t)
	s.SimulatorOnly()
	for _, where := range []string{"device", "compile", "encode"} {
		t.Run(where, func(t *testing.T) {
			tr := trial{t, t.TempDir()}
			tr.dies(where)
			for range 2 {
				tr.runsOn(onCPU)
			}
			tr.later()
			tr.dies(where)
			tr.runsOn(onCPU)
			tr.later()
			tr.runsOn(onCPU)
			tr.runsOn(onGPU, "MAST3R_BACKEND=metal")
			tr.runsOn(onGPU)
			tr.nothingLeft()
		})
	}
}

// TestKilledProcess: a process that somebody else ended at that moment, or that
// called os.Exit, looks like one that the GPU ended. It must not cost the GPU for
// good, even where its number has been given to a process that lives.
func TestKilledProcess(t *testing.T) {
	s := metalsim.Open(t)
	s.SimulatorOnly()
	for _, end := range []string{"kill", "exit", "number"} {
		t.Run(end, func(t *testing.T) {
			tr := trial{t, t.TempDir()}
			cmd := tr.command(trialEnd + "=" + end)
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "trying\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if end != "exit" {
				tr.runsOn(onGPU) // two at a time disturb nobody
				check(t, cmd.Process.Kill())
			}
			_ = cmd.Wait()
			if end == "number" {
				path := tr.files("*.trying")[0]
				check(t, os.Rename(path, strings.Replace(path, fmt.Sprint("-", cmd.Process.Pid, "."), "-1.", 1)))
			}
			tr.runsOn(onCPU)
			tr.later()
			tr.runsOn(onGPU)
			tr.runsOn(onGPU)
			tr.nothingLeft()
		})
	}
}
