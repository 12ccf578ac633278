// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Benchmarks report three figures in GFLOP/s: the mean by the wall clock, the best
// repetition by the wall clock, and the rate per second of processor time, which
// other jobs on a shared machine disturb least. %peak compares the last with a
// loop of the largest kernel on data in the first-level cache, also by processor
// time, measured right before and after.
//
//	go test -run xxx -bench MatMul/avx512-f32 -benchtime 10x ./internal/backend/cpu/gemm

// peak returns GFLOP per second of processor time, the upper quartile of a few
// bursts (the best one may owe its rank to the coarseness of the clock).
func peak(b *testing.B, pool *par.Pool, d tensor.DType) float64 {
	p, err := NewPeak(pool, d)
	if err != nil {
		b.Fatal(err)
	}
	var rates []float64
	for range 8 {
		c := cpuTime()
		flop := p.Burst(pool)
		rates = append(rates, flop/float64((cpuTime()-c).Nanoseconds()))
	}
	slices.Sort(rates)
	return rates[6]
}

func report(b *testing.B, pool *par.Pool, d tensor.DType, flop float64, run func()) {
	top := peak(b, pool, d)
	run() // the first call touches memory
	best := time.Duration(1 << 62)
	cpu := cpuTime()
	for b.Loop() {
		t := time.Now()
		run()
		best = min(best, time.Since(t))
	}
	cpu = cpuTime() - cpu
	perCPU := flop * float64(b.N) / float64(cpu.Nanoseconds())
	top = max(top, peak(b, pool, d))
	b.ReportMetric(flop*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	b.ReportMetric(flop/float64(best.Nanoseconds()), "best-GFLOP/s")
	b.ReportMetric(perCPU, "GFLOP/cpu-s")
	b.ReportMetric(100*perCPU/top, "%peak")
}

func eachBench(b *testing.B, f func(b *testing.B, pool *par.Pool, d tensor.DType)) {
	was := Active()
	defer func() { _ = Force(was) }()
	for _, isa := range ISAs() {
		if err := Force(isa); err != nil {
			b.Fatal(err)
		}
		for _, d := range types() {
			if isa >= AVX512BF16 && d != tensor.BF16 {
				continue // the kernels of AVX512
			}
			pool := par.New(0)
			b.Run(fmt.Sprintf("%v-%v", isa, d), func(b *testing.B) { f(b, pool, d) })
			pool.Close()
		}
	}
}

// The products of the models' encoder and decoder.
func BenchmarkMatMul(b *testing.B) {
	eachBench(b, func(b *testing.B, pool *par.Pool, d tensor.DType) {
		for _, s := range [][3]int{
			{768, 3072, 1024}, {768, 1024, 1024}, {768, 4096, 1024}, {768, 1024, 4096},
			{768, 2304, 768}, {768, 768, 768}, {768, 3072, 768}, {768, 768, 3072}, {1536, 4096, 1024}, {1536, 1024, 4096},
		} {
			m, n, k := s[0], s[1], s[2]
			b.Run(fmt.Sprintf("%dx%dx%d", m, n, k), func(b *testing.B) {
				r := rng(1)
				mm := MatMul{M: m, A: normal(r, m*(k+16)), LDA: k + 16, C: make([]float32, m*(n+16)), LDC: n + 16,
					W:        mustPack(b, d, n, k, 1, Rows(Bytes(normal(r, n*k)), tensor.F32, k)),
					Epilogue: Epilogue{Bias: normal(r, n)}}
				mm.Scratch = Alloc(mm.ScratchBytes(pool.Threads()))
				report(b, pool, d, 2*float64(m)*float64(n)*float64(k), func() { mm.Run(pool) })
			})
		}
	})
}

// Products of two values, as eager tensors make them, by one thread, without what a call from Python costs.
func BenchmarkFresh(b *testing.B) {
	pool := par.New(1)
	defer pool.Close()
	r := rng(1)
	for _, s := range [][3]int{{64, 64, 64}, {96, 96, 96}, {256, 256, 256}, {1, 256, 256}, {1, 1024, 1024}, {4, 1024, 1024}} {
		m, n, k := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("%dx%dx%d", m, k, n), func(b *testing.B) {
			w, err := Layout(tensor.F32, n, k, 1)
			if err != nil {
				b.Fatal(err)
			}
			src := Columns(Bytes(normal(r, n*k)), tensor.F32, n)
			mm := MatMul{M: m, A: normal(r, m*k), LDA: k, W: w, Fresh: &src, C: make([]float32, m*n), LDC: n}
			mm.Scratch = Alloc(mm.ScratchBytes(1))
			for b.Loop() {
				mm.Run(pool)
			}
		})
	}
}

// The cost of the fused epilogue: compare with the plain product of the same size.
func BenchmarkEpilogue(b *testing.B) {
	eachBench(b, func(b *testing.B, pool *par.Pool, d tensor.DType) {
		const m, n, k = 768, 4096, 1024
		r := rng(1)
		res := normal(r, m*(n+16))
		for name, ep := range map[string]Epilogue{"gelu": {Act: GELU}, "gamma+res": {Gamma: normal(r, n), Res: res, LDR: n + 16}} {
			b.Run(name, func(b *testing.B) {
				mm := MatMul{M: m, A: normal(r, m*(k+16)), LDA: k + 16, C: make([]float32, m*(n+16)), LDC: n + 16, Epilogue: ep,
					W: mustPack(b, d, n, k, 1, Rows(Bytes(normal(r, n*k)), tensor.F32, k))}
				mm.Scratch = Alloc(mm.ScratchBytes(pool.Threads()))
				report(b, pool, d, 2*m*n*k, func() { mm.Run(pool) })
			})
		}
	})
}

// The 3x3 convolutions of the dense head.
func BenchmarkConv(b *testing.B) {
	eachBench(b, func(b *testing.B, pool *par.Pool, d tensor.DType) {
		if d == tensor.BF16 && !RoundsBF16(128) {
			b.Skip("convolutions in float32 have other weights")
		}
		for _, s := range [][4]int{{24, 32, 256, 256}, {48, 64, 256, 256}, {96, 128, 256, 256}, {192, 256, 256, 128}, {384, 512, 128, 128}} {
			h, w, in, out := s[0], s[1], s[2], s[3]
			b.Run(fmt.Sprintf("%dx%d-%d-%d", h, w, in, out), func(b *testing.B) {
				r := rng(1)
				c := Conv{Batch: 1, H: h, W: w, Cin: in, KH: 3, KW: 3, PadH: 1, PadW: 1, ReLUIn: true,
					X: normal(r, h*w*in), LDX: in, Y: make([]float32, h*w*out), LDY: out,
					Weights:  mustPack(b, d, out, 9*in, 1, Filters(Bytes(normal(r, 9*in*out)), tensor.F32, in, 9)),
					Epilogue: Epilogue{Bias: normal(r, out)}}
				c.Scratch = Alloc(c.ScratchBytes(pool.Threads()))
				report(b, pool, d, 2*9*float64(h*w)*float64(in*out), func() { c.Run(pool) })
			})
		}
	})
}

// Attention of one picture in the encoder and of the smaller decoder.
func BenchmarkAttention(b *testing.B) {
	eachBench(b, func(b *testing.B, pool *par.Pool, d tensor.DType) {
		if d == tensor.F16 || d == tensor.BF16 && !RoundsBF16(64) {
			b.Skip("activations are float32 or bfloat16")
		}
		for _, heads := range []int{16, 12} {
			const n, hd = 768, 64
			b.Run(fmt.Sprintf("%dx%d-%dheads", n, n, heads), func(b *testing.B) {
				w := heads * hd
				a := Attention{Batch: 1, Heads: heads, HeadDim: hd, Nq: n, Nk: n, Scale: 0.125, LDQ: 3*w + 16, LDK: 3*w + 16, LDV: 3*w + 16, LDO: w + 16, Type: d,
					RopeQ: ropeTables(n, 32, hd), RopeK: ropeTables(n, 32, hd)}
				qkv := normal(rng(1), n*a.LDQ)
				a.Q, a.K, a.V, a.O = qkv, qkv[w:], qkv[2*w:], make([]float32, n*a.LDO)
				a.Scratch = Alloc(a.ScratchBytes(pool.Threads()))
				report(b, pool, d, 4*float64(n*n*w), func() { a.Run(pool) })
			})
		}
	})
}
