// SPDX-License-Identifier: Apache-2.0

package kernel

import "github.com/mast3r-runtime/mast3r-runtime/internal/isa"

// Kernel is one implementation.
type Kernel struct {
	ISA isa.Set
	// Each does as many blocks as it can without reading past its input, and returns
	// how many elements of out it has written; the Go code does the rest.
	halveColours func(out, a, b []byte) int
	halveGrey    func(out, a, b []byte) int
	grey         func(out []float32, rgb []byte) int
	five         func(out, a, b, c, d, e []float32, s *[3]float32) int
	prefetch     func(p *byte, stride, rows, lines int)
	read         func(p *readArgs)
	fit          func(p *fitArgs)
}

var portable = Kernel{
	ISA:          isa.Portable,
	halveColours: func(_, _, _ []byte) int { return 0 },
	halveGrey:    func(_, _, _ []byte) int { return 0 },
	grey:         func([]float32, []byte) int { return 0 },
	five:         func(_, _, _, _, _, _ []float32, _ *[3]float32) int { return 0 },
	prefetch:     func(_ *byte, _, _, _ int) {},
	read:         readGo,
	fit:          fitGo,
}

// All lists the implementations that this machine can run, the best last.
func All() []*Kernel { return append([]*Kernel{&portable}, native()...) }

// Best is the implementation that this machine and MAST3R_CPU_ISA ask for.
func Best() *Kernel {
	all := All()
	have := make([]isa.Set, len(all))
	for i, k := range all {
		have[i] = k.ISA
	}
	best := isa.Pick(have, nil)
	for _, k := range all {
		if k.ISA == best {
			return k
		}
	}
	return &portable
}

// Weights of red, green and blue in a grey value (ITU-R BT.601), times 256.
const (
	redWeight   = 77
	greenWeight = 150
	blueWeight  = 29
)

// HalveColours writes the grey means of 2 x 2 coloured pixels: a and b are two rows
// of 2 len(out) RGB pixels.
func (k *Kernel) HalveColours(out, a, b []byte) {
	a, b = a[:6*len(out)], b[:6*len(out)]
	for x := k.halveColours(out, a, b); x < len(out); x++ {
		p, q := a[6*x:][:6], b[6*x:][:6]
		red := uint32(p[0]) + uint32(p[3]) + uint32(q[0]) + uint32(q[3])
		green := uint32(p[1]) + uint32(p[4]) + uint32(q[1]) + uint32(q[4])
		blue := uint32(p[2]) + uint32(p[5]) + uint32(q[2]) + uint32(q[5])
		out[x] = byte((redWeight*red + greenWeight*green + blueWeight*blue + 512) >> 10)
	}
}

// HalveGrey writes the means of 2 x 2 grey pixels.
func (k *Kernel) HalveGrey(out, a, b []byte) {
	a, b = a[:2*len(out)], b[:2*len(out)]
	for x := k.halveGrey(out, a, b); x < len(out); x++ {
		p, q := a[2*x:][:2], b[2*x:][:2]
		out[x] = byte((uint32(p[0]) + uint32(p[1]) + uint32(q[0]) + uint32(q[1]) + 2) >> 2)
	}
}

// Grey writes the grey values of RGB pixels.
func (k *Kernel) Grey(out []float32, rgb []byte) {
	rgb = rgb[:3*len(out)]
	for x := k.grey(out, rgb); x < len(out); x++ {
		c := rgb[3*x:][:3]
		out[x] = GreyOf(c[0], c[1], c[2])
	}
}

// GreyOf is the grey value of one pixel.
func GreyOf(r, g, b byte) float32 {
	return float32(redWeight*uint32(r)+greenWeight*uint32(g)+blueWeight*uint32(b)) * (1.0 / 256)
}

// Five writes s[0] c + s[1] (b + d) + s[2] (a + e): five neighbours, smoothed. out
// overlaps none of the others.
func (k *Kernel) Five(out, a, b, c, d, e []float32, s *[3]float32) {
	n := len(out)
	a, b, c, d, e = a[:n], b[:n], c[:n], d[:n], e[:n]
	for x := k.five(out, a, b, c, d, e, s); x < n; x++ {
		v := float32(s[0]*c[x]) + float32(s[1]*float32(b[x]+d[x]))
		out[x] = v + float32(s[2]*float32(a[x]+e[x]))
	}
}

// Prefetch asks for rows of bytes that will be read soon. Rows of a large picture lie
// in different pages: one after the other, the waits for them would be most of the
// time of a small window.
func (k *Kernel) Prefetch(pix []byte, stride, rows, bytes int) {
	if rows < 1 || bytes < 1 || len(pix) == 0 {
		return
	}
	k.prefetch(&pix[0], stride, rows, bytes/64+1)
}

// Side is the number of samples across a patch, Samples of all and the pad; Rim and
// RimSamples those with the ring that gradients need.
const (
	Side       = 17
	Samples    = (Side*Side + 7) / 8 * 8
	Rim        = Side + 2
	RimSamples = (Rim*Rim + 7) / 8 * 8
)

// Grid is an affine grid in a window: sample (i, j) lies at
// (X + i AX + j BX, Y + i AY + j BY).
type Grid struct{ X, Y, AX, AY, BX, BY float32 }

// readArgs is read by offset.
type readArgs struct {
	out, pix, u, v *float32
	blocks, stride int
	g              Grid
}

// offsets are the steps of the samples of an n x n grid.
func offsets(n, samples int) (u, v []float32) {
	u, v = make([]float32, samples), make([]float32, samples)
	for i := range n * n {
		u[i], v[i] = float32(i%n), float32(i/n)
	}
	return u, v
}

var (
	sideU, sideV = offsets(Side, Samples)
	rimU, rimV   = offsets(Rim, RimSamples)
)

// Read samples a window of width x height pixels along a grid, linearly between
// pixels: Samples of Side x Side, or RimSamples of Rim x Rim, by the length of out.
// false: a sample lies outside.
func (k *Kernel) Read(out, pix []float32, width, height int, g Grid) bool {
	n, u, v := Side, sideU, sideV
	if len(out) == RimSamples {
		n, u, v = Rim, rimU, rimV
	}
	_ = out[:len(u)]
	if len(pix) < width*height {
		return false
	}
	// Rounding keeps the order, so that the corners are the extremes.
	last := float32(n - 1)
	for _, j := range [2]float32{0, last} {
		for _, i := range [2]float32{0, last} {
			x, y := g.at(i, j)
			if !(x >= 0 && y >= 0 && x < float32(width-1) && y < float32(height-1)) {
				return false
			}
		}
	}
	k.read(&readArgs{&out[0], &pix[0], &u[0], &v[0], len(u) / 8, width, g})
	return true
}

func (g *Grid) at(i, j float32) (x, y float32) {
	x, y = g.X+float32(j*g.BX), g.Y+float32(j*g.BY)
	return x + float32(i*g.AX), y + float32(i*g.AY)
}

// fitArgs is read by offset.
type fitArgs struct {
	now, weight, value, gx, gy *float32
	blocks                     int
	bx, by, off, mean, spread  float32
}

// Fit normalises the samples now, to mean 0 and variance 1 under the weights, and
// compares them with the template's values: the residuals' products with gx and gy,
// and their mean square.
func (k *Kernel) Fit(now, weight, value, gx, gy *[Samples]float32) (bx, by, off float32) {
	p := fitArgs{now: &now[0], weight: &weight[0], value: &value[0], gx: &gx[0], gy: &gy[0], blocks: Samples / 8}
	k.fit(&p)
	return p.bx, p.by, p.off
}

// Moments are the mean of the samples under the weights, and the square root of the
// variance, a thousandth added: never 0.
func (k *Kernel) Moments(v, weight *[Samples]float32) (mean, spread float32) {
	p := fitArgs{now: &v[0], weight: &weight[0], value: &v[0], gx: &v[0], gy: &v[0], blocks: Samples / 8}
	k.fit(&p)
	return p.mean, p.spread
}

// added adds lanes by halves.
func added(s [8]float32) float32 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
