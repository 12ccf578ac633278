// SPDX-License-Identifier: Apache-2.0

package gomps

import "time"

// Map is a dense map of descriptors to match.
type Map struct {
	// Desc are [Height,Width,Dim] descriptors.
	Desc               []float32
	Height, Width, Dim int
	// Points [Height,Width,3] and Weight [Height,Width], a confidence per pixel,
	// may be nil.
	Points, Weight []float32
}

// MapOf is the map of a view, with its points and descriptor confidences. It
// reads the view's memory, which must stay valid during the match.
func MapOf(v *View) Map {
	s := v.Desc.Shape()
	m := Map{Desc: v.Desc.Float32s(), Height: s[0], Width: s[1], Dim: s[2]}
	if v.Points.Valid() {
		m.Points = v.Points.Float32s()
	}
	if v.DescConf.Valid() {
		m.Weight = v.DescConf.Float32s()
	}
	return m
}

// MatchOptions steer Match.
type MatchOptions struct {
	// TopK keeps the best; 0 keeps all.
	TopK int
	// Reciprocal keeps pairs that choose each other; otherwise every pixel of map
	// 1 gets its nearest neighbour.
	Reciprocal bool
	// Subsample starts from every n-th pixel only; 0 and 1 mean every pixel.
	Subsample int
	// MinConfidence drops matches below it.
	MinConfidence float32
	// Mask1 and Mask2, where not nil, say which pixels may match.
	Mask1, Mask2 []bool
	// Border drops matches this close to an edge, in pixels.
	Border int
}

// Matches are pairs of pixels, best first, equal ones by index.
type Matches struct {
	// Idx1, Idx2 are flat indices y*W + x.
	Idx1, Idx2 []int64
	// XY1, XY2 are [N,2] pixel coordinates (x, y).
	XY1, XY2 []float32
	// Points1, Points2 are [N,3]; NaN where a map has no points.
	Points1, Points2 []float32
	Confidence       []float32
	Time             time.Duration
}

// Len is the number of matches.
func (m *Matches) Len() int { return len(m.Idx1) }
