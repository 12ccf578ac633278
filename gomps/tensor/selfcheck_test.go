// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tensor

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// newGPU is a simulated GPU that this process has not seen: one that has agreed
// once is not compared again.
func newGPU(t *testing.T) *metalsim.Sim {
	s := metalsim.Open(t)
	s.Set("name", "GPU of "+t.Name())
	return s
}

func backendOf(t *testing.T, cfg Config) Stats {
	t.Helper()
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Stats()
}

// A GPU that computes something else is not used unless asked for, and then it is
// an error. Wrong attention is not among the faults: in float32 it is computed from
// products.
func TestWrongGPU(t *testing.T) {
	for _, fault := range []string{"align_corners", "erf", "norm"} {
		t.Run(fault, func(t *testing.T) {
			newGPU(t).Set("fault", fault)
			var log bytes.Buffer
			s := backendOf(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if s.Device.Backend != "cpu" || !strings.Contains(s.Fallback, "differ from the reference") {
				t.Errorf("runs on %s because %q", s.Device.Backend, s.Fallback)
			}
			if !strings.Contains(log.String(), "level=WARN") {
				t.Errorf("said %q", log.String())
			}
			if _, err := Open(Config{Backend: "metal"}); !errors.Is(err, selfcheck.ErrDisagree) {
				t.Errorf("Metal was insisted on: %v", err)
			}
			if s := backendOf(t, Config{Backend: "metal", SkipSelfCheck: true}); s.Device.Backend == "cpu" {
				t.Errorf("without the check it runs on %s", s.Device.Backend)
			}
		})
	}
}

// The first context of a process compares, the second does not, nor does one that
// was told not to.
func TestCheckedOnce(t *testing.T) {
	sim := newGPU(t)
	opened := func(cfg Config) int64 {
		before := sim.Counter("commits")
		if s := backendOf(t, cfg); s.Device.Backend == "cpu" {
			t.Errorf("runs on the CPU because %q", s.Fallback)
		}
		return sim.Counter("commits") - before
	}
	if n := opened(Config{SkipSelfCheck: true}); n != 0 {
		t.Errorf("%d command buffers without the check", n)
	}
	t.Run("environment", func(t *testing.T) {
		t.Setenv(selfcheck.Env, "off")
		if n := opened(Config{}); n != 0 {
			t.Errorf("%d command buffers with the check off", n)
		}
	})
	if n := opened(Config{}); n != 6 {
		t.Errorf("%d command buffers of the first context, want 6: two graphs, three times", n)
	}
	if n := opened(Config{Backend: "metal"}); n != 0 {
		t.Errorf("%d command buffers of the second context", n)
	}
}

// What fails while the GPU is checked leads to the CPU, and the next context gets
// the GPU again.
func TestFailingGPU(t *testing.T) {
	for _, failure := range []string{"fail_alloc", "fail_command", "fail_graph"} {
		t.Run(failure, func(t *testing.T) {
			sim := newGPU(t)
			sim.Set(failure, "1")
			if s := backendOf(t, Config{}); s.Device.Backend != "cpu" || s.Fallback == "" {
				t.Errorf("runs on %s because %q", s.Device.Backend, s.Fallback)
			}
			sim.Set(failure, "0")
			if s := backendOf(t, Config{}); s.Device.Backend == "cpu" {
				t.Errorf("the next context runs on the CPU because %q", s.Fallback)
			}
		})
	}
}
