// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"errors"
	"fmt"
	"math"
)

// ErrDegenerate says that the data do not determine the answer.
var ErrDegenerate = errors.New("geometry: degenerate data")

// Project maps a point in front of the camera to its pixel; ok is false for a
// point on or behind the camera's plane.
func Project(k Mat3, x Vec3) (p Vec2, ok bool) {
	if !(x[2] > 0) {
		return Vec2{}, false
	}
	q := MulVec(k, x)
	return Vec2{q[0] / q[2], q[1] / q[2]}, true
}

// CheckIntrinsics refuses what is no camera matrix: numbers that are not
// finite, focal lengths that are not positive, a last row other than 0 0 1.
func CheckIntrinsics(k Mat3) error {
	for _, row := range k {
		if !finite(row[:]...) {
			return fmt.Errorf("geometry: camera matrix %v: want finite numbers", k)
		}
	}
	switch {
	case k[0][0] <= 0 || k[1][1] <= 0:
		return fmt.Errorf("geometry: camera matrix: focal lengths %g, %g, want both above 0", k[0][0], k[1][1])
	case k[1][0] != 0 || k[2] != Vec3{0, 0, 1}:
		return fmt.Errorf("geometry: camera matrix %v: want an upper triangle with last row 0 0 1", k)
	}
	return nil
}

// minPoints is the least number of usable points for an estimate of a camera
// matrix: far fewer than any picture has, enough to average noise.
const minPoints = 16

// pointmap walks the points of a row-major [h, w, 3] map that lie in front of
// the camera, as x/z and y/z with their pixel.
func pointmap(pts []float32, w int, each func(i int, rx, ry, u, v float64)) {
	for i := 0; 3*i+2 < len(pts); i++ {
		x, y, z := float64(pts[3*i]), float64(pts[3*i+1]), float64(pts[3*i+2])
		if rx, ry := x/z, y/z; z > 0 && finite(rx, ry, z) {
			each(i, rx, ry, float64(i%w), float64(i/w))
		}
	}
}

func checkMap(pts, conf []float32, w, h int) error {
	if w < 1 || h < 1 || len(pts)/3/w != h || len(pts)%(3*w) != 0 || conf != nil && len(conf) != len(pts)/3 {
		return fmt.Errorf("geometry: %d coordinates and %d confidences for a %dx%d point map, want 3 and 1 a pixel",
			len(pts), len(conf), w, h)
	}
	return nil
}

// Focal estimates the focal length, in pixels, of a camera from its own point
// map, for a given principal point (cx, cy), by Weiszfeld's iteration as the
// reference does (network.md 15): the f that minimises the sum of distances
// |(u, v) - (cx, cy) - f (X, Y)/Z|, ten iterations from the least-squares
// answer, clamped to the fields of view of ordinary lenses. The reference's
// principal point is (w/2, h/2).
func Focal(pts []float32, w, h int, cx, cy float64) (float64, error) {
	if err := checkMap(pts, nil, w, h); err != nil {
		return 0, err
	}
	// Reweighting by 1/distance turns each least-squares step into one towards
	// the least sum of distances. The first step, unweighted, is the start.
	f, n := 0.0, 0
	for iter := range 11 {
		var num, den float64
		n = 0
		pointmap(pts, w, func(_ int, rx, ry, u, v float64) {
			u, v = u-cx, v-cy
			wt := 1.0
			if iter > 0 {
				wt = 1 / max(math.Hypot(u-f*rx, v-f*ry), 1e-8)
			}
			num += wt * (u*rx + v*ry)
			den += wt * (rx*rx + ry*ry)
			n++
		})
		if n < minPoints || !(den > 0) || !finite(num/den) {
			return 0, fmt.Errorf("%w: focal length from %d points in front of the camera, want at least %d, not all on the axis",
				ErrDegenerate, n, minPoints)
		}
		f = num / den
	}
	// 1.1547 = 2 tan(60 degrees / 2): the focal length of a 60 degree view.
	base := float64(max(w, h)) / (2 * math.Tan(math.Pi/6))
	return min(max(f, 0.5*base), 3.5*base), nil
}

// FitIntrinsics estimates a whole camera matrix, without skew, from a camera's
// own point map: it also finds the principal point, which an off-centre crop
// moves, and a focal length for each axis, which a resize may make differ. conf
// weighs the points and may be nil.
//
// Each axis is a line, u = fx (X/Z) + cx, fitted to the least sum of absolute
// residuals by reweighting: single wild points must not tilt it.
func FitIntrinsics(pts, conf []float32, w, h int) (Mat3, error) {
	if err := checkMap(pts, conf, w, h); err != nil {
		return Mat3{}, err
	}
	var fx, cx, fy, cy float64
	for iter := range 15 {
		var ax, ay line
		n := 0
		pointmap(pts, w, func(i int, rx, ry, u, v float64) {
			wt := 1.0
			if conf != nil {
				wt = float64(conf[i])
			}
			if !(wt > 0) || math.IsInf(wt, 0) { // written so that NaN is refused
				return
			}
			n++
			wx, wy := wt, wt
			if iter > 0 {
				wx /= max(math.Abs(u-fx*rx-cx), 1e-6)
				wy /= max(math.Abs(v-fy*ry-cy), 1e-6)
			}
			ax.add(wx, rx, u)
			ay.add(wy, ry, v)
		})
		var okX, okY bool
		fx, cx, okX = ax.fit()
		fy, cy, okY = ay.fit()
		if n < minPoints || !okX || !okY || fx <= 0 || fy <= 0 {
			return Mat3{}, fmt.Errorf("%w: camera matrix from %d points in front of the camera, want at least %d that spread in both axes as a camera sees them",
				ErrDegenerate, n, minPoints)
		}
	}
	return Mat3{{fx, 0, cx}, {0, fy, cy}, {0, 0, 1}}, nil
}

// line accumulates a weighted least-squares fit y = slope x + offset.
type line struct{ w, x, y, xx, xy float64 }

func (l *line) add(w, x, y float64) {
	l.w += w
	l.x += w * x
	l.y += w * y
	l.xx += w * x * x
	l.xy += w * x * y
}

func (l *line) fit() (slope, offset float64, ok bool) {
	mx, my := l.x/l.w, l.y/l.w
	spread := l.xx/l.w - mx*mx
	slope = (l.xy/l.w - mx*my) / spread
	offset = my - slope*mx
	return slope, offset, spread > 1e-12*(1+mx*mx) && finite(slope, offset)
}

// MapPoints moves n points (x, y pairs in src) by a 3x3 matrix into dst, which
// may be src: with the matrices of a preprocess transform, matches go from
// network to original pixels and back. Points at infinity come out as NaN.
func MapPoints(dst, src []float32, m Mat3) {
	for i := 0; i+1 < len(src); i += 2 {
		p := MulVec(m, Vec3{float64(src[i]), float64(src[i+1]), 1})
		if p[2] == 0 {
			p[0], p[1] = math.NaN(), math.NaN()
		}
		dst[i], dst[i+1] = float32(p[0]/p[2]), float32(p[1]/p[2])
	}
}
