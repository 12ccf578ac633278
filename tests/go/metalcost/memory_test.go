// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A Mac with 8 GB: two thirds of it are the working set that Metal recommends, and
// the largest buffer is the smallest that public logs have of such a machine.
const smallWorkingSet, smallBuffer = 5_300_000_000, 3_760_000_000

// TestMemoryPlan has the largest published model on the smallest Mac, in every
// precision and from files of its own and of another type: weights where they are,
// what had to be copied, and the most that the graphs may need besides. Each row is in
// docs/metal.md.
func TestMemoryPlan(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "metal.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    backend.Precision
		file tensor.DType
	}{{backend.FP16, tensor.F16}, {backend.FP16, tensor.F32}, {backend.BF16, tensor.BF16}, {backend.FP32, tensor.F32}, {backend.FP32, tensor.F16}} {
		t.Run(fmt.Sprintf("%v of %v", c.p, c.file), func(t *testing.T) {
			m := plan(t, c.p, c.file, variants[0], 1<<26)
			total := m.mapped + m.copied + m.peak + m.casts
			row := fmt.Sprintf("| %v | %v | %.2f | %.3f | %.2f | %.2f |", c.p, c.file, gigabytes(m.mapped), gigabytes(m.copied), gigabytes(m.peak), gigabytes(total))
			if !strings.Contains(string(raw), row) {
				t.Errorf("docs/metal.md has no row %s", row)
			}
			if total > smallWorkingSet {
				t.Errorf("%.2f GB, a Mac with 8 GB has %.2f", gigabytes(total), gigabytes(smallWorkingSet))
			}
		})
	}
}

// TestMemoryOfLoading: from every kind of file and in every precision no graph casts
// a weight, and placing the weights takes no more than what stays of it. Of a file
// that is converted no large part may count as the device's.
func TestMemoryOfLoading(t *testing.T) {
	for _, file := range []tensor.DType{tensor.F16, tensor.BF16, tensor.F32} {
		for _, p := range []backend.Precision{backend.FP16, backend.BF16, backend.FP32} {
			t.Run(fmt.Sprintf("%v of %v", p, file), func(t *testing.T) { plan(t, p, file, variants[len(variants)-1], 1<<25) })
		}
	}
}

// planned is what the graphs of a pair need.
type planned struct {
	memory
	mapped, copied int64 // weights, as they stay
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func gigabytes(n int64) float64 { return float64(n) / 1e9 }

// plan compiles the graphs of a pair of one size, all of which an engine keeps,
// and takes the largest: they run one after another. slack is for the graphs, and for
// the whole pages around vectors in place.
func plan(t *testing.T, p backend.Precision, file tensor.DType, v variant, slack int64) (most planned) {
	t.Helper()
	sim := open(t)
	sim.Set("working_set", fmt.Sprint(smallWorkingSet))
	sim.Set("max_buffer", fmt.Sprint(smallBuffer))
	sim.Set("memory", "8589934592")
	specs, meta, err := v.specs(wheelPath)
	must(t, err)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	must(t, sparse(path, specs, meta, file))
	set, err := weights.OpenSet(path)
	must(t, err)
	b, err := metal.New(metal.Config{})
	must(t, err)
	m, err := mast3r.Open(set)
	must(t, err)
	s := v.sizes[0]
	grid := m.GridOf(s.height, s.width)
	var programs []backend.Program
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	live := sim.Counter("buffer_bytes_live")
	for _, build := range []func() (*graph.Graph, error){
		func() (*graph.Graph, error) { return m.Encoder(2, s.height, s.width) },
		func() (*graph.Graph, error) { return m.Decoder(1, grid, grid) },
		func() (*graph.Graph, error) { return m.Head(1, 1, s.height, s.width, mast3r.AllOutputs) },
		func() (*graph.Graph, error) { return m.Head(2, 1, s.height, s.width, mast3r.AllOutputs) },
	} {
		g, err := build()
		must(t, err)
		exe, err := b.Compile(context.Background(), g, backend.Options{Precision: p})
		must(t, err)
		programs = append(programs, exe)
		prog, err := parse(sim.Program())
		must(t, err)
		need := prog.memory()
		most.memory = memory{max(most.peak, need.peak), most.casts + need.casts}
	}
	runtime.ReadMemStats(&after)
	st := b.Stats()
	most.mapped, most.copied = int64(st.MappedBytes), int64(st.CopiedBytes+st.TableBytes)
	if most.casts > 1<<24 { // pixels and features are cast
		t.Errorf("%d bytes are cast in every run: weights are among them", most.casts)
	}
	loading := sim.Counter("buffer_bytes_peak") - live + int64(after.TotalAlloc-before.TotalAlloc)
	if limit := most.mapped + most.copied + slack; loading > limit {
		t.Errorf("%d bytes at the most while loading, %d in place and %d copied stay", loading, most.mapped, most.copied)
	}
	for _, x := range programs {
		err = errors.Join(err, x.Close())
	}
	must(t, errors.Join(err, b.Close(), set.Close()))
	return most
}
