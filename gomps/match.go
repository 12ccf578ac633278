// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/geometry"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Map is a dense map of descriptors to match.
type Map struct {
	// Desc are [Height,Width,Dim] descriptors.
	Desc               []float32
	Height, Width, Dim int
	// Source has the descriptors, in the place of Desc: of a result on a GPU, where they
	// stay as far as the GPU matches them.
	Source *Tensor
	// Points [Height,Width,3] and Weight [Height,Width], a confidence per pixel,
	// may be nil.
	Points, Weight []float32
	// Mask [Height,Width], where not nil, has 0 for pixels that may not match.
	Mask []uint8

	// unread is why a device did not give what MapOf was to read.
	unread error
}

// MapOf is the map of a view, with its points and descriptor confidences. It
// reads the view's memory, which must stay valid during the match. A view
// without descriptors gives an empty map. What a device cannot read is an error of Match.
func MapOf(v *View) Map {
	if !v.Desc.Valid() {
		return Map{}
	}
	m := MapOfDescriptors(v.Desc)
	read := func(t *Tensor) []float32 {
		if !t.Valid() {
			return nil
		}
		if err := t.Fetch(); err != nil {
			m.unread = err
			return nil
		}
		return t.Float32s()
	}
	m.Points, m.Weight = read(v.Points), read(v.DescConf)
	return m
}

// MapOfDescriptors is the map of a tensor [Height,Width,Dim] of a result, without points
// and confidences.
func MapOfDescriptors(t *Tensor) Map {
	if !t.Valid() || len(t.shape) != 3 {
		return Map{}
	}
	m := Map{Height: t.shape[0], Width: t.shape[1], Dim: t.shape[2]}
	if t.apart() {
		m.Source = t
	} else {
		m.Desc = t.Float32s()
	}
	return m
}

// MatchOptions are the options of Match.
type MatchOptions struct {
	// TopK is how many of the best matches to keep; 0 keeps all.
	TopK int
	// Reciprocal keeps pairs that are each other's nearest neighbour; otherwise
	// every pixel of map 1 is matched with its nearest neighbour.
	Reciprocal bool
	// Subsample starts from every n-th pixel only; 0 and 1 mean every pixel.
	Subsample int
	// BothWays starts from every n-th pixel of map 2 as well, with Subsample.
	BothWays bool
	// Spread makes TopK choose matches from all parts of map 1: the best of each
	// part comes before the second best of any.
	Spread bool
	// Subpixel gives positions in map 2 subpixel accuracy: see Matches.XY2.
	Subpixel bool
	// Refine, if not nil, refines matches on the full pictures.
	Refine *FullPictures
	// Judge fills in Matches.Overlap, whether the pictures overlap. It needs
	// confident matches: set MinWeight to about 1.
	Judge bool
	// MinConfidence drops matches whose confidence is below it.
	MinConfidence float32
	// MinWeight leaves out pixels whose Weight is below it; 0 leaves out none.
	MinWeight float32
	// Weighted multiplies the confidence by the geometric mean of the two Weights.
	Weighted bool
	// Border drops matches within this many pixels of an edge.
	Border int
}

// FullPictures are the pictures of two maps, and how they were resized.
type FullPictures struct {
	Picture1, Picture2     Image
	Transform1, Transform2 Transform
}

// How far a match of the descriptors is from the truth, in network pixels: as
// measured on photographs, a coordinate has a standard deviation of
// descriptorSigma, and as good as all are within descriptorReach.
const (
	descriptorSigma = 0.5
	descriptorReach = 2
)

// Matches are pairs of pixels, best first, equal ones by index.
type Matches struct {
	// Idx1, Idx2 are flat indices y*W + x.
	Idx1, Idx2 []int64
	// XY1, XY2 are [N,2] pixel coordinates (x, y). They are integers, except XY2
	// with Subpixel: then it is the maximum of a parabola through the similarities,
	// up to half a pixel from Idx2, or if Refined, where the pictures agree.
	XY1, XY2 []float32
	// Points1, Points2 are [N,3]; NaN if a map has no points.
	Points1, Points2 []float32
	// Confidence is the similarity of the descriptors, for the network's unit
	// vectors at most 1, weighted where that was asked for.
	Confidence []float32
	// Covariance [N,2,2] is that of the position in picture 2, with the position in
	// picture 1 exact, in squared pixels of the full picture. Refined says which
	// matches were moved. Both are nil without MatchOptions.Refine.
	Covariance []float32
	Refined    []bool
	// Seeds is the number of pixels of map 1 where the search started, including
	// excluded ones.
	Seeds int
	// Overlap is the verdict on all matches, before TopK, and Consistent says which
	// of those here fit its epipolar geometry; nil without MatchOptions.Judge. The
	// geometry is of network pixels; Overlap.Inliers is left out.
	Overlap    *geometry.Overlap
	Consistent []bool
	Time       time.Duration
}

// Len is the number of matches.
func (m *Matches) Len() int { return len(m.Idx1) }

// Match finds pixels of two maps that show the same point. The search is exact,
// for any number of threads. Descriptors that are not finite match nothing. The
// maps may differ in size, and may be empty.
func (e *Engine) Match(ctx context.Context, m1, m2 Map, opt MatchOptions) (_ *Matches, err error) {
	start := time.Now()
	for i, m := range []Map{m1, m2} {
		if err := m.check(i + 1); err != nil {
			return nil, err
		}
	}
	if err := opt.Refine.check(m1, m2); err != nil {
		return nil, err
	}
	if err := e.matching.take(ctx); err != nil {
		return nil, err
	}
	defer e.matching.give()
	for i, m := range []Map{m1, m2} {
		what := fmt.Sprintf("gomps: the memory of map %d", i+1)
		for _, mem := range [][]float32{m.Desc, m.Points, m.Weight} {
			defer fault.Watch(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(mem))), 4*len(mem)), what)()
		}
		defer fault.Watch(m.Mask, what)()
	}
	if opt.Refine != nil {
		defer opt.Refine.Picture1.watch("picture 1")()
		defer opt.Refine.Picture2.watch("picture 2")()
	}
	defer fault.Guard(&err)()
	out, err := e.match(ctx, m1, m2, opt)
	if err == nil && opt.Refine != nil {
		err = e.refineMatches(ctx, out, *opt.Refine)
	}
	if err != nil {
		return nil, err
	}
	if opt.Judge {
		if err := out.judge(m1, m2); err != nil {
			return nil, err
		}
	}
	if opt.TopK > 0 && out.Len() > opt.TopK {
		out.choose(opt, m1)
	}
	out.XY1, out.Points1 = m1.at(out.Idx1)
	xy2, points2 := m2.at(out.Idx2)
	out.Points2 = points2
	if out.XY2 == nil {
		out.XY2 = xy2
	}
	out.Time = time.Since(start)
	return out, nil
}

// match runs the matcher; the result lacks what needs the maps' points, and of a
// search that is refined or judged all are wanted: the choice comes after.
func (e *Engine) match(ctx context.Context, m1, m2 Map, opt MatchOptions) (*Matches, error) {
	top := opt.TopK
	if opt.Refine != nil || opt.Judge {
		top = 0
	}
	var r *match.Result
	err := e.pool.With(ctx, func(pool *par.Pool) (err error) {
		r, err = e.matcher.On(pool).Find(e.finder(ctx)).Match(e.view(ctx, m1), e.view(ctx, m2), match.Options{
			Reciprocal: opt.Reciprocal, Subsample: opt.Subsample, TopK: top, Border: opt.Border,
			MinConfidence: opt.MinConfidence, MinWeight: opt.MinWeight, Weighted: opt.Weighted,
			BothWays: opt.BothWays, Spread: opt.Spread, Subpixel: opt.Subpixel,
		})
		return err
	})
	if cause := ctx.Err(); cause != nil {
		return nil, fmt.Errorf("gomps: match: %w", cause)
	}
	if errors.Is(err, match.ErrShape) {
		return nil, &ShapeError{"match", err.Error(), "maps, masks and weights of one size"}
	}
	if errors.Is(err, ErrDevice) {
		return nil, err
	}
	if err != nil {
		return nil, &ConfigError{"MatchOptions", err.Error(), "options in their ranges"}
	}
	return &Matches{Idx1: r.Idx1, Idx2: r.Idx2, Confidence: r.Confidence, XY2: r.XY2, Seeds: r.Seeds}, nil
}

// finder asks the device for nearest neighbours; nil where it has no way to find
// them.
func (e *Engine) finder(ctx context.Context) match.Finder {
	dev, ok := e.dev.(backend.Finder)
	if !ok {
		return nil
	}
	return func(a, b match.View) (out [2]match.Neighbours, ok bool, err error) {
		n, err := dev.Nearest(ctx, descriptors(a), descriptors(b))
		switch {
		case errors.Is(err, backend.ErrUnsupported):
			return out, false, nil
		case err != nil && ctx.Err() == nil:
			// Memory, perhaps: the CPU has some.
			e.log.Warn("the device finds no neighbours, the CPU does", "error", err)
			return out, false, nil
		}
		for i := range n {
			out[i] = match.Neighbours(n[i])
		}
		return out, err == nil, err
	}
}

// judge applies the rule for overlap to the matches, in network pixels.
func (m *Matches) judge(m1, m2 Map) error {
	n := m.Len()
	a, b := make([]geometry.Vec2, n), make([]geometry.Vec2, n)
	for i := range n {
		p, q := int(m.Idx1[i]), int(m.Idx2[i])
		a[i] = geometry.Vec2{float64(p % m1.Width), float64(p / m1.Width)}
		b[i] = geometry.Vec2{float64(q % m2.Width), float64(q / m2.Width)}
		if m.XY2 != nil {
			b[i] = geometry.Vec2{float64(m.XY2[2*i]), float64(m.XY2[2*i+1])}
		}
	}
	var certainty []float64
	if m1.Weight != nil && m2.Weight != nil {
		certainty = make([]float64, n)
		for i := range n {
			certainty[i] = math.Sqrt(float64(m1.Weight[m.Idx1[i]]) * float64(m2.Weight[m.Idx2[i]]))
		}
	}
	o, err := geometry.JudgeOverlap(a, b, certainty, max(1, m.Seeds), judgeTolerance)
	if err != nil {
		return fmt.Errorf("gomps: match: %w", err)
	}
	m.Consistent = make([]bool, n)
	for _, i := range o.Inliers {
		m.Consistent[i] = true
	}
	o.Inliers = nil
	m.Overlap = &o
	return nil
}

// judgeTolerance is the distance from the epipolar geometry, in network pixels,
// that counts as agreement: twice the deviation of a descriptor's match.
const judgeTolerance = 1

// choose keeps the TopK matches, of Spread those all over map 1.
func (m *Matches) choose(opt MatchOptions, m1 Map) {
	positions := make([]int, opt.TopK)
	for i := range positions {
		positions[i] = i
	}
	if opt.Spread {
		positions = match.Spread(m.Idx1, m.Refined, match.Map{Height: m1.Height, Width: m1.Width}, opt.TopK)
	}
	*m = Matches{
		Idx1: pick(m.Idx1, positions, 1), Idx2: pick(m.Idx2, positions, 1), XY2: pick(m.XY2, positions, 2),
		Confidence: pick(m.Confidence, positions, 1), Covariance: pick(m.Covariance, positions, 4),
		Refined: pick(m.Refined, positions, 1), Consistent: pick(m.Consistent, positions, 1),
		Seeds: m.Seeds, Overlap: m.Overlap,
	}
}

// pick takes groups of n elements; of nothing, nothing.
func pick[T any](s []T, positions []int, n int) []T {
	if s == nil {
		return nil
	}
	out := make([]T, 0, n*len(positions))
	for _, k := range positions {
		out = append(out, s[n*k:n*(k+1)]...)
	}
	return out
}

// check refuses points of another size than the map; the descriptors are
// checked by the matcher.
func (m Map) check(number int) error {
	if m.unread != nil {
		return m.unread
	}
	if m.Source != nil {
		if want := (tensor.Shape{m.Height, m.Width, m.Dim}); m.Desc != nil || !m.Source.shape.Equal(want) {
			return &ShapeError{fmt.Sprintf("source of map %d", number), m.Source.shape.String(), want.String() + " and no Desc beside it"}
		}
	}
	if m.Points != nil && len(m.Points) != 3*m.Height*m.Width {
		return &ShapeError{fmt.Sprintf("points of map %d", number), fmt.Sprint(len(m.Points)), fmt.Sprintf("3*%d*%d", m.Height, m.Width)}
	}
	return nil
}

func (e *Engine) view(ctx context.Context, m Map) match.View {
	return match.View{Desc: match.Map{Data: m.Desc, Height: m.Height, Width: m.Width, Dim: m.Dim}, Weight: m.Weight, Mask: m.Mask, Far: e.farOf(ctx, m)}
}

// descriptors are those of a view for the device.
func descriptors(v match.View) backend.Descriptors {
	d := backend.Descriptors{Data: v.Desc.Data, N: v.Desc.Pixels(), Dim: v.Desc.Dim, Keep: v.Mask}
	if f, ok := v.Far.(*far); ok {
		if b := f.t.mem.buf.Load(); b != nil {
			d.Buffer = *b
		}
	}
	return d
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
