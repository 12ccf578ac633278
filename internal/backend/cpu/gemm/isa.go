// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ISA names the instruction set whose kernels run.
type ISA = isa.Set

// The instruction sets that have kernels here.
const (
	Portable   = isa.Portable
	NEON       = isa.NEON
	NEONMMLA   = isa.NEONMMLA
	AVX2       = isa.AVX2
	AVX512     = isa.AVX512
	AVX512BF16 = isa.AVX512BF16
	AVX512AMX  = isa.AVX512AMX
	numISA     = isa.Count
)

// kernelID numbers a microkernel; kernelID.call dispatches. A switch and not a
// function value, so that arguments stay on the caller's stack.
type kernelID uint8

// maxMR is the largest number of rows of any microkernel.
const maxMR = 14

// impl is what one instruction set offers.
type impl struct {
	isa   ISA
	nr    int   // columns of a microkernel: 32 or 16
	sizes []int // its row counts, descending; the last is 1
	// kern[d] is the first kernel of a storage type; kernel i computes sizes[i]
	// rows. 0 means the type is not supported.
	kern [3]kernelID
	rows rowPlan
	// tiles says that bfloat16 products may run on matrix tiles.
	tiles bool
	// half, if there is one, is an implementation whose kernels are half as wide and
	// give the same bits: for a last panel with few columns.
	half *impl
}

// Indices of impl.kern.
const (
	kF32 = iota
	kF16
	kBF16
)

func kindOf(d tensor.DType) (int, bool) {
	switch d {
	case tensor.F32:
		return kF32, true
	case tensor.F16:
		return kF16, true
	case tensor.BF16:
		return kBF16, true
	}
	return 0, false
}

var active atomic.Pointer[impl]

func init() {
	for _, im := range impls {
		if im != nil {
			im.rows.init(im.sizes)
		}
	}
	use(isa.Pick(ISAs(), mmlaPays))
}

func use(i ISA) { active.Store(impls[i]) }

// ISAs lists the instruction sets that this machine can run, slowest first.
func ISAs() []ISA {
	var r []ISA
	for i := range numISA {
		if impls[i] != nil && i.Usable() {
			r = append(r, i)
		}
	}
	return r
}

// Active returns the instruction set in use.
func Active() ISA { return active.Load().isa }

// Force selects an instruction set for everything that starts afterwards. It
// exists for tests and benchmarks; programs let the machine decide.
func Force(i ISA) error {
	for _, ok := range ISAs() {
		if ok == i {
			use(i)
			return nil
		}
	}
	return fmt.Errorf("gemm: instruction set %v: not available here, have %v", i, ISAs())
}

// Supports reports whether there are products with weights stored as d.
func Supports(d tensor.DType) bool {
	_, ok := kindOf(d)
	return ok
}

// way is how products with bfloat16 weights run.
type way uint8

const (
	// wayWide widens a panel to float32 and multiplies in that: half the memory at the
	// speed of float32, and the first operand keeps its precision.
	wayWide   way = iota
	wayVector     // kernels with bfloat16 products
	wayTiles
)

// bf16 is the way for k values of a row. It depends on nothing else, so that rows of
// one product have the same bits wherever they are multiplied.
func (im *impl) bf16(k int) way {
	switch {
	case im.tiles && k%tileK == 0 && isa.Tiles():
		return wayTiles
	case im.kern[kBF16] != 0:
		return wayVector
	}
	return wayWide
}

// RoundsBF16 reports whether a product of rows of k values with bfloat16 weights
// rounds the rows too. Where it does not, it runs in float32.
func RoundsBF16(k int) bool { return active.Load().bf16(k) != wayWide }

// Tiles reports whether such a product runs on matrix tiles. The first call of this
// or RoundsBF16 asks the system for them.
func Tiles(k int) bool { return active.Load().bf16(k) == wayTiles }

// rowPlan splits a number of rows into microkernel calls. Results do not depend
// on the split (see the package comment), only speed does.
type rowPlan struct {
	main int
	next [3 * maxMR]uint8 // index into sizes of the first call for that many rows
	len  int
	size []int
}

// init fills the table by dynamic programming. A kernel of m rows costs about
// max(m, 4) steps (fewer rows cannot hide the latency of the multiply-add) and a
// fixed start.
func (p *rowPlan) init(sizes []int) {
	const start = 0.6
	p.main, p.size, p.len = sizes[0], sizes, 3*sizes[0]
	var cost [3 * maxMR]float64
	for n := 1; n < p.len; n++ {
		cost[n] = 1e9
		for i, m := range sizes {
			if m > n {
				continue
			}
			if c := cost[n-m] + max(float64(m), 4) + start; c < cost[n] {
				cost[n], p.next[n] = c, uint8(i)
			}
		}
	}
}

// take returns the index and the number of rows of the next call for n > 0 rows.
func (p *rowPlan) take(n int) (index, rows int) {
	if n >= p.len {
		return 0, p.main
	}
	i := int(p.next[n])
	return i, p.size[i]
}
