// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Options of Refine, in pixels of picture 2.
type Options struct {
	// Reach is how far a match may be from its true place.
	Reach float64
	// Sigma is the standard deviation of a coordinate of a match that is not
	// refined; 0 means a quarter of Reach.
	Sigma float64
}

// Result has one element per match, of Covariance four.
type Result struct {
	XY2 []float64 // [N,2]
	// Covariance [N,2,2] of the place in picture 2, that in picture 1 taken as
	// exact, in squared pixels.
	Covariance []float32
	// Correlation of the two patches, at most 1; 0 where they were not compared.
	Correlation []float32
	Refined     []bool
}

const (
	minCorrelation = 0.8
	minStructure   = 0.005 // least eigenvalue of the gradients' products, patch of variance 1
	maxReturn      = 0.5   // steps of the template, of the way there and back
	maxStretch     = 8     // of the map between the pictures, either way
)

// Wrong matches that correlate by chance, or lie on the edge of a nearer thing,
// fit less well than right ones of the same pictures: of a real stereo pair those
// whose standard deviation is above a fifth of a step, and above twice the
// median, hold one fifth of the right matches and two thirds of the wrong ones.
const (
	sureSigma  = 0.2
	sureFactor = 2
)

// The residuals of neighbouring samples are alike, as the pictures are smoothed
// and interpolated, and the patch's map is not exact: the variance of the plain
// fit is too small by this factor, and never falls below that of a share of a
// pixel. Both were measured on warped photographs with known truth; see
// TestCovariance.
const (
	inflation = 6
	floor     = 0.02
)

// Refine moves the places xy2 [N,2] of picture 2 to where the pictures agree
// with the places xy1 of picture 1.
func Refine(ctx context.Context, pool *par.Pool, one, two Picture, xy1, xy2 []float64, o Options) (*Result, error) {
	if err := check(one, two, xy1, xy2, &o); err != nil {
		return nil, err
	}
	n := len(xy1) / 2
	r := &Result{append([]float64(nil), xy2...), make([]float32, 4*n), make([]float32, n), make([]bool, n)}
	for i := range n {
		r.Covariance[4*i], r.Covariance[4*i+3] = float32(o.Sigma*o.Sigma), float32(o.Sigma*o.Sigma)
	}
	if n <= near {
		return r, nil // too few to know the map between the pictures
	}
	coarse := 0
	for coarse < 6 && 0.3*o.Reach > float64(int(1)<<coarse) {
		coarse++
	}
	j := &job{pool: pool, xy1: xy1, xy2: xy2, reach: o.Reach, r: r, trackers: make([]tracker, pool.Threads()), sigma: make([]float64, n), good: make([]bool, n),
		kept: make([]window, 2*min(n, keptMatches))}
	// Where one picture shows things larger, it is read from a coarser level, up
	// to the greatest stretch.
	k := kernel.Best()
	for i := range j.trackers {
		j.trackers[i].kernel = k
	}
	j.one, j.two = build(pool, k, one, coarse+3), build(pool, k, two, coarse+3)
	for i := range j.good {
		j.good[i] = true
	}
	list := neighbours(xy1, j.good, j.run)
	maps := make([]linear, n)
	// The finest level comes three times: the first places there give better maps,
	// these better places, and the third time the answer counts.
	for pass := coarse; pass >= -2; pass-- {
		level, final := max(pass, 0), pass == -2
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("refine: %w", err)
		}
		if pass < 1 && pass > -2 {
			// By now most wrong ones are known, and would only spoil the maps.
			list = neighbours(xy1, j.good, j.run)
		}
		// The maps of a level come from the places of the level before, all of
		// them: hence the loop of its own.
		j.run(n, func(i int) { maps[i] = localMap(xy1, r.XY2, i, list[i*near:(i+1)*near]) })
		j.runWith(n, func(t *tracker, i int) { j.improve(t, i, level, final, maps[i]) })
	}
	j.unsure()
	return r, nil
}

func check(one, two Picture, xy1, xy2 []float64, o *Options) error {
	if err := one.check("picture 1"); err != nil {
		return err
	}
	if err := two.check("picture 2"); err != nil {
		return err
	}
	if len(xy1) != len(xy2) || len(xy1)%2 != 0 {
		return fmt.Errorf("refine: %d and %d coordinates, want two a match in both", len(xy1), len(xy2))
	}
	for i := range xy1 {
		if !(math.Abs(xy1[i]) < 1e7 && math.Abs(xy2[i]) < 1e7) {
			return fmt.Errorf("refine: match %d at %g and %g, want pixels of the pictures", i/2, xy1[i], xy2[i])
		}
	}
	if o.Sigma == 0 {
		o.Sigma = o.Reach / 4
	}
	if !(o.Reach > 0 && o.Reach < 1e4 && o.Sigma > 0 && o.Sigma < 1e4) {
		return fmt.Errorf("refine: reach %g, sigma %g, want above 0 and below 10000", o.Reach, o.Sigma)
	}
	return nil
}

// job is one call.
type job struct {
	pool     *par.Pool
	one, two *pyramid
	xy1, xy2 []float64 // as given
	reach    float64
	r        *Result
	trackers []tracker
	good     []bool    // the patches agreed on the level before
	sigma    []float64 // of the refined ones, in steps of the template
	kept     []window  // two a match, of the finest level
}

// The finest level is visited three times, and reading it is most of the work: rows of a
// large picture lie far apart. The windows of so many matches, if not stretched more than
// this, are kept meanwhile: about 4 kB each, at most 14.
const (
	keptMatches = 4096
	keptStretch = 1.5
)

// windows are those of match i, which is stretched so much. Which thread comes by decides
// nothing: what is not the match's own is cut anew.
func (j *job) windows(t *tracker, i, level int, stretch float64) (one, two *window) {
	if level == 0 && stretch < keptStretch && 2*i < len(j.kept) {
		return &j.kept[2*i], &j.kept[2*i+1]
	}
	t.win1.of, t.win2.of = nil, nil
	return &t.win1, &t.win2
}

// unsure does not call those matches refined that are much less sure than the
// others. They stay where they are: that is still better than where they began.
func (j *job) unsure() {
	var all []float64
	for i, ok := range j.r.Refined {
		if ok {
			all = append(all, j.sigma[i])
		}
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	limit := max(sureSigma, sureFactor*all[len(all)/2])
	for i, ok := range j.r.Refined {
		if ok && j.sigma[i] > limit {
			j.r.Refined[i] = false
		}
	}
}

func (j *job) run(n int, work func(i int)) {
	j.runWith(n, func(_ *tracker, i int) { work(i) })
}

func (j *job) runWith(n int, work func(t *tracker, i int)) {
	const batch = 16
	j.pool.Run((n+batch-1)/batch, func(worker, tile int) {
		for i := tile * batch; i < min(n, (tile+1)*batch); i++ {
			work(&j.trackers[worker], i)
		}
	})
}

// improve refines match i on one level; the final pass decides whether it holds.
func (j *job) improve(t *tracker, i, level int, final bool, l linear) {
	j.good[i] = false
	s1, s2 := l.singular()
	if !(s1 < maxStretch && s2 > 1.0/maxStretch && l.det() > 0) {
		return
	}
	// The level is that of the picture which shows less; the other is read from
	// a coarser one of the same resolution.
	size := math.Log2(math.Sqrt(l.det()))
	level1, level2 := level, level
	if up := int(math.Round(size)); up > 0 {
		level2 = min(level+up, j.two.deepest())
	} else {
		level1 = min(level-up, j.one.deepest())
	}
	level1, level2 = min(level1, j.one.deepest()), min(level2, j.two.deepest())
	step := float64(int(1) << level1) // of the template, in pixels of picture 1
	x1, y1 := j.xy1[2*i], j.xy1[2*i+1]
	here := place{j.one, level1, x1, y1, linear{step, 0, 0, step}}
	there := place{j.two, level2, j.r.XY2[2*i], j.r.XY2[2*i+1], l.scaled(step)}
	// The last pass goes back as well, in the same windows.
	steps, enough, n, margin := 8, 0.05, side, 0.0
	if final {
		steps, enough = 15, 0.005
	}
	if level == 0 {
		n, margin = rim, maxMove
	}
	one, two := j.windows(t, i, level, s1)
	if !t.cut(here, one, rim, margin) || !t.prepare(here, one) || t.template.least < minStructure || !t.cut(there, two, n, maxMove) {
		return
	}
	moved, correlation, ok := t.track(there, two, steps, enough)
	if !ok {
		return
	}
	dx, dy := there.step.at(moved[0], moved[1])
	x2, y2 := there.x+dx, there.y+dy
	far := math.Hypot(x2-j.xy2[2*i], y2-j.xy2[2*i+1])
	if final {
		j.r.Correlation[i] = float32(correlation)
	}
	if !(far <= j.reach) || correlation < minCorrelation/2 {
		j.reset(i)
		return
	}
	if !final {
		j.good[i] = correlation >= minCorrelation
		j.r.XY2[2*i], j.r.XY2[2*i+1] = x2, y2
		return
	}
	covariance, sigma := t.template.covariance(correlation, there.step)
	back := place{j.two, level2, x2, y2, there.step}
	if correlation < minCorrelation || !t.returns(back, two, here, one) {
		j.reset(i)
		return
	}
	j.r.XY2[2*i], j.r.XY2[2*i+1] = x2, y2
	copy(j.r.Covariance[4*i:], covariance[:])
	j.r.Refined[i], j.sigma[i] = true, sigma
}

// returns reports whether picture 2's patch, looked for in picture 1, is found
// where the match began.
func (t *tracker) returns(from place, two *window, to place, one *window) bool {
	if !from.inside() || !t.prepare(from, two) {
		return false
	}
	moved, _, ok := t.track(to, one, 10, 0.02)
	return ok && math.Hypot(moved[0], moved[1]) <= maxReturn
}

// covariance is that of the fit, carried by the map to picture 2; sigma is the
// standard deviation in the least sure direction, in steps.
func (m *template) covariance(correlation float64, step linear) (c [4]float32, sigma float64) {
	v := inflation * 2 * max(1-correlation, 1e-4) // variance of a residual, both patches having 1
	xx, xy, yy := v*m.cxx+floor*floor, v*m.cxy, v*m.cyy+floor*floor
	ax, ay := step.a*xx+step.b*xy, step.a*xy+step.b*yy
	bx, by := step.c*xx+step.d*xy, step.c*xy+step.d*yy
	return [4]float32{
		float32(ax*step.a + ay*step.b), float32(ax*step.c + ay*step.d),
		float32(ax*step.c + ay*step.d), float32(bx*step.c + by*step.d),
	}, math.Sqrt((xx+yy)/2 + math.Hypot((xx-yy)/2, xy))
}

// reset gives a match its own place back: what a coarse level did to it is not
// borne out by the next one.
func (j *job) reset(i int) { j.r.XY2[2*i], j.r.XY2[2*i+1] = j.xy2[2*i], j.xy2[2*i+1] }
