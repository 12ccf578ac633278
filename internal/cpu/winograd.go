// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A 3x3 convolution by Winograd's F(2x2, 3x3) (Lavin and Gray, arXiv
// 1509.09308): Y = A^T [ (G g G^T) . (B^T d B) ] A for each tile of 4x4 inputs d
// and 2x2 outputs Y. The sum over channels turns the 16 products of a tile into
// 16 matrix products over all tiles, with 16 multiplications where the direct
// form has 36. All factors are 0, 1 and 1/2, so that the error stays at the level
// of the direct form. F(4x4) would save more and is ten times less exact.
//
// The map is worked off in strips of tile rows, whose transforms stay in the
// cache: input transform, 16 products, output transform with bias,
// activation and residual.
type winogradConv struct {
	x, y view
	ep   epilogue
	// A ReLU is a maximum with 0; without one it is a maximum with -Inf.
	floorIn float32 // 0 for a ReLU of the input
	floor   float32 // 0 for a ReLU of the result
	bias    []float32
	res     []float32
	zero    []float32 // a line of zeros, for rows outside the map

	rows, cols int // tiles of the whole map: rows of all pictures, tiles a row
	per        int // tile rows of a strip
	first, n   int // of the strip being worked on
	chunk      int // tiles that one task transforms
	chunks     int // of a row
	// Transformed inputs are [16][tiles][channels in], products [16][tiles]
	// [channels out], with the row strides ldv and ldm.
	ldv, ldm int
	vAt, mAt int // of the transforms, in floats of the scratch
	line     int // scratch floats of a worker
	mm       gemm.MatMul
	e        *exec
	xd, yd   []float32
	in, out  func(w, t int)
}

// winogradFloats bounds the transformed input and output of a strip, together,
// for each thread. 0.5 to 2 times this measured alike; at 4 times the transforms
// leave the second-level cache and the gain halves.
const winogradFloats = 256 << 10

// winogradMin is the smallest work of one picture, in tiles times channels in
// times channels out, for which the transforms pay. The number of pictures must
// not count: a batch has the same bits as its members alone.
var winogradMin = 96 * 64 * 64

// winograd lowers a convolution that qualifies; nil says that it does not.
func (l *lowering) winograd(n *graph.Node, o graph.Conv2D) (step, error) {
	x, w := n.In[0].Shape, n.In[1].Shape
	p, ok := n.In[1].Op.(graph.Param)
	rows, cols := (x[1]+1)/2, (x[2]+1)/2
	work := float64(rows) * float64(cols) * float64(w[0]) * float64(w[1])
	if !ok || w[2] != 3 || w[3] != 3 || o.Stride != 1 || o.Pad != 1 || o.Dilation != 1 || o.Groups != 1 ||
		o.Act == graph.ActGelu || work < float64(winogradMin) || min(w[0], w[1]) < 16 && winogradMin > 0 {
		return nil, nil
	}
	weights, err := l.b.weights.winograd(l.b.pool, p, w[0], w[1], l.opt)
	if err != nil {
		return nil, err
	}
	l.weights = append(l.weights, weights)
	s := &winogradConv{x: l.operand(n.In[0]), floorIn: float32(math.Inf(-1)), floor: float32(math.Inf(-1)), rows: x[0] * rows, cols: cols}
	v := l.operands(n.In[2:], o.Bias, o.Residual)
	s.ep = epilogue{bias: v[0], res: v[1]}
	s.y = l.result(n)
	if o.PreRelu {
		s.floorIn = 0
	}
	if o.Act == graph.ActRelu {
		s.floor = 0
	}
	s.zero = make([]float32, s.x.c)
	if !o.Bias {
		s.bias = make([]float32, s.y.c)
	}
	s.mm.W = weights.packed
	s.plan(l)
	return s, nil
}

// plan sizes strips, tasks and scratch.
func (s *winogradConv) plan(l *lowering) {
	pad := func(c int) int {
		if c%256 == 0 {
			return c + rowPad // see rowPad: these are operands of products
		}
		return c
	}
	s.ldv, s.ldm = pad(s.x.c), pad(s.y.c)
	s.per = min(s.rows, max(1, l.b.pool.Threads()*winogradFloats/(16*(s.ldv+s.ldm)*s.cols)))
	s.chunk = min(s.cols, 32)
	s.chunks = (s.cols + s.chunk - 1) / s.chunk
	tiles := s.per * s.cols
	s.mAt = roundUp(16*tiles*s.ldv, align/4)
	at := roundUp(s.mAt+16*tiles*s.ldm, align/4)
	// A worker's lines: four of the input transform, or eight rows of sums and
	// one row for outputs outside the map.
	s.line = roundUp(max(4*(2*s.chunk+2)*s.x.c, 9*s.y.c), align/4)
	s.vAt = at // of the workers' lines
	l.needScratch((at + l.b.pool.Threads()*s.line) * 4)
	s.mm.Batch = 16
	s.mm.LDA, s.mm.StrideA = s.ldv, tiles*s.ldv
	s.mm.LDC, s.mm.StrideC = s.ldm, tiles*s.ldm
	s.in, s.out = s.inputTask, s.outputTask
}

// run works off the strips. Each is three regions of the pool: nothing of the
// output transform may start before the products of its tiles are done.
func (s *winogradConv) run(e *exec) error {
	s.e, s.xd, s.yd = e, e.f32(s.x), e.f32(s.y)
	if s.ep.bias.c > 0 {
		s.bias = e.f32(s.ep.bias)
	}
	if s.ep.res.c > 0 {
		s.res = e.f32(s.ep.res)
	}
	mem := floats(e.scratch)
	s.mm.A, s.mm.C = mem[:s.mAt], mem[s.mAt:s.vAt]
	for s.first = 0; s.first < s.rows; s.first += s.per {
		s.n = min(s.per, s.rows-s.first)
		e.pool.Run(s.n*s.chunks, s.in)
		s.mm.M = s.n * s.cols
		s.mm.Run(e.pool)
		e.pool.Run(s.n*s.chunks, s.out)
	}
	return nil
}

// lines is a worker's part of the scratch.
func (s *winogradConv) lines(w int) []float32 {
	return floats(s.e.scratch)[s.vAt+w*s.line:][:s.line]
}

// task decodes a task: picture and tile row of the map, tile row of the strip,
// and the tiles of the row.
func (s *winogradConv) task(t int) (pic, ty, local, from, to int) {
	local = t / s.chunks
	row := s.first + local
	perPic := (s.x.shape[1] + 1) / 2
	from = t % s.chunks * s.chunk
	return row / perPic, row % perPic, local, from, min(s.cols, from+s.chunk)
}

// inputTask transforms the inputs of up to chunk tiles of one row: first down
// the columns of pixels into four lines, then along the lines.
func (s *winogradConv) inputTask(w, t int) {
	pic, ty, local, from, to := s.task(t)
	c, width := s.x.c, s.x.shape[2]
	buf := s.lines(w)
	pixels := 2*(to-from) + 2
	for p := range pixels {
		var d, r [4][]float32
		x := 2*from - 1 + p
		for i := range 4 {
			d[i] = buf[(i*pixels+p)*c:][:c]
			r[i] = s.zero
			if y := 2*ty - 1 + i; x >= 0 && x < width && y >= 0 && y < s.x.shape[1] {
				r[i] = s.x.row(s.xd, (pic*s.x.shape[1]+y)*width+x)
			}
		}
		vec.WinogradIn(&d, &r, s.floorIn)
	}
	none := float32(math.Inf(-1))
	for i := range 4 {
		for tile := from; tile < to; tile++ {
			var d, r [4][]float32
			for j := range 4 {
				d[j] = s.mm.A[(4*i+j)*s.mm.StrideA+(local*s.cols+tile)*s.ldv:][:c]
				r[j] = buf[(i*pixels+2*(tile-from)+j)*c:][:c]
			}
			vec.WinogradIn(&d, &r, none)
		}
	}
}

// outputTask transforms the products of up to chunk tiles to output pixels.
func (s *winogradConv) outputTask(w, t int) {
	pic, ty, local, from, to := s.task(t)
	c := s.y.c
	buf := s.lines(w)
	for tile := from; tile < to; tile++ {
		var sums [2][4][]float32
		for j := range 4 {
			var m [4][]float32
			for i := range 4 {
				m[i] = s.mm.C[(4*i+j)*s.mm.StrideC+(local*s.cols+tile)*s.ldm:][:c]
			}
			sums[0][j], sums[1][j] = buf[j*c:][:c], buf[(4+j)*c:][:c]
			vec.WinogradOut(sums[0][j], sums[1][j], &m)
		}
		for i := range 2 {
			s.pixels(pic, 2*ty+i, 2*tile, &sums[i], buf[8*c:][:c])
		}
	}
}

// pixels writes the two outputs of one line of a tile; those outside the map go
// to spare.
func (s *winogradConv) pixels(pic, y, x int, m *[4][]float32, spare []float32) {
	h, w := s.y.shape[1], s.y.shape[2]
	if y >= h {
		return
	}
	r := (pic*h+y)*w + x
	y0, y1 := s.y.row(s.yd, r), spare
	if x+1 < w {
		y1 = s.y.row(s.yd, r+1)
	}
	vec.WinogradBias(y0, y1, m, s.bias, s.floor)
	if s.ep.res.c > 0 {
		vec.Add(y0, y0, s.ep.res.row(s.res, r))
		if x+1 < w {
			vec.Add(y1, y1, s.ep.res.row(s.res, r+1))
		}
	}
}

// winograd returns the transformed and packed kernels of a convolution
// [out][in][3][3]: 16 matrices [out][in].
func (c *weightCache) winograd(pool *par.Pool, p graph.Param, out, in int, opt lowerOptions) (*weight, error) {
	as := tensor.F32
	if opt.f16 {
		as = tensor.F16
	}
	key := keyOf(p, out, in, as)
	key.arrange[0] = -1 // no offset: this is not a part of the data, but made of it
	return c.entry(pool, key, p, 16, func(dst *gemm.Packed) error { return packWinograd(dst, pool, p) })
}

// packWinograd computes U = G g G^T per pair of channels, in float64, with
// G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1].
func packWinograd(dst *gemm.Packed, pool *par.Pool, p graph.Param) error {
	out, in := dst.N, dst.K
	temp, err := newRegion(16 * out * in * 4)
	if err != nil {
		return err
	}
	defer temp.release()
	u := floats(temp.b)
	pool.Run(out, func(_, o int) {
		g := decodeF32(p.DType, p.Data[o*in*9*p.DType.Size():][:in*9*p.DType.Size()])
		for i := range in {
			transformKernel(u[o*in+i:], out*in, g[i*9:][:9])
		}
	})
	if err := dst.Pack(pool, gemm.Source{Data: temp.b, Type: tensor.F32, StrideN: in, StrideC: 1, StrideB: out * in}); err != nil {
		return fmt.Errorf("winograd: %w", err)
	}
	return nil
}

// transformKernel writes the 16 values of U, stride apart.
func transformKernel(u []float32, stride int, g []float32) {
	var t [4][3]float64
	for j := range 3 {
		a, b, c := float64(g[j]), float64(g[3+j]), float64(g[6+j])
		t[0][j], t[1][j], t[2][j], t[3][j] = a, (a+b+c)/2, (a-b+c)/2, c
	}
	for i := range 4 {
		a, b, c := t[i][0], t[i][1], t[i][2]
		for j, v := range [4]float64{a, (a + b + c) / 2, (a - b + c) / 2, c} {
			u[(4*i+j)*stride] = float32(v)
		}
	}
}
