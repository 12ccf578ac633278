// SPDX-License-Identifier: Apache-2.0

package gomps

import "github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"

// Transform records how a picture became the network's input, and maps points both
// ways: the picture was resized from OriginalW x OriginalH to ResizedW x ResizedH,
// then cropped to Width x Height at (CropX, CropY).
//
// Pixel centres are at whole numbers, in the picture and in the network's input.
type Transform struct {
	OriginalW, OriginalH int
	ResizedW, ResizedH   int
	CropX, CropY         int
	Width, Height        int
}

// ToNetwork maps a point of the picture to the network's input.
func (t Transform) ToNetwork(x, y float64) (float64, float64) {
	return preprocess.Transform(t).ToNetwork(x, y)
}

// ToOriginal maps a point of the network's input to the picture.
func (t Transform) ToOriginal(x, y float64) (float64, float64) {
	return preprocess.Transform(t).ToOriginal(x, y)
}

// Matrix is ToNetwork in homogeneous coordinates.
func (t Transform) Matrix() [3][3]float64 { return preprocess.Transform(t).Matrix() }

// Inverse is ToOriginal in homogeneous coordinates.
func (t Transform) Inverse() [3][3]float64 { return preprocess.Transform(t).Inverse() }

// IntrinsicsToNetwork turns the intrinsics of the picture's camera into those of
// the network's input.
func (t Transform) IntrinsicsToNetwork(k [3][3]float64) [3][3]float64 {
	return preprocess.Transform(t).IntrinsicsToNetwork(k)
}

// IntrinsicsToOriginal is the inverse of IntrinsicsToNetwork.
func (t Transform) IntrinsicsToOriginal(k [3][3]float64) [3][3]float64 {
	return preprocess.Transform(t).IntrinsicsToOriginal(k)
}
