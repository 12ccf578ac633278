// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"slices"
)

// maxParams of a state: three of the turn, two of the direction, two focal lengths.
const maxParams = 7

// fitted is a state at its best, and what is known of it.
type fitted struct {
	state      state
	covariance [maxParams][maxParams]float64 // turn, direction along basis, focal lengths
	spread     float64                       // of the residuals, in units of their covariances
	focalSigma [2]float64
}

// params says which of a state's parameters are free.
func (p *epipolar) params() (n int, shared bool) {
	shared = p.o.SharedFocal && p.o.FocalSigma[0] > 0 && p.o.FocalSigma[1] > 0
	n = 5
	for _, sigma := range p.o.FocalSigma {
		if sigma > 0 {
			n++
		}
	}
	if shared {
		n--
	}
	return n, shared
}

// moved is a state after a step: a turn after R, a move of t on the unit sphere,
// factors of the focal lengths.
func (p *epipolar) moved(s state, d []float64) state {
	e1, e2 := tangents(s.pose.T)
	t := add(s.pose.T, add(scale(e1, d[3]), scale(e2, d[4])))
	out := state{Pose{Mul(rotation(Vec3{d[0], d[1], d[2]}), s.pose.R), scale(t, 1/norm(t))}, s.focal}
	k := 5
	_, shared := p.params()
	for c, sigma := range p.o.FocalSigma {
		if sigma > 0 && k < len(d) {
			out.focal[c] += d[k]
			if !shared {
				k++
			}
		}
	}
	return out
}

// tangents are two unit vectors at right angles to t and to each other.
func tangents(t Vec3) (e1, e2 Vec3) {
	axis := Vec3{1, 0, 0}
	if math.Abs(t[0]) > math.Abs(t[1]) {
		axis = Vec3{0, 1, 0}
	}
	e1 = cross(t, axis)
	e1 = scale(e1, 1/norm(e1))
	return e1, cross(t, e1)
}

// residual is a match's distance from the epipolar line in picture 2, in units of
// its standard deviation across the line.
func (p *epipolar) residual(f *Mat3, i int) float64 {
	x, y, c := &p.x[i], &p.y[i], &p.covariance[i]
	l0 := f[0][0]*x[0] + f[0][1]*x[1] + f[0][2]
	l1 := f[1][0]*x[0] + f[1][1]*x[1] + f[1][2]
	v := c[0]*l0*l0 + 2*c[1]*l0*l1 + c[2]*l1*l1
	if !(v > 0) {
		return 0
	}
	return (l0*y[0] + l1*y[1] + (f[2][0]*x[0] + f[2][1]*x[1] + f[2][2])) / math.Sqrt(v)
}

func (p *epipolar) residuals(s state, in []int, out []float64) {
	f := p.fundamental(s)
	for k, i := range in {
		out[k] = p.residual(&f, i)
	}
}

// priors are the residuals of uncertain focal lengths.
func (p *epipolar) priors(s state) (r []float64) {
	_, shared := p.params()
	for c, sigma := range p.o.FocalSigma {
		if sigma > 0 && !(shared && c == 1) {
			// The matches count for as many as are independent: as only the weight
			// of one against the other matters, the prior counts for more.
			r = append(r, s.focal[c]/sigma*math.Sqrt(p.o.Dependence))
		}
	}
	return r
}

// huberWidth is where Huber's loss goes from squares to absolute values, in units
// of the residuals' spread: 95 % as efficient as least squares on normal noise.
const huberWidth = 1.345

// polish minimises Huber's loss of the residuals by Levenberg and Marquardt's
// iteration, with derivatives by differences.
func (p *epipolar) polish(s state, in []int) (fitted, bool) {
	r := make([]float64, len(in))
	p.residuals(s, in, r)
	spread := spreadOf(r)
	now := p.loss(s, in, r, spread)
	damp := 1e-4
	for range 30 {
		if p.ctx.Err() != nil {
			return fitted{}, false
		}
		a, b := p.normal(s, in, spread)
		step, ok := dampedStep(a, b, damp)
		if !ok {
			return fitted{}, false
		}
		try := p.moved(s, step)
		loss := p.loss(try, in, r, spread)
		if !(loss < now) {
			if damp *= 10; damp > 1e6 {
				break
			}
			continue
		}
		small := now-loss <= 1e-9*now
		s, now, damp = try, loss, max(damp/10, 1e-12)
		if small {
			break
		}
	}
	p.residuals(s, in, r)
	spread = spreadOf(r)
	a, _ := p.normal(s, in, spread)
	inv, ok := invertSymmetric(a)
	if !ok {
		return fitted{}, false
	}
	out := fitted{state: s, spread: spread}
	k := p.huberVariance(r, spread, len(a)) * p.o.Dependence
	for i := range inv {
		for j := range inv {
			out.covariance[i][j] = k * inv[i][j]
		}
	}
	_, shared := p.params()
	at := 5
	for c, sigma := range p.o.FocalSigma {
		if sigma > 0 {
			out.focalSigma[c] = math.Sqrt(out.covariance[at][at])
			if !shared {
				at++
			}
		}
	}
	return out, true
}

// flat reports whether one homography explains most of the matches: then they tell
// nothing of the focal lengths.
func (p *epipolar) flat(in []int) bool {
	x, y := make([]Vec2, len(in)), make([]Vec2, len(in))
	for k, i := range in {
		x[k], y[k] = p.x[i], p.y[i]
	}
	h, agree, _, err := Homography(x, y, p.o.Tolerance)
	return err == nil && h != nil && float64(len(agree)) > flatShare*float64(len(in))
}

const flatShare = 0.7

// strayed reports whether the focal lengths went further than they are uncertain:
// what matches ask for then is as a rule their own common error.
func (p *epipolar) strayed(s state) bool {
	for c, sigma := range p.o.FocalSigma {
		if math.Abs(s.focal[c]) > 3*sigma {
			return true
		}
	}
	return false
}

// withFixedFocal fits the pose to focal lengths as they were given. What their
// uncertainty does to the pose is found by moving them one standard deviation.
func (p *epipolar) withFixedFocal(in []int) (fitted, bool) {
	fixed := *p
	fixed.o.FocalSigma = [2]float64{}
	s, ok := fixed.search()
	if !ok {
		return fitted{}, false
	}
	fit, ok := fixed.polish(s, in)
	if !ok {
		return fitted{}, false
	}
	fit.focalSigma = p.o.FocalSigma
	for c := range 2 {
		sigma := p.o.FocalSigma
		if _, shared := p.params(); !shared {
			sigma[1-c] = 0
		} else if c == 1 {
			break
		}
		if sigma == [2]float64{} {
			continue
		}
		off := fit.state
		off.focal = sigma
		moved, ok := fixed.polish(off, in)
		if !ok {
			continue
		}
		d := Mul(moved.state.pose.R, Transpose(fit.state.pose.R))
		e1, e2 := tangents(fit.state.pose.T)
		step := [5]float64{
			(d[2][1] - d[1][2]) / 2, (d[0][2] - d[2][0]) / 2, (d[1][0] - d[0][1]) / 2,
			dot(e1, moved.state.pose.T), dot(e2, moved.state.pose.T),
		}
		for i, v := range step {
			for j, w := range step {
				fit.covariance[i][j] += v * w
			}
		}
	}
	return fit, true
}

// medianSize is the median of absolute values.
func medianSize(v []float64) float64 {
	abs := make([]float64, len(v))
	for i, x := range v {
		abs[i] = math.Abs(x)
	}
	slices.Sort(abs)
	return abs[len(abs)/2]
}

// spreadOf is the robust standard deviation of residuals about 0; at least a
// twentieth of what their covariances say.
func spreadOf(r []float64) float64 {
	return max(1.4826*medianSize(r), 0.05)
}

// huberVariance is the factor of the normal matrix's inverse (Huber 1981, 6.6,
// the first form): the mean square of the loss's slope over the square of its
// mean curvature. The priors come with residuals of variance 1, which this would
// scale too; of thousands of matches they are a small part.
func (p *epipolar) huberVariance(r []float64, spread float64, params int) float64 {
	w := huberWidth * spread
	square, inside := 0.0, 0.0
	for _, v := range r {
		c := max(-w, min(v, w))
		square += c * c
		if math.Abs(v) <= w {
			inside++
		}
	}
	n := float64(len(r))
	inside /= n
	small := 1 + float64(params)/n*(1-inside)/inside // Huber's correction for few data
	return small * small * square / max(1, n-float64(params)) / (inside * inside) / (spread * spread)
}

// loss is Huber's, of residuals in units of their spread.
func (p *epipolar) loss(s state, in []int, r []float64, spread float64) (total float64) {
	p.residuals(s, in, r)
	for _, v := range r {
		if v = math.Abs(v) / spread; v <= huberWidth {
			total += v * v / 2
		} else {
			total += huberWidth * (v - huberWidth/2)
		}
	}
	for _, v := range p.priors(s) {
		total += v * v / 2
	}
	return total
}

// normal is the normal matrix and the right side of the step at s. The weights of
// Huber's loss are left out of the matrix: what it says of the uncertainty is then
// right, and the damping sees to the rest.
func (p *epipolar) normal(s state, in []int, spread float64) (a [][]float64, b []float64) {
	n, _ := p.params()
	a, b = make([][]float64, n), make([]float64, n)
	for i := range a {
		a[i] = make([]float64, n)
	}
	r := make([]float64, len(in))
	p.residuals(s, in, r)
	slopes := make([][]float64, n)
	priors := p.priors(s)
	priorSlopes := make([][]float64, n)
	const h = 1e-6
	d := make([]float64, n)
	for k := range n {
		up, down := make([]float64, len(in)), make([]float64, len(in))
		d[k] = h
		forth := p.moved(s, d)
		p.residuals(forth, in, up)
		d[k] = -h
		back := p.moved(s, d)
		p.residuals(back, in, down)
		d[k] = 0
		for i := range up {
			up[i] = (up[i] - down[i]) / (2 * h * spread)
		}
		slopes[k] = up
		f, g := p.priors(forth), p.priors(back)
		priorSlopes[k] = make([]float64, len(f))
		for i := range f {
			priorSlopes[k][i] = (f[i] - g[i]) / (2 * h)
		}
	}
	for i := range r {
		v := max(-huberWidth, min(r[i]/spread, huberWidth))
		for k := range n {
			b[k] -= slopes[k][i] * v
			for l := range k + 1 {
				a[k][l] += slopes[k][i] * slopes[l][i]
			}
		}
	}
	for i, v := range priors {
		for k := range n {
			b[k] -= priorSlopes[k][i] * v
			for l := range k + 1 {
				a[k][l] += priorSlopes[k][i] * priorSlopes[l][i]
			}
		}
	}
	for k := range n {
		for l := range k {
			a[l][k] = a[k][l]
		}
	}
	return a, b
}

// dampedStep solves (a + damp diag(a)) x = b.
func dampedStep(a [][]float64, b []float64, damp float64) ([]float64, bool) {
	m := make([][]float64, len(a))
	for i := range a {
		m[i] = slices.Clone(a[i])
		m[i][i] *= 1 + damp
	}
	inv, ok := invertSymmetric(m)
	if !ok {
		return nil, false
	}
	x := make([]float64, len(b))
	for i := range x {
		for j, v := range b {
			x[i] += inv[i][j] * v
		}
	}
	return x, true
}

// invertSymmetric inverts a positive definite matrix by its eigenvectors, rows and
// columns scaled to a unit diagonal first. A direction about which the data say
// nothing gets the variance of the least they could say.
func invertSymmetric(a [][]float64) ([][]float64, bool) {
	n := len(a)
	size := make([]float64, n)
	m := make([][]float64, n)
	for i := range n {
		size[i] = math.Sqrt(a[i][i])
		if !(size[i] > 0) || math.IsInf(size[i], 0) {
			return nil, false
		}
	}
	for i := range n {
		m[i] = make([]float64, n)
		for j := range n {
			m[i][j] = a[i][j] / (size[i] * size[j])
		}
	}
	val, vec := eigen(m)
	inv := make([][]float64, n)
	for i := range n {
		inv[i] = make([]float64, n)
		for j := range n {
			for k := range n {
				inv[i][j] += vec[k][i] * vec[k][j] / max(val[k], 1e-12)
			}
			inv[i][j] /= size[i] * size[j]
		}
	}
	return inv, true
}

// turnOnly fits a turn alone, and tells whether it explains the inliers as well as
// their spread allows: then the baseline cannot be seen. Of a right turn the
// squared distances over their covariances are chi squared with two degrees of
// freedom, whose median is 1.386; parallax of the size of the noise doubles it.
func (p *epipolar) turnOnly(s state, in []int, spread float64) (Mat3, bool) {
	a, b := p.rays(s)
	from, to := make([]Vec3, len(in)), make([]Vec3, len(in))
	for k, i := range in {
		from[k], to[k] = a[i], b[i]
	}
	m, ok := hornTurn(to, from)
	if !ok {
		return Mat3{}, false
	}
	k2 := zoomed(p.k2, s.focal[1])
	d := make([]float64, len(in))
	for k, i := range in {
		d[k] = p.transfer(m, k2, from[k], i)
	}
	slices.Sort(d)
	return m, d[len(d)/2] < 2*1.386*max(1, spread*spread)
}

// transfer is the squared distance of a match's pixel in picture 2 from where a
// turn of the ray puts it, over its covariance; +Inf behind the camera.
func (p *epipolar) transfer(turn, k2 Mat3, ray Vec3, i int) float64 {
	q, ok := Project(k2, MulVec(turn, ray))
	if !ok {
		return math.Inf(1)
	}
	x, y := q[0]-p.y[i][0], q[1]-p.y[i][1]
	c := p.covariance[i]
	return (c[2]*x*x - 2*c[1]*x*y + c[0]*y*y) / (c[0]*c[2] - c[1]*c[1])
}

// turnAlone looks for a turn that most matches agree with, within 3 standard
// deviations.
func (p *epipolar) turnAlone() (Relative, bool) {
	var s state
	a, b := p.rays(s)
	pick2 := func(pick []int) (x, y []Vec3) {
		for _, i := range pick {
			x, y = append(x, b[i]), append(y, a[i])
		}
		return x, y
	}
	const limit = 9
	cost := func(m Mat3, i int) float64 { return p.transfer(m, p.k2, a[i], i) }
	best, in := ransac(p.ctx, len(p.x), 2, limit, 0, func(pick []int) []Mat3 {
		if m, ok := hornTurn(pick2(pick)); ok {
			return []Mat3{m}
		}
		return nil
	}, cost)
	for range 3 {
		if m, ok := hornTurn(pick2(in)); ok {
			best = m
			in = agreeing(len(p.x), limit, func(i int) float64 { return cost(m, i) })
		}
	}
	if len(in) < minInliers {
		return Relative{}, false
	}
	pose := Pose{R: Transpose(best)}
	out := Relative{Pose: &pose, TurnOnly: true, K1: p.k1, K2: p.k2, FocalSigma: p.o.FocalSigma}
	var info [3][3]float64 // of the turn: a match at right angles to the axis says most
	for _, i := range in {
		out.Inliers = append(out.Inliers, p.index[i])
		r := MulVec(best, a[i])
		v := (p.covariance[i][0] + p.covariance[i][2]) / 2 / (p.k2[0][0] * p.k2[1][1])
		for r1 := range 3 {
			for c := range 3 {
				info[r1][c] += (Identity[r1][c] - r[r1]*r[c]) / v
			}
		}
		q, _ := Project(p.k2, r)
		out.RMS += (q[0]-p.y[i][0])*(q[0]-p.y[i][0]) + (q[1]-p.y[i][1])*(q[1]-p.y[i][1])
	}
	out.RMS = math.Sqrt(out.RMS / float64(len(in)))
	inv, ok := Inverse(Mul(Transpose(best), Mul(info, best)))
	if !ok {
		return Relative{}, false
	}
	for r := range 3 {
		copy(out.Covariance[r][:3], inv[r][:])
	}
	return out, true
}

// hornTurn is the turn that takes the vectors b to a best.
func hornTurn(a, b []Vec3) (Mat3, bool) {
	// Points and their opposites have their middle at 0, which horn would
	// otherwise subtract.
	x, y := make([]Vec3, 0, 2*len(a)), make([]Vec3, 0, 2*len(a))
	for i := range a {
		x, y = append(x, a[i], scale(a[i], -1)), append(y, b[i], scale(b[i], -1))
	}
	m, ok := horn(x, y, nil, false)
	return m.r, ok
}

// carry brings a covariance of a motion from camera 1 to camera 2 to that of its
// inverse. With R' = R^T and t' = -R^T t, a turn w after R is one of -R^T w after
// R', and t' moves by -R^T (d + t x w) when t moves by d.
func carry(c [maxParams][maxParams]float64, m Pose, turnOnly bool) (out [6][6]float64) {
	var j [6][5]float64
	rt := Transpose(m.R)
	t := m.T
	var e [2]Vec3
	if !turnOnly {
		e[0], e[1] = tangents(t)
	}
	for k := range 3 {
		var w Vec3
		w[k] = 1
		turn, shift := MulVec(rt, w), MulVec(rt, cross(t, w))
		for i := range 3 {
			j[i][k] = -turn[i]
			j[3+i][k] = -shift[i]
		}
	}
	for k := range 2 {
		shift := MulVec(rt, e[k])
		for i := range 3 {
			j[3+i][3+k] = -shift[i]
		}
	}
	for i := range 6 {
		for l := range 6 {
			for p := range 5 {
				for q := range 5 {
					out[i][l] += j[i][p] * c[p][q] * j[l][q]
				}
			}
		}
	}
	return out
}
