// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"math"
	"slices"
)

// Pose takes points of a camera to the world: R in the first three columns, the
// camera's centre in the fourth.
type Pose [3][4]float64

// Camera is a camera at network size: its principal point is the picture's middle.
type Camera struct {
	Pose Pose
	// FovY and FovX are the vertical and horizontal fields of view in radians.
	FovY, FovX float64
}

// CameraOf is the camera of a pose and intrinsics for a picture of height x width,
// all at network size.
func CameraOf(p Pose, k [3][3]float64, height, width int) Camera {
	fov := func(size int, focal float64) float64 { return 2 * math.Atan2(float64(size)/2, focal) }
	return Camera{Pose: p, FovY: fov(height, k[1][1]), FovX: fov(width, k[0][0])}
}

// Decode reads the PoseDim numbers of one view (da3.md 6).
func Decode(v []float32) Camera {
	c := Camera{FovY: float64(v[7]), FovX: float64(v[8])}
	x, y, z, w := float64(v[3]), float64(v[4]), float64(v[5]), float64(v[6])
	// The quaternion is of any length, which the factor takes out.
	s := 2 / (x*x + y*y + z*z + w*w)
	c.Pose = Pose{
		{1 - s*(y*y+z*z), s * (x*y - z*w), s * (x*z + y*w), float64(v[0])},
		{s * (x*y + z*w), 1 - s*(x*x+z*z), s * (y*z - x*w), float64(v[1])},
		{s * (x*z - y*w), s * (y*z + x*w), 1 - s*(x*x+y*y), float64(v[2])},
	}
	return c
}

// Intrinsics of the camera for a picture of height x width.
func (c Camera) Intrinsics(height, width int) [3][3]float64 {
	focal := func(size int, fov float64) float64 { return float64(size) / 2 / max(math.Tan(fov/2), 1e-6) }
	return [3][3]float64{
		{focal(width, c.FovX), 0, float64(width) / 2},
		{0, focal(height, c.FovY), float64(height) / 2},
		{0, 0, 1},
	}
}

// Encode are the PoseDim numbers of each of some known cameras.
func Encode(cameras []Camera) []float32 {
	out := make([]float32, 0, PoseDim*len(cameras))
	for _, c := range cameras {
		p, q := c.Pose, c.Pose.quaternion()
		for _, v := range []float64{p[0][3], p[1][3], p[2][3], q[0], q[1], q[2], q[3], c.FovY, c.FovX} {
			out = append(out, float32(v))
		}
	}
	return out
}

// Relative are known cameras as the camera encoder wants them: seen from the first,
// in units of the usual distance from it, which is the median, the lower one of an
// even number, and at least 0.1 (da3.md 9).
func Relative(cameras []Camera) (rel []Camera, unit float64) {
	const least = 0.1
	rel = slices.Clone(cameras)
	origin := Inverse(cameras[0].Pose)
	far := make([]float64, len(rel))
	for i := range rel {
		p := origin.Times(rel[i].Pose)
		rel[i].Pose = p
		far[i] = math.Sqrt(p[0][3]*p[0][3] + p[1][3]*p[1][3] + p[2][3]*p[2][3])
	}
	slices.Sort(far)
	unit = max(far[(len(far)-1)/2], least)
	for i := range rel {
		for row := range rel[i].Pose {
			rel[i].Pose[row][3] /= unit
		}
	}
	return rel, unit
}

// Inverse is the pose the other way round: world to camera.
func Inverse(p Pose) Pose {
	var q Pose
	for i := range q {
		for j := range 3 {
			q[i][j] = p[j][i]
			q[i][3] -= p[j][i] * p[j][3]
		}
	}
	return q
}

// Times is p after o.
func (p Pose) Times(o Pose) Pose {
	var q Pose
	for i := range q {
		for j := range q[i] {
			for k := range 3 {
				q[i][j] += p[i][k] * o[k][j]
			}
		}
		q[i][3] += p[i][3]
	}
	return q
}

// quaternion is the rotation as x, y, z, w of length 1 with w >= 0. It divides by
// the largest of the four numbers, which is at least a half.
func (p Pose) quaternion() [4]float64 {
	trace := p[0][0] + p[1][1] + p[2][2]
	var q [4]float64
	big, largest := 3, trace
	for i := range 3 {
		if p[i][i] > largest {
			big, largest = i, p[i][i]
		}
	}
	if big == 3 {
		q = [4]float64{p[2][1] - p[1][2], p[0][2] - p[2][0], p[1][0] - p[0][1], 1 + trace}
	} else {
		i, j, k := big, (big+1)%3, (big+2)%3
		q[i] = 1 + 2*p[i][i] - trace
		q[j] = p[j][i] + p[i][j]
		q[k] = p[k][i] + p[i][k]
		q[3] = p[k][j] - p[j][k]
	}
	n := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	if q[3] < 0 {
		n = -n
	}
	for i := range q {
		q[i] /= n
	}
	return q
}

// Order is the order of n views with the reference first and the others as they
// are.
func Order(n, reference int) []int {
	order := []int{reference}
	for i := range n {
		if i != reference {
			order = append(order, i)
		}
	}
	return order
}
