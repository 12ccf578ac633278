// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Products on matrix tiles. A tile instruction multiplies 16 rows of 32 bfloat16
// values with 16 pairs of rows of 16 columns, so that the layout of bfloat16 panels,
// pairs of k by 32 columns, is two tiles side by side, 128 bytes from row to row, and
// one packed form serves tiles and vectors.
//
// The order of summation is another than that of vectors. Each step of 32 values
// sums the products of its even k in one chain and those of its odd k in another,
// both from zero on; then their sum is added to the element. A step always begins at a
// multiple of 32, whatever the task, and all rows of a product take tiles, so that the
// promise of the package holds: the same bits for any number of threads and any batch.
//
// Where K is no multiple of 32, a product does not take tiles.

const (
	tileK     = 32 // values of a row in a step
	tileRows  = 32 // of a group, two tiles
	tileStep  = tileK * panelN * 2
	tileRowLD = panelN * 4 // bytes between rows of waiting sums
)

// tilesInGo runs tile programs in Go.
var tilesInGo bool

// ModelTiles runs tile programs in Go from now on, slowly and to the same bits, so
// that tests of AVX512AMX run on machines without tiles. It exists for them.
func ModelTiles() {
	tilesInGo = true
	isa.ModelTiles()
}

// tileBlock is what a block needs beyond its other fields to run on tiles.
type tileBlock struct {
	on          bool
	kstep, next int       // of A, in bytes: from 32 values of a row to the next, from group to group
	sums        []float32 // lines x rows, a multiple of 32, x 32
}

// tileSums is the number of sums that wait for lines of rows.
func tileSums(lines, rows int) int { return lines * ceil(rows, tileRows) * panelN }

// ceil is the next multiple of m.
func ceil(n, m int) int { return (n + m - 1) / m * m }

// runTiles goes panel by panel, and in it run by run, each for all rows. Cutting K into
// pieces that fit the first-level cache was measured to be slower: sums wait in memory
// then, and asking for lines ahead does as much.
func (b *block) runTiles() {
	var ts tiles
	steps := b.steps / (tileK / 2)
	for p := b.p0; p < b.p1; p++ {
		n0 := p * panelN
		cols := min(panelN, b.w.N-n0)
		e := eargs{act: b.ep.Act, gamma: ts.vector(b.ep.Gamma, &ts.gamma, n0, cols)}
		bias := ts.vector(b.ep.Bias, &ts.bias, n0, cols)
		if bias == nil {
			bias = unsafe.Pointer(&zeroRow)
		}
		direct := e.act == None && e.gamma == nil && b.res == nil && b.scale == nil && cols == panelN
		panel := unsafe.Add(b.wdata, p*b.w.panel)
		for r, off := range b.off {
			k := tkargs{lda: uintptr(b.lda), kstep: uintptr(b.tile.kstep), nexta: uintptr(b.tile.next),
				b: unsafe.Add(panel, r*steps*tileStep), steps: steps, panels: 1}
			if r == 0 {
				k.ini = bias
			}
			for l := range b.lines {
				b.tileLine(k, l, int(off), n0, direct && r == len(b.off)-1)
			}
		}
		for l := range b.lines {
			b.finishTiles(&ts, e, l, n0, cols, direct)
		}
	}
}

// tileLine multiplies a run of a line of rows, from off bytes on, into the sums or, with
// direct, whole groups into C.
func (b *block) tileLine(k tkargs, l, off, n0 int, direct bool) {
	whole := b.rows / tileRows * tileRows
	for i := 0; i < b.rows; i += whole {
		n := b.rows - i
		if n >= tileRows {
			n = whole
		}
		sums := unsafe.Pointer(&b.tile.sums[l*ceil(b.rows, tileRows)*panelN+i*panelN])
		k := k
		k.a = unsafe.Add(b.a, l*b.linA+i/tileRows*b.tile.next+off)
		if k.ini == nil {
			k.ini, k.ldi, k.nexti = sums, tileRowLD, tileRows*tileRowLD
		}
		k.c, k.ldc, k.nextc = sums, tileRowLD, tileRows*tileRowLD
		if direct && n >= tileRows {
			k.c, k.ldc, k.nextc = unsafe.Add(b.c, l*b.linC+i*b.ldc+n0*4), uintptr(b.ldc), uintptr(tileRows*b.ldc)
		}
		k.groups = max(1, n/tileRows)
		rows := tileRows
		if n <= tileRows/2 {
			rows = tileRows / 2
		}
		tileProduct(&k, rows)
		if whole == 0 {
			return
		}
	}
}

// finishTiles runs the epilogue of a line on its sums. What went straight to C is
// left out.
func (b *block) finishTiles(ts *tiles, e eargs, l, n0, cols int, direct bool) {
	i := 0
	if direct {
		i = b.rows / tileRows * tileRows
	}
	for i < b.rows {
		n := b.rows - i
		e.tile = unsafe.Pointer(&b.tile.sums[(l*ceil(b.rows, tileRows)+i)*panelN])
		e.c, e.ldc = unsafe.Add(b.c, l*b.linC+i*b.ldc+n0*4), uintptr(b.ldc)
		if b.res != nil {
			e.res, e.ldr = unsafe.Add(b.res, l*b.linR+i*b.ldr+n0*4), uintptr(b.ldr)
		}
		if b.scale != nil {
			e.scale = unsafe.Pointer(&b.scale[i])
		}
		if cols < panelN {
			n = min(n, maxMR)
			copy(ts.t[:n*panelN], unsafe.Slice((*float32)(e.tile), n*panelN))
			e.rows = n
			b.finish(ts, e, cols)
		} else {
			e.rows = n
			epilogue(b.im, &e)
		}
		i += n
	}
}

// portableTiles is a tile kernel in Go, with the same bits: what Intel's manual says
// that TDPBF16PS does. A product of two bfloat16 values is exact in float32, so that a
// fused addition rounds as a plain one does.
func portableTiles(k *tkargs, rows int) {
	var b [2][tileK / 2][panelN]float32 // the even and the odd rows of a step
	for p := range k.panels {
		for g := range k.groups {
			for i := range rows {
				*row32(k.c, p*tileRowLD+g*int(k.nextc)+i*int(k.ldc)) = *row32(k.ini, p*int(k.panelI)+g*int(k.nexti)+i*int(k.ldi))
			}
		}
		for s := range k.steps {
			for j, x := range (*[tileK / 2 * panelN * 2]uint16)(unsafe.Add(k.b, p*int(k.nextb)+s*tileStep)) {
				b[j%2][j/2/panelN][j/2%panelN] = wide(x)
			}
			for g := range k.groups {
				a := unsafe.Add(k.a, g*int(k.nexta)+s*int(k.kstep))
				for i := range rows {
					x := (*[tileK]uint16)(unsafe.Add(a, i*int(k.lda)))
					addTileStep(row32(k.c, p*tileRowLD+g*int(k.nextc)+i*int(k.ldc)), x, &b)
				}
			}
		}
	}
}

func addTileStep(c *[panelN]float32, x *[tileK]uint16, b *[2][tileK / 2][panelN]float32) {
	var sum [2][panelN]float32
	for k, v := range x {
		v, s, row := wide(v), &sum[k%2], &b[k%2][k/2]
		for j, w := range row {
			s[j] += float32(v * w)
		}
	}
	for j := range c {
		c[j] = flush(c[j] + flush(flush(sum[0][j])+flush(sum[1][j])))
	}
}

// wide is a bfloat16 as float32, a subnormal one as zero.
func wide(x uint16) float32 { return flush(tensor.Float32FromBF16(x)) }

// flush sets subnormal values to zero, with their sign.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&0x7f800000 == 0 {
		return math.Float32frombits(b & 0x80000000)
	}
	return x
}

// portableSpread is spread in Go.
func portableSpread(s *spargs) {
	src := unsafe.Slice((*float32)(s.src), s.n)
	for i, x := range src {
		if x < s.floor {
			x = s.floor
		}
		*(*uint16)(unsafe.Add(s.dst, i/tileK*int(s.step)+i%tileK*2)) = tensor.BF16FromFloat32(flush(x))
	}
}
