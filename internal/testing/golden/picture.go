// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bufio"
	"image"
	"image/color"
	"image/png"
	"os"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Picture reads a PNG as packed RGB bytes, converted as the reference's loader
// converts: alpha dropped, grey replicated, palettes expanded, the high byte of
// 16-bit colour, and 16-bit grey clipped at 255 (golden.md 6).
func Picture(tb testing.TB, path string) (pix []byte, w, h int) {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(bufio.NewReader(f))
	if err != nil {
		tb.Fatalf("golden: %s: %v", path, err)
	}
	b := img.Bounds()
	w, h = b.Dx(), b.Dy()
	pix = make([]byte, 0, 3*w*h)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			pix = appendRGB(pix, img, x, y)
		}
	}
	return pix, w, h
}

func appendRGB(pix []byte, img image.Image, x, y int) []byte {
	switch p := img.(type) {
	case *image.Gray16:
		v := byte(min(p.Gray16At(x, y).Y, 255))
		return append(pix, v, v, v)
	case *image.RGBA: // opaque, as Go decodes RGB
		i := p.PixOffset(x, y)
		return append(pix, p.Pix[i:i+3]...)
	}
	// Anything else goes through its own colour model, without premultiplying:
	// dropping alpha must not darken.
	c := color.NRGBA64Model.Convert(img.At(x, y)).(color.NRGBA64)
	if n, ok := img.At(x, y).(color.NRGBA); ok { // fully transparent pixels keep their colour
		return append(pix, n.R, n.G, n.B)
	}
	return append(pix, byte(c.R>>8), byte(c.G>>8), byte(c.B>>8))
}

// Input turns packed RGB bytes into a network input [1,3,H,W]: byte/255, then
// (x - 0.5) / 0.5, each rounded to float32 (network.md 3).
func Input(pix []byte, w, h int) ([]float32, tensor.Shape) {
	x := make([]float32, 3*w*h)
	for i := range w * h {
		for c := range 3 {
			v := float32(pix[3*i+c]) / 255
			x[c*w*h+i] = (v - 0.5) / 0.5
		}
	}
	return x, tensor.Shape{1, 3, h, w}
}
