// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
)

// Act is the activation of an epilogue.
type Act uint8

// The activations.
const (
	None Act = iota
	ReLU
	GELU // 0.5*x*(1+erf(x/sqrt(2))), the exact form
	numAct
)

// Epilogue is what happens to a product before it is stored:
//
//	C = Res + Gamma * Act(product + Bias)
//
// with the empty terms left out. Bias and Gamma have one value per column. Res
// has the rows of C with a row stride of LDR, and may be C itself.
type Epilogue struct {
	Bias  []float32
	Act   Act
	Gamma []float32
	Res   []float32
	LDR   int
}

func (e *Epilogue) check(rows, n int) error {
	switch {
	case e.Bias != nil && len(e.Bias) < n:
		return fmt.Errorf("gemm: bias of %d values for %d columns: %w", len(e.Bias), n, ErrShape)
	case e.Gamma != nil && len(e.Gamma) < n:
		return fmt.Errorf("gemm: gamma of %d values for %d columns: %w", len(e.Gamma), n, ErrShape)
	case e.Act >= numAct:
		return fmt.Errorf("gemm: activation %d: %w", e.Act, ErrUnsupported)
	case e.Res != nil:
		return checkRows("residual", e.Res, rows, n, e.LDR)
	}
	return nil
}

// checkRows verifies that x holds rows of n values, ld apart.
func checkRows(what string, x []float32, rows, n, ld int) error {
	last, ok := product(rows-1, ld)
	if rows < 1 || n < 1 || ld < n || !ok || len(x)-n < last {
		return fmt.Errorf("gemm: %s: %d values for %d rows of %d, stride %d: %w", what, len(x), rows, n, ld, ErrShape)
	}
	return nil
}

// block is one task: lines of rows of A against panels p0 <= p < p1 of W. A
// product is one line; a convolution's tile has one line per output row.
type block struct {
	im               *impl
	w                *Packed
	wdata            unsafe.Pointer // the matrix of this batch entry
	p0, p1           int
	lines, rows      int
	a, c, res        unsafe.Pointer // row 0 of line 0, column 0
	lda, ldc, ldr    int            // row strides, bytes
	linA, linC, linR int            // line strides, bytes
	off              []int64        // one entry per run
	steps            int            // per run
	ep               *Epilogue
	scale            []float32 // per row, or nil; only with one line

	// kc < steps cuts the only run of a single line into pieces of kc steps, whose
	// sums wait in part: (p1-p0) x rows x 32 values. The chain of additions of an
	// element is the same, stored and loaded between pieces.
	kc   int
	part []float32

	// Pieces of A and of the panels are copied here first, if there is a place.
	tidy  unsafe.Pointer // rows x tidyLD(kc) floats
	fresh freshPanels
	thin  bool // few rows: the operand of fresh need not be packed; see addRows

	// wide takes a piece of a panel of 16-bit values, as float32, if there is a place.
	wide []float32

	tile tileBlock
}

// piece is what one piece of K is multiplied from: where its rows and its first panel
// begin, and the bytes from row to row and from panel to panel.
type piece struct {
	a, w      unsafe.Pointer
	lda, next int
	p0, k0    int // its first panel and step
}

// tiles are the working tiles of a block, on its goroutine's stack: t takes the
// kernels' sums when an epilogue follows, r the residual of the last panel, and
// the vectors are padded copies of the last 32 values of bias and gamma.
type tiles struct {
	t, r        [maxMR * tileLD]float32
	bias, gamma [panelN]float32
}

// run goes piece by piece of K, so that a piece of A is in the second-level cache
// for all panels; inside it panel by panel, so that a panel read from memory
// serves all rows; and inside it row group by row group.
func (b *block) run() {
	if b.tile.on {
		b.runTiles()
		return
	}
	var ts tiles
	k := kargs{runs: len(b.off), off: &b.off[0]}
	kc := b.steps
	if b.kc > 0 {
		kc = min(kc, b.kc)
	}
	from := b.p0
	if b.thin && b.plain() {
		from = b.addRows(0, b.steps)
	}
	for k0 := 0; k0 < b.steps && from < b.p1; k0 += kc {
		k.steps = min(kc, b.steps-k0)
		p0 := from
		if b.thin && !b.plain() && k0+k.steps < b.steps {
			p0 = b.addRows(k0, k.steps)
		}
		x := b.piece(p0, k0, k.steps)
		k.lda = uintptr(x.lda)
		for p := p0; p < b.p1; p++ {
			b.panel(&ts, k, &x, p)
		}
	}
}

// piece finds or makes the piece of n steps from k0 on of panels p0 and up.
func (b *block) piece(p0, k0, n int) piece {
	x := piece{a: unsafe.Add(b.a, k0*4), lda: b.lda, p0: p0, k0: k0}
	if b.tidy != nil {
		from := x
		x.a, x.lda = b.tidy, tidyLD(n)*4
		for i := range b.rows {
			copy(unsafe.Slice(at(x.a, i*x.lda/4), n), unsafe.Slice(at(from.a, i*from.lda/4), n))
		}
	}
	if b.fresh.src != nil {
		x.next = n * panelN * 4
		x.w = b.fresh.piece(b.im, b.w, p0, b.p1, k0, n)
		return x
	}
	x.next = b.w.panel
	size := b.w.Type.Size() * b.w.stepSize
	if b.wide != nil {
		size = b.w.Type.Size() // its steps are those of float32
	}
	x.w = unsafe.Add(b.wdata, p0*x.next+k0*panelN*size)
	return x
}

// panel computes a piece of all rows with panel p.
func (b *block) panel(ts *tiles, k kargs, x *piece, p int) {
	n0 := p * panelN
	cols := min(panelN, b.w.N-n0)
	first, last := x.k0 == 0, len(b.off) > 1 || x.k0+k.steps == b.steps
	kind, step := b.w.kind, b.w.Type.Size()*b.w.stepSize // bytes per column and step
	panel := unsafe.Add(x.w, (p-x.p0)*x.next)
	if b.wide != nil {
		wide := b.wide[:ceil(k.steps, 2)*panelN]
		if kind == kBF16 {
			unpairBF16(b.im, wide, panel)
		} else {
			wide = wide[:k.steps*panelN]
			vec.F32FromF16(wide, unsafe.Slice((*uint16)(panel), len(wide)))
		}
		kind, step, panel = kF32, 4, unsafe.Pointer(&wide[0])
	}
	im := b.im
	if im.half != nil && cols <= im.half.nr && im.half.kern[kind] != 0 {
		im = im.half
	}
	e := eargs{act: b.ep.Act}
	ini := ts.vector(b.ep.Bias, &ts.bias, n0, cols)
	if ini == nil {
		ini = unsafe.Pointer(&zeroRow)
	}
	e.gamma = ts.vector(b.ep.Gamma, &ts.gamma, n0, cols)
	// Without an epilogue the kernels store to C, where their 32 (or 16) columns all
	// exist. Otherwise they store to a tile, one more pass through the first-level
	// cache: about 2 instructions per vector, against K multiplications.
	direct := b.plain() && cols%im.nr == 0
	for l := range b.lines {
		for i := 0; i < b.rows; {
			ki, m := im.rows.take(b.rows - i)
			k.a = unsafe.Add(x.a, l*b.linA+i*x.lda)
			c := unsafe.Add(b.c, l*b.linC+i*b.ldc+n0*4)
			if !first {
				ini, k.ldi = b.partial(p, i), tileLD*4
			}
			to := unsafe.Pointer(&ts.t)
			k.ldc = tileLD * 4
			switch {
			case !last:
				to = b.partial(p, i)
			case direct:
				to, k.ldc = c, uintptr(b.ldc)
			}
			id := im.kern[kind] + kernelID(ki)
			for j := 0; j < cols; j += im.nr {
				k.b, k.c, k.ini = unsafe.Add(panel, j*step), unsafe.Add(to, j*4), unsafe.Add(ini, j*4)
				id.call(&k)
			}
			if last && !direct {
				e.rows, e.c, e.ldc = m, c, uintptr(b.ldc)
				if b.res != nil {
					e.res, e.ldr = unsafe.Add(b.res, l*b.linR+i*b.ldr+n0*4), uintptr(b.ldr)
				}
				if b.scale != nil {
					e.scale = unsafe.Pointer(&b.scale[i])
				}
				b.finish(ts, e, cols)
			}
			i += m
		}
	}
}

// plain says that the sums are the result: nothing follows but a bias, with which they begin.
func (b *block) plain() bool {
	return b.ep.Act == None && b.ep.Gamma == nil && b.res == nil && b.scale == nil
}

// partial returns the waiting sums of panel p from row i on.
func (b *block) partial(p, i int) unsafe.Pointer {
	return unsafe.Pointer(&b.part[((p-b.p0)*b.rows+i)*panelN])
}

// vector returns 32 values of v from n0 on, in pad when v ends before.
func (ts *tiles) vector(v []float32, pad *[panelN]float32, n0, cols int) unsafe.Pointer {
	if v == nil {
		return nil
	}
	if len(v)-n0 >= panelN {
		return unsafe.Pointer(&v[n0])
	}
	copy(pad[:cols], v[n0:])
	return unsafe.Pointer(pad)
}

// finish runs the epilogue of one tile and stores its first cols columns.
func (b *block) finish(ts *tiles, e eargs, cols int) {
	e.tile = unsafe.Pointer(&ts.t)
	if cols == panelN {
		epilogue(b.im, &e)
		return
	}
	// The last panel: whole rows of 32 would reach beyond C and Res.
	c, ldc := e.c, e.ldc
	if e.res != nil {
		for i := range e.rows {
			copy(ts.r[i*tileLD:][:cols], unsafe.Slice(at(e.res, i*int(e.ldr)/4), cols))
		}
		e.res, e.ldr = unsafe.Pointer(&ts.r), tileLD*4
	}
	e.c, e.ldc = e.tile, tileLD*4
	epilogue(b.im, &e)
	for i := range e.rows {
		copy(unsafe.Slice(at(c, i*int(ldc)/4), cols), ts.t[i*tileLD:][:cols])
	}
}
