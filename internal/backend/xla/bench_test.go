// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"fmt"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// BenchmarkElements is what a start from the cache does with every weight before it is
// uploaded: to the type of the precision, and into the order of the program.
func BenchmarkElements(b *testing.B) {
	const rows, cols = 1024, 4096
	p := graph.Param{Name: "w", Shape: tensor.Shape{rows, cols}, DType: tensor.F32, Data: make([]byte, 4*rows*cols)}
	for i := range p.Data {
		p.Data[i] = byte(i * 7 & 0x3f)
	}
	for _, c := range []struct {
		to   tensor.DType
		perm []int
	}{{tensor.BF16, nil}, {tensor.BF16, []int{1, 0}}, {tensor.F16, nil}, {tensor.F32, nil}, {tensor.F32, []int{1, 0}}} {
		shape := p.Shape
		if c.perm != nil {
			shape = tensor.Shape{cols, rows}
		}
		b.Run(fmt.Sprint(c.to, c.perm), func(b *testing.B) {
			b.SetBytes(rows * cols)
			for b.Loop() {
				if _, err := elements(stablehlo.Weight{Params: []graph.Param{p}, Perm: c.perm, Shape: shape, DType: c.to}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
