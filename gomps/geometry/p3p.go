// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"math/cmplx"
)

// p3p finds the cameras that see three points in given directions: up to four
// motions from the points' frame to the camera's.
//
// It is Grunert's solution in the form of Haralick et al. 1994 (Review and
// Analysis of Solutions of the Three Point Perspective Pose Estimation
// Problem). With s1, s2 = u s1, s3 = v s1 the distances from the camera, the
// law of cosines in the three triangles leaves a quartic in v.
func p3p(x []Vec3, ray []Vec3) []Pose {
	a2, b2, c2 := dist2(x[1], x[2]), dist2(x[0], x[2]), dist2(x[0], x[1])
	ca, cb, cg := dot(ray[1], ray[2]), dot(ray[0], ray[2]), dot(ray[0], ray[1])
	if !(a2 > 0 && b2 > 0 && c2 > 0) {
		return nil
	}
	p, q := (a2-c2)/b2, (a2+c2)/b2
	quartic := [5]float64{
		(1+p)*(1+p) - 4*a2/b2*cg*cg,
		4 * (-p*(1+p)*cb + 2*a2/b2*cg*cg*cb - (1-q)*ca*cg),
		2 * (p*p - 1 + 2*p*p*cb*cb + 2*(b2-c2)/b2*ca*ca - 4*q*ca*cb*cg + 2*(b2-a2)/b2*cg*cg),
		4 * (p*(1-p)*cb - (1-q)*ca*cg + 2*c2/b2*ca*ca*cb),
		(p-1)*(p-1) - 4*c2/b2*ca*ca,
	}
	var out []Pose
	for _, v := range realRoots(quartic) {
		// The quartic holds squared relations, so that some of its roots put a
		// point behind the camera; and u has a pole where the quartic's two
		// parents coincide.
		den := 2 * (cg - v*ca)
		u := ((p-1)*v*v - 2*p*cb*v + 1 + p) / den
		s := math.Sqrt(b2 / (1 + v*v - 2*v*cb))
		if !(v > 0 && u > 0 && s > 0) || !finite(u, v, s) {
			continue
		}
		cam := []Vec3{scale(ray[0], s), scale(ray[1], u*s), scale(ray[2], v*s)}
		if m, ok := align3(cam, x, false); ok {
			out = append(out, Pose{m.r, m.t})
		}
	}
	return out
}

func dist2(a, b Vec3) float64 {
	d := sub(a, b)
	return dot(d, d)
}

// realRoots finds the real roots of c[0] + c[1] x + ... + c[4] x^4 with the
// iteration of Durand and Kerner on all four at once, which needs no case
// distinction between the many shapes of a quartic.
func realRoots(c [5]float64) []float64 {
	size := 0.0
	for _, v := range c {
		size = max(size, math.Abs(v))
	}
	if !(math.Abs(c[4]) > 1e-12*size) || math.IsInf(size, 0) {
		return nil // the triangle is seen edge-on or nearly so: take another
	}
	eval := func(x complex128) complex128 {
		y := complex(c[4], 0)
		for i := 3; i >= 0; i-- {
			y = y*x + complex(c[i], 0)
		}
		return y / complex(c[4], 0)
	}
	// Starting points must not be symmetric about the real axis.
	var z [4]complex128
	for i := range z {
		z[i] = cmplx.Pow(0.4+0.9i, complex(float64(i), 0))
	}
	for range 100 {
		step := 0.0
		for i := range z {
			den := complex(1, 0)
			for j := range z {
				if i != j {
					den *= z[i] - z[j]
				}
			}
			if den == 0 { // two estimates met: let the others move first
				continue
			}
			d := eval(z[i]) / den
			z[i] -= d
			step = max(step, cmplx.Abs(d)/(1+cmplx.Abs(z[i])))
		}
		if step < 1e-14 {
			break
		}
	}
	var roots []float64
	for _, r := range z {
		// A double root comes out with an imaginary part of the square root of
		// the working precision.
		if math.Abs(imag(r)) < 1e-6*(1+math.Abs(real(r))) {
			roots = append(roots, real(r))
		}
	}
	return roots
}
