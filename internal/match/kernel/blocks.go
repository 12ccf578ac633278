// SPDX-License-Identifier: Apache-2.0

package kernel

// Blocks is the search of rows among blocks of columns that are much alike, of which
// few can hold a row's best. It goes with the layout of Int8: a panel of BlockPanel
// columns holds two blocks, one after the other. Depth is UnrolledDim.
type Blocks struct {
	within func(*WithinArgs)
	among  func(*AmongArgs)
}

const (
	BlockPanel = 32 // columns of a panel
	BlockSide  = 16 // columns of a block
	WithinRows = 4
)

// WithinArgs asks which of many blocks a row can have its best in. A block is known by a
// direction, and by the cosine and the sine of the widest angle that a column of it has
// with that. The assembly reads it by offset.
type WithinArgs struct {
	Rows     *uint32  // [WithinRows][UnrolledDim/4], rounded, 128 added
	Cols     *uint32  // directions, [Panels][UnrolledDim/4][BlockPanel], rounded
	Start    *int32   // -128 * (sum of the direction's values), [Panels*BlockPanel]
	Cos, Sin *float32 // [Panels*BlockPanel]
	Panels   int
	Limits   *float32 // [WithinRows][3]
	Out      *uint32  // written: a bit a block, [WithinRows][Panels]
}

// Within sets the bit of a block where the product of its direction and the row is at
// least Cos limit[0] - Sin limit[1] - limit[2]: with an angle p of the block, and q of the
// row and the best, cos(p + q) is cos p cos q - sin p sin q.
func (b *Blocks) Within(p *WithinArgs) { b.within(p) }

// AmongArgs is the search of a row in chosen blocks. The assembly reads it by offset.
type AmongArgs struct {
	Row8   *uint32  // [UnrolledDim/4], rounded, 128 added
	Cols8  *uint32  // [panels][UnrolledDim/4][BlockPanel], rounded
	Start  *int32   // as in WithinArgs, of the columns
	Row    *float32 // [UnrolledDim]
	Cols   *float32 // [panels][UnrolledDim][BlockPanel]
	Chosen *uint32  // [Words], a bit a block
	Words  int
	Floor  int32   // rounded scores below it do not count; raised
	Scale  float32 // of a score, minus Margin: the floor that follows from it
	Margin float32
	Score  float32 // written
	At     int     // written
	Ties   int     // written: 1 where another block has the same score
}

// Among scores the row exactly against those blocks of the chosen in which a rounded score
// reaches the floor, which rises with what is found. It writes the largest score and the
// first column that has it, or -Inf and -1 when no block qualifies.
func (b *Blocks) Among(p *AmongArgs) { b.among(p) }
