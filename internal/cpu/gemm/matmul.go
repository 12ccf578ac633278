// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// MatMul is C[M][N] = epilogue(A[M][K] · W[N][K]ᵀ), or a batch of such products.
type MatMul struct {
	M   int
	A   []float32
	LDA int // row stride of A; not a multiple of 1024 for best speed
	W   *Packed
	C   []float32
	LDC int
	Epilogue

	// Batch > 1 repeats the product with A, C and Res moved on by their strides.
	// W.Batch is 1 (shared weights) or Batch.
	Batch                     int
	StrideA, StrideC, StrideR int

	// Scratch has ScratchBytes(threads) bytes; nil where that is 0.
	Scratch []byte

	fn   func(worker, tile int)
	im   *impl
	part partition
}

// blockBytes bounds the rows of A that one task keeps in the second-level cache
// beside a panel of W. Sizes between 192 and 512 KiB were measured alike.
const blockBytes = 384 << 10

// maxBlockRows bounds the rows of a task where K is small.
const maxBlockRows = 192

// partition is a grid of tasks: mb blocks of mc rows, nb groups of nc panels.
type partition struct{ mc, mb, nc, nb int }

// split cuts M rows and the panels of W into tasks of 0.2 to 1 ms that give every
// thread a few. Which elements share a task never changes their value.
func split(im *impl, m, panels, rowBytes, batch, threads int) partition {
	mr := im.sizes[0]
	mc := min(max(blockBytes/rowBytes, 3*mr), maxBlockRows, m)
	nc := min(8, panels)
	for {
		mb := (m + mc - 1) / mc
		even := (m + mb - 1) / mb
		p := partition{mc: min(m, (even+mr-1)/mr*mr), nc: nc}
		p.mb, p.nb = (m+p.mc-1)/p.mc, (panels+nc-1)/nc
		switch {
		case threads == 1 || p.mb*p.nb*batch >= 4*threads:
			return p
		case nc > 2:
			nc = (nc + 1) / 2
		case mc > 2*mr:
			mc = max(2*mr, mc/2)
		case nc > 1:
			nc = 1
		default:
			return p
		}
	}
}

// ScratchBytes returns the bytes of Scratch that Run needs on a pool of that many
// threads: none, except for the rounded rows of A that BF16 weights need.
func (m *MatMul) ScratchBytes(threads int) int {
	if m.W == nil || m.W.kind != kBF16 {
		return 0
	}
	return threads * m.scratchRows() * bf16Row(m.W.K)
}

func (m *MatMul) scratchRows() int {
	return min(max(m.M, 1), maxBlockRows+maxMR)
}

// bf16Row is the row stride in bytes of k values rounded to bfloat16: room for
// whole vectors, and never a multiple of 4096, which would put all rows of a
// tile into one cache set.
func bf16Row(k int) int { return (k+15)/16*32 + 64 }

// Check reports whether the fields fit together.
func (m *MatMul) Check() error {
	if m.W == nil {
		return fmt.Errorf("gemm: product without weights: %w", ErrShape)
	}
	batch := max(m.Batch, 1)
	if m.W.Batch != 1 && m.W.Batch != batch || m.StrideA < 0 || m.StrideC < 0 || m.StrideR < 0 {
		return fmt.Errorf("gemm: batch %d with %d weight matrices: %w", batch, m.W.Batch, ErrShape)
	}
	if !Supports(m.W.Type) {
		return fmt.Errorf("gemm: %v weights with %v: %w", m.W.Type, Active(), ErrUnsupported)
	}
	for _, x := range []struct {
		what   string
		data   []float32
		n, ld  int
		stride int
	}{
		{"A", m.A, m.W.K, m.LDA, m.StrideA},
		{"C", m.C, m.W.N, m.LDC, m.StrideC},
	} {
		last, ok := product(batch-1, x.stride)
		if !ok || last > len(x.data) {
			return fmt.Errorf("gemm: %s: %d values for %d matrices, %d apart: %w", x.what, len(x.data), batch, x.stride, ErrShape)
		}
		if err := checkRows(x.what, x.data[last:], m.M, x.n, x.ld); err != nil {
			return err
		}
	}
	ep := m.Epilogue
	if last, ok := product(batch-1, m.StrideR); ep.Res != nil {
		if !ok || last > len(ep.Res) {
			return fmt.Errorf("gemm: residual: %d values for %d matrices, %d apart: %w", len(ep.Res), batch, m.StrideR, ErrShape)
		}
		ep.Res = ep.Res[last:]
	}
	return ep.check(m.M, m.W.N)
}

// Run computes C. It panics if Check or the size of Scratch would report an
// error: both are mistakes of the program, known before its first run.
func (m *MatMul) Run(pool *par.Pool) {
	if err := m.Check(); err != nil {
		panic(err)
	}
	if n := m.ScratchBytes(pool.Threads()); len(m.Scratch) < n {
		panic(fmt.Errorf("gemm: product: %d bytes of scratch, want %d", len(m.Scratch), n))
	}
	if m.fn == nil {
		m.fn = m.tile
	}
	m.im = active.Load()
	batch := max(m.Batch, 1)
	m.part = split(m.im, m.M, m.W.panels(), m.W.steps()*4, batch, pool.Threads())
	pool.Run(m.part.mb*m.part.nb*batch, m.fn)
}

// tile computes one task. Tasks are numbered row block first: neighbours in time
// share panels of W, the larger operand.
func (m *MatMul) tile(worker, t int) {
	p := &m.part
	r0 := t % p.mb * p.mc
	g := t / p.mb % p.nb
	bi := t / (p.mb * p.nb)
	b := block{
		im: m.im, w: m.W, wdata: unsafe.Pointer(&m.W.data[bi%m.W.Batch*m.W.stride]),
		p0: g * p.nc, p1: min(m.W.panels(), (g+1)*p.nc),
		lines: 1, rows: min(p.mc, m.M-r0),
		a:   unsafe.Pointer(&m.A[bi*m.StrideA+r0*m.LDA]),
		lda: m.LDA * 4,
		c:   unsafe.Pointer(&m.C[bi*m.StrideC+r0*m.LDC]),
		ldc: m.LDC * 4,
		off: noOff[:], steps: m.W.steps(), ep: &m.Epilogue,
	}
	if m.Res != nil {
		b.res, b.ldr = unsafe.Pointer(&m.Res[bi*m.StrideR+r0*m.LDR]), m.LDR*4
	}
	if m.W.kind == kBF16 {
		ld := bf16Row(m.W.K)
		s := m.Scratch[worker*m.scratchRows()*ld:][:m.scratchRows()*ld]
		for i := range b.rows {
			roundRow(m.im, s[i*ld:][:ld], m.A[bi*m.StrideA+(r0+i)*m.LDA:][:m.W.K])
		}
		b.a, b.lda = unsafe.Pointer(&s[0]), ld
	}
	b.run()
}

// roundRow writes a row as bfloat16, padded with zeros to whole vectors.
func roundRow(im *impl, dst []byte, row []float32) {
	n := len(row) &^ 15
	if n > 0 {
		toBF16(im, unsafe.Pointer(&dst[0]), row[:n])
	}
	if n < len(row) {
		var pad [16]float32
		copy(pad[:], row[n:])
		toBF16(im, unsafe.Pointer(&dst[n*2]), pad[:])
	}
}
