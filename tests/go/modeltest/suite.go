// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// Synthetic makes the model of a variant with the weights of its golden data;
// half rounds them to float16 first.
func Synthetic(t testing.TB, variant string, half bool) *mast3r.Model {
	t.Helper()
	pool := par.New(0)
	defer pool.Close()
	set, err := synth.Model(pool, variant)
	if err != nil {
		t.Fatal(err)
	}
	if half {
		set = rounded(t, set)
	}
	m, err := mast3r.Open(set)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rounded stores every tensor of a set as float16.
func rounded(t testing.TB, set *weights.Set) *weights.Set {
	t.Helper()
	var list []weights.Tensor
	for _, name := range set.Names() {
		shape := set.Shape(name)
		x, err := set.Need(name, shape)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 0, 2*shape.Numel())
		for _, f := range x.Float32s(make([]float32, shape.Numel())) {
			h := tensor.F16FromFloat32(f)
			data = append(data, byte(h), byte(h>>8))
		}
		list = append(list, weights.Tensor{Name: name, DType: tensor.F16, Shape: shape, Data: data})
	}
	return weights.NewSetTensors(list, set.Metadata())
}

// pictures reads CASE_viewV_0.png, CASE_viewV_1.png, ...
func pictures(t *testing.T, dir, name string, view int) []Picture {
	t.Helper()
	var pics []Picture
	for i := 0; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf("%s_view%d_%d.png", name, view, i))
		if _, err := os.Stat(path); err != nil {
			break
		}
		pix, w, h := golden.Picture(t, path)
		pics = append(pics, Picture{Height: h, Width: w, Pix: pix})
	}
	if len(pics) == 0 {
		t.Fatalf("no picture %s view %d in %s", name, view, dir)
	}
	return pics
}

// Micro runs every case of mast3r_micro or dune_micro, once with every
// intermediate and once as the engine does.
func Micro(t *testing.T, run optest.Runner, variant string, profile golden.Profile) {
	dir := golden.Path(t, "golden", variant)
	files, err := filepath.Glob(filepath.Join(dir, "*_view1_0.png"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", dir, err)
	}
	cases := map[string]string{"fp16_weights": "landscape"}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), "_view1_0.png")
		cases[name] = name
	}
	for name, picture := range cases {
		t.Run(variant+"/"+name, func(t *testing.T) {
			m := Synthetic(t, variant, name == "fp16_weights")
			c := golden.Load(t, filepath.Join(dir, name+".safetensors"))
			v1, v2 := pictures(t, dir, picture, 1), pictures(t, dir, picture, 2)
			Check(t, c, Pass{Model: m, Run: run, Taps: true}.Pair(t, v1, v2), true, profile)
			Check(t, c, Pass{Model: m, Run: run}.Pair(t, v1, v2), false, profile)
		})
	}
}

// Symmetric is the second pass of mast3r_micro's symmetric case: view 2 through
// the first decoder and head, view 1 through the second.
func Symmetric(t *testing.T, run optest.Runner, profile golden.Profile) {
	dir := golden.Path(t, "golden", "mast3r_micro")
	m := Synthetic(t, "mast3r_micro", false)
	c := golden.Load(t, filepath.Join(dir, "symmetric.safetensors"))
	v := Pass{Model: m, Run: run}.Pair(t, pictures(t, dir, "landscape", 2), pictures(t, dir, "landscape", 1))
	values := map[string]Value{}
	for name, x := range v {
		_, what, _ := strings.Cut(name, ".")
		what = strings.TrimSuffix(what, "_in_other_view")
		switch {
		case strings.HasPrefix(name, "pred1."):
			values["res22."+what] = x
		case strings.HasPrefix(name, "pred2."):
			values["res12."+what] = x
		}
	}
	Check(t, c, values, true, profile)
}

// Full runs one file of golden/fullsize, for example mast3r_mini at 96x64.
// Weights come in memory unless the model is given.
func Full(t *testing.T, run optest.Runner, m *mast3r.Model, variant, size string, profile golden.Profile) {
	dir := golden.Path(t, "golden", "fullsize")
	c := golden.Load(t, filepath.Join(dir, variant+"_"+size+".safetensors"))
	stats := golden.LoadStats(t, filepath.Join(dir, variant+".json"), size)
	if m == nil {
		m = Synthetic(t, variant, false)
	}
	var views [2][]Picture
	for v := range views {
		pix, w, h := golden.Picture(t, filepath.Join(dir, fmt.Sprintf("%s_view%d.png", size, v+1)))
		views[v] = []Picture{{Height: h, Width: w, Pix: pix}}
	}
	values := Pass{Model: m, Run: run, Taps: true}.Pair(t, views[0], views[1])
	Check(t, c, values, true, profile)
	for name := range stats {
		v, ok := values[name]
		if !ok {
			t.Errorf("no value for the statistics of %q", name)
			continue
		}
		// Half precision moves means and norms by what it rounds.
		limit := map[golden.Profile]float64{golden.FP32: 1e-4, golden.FP16: 1e-2}[profile]
		stats.Check(t, name, v.Data, v.Shape, limit)
	}
	Check(t, c, Pass{Model: m, Run: run}.Pair(t, views[0], views[1]), false, profile)
}

// Tiny runs the models of network.md 21, whose two views differ in size. Their
// files have names of their own, one picture and no batch.
func Tiny(t *testing.T, run optest.Runner, variant string, limit float64) {
	c := golden.Load(t, golden.Path(t, "golden", "tiny", variant+".safetensors"))
	sizes := map[string][2][2]int{"mast3r_tiny": {{48, 80}, {64, 48}}, "dunemast3r_tiny": {{42, 70}, {56, 56}}}[variant]
	var views [2][]Picture
	for v, s := range sizes {
		views[v] = []Picture{{Height: s[0], Width: s[1], F32: generated(fmt.Sprintf("image%d", v+1), s[0], s[1])}}
	}
	m := Synthetic(t, variant, false)
	values := Pass{Model: m, Run: run, Taps: true}.Pair(t, views[0], views[1])
	named := map[string]Value{}
	for v := 1; v <= 2; v++ {
		names := map[string]string{
			"enc%d": "enc%d.out", "dec%d_1": "dec%d.block0", "dec%d_6": "dec%d.block5", "dec%d_9": "dec%d.block8",
			"dec%d_12": "dec%d.out", "dpt%d": "head%d.dpt_raw", "conf%d": "pred%d.conf", "desc%d": "pred%d.desc",
			"desc_conf%d": "pred%d.desc_conf",
		}
		for to, from := range names {
			named[fmt.Sprintf(to, v)] = first(values[fmt.Sprintf(from, v)])
		}
		named[fmt.Sprintf("pts3d%d", v)] = first(values[predName(v, "points")])
	}
	for _, name := range c.Names() {
		x, ok := named[name]
		if !ok {
			t.Errorf("golden tensor %q was not computed", name)
			continue
		}
		c.CheckRel(t, name, x.Data, x.Shape, limit)
	}
}

// first drops the batch dimension.
func first(v Value) Value { return Value{v.Shape[1:], v.Data} }

// generated is a picture of network.md 21, [3,H,W] by the formula, as [H,W,3].
func generated(name string, h, w int) []float32 {
	out := make([]float32, 3*h*w)
	for i := range out {
		ch, p := i/(h*w), i%(h*w)
		out[3*p+ch] = float32(float64(synth.Bits(name, i)>>40)/(1<<23) - 1)
	}
	return out
}

// Trained runs the model that ships in the wheel on the golden pair of real
// photographs.
func Trained(t *testing.T, run optest.Runner, modelPath string, profile golden.Profile) {
	dir := golden.Path(t, "golden", "tiny_trained")
	set, err := weights.OpenSet(modelPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	m, err := mast3r.Open(set)
	if err != nil {
		t.Fatal(err)
	}
	c := golden.Load(t, filepath.Join(dir, "motorcycle_256x176.safetensors"))
	var views [2][]Picture
	for v := range views {
		pix, w, h := golden.Picture(t, filepath.Join(dir, fmt.Sprintf("motorcycle_256x176_view%d.png", v+1)))
		views[v] = []Picture{{Height: h, Width: w, Pix: pix}}
	}
	values := Pass{Model: m, Run: run}.Pair(t, views[0], views[1])
	for name, v := range values {
		// The file's strides, which it only has in words.
		stride := 2
		if strings.HasSuffix(name, ".desc") {
			stride = 4
		}
		values[name] = every(v, stride)
	}
	Check(t, c, values, true, profile)
}

// every keeps each stride-th row and column of [B,H,W,...].
func every(v Value, stride int) Value {
	if len(v.Shape) < 3 || stride == 1 {
		return v
	}
	h, w := v.Shape[1], v.Shape[2]
	inner := v.Shape[3:].Numel()
	out := Value{Shape: v.Shape.Clone()}
	out.Shape[1], out.Shape[2] = (h+stride-1)/stride, (w+stride-1)/stride
	for b := range v.Shape[0] {
		for y := 0; y < h; y += stride {
			for x := 0; x < w; x += stride {
				at := ((b*h+y)*w + x) * inner
				out.Data = append(out.Data, v.Data[at:at+inner]...)
			}
		}
	}
	return out
}

// Errors are the relative L2 errors of a network's outputs against one file of
// golden/fullsize, by their names.
func Errors(t *testing.T, run optest.Runner, m *mast3r.Model, variant, size string) map[string]float64 {
	dir := golden.Path(t, "golden", "fullsize")
	c := golden.Load(t, filepath.Join(dir, variant+"_"+size+".safetensors"))
	var views [2][]Picture
	for v := range views {
		pix, w, h := golden.Picture(t, filepath.Join(dir, fmt.Sprintf("%s_view%d.png", size, v+1)))
		views[v] = []Picture{{Height: h, Width: w, Pix: pix}}
	}
	out := map[string]float64{}
	for name, v := range (Pass{Model: m, Run: run}).Pair(t, views[0], views[1]) {
		if !c.Has(name) {
			continue
		}
		d, _, err := c.Diff(t, name, v.Data, v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = d.RelL2
	}
	if len(out) < 8 {
		t.Fatalf("only %d outputs were compared", len(out))
	}
	return out
}
