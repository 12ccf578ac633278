// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// RefineOptions are the options of Refine, in pixels of picture 2.
type RefineOptions struct {
	// Reach is the largest error of a match before refining: about two network
	// pixels, which is twice the picture's long side over the network's.
	Reach float64
	// Sigma is the standard deviation of a coordinate of a match that is not
	// refined; 0 means a quarter of Reach.
	Sigma float64
}

// Refined are matches whose positions in picture 2 were moved to where the
// pictures agree. It has one element for each given match, in order.
type Refined struct {
	// XY2 [N,2] are the positions in picture 2; unchanged if not Refined.
	XY2 []float64
	// Covariance [N,2,2] is that of XY2, with the position in picture 1 exact, in
	// squared pixels of picture 2.
	Covariance []float32
	// Correlation is that of the patches around both positions, at most 1; 0 if
	// they were not compared.
	Correlation []float32
	// Refined says which matches were refined.
	Refined []bool
	Time    time.Duration
}

// Refine moves positions in picture 2 until patches of the full pictures agree.
// xy1 and xy2 [N,2] are pixels (x, y) of the pictures as given; pixel centres
// have integer coordinates. The result does not depend on the number of threads.
func (e *Engine) Refine(ctx context.Context, picture1, picture2 Image, xy1, xy2 []float64, opt RefineOptions) (_ *Refined, err error) {
	for i, img := range []Image{picture1, picture2} {
		if err := img.check(); err != nil {
			return nil, &ImageError{i, err}
		}
	}
	if err := e.matching.take(ctx); err != nil {
		return nil, err
	}
	defer e.matching.give()
	defer picture1.watch("picture 1")()
	defer picture2.watch("picture 2")()
	defer fault.Guard(&err)()
	return e.refine(ctx, picture1, picture2, xy1, xy2, opt)
}

// refine is Refine in its turn, of pictures that were checked.
func (e *Engine) refine(ctx context.Context, picture1, picture2 Image, xy1, xy2 []float64, opt RefineOptions) (*Refined, error) {
	start := time.Now()
	var r *refine.Result
	err := e.pool.With(ctx, func(pool *par.Pool) (err error) {
		r, err = refine.Refine(ctx, pool, refinePicture(picture1), refinePicture(picture2), xy1, xy2,
			refine.Options{Reach: opt.Reach, Sigma: opt.Sigma})
		return err
	})
	if cause := ctx.Err(); cause != nil {
		return nil, fmt.Errorf("gomps: refine: %w", cause)
	}
	if err != nil {
		return nil, &ShapeError{"refine", err.Error(), "matches in the pictures and a reach above 0"}
	}
	return &Refined{r.XY2, r.Covariance, r.Correlation, r.Refined, time.Since(start)}, nil
}

// watch makes a fault in the picture's memory an error that names it.
func (m Image) watch(name string) func() {
	return fault.Watch(m.Pix, "gomps: the memory of "+name)
}

func refinePicture(m Image) refine.Picture {
	return refine.Picture{Pix: m.Pix, Width: m.Width, Height: m.Height, Stride: m.stride()}
}

func (p *FullPictures) check(m1, m2 Map) error {
	if p == nil {
		return nil
	}
	for i, c := range []struct {
		m   Map
		img Image
		t   Transform
	}{{m1, p.Picture1, p.Transform1}, {m2, p.Picture2, p.Transform2}} {
		if err := c.img.check(); err != nil {
			return &ImageError{i, err}
		}
		if c.t.Height != c.m.Height || c.t.Width != c.m.Width || c.t.ResizedH < 1 || c.t.ResizedW < 1 {
			return &ShapeError{fmt.Sprintf("transform of picture %d", i+1), fmt.Sprintf("%dx%d", c.t.Height, c.t.Width),
				fmt.Sprintf("the map's %dx%d", c.m.Height, c.m.Width)}
		}
		if c.t.OriginalH != c.img.Height || c.t.OriginalW != c.img.Width {
			return &ShapeError{fmt.Sprintf("picture %d (height x width)", i+1), fmt.Sprintf("%dx%d", c.img.Height, c.img.Width),
				fmt.Sprintf("the %dx%d that its map was made of", c.t.OriginalH, c.t.OriginalW)}
		}
	}
	return nil
}

// refineMatches moves the ends in picture 2 of matches whose places are known in
// network pixels.
func (e *Engine) refineMatches(ctx context.Context, m *Matches, p FullPictures) error {
	n := m.Len()
	xy1, xy2 := make([]float64, 2*n), make([]float64, 2*n)
	width1, width2 := p.Transform1.Width, p.Transform2.Width
	whole := m.XY2 == nil
	if whole {
		m.XY2 = make([]float32, 2*n)
	}
	for i := range n {
		p1, p2 := int(m.Idx1[i]), int(m.Idx2[i])
		if whole {
			m.XY2[2*i], m.XY2[2*i+1] = float32(p2%width2), float32(p2/width2)
		}
		xy1[2*i], xy1[2*i+1] = p.Transform1.ToOriginal(float64(p1%width1), float64(p1/width1))
		xy2[2*i], xy2[2*i+1] = p.Transform2.ToOriginal(float64(m.XY2[2*i]), float64(m.XY2[2*i+1]))
	}
	scale := max(float64(p.Transform2.OriginalW)/float64(p.Transform2.ResizedW), float64(p.Transform2.OriginalH)/float64(p.Transform2.ResizedH))
	r, err := e.refine(ctx, p.Picture1, p.Picture2, xy1, xy2, RefineOptions{Reach: descriptorReach * scale, Sigma: descriptorSigma * scale})
	if err != nil {
		return err
	}
	m.Covariance, m.Refined = r.Covariance, r.Refined
	for i, ok := range r.Refined {
		if ok {
			x, y := p.Transform2.ToNetwork(r.XY2[2*i], r.XY2[2*i+1])
			m.XY2[2*i], m.XY2[2*i+1] = float32(x), float32(y)
		}
	}
	return nil
}
