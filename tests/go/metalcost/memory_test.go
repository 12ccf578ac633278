// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// A Mac with 8 GB: two thirds of it are the working set that Metal recommends, and
// the largest buffer is the smallest that public logs have of such a machine.
const smallWorkingSet, smallBuffer = 5_300_000_000, 3_760_000_000

// TestMemoryPlan has the largest published model on the smallest Mac, in every
// precision and from files of both types: weights where they are, what had to be
// copied, and the most that the graphs may need besides. Each row is in
// docs/metal.md.
func TestMemoryPlan(t *testing.T) {
	s := open(t)
	s.Set("working_set", fmt.Sprint(smallWorkingSet))
	s.Set("max_buffer", fmt.Sprint(smallBuffer))
	s.Set("memory", "8589934592")
	raw, err := os.ReadFile(filepath.Join(root, "docs", "metal.md"))
	if err != nil {
		t.Fatal(err)
	}
	v, dir := variants[0], t.TempDir()
	specs, meta, err := v.specs("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    backend.Precision
		file tensor.DType
	}{{backend.FP16, tensor.F16}, {backend.BF16, tensor.BF16}, {backend.FP32, tensor.F32}, {backend.FP32, tensor.F16}} {
		path := filepath.Join(dir, fmt.Sprintf("%v_%v.safetensors", c.p, c.file))
		if err := sparse(path, specs, meta, c.file); err != nil {
			t.Fatal(err)
		}
		mapped, copied, m := plan(t, s, c.p, path, v.sizes[0])
		total := mapped + copied + m.peak + m.casts
		row := fmt.Sprintf("| %v | %v | %.2f | %.3f | %.2f | %.2f | %.2f |", c.p, c.file, gigabytes(mapped), gigabytes(copied), gigabytes(m.peak), gigabytes(m.casts), gigabytes(total))
		if !strings.Contains(string(raw), row) {
			t.Errorf("docs/metal.md has no row %s", row)
		}
		if total > smallWorkingSet {
			t.Errorf("%v of a %v file: %.2f GB, a Mac with 8 GB has %.2f", c.p, c.file, gigabytes(total), gigabytes(smallWorkingSet))
		}
		if c.p == backend.FP16 && m.casts > 1<<23 { // pixels and features are cast
			t.Errorf("half precision casts %d bytes in every run: weights are among them", m.casts)
		}
	}
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("%d violations, the first: %s", len(v), v[0])
	}
}

func gigabytes(n int64) float64 { return float64(n) / 1e9 }

// plan compiles the graphs of a pair of one size, all of which an engine keeps,
// and takes the largest: they run one after another.
func plan(t *testing.T, sim *metalsim.Sim, p backend.Precision, path string, s size) (mapped, copied int64, most memory) {
	t.Helper()
	set, err := weights.OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := mast3r.Open(set)
	if err != nil {
		t.Fatal(err)
	}
	grid := m.GridOf(s.height, s.width)
	var programs []backend.Program
	for _, build := range []func() (*graph.Graph, error){
		func() (*graph.Graph, error) { return m.Encoder(2, s.height, s.width) },
		func() (*graph.Graph, error) { return m.Decoder(1, grid, grid) },
		func() (*graph.Graph, error) { return m.Head(1, 1, s.height, s.width, mast3r.AllOutputs) },
		func() (*graph.Graph, error) { return m.Head(2, 1, s.height, s.width, mast3r.AllOutputs) },
	} {
		g, err := build()
		if err != nil {
			t.Fatal(err)
		}
		exe, err := b.Compile(context.Background(), g, backend.Options{Precision: p})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, exe)
		prog, err := parse(sim.Program())
		if err != nil {
			t.Fatal(err)
		}
		need := prog.memory()
		most = memory{max(most.peak, need.peak), most.casts + need.casts}
	}
	st := b.Stats()
	mapped, copied = int64(st.MappedBytes), int64(st.CopiedBytes+st.TableBytes)
	for _, x := range programs {
		err = errors.Join(err, x.Close())
	}
	if err := errors.Join(err, b.Close(), set.Close()); err != nil {
		t.Fatal(err)
	}
	return mapped, copied, most
}
