// SPDX-License-Identifier: Apache-2.0

package preprocess

import "testing"

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
