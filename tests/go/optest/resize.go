// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
)

// Resize compares a device's bytes with the host's, of pictures that shrink and grow, are
// cut, have rows with gaps, and whose overshoots are cut off.
func Resize(t *testing.T, b backend.Backend) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct {
		w, h, size, patch, gap int
		nearest                bool
	}{
		{96, 64, 48, 16, 0, false}, {97, 61, 48, 16, 5, false}, {200, 60, 64, 16, 0, false}, {31, 47, 64, 16, 1, false},
		{150, 150, 64, 16, 0, false}, {300, 200, 28, 14, 7, true}, {700, 500, 32, 16, 0, false}, {64, 63, 64, 16, 0, false}, {23, 301, 56, 14, 0, true},
	} {
		plan, err := preprocess.Plan(c.w, c.h, c.size, c.patch, true)
		if c.nearest {
			plan, err = preprocess.PlanNearest(c.w, c.h, c.size, c.patch)
		}
		if err != nil {
			t.Fatal(err)
		}
		src := backend.Picture{Width: c.w, Height: c.h, Stride: 3*c.w + c.gap}
		src.Pix = make([]byte, src.Stride*c.h-c.gap)
		for i := range src.Pix {
			src.Pix[i] = byte(r.UintN(256))
			if i%7 < 3 { // edges as steep as can be
				src.Pix[i] = byte(255 * (i / 13 % 2))
			}
		}
		resizeOne(t, b, src, plan)
	}
}

func resizeOne(t *testing.T, b backend.Backend, src backend.Picture, plan preprocess.Transform) {
	t.Helper()
	z := preprocess.NewResizer(nil)
	want := make([]byte, 3*plan.Width*plan.Height)
	if err := z.Apply(want, preprocess.Image{Pix: src.Pix, W: src.Width, H: src.Height, Stride: src.Stride}, plan); err != nil {
		t.Fatal(err)
	}
	x, y, err := z.Axes(plan)
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Alloc(len(want))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Release()
	if err := b.(backend.Resizer).Resize(context.Background(), out, src, backend.Taps(x), backend.Taps(y)); err != nil {
		t.Fatalf("%+v: %v", plan, err)
	}
	got, wrong := out.Bytes(), 0
	for i := range want {
		if got[i] != want[i] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%+v: %d of %d bytes differ", plan, wrong, len(want))
	}
}
