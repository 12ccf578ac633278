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

// Shapes runs networks of the family's other kinds, and holds every output of every part
// against the plain loops.
func Shapes(t *testing.T, run optest.Runner, limit float64) {
	t.Helper()
	for name, m := range shapesOfTheFamily(t) {
		views := 2
		if !m.Views {
			views = 1
		}
		pics := make([]Picture, views)
		for i := range pics {
			pics[i] = Picture{Height: 42, Width: 56, F32: generated(fmt.Sprintf("image%d", i), 42, 56)}
		}
		t.Run(name, func(t *testing.T) {
			want := (&viewsRun{t: t, run: optest.Reference, m: m}).whole(pics)
			agree(t, (&viewsRun{t: t, run: run, m: m}).whole(pics), want, limit)
		})
	}
}

// Agree runs a pair through a network of pairs and holds every intermediate against the
// plain loops. It needs no golden data.
func Agree(t *testing.T, run optest.Runner, variant string, limit float64) {
	t.Helper()
	m := Synthetic(t, variant, false)
	p := m.Patch
	var views [2][]Picture
	for v, s := range [2][2]int{{3 * p, 4 * p}, {4 * p, 2 * p}} {
		views[v] = []Picture{{Height: s[0], Width: s[1], F32: generated(fmt.Sprintf("image%d", v), s[0], s[1])}}
	}
	want := Pass{Model: m, Run: optest.Reference, Taps: true}.Pair(t, views[0], views[1])
	agree(t, Pass{Model: m, Run: run, Taps: true}.Pair(t, views[0], views[1]), want, limit)
}

// agree compares values by name.
func agree(t *testing.T, got, want map[string]Value, limit float64) {
	t.Helper()
	worst := 0.0
	for what, v := range want {
		for _, x := range v.Data {
			if math.IsNaN(float64(x)) {
				t.Fatalf("%s is not a number", what)
			}
		}
		d := golden.Compare(got[what].Data, v.Data)
		if !(d.RelL2 <= limit) || d.NonFinite > 0 {
			t.Errorf("%s: relative L2 %.2g", what, d.RelL2)
		}
		worst = max(worst, d.RelL2)
	}
	t.Logf("%d tensors, the worst %.2g", len(want), worst)
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
