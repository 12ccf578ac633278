// SPDX-License-Identifier: Apache-2.0

package kernel

// Int8 is the quantised companion of a Kernel, with the same MR and NR.
type Int8 struct {
	// Offset is added to the bytes of rows: 128 where the instruction
	// multiplies unsigned by signed bytes, else 0.
	Offset int

	strip, stripUnrolled func(*Int8Args)
}

// Int8Args is one strip of quantised work, in the layout of Args. Values are
// packed four to a word along the depth.
type Int8Args struct {
	Rows   *uint32 // [Quads][MR], Offset added
	Cols   *uint32 // [Panels][Quads][NR], signed
	Panels int
	ColMax *int32 // updated; never below 0
	Tmp    *int32 // TmpFloats values
	RowMax *int32 // written; never below 0
	Quads  int    // depth / 4, rounded up, padded with zero products
	Start  *int32 // -Offset * (sum of the column's values), [Panels*NR]
}

// Strip is Kernel.Strip for quantised descriptors. Its integer sums are exact.
func (k *Int8) Strip(p *Int8Args) {
	if p.Quads == UnrolledDim/4 {
		k.stripUnrolled(p)
		return
	}
	k.strip(p)
}
