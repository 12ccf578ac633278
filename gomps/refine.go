// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine"
)

// RefineOptions steer Refine, in pixels of picture 2.
type RefineOptions struct {
	// Reach is how far a match may be from its true place: about two network
	// pixels, which is twice the picture's long side over the network's.
	Reach float64
	// Sigma is the standard deviation of a coordinate of a match that stays
	// unrefined; 0 means a quarter of Reach.
	Sigma float64
}

// Refined are matches whose ends in picture 2 have moved to where the pictures
// agree. It has an element per match that was given, in their order.
type Refined struct {
	// XY2 [N,2] are the places in picture 2; as given, where not Refined.
	XY2 []float64
	// Covariance [N,2,2] of XY2, the place in picture 1 taken as exact, in squared
	// pixels of picture 2.
	Covariance []float32
	// Correlation of the patches around both ends, at most 1; 0 where they were
	// not compared.
	Correlation []float32
	// Refined says which matches were refined.
	Refined []bool
	Time    time.Duration
}

// Refine moves the ends of matches in picture 2 until patches of the full
// pictures agree. xy1 and xy2 [N,2] are pixels (x, y) of the pictures as given,
// centres at whole numbers. The answer does not depend on the number of threads.
func (e *Engine) Refine(ctx context.Context, picture1, picture2 Image, xy1, xy2 []float64, opt RefineOptions) (*Refined, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("gomps: refine: %w", err)
	}
	for i, img := range []Image{picture1, picture2} {
		if err := img.check(); err != nil {
			return nil, &ImageError{i, err}
		}
	}
	e.matchMu.Lock() // Close waits for it
	defer e.matchMu.Unlock()
	r, err := refine.Refine(ctx, e.pool, refinePicture(picture1), refinePicture(picture2), xy1, xy2,
		refine.Options{Reach: opt.Reach, Sigma: opt.Sigma})
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, &ShapeError{"refine", err.Error(), "matches in the pictures and a reach above 0"}
	}
	return &Refined{r.XY2, r.Covariance, r.Correlation, r.Refined, time.Since(start)}, nil
}

func refinePicture(m Image) refine.Picture {
	return refine.Picture{Pix: m.Pix, Width: m.Width, Height: m.Height, Stride: m.stride()}
}
