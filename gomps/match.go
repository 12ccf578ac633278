// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

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
// reads the view's memory, which must stay valid during the match. A view
// without descriptors gives an empty map.
func MapOf(v *View) Map {
	if !v.Desc.Valid() {
		return Map{}
	}
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
	// MinConfidence drops matches whose confidence is below it.
	MinConfidence float32
	// MinWeight leaves out pixels whose Weight is below it; 0 leaves out none.
	MinWeight float32
	// Weighted multiplies the confidence by the geometric mean of the two Weights.
	Weighted bool
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
	// Confidence is the similarity of the descriptors, for the network's unit
	// vectors at most 1, weighted where that was asked for.
	Confidence []float32
	Time       time.Duration
}

// Len is the number of matches.
func (m *Matches) Len() int { return len(m.Idx1) }

// Match finds pixels of two maps that look at the same point. Neighbours are
// exact, whatever the number of threads; descriptors that are not finite match
// nothing. The maps may differ in size, and may be empty.
func (e *Engine) Match(ctx context.Context, m1, m2 Map, opt MatchOptions) (_ *Matches, err error) {
	start := time.Now()
	for i, m := range []Map{m1, m2} {
		if err := m.check(i + 1); err != nil {
			return nil, err
		}
	}
	if err := e.matching.take(ctx); err != nil {
		return nil, err
	}
	defer e.matching.give()
	for i, m := range []Map{m1, m2} {
		for _, mem := range [][]float32{m.Desc, m.Points, m.Weight} {
			defer fault.Watch(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), 4*len(mem)), fmt.Sprintf("gomps: the memory of map %d", i+1))()
		}
	}
	defer fault.Guard(&err)()
	var r *match.Result
	err = e.pool.With(ctx, func(pool *par.Pool) (err error) {
		r, err = e.matcher.On(pool).Match(m1.view(opt.Mask1), m2.view(opt.Mask2), match.Options{
			OneWay: !opt.Reciprocal, Subsample: opt.Subsample, TopK: opt.TopK, Border: opt.Border,
			MinConfidence: opt.MinConfidence, MinDescConf: opt.MinWeight, Weighted: opt.Weighted,
		})
		return err
	})
	if cause := ctx.Err(); cause != nil {
		return nil, fmt.Errorf("gomps: match: %w", cause)
	}
	if err != nil {
		if errors.Is(err, match.ErrShape) {
			return nil, &ShapeError{"match", err.Error(), "maps, masks and weights of one size"}
		}
		return nil, &ConfigError{"MatchOptions", err.Error(), "options in their ranges"}
	}
	out := &Matches{Idx1: r.Idx1, Idx2: r.Idx2, Confidence: r.Confidence}
	out.XY1, out.Points1 = m1.at(r.Idx1)
	out.XY2, out.Points2 = m2.at(r.Idx2)
	out.Time = time.Since(start)
	return out, nil
}

// check refuses points of another size than the map; the descriptors are
// checked by the matcher.
func (m Map) check(number int) error {
	if m.Points != nil && len(m.Points) != 3*m.Height*m.Width {
		return &ShapeError{fmt.Sprintf("points of map %d", number), fmt.Sprint(len(m.Points)), fmt.Sprintf("3*%d*%d", m.Height, m.Width)}
	}
	return nil
}

func (m Map) view(mask []bool) match.View {
	v := match.View{Desc: match.Map{Data: m.Desc, Height: m.Height, Width: m.Width, Dim: m.Dim}, DescConf: m.Weight}
	if mask != nil {
		// A bool is one byte, 0 or 1.
		v.Mask = unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(mask))), len(mask))
	}
	return v
}

// at gives the coordinates and the points of pixels.
func (m Map) at(idx []int64) (xy, points []float32) {
	xy, points = make([]float32, 2*len(idx)), make([]float32, 3*len(idx))
	nan := float32(math.NaN())
	for i, p := range idx {
		xy[2*i], xy[2*i+1] = float32(int(p)%m.Width), float32(int(p)/m.Width)
		for c := range 3 {
			points[3*i+c] = nan
			if m.Points != nil {
				points[3*i+c] = m.Points[3*int(p)+c]
			}
		}
	}
	return xy, points
}
