// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"testing"
)

// benchContext opens the CPU, or with a GPU in the machine that.
func benchContext(b *testing.B) *Context {
	b.Helper()
	c, err := Open(Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// each measures one operation; its result is released, and the device waited for
// at the end.
func each(b *testing.B, c *Context, f func() (*Tensor, error)) {
	b.Helper()
	for b.Loop() {
		y, err := f()
		if err != nil {
			b.Fatal(err)
		}
		y.Release()
	}
	if err := c.Sync(); err != nil {
		b.Fatal(err)
	}
}

func full(b testing.TB, c *Context, shape ...int) *Tensor {
	b.Helper()
	t, err := c.Full(0.5, shape...)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkDispatch is what an operation costs besides its arithmetic: here, one
// number.
func BenchmarkDispatch(b *testing.B) {
	c := benchContext(b)
	x := full(b, c, 1)
	b.ReportAllocs()
	each(b, c, func() (*Tensor, error) { return c.Relu(x) })
}

func BenchmarkMatMul(b *testing.B) {
	c := benchContext(b)
	for _, n := range []int{64, 128, 256, 512, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := full(b, c, n, n)
			each(b, c, func() (*Tensor, error) { return c.MatMul(x, x) })
			b.ReportMetric(2*float64(n)*float64(n)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkLinearGelu compares the fused layer with its parts.
func BenchmarkLinearGelu(b *testing.B) {
	c := benchContext(b)
	x, w, bias := full(b, c, 256, 512), full(b, c, 512, 512), full(b, c, 512)
	b.Run("fused", func(b *testing.B) {
		each(b, c, func() (*Tensor, error) { return c.Linear(x, w, bias, Gelu) })
	})
	b.Run("unfused", func(b *testing.B) {
		each(b, c, func() (*Tensor, error) {
			y, err := c.Linear(x, w, nil, None)
			if err != nil {
				return nil, err
			}
			z, err := c.AddBias(y, bias)
			y.Release()
			if err != nil {
				return nil, err
			}
			defer z.Release()
			return c.Gelu(z)
		})
	})
}

// BenchmarkAllocate takes buffers from the pool and gives them back.
func BenchmarkAllocate(b *testing.B) {
	c := benchContext(b)
	for _, x := range []struct{ bytes, times int }{{1 << 10, 100}, {1 << 20, 10}, {10 << 20, 1}} {
		b.Run(fmt.Sprintf("%dKiBx%d", x.bytes>>10, x.times), func(b *testing.B) {
			var bufs []interface{ Release() }
			for b.Loop() {
				for range x.times {
					m, err := c.dev.Alloc(x.bytes)
					if err != nil {
						b.Fatal(err)
					}
					bufs = append(bufs, m)
				}
				for _, m := range bufs {
					m.Release()
				}
				bufs = bufs[:0]
			}
		})
	}
}

// BenchmarkCommit100 hands one hundred batches of one operation to the device.
func BenchmarkCommit100(b *testing.B) {
	c := benchContext(b)
	x := full(b, c, 1)
	for b.Loop() {
		for range 100 {
			y, err := c.Relu(x)
			if err == nil {
				y.Release()
				err = c.Commit()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := c.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen makes a context and closes it: the device, its queues and its pool.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		c, err := Open(Config{Backend: "cpu"})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
