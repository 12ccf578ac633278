// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// subpixel returns the places in map 2 of matches, (x, y): each coordinate at the
// maximum of the parabola through the similarities of the match and of its two
// neighbours, at most half a pixel away. Where the match is no maximum among the
// three, or a neighbour is missing or unusable, the coordinate stays whole.
func subpixel(v1, v2 View, idx1, idx2 []int64) []float32 {
	d1, d2 := v1.Desc, v2.Desc
	similarity := func(p int64, x, y int) float64 {
		q := y*d2.Width + x
		return float64(kernel.Dot(d1.Data[int(p)*d1.Dim:][:d1.Dim], d2.Data[q*d2.Dim:][:d2.Dim]))
	}
	xy := make([]float32, 2*len(idx2))
	for k, q := range idx2 {
		x, y := int(q)%d2.Width, int(q)/d2.Width
		xy[2*k], xy[2*k+1] = float32(x), float32(y)
		middle := similarity(idx1[k], x, y)
		if x > 0 && x < d2.Width-1 {
			xy[2*k] += vertex(similarity(idx1[k], x-1, y), middle, similarity(idx1[k], x+1, y))
		}
		if y > 0 && y < d2.Height-1 {
			xy[2*k+1] += vertex(similarity(idx1[k], x, y-1), middle, similarity(idx1[k], x, y+1))
		}
	}
	return xy
}

// vertex is where the parabola through (-1, a), (0, b), (1, c) is greatest; 0
// unless b is the greatest of the three.
func vertex(a, b, c float64) float32 {
	curve := a - 2*b + c
	if !(b >= a && b >= c && curve < -1e-9) || math.IsInf(curve, 0) { // written so that NaN stays whole
		return 0
	}
	return float32((a - c) / (2 * curve))
}

// spread chooses top of the ranked matches so that they lie all over map 1: first
// the best of every cell of a grid, then the second best of every cell, and so
// on; within a round the better ones. Cells are as many as half the matches
// wanted. The chosen stay in their order.
func spread(ranked []uint64, pixel func(key uint64) int32, d Map, top int) []uint64 {
	side := max(1, math.Sqrt(float64(d.Pixels())*2/float64(top)))
	cols, rows := int(math.Ceil(float64(d.Width)/side)), int(math.Ceil(float64(d.Height)/side))
	taken := make([]int32, cols*rows)
	type choice struct{ round, rank int32 }
	order := make([]choice, len(ranked))
	for i, key := range ranked {
		p := int(pixel(key))
		cell := int(float64(p/d.Width)/side)*cols + int(float64(p%d.Width)/side)
		order[i] = choice{taken[cell], int32(i)}
		taken[cell]++
	}
	slices.SortFunc(order, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.rank, b.rank))
	})
	order = order[:top]
	slices.SortFunc(order, func(a, b choice) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]uint64, top)
	for i, c := range order {
		out[i] = ranked[c.rank]
	}
	return out
}
