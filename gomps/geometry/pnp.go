// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
)

// PnP finds camera 2 from points in camera 1's frame and the pixels where
// camera 2 sees them. k is camera 2's matrix for the same pixels; tolerance is
// the largest reprojection error, in pixels, that counts as agreement (0 means
// 4). The pose is camera 2 to camera 1, as everywhere.
//
// With the network's results, points are those of view 1 at the matched pixels
// and pixels the matches' partners in view 2: a wrong match is then an outlier.
func PnP(points []Vec3, pixels []Vec2, k Mat3, tolerance float64) (Estimate, error) {
	if len(points) != len(pixels) {
		return Estimate{}, fmt.Errorf("geometry: %d points and %d pixels, want pairs", len(points), len(pixels))
	}
	if err := CheckIntrinsics(k); err != nil {
		return Estimate{}, err
	}
	if tolerance == 0 {
		tolerance = 4
	}
	if !(tolerance > 0) {
		return Estimate{}, fmt.Errorf("geometry: tolerance %g pixels, want above 0", tolerance)
	}
	p, err := newProblem(points, pixels, k)
	if err != nil {
		return Estimate{}, err
	}
	if len(p.x) < minInliers {
		return Estimate{Reason: TooFewMatches}, nil
	}
	limit := tolerance * tolerance
	best, in := ransac(context.Background(), len(p.x), 3, limit, 0, func(pick []int) []Pose {
		i, j, k := pick[0], pick[1], pick[2]
		return p3p([]Vec3{p.x[i], p.x[j], p.x[k]}, []Vec3{p.ray[i], p.ray[j], p.ray[k]})
	}, p.cost)
	if in == nil {
		return Estimate{Reason: Degenerate}, nil
	}
	// Refining on the inliers moves the pose, which may let more of the data
	// agree; three rounds settle it.
	determined := true
	for range 3 {
		if len(in) < minInliers {
			return Estimate{Reason: NoConsensus}, nil
		}
		best, determined = p.refine(best, in)
		in = agreeing(len(p.x), limit, func(i int) float64 { return p.cost(best, i) })
	}
	switch {
	case !determined:
		return Estimate{Reason: Degenerate}, nil
	case len(in) < minInliers:
		return Estimate{Reason: NoConsensus}, nil
	}
	rms := math.Sqrt(p.total(best, in) / float64(len(in)))
	for i, j := range in {
		in[i] = p.index[j]
	}
	pose := best.Inverse() // it was points to camera 2 so far
	return Estimate{Pose: &pose, Scale: 1, Inliers: in, RMS: rms}, nil
}

// problem holds the usable data of one PnP call. Within it a pose goes from the
// points' frame to camera 2, the direction in which pixels are predicted.
type problem struct {
	k     Mat3
	x     []Vec3
	uv    []Vec2
	ray   []Vec3 // unit direction of each pixel in camera 2
	index []int  // of each datum in the caller's lists
}

// newProblem leaves out what is not finite: a point map may hold such points
// where the picture has no surface, and one NaN would spoil every sum.
func newProblem(points []Vec3, pixels []Vec2, k Mat3) (*problem, error) {
	inv, ok := Inverse(k)
	if !ok {
		return nil, fmt.Errorf("geometry: camera matrix %v has no inverse", k)
	}
	p := &problem{k: k}
	for i := range points {
		if !finite(points[i][:]...) || !finite(pixels[i][:]...) {
			continue
		}
		ray := MulVec(inv, Vec3{pixels[i][0], pixels[i][1], 1})
		p.x = append(p.x, points[i])
		p.uv = append(p.uv, pixels[i])
		p.ray = append(p.ray, scale(ray, 1/norm(ray)))
		p.index = append(p.index, i)
	}
	return p, nil
}

// cost is the squared reprojection error; +Inf behind the camera.
func (p *problem) cost(m Pose, i int) float64 {
	q, ok := Project(p.k, m.Apply(p.x[i]))
	if !ok {
		return math.Inf(1)
	}
	du, dv := q[0]-p.uv[i][0], q[1]-p.uv[i][1]
	return du*du + dv*dv
}

// total is what refine minimises. It needs no robust loss: the data it gets
// have passed the tolerance already.
func (p *problem) total(m Pose, in []int) (sum float64) {
	for _, i := range in {
		sum += p.cost(m, i)
	}
	return sum
}

// refine minimises the reprojection error of the inliers by Gauss-Newton, with
// the step halved while it does not help. determined is false when the normal
// equations are singular.
func (p *problem) refine(m Pose, in []int) (best Pose, determined bool) {
	now := p.total(m, in)
	for range 20 {
		step, ok := p.newton(m, in)
		if !ok {
			return m, false
		}
		improved := false
		for half := 1.0; half > 1e-3; half /= 2 {
			turn := rotation(Vec3{half * step[0], half * step[1], half * step[2]})
			try := Pose{Mul(turn, m.R), add(MulVec(turn, m.T), Vec3{half * step[3], half * step[4], half * step[5]})}
			if c := p.total(try, in); c < now {
				improved = now-c > 1e-12*now
				m, now = try, c
				break
			}
		}
		if !improved {
			break
		}
	}
	return m, true
}

// newton is the Gauss-Newton step for a turn and a shift after m. With
// y = m(x), the point moves by w x y + d, and the pixel by K's derivative.
func (p *problem) newton(m Pose, in []int) ([6]float64, bool) {
	var a [6][6]float64
	var b [6]float64
	for _, i := range in {
		y := m.Apply(p.x[i])
		q, ok := Project(p.k, y)
		if !ok { // behind the camera there is no pixel to be near
			continue
		}
		// Derivatives of (u, v) by the point in camera 2, then by the motion.
		iz := 1 / y[2]
		fx, sk, fy := p.k[0][0], p.k[0][1], p.k[1][1]
		xn, yn := y[0]*iz, y[1]*iz
		for axis, g := range [2]Vec3{
			{fx * iz, sk * iz, -(fx*xn + sk*yn) * iz},
			{0, fy * iz, -fy * yn * iz},
		} {
			w := cross(y, g) // derivative along w: g . (w x y) = w . (y x g)
			j := [6]float64{w[0], w[1], w[2], g[0], g[1], g[2]}
			r := p.uv[i][axis] - q[axis]
			for c := range 6 {
				b[c] += j[c] * r
				for d := range 6 {
					a[c][d] += j[c] * j[d]
				}
			}
		}
	}
	return solve6(a, b)
}
