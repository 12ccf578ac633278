// SPDX-License-Identifier: Apache-2.0

// Package refine moves matches until the full pictures agree around them.
//
// Descriptors place a match to about half a network pixel, which is several
// pixels of a large photograph. The pictures themselves know better: around a
// right match, the patch of picture 1, warped by the map of the neighbouring
// matches, looks like picture 2 up to a gain and an offset of its brightness.
// The shift that makes them agree best is found by least squares on the
// intensities (Lucas and Kanade 1981, in the inverse form of Baker and Matthews
// 2004, where the template's gradients are computed once), from coarse pictures
// to fine ones. The map is that of the good matches around: wrong ones, of which
// pictures turned far have many, would spoil it, and a map that is a few per cent
// off moves a match by a tenth of a pixel.
//
// # What a match says of itself
//
// A match is refined when the patches correlate, the patch has structure in both
// directions, the match moved no further than it may, and the way back, from
// picture 2's patch to picture 1, ends where it began, and it is not much less
// sure than the others of these pictures. All others keep their place, but for
// those that only lack the last: they have moved, and their covariance says how
// unsure they are. The covariance of a refined match is that of the least-squares
// fit; it is that of the descriptors for one that was not moved.
//
// # Conventions
//
// Pixel centres are at whole numbers. Level l of a pyramid has pixels of 2^l
// pixels' width, made of means of four; the centre of its pixel x lies at
// (x + 0.5) 2^l - 0.5 of the picture. Everything is float32 within a patch and
// float64 outside it, every match is computed by one thread from data that all
// threads see alike, so the answer does not depend on their number. The inner loops
// are those of package kernel, which gives the same bits on every processor.
package refine
