// SPDX-License-Identifier: Apache-2.0

package gemm

import "unsafe"

// A product of two activations packs its second operand at every Run. With many
// rows that is done first, on all threads, and costs one pass over the operand.
// With few rows it would cost more than the product: then each task packs piece
// by piece into its own cache what it multiplies at once, and nothing is written
// to memory.

const (
	// ownRows bounds the rows of a product whose tasks pack their own panels: each
	// task has all rows.
	ownRows = 512
	// ownBytes bounds the packed piece and the waiting sums of such a task, which
	// share the second-level cache with a piece of A.
	ownBytes = 192 << 10
)

// ownPanels chooses the pieces of a product whose tasks pack their own panels.
// Rows of eight panels are one kilobyte of an operand in columns: the fewer rows
// of A, the more it matters that they come from memory in such pieces.
func (p *partition) ownPanels(rows, steps, panels int) {
	p.mc = rows
	if p.thin {
		p.kc, p.nc = min(steps, thinSteps), panels
		return
	}
	kc := max(64, min(256, blockBytes/(4*rows)))
	pieces := max(1, (steps-kc/4+kc-1)/kc) // no piece of a few steps at the end
	p.kc = min(steps, ((steps+pieces-1)/pieces+3)&^3)
	p.nc = min(p.nc, max(1, ownBytes/((p.kc+rows)*panelN*4)))
}

// freshPanels packs pieces for one worker.
type freshPanels struct {
	src *Source
	b   int // of the batch
	mem []byte
}

// piece packs n steps from k0 on of panels p0 <= p < p1 and returns where the
// first begins; they are n steps apart.
func (f *freshPanels) piece(im *impl, w *Packed, p0, p1, k0, n int) unsafe.Pointer {
	if p0 < p1 {
		var st stage
		st.pack(im, w, f.src, f.b, p0, p1, k0, n, f.mem, n*panelN*4)
	}
	return unsafe.Pointer(&f.mem[0])
}

// A product of so few rows with an operand in columns is over before a panel is
// packed: it multiplies the operand where it lies, thinSteps of its rows at a time,
// each of which the processor reads ahead as far as the task's columns go. Rows of 4 KiB, and
// the sums, are all in one set of the first-level cache, which has 8 places or more.
const (
	thinRows  = 4
	thinSteps = 6
)

// addRows adds n steps from k0 on to the sums of the whole panels, and returns the first
// panel that is not whole. The sums are C itself if no epilogue follows, and those that wait
// otherwise; then the last piece of K goes the usual way, to the epilogue.
func (b *block) addRows(k0, n int) int {
	end := min(b.p1, b.w.N/panelN)
	if end <= b.p0 {
		return b.p0
	}
	sums, ldr, ldp := unsafe.Add(b.c, b.p0*panelN*4), b.ldc, panelN*4
	if !b.plain() {
		sums, ldr, ldp = b.partial(b.p0, 0), panelN*4, b.rows*panelN*4
	}
	if k0 == 0 {
		for i := range b.rows {
			for p := b.p0; p < end; p++ {
				row := (*[panelN]float32)(unsafe.Add(sums, i*ldr+(p-b.p0)*ldp))
				*row = zeroRow
				if b.ep.Bias != nil {
					copy(row[:], b.ep.Bias[p*panelN:])
				}
			}
		}
	}
	s := b.fresh.src
	src := s.Data[(b.fresh.b*s.StrideB+b.p0*panelN)*4:]
	w := wargs{ldy: uintptr(ldp), ldb: uintptr(s.StrideC * 4), n: end - b.p0}
	for k := k0; k < k0+n; k += thinSteps {
		w.b, w.steps = unsafe.Pointer(&src[k*s.StrideC*4]), min(thinSteps, k0+n-k)
		for i := range b.rows {
			w.y, w.x = unsafe.Add(sums, i*ldr), unsafe.Add(b.a, i*b.lda+k*4)
			addRows(b.im, &w)
		}
	}
	return end
}

// Rows of A that are nearly a multiple of 4 KiB apart put one column of a tile into
// one set of the first-level cache (64 sets of 64-byte lines on most processors,
// with 8 to 12 places each), and every element then comes from the second level:
// 4/5 of the speed. crowded says so for the rows of a kernel, ld bytes apart.
func crowded(ld, rows int) bool {
	if ld < 1024 { // neighbours that share a line do not compete for places
		return false
	}
	var sets [64]uint8
	for i := range rows {
		s := &sets[i*ld/64%64]
		if *s++; *s > 7 {
			return true
		}
	}
	return false
}

// tidyPanels is from how many panels on a copy of A pays.
const tidyPanels = 4

// tidyLD is the row stride in floats of copied rows of n floats.
func tidyLD(n int) int {
	ld := (n+15)&^15 + 16
	for crowded(ld*4, maxMR) {
		ld += 16
	}
	return ld
}
