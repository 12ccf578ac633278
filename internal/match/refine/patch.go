// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine/kernel"
)

const (
	side    = kernel.Side // samples across a patch
	rim     = kernel.Rim  // with the ring that gradients need
	samples = kernel.Samples
	maxMove = 4.0 // pixels of a level that a patch may move on it
	// maxWindow bounds a window of picture 2: a patch stretched fourfold, turned
	// by 45 degrees, and its moves.
	maxWindow = 144
	// spare pixels about a window: a match moves little between the finest passes, which
	// then share a window.
	spare = 1
)

// taper weighs a patch's samples by a Gaussian of 5 pixels, sum 1; the pad has none.
var taper = func() (w [samples]float32) {
	const sigma = (side - 1) / 2 / 1.6
	sum := 0.0
	gauss := func(i int) float64 {
		x, y := float64(i%side-side/2), float64(i/side-side/2)
		return math.Exp(-(x*x + y*y) / (2 * sigma * sigma))
	}
	for i := range side * side {
		sum += gauss(i)
	}
	for i := range side * side {
		w[i] = float32(gauss(i) / sum)
	}
	return w
}()

// template is a patch of one picture, normalised to mean 0 and variance 1, with
// what the iteration needs of its gradients.
type template struct {
	value  [samples]float32
	gx, gy [samples]float32 // gradients, times the taper
	// Inverse of the matrix of the gradients' products, and the middle of the
	// covariance: products times the taper once more.
	ixx, ixy, iyy float64
	cxx, cxy, cyy float64
	least         float64 // eigenvalue of the products: structure in every direction
}

// tracker is the scratch of one thread.
type tracker struct {
	kernel     *kernel.Kernel
	win1, win2 window
	raw        []float32 // before smoothing
	ring       [kernel.RimSamples]float32
	now        [samples]float32
	template   template
}

// place is a point of a pyramid's level with the map of a step of the template.
type place struct {
	pyramid *pyramid
	level   int
	x, y    float64 // of the whole picture
	step    linear  // pixels of the whole picture per step of the template
}

// toLevel takes a coordinate of the picture to a level.
func toLevel(x float64, level int) float64 {
	return (x+0.5)/float64(int(1)<<level) - 0.5
}

// frame returns the place's point and step in pixels of its level.
func (p place) frame() (x, y float64, step linear) {
	return toLevel(p.x, p.level), toLevel(p.y, p.level), p.step.scaled(1 / float64(int(1)<<p.level))
}

// inside reports whether the point and its surroundings are in the picture.
func (p place) inside() bool {
	const edge = 3
	x, y, _ := p.frame()
	width, height := p.pyramid.size(p.level)
	return x >= edge && y >= edge && x <= float64(width-1-edge) && y <= float64(height-1-edge)
}

// cut fills a window with what n x n samples about p, moved by up to margin steps,
// can touch; false when it is too large or the point too near the edge. Nothing is to be
// done where the window has all that.
func (t *tracker) cut(p place, w *window, n int, margin float64) bool {
	if !p.inside() {
		return false
	}
	x, y, step := p.frame()
	half := float64(n/2) + margin
	reachX := half * (math.Abs(step.a) + math.Abs(step.b))
	reachY := half * (math.Abs(step.c) + math.Abs(step.d))
	left, top := int(math.Floor(x-reachX)), int(math.Floor(y-reachY))
	width, height := int(math.Ceil(x+reachX))+2-left, int(math.Ceil(y+reachY))+2-top
	if max(width, height)+2*spare > maxWindow {
		return false
	}
	if !w.holds(p.pyramid, p.level, left, top, width, height) {
		p.pyramid.cut(w, &t.raw, p.level, left-spare, top-spare, width+2*spare, height+2*spare)
	}
	return true
}

// grid is that of n x n samples about p in a window of p's level.
func (p place) grid(w *window, n int) kernel.Grid {
	x, y, step := p.frame()
	h := float64(n / 2)
	dx, dy := step.at(-h, -h)
	return kernel.Grid{
		X: float32(x + dx - float64(w.left)), Y: float32(y + dy - float64(w.top)),
		AX: float32(step.a), AY: float32(step.c), BX: float32(step.b), BY: float32(step.d),
	}
}

// prepare makes the template at p, out of a window around it.
func (t *tracker) prepare(p place, w *window) bool {
	if !t.kernel.Read(t.ring[:], w.pix, w.width, w.height, p.grid(w, rim)) {
		return false
	}
	m := &t.template
	for j := range side {
		copy(m.value[j*side:(j+1)*side], t.ring[(j+1)*rim+1:])
	}
	mean, spread := t.kernel.Moments(&m.value, &taper)
	if spread < 1 { // less contrast than the steps of an 8-bit picture
		return false
	}
	scale := 1 / spread
	for i, v := range m.value[:side*side] { // the pad stays 0
		m.value[i] = float32(v-mean) * scale
	}
	m.slopes(&t.ring, 0.5*scale)
	var xx, xy, yy, wxx, wxy, wyy float64
	for i, w := range taper {
		gx, gy := float64(m.gx[i]), float64(m.gy[i])
		w := float64(w)
		ux, uy := float64(w*gx), float64(w*gy)
		xx, xy, yy = xx+float64(ux*gx), xy+float64(ux*gy), yy+float64(uy*gy)
		wxx, wxy, wyy = wxx+float64(ux*ux), wxy+float64(ux*uy), wyy+float64(uy*uy)
		m.gx[i], m.gy[i] = float32(ux), float32(uy)
	}
	half := (xx + yy) / 2
	m.least = half - math.Sqrt((xx-yy)*(xx-yy)/4+xy*xy)
	det := xx*yy - xy*xy
	if !(m.least > 0 && det > 0) {
		return false
	}
	m.ixx, m.ixy, m.iyy = yy/det, -xy/det, xx/det
	m.cxx, m.cxy, m.cyy = sandwich(m.ixx, m.ixy, m.iyy, wxx, wxy, wyy)
	return true
}

// slopes are the template's gradients, k times the differences over two samples,
// without what a change of gain or offset would look like: normalising the patches
// undoes those.
func (m *template) slopes(ring *[kernel.RimSamples]float32, k float32) {
	var meanX, meanY, alongX, alongY float32
	for j := range side {
		up, mid, down := ring[j*rim:][:rim], ring[(j+1)*rim:][:rim], ring[(j+2)*rim:][:rim]
		at := j * side
		gx, gy, w, v := m.gx[at:][:side], m.gy[at:][:side], taper[at:][:side], m.value[at:][:side]
		for i := range side {
			x, y := float32(k*(mid[i+2]-mid[i])), float32(k*(down[i+1]-up[i+1]))
			gx[i], gy[i] = x, y
			x, y = float32(w[i]*x), float32(w[i]*y)
			meanX, meanY = meanX+x, meanY+y
			alongX, alongY = alongX+float32(x*v[i]), alongY+float32(y*v[i])
		}
	}
	for i, v := range m.value[:side*side] {
		m.gx[i] -= meanX + float32(alongX*v)
		m.gy[i] -= meanY + float32(alongY*v)
	}
}

// sandwich is A B A of two symmetric matrices.
func sandwich(axx, axy, ayy, bxx, bxy, byy float64) (xx, xy, yy float64) {
	pxx, pxy := axx*bxx+axy*bxy, axx*bxy+axy*byy
	pyx, pyy := axy*bxx+ayy*bxy, axy*bxy+ayy*byy
	return pxx*axx + pxy*axy, pxx*axy + pxy*ayy, pyx*axy + pyy*ayy
}

// track moves p until its patch looks like the template, at most so many steps, in a
// window that holds the patch and its moves; correlation is that of the patches at
// the end, moved in steps of the template.
func (t *tracker) track(p place, w *window, steps int, enough float64) (moved [2]float64, correlation float64, ok bool) {
	start := p.grid(w, side)
	m := &t.template
	best, bestAt := math.Inf(1), moved
	for range steps {
		g := start
		mx, my := float32(moved[0]), float32(moved[1])
		g.X = start.X + float32(mx*g.AX) + float32(my*g.BX)
		g.Y = start.Y + float32(mx*g.AY) + float32(my*g.BY)
		if !t.kernel.Read(t.now[:], w.pix, w.width, w.height, g) {
			return moved, 0, false
		}
		bx, by, off := t.kernel.Fit(&t.now, &taper, &m.value, &m.gx, &m.gy)
		if float64(off) < best {
			best, bestAt = float64(off), moved
		}
		dx := bound(m.ixx*float64(bx)+m.ixy*float64(by), 1)
		dy := bound(m.ixy*float64(bx)+m.iyy*float64(by), 1)
		if dx*dx+dy*dy < enough*enough {
			break
		}
		moved[0], moved[1] = bound(moved[0]-dx, maxMove), bound(moved[1]-dy, maxMove)
	}
	return bestAt, 1 - best/2, true
}

func bound(x, limit float64) float64 { return max(-limit, min(x, limit)) }
