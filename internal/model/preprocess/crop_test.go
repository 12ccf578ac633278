// SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"errors"
	"testing"
)

// A crop that does not lie in the resized picture is an error, at the exact edge.
func TestCropsOutside(t *testing.T) {
	src := Image{Pix: make([]byte, 3*20*10), W: 20, H: 10, Stride: 60}
	good := Transform{OriginalW: 20, OriginalH: 10, ResizedW: 20, ResizedH: 10, CropX: 4, CropY: 2, Width: 16, Height: 8}
	dst := make([]byte, 3*16*8)
	if err := NewResizer(nil).Apply(dst, src, good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Transform){
		"left":   func(x *Transform) { x.CropX = -1 },
		"above":  func(x *Transform) { x.CropY = -1 },
		"right":  func(x *Transform) { x.CropX = 5 },
		"below":  func(x *Transform) { x.CropY = 3 },
		"flat":   func(x *Transform) { x.ResizedH = 0 },
		"narrow": func(x *Transform) { x.ResizedW = -20 },
	} {
		bad := good
		change(&bad)
		if err := NewResizer(nil).Apply(dst, src, bad); err == nil {
			t.Errorf("a crop %s the picture was taken", name)
		}
	}
}

// TestPlanNearest: sizes of da3.md 2, and centred cuts to a common size.
func TestPlanNearest(t *testing.T) {
	for _, c := range [][4]int{{640, 480, 504, 378}, {1920, 1080, 504, 280}, {3000, 2000, 504, 336}, {1600, 1000, 504, 322},
		{1000, 1600, 322, 504}, {300, 300, 504, 504}, {100, 75, 504, 378}, {5000, 10, 504, 14}} {
		got, err := PlanNearest(c[0], c[1], 504, 14)
		if err != nil || got.Width != c[2] || got.Height != c[3] || got.ResizedW != c[2] || got.ResizedH != c[3] || got.CropX != 0 || got.CropY != 0 {
			t.Errorf("%dx%d: %+v, %v, want %dx%d", c[0], c[1], got, err, c[2], c[3])
		}
	}
	for _, c := range [][4]int{{0, 5, 504, 14}, {5, 5, 13, 14}, {5, 5, 504, 0}, {MaxSide + 1, 5, 504, 14}, {5, 5, MaxSize + 1, 14}} {
		if _, err := PlanNearest(c[0], c[1], c[2], c[3]); !errors.Is(err, ErrSize) {
			t.Errorf("%v: %v, want a SizeError", c, err)
		}
	}
	list := []Transform{{Width: 504, Height: 378, CropX: 2}, {Width: 378, Height: 504}, {Width: 504, Height: 280}}
	Common(list)
	for i, want := range []Transform{{Width: 378, Height: 280, CropX: 65, CropY: 49}, {Width: 378, Height: 280, CropY: 112}, {Width: 378, Height: 280, CropX: 63}} {
		if list[i] != want {
			t.Errorf("picture %d: %+v, want %+v", i, list[i], want)
		}
	}
}

// TestPlanAtItsLimits: the smallest and the largest picture and size, and those beyond.
func TestPlanAtItsLimits(t *testing.T) {
	for _, c := range []struct {
		w, h, size, patch int
		good              bool
	}{
		{1, 1, 16, 16, true}, {0, 1, 16, 16, false}, {1, 0, 16, 16, false}, {-1, 1, 16, 16, false}, {1, -1, 16, 16, false},
		{MaxSide, MaxSide, 16, 16, true}, {MaxSide + 1, MaxSide, 16, 16, false}, {MaxSide, MaxSide + 1, 16, 16, false},
		{9, 9, MaxSize, 16, true}, {9, 9, MaxSize + 1, 16, false}, {9, 9, 15, 16, false}, {9, 9, 16, 0, false},
	} {
		_, err := Plan(c.w, c.h, c.size, c.patch, false)
		if (err == nil) != c.good || err != nil && !errors.Is(err, ErrSize) {
			t.Errorf("%dx%d at size %d, patch %d: %v", c.w, c.h, c.size, c.patch, err)
		}
	}
}

// TestApplyWantsThePlannedPicture: a picture of another size than the plan's is refused,
// in each direction.
func TestApplyWantsThePlannedPicture(t *testing.T) {
	plan, err := Plan(40, 30, 32, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 3*plan.Width*plan.Height)
	for _, size := range [][2]int{{40, 30}, {40, 31}, {41, 30}, {40, 29}, {39, 30}} {
		w, h := size[0], size[1]
		src := Image{Pix: make([]byte, 3*w*h), W: w, H: h, Stride: 3 * w}
		if err := NewResizer(nil).Apply(dst, src, plan); (err == nil) != (w == 40 && h == 30) {
			t.Errorf("%dx%d for a plan of 40x30: %v", w, h, err)
		}
	}
}
