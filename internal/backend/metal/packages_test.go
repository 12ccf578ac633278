// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
	"golang.org/x/sys/unix"
)

// cached is a test's folder of packages and what was logged about it.
type cached struct {
	t   *testing.T
	sim *metalsim.Sim
	dir string
	log bytes.Buffer
}

func newCached(t *testing.T) *cached {
	s := metalsim.Open(t)
	s.SimulatorOnly()
	return &cached{t: t, sim: s, dir: filepath.Join(t.TempDir(), "a", "packages")}
}

// run opens a backend, as another process would, and runs y = 3 x + 1.
func (c *cached) run(cfg metal.Config, opt backend.Options) (written, read, compiled int64) {
	c.t.Helper()
	c.log.Reset()
	cfg.ExecutableCache, cfg.Logger = c.dir, slog.New(slog.NewTextHandler(&c.log, nil))
	b, err := metal.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	counters := func() [3]int64 {
		return [3]int64{c.sim.Counter("packages_written"), c.sim.Counter("packages_read"), c.sim.Counter("compiles")}
	}
	before := counters()
	out, err := optest.Backend(b, opt)(affine(c.t, 3, vectorParam(3)), [][]byte{floats(1, 2, -4)})
	if err != nil {
		c.t.Fatal(err)
	}
	if want := floats(4, 7, -11); !bytes.Equal(out[0], want) {
		c.t.Errorf("got %v, want %v", out[0], want)
	}
	after := counters()
	return after[0] - before[0], after[1] - before[1], after[2] - before[2]
}

func (c *cached) want(what string, cfg metal.Config, opt backend.Options, written, read, compiled int64) {
	c.t.Helper()
	w, r, n := c.run(cfg, opt)
	if w != written || r != read || n != compiled {
		c.t.Errorf("%s: %d packages written, %d read, %d compiled, want %d, %d and %d (%s)", what, w, r, n, written, read, compiled, &c.log)
	}
}

// packages are the folders of the cache.
func (c *cached) packages() []string {
	c.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.dir, "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	return dirs
}

// TestExecutableCache: the second process compiles nothing; another precision,
// another attention or another system does.
func TestExecutableCache(t *testing.T) {
	c := newCached(t)
	c.want("first", metal.Config{}, fp32, 1, 0, 1)
	c.want("second", metal.Config{}, fp32, 0, 1, 0)
	c.want("half precision", metal.Config{}, fp16, 1, 0, 1)
	c.want("manual attention", metal.Config{Attention: metal.AttentionByHand}, fp32, 1, 0, 1)
	c.sim.Set("os", "15.1")
	c.want("another system", metal.Config{}, fp32, 1, 0, 1)
	c.sim.Set("name", "another GPU")
	c.want("another device", metal.Config{}, fp32, 1, 0, 1)
	c.sim.Set("sdk", "12.0")
	c.want("another program", metal.Config{}, fp32, 1, 0, 1)
	c.want("the same again", metal.Config{}, fp32, 0, 1, 0)
	if n := len(c.packages()); n != 6 {
		t.Errorf("%d folders, want 6 and nothing else", n)
	}
}

// TestExecutableCacheFaults: whatever is wrong with the folder, the graph runs.
func TestExecutableCacheFaults(t *testing.T) {
	program := func(dir string) string { return filepath.Join(dir, "graph.mpsgraphpackage", "program") }
	for name, fault := range map[string]struct {
		plant         func(t *testing.T, dir string)
		written, read int64
		says          string
	}{
		"truncated": {func(t *testing.T, dir string) { check(t, os.Truncate(program(dir), 100)) }, 1, 0, "changed"},
		"a bit": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(program(dir))
			check(t, err)
			data[len(data)/2] ^= 1
			check(t, os.WriteFile(program(dir), data, 0o644))
		}, 1, 0, "changed"},
		"no package": {func(t *testing.T, dir string) { check(t, os.RemoveAll(filepath.Dir(program(dir)))) }, 1, 0, "changed"},
		"no order":   {func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, "order.json"))) }, 1, 0, ""},
		"order is no JSON": {func(t *testing.T, dir string) {
			check(t, os.WriteFile(filepath.Join(dir, "order.json"), []byte("{"), 0o644))
		}, 1, 0, "order.json"},
		"order out of range": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, "order.json")
			raw, err := os.ReadFile(path)
			check(t, err)
			check(t, os.WriteFile(path, []byte(strings.Replace(string(raw), `"results":[0]`, `"results":[1]`, 1)), 0o644))
		}, 1, 0, "order of results"},
		"a process died loading it": {func(t *testing.T, dir string) { // its number may be another's now
			check(t, os.WriteFile(dir+".loading", fmt.Appendln(nil, os.Getpid()), 0o644))
		}, 1, 0, "ended a process"},
		"a process is loading it": {func(t *testing.T, dir string) {
			f, err := os.Create(dir + ".loading")
			check(t, err)
			check(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
			t.Cleanup(func() { check(t, errors.Join(os.Remove(f.Name()), f.Close())) })
		}, 1, 0, "is loading it"},
		"a file in the way": {func(t *testing.T, dir string) {
			check(t, os.RemoveAll(filepath.Dir(dir)))
			check(t, os.WriteFile(filepath.Dir(dir), nil, 0o644))
		}, 0, 0, "not kept"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCached(t)
			c.want("first", metal.Config{}, fp32, 1, 0, 1)
			fault.plant(t, c.packages()[0])
			c.want("with the fault", metal.Config{}, fp32, fault.written, fault.read, 1)
			if said := c.log.String(); fault.says == "" && said != "" || !strings.Contains(said, fault.says) {
				t.Errorf("it says %q, want a word of %q", said, fault.says)
			}
			switch name {
			case "a process is loading it", "a file in the way", "no order":
			default:
				c.want("after it", metal.Config{}, fp32, 0, 1, 0)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestExecutableCacheOfModel takes a whole network's graphs from disk: the same
// numbers bit for bit, from weights that are fed as before.
func TestExecutableCacheOfModel(t *testing.T) {
	c := newCached(t)
	m := modeltest.Synthetic(t, "mast3r_micro", false)
	g, err := m.Encoder(1, 32, 48)
	check(t, err)
	in := [][]byte{bytes.Repeat([]byte{9, 80, 200}, 32*48)}
	var first [][]byte
	for i := range 2 {
		b, err := metal.New(metal.Config{ExecutableCache: c.dir})
		check(t, err)
		out, err := optest.Backend(b, fp16)(g, in)
		check(t, err)
		check(t, b.Close())
		if i == 0 {
			first = out
		} else if !bytes.Equal(out[0], first[0]) || c.sim.Counter("packages_read") != 1 {
			t.Errorf("from disk the features differ, or nothing was read (%d packages)", c.sim.Counter("packages_read"))
		}
	}
}
