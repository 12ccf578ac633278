// SPDX-License-Identifier: Apache-2.0

package metalsim

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/emulated"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim/hook"
)

// calls are the simulator's own entry points.
type calls struct {
	violations    func(buf *byte, n int64) int64
	clear         func()
	counter       func(name string) int64
	clearCounters func()
	set           func(key, value string) int32
	defaults      func()
	live          func(buf *byte, n int32) int64
	program       func(buf *byte, n int64) int64
}

// errNoTools means that the simulator cannot be built on this machine.
var errNoTools = errors.New("metalsim: no simulator on this machine")

var sim struct {
	sync.Once
	err error
	calls
}

// Sim is the simulator during one test.
type Sim struct {
	t    testing.TB
	real bool
	live int64
}

// Open loads the simulator, puts its settings back to the defaults, and
// registers a check for the end of the test: no violation, no object more than
// now. It skips the test, with the reason, where there is no simulator.
func Open(t testing.TB) *Sim {
	if emulated.Here() {
		t.Skip("the simulator of Metal is a library for another processor: NOT tested here")
	}
	t.Helper()
	t.Setenv("MAST3R_CACHE_DIR", t.TempDir()) // what a test that dies leaves is nobody else's business
	if runtime.GOOS == "darwin" {
		if err := objc.Load(); err != nil {
			t.Skip(err)
		}
		return &Sim{t: t, real: true}
	}
	sim.Do(load)
	if errors.Is(sim.err, errNoTools) {
		t.Skipf("no Metal simulator: %v", sim.err)
	}
	if sim.err != nil {
		t.Fatalf("Metal simulator: %v", sim.err)
	}
	sim.defaults()
	sim.clear()
	sim.clearCounters()
	s := &Sim{t: t, live: sim.calls.live(nil, 0)}
	t.Cleanup(s.end)
	return s
}

func load() {
	path := os.Getenv(hook.Env)
	if path == "" {
		if path, sim.err = build(); sim.err != nil {
			return
		}
		os.Setenv(hook.Env, path) // for the processes that a test starts
		objc.UseSimulator(path)
	}
	if sim.err = objc.Load(); sim.err != nil {
		return
	}
	for name, f := range map[string]any{
		"metalsim_violations":       &sim.violations,
		"metalsim_clear_violations": &sim.clear,
		"metalsim_counter":          &sim.counter,
		"metalsim_clear_counters":   &sim.clearCounters,
		"metalsim_set":              &sim.set,
		"metalsim_defaults":         &sim.defaults,
		"metalsim_live_objects":     &sim.calls.live,
		"metalsim_program":          &sim.program,
	} {
		if sim.err = objc.CFunction(f, name); sim.err != nil {
			return
		}
	}
}

func (s *Sim) end() {
	if v := s.Violations(); len(v) != 0 {
		s.t.Errorf("%d violations:\n%s", len(v), strings.Join(v, "\n"))
	}
	if left := s.Leaked(); left > 0 {
		s.t.Errorf("%d objects were left behind:\n%s", left, s.LiveObjects())
	}
}

// SimulatorOnly skips on a real Mac.
func (s *Sim) SimulatorOnly() {
	if s.real {
		s.t.Skip("only a simulator can do this")
	}
}

// Tolerance is what a limit that holds on the simulator is multiplied by: a real
// GPU has other sums, and faster functions than the C library's.
func Tolerance() float64 {
	if runtime.GOOS == "darwin" {
		return 300
	}
	return 1
}

// Set changes a setting of the simulated device.
func (s *Sim) Set(key, value string) {
	s.SimulatorOnly()
	if sim.set(key, value) == 0 {
		s.t.Fatalf("the simulator has no setting %s=%s", key, value)
	}
}

// Counter reads a counter; they start at 0 with each Open.
func (s *Sim) Counter(name string) int64 {
	s.SimulatorOnly()
	return sim.counter(name)
}

// Violations are the misuses recorded since Open or ClearViolations.
func (s *Sim) Violations() []string {
	if s.real {
		return nil
	}
	buf := make([]byte, 1<<16)
	if sim.violations(&buf[0], int64(len(buf))) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(text(buf), "\n"), "\n")
}

// ClearViolations forgets them; for tests that misuse on purpose.
func (s *Sim) ClearViolations() {
	if !s.real {
		sim.clear()
	}
}

// Leaked is how many more objects exist than when the test began. The
// simulator's threads drop their last references a moment after completion,
// hence the patience.
func (s *Sim) Leaked() int64 {
	if s.real {
		return 0
	}
	for range 200 {
		if sim.calls.live(nil, 0) <= s.live {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return sim.calls.live(nil, 0) - s.live
}

// Mark makes Leaked count from now on; also for tests that leak on purpose.
func (s *Sim) Mark() {
	if !s.real {
		s.live = sim.calls.live(nil, 0)
	}
}

// Settle waits until the simulator's threads have dropped their references: the
// number of objects stands still.
func (s *Sim) Settle() {
	if s.real {
		return
	}
	for still, last := 0, int64(-1); still < 5; {
		time.Sleep(2 * time.Millisecond)
		if n := sim.calls.live(nil, 0); n != last {
			still, last = 0, n
		} else {
			still++
		}
	}
}

// LiveObjects lists the classes with living objects, for messages.
func (s *Sim) LiveObjects() string {
	buf := make([]byte, 1<<14)
	sim.calls.live(&buf[0], int32(len(buf)))
	return text(buf)
}

// Program is the graph that was compiled last, as text: tests/metalsim/src/record.c.
func (s *Sim) Program() string {
	s.SimulatorOnly()
	buf := make([]byte, sim.program(nil, 0)+1)
	sim.program(&buf[0], int64(len(buf)))
	return text(buf)
}

func text(b []byte) string {
	t, _, _ := strings.Cut(string(b), "\x00")
	return t
}
