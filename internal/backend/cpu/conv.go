// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// convStep is one gemm.Conv, an implicit product that reads the map in place:
// padding, the ReLU before and the one after, and the residual sum cost no pass
// over memory of their own.
type convStep struct {
	cv   gemm.Conv
	x, y view
	w    factor
	ep   epilogue
	then *narrow // the narrow convolution that alone reads the result
	yd   []float32
}

func (s *convStep) run(e *exec) error {
	if err := s.w.ready(e); err != nil {
		return err
	}
	c := &s.cv
	c.X, c.LDX = e.f32(s.x), s.x.ld
	if s.yd = e.f32(s.y); s.then == nil {
		c.Y, c.LDY = s.yd, s.y.ld
	} else {
		s.then.begin(e)
	}
	c.Weights = s.w.packed
	s.ep.set(e, &c.Epilogue)
	c.Scratch = e.scratch
	c.Run(e.pool)
	return nil
}

// pixels gives finished pixels to the narrow convolution.
func (s *convStep) pixels(p, n int, y []float32) {
	c := len(y) / n
	for i := range n {
		s.then.pixel(s.y.row(s.yd, p+i), y[i*c:][:c])
	}
}

// maps makes the steps of the operations on feature maps.
func (l *lowering) maps(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.Conv2D:
		return l.conv2d(n, o)
	case graph.ConvTranspose2D:
		return l.convTranspose2d(n, o)
	case graph.Pool2D:
		return l.pool2d(n, o)
	case graph.Resize2D:
		return l.resize2d(n, o)
	case graph.PixelShuffle:
		return l.pixelShuffle(n, o)
	}
	return nil, nil
}

// conv2d chooses among five forms: loops for what no network has, Winograd's for
// large 3x3 kernels, scalar products for 1x1 to few channels, a plain product for
// other 1x1, and the implicit product.
//
// Only kernels of more than one pixel multiply in bfloat16, if that is asked for:
// directly on matrix tiles, which do so many products that a quarter of them with
// transforms around is no faster, and rounds less well; elsewhere in Winograd's form.
// The others are small, and the last of them makes the points, which 8 bits cannot hold
// (network.md 18).
func (l *lowering) conv2d(n *graph.Node, o graph.Conv2D) (step, error) {
	x, w := n.In[0].Shape, n.In[1].Shape
	out, in, kh, kw := w[0], w[1], w[2], w[3]
	act, ok := activations[o.Act]
	if !ok {
		return nil, fmt.Errorf("activation %v: %w", o.Act, ErrUnsupported)
	}
	if o.Groups > 1 || o.Dilation > 1 && kh*kw > 1 || in == 0 {
		return l.directConv(n, o)
	}
	taps := kh * kw
	opt := lowerOptions{f16: l.opt.f16, bf16: l.opt.bf16 && isParam(n.In[1]) && taps > 1 && gemm.Tiles(in)}
	if !opt.bf16 {
		if s, err := l.winograd(n, o); s != nil || err != nil {
			return s, err
		}
		if s := l.narrowConv(n); s != nil {
			return s, nil
		}
	}
	f, err := l.factorOf(n.In[1], gemm.Source{StrideN: in * taps, StrideC: taps, Taps: taps, StrideTap: 1}, out, in*taps, 0, opt)
	if err != nil {
		return nil, err
	}
	xv := l.operand(n.In[0])
	v := l.operands(n.In[2:], o.Bias, o.Residual)
	ep := epilogue{bias: v[0], res: v[1]}
	if taps == 1 && o.Stride == 1 && o.Pad == 0 && !o.PreRelu {
		s := &productStep{a: xv, w: f, ep: ep, c: l.result(n)}
		s.mm.M, s.mm.Act = xv.rows, act
		l.finish(s)
		return s, nil
	}
	s := &convStep{x: xv, w: f, ep: ep}
	if r := l.onlyReader(n); opt.bf16 && r != nil && l.allF32(r) && !o.Residual {
		if s.then = l.narrow(r); s.then != nil {
			n = r
		}
	}
	s.y = l.result(n)
	s.cv = gemm.Conv{Batch: x[0], H: x[1], W: x[2], Cin: in, KH: kh, KW: kw, Stride: o.Stride,
		PadH: o.Pad, PadW: o.Pad, ReLUIn: o.PreRelu, Weights: f.packed, Epilogue: gemm.Epilogue{Act: act}}
	if s.then != nil {
		s.cv.Then = s.pixels
	}
	l.needScratch(s.cv.ScratchBytes(l.b.pool.Threads()))
	return s, nil
}

// directConv is a convolution as loops, for groups and dilation, which none of
// the networks has. Each output row is a tile; sums run in float64, in the order
// of the kernel's rows, columns and channels.
type directConv struct {
	o            graph.Conv2D
	x, w, y      view
	ep           epilogue
	xd, wd, yd   []float32
	bias, res    []float32
	fn           func(w, t int)
	batch, lines int
}

// directConv makes the step of the loops.
func (l *lowering) directConv(n *graph.Node, o graph.Conv2D) (step, error) {
	s := &directConv{o: o, x: l.operand(n.In[0]), w: l.operand(n.In[1])}
	v := l.operands(n.In[2:], o.Bias, o.Residual)
	s.ep = epilogue{bias: v[0], res: v[1]}
	s.y = l.result(n)
	s.lines = n.Shape[0] * n.Shape[1]
	s.fn = s.line
	return s, nil
}

func (s *directConv) run(e *exec) error {
	s.xd, s.wd, s.yd = e.f32(s.x), e.f32(s.w), e.f32(s.y)
	var ep gemm.Epilogue
	s.ep.set(e, &ep)
	s.bias, s.res = ep.Bias, ep.Res
	e.pool.Run(s.lines, s.fn)
	return nil
}

// line computes one output row.
func (s *directConv) line(_, t int) {
	oh, ow, oc := s.y.shape[1], s.y.shape[2], s.y.shape[3]
	b, oy := t/oh, t%oh
	for ox := range ow {
		r := (b*oh+oy)*ow + ox
		out := s.y.row(s.yd, r)
		for c := range oc {
			v := s.at(b, oy, ox, c)
			if s.bias != nil {
				v += s.bias[c]
			}
			switch s.o.Act {
			case graph.ActRelu:
				v = max(v, 0)
			case graph.ActGelu:
				one := [1]float32{v}
				unaryFns[graph.Gelu](one[:], one[:])
				v = one[0]
			}
			if s.res != nil {
				v += s.ep.res.row(s.res, r)[c]
			}
			out[c] = v
		}
	}
}

// at is the sum of products of one output element.
func (s *directConv) at(b, oy, ox, oc int) float32 {
	o := s.o
	h, w := s.x.shape[1], s.x.shape[2]
	icg, kh, kw := s.w.shape[1], s.w.shape[2], s.w.shape[3]
	first := oc / (s.w.shape[0] / o.Groups) * icg
	var sum float64
	for i := range kh {
		y := oy*o.Stride + i*o.Dilation - o.Pad
		if y < 0 || y >= h {
			continue
		}
		for j := range kw {
			x := ox*o.Stride + j*o.Dilation - o.Pad
			if x < 0 || x >= w {
				continue
			}
			px := s.x.row(s.xd, (b*h+y)*w+x)[first:][:icg]
			for c, v := range px {
				if o.PreRelu {
					v = max(v, 0)
				}
				sum += float64(v) * float64(s.wd[((oc*icg+c)*kh+i)*kw+j])
			}
		}
	}
	return float32(sum)
}

// spreadStep is a transposed convolution whose kernels do not overlap: for each
// kernel position (i, j) a product of all pixels with W[:, :, i, j], written to
// every stride-th pixel of the result.
//
// The products write to their places at once: from one row of input pixels to
// the same row of outputs the stride is constant, and the rows are a batch.
type spreadStep struct {
	parts []productStep
	at    []int // offset of each part in the result, in rows
	y     view
}

func (s *spreadStep) run(e *exec) error {
	for i := range s.parts {
		p := &s.parts[i]
		p.c = s.y
		p.c.off += s.at[i] * s.y.ld
		p.c.rows -= s.at[i]
		if err := p.runSpread(e); err != nil {
			return err
		}
	}
	return nil
}

// runSpread is run with a row stride of the result that skips pixels.
func (s *productStep) runSpread(e *exec) error {
	if err := s.w.ready(e); err != nil {
		return err
	}
	m := &s.mm
	m.A, m.LDA = e.f32(s.a), s.a.ld
	m.C = e.f32(s.c)
	m.W = s.w.packed
	s.ep.set(e, &m.Epilogue)
	m.Scratch = e.scratch
	m.Run(e.pool)
	return nil
}

// convTranspose2d knows the case kernel == stride without padding, where outputs
// have one contribution each; overlapping kernels go to the loops.
func (l *lowering) convTranspose2d(n *graph.Node, o graph.ConvTranspose2D) (step, error) {
	x, w := n.In[0].Shape, n.In[1].Shape
	in, out, kh, kw := w[0], w[1], w[2], w[3]
	if _, ok := n.In[1].Op.(graph.Param); !ok || kh != o.Stride || kw != o.Stride || o.Pad != 0 || o.OutputPad != 0 || in == 0 {
		return l.gatherConv(n, o)
	}
	s := &spreadStep{}
	xv := l.operand(n.In[0])
	bias := l.operands(n.In[2:], o.Bias)[0]
	s.y = l.result(n)
	k := o.Stride
	for i := range k {
		for j := range k {
			src := gemm.Source{StrideN: kh * kw, StrideC: out * kh * kw}
			f, err := l.factorOf(n.In[1], src, out, in, i*kw+j, lowerOptions{f16: l.opt.f16})
			if err != nil {
				return nil, err
			}
			p := productStep{a: xv, w: f, ep: epilogue{bias: bias}}
			// One batch entry is one row of pixels.
			p.mm = gemm.MatMul{M: x[2], Batch: x[0] * x[1], LDC: k * s.y.ld,
				StrideA: x[2] * xv.ld, StrideC: k * k * x[2] * s.y.ld}
			l.finish(&p)
			s.parts = append(s.parts, p)
			s.at = append(s.at, i*k*x[2]+j)
		}
	}
	return s, nil
}

// gatherConv is the general transposed convolution as loops: each output
// element gathers the input pixels whose kernels reach it.
type gatherConv struct {
	o          graph.ConvTranspose2D
	x, w, y, b view
	xd, wd, yd []float32
	bias       []float32
	fn         func(w, t int)
}

// gatherConv makes the step of the loops.
func (l *lowering) gatherConv(n *graph.Node, o graph.ConvTranspose2D) (step, error) {
	s := &gatherConv{o: o, x: l.operand(n.In[0]), w: l.operand(n.In[1])}
	s.b = l.operands(n.In[2:], o.Bias)[0]
	s.y = l.result(n)
	s.fn = s.line
	return s, nil
}

func (s *gatherConv) run(e *exec) error {
	s.xd, s.wd, s.yd, s.bias = e.f32(s.x), e.f32(s.w), e.f32(s.y), nil
	if s.b.c > 0 {
		s.bias = e.f32(s.b)
	}
	e.pool.Run(s.y.shape[0]*s.y.shape[1], s.fn)
	return nil
}

// line computes one output row.
func (s *gatherConv) line(_, t int) {
	oh, ow, oc := s.y.shape[1], s.y.shape[2], s.y.shape[3]
	for ox := range ow {
		out := s.y.row(s.yd, t*ow+ox)
		for c := range oc {
			sum := 0.0
			if s.bias != nil {
				sum = float64(s.bias[c])
			}
			out[c] = float32(sum + s.at(t/oh, t%oh, ox, c))
		}
	}
}

// at is the sum of the kernel positions that an output element is under. Input
// pixel y reaches output y*stride + i - pad.
func (s *gatherConv) at(b, oy, ox, oc int) float64 {
	h, w, in := s.x.shape[1], s.x.shape[2], s.x.shape[3]
	out, kh, kw := s.w.shape[1], s.w.shape[2], s.w.shape[3]
	sum := 0.0
	for i := range kh {
		y := oy + s.o.Pad - i
		if y < 0 || y%s.o.Stride != 0 || y/s.o.Stride >= h {
			continue
		}
		for j := range kw {
			x := ox + s.o.Pad - j
			if x < 0 || x%s.o.Stride != 0 || x/s.o.Stride >= w {
				continue
			}
			px := s.x.row(s.xd, (b*h+y/s.o.Stride)*w+x/s.o.Stride)
			for c := range in {
				sum += float64(px[c]) * float64(s.wd[((c*out+oc)*kh+i)*kw+j])
			}
		}
	}
	return sum
}
