// SPDX-License-Identifier: Apache-2.0

package kernel

// Tile shape of StripInt8.
const (
	Int8MR = 12
	Int8NR = 32
)

// Int8Args is one strip of quantised work, in the layout of Args. Values are
// packed four to a word along the depth: rows unsigned with 128 added (the
// instruction multiplies unsigned by signed bytes), columns signed.
type Int8Args struct {
	Rows   *uint32 // [Quads][Int8MR]
	Cols   *uint32 // [Panels][Quads][Int8NR]
	Panels int
	ColMax *int32 // updated; never below 0
	Tmp    *int32 // TmpFloats values
	RowMax *int32 // written; never below 0
	Quads  int    // depth / 4, rounded up, padded with zero products
	Start  *int32 // -128 * (sum of the column's values), [Panels*Int8NR]
}
