// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"math"
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// The tables of rotations are those of their definition, token by token.
func TestTablesOfRotations(t *testing.T) {
	const headDim, base = 16, 100
	const q = headDim / 4
	var cache ropeCache
	for i := range 100 {
		rows, cols := 1+i%10, 1+i/10
		got := cache.get(graph.Rope{Rows: rows, Cols: cols, Base: base}, headDim)
		for at := range rows * cols * 2 * q {
			token, half, j := at/(2*q), at/q%2, at%q
			angle := float64([2]int{token / cols, token % cols}[half]) * math.Pow(base, -float64(j)/q)
			if got.Cos[at] != float32(math.Cos(angle)) || got.Sin[at] != float32(math.Sin(angle)) {
				t.Fatalf("%d x %d, number %d: %g, %g of angle %g", rows, cols, at, got.Cos[at], got.Sin[at], angle)
			}
		}
	}
}

// Goroutines that ask at once get one table.
func TestRotationsAreComputedOnce(t *testing.T) {
	var cache ropeCache
	var tables [8]*gemm.Rope
	var wg sync.WaitGroup
	for i := range tables {
		wg.Add(1)
		par.Go(func() {
			defer wg.Done()
			tables[i] = cache.get(graph.Rope{Rows: 256, Cols: 192, Base: 100}, 64)
		}, func(e *par.Panic) { t.Error(e) })
	}
	wg.Wait()
	for _, got := range tables {
		if got != tables[0] {
			t.Fatal("two tables of one grid")
		}
	}
}
