// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"strings"
	"testing"
)

// What was measured decides, and is said. How fast anything is, is not tested.
func TestMMLAPays(t *testing.T) {
	if !NEONMMLA.Usable() {
		t.Skip("no BFMMLA here")
	}
	was, ratio := Active(), mmlaRatio
	defer func() {
		_ = Force(was)
		mmlaRatio = ratio
	}()
	pays := mmlaPays()
	if mmlaRatio <= 0 || pays != (mmlaRatio >= mmlaLeast) {
		t.Errorf("measured %v times the products of float32: pays %v", mmlaRatio, pays)
	}
	for _, x := range []struct {
		isa   ISA
		ratio float64
		want  string
	}{
		{NEONMMLA, 2.04, "bf16: BFMMLA (2.0 times the products of fp32, measured at the start)"},
		{NEONMMLA, 0, "bf16: BFMMLA (asked for, not measured)"},
		{NEON, 1.1, "products in fp32 (BFMMLA does 1.1 times as many here"},
		{NEON, 0, "products in fp32 (no faster"},
	} {
		if err := Force(x.isa); err != nil {
			t.Fatal(err)
		}
		if mmlaRatio = x.ratio; !strings.Contains(Products(), x.want) {
			t.Errorf("%v, ratio %v: %q does not say %q", x.isa, x.ratio, Products(), x.want)
		}
	}
}
