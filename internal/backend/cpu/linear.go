// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// activations are the ones that gemm knows: all that graph has.
var activations = map[graph.Activation]gemm.Act{
	graph.ActNone: gemm.None, graph.ActRelu: gemm.ReLU, graph.ActGelu: gemm.GELU,
}

// epilogue are the views of a fused epilogue's operands; a view with no columns
// is absent.
type epilogue struct{ bias, gamma, res view }

// set points the epilogue at the memory of this run.
func (v *epilogue) set(e *exec, ep *gemm.Epilogue) {
	if v.bias.c > 0 {
		ep.Bias = e.f32(v.bias)
	}
	if v.gamma.c > 0 {
		ep.Gamma = e.f32(v.gamma)
	}
	if v.res.c > 0 {
		ep.Res, ep.LDR = e.f32(v.res), v.res.ld
	}
}

// operands takes the optional operands that the flags name, in order.
func (l *lowering) operands(in []*graph.Node, flags ...bool) []view {
	v := make([]view, len(flags))
	for i, has := range flags {
		if has {
			v[i] = l.operand(in[0])
			in = in[1:]
		}
	}
	return v
}

// factor is the second operand of a product: packed once when it is a Param,
// at every run otherwise. Networks multiply by weights; that both factors are
// activations happens in the tests of single operations and in eager use.
type factor struct {
	packed *gemm.Packed // of an activation, its layout
	src    gemm.Source  // of an activation; Data is set at run time
	from   view         // of an activation
	holds  bool         // an activation's packed has memory
}

// factorOf prepares w as n rows of k. src describes the layout of its elements,
// seen from element offset on.
func (l *lowering) factorOf(w *graph.Node, src gemm.Source, n, k, offset int, opt lowerOptions) (factor, error) {
	if p, ok := w.Op.(graph.Param); ok {
		src.Data, src.Type = p.Data[offset*p.DType.Size():], p.DType
		pw, err := l.b.weights.get(l.pool, p, src, n, k, opt.stored(p.DType), offset)
		if err != nil {
			return factor{}, err
		}
		l.weights = append(l.weights, pw)
		return factor{packed: pw.packed}, nil
	}
	v := l.operand(w)
	if !v.dense() {
		return factor{}, fmt.Errorf("a weight that is a view: %w", ErrUnsupported)
	}
	v.off += offset
	src.Type = tensor.F32
	return l.dynamic(v, src, n, k, 1)
}

// dynamic leaves an activation where it is until a run.
func (l *lowering) dynamic(v view, src gemm.Source, n, k, batch int) (factor, error) {
	packed, err := gemm.Layout(tensor.F32, n, k, batch)
	return factor{packed: packed, src: src, from: v}, err
}

// fresh is the memory of an activation, for products, which pack as they go; nil
// for a weight.
func (f *factor) fresh(e *exec) *gemm.Source {
	if f.src.Type == tensor.Invalid {
		return nil
	}
	f.src.Data = e.p.storages[f.from.st].data[f.from.off*4:]
	return &f.src
}

// ready packs an activation into memory that the factor keeps; a weight is ready.
func (f *factor) ready(e *exec) error {
	src := f.fresh(e)
	if src == nil {
		return nil
	}
	if !f.holds {
		size, err := gemm.PackedSize(tensor.F32, f.packed.N, f.packed.K)
		if err != nil {
			return err
		}
		p, err := gemm.NewPacked(tensor.F32, f.packed.N, f.packed.K, f.packed.Batch, gemm.Alloc(size*f.packed.Batch))
		if err != nil {
			return err
		}
		f.packed, f.holds = p, true
	}
	return f.packed.Pack(e.pool, *src)
}

// productStep is one gemm.MatMul: a linear layer with all that was fused into it,
// a 1x1 convolution (tokens and pixels are rows alike), or a product of two
// values.
type productStep struct {
	mm   gemm.MatMul
	a, c view
	w    factor
	ep   epilogue
}

func (s *productStep) run(e *exec) error {
	m := &s.mm
	m.Fresh = s.w.fresh(e)
	m.A, m.LDA = e.f32(s.a), s.a.ld
	m.C, m.LDC = e.f32(s.c), s.c.ld
	m.W = s.w.packed
	s.ep.set(e, &m.Epilogue)
	m.Scratch = e.scratch
	m.Run(e.pool)
	return nil
}

// finish books the scratch that the product needs.
func (l *lowering) finish(s *productStep) {
	s.mm.W, s.mm.LDA = s.w.packed, s.a.ld
	if s.w.src.Type != tensor.Invalid {
		s.mm.Fresh = &s.w.src
	}
	l.needScratch(s.mm.ScratchBytes(l.b.pool.Threads()))
}

// products makes the steps of products and attention.
func (l *lowering) products(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.MatMul:
		return l.matMul(n, o)
	case graph.Linear:
		return l.linear(n, o)
	case graph.RoPE:
		return l.rope(n, o)
	case graph.Attention:
		return l.attention(n, o)
	}
	return nil, nil
}

// linear is y = gamma * act(x W^T + b) + residual in one pass over y. gemm
// cannot express a layer with no inputs, so the reference runs it.
func (l *lowering) linear(n *graph.Node, o graph.Linear) (step, error) {
	x, w := n.In[0], n.In[1]
	out, in := w.Shape[0], w.Shape[1]
	act, ok := activations[o.Act]
	if !ok {
		return nil, fmt.Errorf("activation %v: %w", o.Act, ErrUnsupported)
	}
	if in == 0 {
		return l.reference(n)
	}
	f, err := l.factorOf(w, gemm.Source{StrideN: in, StrideC: 1}, out, in, 0, l.opt)
	if err != nil {
		return nil, err
	}
	s := &productStep{a: l.operand(x), w: f}
	v := l.operands(n.In[2:], o.Bias, o.Gamma, o.Residual)
	s.ep = epilogue{bias: v[0], gamma: v[1], res: v[2]}
	s.c = l.result(n)
	s.mm.M, s.mm.Act = s.a.rows, act
	l.finish(s)
	return s, nil
}

// matMul is a product with any number of leading dimensions. Equal leading
// dimensions are a batch, a second operand without them is a longer product;
// what else broadcasts is rare and goes through the reference.
func (l *lowering) matMul(n *graph.Node, o graph.MatMul) (step, error) {
	a, b := n.In[0], n.In[1]
	ra, rb := len(a.Shape), len(b.Shape)
	m, k, cols := a.Shape[ra-2], a.Shape[ra-1], n.Shape[len(n.Shape)-1]
	if k == 0 {
		return l.reference(n)
	}
	src := gemm.Source{StrideN: 1, StrideC: cols, StrideB: k * cols}
	if o.TransB {
		src.StrideN, src.StrideC = k, 1
	}
	batchA, batchB := a.Shape[:ra-2].Numel(), b.Shape[:rb-2].Numel()
	s := &productStep{}
	var err error
	switch {
	case cols == 1 && m > 1 && !isParam(a) && !isParam(b) && a.Shape[:ra-2].Equal(b.Shape[:rb-2]) && l.operand(b).dense():
		return l.matVec(n)
	case batchB == 1 && batchA == n.Shape[:len(n.Shape)-2].Numel():
		s.w, err = l.factorOf(b, src, cols, k, 0, l.opt)
		s.mm.M = batchA * m
	case a.Shape[:ra-2].Equal(b.Shape[:rb-2]) && !isParam(b) && l.operand(b).dense():
		src.Type = tensor.F32
		s.w, err = l.dynamic(l.operand(b), src, cols, k, batchB)
		s.mm.M, s.mm.Batch = m, batchB
	default:
		return l.reference(n)
	}
	if err != nil {
		return nil, err
	}
	s.a = l.operand(a)
	s.c = l.result(n)
	s.mm.StrideA, s.mm.StrideC = m*s.a.ld, m*s.c.ld
	l.finish(s)
	return s, nil
}

// matVecStep is the product of matrices and vectors: a panel of 32 columns would hold
// one. Each element is a sum over lanes, whatever the number of rows or threads.
type matVecStep struct {
	overTiles
	b    view
	rows int // of a matrix
	t    tiling
	v    []float32 // the vectors, in scratch
}

func (l *lowering) matVec(n *graph.Node) (step, error) {
	a := n.In[0].Shape
	s := &matVecStep{overTiles: overTiles{src: l.operand(n.In[0])}, b: l.operand(n.In[1]), rows: a[len(a)-2]}
	s.dst = l.denseResult(n)
	s.t = newTiling(s.src.rows, s.src.c)
	s.tiles, s.fn = s.t.tiles, s.tile
	l.needScratch(s.b.numel()*4 + page)
	return s, nil
}

// page is the distance of addresses that share a set of the first-level cache.
const page = 4096

// run first puts the vectors half a page from where the matrix begins: an element of a row and
// that of the vector are then never in one set, where reading both in turn takes a fifth longer
// on Zen 4.
func (s *matVecStep) run(e *exec) error {
	x, a := e.f32(s.b), e.f32(s.src)
	at := (uintptr(unsafe.Pointer(&a[0])) + page/2 - uintptr(unsafe.Pointer(&e.scratch[0]))) % page
	s.v = floats(e.scratch)[at/4:][:s.b.numel()]
	copy(s.v, x)
	return s.overTiles.run(e)
}

func (s *matVecStep) tile(_, t int) {
	x, k := s.v, s.src.c
	from, to := s.t.span(t)
	for r := from; r < to; {
		v := x[r/s.rows*k:][:k]
		for end := min(to, (r/s.rows+1)*s.rows); r < end; r++ {
			s.y[r] = vec.Dot(s.src.row(s.x, r), v)
		}
	}
}

func isParam(n *graph.Node) bool { _, ok := n.Op.(graph.Param); return ok }
