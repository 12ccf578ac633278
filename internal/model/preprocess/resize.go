// SPDX-License-Identifier: Apache-2.0

package preprocess

import "fmt"

// Image is a view of 8-bit RGB pixels, three bytes each, rows Stride bytes
// apart, top row first.
type Image struct {
	Pix    []byte
	W, H   int
	Stride int
}

// check makes sure that every pixel lies in Pix, so that the loops may index
// freely.
func (m Image) check() error {
	if m.W < 1 || m.H < 1 || m.W > MaxSide || m.H > MaxSide || m.Stride < 3*m.W ||
		m.Stride > (len(m.Pix)-3*m.W)/max(m.H-1, 1) && m.H > 1 || len(m.Pix) < 3*m.W {
		return fmt.Errorf("preprocess: image of %dx%d pixels, stride %d, in %d bytes: want sides of 1 to %d, a stride of at least 3 x width, and all rows inside",
			m.W, m.H, m.Stride, len(m.Pix), MaxSide)
	}
	return nil
}

func (m Image) row(y int) []byte { return m.Pix[y*m.Stride : y*m.Stride+3*m.W] }

// Runner spreads tiles over threads; *par.Pool is one.
type Runner interface {
	Threads() int
	Run(tiles int, fn func(worker, tile int))
}

type serial struct{}

func (serial) Threads() int { return 1 }
func (serial) Run(tiles int, fn func(worker, tile int)) {
	for t := range tiles {
		fn(0, t)
	}
}

// Resizer resizes and crops pictures. It keeps its scratch memory and weight
// tables from call to call and allocates nothing for pictures of one size. It
// serves one goroutine at a time.
type Resizer struct {
	run  Runner
	x, y taps
	mid  []byte    // after the horizontal pass: the source rows that count
	acc  [][]int32 // a row of sums for each worker

	// The call in progress, here so that the tile functions need no closure.
	src, in        Image
	dst            []byte
	t              Transform
	firstRow, rows int
	horizontal     func(worker, tile int)
	vertical       func(worker, tile int)
}

// NewResizer returns a Resizer that works on r's threads, or on the caller's
// alone when r is nil.
func NewResizer(r Runner) *Resizer {
	if r == nil {
		r = serial{}
	}
	z := &Resizer{run: r, acc: make([][]int32, r.Threads())}
	z.horizontal, z.vertical = z.horizontalTile, z.verticalTile
	return z
}

// On has the calls from now on work on other threads, no more of them than before.
func (z *Resizer) On(r Runner) *Resizer {
	z.run = r
	return z
}

// rowsPerTile makes a tile of the horizontal pass a few tenths of a
// millisecond for a 12-megapixel picture.
const rowsPerTile = 8

// Apply writes t.Width x t.Height packed RGB pixels to dst. src must have the
// size that t was planned for; it may not overlap dst.
//
// The resampler is Pillow's for 8-bit pictures: separable, horizontal pass
// first, each pass rounded to 8 bits, weights in fixed point. Only pixels that
// survive the crop are computed, which changes none of them.
func (z *Resizer) Apply(dst []byte, src Image, t Transform) error {
	if err := src.check(); err != nil {
		return err
	}
	if src.W != t.OriginalW || src.H != t.OriginalH {
		return fmt.Errorf("preprocess: picture of %dx%d, want the planned %dx%d", src.W, src.H, t.OriginalW, t.OriginalH)
	}
	if !t.valid() || len(dst) != 3*t.Width*t.Height {
		return fmt.Errorf("preprocess: output of %d bytes for %+v, want a transform from Plan and 3 x width x height bytes", len(dst), t)
	}
	z.src, z.dst, z.t = src, dst, t
	defer func() { z.src, z.in, z.dst = Image{}, Image{}, nil }() // keep no picture alive

	f := t.filter()
	// Source rows that the vertical pass will read.
	z.firstRow, z.rows = t.CropY, t.Height
	if t.ResizedH != src.H {
		z.y.prepare(f, src.H, t.ResizedH, t.CropY, t.Height)
		last := t.Height - 1
		z.firstRow = z.y.lo[0]
		z.rows = z.y.lo[last] + z.y.n[last] - z.firstRow
	}
	switch {
	case t.ResizedW != src.W:
		z.x.prepare(f, src.W, t.ResizedW, t.CropX, t.Width)
		z.mid = resized(z.mid, 3*t.Width*z.rows)
		z.in = Image{z.mid, t.Width, z.rows, 3 * t.Width}
		z.run.Run((z.rows+rowsPerTile-1)/rowsPerTile, z.horizontal)
	default: // the rows as they are, cropped
		at := z.firstRow*src.Stride + 3*t.CropX
		z.in = Image{src.Pix[at:], t.Width, z.rows, src.Stride}
	}
	if t.ResizedH != src.H {
		z.run.Run(t.Height, z.vertical)
		return nil
	}
	for y := range t.Height {
		copy(dst[3*t.Width*y:], z.in.row(y))
	}
	return nil
}

// Axis is how one axis of a picture is resampled: output i is the sum of the inputs from
// First[i] on, Count[i] of them, times the Weights from Size*i on, in units of 2^-22,
// rounded to a byte.
type Axis struct {
	Size         int
	First, Count []int
	Weights      []int32
}

// Axes are what Apply does to the rows of t's picture, and then to the columns, for those
// who do it elsewhere. They hold until the next call of the Resizer.
func (z *Resizer) Axes(t Transform) (x, y Axis, err error) {
	if !t.valid() || t.OriginalW < 1 || t.OriginalH < 1 {
		return x, y, fmt.Errorf("preprocess: %+v, want a transform from Plan", t)
	}
	f := t.filter()
	z.x.prepare(f, t.OriginalW, t.ResizedW, t.CropX, t.Width)
	z.y.prepare(f, t.OriginalH, t.ResizedH, t.CropY, t.Height)
	return Axis{z.x.size, z.x.lo, z.x.n, z.x.k}, Axis{z.y.size, z.y.lo, z.y.n, z.y.k}, nil
}

// filter is the kernel of a transform.
func (t Transform) filter() *filter {
	if max(t.OriginalW, t.OriginalH) > max(t.ResizedW, t.ResizedH) {
		return lanczos3
	}
	return bicubic
}

// Resizes says whether pixels are computed, and not just cut out.
func (t Transform) Resizes() bool { return t.ResizedW != t.OriginalW || t.ResizedH != t.OriginalH }

// valid reports whether the crop lies inside the resized picture.
func (t Transform) valid() bool {
	return t.Width > 0 && t.Height > 0 && t.CropX >= 0 && t.CropY >= 0 &&
		t.ResizedW > 0 && t.ResizedH > 0 &&
		t.Width <= t.ResizedW-t.CropX && t.Height <= t.ResizedH-t.CropY
}

// half rounds the fixed-point sum.
const half = 1 << (precision - 1)

func clamp(sum int32) byte {
	sum >>= precision
	if uint32(sum) > 255 {
		return byte(^(sum >> 31)) // 0 below, 255 above
	}
	return byte(sum)
}

func (z *Resizer) horizontalTile(_, tile int) {
	for y := tile * rowsPerTile; y < min((tile+1)*rowsPerTile, z.rows); y++ {
		src := z.src.row(z.firstRow + y)
		out := z.in.row(y)
		for x, n := range z.x.n {
			k := z.x.k[x*z.x.size:][:n]
			px := src[3*z.x.lo[x]:][:3*n]
			r, g, b := int32(half), int32(half), int32(half)
			// Four taps a turn: else half of the time goes into moving the slices.
			for len(k) >= 4 && len(px) >= 12 {
				w, v, u, t := k[0], k[1], k[2], k[3]
				r += w*int32(px[0]) + v*int32(px[3]) + u*int32(px[6]) + t*int32(px[9])
				g += w*int32(px[1]) + v*int32(px[4]) + u*int32(px[7]) + t*int32(px[10])
				b += w*int32(px[2]) + v*int32(px[5]) + u*int32(px[8]) + t*int32(px[11])
				k, px = k[4:], px[12:]
			}
			for i, w := range k {
				p := px[3*i:][:3]
				r += w * int32(p[0])
				g += w * int32(p[1])
				b += w * int32(p[2])
			}
			o := out[3*x : 3*x+3 : 3*x+3]
			o[0], o[1], o[2] = clamp(r), clamp(g), clamp(b)
		}
	}
}

// verticalTile makes one output row. It adds whole rows, weighted, so that
// memory is read along rows and not down columns.
func (z *Resizer) verticalTile(worker, y int) {
	width := 3 * z.t.Width
	acc := resized(z.acc[worker], width)
	z.acc[worker] = acc
	for i := range acc {
		acc[i] = half
	}
	lo := z.y.lo[y] - z.firstRow
	k := z.y.k[y*z.y.size:][:z.y.n[y]]
	// Four rows a turn, so that the sums are loaded and stored a fourth as often.
	for ; len(k) >= 4; k, lo = k[4:], lo+4 {
		r0, r1 := z.in.row(lo)[:len(acc)], z.in.row(lo + 1)[:len(acc)]
		r2, r3 := z.in.row(lo + 2)[:len(acc)], z.in.row(lo + 3)[:len(acc)]
		k0, k1, k2, k3 := k[0], k[1], k[2], k[3]
		for i := range acc {
			acc[i] += k0*int32(r0[i]) + k1*int32(r1[i]) + k2*int32(r2[i]) + k3*int32(r3[i])
		}
	}
	for j, w := range k {
		row := z.in.row(lo + j)[:len(acc)]
		for i, p := range row {
			acc[i] += w * int32(p)
		}
	}
	out := z.dst[y*width:][:len(acc)]
	for i, s := range acc {
		out[i] = clamp(s)
	}
}
