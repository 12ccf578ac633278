// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// panelN is the number of output columns of a panel.
const panelN = 32

// LayoutVersion numbers the layout of packed bytes, which caches on disk hold. It
// goes up when the same source packs to other bytes.
const LayoutVersion = 2

// Errors of this package wrap one of these.
var (
	ErrShape       = errors.New("shape does not fit")
	ErrUnsupported = errors.New("not supported")
)

// Packed is the second operand of a product: Batch matrices [N][K] in panels
// (see the package comment).
type Packed struct {
	Type     tensor.DType // F32, F16 or BF16
	N, K     int
	Batch    int // number of matrices, at least 1
	data     []byte
	panel    int // bytes of a panel
	stride   int // bytes of a matrix
	kind     int
	stepSize int // elements of K per kernel step: 2 for BF16
}

// PackedSize returns the bytes of one packed [n][k] matrix.
func PackedSize(t tensor.DType, n, k int) (int, error) {
	if _, ok := kindOf(t); !ok {
		return 0, fmt.Errorf("gemm: packed weights of type %v: %w", t, ErrUnsupported)
	}
	if n < 1 || k < 1 {
		return 0, fmt.Errorf("gemm: packed weights [%d][%d]: %w", n, k, ErrShape)
	}
	if t == tensor.BF16 {
		k += k & 1
	}
	size, ok := product((n-1)/panelN+1, k, panelN*t.Size())
	if !ok {
		return 0, fmt.Errorf("gemm: packed weights [%d][%d]: size overflows: %w", n, k, ErrShape)
	}
	return size, nil
}

// Alloc returns n zero bytes on a cache-line boundary.
func Alloc(n int) []byte {
	b := make([]byte, n+64)
	o := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[o : o+n : o+n]
}

// NewPacked describes batch packed matrices in buf, which holds batch *
// PackedSize bytes and begins on a 4-byte boundary (64 is faster). The content
// comes from Pack.
func NewPacked(t tensor.DType, n, k, batch int, buf []byte) (*Packed, error) {
	size, err := PackedSize(t, n, k)
	if err != nil {
		return nil, err
	}
	total, ok := product(size, batch)
	if batch < 1 || !ok || len(buf) < total {
		return nil, fmt.Errorf("gemm: %d packed matrices [%d][%d] of %v in %d bytes, want %d each: %w",
			batch, n, k, t, len(buf), size, ErrShape)
	}
	if uintptr(unsafe.Pointer(&buf[0]))&3 != 0 {
		return nil, fmt.Errorf("gemm: packed weights: buffer is not aligned to 4 bytes: %w", ErrShape)
	}
	p := layout(t, n, k, batch, size)
	p.data = buf[:total]
	return p, nil
}

// Layout describes matrices without memory: for MatMul.Fresh, which are float32, and
// to plan with.
func Layout(t tensor.DType, n, k, batch int) (*Packed, error) {
	size, err := PackedSize(t, n, k)
	if err != nil {
		return nil, err
	}
	if _, ok := product(size, batch); !ok || batch < 1 {
		return nil, fmt.Errorf("gemm: %d matrices [%d][%d]: %w", batch, n, k, ErrShape)
	}
	return layout(t, n, k, batch, size), nil
}

func layout(t tensor.DType, n, k, batch, size int) *Packed {
	p := &Packed{Type: t, N: n, K: k, Batch: batch, stride: size, stepSize: 1}
	p.kind, _ = kindOf(t)
	if t == tensor.BF16 {
		p.stepSize = 2
	}
	p.panel = size / p.panels()
	return p
}

// PanelRows is what the limits of a Part are multiples of.
const PanelRows = panelN

// Part is rows n0 <= n < n1 as a matrix of its own in the same memory, so that a
// large matrix can be packed piece by piece.
func (p *Packed) Part(n0, n1 int) (*Packed, error) {
	if p.data == nil || p.Batch != 1 || n0 < 0 || n0 >= n1 || n1 > p.N || n0%PanelRows != 0 || n1 < p.N && n1%PanelRows != 0 {
		return nil, fmt.Errorf("gemm: rows %d to %d of %d packed matrices [%d][%d], want multiples of %d of one: %w",
			n0, n1, p.Batch, p.N, p.K, PanelRows, ErrShape)
	}
	size := ((n1-1)/panelN + 1 - n0/panelN) * p.panel
	return NewPacked(p.Type, n1-n0, p.K, 1, p.data[n0/panelN*p.panel:][:size])
}

func (p *Packed) panels() int { return (p.N-1)/panelN + 1 }

// steps is the number of kernel steps of a row.
func (p *Packed) steps() int { return (p.K + p.stepSize - 1) / p.stepSize }

// product multiplies non-negative factors and reports whether the result fits.
func product(f ...int) (int, bool) {
	r := uint64(1)
	for _, x := range f {
		hi, lo := bits.Mul64(r, uint64(x))
		if x < 0 || hi != 0 || lo > math.MaxInt {
			return 0, false
		}
		r = lo
	}
	return int(r), true
}
