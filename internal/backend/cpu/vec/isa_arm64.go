// SPDX-License-Identifier: Apache-2.0

package vec

// supported: Advanced SIMD is part of every AArch64 that Go runs on.
func supported(i ISA) bool { return i == NEON }
