// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// shapesOfTheFamily are networks for which there are no golden data: SwiGLU blocks with a
// trunk that begins at an odd block, as GIANT has them, and one view with sky, as METRIC
// and MONO. The plain loops say what their graphs mean, and every backend has to agree.
func shapesOfTheFamily(t *testing.T) map[string]*da3.Model {
	t.Helper()
	pool := par.New(1)
	defer pool.Close()
	out := map[string]*da3.Model{}
	for name, change := range map[string]func(*synth.Dims){
		"gated": func(d *synth.Dims) { d.Gated, d.Start = true, 3 },
		"sky":   func(d *synth.Dims) { d.Start = 0 },
	} {
		d, err := synth.Variant("da3_tiny")
		if err != nil {
			t.Fatal(err)
		}
		change(&d)
		list := synth.Tensors(pool, d.Files()[0].Specs, synth.Loud)
		m, err := da3.Open(weights.NewSetTensors(list, map[string]string{"dpt_hooks": "3,4,5,7", "enc_heads": "2"}))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = m
	}
	return out
}

func TestShapesOfTheFamily(t *testing.T) {
	devices := map[string]optest.Runner{"cpu": onMetalOrCPU(t, "cpu", 0), "metal": onMetalOrCPU(t, "metal", 0)}
	for name, m := range shapesOfTheFamily(t) {
		views := 2
		if !m.Views {
			views = 1
		}
		pics := make([]Picture, views)
		for i := range pics {
			pics[i] = Picture{Height: 42, Width: 56, F32: generated(fmt.Sprintf("image%d", i), 42, 56)}
		}
		want := (&viewsRun{t: t, run: optest.Reference, m: m}).whole(pics)
		for device, run := range devices {
			t.Run(name+"/"+device, func(t *testing.T) {
				got := (&viewsRun{t: t, run: run, m: m}).whole(pics)
				for what, v := range want {
					for _, x := range v.Data {
						if math.IsNaN(float64(x)) {
							t.Fatalf("%s is not a number", what)
						}
					}
					if d := golden.Compare(got[what].Data, v.Data); d.RelL2 > 1e-5 || d.NonFinite > 0 {
						t.Errorf("%s: relative L2 %.2g", what, d.RelL2)
					}
				}
			})
		}
	}
	m := shapesOfTheFamily(t)["sky"]
	if _, err := m.Trunk(2, vit.Grid{Rows: 3, Cols: 4}, false); err == nil {
		t.Error("two views were accepted by a network of one")
	}
}

// whole is every output of every part.
func (r *viewsRun) whole(pics []Picture) map[string]Value {
	r.t.Helper()
	m, h, w := r.m, pics[0].Height, pics[0].Width
	var in [][]byte
	for _, f := range r.encode(pics) {
		in = append(in, f32(f))
	}
	g, err := m.Trunk(len(pics), vit.Grid{Rows: h / m.Patch, Cols: w / m.Patch}, false)
	out := r.graph(g, err, in)
	var hooks [][]byte
	for k := range m.Hooks {
		hooks = append(hooks, f32(out[fmt.Sprintf("view0.hook%d", k)].Data))
	}
	hd, err := m.Head(h, w, m.Outputs())
	for name, v := range r.graph(hd, err, hooks) {
		out[name] = v
	}
	return out
}
