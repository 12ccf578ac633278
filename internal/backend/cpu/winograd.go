// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A 3x3 convolution by Winograd's F(4x4, 3x3): Y = A^T [ (G g G^T) . (B^T d B) ] A
// for each tile of 6x6 inputs d and 4x4 outputs Y, with the matrices of package
// vec. The sum over channels turns the 36 products of a tile into 36 matrix
// products over all tiles, with 36 multiplications where the direct form has 144.
// On maps of 256 channels its error is that of the direct form in float32, whose
// chains of additions are nine times as long.
//
// A task takes a few tiles from their inputs to their outputs, with all that lies
// between in the second-level cache: input transform, and then for one group of
// output channels after the other 36 products and the output transform with bias,
// activation and residual.
//
// With bfloat16 products the transforms stay in float32, and what goes into the
// products is rounded. A layer loses 9e-3 of relative L2 by it, five times what
// direct products would; the heads' layers add to what they are given, and their
// results stay at the 1e-2 that the decoder's have (docs/speed.md).
type winogradConv struct {
	x, y view
	ep   epilogue
	// A ReLU is a maximum with 0; without one it is a maximum with -Inf.
	floorIn float32 // 0 for a ReLU of the input
	floor   float32 // 0 for a ReLU of the result
	bias    []float32
	res     []float32
	w       *gemm.Packed
	// then is the narrow convolution that alone reads the result: the map between
	// them, the largest of all, is never written.
	then *narrow
	c    int // channels of the convolution; those of y are then's, if there is one

	h, wd  int // pixels of a picture
	ty, tx int // tiles of a picture
	tiles  int // of all pictures
	per    int // tiles of a task
	blocks int // of per tiles
	cols   int // output channels of a task
	group  int // output channels whose products wait at a time
	// Transformed inputs are [per][36][channels in], with tiles stride and values ldv
	// apart; products are [36][per][group], with values sm apart.
	ldv, stride, sm int
	v, m, patch     int // offsets in a worker's scratch
	worker          int // its size in floats
	e               *exec
	xd, yd          []float32
	fn              func(w, t int)
}

// winogradFloats bounds what a task keeps of the transforms, and winogradGroup the
// output channels that it takes at a time. Half and twice of either measured alike.
const (
	winogradFloats = 384 << 10
	winogradGroup  = 128
)

// winogradMin is the least size of a picture's map, input and output, against that
// of the weights [out][in] as they are stored, for which the transforms pay. For
// smaller ones reading 36 times these takes longer than a direct form's
// multiplications, and keeping them takes more memory than there is to gain. The number
// of pictures must not count: a batch has the same bits as its members alone.
var winogradMin = 9.0

// winograd lowers a convolution that qualifies; nil says that it does not.
func (l *lowering) winograd(n *graph.Node, o graph.Conv2D) (step, error) {
	x, w := n.In[0].Shape, n.In[1].Shape
	p, ok := n.In[1].Op.(graph.Param)
	as := l.opt.winograd(w[1])
	size := float64(x[1]) * float64(x[2]) * float64(w[0]+w[1]) * 4
	least := winogradMin * float64(w[0]) * float64(w[1]) * float64(as.Size())
	if !ok || w[2] != 3 || w[3] != 3 || o.Stride != 1 || o.Pad != 1 || o.Dilation != 1 || o.Groups != 1 ||
		o.Act == graph.ActGelu || size < least || min(w[0], w[1]) < 16 && winogradMin > 0 {
		return nil, nil
	}
	weights, err := l.b.weights.winograd(l.pool, p, w[0], w[1], as)
	if err != nil {
		return nil, err
	}
	l.weights = append(l.weights, weights)
	none := float32(math.Inf(-1))
	s := &winogradConv{x: l.operand(n.In[0]), floorIn: none, floor: none, w: weights.packed, c: w[0],
		h: x[1], wd: x[2], ty: (x[1] + 3) / 4, tx: (x[2] + 3) / 4}
	s.tiles = x[0] * s.ty * s.tx
	v := l.operands(n.In[2:], o.Bias, o.Residual)
	s.ep = epilogue{bias: v[0], res: v[1]}
	if r := l.onlyReader(n); r != nil && l.allF32(r) && !o.Residual && s.c <= winogradGroup {
		if s.then = l.narrow(r); s.then != nil {
			n = r
		}
	}
	s.y = l.result(n)
	if o.PreRelu {
		s.floorIn = 0
	}
	if o.Act == graph.ActRelu {
		s.floor = 0
	}
	if !o.Bias {
		s.bias = make([]float32, s.c)
	}
	s.plan(l)
	return s, nil
}

// plan sizes tasks and scratch.
func (s *winogradConv) plan(l *lowering) {
	s.ldv = roundUp(s.x.c, 16)
	if s.ldv%256 == 0 {
		s.ldv += rowPad // see rowPad: these are operands of products
	}
	half := 1
	if s.w.Type == tensor.BF16 {
		half = 2
	}
	s.stride = 36*s.ldv + 16*half
	s.group = min(s.c, winogradGroup)
	s.per = min(s.tiles, max(14, winogradFloats/(s.stride/half+36*s.group)/14*14))
	s.blocks = (s.tiles + s.per - 1) / s.per
	// Few tiles: some output channels for each task, until all threads have a few.
	s.cols = s.c
	for s.then == nil && s.cols > 32 && s.blocks*((s.c+s.cols-1)/s.cols) < 6*l.b.pool.Threads() {
		s.cols = roundUp(s.cols/2, 32)
	}
	s.group = min(s.group, s.cols)
	// An odd number of cache lines: the values of a tile lie in 36 matrices, which must
	// not meet in the same sets of a cache.
	s.sm = roundUp(s.per*s.group, 16)
	s.sm += (s.sm/16 + 1) % 2 * 16
	s.v = len(vec.WinogradSquare{})
	s.m = s.v + roundUp(s.per*s.stride/half, 16)
	s.patch = s.m + 36*s.sm
	s.worker = roundUp(s.patch+max(36*s.x.c, 16*s.group), align/4)
	if half == 2 {
		s.worker += s.stride
	}
	l.needScratch(l.b.pool.Threads() * s.worker * 4)
	s.fn = s.task
}

func (s *winogradConv) run(e *exec) error {
	s.e, s.xd, s.yd = e, e.f32(s.x), e.f32(s.y)
	if s.ep.bias.c > 0 {
		s.bias = e.f32(s.ep.bias)
	}
	if s.ep.res.c > 0 {
		s.res = e.f32(s.ep.res)
	}
	if s.then != nil {
		s.then.begin(e)
	}
	e.pool.Run(s.blocks*((s.c+s.cols-1)/s.cols), s.fn)
	return nil
}

// task does some output channels of one block of tiles. Neighbours in time share
// weights.
func (s *winogradConv) task(w, t int) {
	mem := floats(s.e.scratch)[w*s.worker:][:s.worker]
	square, m, patch := (*vec.WinogradSquare)(mem), mem[s.m:s.patch], mem[s.patch:]
	first := t % s.blocks * s.per
	n := min(s.per, s.tiles-first)
	p := gemm.Serial{Rows: n, W: s.w, LDA: s.stride, StrideA: s.ldv, C: m, LDC: s.group, StrideC: s.sm}
	if s.w.Type == tensor.BF16 {
		p.A16 = viewAs[uint16](bytesOf(mem[s.v:s.m]))
		exact := mem[s.worker-s.stride:]
		for i := range n {
			s.in(exact, first+i, patch, square)
			gemm.RoundBF16(p.A16[i*s.stride:], exact[:36*s.ldv])
		}
	} else {
		p.A = mem[s.v:s.m]
		for i := range n {
			s.in(p.A[i*s.stride:], first+i, patch, square)
		}
	}
	from := t / s.blocks * s.cols
	to := min(s.c, from+s.cols)
	for ; from < to; from += s.group {
		p.N0, p.N1 = from, min(to, from+s.group)
		p.Run()
		for i := range n {
			s.out(m[i*s.group:], first+i, p.N0, p.N1, patch, square)
		}
	}
}

// at is the picture of a tile and its first output pixel.
func (s *winogradConv) at(tile int) (pic, y, x int) {
	return tile / (s.tx * s.ty), tile / s.tx % s.ty * 4, tile % s.tx * 4
}

// in transforms the inputs of a tile, from a copy where they reach beyond the map.
func (s *winogradConv) in(v []float32, tile int, patch []float32, square *vec.WinogradSquare) {
	pic, y, x := s.at(tile)
	c, ld := s.x.c, s.x.ld
	if y > 0 && x > 0 && y+5 <= s.h && x+5 <= s.wd {
		vec.WinogradIn(v, s.ldv, s.xd[((pic*s.h+y-1)*s.wd+x-1)*ld:], ld, s.wd*ld, c, square, s.floorIn)
		return
	}
	for i := range 36 {
		to := patch[i*c:][:c]
		if yy, xx := y-1+i/6, x-1+i%6; yy >= 0 && yy < s.h && xx >= 0 && xx < s.wd {
			copy(to, s.x.row(s.xd, (pic*s.h+yy)*s.wd+xx))
		} else {
			clear(to)
		}
	}
	vec.WinogradIn(v, s.ldv, patch, c, 6*c, c, square, s.floorIn)
}

// out transforms the products of channels c0 to c1 of a tile, to a copy where the
// outputs reach beyond the map or are read at once.
func (s *winogradConv) out(m []float32, tile, c0, c1 int, patch []float32, square *vec.WinogradSquare) {
	pic, y, x := s.at(tile)
	c, ld := c1-c0, s.y.ld
	inside := y+4 <= s.h && x+4 <= s.wd && s.then == nil
	if inside {
		vec.WinogradOut(s.yd[((pic*s.h+y)*s.wd+x)*ld+c0:], ld, s.wd*ld, m, s.sm, c, s.bias[c0:c1], square, s.floor)
		if s.ep.res.c == 0 {
			return
		}
	} else {
		vec.WinogradOut(patch, c, 4*c, m, s.sm, c, s.bias[c0:c1], square, s.floor)
	}
	for i := range min(4, s.h-y) {
		for j := range min(4, s.wd-x) {
			r := (pic*s.h+y+i)*s.wd + x + j
			to, from := s.y.row(s.yd, r), patch[(4*i+j)*c:][:c]
			if s.then != nil {
				s.then.pixel(to, from)
				continue
			}
			to = to[c0:c1]
			if inside {
				from = to
			}
			if s.ep.res.c > 0 {
				vec.Add(to, from, s.ep.res.row(s.res, r)[c0:c1])
			} else {
				copy(to, from)
			}
		}
	}
}

// winograd is the type that transformed kernels are stored in.
func (o lowerOptions) winograd(in int) tensor.DType {
	switch {
	case o.f16:
		return tensor.F16
	case o.bf16 && gemm.SerialBF16(in):
		return tensor.BF16
	}
	return tensor.F32
}

// winograd returns the transformed and packed kernels of a convolution
// [out][in][3][3]: 36 matrices [out][in].
func (c *weightCache) winograd(pool *par.Pool, p graph.Param, out, in int, as tensor.DType) (*weight, error) {
	key := keyOf(p, out, in, as)
	if c.planned != nil {
		c.packing = max(c.packing, winogradTemp(out, in))
	}
	key.arrange[0] = -1 // no offset: this is not a part of the data, but made of it
	return c.entry(pool, key, p, 36, func(dst *gemm.Packed) error { return packWinograd(dst, pool, p) })
}

// winogradTemp is the memory that the transformed kernels take before they are packed.
func winogradTemp(out, in int) int { return 36 * out * in * 4 }

// packWinograd transforms the kernel of each pair of channels: the value of row i
// and column j is in matrix 6j+i.
func packWinograd(dst *gemm.Packed, pool *par.Pool, p graph.Param) error {
	out, in := dst.N, dst.K
	temp, err := newRegion(winogradTemp(out, in))
	if err != nil {
		return err
	}
	defer temp.release()
	u := floats(temp.b)
	pool.Run(out, func(_, o int) {
		g := decodeF32(p.DType, p.Data[o*in*9*p.DType.Size():][:in*9*p.DType.Size()])
		for i := range in {
			vec.WinogradKernel(u[o*in+i:], out*in, (*[9]float32)(g[i*9:]))
		}
	})
	if err := dst.Pack(pool, gemm.Source{Data: temp.b, Type: tensor.F32, StrideN: in, StrideC: 1, StrideB: out * in}); err != nil {
		return fmt.Errorf("winograd: %w", err)
	}
	return nil
}
