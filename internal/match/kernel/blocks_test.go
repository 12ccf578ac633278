// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"
)

const blockQuads = UnrolledDim / 4

func withinGo(p *WithinArgs) {
	rows := unsafe.Slice(p.Rows, WithinRows*blockQuads)
	cols := unsafe.Slice(p.Cols, p.Panels*blockQuads*BlockPanel)
	start := unsafe.Slice(p.Start, p.Panels*BlockPanel)
	cos, sin := unsafe.Slice(p.Cos, len(start)), unsafe.Slice(p.Sin, len(start))
	limits, out := unsafe.Slice(p.Limits, 3*WithinRows), unsafe.Slice(p.Out, WithinRows*p.Panels)
	clear(out)
	for r := range WithinRows {
		for c := range start {
			panel, lane := c/BlockPanel, c%BlockPanel
			sum := start[c]
			for k := range blockQuads {
				sum += quadGo(rows[r*blockQuads+k], cols[(panel*blockQuads+k)*BlockPanel+lane])
			}
			least := float32(cos[c]*limits[3*r]) - float32(sin[c]*limits[3*r+1]) - limits[3*r+2]
			if float32(sum) >= least {
				out[r*p.Panels+panel] |= 1 << lane
			}
		}
	}
}

// quadGo is the sum of four products of unsigned by signed bytes.
func quadGo(a, b uint32) (sum int32) {
	for i := 0; i < 32; i += 8 {
		sum += int32(uint8(a>>i)) * int32(int8(b>>i))
	}
	return sum
}

func amongGo(p *AmongArgs) {
	chosen := unsafe.Slice(p.Chosen, p.Words)
	row8, row := unsafe.Slice(p.Row8, blockQuads), unsafe.Slice(p.Row, UnrolledDim)
	p.Score, p.At, p.Ties = float32(math.Inf(-1)), -1, 0
	for w, mask := range chosen {
		for ; mask != 0; mask &= mask - 1 {
			first := (32*w + bits.TrailingZeros32(mask)) * BlockSide
			panel, lane := first/BlockPanel, first%BlockPanel
			at := func(c, depth int) uintptr { return uintptr((panel*depth)*BlockPanel + lane + c) }
			reached := false
			for c := range BlockSide {
				sum := *element(p.Start, uintptr(first+c))
				for k := range blockQuads {
					sum += quadGo(row8[k], *element(p.Cols8, at(c, blockQuads)+uintptr(k*BlockPanel)))
				}
				reached = reached || sum >= p.Floor
			}
			if !reached {
				continue
			}
			best, which := float32(math.Inf(-1)), 0
			for c := range BlockSide {
				s := row[0] * *element(p.Cols, at(c, UnrolledDim))
				for k := 1; k < UnrolledDim; k++ {
					s = FMA32(row[k], *element(p.Cols, at(c, UnrolledDim)+uintptr(k*BlockPanel)), s)
				}
				if s > best {
					best, which = s, c
				}
			}
			switch {
			case best > p.Score:
				p.Score, p.At, p.Ties = best, first+which, 0
				p.Floor = max(p.Floor, int32(float32(best*p.Scale)-p.Margin))
			case best == p.Score:
				p.Ties = 1
			}
		}
	}
}

func element[T any](p *T, i uintptr) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), i*unsafe.Sizeof(*p)))
}

// TestBlocks compares the assembly with the loops above, on rows of which some have a best
// that other blocks have too.
func TestBlocks(t *testing.T) {
	ran := false
	for _, k := range All() {
		if k.Blocks == nil {
			continue
		}
		ran = true
		r := rand.New(rand.NewPCG(1, 1))
		for _, panels := range []int{1, 2, 35} {
			for range 50 {
				checkWithin(t, k, r, panels)
				checkAmong(t, k, r, panels)
			}
		}
	}
	if !ran {
		t.Skip("no kernel for blocks on this machine")
	}
}

func words(r *rand.Rand, n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = r.Uint32()
	}
	return w
}

func checkWithin(t *testing.T, k *Kernel, r *rand.Rand, panels int) {
	rows, cols := words(r, WithinRows*blockQuads), words(r, panels*blockQuads*BlockPanel)
	n := panels * BlockPanel
	start, cos, sin := make([]int32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		start[i], cos[i], sin[i] = int32(r.IntN(20000)-400000), r.Float32(), r.Float32()
	}
	limits := make([]float32, 3*WithinRows)
	for i := range limits {
		limits[i] = 1e6 * (r.Float32() - 0.5)
	}
	var out [2][]uint32
	for i, f := range []func(*WithinArgs){withinGo, k.Blocks.Within} {
		out[i] = words(r, WithinRows*panels)
		f(&WithinArgs{&rows[0], &cols[0], &start[0], &cos[0], &sin[0], panels, &limits[0], &out[i][0]})
	}
	for i := range out[0] {
		if out[0][i] != out[1][i] {
			t.Fatalf("%v, %d panels: mask %d is %#x, want %#x", k.ISA, panels, i, out[1][i], out[0][i])
		}
	}
}

func checkAmong(t *testing.T, k *Kernel, r *rand.Rand, panels int) {
	blocks := panels * BlockPanel / BlockSide
	row8, cols8, chosen := words(r, blockQuads), words(r, panels*blockQuads*BlockPanel), words(r, (blocks+31)/32)
	chosen[len(chosen)-1] &= uint32(1)<<(blocks%32) - 1
	n := panels * BlockPanel
	start := make([]int32, n)
	for i := range start {
		start[i] = int32(r.IntN(200000) - 100000)
	}
	row, cols := make([]float32, UnrolledDim), make([]float32, n*UnrolledDim)
	for _, s := range [][]float32{row, cols} {
		for i := range s {
			s[i] = float32(r.IntN(3) - 1) // few values: many ties
		}
	}
	if r.IntN(4) == 0 {
		chosen[r.IntN(len(chosen))] = 0
	}
	args := AmongArgs{Row8: &row8[0], Cols8: &cols8[0], Start: &start[0], Row: &row[0], Cols: &cols[0],
		Chosen: &chosen[0], Words: len(chosen), Floor: int32(r.IntN(300000) - 100000), Scale: 10000 * r.Float32(), Margin: 1000}
	want, got := args, args
	amongGo(&want)
	k.Blocks.Among(&got)
	if got != want {
		t.Fatalf("%v, %d panels:\n%+v, want\n%+v", k.ISA, panels, got, want)
	}
}
