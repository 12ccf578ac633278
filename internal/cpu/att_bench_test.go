// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu_test

import (
	"context"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// BenchmarkAttention is the encoder's attention for two pictures of 512x384,
// with q, k and v as they come out of one projection.
func BenchmarkAttention(b *testing.B) {
	g := graph.New("attention")
	x := g.Input("qkv", tensor.F32, 2, 768, 3*1024)
	q, k, v := g.SliceAxis(x, 2, 0, 1024), g.SliceAxis(x, 2, 1024, 2048), g.SliceAxis(x, 2, 2048, 3072)
	r := &graph.Rope{Rows: 24, Cols: 32, Base: 100}
	g.Output("y", g.Add(graph.Attention{Heads: 16, Scale: 0.125, QRope: r, KRope: r}, q, k, v))
	c := compile(b, newBackend(b, 0), g, inputsOf(g, 1))
	ctx := context.Background()
	if err := c.run(ctx); err != nil {
		b.Fatal(err)
	}
	start := processorTime(b)
	for b.Loop() {
		if err := c.run(ctx); err != nil {
			b.Fatal(err)
		}
	}
	used := processorTime(b) - start
	flops := float64(g.Cost().FLOPs) * float64(b.N) / 1e9
	b.ReportMetric(flops/b.Elapsed().Seconds(), "GFLOP/s")
	b.ReportMetric(flops/used.Seconds(), "GFLOP/cpu-s")
}
