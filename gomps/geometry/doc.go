// SPDX-License-Identifier: Apache-2.0

// Package geometry turns the network's points and matches into what a camera
// person asks for: camera matrices, the relative pose of two cameras, and
// homographies.
//
// Conventions, everywhere: camera axes are x right, y down, z forward. Pixel
// centres are at whole numbers, so a picture of width W spans -0.5 to W-0.5. A
// camera matrix K maps a point (X, Y, Z) of its camera to the pixel
// (u, v) = (fx X/Z + cx, fy Y/Z + cy). A [Pose] takes camera 2's coordinates to
// camera 1's: X1 = R X2 + t with det R = +1 ("cam2 to cam1").
//
// All estimators work in float64, are deterministic, and say why when they have
// no answer; they never return a pose made of noise or NaN.
package geometry
