// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// forEachInt8 runs f for the kernels with byte products.
//
// Where there are no matrix tiles, it runs their model.
func forEachInt8(t *testing.T, f func(t *testing.T, k *Kernel)) {
	if !isa.AVX512AMX.Usable() {
		defer isa.ModelTiles()()
	}
	tested := false
	for _, k := range All() {
		if k.Int8 != nil {
			tested = true
			t.Run(k.ISA.String(), func(t *testing.T) { f(t, k) })
		}
	}
	if !tested {
		t.Skip("no byte products on this machine")
	}
}

// TestInt8 is exact integer arithmetic against a plain loop.
func TestInt8(t *testing.T) { forEachInt8(t, testInt8) }

func testInt8(t *testing.T, k *Kernel) {
	const panels = 3
	mr := k.Int8.MR
	r := rand.New(rand.NewPCG(3, 4))
	n := panels * k.NR
	bytes := func(n int) []int8 {
		x := make([]int8, n)
		for i := range x {
			x[i] = int8(r.IntN(255) - 127)
		}
		return x
	}
	for _, quads := range []int{1, 6, 7, 16} {
		rows, cols := make([]uint32, quads*mr), make([]uint32, quads*n)
		start := make([]int32, n)
		a, b := bytes(mr*quads*4), bytes(n*quads*4)
		for i := range mr {
			for d := range quads * 4 {
				if k.Int8.Tiles {
					rows[i*quads+d/4] |= uint32(uint8(a[i*quads*4+d])) << (8 * (d % 4))
					continue
				}
				rows[d/4*mr+i] |= uint32(uint8(int(a[i*quads*4+d])+k.Int8.Offset)) << (8 * (d % 4))
			}
		}
		for j := range n {
			for d := range quads * 4 {
				v := b[j*quads*4+d]
				cols[(j/k.NR*quads+d/4)*k.NR+j%k.NR] |= uint32(uint8(v)) << (8 * (d % 4))
				start[j] -= int32(k.Int8.Offset) * int32(v)
			}
		}
		rowMax, colMax, tmp := make([]int32, mr), make([]int32, n), make([]int32, TmpFloats)
		p := Int8Args{Rows: &rows[0], Cols: &cols[0], Panels: panels, ColMax: &colMax[0],
			Tmp: &tmp[0], RowMax: &rowMax[0], Quads: quads, Start: &start[0]}
		k.Int8.Strip(&p)
		wantRow, wantCol := make([]int32, mr), make([]int32, n)
		for i := range mr {
			for j := range n {
				var s int32
				for d := range quads * 4 {
					s += int32(a[i*quads*4+d]) * int32(b[j*quads*4+d])
				}
				wantRow[i], wantCol[j] = max(wantRow[i], s), max(wantCol[j], s)
			}
		}
		if !slices.Equal(rowMax, wantRow) {
			t.Fatalf("quads %d: row maxima %v, want %v", quads, rowMax, wantRow)
		}
		if !slices.Equal(colMax, wantCol) {
			t.Fatalf("quads %d: column maxima %v, want %v", quads, colMax, wantCol)
		}
		clear(rowMax)
		p.ColMax = nil // not looked at
		k.Int8.StripRow(&p)
		if !slices.Equal(rowMax, wantRow) {
			t.Fatalf("quads %d: row maxima alone %v, want %v", quads, rowMax, wantRow)
		}
	}
}

// rounded is PackArgs with room for panels of dim values, and its results.
type rounded struct {
	words     []uint32
	start     []int32
	norm, err []float32
	args      PackArgs
}

func newRounded(k *Kernel, cols []float32, dim int, scale float32) *rounded {
	n := len(cols) / dim
	r := &rounded{make([]uint32, n*((dim+3)/4)), make([]int32, n), make([]float32, n), make([]float32, n), PackArgs{}}
	r.args = PackArgs{Cols: &cols[0], Words: &r.words[0], Panels: n / k.NR, Start: &r.start[0],
		Norm: &r.norm[0], Err: &r.err[0], Dim: dim, Scale: scale}
	return r
}

// TestInt8Pack compares each value with its definition, at scales that put
// many of them on ties.
func TestInt8Pack(t *testing.T) {
	forEachInt8(t, func(t *testing.T, k *Kernel) {
		rnd := rand.New(rand.NewPCG(6, 6))
		for _, dim := range []int{1, 3, 4, 5, 24, 31, 64} {
			n := 3 * k.NR
			b := make([]float32, n*dim)
			for i := range b {
				b[i] = float32(rnd.IntN(1017)-508) / 8 // in quarters after scaling by 2
			}
			cols := interleave(b, n, dim, k.NR)
			got, plain := newRounded(k, cols, dim, 2), newRounded(k, cols, dim, 2)
			k.Int8.Pack(&got.args)
			packGo(&plain.args, k.NR, k.Int8.Offset)
			for j := range n {
				var start int32
				var norm, rest float64
				for d := range dim {
					v := 2 * float64(b[j*dim+d])
					q := math.RoundToEven(v)
					start -= int32(k.Int8.Offset) * int32(q)
					norm += v * v
					rest += (v - q) * (v - q)
					for _, r := range []*rounded{got, plain} {
						w := r.words[(j/k.NR*((dim+3)/4)+d/4)*k.NR+j%k.NR]
						if int8(w>>(8*(d%4))) != int8(q) {
							t.Fatalf("dim %d: %v became %d", dim, v, int8(w>>(8*(d%4))))
						}
					}
				}
				for _, r := range []*rounded{got, plain} {
					if r.start[j] != start || math.Abs(float64(r.norm[j])-norm) > 1e-5*norm || math.Abs(float64(r.err[j])-rest) > 1e-5*rest {
						t.Fatalf("dim %d column %d: start, norm, error %d %v %v, want %d %v %v",
							dim, j, r.start[j], r.norm[j], r.err[j], start, norm, rest)
					}
				}
			}
			if !slices.Equal(got.words, plain.words) {
				t.Errorf("dim %d: bytes beyond the depth differ", dim)
			}
		}
	})
}

// TestInt8Best compares with a plain loop at floors that let through no panel,
// some, and all.
func TestInt8Best(t *testing.T) {
	forEachInt8(t, func(t *testing.T, k *Kernel) {
		for _, dim := range []int{1, 3, 24, 31, 64} {
			for _, ties := range []bool{false, true} {
				testInt8Best(t, k, dim, ties)
			}
		}
	})
}

func testInt8Best(t *testing.T, k *Kernel, dim int, ties bool) {
	const panels, scale = 7, 20
	rnd := rand.New(rand.NewPCG(uint64(dim), 8))
	n, quads := panels*k.NR, (dim+3)/4
	a, b := data(rnd, 1, dim, false), data(rnd, n, dim, ties)
	cols := interleave(b, n, dim, k.NR)
	r := newRounded(k, cols, dim, scale)
	packGo(&r.args, k.NR, k.Int8.Offset)
	row := make([]uint32, quads)
	for d, v := range a {
		q := int(math.RoundToEven(float64(v * scale)))
		row[d/4] |= uint32(uint8(q+k.Int8.Offset)) << (8 * (d % 4))
	}
	peaks := make([]int32, panels) // largest rounded score of each panel
	for j := range n {
		var s int32
		for d, v := range a {
			s += int32(math.RoundToEven(float64(v*scale))) * int32(math.RoundToEven(float64(b[j*dim+d]*scale)))
		}
		if j%k.NR == 0 || s > peaks[j/k.NR] {
			peaks[j/k.NR] = s
		}
	}
	floors := []int32{math.MinInt32, math.MaxInt32}
	for _, v := range peaks {
		floors = append(floors, v, v+1)
	}
	for _, floor := range floors {
		p := BestArgs{Row8: &row[0], Cols8: &r.words[0], Panels: panels, Row: &a[0], Cols: &cols[0],
			Start: &r.start[0], Quads: quads, Dim: dim, Floor: floor, Hits: 40}
		k.Int8.Best(&p)
		score, at, hits := float32(math.Inf(-1)), -1, 40
		for _, v := range peaks {
			if v >= floor {
				hits++
			}
		}
		for j := range n {
			if s := Dot(a, b[j*dim:(j+1)*dim]); peaks[j/k.NR] >= floor && s > score {
				score, at = s, j
			}
		}
		if p.Score != score || p.At != at || p.Hits != hits {
			t.Fatalf("dim %d floor %d: %x at %d after %d panels, want %x at %d after %d",
				dim, floor, p.Score, p.At, p.Hits, score, at, hits)
		}
	}
}

// BenchmarkStripInt8 is BenchmarkStrip for bytes.
func BenchmarkStripInt8(b *testing.B) {
	const quads, cols = UnrolledDim / 4, 1024
	for _, k := range All() {
		if k.Int8 == nil {
			continue
		}
		panels := cols / k.NR
		p := Int8Args{Rows: &make([]uint32, quads*k.Int8.MR)[0], Cols: &make([]uint32, quads*cols)[0], Panels: panels,
			ColMax: &make([]int32, cols)[0], Tmp: &make([]int32, 4*TmpFloats)[0], RowMax: &make([]int32, k.Int8.MR)[0],
			Quads: quads, Start: &make([]int32, cols)[0]}
		for _, m := range []struct {
			name string
			f    func(*Int8Args)
		}{{"both", k.Int8.Strip}, {"row", k.Int8.StripRow}} {
			b.Run(k.ISA.String()+"/"+m.name, func(b *testing.B) {
				for b.Loop() {
					m.f(&p)
				}
				op := 2 * float64(4*quads*k.Int8.MR*panels*k.NR) * float64(b.N)
				b.ReportMetric(op/b.Elapsed().Seconds()/1e9, "GOP/s")
			})
		}
	}
}

// A measurement decides between SMMLA and SDOT, the same way for a whole process.
func TestMMLAPays(t *testing.T) {
	if !isa.NEONMMLA.Usable() {
		t.Skip("no SMMLA here")
	}
	if d := stripTime(All(), isa.NEONMMLA); d <= 0 || d > time.Second {
		t.Errorf("a strip takes %v", d)
	}
	if mmlaPays(All()) != mmlaPays(All()) {
		t.Error("two answers")
	}
}
