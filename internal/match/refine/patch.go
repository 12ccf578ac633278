// SPDX-License-Identifier: Apache-2.0

package refine

import "math"

const (
	radius  = 8            // of a patch: 17 x 17 samples
	side    = 2*radius + 1 //
	samples = side * side  //
	rim     = side + 2     // with the ring that gradients need
	maxMove = 4.0          // pixels of a level that a patch may move on it
	// maxWindow bounds a window of picture 2: a patch stretched fourfold, turned
	// by 45 degrees, and its moves.
	maxWindow = 128
)

// taper weighs a patch's samples by a Gaussian of radius/1.6, sum 1.
var taper = func() (w [samples]float32) {
	const sigma = radius / 1.6
	sum := 0.0
	for i := range w {
		x, y := float64(i%side-radius), float64(i/side-radius)
		sum += math.Exp(-(x*x + y*y) / (2 * sigma * sigma))
	}
	for i := range w {
		x, y := float64(i%side-radius), float64(i/side-radius)
		w[i] = float32(math.Exp(-(x*x+y*y)/(2*sigma*sigma)) / sum)
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
	win1, win2 window
	ring       [rim * rim]float32
	now        [samples]float32
	template   template
}

// sampler reads a window along an affine grid: sample (i, j) lies at
// (x + i ax + j bx, y + i ay + j by) in pixels of the window.
type sampler struct {
	x, y, ax, ay, bx, by float32
}

// read fills out with n x n samples; the caller has made the window large enough.
func (w *window) read(out []float32, n int, s sampler) {
	stride := w.width
	pix := w.pix
	for j := range n {
		x, y := s.x+float32(j)*s.bx, s.y+float32(j)*s.by
		row := out[j*n:][:n]
		for i := range row {
			fx, fy := x+float32(i)*s.ax, y+float32(i)*s.ay
			ix, iy := int(fx), int(fy)
			fx, fy = fx-float32(ix), fy-float32(iy)
			at := iy*stride + ix
			p, q := pix[at:at+2:at+2], pix[at+stride:at+stride+2:at+stride+2]
			up, down := p[0]+fx*(p[1]-p[0]), q[0]+fx*(q[1]-q[0])
			row[i] = up + fy*(down-up)
		}
	}
}

// normalise gives v mean 0 and variance 1 under the taper; the spread is what it
// was divided by.
func normalise(v *[samples]float32) (spread float32) {
	var mean, square float32
	for i, x := range v {
		mean += taper[i] * x
	}
	for i, x := range v {
		x -= mean
		v[i] = x
		square += taper[i] * x * x
	}
	spread = float32(math.Sqrt(float64(square))) + 1e-3
	k := 1 / spread
	for i := range v {
		v[i] *= k
	}
	return spread
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

// window cuts what n x n samples about p, moved by up to margin steps, can
// touch; ok is false when it is too large or the point too near the edge.
func (p place) window(w *window, n int, margin float64) (s sampler, ok bool) {
	x, y, step := p.frame()
	width, height := p.pyramid.size(p.level)
	const inside = 3 // the point itself and its surroundings must be in the picture
	if !(x >= inside && y >= inside && x <= float64(width-1-inside) && y <= float64(height-1-inside)) {
		return s, false
	}
	half := float64(n/2) + margin
	reachX := half * (math.Abs(step.a) + math.Abs(step.b))
	reachY := half * (math.Abs(step.c) + math.Abs(step.d))
	left, top := int(math.Floor(x-reachX))-1, int(math.Floor(y-reachY))-1
	right, bottom := int(math.Ceil(x+reachX))+2, int(math.Ceil(y+reachY))+2
	if right-left > maxWindow || bottom-top > maxWindow {
		return s, false
	}
	p.pyramid.cut(w, p.level, left, top, right-left, bottom-top)
	h := float64(n / 2)
	dx, dy := step.at(-h, -h)
	return sampler{
		float32(x + dx - float64(left)), float32(y + dy - float64(top)),
		float32(step.a), float32(step.c), float32(step.b), float32(step.d),
	}, true
}

// prepare makes the template at p.
func (t *tracker) prepare(p place) bool {
	s, ok := p.window(&t.win1, rim, 0)
	if !ok {
		return false
	}
	t.win1.read(t.ring[:], rim, s)
	m := &t.template
	for j := range side {
		copy(m.value[j*side:(j+1)*side], t.ring[(j+1)*rim+1:])
	}
	spread := normalise(&m.value)
	if spread < 1 { // less contrast than the steps of an 8-bit picture
		return false
	}
	k := 0.5 / spread
	for j := range side {
		up, mid, down := t.ring[j*rim:][:rim], t.ring[(j+1)*rim:][:rim], t.ring[(j+2)*rim:][:rim]
		for i := range side {
			m.gx[j*side+i] = k * (mid[i+2] - mid[i])
			m.gy[j*side+i] = k * (down[i+1] - up[i+1])
		}
	}
	m.project(&m.gx)
	m.project(&m.gy)
	var xx, xy, yy, wxx, wxy, wyy float64
	for i, w := range taper {
		gx, gy := float64(m.gx[i]), float64(m.gy[i])
		w := float64(w)
		xx, xy, yy = xx+w*gx*gx, xy+w*gx*gy, yy+w*gy*gy
		wxx, wxy, wyy = wxx+w*w*gx*gx, wxy+w*w*gx*gy, wyy+w*w*gy*gy
		m.gx[i], m.gy[i] = float32(w*gx), float32(w*gy)
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

// sandwich is A B A of two symmetric matrices.
func sandwich(axx, axy, ayy, bxx, bxy, byy float64) (xx, xy, yy float64) {
	pxx, pxy := axx*bxx+axy*bxy, axx*bxy+axy*byy
	pyx, pyy := axy*bxx+ayy*bxy, axy*bxy+ayy*byy
	return pxx*axx + pxy*axy, pxx*axy + pxy*ayy, pyx*axy + pyy*ayy
}

// project takes from a gradient what a change of gain or offset would look like:
// normalising the patches undoes those.
func (m *template) project(g *[samples]float32) {
	var mean, along float32
	for i, x := range g {
		mean += taper[i] * x
		along += taper[i] * x * m.value[i]
	}
	for i := range g {
		g[i] -= mean + along*m.value[i]
	}
}

// track moves p until its patch looks like the template, at most so many steps;
// correlation is that of the patches at the end, moved in steps of the template.
func (t *tracker) track(p place, steps int, enough float64) (moved [2]float64, correlation float64, ok bool) {
	s, ok := p.window(&t.win2, side, maxMove)
	if !ok {
		return moved, 0, false
	}
	m := &t.template
	start := s
	best, bestAt := math.Inf(1), moved
	for range steps {
		s.x = start.x + float32(moved[0])*s.ax + float32(moved[1])*s.bx
		s.y = start.y + float32(moved[0])*s.ay + float32(moved[1])*s.by
		t.win2.read(t.now[:], side, s)
		normalise(&t.now)
		var bx, by, off float32
		for i, v := range t.now {
			r := v - m.value[i]
			bx += m.gx[i] * r
			by += m.gy[i] * r
			off += taper[i] * r * r
		}
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
