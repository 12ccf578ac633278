// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
)

var _ backend.Resizer = (*Backend)(nil)

// maxPicture bounds the bytes of a picture that is resized on the device, which takes
// seven times as many there for the length of a run.
const maxPicture = 512 << 20

// Resize resamples a picture on the device.
//
// A program of XLA has fixed lengths, and pictures have any. So there is one program for
// each size of the result and each half octave of the scale; the part of the picture
// that the result is made of is laid into its corner. What lies beside has weight 0.
func (b *Backend) Resize(ctx context.Context, dst backend.Buffer, src backend.Picture, x, y backend.Taps) error {
	out, ok := dst.(*buffer)
	if !ok || out.b != b || out.n != 3*len(x.First)*len(y.First) {
		return fmt.Errorf("xla: resize: a buffer %T of %d bytes, want one of this backend of 3*%d*%d", dst, dst.Len(), len(x.First), len(y.First))
	}
	size, err := resizeSize(x, y)
	if err != nil {
		return err
	}
	b.resizers.mu.Lock() // Close waits for the end of a run
	defer b.resizers.mu.Unlock()
	exe, err := b.resizers.get(b, size, func() (string, error) { return stablehlo.Resize(size) })
	if err != nil {
		return fmt.Errorf("xla: resize: %w", err)
	}
	pixels, err := b.picture(src, x, y, size)
	if err != nil {
		return fmt.Errorf("xla: resize: %w", err)
	}
	defer pixels.Close()
	table := resizeTable(x, y, size)
	taps, err := b.dev.Upload(table, pjrt.S32, []int64{int64(len(table) / 4)})
	if err != nil {
		return fmt.Errorf("xla: resize: %w", b.account(err))
	}
	defer taps.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	results, err := b.execute(exe, []*pjrt.Buffer{pixels, taps})
	if err != nil {
		return fmt.Errorf("xla: resize: %w", err)
	}
	out.output(results[0])
	return nil
}

// resizeSize are the lengths of the first program that is large enough.
func resizeSize(x, y backend.Taps) (stablehlo.ResizeSize, error) {
	wide, high := span(x), span(y)
	for i := 0; ; i++ {
		scale := math.Exp2(float64(i) / 2)
		s := stablehlo.ResizeSize{Height: len(y.First), Width: len(x.First), Taps: 2*int(math.Ceil(3*scale)) + 1}
		// Matrix units want whole tiles.
		length := func(n int) int { return (int(math.Ceil(scale*float64(n))) + s.Taps + 31) &^ 31 }
		s.Rows, s.Columns = length(s.Height), length(s.Width)
		if s.Rows > maxPicture/3/s.Columns {
			return s, fmt.Errorf("%w: a picture of %dx%d to %dx%d", backend.ErrUnsupported, wide, high, s.Width, s.Height)
		}
		if s.Rows >= high && s.Columns >= wide && s.Taps >= max(x.Size, y.Size) {
			return s, nil
		}
	}
}

// span is how much of an axis is read.
func span(t backend.Taps) int {
	last := len(t.First) - 1
	return t.First[last] + t.Count[last] - t.First[0]
}

// picture uploads what is read of a picture.
func (b *Backend) picture(src backend.Picture, x, y backend.Taps, s stablehlo.ResizeSize) (*pjrt.Buffer, error) {
	host, err := b.host.Get(3 * s.Rows * s.Columns)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	data := host.Memory()[:3*s.Rows*s.Columns]
	for i := range span(y) {
		copy(data[3*s.Columns*i:], src.Pix[(y.First[0]+i)*src.Stride+3*x.First[0]:][:3*span(x)])
	}
	up, err := b.dev.Upload(data, pjrt.U8, []int64{int64(len(data))})
	return up, b.account(err)
}

// resizeTable is the program's second input.
func resizeTable(x, y backend.Taps, s stablehlo.ResizeSize) []byte {
	le := binary.LittleEndian
	out := make([]byte, 0, 4*(s.Width+s.Height)*(1+s.Taps))
	for _, t := range []backend.Taps{x, y} {
		for _, first := range t.First {
			out = le.AppendUint32(out, uint32(first-t.First[0]))
		}
		for i, n := range t.Count {
			for _, k := range t.Weights[i*t.Size:][:n] {
				out = le.AppendUint32(out, uint32(k))
			}
			out = append(out, make([]byte, 4*(s.Taps-n))...)
		}
	}
	return out
}
