// SPDX-License-Identifier: Apache-2.0

package stablehlo

// fusedAttention is softmax(scale q k^T) v by cuDNN.
func (l *lowering) fusedAttention(q, k, v value, scale float64) value { panic("todo") }
