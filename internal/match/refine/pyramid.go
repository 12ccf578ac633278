// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Picture is 8-bit RGB, rows Stride bytes apart.
type Picture struct {
	Pix                   []byte
	Width, Height, Stride int
}

func (p Picture) check(name string) error {
	if p.Width < 1 || p.Height < 1 || p.Stride < 3*p.Width || len(p.Pix) < p.Stride*(p.Height-1)+3*p.Width {
		return fmt.Errorf("refine: %s: %d bytes, stride %d, for %dx%d RGB", name, len(p.Pix), p.Stride, p.Width, p.Height)
	}
	return nil
}

// pyramid is a picture and its reductions. Level 0 is read from the colours
// where it is needed: patches touch a small part of a large picture.
type pyramid struct {
	kernel  *kernel.Kernel
	picture Picture
	levels  []plane // from level 1
}

// plane is a grey picture.
type plane struct {
	pix           []byte
	width, height int
}

// size is that of a level.
func (p *pyramid) size(level int) (width, height int) {
	if level == 0 {
		return p.picture.Width, p.picture.Height
	}
	l := p.levels[level-1]
	return l.width, l.height
}

// deepest is the coarsest level there is.
func (p *pyramid) deepest() int { return len(p.levels) }

// minSide is the least side of a level: below it a patch is the whole picture.
const minSide = 32

// build makes the levels 1 to deepest, or fewer where the picture is small.
func build(pool *par.Pool, k *kernel.Kernel, picture Picture, deepest int) *pyramid {
	p := &pyramid{kernel: k, picture: picture}
	width, height := picture.Width, picture.Height
	for level := 1; level <= deepest && min(width, height) >= 2*minSide; level++ {
		width, height = width/2, height/2
		out := plane{make([]byte, width*height), width, height}
		const batch = 16
		pool.Run((height+batch-1)/batch, func(_, tile int) {
			for y := tile * batch; y < min(height, (tile+1)*batch); y++ {
				row := out.pix[y*width : (y+1)*width]
				if level == 1 {
					pix, stride := picture.Pix[2*y*picture.Stride:], picture.Stride
					k.HalveColours(row, pix[:6*width], pix[stride:][:6*width])
				} else {
					above := p.levels[level-2]
					pix := above.pix[2*y*above.width:]
					k.HalveGrey(row, pix[:2*width], pix[above.width:][:2*width])
				}
			}
		})
		p.levels = append(p.levels, out)
	}
	return p
}

// window is a rectangle of one level as floats, its first pixel at (left, top).
type window struct {
	pix           []float32
	left, top     int
	width, height int
	of            *pyramid // nil: of none yet
	level         int
}

// holds reports whether the window has a rectangle of a level.
func (w *window) holds(p *pyramid, level, left, top, width, height int) bool {
	return w.of == p && w.level == level && left >= w.left && top >= w.top &&
		left+width <= w.left+w.width && top+height <= w.top+w.height
}

// Smoothing of level 0 by a Gaussian of 0.7 pixels: without it, linear
// interpolation between noisy pixels prefers half-way places, where it averages.
// The coarser levels are smooth enough by their making.
var smooth = [3]float32{0.5586, 0.2056, 0.0151} // the centre and the next two, on either side

// cut fills w with a rectangle; what lies outside repeats the picture's edge. raw is
// scratch.
func (p *pyramid) cut(w *window, raw *[]float32, level, left, top, width, height int) {
	w.left, w.top, w.width, w.height, w.of, w.level = left, top, width, height, p, level
	w.pix = grow(w.pix, width*height)
	if level > 0 {
		l := p.levels[level-1]
		x0, y0 := clamp(left, l.width), clamp(top, l.height)
		p.kernel.Prefetch(l.pix[y0*l.width+x0:], l.width, min(height, l.height-y0), min(width, l.width-x0))
		for y := range height {
			row := l.pix[clamp(top+y, l.height)*l.width:][:l.width]
			out := w.pix[y*width:][:width]
			if left >= 0 && left+width <= l.width {
				for x, v := range row[left : left+width] {
					out[x] = float32(v)
				}
				continue
			}
			for x := range out {
				out[x] = float32(row[clamp(left+x, l.width)])
			}
		}
		return
	}
	p.cutSmooth(w, raw)
}

// cutSmooth is cut of level 0, grey and smoothed.
func (p *pyramid) cutSmooth(w *window, scratch *[]float32) {
	const margin = len(smooth) - 1
	img := &p.picture
	rw, rh := w.width+2*margin, w.height+2*margin
	*scratch = grow(*scratch, rw*rh)
	all := *scratch
	x0, y0 := w.left-margin, w.top-margin
	inside := x0 >= 0 && x0+rw <= img.Width
	k := p.kernel
	if inside {
		k.Prefetch(img.Pix[clamp(y0, img.Height)*img.Stride+3*x0:], img.Stride, min(rh, img.Height-clamp(y0, img.Height)), 3*rw)
	}
	var line [maxWindow + 2*margin]float32
	for y := range rh {
		row := img.Pix[clamp(y0+y, img.Height)*img.Stride:][:3*img.Width]
		if inside {
			k.Grey(line[:rw], row[3*x0:3*(x0+rw)])
		} else {
			for x := range line[:rw] {
				c := row[3*clamp(x0+x, img.Width):][:3]
				line[x] = kernel.GreyOf(c[0], c[1], c[2])
			}
		}
		k.Five(all[y*w.width:][:w.width], line[:], line[1:], line[2:], line[3:], line[4:], &smooth)
	}
	for y := range w.height {
		n, raw := w.width, all[y*w.width:]
		k.Five(w.pix[y*n:][:n], raw, raw[n:], raw[2*n:], raw[3*n:], raw[4*n:], &smooth)
	}
}

func clamp(x, n int) int { return max(0, min(x, n-1)) }

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
