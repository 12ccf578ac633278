// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Peak is the yardstick of benchmarks: the largest kernel of a type on operands in
// the first-level cache, on every thread at once. Nothing that multiplies with
// these kernels can be faster.
type Peak struct {
	im         *impl
	way        way
	kind, step int
	mem        []peakMem
}

const (
	peakSteps = 64
	peakCalls = 1000
)

type peakMem struct {
	a [tileRows * (peakSteps + 16)]float32
	b [panelN * peakSteps]float32
	c [tileRows * tileLD]float32
}

// args are those of any kernel but that of tiles.
func (m *peakMem) args() kargs {
	return kargs{a: unsafe.Pointer(&m.a), lda: (peakSteps + 16) * 4, b: unsafe.Pointer(&m.b), c: unsafe.Pointer(&m.c), ldc: tileLD * 4,
		steps: peakSteps, runs: 1, off: &noOff[0], ini: unsafe.Pointer(&zeroRow)}
}

// NewPeak prepares the loop for weights stored as d in the active instruction set.
func NewPeak(pool *par.Pool, d tensor.DType) (*Peak, error) {
	if !Supports(d) {
		return nil, fmt.Errorf("gemm: peak of %v on %v: %w", d, Active(), ErrUnsupported)
	}
	p := &Peak{im: active.Load(), step: 1, mem: make([]peakMem, pool.Threads())}
	p.kind, _ = kindOf(d)
	if d == tensor.BF16 {
		p.way = p.im.bf16(2 * peakSteps)
		switch p.way {
		case wayWide:
			p.kind = kF32
		case wayVector:
			p.step = 2
		}
	}
	return p, nil
}

// Burst runs the loop for some milliseconds on the pool that the Peak was made for
// and returns the number of operations; the caller has the clock.
func (p *Peak) Burst(pool *par.Pool) (flop float64) {
	tiles := 8 * pool.Threads()
	pool.Run(tiles, p.tile)
	if p.way == wayTiles {
		return 2 * tileRows * panelN * 2 * peakSteps * peakCalls * float64(tiles)
	}
	return 2 * float64(p.im.sizes[0]*p.im.nr*peakSteps*p.step) * peakCalls * float64(tiles)
}

func (p *Peak) tile(w, _ int) {
	m := &p.mem[w]
	k := m.args()
	if p.way == wayTiles {
		t := tkargs{a: k.a, lda: peakSteps * 4, kstep: tileK * 2, b: k.b, c: k.c, ldc: tileRowLD, ini: k.ini,
			steps: 2 * peakSteps / tileK, groups: peakCalls, panels: 1}
		tileProduct(&t, tileRows)
		return
	}
	for range peakCalls {
		p.im.kern[p.kind].call(&k)
	}
}
