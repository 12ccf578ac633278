// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// axes are those of a plan.
func axes(t *testing.T, plan preprocess.Transform) (x, y backend.Taps) {
	t.Helper()
	a, b, err := preprocess.NewResizer(nil).Axes(plan)
	if err != nil {
		t.Fatal(err)
	}
	return backend.Taps(a), backend.Taps(b)
}

func TestResize(t *testing.T) { optest.Resize(t, open(t, Config{})) }

// TestResizeSizes: pictures of one size of the result and of about one scale have one
// program; what is too large is left to somebody else.
func TestResizeSizes(t *testing.T) {
	size := func(w, h int) any {
		t.Helper()
		plan, err := preprocess.Plan(w, h, 512, 16, false)
		if err != nil {
			t.Fatal(err)
		}
		x, y := axes(t, plan)
		s, err := resizeSize(x, y)
		if err != nil {
			t.Fatal(err)
		}
		if s.Rows < span(y) || s.Columns < span(x) || s.Taps < max(x.Size, y.Size) {
			t.Errorf("%dx%d: %+v does not hold %d rows, %d columns, %d taps", w, h, s, span(y), span(x), max(x.Size, y.Size))
		}
		if waste := float64(s.Rows*s.Columns) / float64(w*h); w > 1000 && waste > 2.3 {
			t.Errorf("%dx%d: %.2f times the picture goes up", w, h, waste)
		}
		return s
	}
	if a, b := size(4000, 3000), size(4032, 3024); a != b {
		t.Errorf("two cameras' pictures: %+v and %+v", a, b)
	}
	size(2920, 2190) // the lengths fit the half octave below, the taps do not
	kinds := map[any]bool{}
	for w := 512; w <= 8192; w += 64 {
		kinds[size(w, w*3/4)] = true
	}
	if len(kinds) > 9 {
		t.Errorf("%d programs for pictures of 512 to 8192 columns", len(kinds))
	}
	plan, err := preprocess.Plan(preprocess.MaxSide, preprocess.MaxSide/2, 512, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	x, y := axes(t, plan)
	if _, err := resizeSize(x, y); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a picture of half a terapixel: %v, want ErrUnsupported", err)
	}
}

// TestResizeErrors: a wrong buffer, a cancelled call and a closed backend are errors.
func TestResizeErrors(t *testing.T) {
	b := open(t, Config{})
	plan, err := preprocess.Plan(40, 30, 32, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	x, y := axes(t, plan)
	src := backend.Picture{Pix: make([]byte, 3*40*30), Width: 40, Height: 30, Stride: 120}
	if err := b.Resize(background, alloc(t, b, nil, 17), src, x, y); err == nil {
		t.Error("a buffer of 17 bytes was taken")
	}
	out := alloc(t, b, nil, 3*plan.Width*plan.Height)
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := b.Resize(ctx, out, src, x, y); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	if err := b.Resize(background, out, src, x, y); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	other := open(t, Config{})
	if err := other.Resize(background, out, src, x, y); err == nil {
		t.Error("another backend's buffer was taken")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Resize(background, out, src, x, y); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed backend: %v", err)
	}
}
