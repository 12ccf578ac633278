// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ResizeBits is the number of fractional bits of a weight of Resize's program.
const ResizeBits = 22

// resizeMaxTaps keeps the sums of Resize's products below 2^24, where float32 is exact:
// a byte times a digit of 8 bits is at most 255*128.
const resizeMaxTaps = 1 << 24 / (255 * 128)

// ResizeSize are the lengths that Resize's program is made for. A smaller picture, with
// fewer taps, is laid into it.
type ResizeSize struct {
	Height, Width int // of the result
	Rows, Columns int // of the picture, 3 bytes a pixel
	Taps          int // weights of an output
}

// Resize is the program that resamples a picture of bytes: along the rows, then along
// the columns, each pass rounded to bytes, weights in fixed point. To the last bit it is
// what package preprocess computes in integers.
//
// Each pass is one product by a matrix of weights. They have three digits of 8 bits
// with signs, k = 65536a + 256b + c: bytes and digits are numbers of bfloat16, which
// matrix units multiply, and the sums of each digit's products are exact in float32.
//
// Inputs: u8 [Rows*Columns*3]; i32 [(Width+Height)*(1+Taps)], for the rows and then for
// the columns the first input of each output, then the weights of each output, in units
// of 2^-ResizeBits. Result: u8 [Height*Width*3].
func Resize(s ResizeSize) (string, error) {
	if min(s.Height, s.Width, s.Rows, s.Columns, s.Taps) < 1 || s.Taps > resizeMaxTaps ||
		s.Rows > math.MaxInt32/3/s.Columns || s.Height > math.MaxInt32/3/s.Rows || s.Width > math.MaxInt32/9/max(s.Rows, s.Columns) {
		return "", fmt.Errorf("%w: resizing of %+v", ErrUnsupported, s)
	}
	w := &writer{consts: map[string]value{}}
	pixels := value{name: "%x0", shape: tensor.Shape{s.Rows * s.Columns * 3}, dtype: tensor.U8}
	table := value{name: "%x1", shape: tensor.Shape{(s.Width + s.Height) * (1 + s.Taps)}, dtype: tensor.I32}
	x := w.convert(w.reshape(pixels, tensor.Shape{s.Rows, s.Columns, 3}), tensor.BF16)
	at := 0
	next := func(shape ...int) value {
		n := tensor.Shape(shape).Numel()
		at += n
		return w.reshape(w.cut(table, 0, at-n, at), shape)
	}
	x = w.resample(x, 1, next(s.Width), next(s.Width, s.Taps)) // [Rows,3,Width]
	x = w.convert(x, tensor.BF16)
	x = w.resample(x, 0, next(s.Height), next(s.Height, s.Taps)) // [3,Width,Height]
	out := w.reshape(w.convert(w.transpose(x, 2, 1, 0), tensor.U8), tensor.Shape{s.Height * s.Width * 3})
	return fmt.Sprintf("module @resize {\n  func.func public @main(%%x0: %s, %%x1: %s) -> %s {\n%s    return %s : %s\n  }\n}\n",
		pixels.typ(), table.typ(), out.typ(), w.body.String(), out.name, out.typ()), nil
}

// resample is one pass: dimension axis of x becomes the last, of the outputs. The result
// is i32, bytes.
func (w *writer) resample(x value, axis int, first, weights value) value {
	n, taps, length := weights.shape[0], weights.shape[1], x.shape[axis]
	// The matrix [n,length]: input i of output o has weight i-first[o], where it has one.
	cube := tensor.Shape{n, length, taps}
	i := w.binary("subtract", w.iota(tensor.I32, cube, 1), w.broadcast(first, cube, 0))
	k := w.broadcast(weights, cube, 0, 2)
	k = w.choose(w.compare("EQ", i, w.iota(tensor.I32, cube, 2)), k, w.like(0, k))
	k = w.reduce("add", 0, k, 2)
	var digits []value
	for range 2 {
		low := w.binary("subtract", w.binary("and", w.binary("add", k, w.like(128, k)), w.like(255, k)), w.like(128, k))
		digits = append(digits, w.convert(low, tensor.BF16))
		k = w.binary("shift_right_arithmetic", w.binary("subtract", k, low), w.like(8, k))
	}
	digits = append(digits, w.convert(k, tensor.BF16))
	sums := w.convert(w.dot(x, w.concat(0, digits...), contraction{sumA: []int{axis}, sumB: []int{1}}, tensor.F32, false), tensor.I32)
	part := func(d int) value { return w.cut(sums, 2, d*n, (d+1)*n) }
	sum := w.binary("add", part(0), w.binary("multiply", part(1), w.like(1<<8, part(1))))
	sum = w.binary("add", sum, w.binary("multiply", part(2), w.like(1<<16, part(2))))
	sum = w.binary("add", sum, w.like(1<<(ResizeBits-1), sum))
	sum = w.binary("shift_right_arithmetic", sum, w.like(ResizeBits, sum))
	return w.binary("minimum", w.binary("maximum", sum, w.like(0, sum)), w.like(255, sum))
}
