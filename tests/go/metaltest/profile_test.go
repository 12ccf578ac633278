// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metaltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
)

// TestProfileOnGPU: one command buffer a pair, or one a stage when every stage is
// waited for; times come from the command buffers' own clocks.
func TestProfileOnGPU(t *testing.T) {
	s := metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp16", Resolution: 64}, "mast3r_micro")
	for wait, buffers := range map[bool]int{false: 1, true: 4} {
		before := s.Counter("commits")
		p, err := e.Profile(background, picture(48, 64, 0), picture(48, 64, 3), gomps.ProfileOptions{Iterations: 3, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		if p.CommandBuffers != buffers || s.Counter("commits")-before != int64(4*buffers) {
			t.Errorf("wait %v: %d command buffers a pair, %d in all, want %d and %d", wait, p.CommandBuffers, s.Counter("commits")-before, buffers, 4*buffers)
		}
		if p.Measured != wait || p.OpsMeasured || len(p.Stages) != 4 || p.DeviceMS <= 0 {
			t.Errorf("wait %v: %+v", wait, p)
		}
		var ops float64
		for _, o := range p.Ops {
			ops += o.MS
		}
		if ops <= 0 || ops > 10*p.DeviceMS {
			t.Errorf("operations take %.3f ms of %.3f", ops, p.DeviceMS)
		}
		if i := e.Info(); i.LiveBuffers != 0 {
			t.Errorf("%d buffers are left", i.LiveBuffers)
		}
	}
	s.Set("fail_command", "2")
	if _, err := e.Profile(background, picture(48, 64, 0), picture(48, 64, 3), gomps.ProfileOptions{Wait: true}); err == nil {
		t.Error("a failing command buffer gave a profile")
	}
}

// TestCostIsWhatIsLowered: the counts of the static report are those of the graph
// that MPSGraph gets. It gets one more transpose with each product, of the
// weight, which it folds into the product.
func TestCostIsWhatIsLowered(t *testing.T) {
	s := metalsim.Open(t)
	s.Set("os", "26.0") // on 15, attention in float32 is products
	b, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m := modeltest.Synthetic(t, "mast3r_micro", false)
	cost, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: modelDir(t, "mast3r_micro"), Height1: 48, Width1: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i, build := range []func() (*graph.Graph, error){
		func() (*graph.Graph, error) { return m.Encoder(2, 48, 64) },
		func() (*graph.Graph, error) { return m.Decoder(1, m.GridOf(48, 64), m.GridOf(48, 64)) },
	} {
		g, err := build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Compile(background, g, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ops := p.(*metal.Program).Ops()
		got, want := cost.Graphs[i], ops["transpose"]-ops["matmul"]
		if got.Transposes != want {
			t.Errorf("%s: %d transposes, MPSGraph gets %d", got.Name, got.Transposes, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
