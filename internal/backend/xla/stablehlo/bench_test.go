// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// BenchmarkWrite translates as many attentions with tables as a decoder has.
func BenchmarkWrite(b *testing.B) {
	g := graph.New("attentions")
	x := g.Input("x", tensor.F32, 1, 768, 768)
	rope := graph.Rope{Rows: 24, Cols: 32, Base: 100}
	for range 48 {
		x = g.Add(graph.Attention{Heads: 12, Scale: 0.125, QRope: &rope, KRope: &rope}, x, x, x)
	}
	g.Output("y", x)
	if _, err := g.Build(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Write(g, Options{Half: tensor.BF16}); err != nil {
			b.Fatal(err)
		}
	}
}
