// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// processorTime is what this process has used: on a shared machine it says more
// than the clock.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkConv are the large 3x3 convolutions of a head at 512x384. FLOPs are
// those of the direct form for both.
func BenchmarkConv(b *testing.B) {
	for _, s := range [][4]int{{12, 16, 256, 256}, {24, 32, 256, 256}, {48, 64, 256, 256}, {96, 128, 256, 256}, {192, 256, 256, 128}, {384, 512, 128, 128}} {
		name := fmt.Sprintf("%dx%d_%d-%d", s[0], s[1], s[2], s[3])
		b.Run(name+"/direct", func(b *testing.B) {
			defer cpu.NeverWinograd()()
			benchConv(b, s)
		})
		b.Run(name+"/winograd", func(b *testing.B) {
			defer cpu.AlwaysWinograd()()
			benchConv(b, s)
		})
	}
}

func benchConv(b *testing.B, s [4]int) {
	g := graph.New("conv")
	x := g.Input("x", tensor.F32, 1, s[0], s[1], s[2])
	w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{s[3], s[2], 3, 3}, DType: tensor.F32, Data: make([]byte, s[2]*s[3]*36)})
	g.Output("y", g.Conv2D(x, w, nil, 1, 1))
	c := compile(b, newBackend(b, 0), g, [][]byte{make([]byte, x.Bytes())})
	ctx := context.Background()
	if err := c.run(ctx); err != nil { // the first touches of the memory
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
