// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// Products says which instructions multiply in which precision, and why: the ratios are
// those of products per cycle to float32 on the same processor (docs/speed.md), or were
// measured when the process began. It asks for nothing: tiles that no product has wanted
// yet count as given.
func Products() string {
	im := active.Load()
	const wide = "fp16, bf16: weights of 16 bits, products in fp32"
	const half = "; fp16: weights of 16 bits, products in fp32"
	switch {
	case im.tiles && isa.TilesRefused():
		return wide + " (the system refused AMX tiles)"
	case im.tiles:
		return "bf16: AMX tiles (16 times the products of fp32)" + half
	case im.isa == NEONMMLA && mmlaRatio == 0:
		return "bf16: BFMMLA (asked for, not measured)" + half
	case im.isa == NEONMMLA:
		return fmt.Sprintf("bf16: BFMMLA (%.1f times the products of fp32, measured at the start)", mmlaRatio) + half
	case im.kern[kBF16] != 0:
		return "bf16: native (2 times the products of fp32)" + half
	case mmlaRatio > 0:
		return fmt.Sprintf("%s (BFMMLA does %.1f times as many here, measured at the start)", wide, mmlaRatio)
	case AVX512BF16.Usable() && im.isa == AVX512:
		return wide + " (VDPBF16PS does 0.6 times as many on this maker's)"
	}
	return wide + " (no faster instructions used here)"
}
