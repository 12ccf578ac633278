// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"math"
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// The tables of rotations are those of their definition, token by token, whoever else
// asks for them.
func TestTablesOfRotations(t *testing.T) {
	const headDim, base = 16, 100
	const q = headDim / 4
	var cache ropeCache
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Add(1)
		par.Go(func() {
			defer wg.Done()
			for i := range 200 {
				rows, cols := 1+(i+25*worker)%20, 1+(i+25*worker)/20%20
				got := cache.get(graph.Rope{Rows: rows, Cols: cols, Base: base}, headDim)
				for at := range rows * cols * 2 * q {
					token, half, j := at/(2*q), at/q%2, at%q
					angle := float64([2]int{token / cols, token % cols}[half]) * math.Pow(base, -float64(j)/q)
					if got.Cos[at] != float32(math.Cos(angle)) || got.Sin[at] != float32(math.Sin(angle)) {
						t.Errorf("%d x %d, number %d: %g, %g of angle %g", rows, cols, at, got.Cos[at], got.Sin[at], angle)
						return
					}
				}
			}
		}, func(e *par.Panic) { t.Error(e) })
	}
	wg.Wait()
}
