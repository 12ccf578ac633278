// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// RelativeOptions of RelativePose.
type RelativeOptions struct {
	// Tolerance is the largest distance of a match from the epipolar geometry, in
	// pixels, that counts as agreement; 0 means 1.5.
	Tolerance float64
	// Covariance [N,2,2] of the pixels of picture 2, those of picture 1 being
	// exact; nil means Sigma for all.
	Covariance []float32
	// Sigma is the standard deviation of a coordinate in pixels; 0 means 0.5.
	Sigma float64
	// FocalSigma says how uncertain the focal lengths of k1 and k2 are: the standard
	// deviation of their logarithms. 0 means known, and used as given. Of a flat
	// scene, whose matches tell nothing of them, they stay as given; likewise where
	// the matches ask for others by more than three standard deviations.
	FocalSigma [2]float64
	// SharedFocal says that one camera took both pictures: the focal lengths change
	// by one factor.
	SharedFocal bool
	// Dependence says how many matches tell as much as one of errors of its own:
	// neighbouring matches that look at the same patch err alike. 0 means 1.
	Dependence float64
	// Start is a pose, camera 2 to camera 1, that another estimator found: it is
	// polished, and nothing is searched.
	Start *Pose
}

// Relative is the relative pose of two cameras, with its evidence.
type Relative struct {
	// Pose is camera 2 to camera 1, its translation of length 1, or 0 where
	// TurnOnly; nil when there is none, with Reason.
	Pose   *Pose
	Reason string
	// TurnOnly: the camera turned and did not move, as far as the matches tell.
	TurnOnly bool
	// Inliers are the matches that agree with the pose, Points the places in camera
	// 1's frame that they see, in units of the baseline; none where TurnOnly.
	Inliers []int
	Points  []Vec3
	// K1, K2 are as given, but for focal lengths that were uncertain.
	K1, K2 Mat3
	// Covariance of the pose: a turn w after it, exp(w) R, in radians, and a shift
	// of its translation. FocalSigma is what is left of the focal lengths'
	// uncertainty.
	Covariance [6][6]float64
	FocalSigma [2]float64
	// RMS is the root mean square distance of the inliers from the epipolar
	// geometry, in pixels; Angle the median angle between their two rays, degrees.
	RMS, Angle float64
}

// RelativePose finds how two cameras stand to each other from matching pixels.
// k1 and k2 are their matrices for the same pixels. The length of the translation
// cannot be told from matches; it is 1. A search that ctx ends is ctx's error.
func RelativePose(ctx context.Context, xy1, xy2 []Vec2, k1, k2 Mat3, o RelativeOptions) (Relative, error) {
	if err := o.check(xy1, xy2, k1, k2); err != nil {
		return Relative{}, err
	}
	none := Relative{K1: k1, K2: k2, FocalSigma: o.FocalSigma}
	p := newEpipolar(xy1, xy2, k1, k2, o)
	p.ctx = ctx
	if len(p.x) < minInliers {
		none.Reason = TooFewMatches
		return none, nil
	}
	out := p.find(none)
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("geometry: relative pose: %w", err)
	}
	return out, nil
}

// find is the answer, none with a reason where there is no pose.
func (p *epipolar) find(none Relative) Relative {
	state, ok := p.search()
	if !ok {
		// Of pictures from one place every essential matrix is as good as another.
		if turned, ok := p.turnAlone(); ok {
			return turned
		}
		none.Reason = Degenerate
		return none
	}
	fit, in, reason := p.fitted(state)
	if reason == "" {
		if fit, in, ok = p.settle(fit, in); !ok {
			reason = TwoPoses
		}
	}
	if reason != "" {
		none.Reason = reason
		return none
	}
	return p.answer(fit, in)
}

// fitted polishes a motion, and says which matches agree with it, or why none is found.
func (p *epipolar) fitted(s state) (fit fitted, in []int, reason string) {
	in = p.agreeing(s)
	ok := false
	for range 4 {
		if len(in) < minInliers {
			return fit, nil, NoConsensus
		}
		if fit, ok = p.polish(s, in); !ok {
			return fit, nil, Degenerate
		}
		s = fit.state
		next := p.agreeing(s)
		same := slices.Equal(next, in)
		if in = next; same {
			break
		}
	}
	if len(in) < minInliers {
		return fit, nil, NoConsensus
	}
	if p.o.FocalSigma != [2]float64{} && (p.flat(in) || p.strayed(fit.state)) {
		if fit, ok = p.withFixedFocal(in); !ok {
			return fit, nil, Degenerate
		}
	}
	return fit, in, ""
}

func (o *RelativeOptions) check(xy1, xy2 []Vec2, k1, k2 Mat3) error {
	if len(xy1) != len(xy2) {
		return fmt.Errorf("geometry: %d and %d pixels, want pairs", len(xy1), len(xy2))
	}
	for _, k := range []Mat3{k1, k2} {
		if err := CheckIntrinsics(k); err != nil {
			return err
		}
	}
	if o.Covariance != nil && len(o.Covariance) != 4*len(xy1) {
		return fmt.Errorf("geometry: %d numbers of covariance for %d matches, want 4 each", len(o.Covariance), len(xy1))
	}
	if o.Tolerance == 0 {
		o.Tolerance = 1.5
	}
	if o.Sigma == 0 {
		o.Sigma = 0.5
	}
	if o.Dependence == 0 {
		o.Dependence = 1
	}
	for _, v := range []float64{o.Tolerance, o.Sigma, o.Dependence} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("geometry: tolerance %g, sigma %g pixels, dependence %g, want above 0", o.Tolerance, o.Sigma, o.Dependence)
		}
	}
	for _, v := range o.FocalSigma {
		if !(v >= 0 && v < 3) {
			return fmt.Errorf("geometry: focal uncertainty %g, want 0 to 3", v)
		}
	}
	if o.Start != nil {
		size := norm(o.Start.T)
		if !finite(o.Start.T[:]...) || !(size > 0) || !(math.Abs(Det(o.Start.R)-1) < 1e-3) {
			return fmt.Errorf("geometry: start is no pose: det R %g, |t| %g", Det(o.Start.R), size)
		}
	}
	return nil
}

// epipolar holds the usable data of one call. Within it a pose goes from camera 1
// to camera 2, x2 = R x1 + t.
type epipolar struct {
	ctx        context.Context // asked between hypotheses, and between steps
	o          RelativeOptions
	k1, k2     Mat3
	x, y       []Vec2
	covariance [][3]float64 // xx, xy, yy of y
	index      []int
}

// state is a candidate: a pose, and the factors' logarithms of the focal lengths.
type state struct {
	pose  Pose
	focal [2]float64
}

func newEpipolar(xy1, xy2 []Vec2, k1, k2 Mat3, o RelativeOptions) *epipolar {
	p := &epipolar{o: o, k1: k1, k2: k2}
	p.x, p.y, p.index = usable(xy1, xy2)
	p.covariance = make([][3]float64, len(p.x))
	for i, j := range p.index {
		p.covariance[i] = [3]float64{o.Sigma * o.Sigma, 0, o.Sigma * o.Sigma}
		if o.Covariance != nil {
			c := o.Covariance[4*j:]
			p.covariance[i] = [3]float64{float64(c[0]), float64(c[1]), float64(c[3])}
		}
	}
	return p
}

// zoomed is a camera matrix with its focal lengths multiplied by exp(log).
func zoomed(k Mat3, log float64) Mat3 {
	if log == 0 {
		return k
	}
	s := math.Exp(log)
	k[0][0], k[0][1], k[1][1] = s*k[0][0], s*k[0][1], s*k[1][1]
	return k
}

// fundamental is the epipolar geometry of a state, in pixels.
func (p *epipolar) fundamental(s state) Mat3 {
	i1, i2 := p.inverses(s)
	return Mul(Transpose(i2), Mul(Mul(skew(s.pose.T), s.pose.R), i1))
}

// inverses are those of the camera matrices of a state.
func (p *epipolar) inverses(s state) (i1, i2 Mat3) {
	i1, _ = Inverse(zoomed(p.k1, s.focal[0]))
	i2, _ = Inverse(zoomed(p.k2, s.focal[1]))
	return i1, i2
}

// rays are unit vectors of the pixels in both cameras.
func (p *epipolar) rays(s state) (a, b []Vec3) {
	i1, i2 := p.inverses(s)
	a, b = make([]Vec3, len(p.x)), make([]Vec3, len(p.x))
	for i := range p.x {
		r := MulVec(i1, Vec3{p.x[i][0], p.x[i][1], 1})
		a[i] = scale(r, 1/norm(r))
		r = MulVec(i2, Vec3{p.y[i][0], p.y[i][1], 1})
		b[i] = scale(r, 1/norm(r))
	}
	return a, b
}

// search finds the pose that most matches agree with, for the focal lengths as
// given and, where these are uncertain, for some around them.
func (p *epipolar) search() (state, bool) {
	if p.o.Start != nil {
		start := p.o.Start.Inverse()
		start.T = scale(start.T, 1/norm(start.T))
		return state{pose: start}, true
	}
	tries := []float64{0}
	if p.o.FocalSigma != [2]float64{} {
		tries = []float64{0, -0.8, 0.8, -1.6, 1.6}
	}
	limit := p.o.Tolerance * p.o.Tolerance
	best, found, score := state{}, false, math.Inf(1)
	for _, f := range tries {
		s := state{focal: [2]float64{f * p.o.FocalSigma[0], f * p.o.FocalSigma[1]}}
		a, b := p.rays(s)
		i1, i2 := p.inverses(s)
		back := Transpose(i2)
		five := [2][]Vec3{make([]Vec3, 5), make([]Vec3, 5)}
		// F judges a hypothesis: its cost is the cheapest.
		f, in := ransac(p.ctx, len(p.x), 5, limit, 0, func(pick []int) []Mat3 {
			for k, i := range pick {
				five[0][k], five[1][k] = a[i], b[i]
			}
			list := fivePoint(five[0], five[1])
			for k, e := range list {
				list[k] = Mul(back, Mul(e, i1))
			}
			return list
		}, func(m Mat3, i int) float64 { return sampson(m, p.x[i], p.y[i]) })
		if in == nil {
			continue
		}
		e := Mul(Transpose(zoomed(p.k2, s.focal[1])), Mul(f, zoomed(p.k1, s.focal[0])))
		pose, ok := inFront(e, a, b, in)
		if !ok {
			continue
		}
		s.pose = pose
		if total := p.capped(s, limit); total < score {
			best, found, score = s, true, total
		}
	}
	return best, found
}

// capped is the sum of the squared distances, each at most limit.
func (p *epipolar) capped(s state, limit float64) (total float64) {
	f := p.fundamental(s)
	for i := range p.x {
		if c := sampson(f, p.x[i], p.y[i]); c < limit {
			total += c
		} else {
			total += limit
		}
	}
	return total
}

// inFront chooses, of the motions that an essential matrix allows, the one that
// puts most of the matches in front of both cameras.
func inFront(e Mat3, a, b []Vec3, in []int) (best Pose, ok bool) {
	most := 0
	for _, m := range motions(e) {
		n := 0
		for _, i := range in {
			if s1, s2 := depths(m, a[i], b[i]); s1 > 0 && s2 > 0 {
				n++
			}
		}
		if n > most {
			best, most = m, n
		}
	}
	return best, most > 0
}

// near are the matches within the tolerance, on whichever side of the cameras.
func (p *epipolar) near(s state) []int {
	f, limit := p.fundamental(s), p.o.Tolerance*p.o.Tolerance
	return agreeing(len(p.x), limit, func(i int) float64 { return sampson(f, p.x[i], p.y[i]) })
}

// square is the sum of the squared distances of matches from the epipolar geometry.
func (p *epipolar) square(s state, in []int) float64 {
	f := p.fundamental(s)
	sum := 0.0
	for _, i := range in {
		sum += sampson(f, p.x[i], p.y[i])
	}
	return sum
}

// agreeing are the matches within the tolerance, and in front of both cameras or
// so far that their rays are as good as parallel.
func (p *epipolar) agreeing(s state) []int {
	a, b := p.rays(s)
	out := []int{}
	for _, i := range p.near(s) {
		s1, s2 := depths(s.pose, a[i], b[i])
		if s1 > 0 && s2 > 0 || dot(MulVec(s.pose.R, a[i]), b[i]) > math.Cos(p.parallel()) {
			out = append(out, i)
		}
	}
	return out
}

// parallel is the angle below which two rays are parallel, as far as the tolerance
// lets one tell.
func (p *epipolar) parallel() float64 { return 2 * p.o.Tolerance / p.k2[0][0] }

// answer turns what was fitted into the caller's terms.
func (p *epipolar) answer(fit fitted, in []int) Relative {
	s := fit.state
	out := Relative{K1: zoomed(p.k1, s.focal[0]), K2: zoomed(p.k2, s.focal[1]), FocalSigma: fit.focalSigma}
	turn, only := p.turnOnly(s, in, fit.spread)
	if only {
		s.pose = Pose{R: turn}
	}
	pose := s.pose.Inverse()
	out.Pose, out.TurnOnly = &pose, only
	out.Covariance = carry(fit.covariance, s.pose, only)
	a, b := p.rays(s)
	var angles []float64
	for _, i := range in {
		out.Inliers = append(out.Inliers, p.index[i])
		if only {
			continue
		}
		s1, _ := depths(s.pose, a[i], b[i])
		out.Points = append(out.Points, scale(a[i], s1))
		angles = append(angles, math.Acos(max(-1, min(1, dot(MulVec(s.pose.R, a[i]), b[i])))))
	}
	out.RMS = math.Sqrt(p.square(fit.state, in) / float64(len(in)))
	if len(angles) > 0 {
		slices.Sort(angles)
		out.Angle = angles[len(angles)/2] * 180 / math.Pi
	}
	return out
}
