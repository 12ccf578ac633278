// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu_test

import (
	"context"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// BenchmarkAttention is the encoder's attention for two pictures of 512x384 and
// the decoder's for one, with q, k and v as parts of the rows that another step
// wrote, as a projection does: rows between steps lie further apart than those of
// inputs. GFLOP/s is of the attention alone.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct {
		name         string
		batch, heads int
		opt          backend.Precision
	}{
		{"encoder/fp32", 2, 16, backend.FP32}, {"decoder/fp32", 1, 12, backend.FP32},
		{"encoder/bf16", 2, 16, backend.BF16}, {"decoder/bf16", 1, 12, backend.BF16},
	} {
		b.Run(c.name, func(b *testing.B) {
			var all, best time.Duration
			var flops float64
			be, err := cpu.New(cpu.Config{Profile: func(s backend.Sample) {
				if s.Op != (graph.Attention{}).Kind() {
					return
				}
				all += s.Time
				if flops = float64(s.FLOPs) / 1e9; best == 0 || s.Time < best {
					best = s.Time
				}
			}})
			if err != nil {
				b.Fatal(err)
			}
			defer be.Close()
			p, in, out := attentionProgram(b, be, c.batch, c.heads, c.opt)
			ctx := context.Background()
			n := -1 // the first run touches memory
			for ok := true; ok; ok = b.Loop() {
				if n++; n == 1 {
					all, best = 0, 0
				}
				w, err := be.Begin(backend.First)
				if err != nil {
					b.Fatal(err)
				}
				if err := w.Run(ctx, p, in, out); err != nil {
					b.Fatal(err)
				}
				done, err := w.Submit()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := done.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(flops*float64(n)/all.Seconds(), "GFLOP/s")
			b.ReportMetric(flops/best.Seconds(), "best-GFLOP/s")
		})
	}
}

func attentionProgram(b *testing.B, be *cpu.Backend, batch, heads int, opt backend.Precision) (backend.Program, []backend.Buffer, []backend.Buffer) {
	g, w := graph.New("attention"), heads*64
	qkv := g.Add(graph.Affine{Scale: 0.5}, g.Input("x", tensor.F32, batch, 768, 3*w))
	q, k, v := g.SliceAxis(qkv, 2, 0, w), g.SliceAxis(qkv, 2, w, 2*w), g.SliceAxis(qkv, 2, 2*w, 3*w)
	r := &graph.Rope{Rows: 24, Cols: 32, Base: 100}
	y := g.Add(graph.Attention{Heads: heads, Scale: 0.125, QRope: r, KRope: r}, q, k, v)
	g.Output("y", g.Add(graph.Affine{Scale: 2}, y))
	p, err := be.Compile(context.Background(), g, backend.Options{Precision: opt})
	if err != nil {
		b.Fatal(err)
	}
	data := inputsOf(g, 1)[0]
	in, err := be.Alloc(len(data))
	if err != nil {
		b.Fatal(err)
	}
	copy(in.Bytes(), data)
	out, err := be.Alloc(g.Outputs[0].Node.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	return p, []backend.Buffer{in}, []backend.Buffer{out}
}
