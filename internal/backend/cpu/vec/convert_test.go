// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// same compares bits, but lets NaN differ in its payload: hardware quiets a
// signalling NaN on the way, the Go code may not.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestEvery16BitValue(t *testing.T) {
	src := make([]uint16, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	dst := make([]float32, len(src))
	eachISA(t, func(t *testing.T) {
		F32FromF16(dst, src)
		for i, v := range dst {
			if !same(v, tensor.Float32FromF16(uint16(i))) {
				t.Fatalf("f16 %#04x: got %g", i, v)
			}
		}
		back := make([]uint16, len(src))
		F16FromF32(back, dst)
		for i, v := range back {
			if v != src[i] && dst[i] == dst[i] {
				t.Fatalf("f16 %#04x came back as %#04x", i, v)
			}
		}
		F32FromBF16(dst, src)
		for i, v := range dst {
			if !same(v, tensor.Float32FromBF16(uint16(i))) {
				t.Fatalf("bf16 %#04x: got %g", i, v)
			}
		}
	})
}

// TestRoundingTo16Bits tries bit patterns around every rounding boundary of
// both formats: each upper half with lower halves at and next to a tie.
func TestRoundingTo16Bits(t *testing.T) {
	var src []float32
	for hi := range uint32(1 << 16) {
		for _, lo := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff} {
			src = append(src, math.Float32frombits(hi<<16|lo))
		}
	}
	dst := make([]uint16, len(src))
	eachISA(t, func(t *testing.T) {
		F16FromF32(dst, src)
		for i, x := range src {
			if want := tensor.F16FromFloat32(x); dst[i] != want && x == x {
				t.Fatalf("f16(%g, %#08x): got %#04x, want %#04x", x, math.Float32bits(x), dst[i], want)
			} else if x != x && dst[i]&0x7fff <= 0x7c00 {
				t.Fatalf("f16(NaN): got %#04x", dst[i])
			}
		}
		BF16FromF32(dst, src)
		for i, x := range src {
			if want := tensor.BF16FromFloat32(x); dst[i] != want {
				t.Fatalf("bf16(%g, %#08x): got %#04x, want %#04x", x, math.Float32bits(x), dst[i], want)
			}
		}
	})
}

func TestConvertTails(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for n := range maxTail {
			u8, h := make([]uint8, n), make([]uint16, n)
			for i := range u8 {
				u8[i], h[i] = uint8(i*7+200), uint16(i*777)
			}
			all, dst := guarded(n, n%5)
			F32FromU8(dst, u8)
			checkCanaries(t, all, dst, n%5)
			for i := range dst {
				if dst[i] != float32(u8[i]) {
					t.Fatalf("u8 %d: got %g", u8[i], dst[i])
				}
			}
			F32FromF16(dst, h)
			checkCanaries(t, all, dst, n%5)
			F32FromBF16(dst, h)
			checkCanaries(t, all, dst, n%5)
			out := make([]uint16, n+2)
			out[n], out[n+1] = 0xabcd, 0xabcd
			F16FromF32(out[:n], dst)
			BF16FromF32(out[:n], dst)
			if out[n] != 0xabcd || out[n+1] != 0xabcd {
				t.Fatalf("length %d: wrote past the end", n)
			}
			for i := range dst {
				if out[i] != h[i] && dst[i] == dst[i] {
					t.Fatalf("bf16 %#04x came back as %#04x", h[i], out[i])
				}
			}
		}
	})
}
