// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"math"
)

// Errors of this package wrap one of these.
var (
	// ErrShape marks an argument whose size does not fit the others.
	ErrShape = errors.New("wrong shape")
	// ErrOption marks an option outside its range.
	ErrOption = errors.New("invalid option")
)

func shapeError(what string, got, want any) error {
	return fmt.Errorf("match: %s: got %v, want %v: %w", what, got, want, ErrShape)
}

func optionError(what string, got any, want string) error {
	return fmt.Errorf("match: %s: got %v, want %s: %w", what, got, want, ErrOption)
}

// Map is the descriptor map of one picture, [Height][Width][Dim], row-major.
// Pixel (x, y) has the index y*Width + x.
type Map struct {
	Data               []float32
	Height, Width, Dim int
}

// Pixels returns the number of pixels of a valid map.
func (d Map) Pixels() int { return d.Height * d.Width }

// check validates the map; name is the argument's name in errors. Pixel
// numbers are int32 inside, which bounds the area.
func (d Map) check(name string) error {
	if err := d.checkSize(name); err != nil {
		return err
	}
	if want := d.Height * d.Width * d.Dim; len(d.Data) != want {
		return shapeError(fmt.Sprintf("%s data of %dx%dx%d", name, d.Height, d.Width, d.Dim), len(d.Data), want)
	}
	return nil
}

// checkSize is check for a map whose descriptors are elsewhere.
func (d Map) checkSize(name string) error {
	if d.Height < 0 || d.Width < 0 || d.Dim < 1 {
		return shapeError(name, fmt.Sprintf("%dx%dx%d", d.Height, d.Width, d.Dim), "height, width >= 0 and dim >= 1")
	}
	if d.Height == 0 || d.Width == 0 {
		return nil
	}
	if d.Width > math.MaxInt32/d.Height || d.Dim > math.MaxInt/4/(d.Height*d.Width) {
		return shapeError(name, fmt.Sprintf("%dx%dx%d", d.Height, d.Width, d.Dim), "fewer than 2^31 pixels")
	}
	return nil
}

// checkPair validates two maps that are to be matched.
func checkPair(a, b Map) error { return checkViews(View{Desc: a}, View{Desc: b}) }

// checkViews is checkPair for maps that may be far.
func checkViews(v1, v2 View) error {
	for i, v := range []View{v1, v2} {
		check := v.Desc.check
		if v.Far != nil {
			check = v.Desc.checkSize
		}
		if err := check(fmt.Sprintf("map %d", i+1)); err != nil {
			return err
		}
	}
	a, b := v1.Desc, v2.Desc
	if a.Dim != b.Dim {
		return shapeError("map 2 dim", b.Dim, a.Dim)
	}
	return nil
}

// checkLen validates the length of a per-pixel array.
func checkLen(name string, got int, d Map) error {
	if got == d.Pixels() {
		return nil
	}
	return shapeError(fmt.Sprintf("%s of a %dx%d map", name, d.Height, d.Width), got, d.Pixels())
}
