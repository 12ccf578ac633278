// SPDX-License-Identifier: Apache-2.0

package tensor

import "math"

// Float32FromF16 widens an IEEE 754 binary16 value; the conversion is exact.
func Float32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	man := uint32(h & 0x3ff)
	switch exp {
	case 0x1f: // infinity, NaN (payload kept)
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case 0:
		// Subnormal: man x 2^-24, exact in float32.
		f := float32(man) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// F16FromFloat32 rounds to the nearest binary16, ties to even; values beyond
// 65504 (after rounding) become infinities, NaN stays a quiet NaN.
func F16FromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u>>16) & 0x8000
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000: // NaN: keep the top payload bits, force quiet
		return sign | 0x7e00 | uint16(u>>13)&0x1ff
	case u >= 0x47800000: // >= 65536, infinity included
		return sign | 0x7c00
	case u >= 0x38800000: // normal in binary16
		// Adding half of the last place, and one more when the kept bit is odd,
		// is round-to-nearest-even; a carry out of the mantissa is right too.
		u += 0xfff + (u>>13)&1
		return sign | uint16((u-0x38000000)>>13)
	case u < 0x33000000: // below half of the smallest subnormal
		return sign
	}
	// Subnormal: round man x 2^(e) to a multiple of 2^-24.
	shift := 126 - u>>23
	man := u&0x7fffff | 0x800000
	r := man >> shift
	rest := man & (1<<shift - 1)
	half := uint32(1) << (shift - 1)
	if rest > half || rest == half && r&1 == 1 {
		r++
	}
	return sign | uint16(r)
}

// Float32FromBF16 widens a bfloat16 value; the conversion is exact.
func Float32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F16FromFloat64 rounds to the nearest binary16, ties to even, as F16FromFloat32 does. On the way
// a float32 that is not exact is made odd, so that it is no tie where v is none.
func F16FromFloat64(v float64) uint16 {
	f := float32(v)
	if d := float64(f) - v; d > 0 || d < 0 { // neither equal nor NaN
		b := math.Float32bits(f)
		if math.Abs(float64(f)) > math.Abs(v) {
			b-- // towards zero; infinity becomes the largest
		}
		f = math.Float32frombits(b | 1)
	}
	return F16FromFloat32(f)
}

// BF16FromFloat32 rounds to the nearest bfloat16, ties to even; NaN stays quiet.
func BF16FromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
