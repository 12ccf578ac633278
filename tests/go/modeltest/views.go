// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// viewCases are the cases of views.safetensors: the rule by which the reference
// view was chosen, and the view that it chose.
var viewCases = map[string]struct {
	rule      string
	reference int
}{"n1": {da3.Saddle, 0}, "n2": {da3.Saddle, 0}, "n3f": {da3.First, 0}, "n3s": {da3.Saddle, 1}}

// Multiview opens a network of many views.
func Multiview(t testing.TB, path string) *da3.Model {
	t.Helper()
	set, err := weights.OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	m, err := da3.Open(set)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// SmallViews are the cases that this repository holds.
var SmallViews = filepath.Join("internal", "model", "da3", "testdata")

// Views runs every case of a folder with tiny.safetensors and views.safetensors and
// compares every tensor in it. The result are the worst errors by what was compared.
func Views(t *testing.T, run optest.Runner, dir string, limit float64) map[string]float64 {
	t.Helper()
	worst := map[string]float64{}
	m := Multiview(t, filepath.Join(dir, "tiny.safetensors"))
	c := golden.Load(t, filepath.Join(dir, "views.safetensors"))
	seen := 0
	for name, want := range viewCases {
		if !c.Has(name + ".image") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := &viewsRun{t: t, run: run, m: m}
			values := r.all(r.images(c, name+".image"), want.rule, want.reference, limit <= exactLimit)
			for what, v := range values {
				if key := name + "." + what; c.Has(key) {
					c.CheckRel(t, key, v.Data, v.Shape, limit)
					seen++
					if d, _, err := c.Diff(t, key, v.Data, v.Shape); err == nil {
						worst[what] = max(worst[what], d.RelL2)
					}
				}
			}
		})
	}
	left := slices.DeleteFunc(slices.Clone(c.Names()), func(n string) bool { return filepath.Ext(n) == ".image" })
	if seen != len(left) {
		t.Errorf("%d of %d golden tensors were compared", seen, len(left))
	}
	return worst
}

// Posed is the case whose cameras are known.
func Posed(t *testing.T, run optest.Runner, dir string, limit float64) {
	m := Multiview(t, filepath.Join(dir, "posed.safetensors"))
	c := golden.Load(t, filepath.Join(dir, "posed.out.safetensors"))
	r := &viewsRun{t: t, run: run, m: m}
	images := r.images(c, "image")
	ext, _ := c.Floats(t, "ext")
	ixt, _ := c.Floats(t, "ixt")
	cameras := make([]da3.Camera, len(images))
	for i := range cameras {
		var k [3][3]float64
		var toCamera [3][4]float64
		for row := range 3 {
			for col := range 4 {
				toCamera[row][col] = float64(ext[16*i+4*row+col])
			}
			for col := range 3 {
				k[row][col] = float64(ixt[9*i+3*row+col])
			}
		}
		cameras[i] = da3.CameraOf(da3.Inverse(toCamera), k, images[i].Height, images[i].Width)
	}
	pose := da3.Encode(cameras)
	c.CheckRel(t, "enc", pose, tensor.Shape{len(images), da3.PoseDim}, limit)
	g, err := m.Tokens(len(images))
	tokens := r.graph(g, err, [][]byte{f32(pose)})["cameras"]
	c.CheckRel(t, "tok", tokens.Data, tokens.Shape, limit)
	for name, v := range r.given(images, tokens.Data) {
		if c.Has(name) {
			c.CheckRel(t, name, v.Data, v.Shape, limit)
		}
	}
}

// viewsRun runs the parts of a network of many views.
type viewsRun struct {
	t   *testing.T
	run optest.Runner
	m   *da3.Model
}

// images reads f32 [N,H,W,3].
func (r *viewsRun) images(c *golden.Case, name string) []Picture {
	r.t.Helper()
	data, s := c.Floats(r.t, name)
	pics := make([]Picture, s[0])
	size := s[1:].Numel()
	for i := range pics {
		pics[i] = Picture{Height: s[1], Width: s[2], F32: data[i*size : (i+1)*size]}
	}
	return pics
}

func (r *viewsRun) graph(g *graph.Graph, err error, in [][]byte) map[string]Value {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := r.run(g, in)
	if err != nil {
		r.t.Fatal(err)
	}
	values := map[string]Value{}
	for i, o := range g.Outputs {
		values[o.Name] = Value{o.Node.Shape, floats(out[i])}
	}
	return values
}

// encode returns the features of all pictures.
func (r *viewsRun) encode(pics []Picture) [][]float32 {
	r.t.Helper()
	var in [][]byte
	for _, p := range pics {
		in = append(in, f32(p.F32))
	}
	g, err := r.m.EncoderF32(len(pics), pics[0].Height, pics[0].Width)
	out := r.graph(g, err, in)
	feats := make([][]float32, len(pics))
	for i := range feats {
		feats[i] = out[fmt.Sprintf("feat%d", i)].Data
	}
	return feats
}

// exactLimit is the largest bound of a precision in which the choice of the reference
// view is judged. It goes by the larger of nearly equal scores: in half precision each
// processor may choose another view, and then every number is another, none of them wrong.
const exactLimit = 1e-4

// all runs the network with a reference view, which is the one that the rule chooses where that is judged.
func (r *viewsRun) all(pics []Picture, rule string, reference int, judged bool) map[string]Value {
	r.t.Helper()
	feats := r.encode(pics)
	class := make([][]float32, len(feats))
	for i, f := range feats {
		class[i] = f[:r.m.Dim]
	}
	chosen, err := da3.Reference(class, rule)
	if err != nil {
		r.t.Fatal(err)
	}
	if judged && chosen != reference {
		r.t.Errorf("reference view %d, want %d", chosen, reference)
	}
	return r.trunk(pics, feats, da3.Order(len(pics), reference), nil)
}

// given runs the network with known cameras.
func (r *viewsRun) given(pics []Picture, cameras []float32) map[string]Value {
	r.t.Helper()
	return r.trunk(pics, r.encode(pics), da3.Order(len(pics), 0), cameras)
}

// trunk runs everything after the encoder; values are in the order of pics.
func (r *viewsRun) trunk(pics []Picture, feats [][]float32, order []int, cameras []float32) map[string]Value {
	r.t.Helper()
	m, h, w := r.m, pics[0].Height, pics[0].Width
	var in [][]byte
	for _, i := range order {
		in = append(in, f32(feats[i]))
	}
	if cameras != nil {
		in = append(in, f32(cameras))
	}
	g, err := m.Trunk(len(pics), vit.Grid{Rows: h / m.Patch, Cols: w / m.Patch}, cameras != nil)
	trunk := r.graph(g, err, in)
	c, err := m.Camera(len(pics))
	pose := r.graph(c, err, [][]byte{f32(trunk["camera"].Data)})["pose"]
	parts := map[string][]Value{}
	for place, i := range order {
		add := func(name string, v Value) {
			if parts[name] == nil {
				parts[name] = make([]Value, len(order))
			}
			parts[name][i] = v
		}
		add("pose", Value{tensor.Shape{1, da3.PoseDim}, pose.Data[da3.PoseDim*place : da3.PoseDim*(place+1)]})
		var hooks [][]byte
		for k := range m.Hooks {
			v := trunk[fmt.Sprintf("view%d.hook%d", place, k)]
			add(fmt.Sprintf("feat%d", k), v)
			hooks = append(hooks, f32(v.Data))
		}
		hd, err := m.Head(h, w, m.Outputs())
		for name, v := range r.graph(hd, err, hooks) {
			add(map[string]string{"depth": "depth", "conf": "depth_conf", "rays": "ray", "ray_conf": "ray_conf"}[name], v)
		}
	}
	out := map[string]Value{}
	for name, list := range parts {
		v := Value{Shape: append(tensor.Shape{len(list)}, list[0].Shape[1:]...)}
		for _, x := range list {
			v.Data = append(v.Data, x.Data...)
		}
		out[name] = v
	}
	return out
}

// f32 and floats are float32s as bytes and back.
func f32(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
