// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// move runs an operation that places elements without computing; it keeps the
// type whatever it is.
func (c *Context) move(key string, build func(g *graph.Graph, in []*graph.Node) *graph.Node, in ...*Tensor) (*Tensor, error) {
	out, err := c.run(key, func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		return []*graph.Node{build(g, in)}
	}, in...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// Reshape gives the elements, in their order, new dimensions; one may be -1.
func (c *Context) Reshape(x *Tensor, shape ...int) (*Tensor, error) {
	if err := given("reshape", x); err != nil {
		return nil, err
	}
	s := dt.Shape(shape).Clone()
	known, free := 1, -1
	for i, d := range s {
		switch {
		case d >= 0:
			known *= d
		case d == -1 && free < 0:
			free = i
		default:
			return nil, refuse(ErrShape, "reshape %v to %v", x.shape, s)
		}
	}
	if free >= 0 && known > 0 {
		s[free] = x.Numel() / known
	}
	if free >= 0 && known == 0 || s.Numel() != x.Numel() {
		return nil, refuse(ErrShape, "reshape %v to %v", x.shape, dt.Shape(shape))
	}
	return c.move(keyOf("reshape", s...), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.Reshape{Shape: s}, in[0])
	}, x)
}

// Transpose exchanges the last two dimensions.
func (c *Context) Transpose(x *Tensor) (*Tensor, error) {
	if err := given("transpose", x); err != nil {
		return nil, err
	}
	if len(x.shape) < 2 {
		return nil, refuse(ErrShape, "transpose of %v, want at least 2 dimensions", x.shape)
	}
	perm := make([]int, len(x.shape))
	for i := range perm {
		perm[i] = i
	}
	n := len(perm)
	perm[n-2], perm[n-1] = n-1, n-2
	return c.Permute(x, perm...)
}

// Permute reorders the dimensions: result dimension i is dimension perm[i].
func (c *Context) Permute(x *Tensor, perm ...int) (*Tensor, error) {
	return c.move(keyOf("permute", perm...), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Transpose(in[0], perm...)
	}, x)
}

// NHWCToNCHW and NCHWToNHWC move the channels of feature maps.
func (c *Context) NHWCToNCHW(x *Tensor) (*Tensor, error) { return c.Permute(x, 0, 3, 1, 2) }
func (c *Context) NCHWToNHWC(x *Tensor) (*Tensor, error) { return c.Permute(x, 0, 2, 3, 1) }

// Concat joins tensors along axis.
func (c *Context) Concat(axis int, in ...*Tensor) (*Tensor, error) {
	return c.move(keyOf("concat", axis, len(in)), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Concat(axis, in...)
	}, in...)
}

// Slice takes begin, begin+step, ... up to but without end, on every axis. A
// negative step walks down; there end may be -1 to include index 0.
func (c *Context) Slice(x *Tensor, begin, end, step []int) (*Tensor, error) {
	if err := given("slice", x); err != nil {
		return nil, err
	}
	if len(begin) != len(x.shape) || len(end) != len(x.shape) || len(step) != len(x.shape) {
		return nil, refuse(ErrShape, "slice of %v by begin %v, end %v, step %v", x.shape, begin, end, step)
	}
	for i, s := range step {
		if s < 0 && (begin[i] < 0 || begin[i] >= x.shape[i] || end[i] < -1) {
			return nil, refuse(ErrShape, "slice of %v down from %v to %v", x.shape, begin, end)
		}
	}
	key := fmt.Sprintf("slice%v%v%v", begin, end, step)
	return c.move(key, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		o := graph.Slice{Begin: append([]int{}, begin...), End: append([]int{}, end...), Step: append([]int{}, step...)}
		reversed := map[int][]int{}
		for i, s := range step {
			if s >= 0 {
				continue
			}
			// The graph has no negative steps: such an axis is gathered.
			for j := begin[i]; j > end[i] && j >= 0; j += s {
				reversed[i] = append(reversed[i], j)
			}
			o.Begin[i], o.End[i], o.Step[i] = 0, x.shape[i], 1
		}
		y := g.Add(o, in[0])
		for axis := range step {
			if idx, ok := reversed[axis]; ok {
				y = g.Add(graph.Gather{Axis: axis}, y, indices(g, idx))
			}
		}
		return y
	}, x)
}

// indices is a constant vector of int32 numbers.
func indices(g *graph.Graph, v []int) *graph.Node {
	data := make([]byte, 4*len(v))
	for i, x := range v {
		view[int32](data)[i] = int32(x)
	}
	return g.Add(graph.Param{Shape: dt.Shape{len(v)}, DType: dt.I32, Data: data})
}

// Split cuts x along axis into parts of the given sizes, which must add up.
func (c *Context) Split(x *Tensor, axis int, sizes ...int) ([]*Tensor, error) {
	if err := given("split", x); err != nil {
		return nil, err
	}
	if axis < 0 {
		axis += len(x.shape)
	}
	sum := 0
	for _, s := range sizes {
		sum += s
	}
	if axis < 0 || axis >= len(x.shape) || sum != x.shape[axis] || len(sizes) == 0 {
		return nil, refuse(ErrShape, "split %v along axis %d into %v", x.shape, axis, sizes)
	}
	return c.run(fmt.Sprintf("split%d%v", axis, sizes), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		out := make([]*graph.Node, len(sizes))
		at := 0
		for i, s := range sizes {
			out[i] = g.SliceAxis(in[0], axis, at, at+s)
			at += s
		}
		return out
	}, x)
}

// maxParts bounds the parts of one call: each is a tensor and a node of a graph.
const maxParts = 4096

// Chunk cuts x along axis into n equal parts, 4096 at most.
func (c *Context) Chunk(x *Tensor, axis, n int) ([]*Tensor, error) {
	if err := given("chunk", x); err != nil {
		return nil, err
	}
	a := axis
	if a < 0 {
		a += len(x.shape)
	}
	if a < 0 || a >= len(x.shape) || n < 1 || n > maxParts || x.shape[a]%n != 0 {
		return nil, refuse(ErrShape, "%v into %d chunks along axis %d", x.shape, n, axis)
	}
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = x.shape[a] / n
	}
	return c.Split(x, a, sizes...)
}

// Broadcast repeats dimensions of size 1, and missing leading ones, to shape.
func (c *Context) Broadcast(x *Tensor, shape ...int) (*Tensor, error) {
	return c.move(keyOf("broadcast", shape...), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.Broadcast{Shape: shape}, in[0])
	}, x)
}

// Pad surrounds x with value.
func (c *Context) Pad(x *Tensor, before, after []int, value float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("pad%v%v%x", before, after, value), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.Pad{Before: before, After: after, Value: value}, in[0])
	}, x)
}

// Gather takes entries of x along axis by the indices in idx (int32). An index
// outside is an error; indices that an operation computed are read for that once,
// which waits for the device.
func (c *Context) Gather(x, idx *Tensor, axis int) (*Tensor, error) {
	if err := given("gather", x, idx); err != nil {
		return nil, err
	}
	if a := axis + len(x.shape); axis >= 0 && axis < len(x.shape) || axis < 0 && a >= 0 {
		if err := checkIndices("gather", idx, x.Dim(axis)); err != nil {
			return nil, err
		}
	}
	return c.move(keyOf("gather", axis), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.Gather{Axis: axis}, in[0], in[1])
	}, x, idx)
}

// Embedding takes rows of a table [words,dim] by idx.
func (c *Context) Embedding(table, idx *Tensor) (*Tensor, error) { return c.Gather(table, idx, 0) }

// ScatterAdd adds the rows of x [n,...] to rows rows of zeros at idx [n]: the
// gradient of Gather along axis 0 and of Embedding.
func (c *Context) ScatterAdd(x, idx *Tensor, rows int) (*Tensor, error) {
	if err := given("scatter_add", x, idx); err != nil {
		return nil, err
	}
	if err := checkIndices("scatter_add", idx, rows); err != nil {
		return nil, err
	}
	return c.compute(keyOf("scatter_add", rows), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.ScatterAdd{Rows: rows}, in[0], in[1])
	}, x, idx)
}

// Scatter is x [rows,...] with the rows at idx [n] replaced by those of src
// [n,...]. Where several rows go to one place, it gets their mean.
func (c *Context) Scatter(x, idx, src *Tensor) (*Tensor, error) {
	if err := given("scatter", x, idx, src); err != nil {
		return nil, err
	}
	if len(x.shape) < 1 || len(src.shape) < 1 || !x.shape[1:].Equal(src.shape[1:]) {
		return nil, refuse(ErrShape, "scatter rows of %v into %v", src.shape, x.shape)
	}
	if err := checkIndices("scatter", idx, x.shape[0]); err != nil {
		return nil, err
	}
	return c.compute("scatter", func(g *graph.Graph, in []*graph.Node) *graph.Node {
		x, idx, src := in[0], in[1], in[2]
		rows, n := x.Shape[0], src.Shape[0]
		ones := make([]float32, n)
		for i := range ones {
			ones[i] = 1
		}
		count := g.Add(graph.ScatterAdd{Rows: rows}, floats(g, ones, n), idx)
		per := make([]int, len(x.Shape))
		for i := range per {
			per[i] = 1
		}
		per[0] = rows
		sum := g.Add(graph.ScatterAdd{Rows: rows}, src, idx)
		mean := g.Binary(graph.Div, sum, g.Reshape(g.Binary(graph.Maximum, count, floats(g, []float32{1}, 1)), per...))
		// Rows are chosen by index and not by a product with 0, which would keep
		// the NaN of a row that is to be replaced.
		from := make([]float32, rows)
		for i := range from {
			from[i] = float32(i)
		}
		at := g.AddTo(floats(g, from, rows), g.Affine(g.Unary(graph.Step, count), float32(rows), 0))
		return g.Add(graph.Gather{Axis: 0}, g.Concat(0, x, mean), g.Cast(at, dt.I32))
	}, x, idx, src)
}

// floats is a constant float32 tensor.
func floats(g *graph.Graph, v []float32, shape ...int) *graph.Node {
	data := make([]byte, 4*len(v))
	copy(view[float32](data), v)
	return g.Add(graph.Param{Shape: shape, DType: dt.F32, Data: data})
}

var shapeOps = []row{
	{"copy(x)", "A new tensor with the same elements.", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return one(in[0].Copy()) }},
	{"cast(x; to string)", "Convert to f32, f16 or i32.", "cast", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		d, err := parseDType(a.text("to"))
		if err != nil {
			return nil, err
		}
		return one(c.Cast(in[0], d))
	}},
	{"reshape(x; shape ints)", "Other dimensions, the same order of elements; one may be -1.", "reshape", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Reshape(in[0], a.ints("shape")...))
	}},
	{"transpose(x)", "Exchange the last two dimensions.", "transpose", map1((*Context).Transpose)},
	{"permute(x; perm ints)", "Reorder the dimensions.", "permute", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Permute(in[0], a.ints("perm")...))
	}},
	{"nhwc_to_nchw(x)", "Channels from last to second.", "nchw_to_nhwc", map1((*Context).NHWCToNCHW)},
	{"nchw_to_nhwc(x)", "Channels from second to last.", "nhwc_to_nchw", map1((*Context).NCHWToNHWC)},
	{"concat(x...; axis int)", "Join along an axis.", "split", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Concat(a.int("axis"), in...))
	}},
	{"split(x; axis int, sizes ints) -> parts...", "Cut into parts of the given sizes.", "concat", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return c.Split(in[0], a.int("axis"), a.ints("sizes")...)
	}},
	{"chunk(x; axis int, n int) -> parts...", "Cut into n equal parts.", "concat", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return c.Chunk(in[0], a.int("axis"), a.int("n"))
	}},
	{"slice(x; begin ints, end ints, step ints)", "begin, begin+step, ... up to end, on every axis; steps may be negative.", "pad", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Slice(in[0], a.ints("begin"), a.ints("end"), a.ints("step")))
	}},
	{"broadcast(x; shape ints)", "Repeat dimensions of size 1, and missing leading ones.", "sum", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Broadcast(in[0], a.ints("shape")...))
	}},
	{"pad(x; before ints, after ints, value float = 0)", "Surround with a value.", "slice", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Pad(in[0], a.ints("before"), a.ints("after"), a.float("value")))
	}},
	{"gather(x, index; axis int)", "Entries along an axis by index.", "scatter_add", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Gather(in[0], in[1], a.int("axis")))
	}},
	{"embedding(table, index)", "Rows of a table by index.", "scatter_add", map2((*Context).Embedding)},
	{"scatter(x, index, src)", "x with the rows at index replaced by those of src.", "gather", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.Scatter(in[0], in[1], in[2]))
	}},
	{"scatter_add(x, index; rows int)", "Add rows at their indices to zeros: the gradient of embedding.", "gather", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ScatterAdd(in[0], in[1], a.int("rows")))
	}},
}
