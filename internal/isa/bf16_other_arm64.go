// SPDX-License-Identifier: Apache-2.0

//go:build arm64 && !linux && !darwin

package isa

// hasBF16: how to ask other systems for FEAT_BF16 is not known here.
func hasBF16() bool { return false }
