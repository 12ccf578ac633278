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
func subpixel(v1, v2 View, idx1, idx2 []int64) ([]float32, error) {
	d2 := v2.Desc
	ends := make([]int32, len(idx1))
	for k, p := range idx1 {
		ends[k] = int32(p)
	}
	one, err := v1.rows(ends)
	if err != nil {
		return nil, err
	}
	around := make([]int32, 0, cross*len(idx2))
	for _, q := range idx2 {
		around = append(around, d2.crossAt(int(q))...)
	}
	two, err := v2.rows(around)
	if err != nil {
		return nil, err
	}
	xy := make([]float32, 2*len(idx2))
	for k, q := range idx2 {
		x, y := int(q)%d2.Width, int(q)/d2.Width
		similarity := func(i int) float64 { return float64(kernel.Dot(one(k), two(cross*k+i))) }
		xy[2*k], xy[2*k+1] = float32(x), float32(y)
		middle := similarity(0)
		if x > 0 && x < d2.Width-1 {
			xy[2*k] += vertex(similarity(1), middle, similarity(2))
		}
		if y > 0 && y < d2.Height-1 {
			xy[2*k+1] += vertex(similarity(3), middle, similarity(4))
		}
	}
	return xy, nil
}

// cross is how many pixels crossAt gives.
const cross = 5

// crossAt are a pixel and those left, right, above and below it, or itself where there
// is none.
func (d Map) crossAt(q int) []int32 {
	x, y := q%d.Width, q/d.Width
	at := func(x, y int) int32 {
		return int32(min(max(y, 0), d.Height-1)*d.Width + min(max(x, 0), d.Width-1))
	}
	return []int32{int32(q), at(x-1, y), at(x+1, y), at(x, y-1), at(x, y+1)}
}

// rows gives the descriptor of pixels[i] by i.
func (v View) rows(pixels []int32) (func(i int) []float32, error) {
	d := v.Desc
	if v.Far == nil {
		return func(i int) []float32 { return d.Data[int(pixels[i])*d.Dim:][:d.Dim] }, nil
	}
	data, err := v.Far.Rows(pixels)
	if err != nil {
		return nil, err
	}
	if len(data) != len(pixels)*d.Dim {
		return nil, shapeError("descriptors of pixels", len(data), len(pixels)*d.Dim)
	}
	return func(i int) []float32 { return data[i*d.Dim:][:d.Dim] }, nil
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

// Spread chooses top of ranked matches, best first, so that they lie all over map
// 1: first the best of every cell of a grid, then the second best of every cell,
// and so on; within a round the better ones. Matches that prefer names come before
// all others of their cell; it may be nil. Cells are as many as half the matches
// wanted. The positions of the chosen come back in ascending order.
func Spread(idx1 []int64, prefer []bool, d Map, top int) []int {
	if top >= len(idx1) {
		top = len(idx1)
	}
	side := max(1, math.Sqrt(float64(d.Pixels())*2/float64(max(1, top))))
	cols, rows := int(math.Ceil(float64(d.Width)/side)), int(math.Ceil(float64(d.Height)/side))
	taken := make([]int32, cols*rows)
	type choice struct{ round, rank int32 }
	order := make([]choice, 0, len(idx1))
	add := func(i int) {
		p := int(idx1[i])
		cell := int(float64(p/d.Width)/side)*cols + int(float64(p%d.Width)/side)
		order = append(order, choice{taken[cell], int32(i)})
		taken[cell]++
	}
	for i := range idx1 {
		if prefer == nil || prefer[i] {
			add(i)
		}
	}
	for i := range idx1 {
		if prefer != nil && !prefer[i] {
			add(i)
		}
	}
	slices.SortFunc(order, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.rank, b.rank))
	})
	chosen := make([]int, top)
	for i, c := range order[:top] {
		chosen[i] = int(c.rank)
	}
	slices.Sort(chosen)
	return chosen
}
