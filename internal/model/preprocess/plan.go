// SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"errors"
	"fmt"
	"math"
)

// ErrSize is true of every *SizeError.
var ErrSize = errors.New("preprocess: impossible size")

// SizeError says why a picture cannot be brought to a network size.
type SizeError struct {
	Width, Height int // of the picture
	Size, Patch   int // asked for
	Reason        string
}

// Error names the picture, the request and the limit that was hit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("preprocess: picture %dx%d at size %d, patch %d: %s", e.Width, e.Height, e.Size, e.Patch, e.Reason)
}

// Is makes errors.Is(err, ErrSize) work.
func (e *SizeError) Is(target error) bool { return target == ErrSize }

// Limits on what Plan accepts. They keep every product below far from 2^53,
// where float64 sizes would stop being exact, and a picture beyond them is
// beyond any camera.
const (
	MaxSide = 1 << 20
	MaxSize = 1 << 14
)

// Transform records how a picture became a network input: resized from
// OriginalW x OriginalH to ResizedW x ResizedH, then cropped to Width x Height
// at (CropX, CropY).
type Transform struct {
	OriginalW, OriginalH int
	ResizedW, ResizedH   int
	CropX, CropY         int
	Width, Height        int
}

// Plan finds the transform of a w x h picture. size is the length of the long
// side, except for 224, which is the short side of a centred square. The crop
// takes the largest centred box whose sides are multiples of patch; a square
// becomes 4:3 with rectangle43.
func Plan(w, h, size, patch int, rectangle43 bool) (Transform, error) {
	fail := func(format string, args ...any) (Transform, error) {
		return Transform{}, &SizeError{w, h, size, patch, fmt.Sprintf(format, args...)}
	}
	t, err := planned(w, h, size, patch)
	if err != nil {
		return t, err
	}
	long, short := max(w, h), min(w, h)
	target := size
	if size == 224 {
		target = roundEven(224 * (float64(long) / float64(short)))
	}
	t.ResizedW = roundEven(float64(w*target) / float64(long))
	t.ResizedH = roundEven(float64(h*target) / float64(long))
	t.crop(size, patch, rectangle43)
	switch {
	case t.Width < patch || t.Height < patch:
		return fail("it is resized to %dx%d, which leaves less than one patch of %d; the long side may be at most about %.4g times the short one",
			t.ResizedW, t.ResizedH, patch, float64(size)/(float64(patch)-0.5))
	case t.Width%patch != 0 || t.Height%patch != 0:
		return fail("the crop would be %dx%d, no multiple of the patch (with this patch a square cannot become 4:3)", t.Width, t.Height)
	}
	return t, nil
}

// PlanNearest finds the transform of a w x h picture for networks that want no crop
// (da3.md 2): the long side becomes size, or the multiple of patch below it, with the
// aspect kept, then each side the nearest multiple of patch, the larger one on a tie.
func PlanNearest(w, h, size, patch int) (Transform, error) {
	t, err := planned(w, h, size, patch)
	if err != nil {
		return t, err
	}
	size -= size % patch
	side := func(n int) int {
		exact := roundEven(float64(n*size) / float64(max(w, h)))
		return max((2*exact+patch)/(2*patch)*patch, patch)
	}
	t.ResizedW, t.ResizedH = side(w), side(h)
	t.Width, t.Height = t.ResizedW, t.ResizedH
	return t, nil
}

// Common cuts pictures to one size, the smallest height and the smallest width of
// them, around the middle of each.
func Common(list []Transform) {
	if len(list) == 0 {
		return
	}
	w, h := list[0].Width, list[0].Height
	for _, t := range list {
		w, h = min(w, t.Width), min(h, t.Height)
	}
	for i := range list {
		t := &list[i]
		t.CropX, t.CropY = t.CropX+(t.Width-w)/2, t.CropY+(t.Height-h)/2
		t.Width, t.Height = w, h
	}
}

// planned is a transform of which only the original size is known yet.
func planned(w, h, size, patch int) (Transform, error) {
	fail := func(format string, args ...any) (Transform, error) {
		return Transform{}, &SizeError{w, h, size, patch, fmt.Sprintf(format, args...)}
	}
	switch {
	case w < 1 || h < 1:
		return fail("the picture is empty")
	case w > MaxSide || h > MaxSide:
		return fail("a side is longer than %d", MaxSide)
	case patch < 1 || size < patch || size > MaxSize:
		return fail("want a patch of at least 1 and a size from one patch to %d", MaxSize)
	}
	return Transform{OriginalW: w, OriginalH: h}, nil
}

// crop is the box around the centre pixel; halves are floats because an odd
// patch makes them so, and each edge is rounded by itself, as Pillow does.
func (t *Transform) crop(size, patch int, rectangle43 bool) {
	cx, cy := t.ResizedW/2, t.ResizedH/2
	hw := float64(2*cx/patch*patch) / 2
	hh := float64(2*cy/patch*patch) / 2
	switch {
	case size == 224:
		hw = float64(min(cx, cy))
		hh = hw
	case rectangle43 && t.ResizedW == t.ResizedH:
		hh = 3 * hw / 4
	}
	t.CropX, t.CropY = roundEven(float64(cx)-hw), roundEven(float64(cy)-hh)
	t.Width = roundEven(float64(cx)+hw) - t.CropX
	t.Height = roundEven(float64(cy)+hh) - t.CropY
}

// roundEven is Python's round: half to even.
func roundEven(x float64) int { return int(math.RoundToEven(x)) }

// scale is how many network pixels one original pixel spans in x and y. The two
// differ slightly, as each side is rounded by itself.
func (t Transform) scale() (sx, sy float64) {
	return float64(t.ResizedW) / float64(t.OriginalW), float64(t.ResizedH) / float64(t.OriginalH)
}

// ToNetwork maps a point of the original picture to the network input. Pixel
// centres are at whole numbers in both, so that a pixel spans -0.5 to +0.5
// around its index: hence the halves.
func (t Transform) ToNetwork(x, y float64) (float64, float64) {
	sx, sy := t.scale()
	return (x+0.5)*sx - 0.5 - float64(t.CropX), (y+0.5)*sy - 0.5 - float64(t.CropY)
}

// ToOriginal is the inverse of ToNetwork.
func (t Transform) ToOriginal(x, y float64) (float64, float64) {
	sx, sy := t.scale()
	return (x+float64(t.CropX)+0.5)/sx - 0.5, (y+float64(t.CropY)+0.5)/sy - 0.5
}

// Matrix is ToNetwork as a 3x3 matrix on homogeneous points (x, y, 1).
func (t Transform) Matrix() [3][3]float64 {
	sx, sy := t.scale()
	x0, y0 := t.ToNetwork(0, 0)
	return [3][3]float64{{sx, 0, x0}, {0, sy, y0}, {0, 0, 1}}
}

// Inverse is ToOriginal as a 3x3 matrix.
func (t Transform) Inverse() [3][3]float64 {
	sx, sy := t.scale()
	x0, y0 := t.ToOriginal(0, 0)
	return [3][3]float64{{1 / sx, 0, x0}, {0, 1 / sy, y0}, {0, 0, 1}}
}

// IntrinsicsToNetwork maps a camera matrix of the original picture to that of
// the network input: the matrix of ToNetwork times k.
func (t Transform) IntrinsicsToNetwork(k [3][3]float64) [3][3]float64 { return mul(t.Matrix(), k) }

// IntrinsicsToOriginal is the inverse of IntrinsicsToNetwork.
func (t Transform) IntrinsicsToOriginal(k [3][3]float64) [3][3]float64 { return mul(t.Inverse(), k) }

func mul(a, b [3][3]float64) (c [3][3]float64) {
	for i := range 3 {
		for j := range 3 {
			c[i][j] = a[i][0]*b[0][j] + a[i][1]*b[1][j] + a[i][2]*b[2][j]
		}
	}
	return c
}
