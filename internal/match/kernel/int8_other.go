// SPDX-License-Identifier: Apache-2.0

//go:build noasm || !amd64

package kernel

// HasInt8 is false: only AVX-512 VNNI multiplies bytes fast enough to make a
// prefilter pay.
func HasInt8() bool { return false }

// StripInt8 must not be called where HasInt8 is false.
func StripInt8(*Int8Args) { panic("kernel: StripInt8 without HasInt8") }
