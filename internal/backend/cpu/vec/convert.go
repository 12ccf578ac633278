// SPDX-License-Identifier: Apache-2.0

package vec

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// The conversions run whole vectors in assembly and the last few elements in
// Go: both are exact or round to nearest even, so that they agree bit for bit.

// block is a multiple of the lanes of every instruction set.
const block = 16

// F32FromF16 widens binary16.
func F32FromF16(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	i := n &^ (block - 1)
	if i == 0 || !kF16ToF32(&dst[0], &src[0], i) {
		i = 0
	}
	for ; i < n; i++ {
		dst[i] = tensor.Float32FromF16(src[i])
	}
}

// F16FromF32 rounds to binary16, to nearest even.
func F16FromF32(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	i := n &^ (block - 1)
	if i == 0 || !kF32ToF16(&dst[0], &src[0], i) {
		i = 0
	}
	for ; i < n; i++ {
		dst[i] = tensor.F16FromFloat32(src[i])
	}
}

// F32FromBF16 widens bfloat16.
func F32FromBF16(dst []float32, src []uint16) {
	n := len(dst)
	src = src[:n]
	i := n &^ (block - 1)
	if i == 0 || !kBf16ToF32(&dst[0], &src[0], i) {
		i = 0
	}
	for ; i < n; i++ {
		dst[i] = tensor.Float32FromBF16(src[i])
	}
}

// BF16FromF32 rounds to bfloat16, to nearest even.
func BF16FromF32(dst []uint16, src []float32) {
	n := len(dst)
	src = src[:n]
	i := n &^ (block - 1)
	if i == 0 || !kF32ToBF16(&dst[0], &src[0], i) {
		i = 0
	}
	for ; i < n; i++ {
		dst[i] = tensor.BF16FromFloat32(src[i])
	}
}

// F32FromU8 converts bytes to the numbers 0 to 255.
func F32FromU8(dst []float32, src []uint8) {
	n := len(dst)
	src = src[:n]
	i := n &^ (block - 1)
	if i == 0 || !kU8ToF32(&dst[0], &src[0], i) {
		i = 0
	}
	for ; i < n; i++ {
		dst[i] = float32(src[i])
	}
}
