// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
)

func kernels(t *testing.T, d *device.Device) *device.Kernels {
	t.Helper()
	var k *device.Kernels
	if err := d.Do(func() error {
		var err error
		k, err = d.NewKernels()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Release)
	return k
}

func put(b *device.Buffer, v []float32) {
	for i, x := range v {
		binary.LittleEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(x))
	}
}

func float(b *device.Buffer, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
}

func TestNormalize(t *testing.T) {
	d, _ := open(t)
	q, k := queue(t, d), kernels(t, d)
	table := device.NormalizeTable([3]float32{0.5, 0.4, 0.3}, [3]float32{0.5, 0.2, 0.3})
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ w, h, row int }{{1, 1, 3}, {17, 5, 51}, {16, 16, 64}, {33, 9, 120}} {
		for _, planar := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%d row %d planar %v", c.w, c.h, c.row, planar), func(t *testing.T) {
				src, dst := buffer(t, d, c.row*c.h), buffer(t, d, 12*c.w*c.h)
				for i := range src.Bytes() {
					src.Bytes()[i] = byte(r.IntN(256))
				}
				if err := run(t, d, q, func(cb *device.CommandBuffer) error {
					return k.Normalize(cb, dst, src, c.w, c.h, c.row, planar, &table)
				}); err != nil {
					t.Fatal(err)
				}
				mean, std := []float32{0.5, 0.4, 0.3}, []float32{0.5, 0.2, 0.3}
				for y := range c.h {
					for x := range c.w {
						for ch := range 3 {
							want := (float32(src.Bytes()[y*c.row+3*x+ch])/255 - mean[ch]) / std[ch]
							at := (y*c.w+x)*3 + ch
							if planar {
								at = (ch*c.h+y)*c.w + x
							}
							if got := float(dst, at); got != want {
								t.Fatalf("pixel %d,%d channel %d: got %v, want %v", x, y, ch, got, want)
							}
						}
					}
				}
			})
		}
	}
	err := d.Do(func() error {
		cb, err := q.NewCommandBuffer("")
		if err != nil {
			return err
		}
		defer cb.Release()
		return k.Normalize(cb, buffer(t, d, 12), buffer(t, d, 3), 2, 1, 6, false, &table)
	})
	if err == nil {
		t.Error("buffers that are too small passed")
	}
}

// nearestPlain is the meaning of Nearest.
func nearestPlain(query, target []float32, dim int) []int32 {
	out := make([]int32, len(query)/dim)
	for i := range out {
		best, at := math.Inf(-1), int32(-1)
		for j := range len(target) / dim {
			s := 0.0
			for l := range dim {
				s += float64(query[i*dim+l]) * float64(target[j*dim+l])
			}
			if s > best {
				best, at = s, int32(j)
			}
		}
		out[i] = at
	}
	return out
}

func TestNearest(t *testing.T) {
	d, _ := open(t)
	q, k := queue(t, d), kernels(t, d)
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ queries, targets, dim int }{{1, 1, 1}, {100, 37, 24}, {65, 4096, 3}, {7, 9000, 24}, {3, 40, 64}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			// Small integers make every sum exact and ties frequent.
			query, target := make([]float32, c.queries*c.dim), make([]float32, c.targets*c.dim)
			for i := range query {
				query[i] = float32(r.IntN(7) - 3)
			}
			for i := range target {
				target[i] = float32(r.IntN(7) - 3)
			}
			nan := float32(math.NaN())
			if c.targets > 30 {
				target[5*c.dim] = nan // never chosen
				query[0] = nan        // no comparable target
			}
			qb, tb := buffer(t, d, 4*len(query)), buffer(t, d, 4*len(target))
			n := device.NearestScratch(c.queries, c.targets)
			score, index, out := buffer(t, d, n), buffer(t, d, n), buffer(t, d, 4*c.queries)
			put(qb, query)
			put(tb, target)
			if err := run(t, d, q, func(cb *device.CommandBuffer) error {
				return k.Nearest(cb, out, qb, tb, score, index, c.queries, c.targets, c.dim)
			}); err != nil {
				t.Fatal(err)
			}
			for i, want := range nearestPlain(query, target, c.dim) {
				if got := int32(binary.LittleEndian.Uint32(out.Bytes()[4*i:])); got != want {
					t.Fatalf("query %d: got %d, want %d", i, got, want)
				}
			}
		})
	}
	err := d.Do(func() error {
		cb, err := q.NewCommandBuffer("")
		if err != nil {
			return err
		}
		defer cb.Release()
		b := buffer(t, d, 64)
		if k.Nearest(cb, b, b, b, b, b, 1, 1, 65) == nil || k.Nearest(cb, b, b, b, b, b, 0, 1, 1) == nil ||
			k.Nearest(cb, b, b, b, b, b, 17, 1, 1) == nil {
			return errors.New("sizes that do not fit passed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCompileErrors(t *testing.T) {
	d, s := open(t)
	err := d.Do(func() error {
		var ce *device.CompileError
		if _, err := d.NewLibrary("kernel void broken( {"); !errors.As(err, &ce) || ce.Cause == nil {
			t.Errorf("broken source: %v", err)
		}
		lib, err := d.NewLibrary(device.KernelSource)
		if err != nil {
			return err
		}
		defer lib.Release()
		if _, err := lib.Pipeline("no_such_kernel"); !errors.As(err, &ce) {
			t.Errorf("unknown kernel: %v", err)
		}
		s.Set("fail_compile", "1")
		if _, err := d.NewKernels(); !errors.As(err, &ce) {
			t.Errorf("a failing compiler: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDispatchChecks(t *testing.T) {
	d, _ := open(t)
	q := queue(t, d)
	b := buffer(t, d, 64)
	err := d.Do(func() error {
		lib, err := d.NewLibrary(device.KernelSource)
		if err != nil {
			return err
		}
		defer lib.Release()
		p, err := lib.Pipeline("normalize_u8")
		if err != nil {
			return err
		}
		defer p.Release()
		cb, err := q.NewCommandBuffer("")
		if err != nil {
			return err
		}
		defer cb.Release()
		one := device.Size{Width: 1, Height: 1, Depth: 1}
		for name, bad := range map[string]func() error{
			"no threads": func() error { return cb.Dispatch(p, one, device.Size{}, device.Arg{Buffer: b}) },
			"too many threads": func() error {
				return cb.Dispatch(p, one, device.Size{Width: 1 << 20, Height: 1, Depth: 1}, device.Arg{Buffer: b})
			},
			"empty grid":     func() error { return cb.Dispatch(p, device.Size{Width: 1}, one, device.Arg{Buffer: b}) },
			"offset":         func() error { return cb.Dispatch(p, one, one, device.Arg{Buffer: b, Offset: 64}) },
			"no bytes":       func() error { return cb.Dispatch(p, one, one, device.Arg{}) },
			"too many bytes": func() error { return cb.Dispatch(p, one, one, device.Arg{Bytes: make([]byte, 4097)}) },
		} {
			if bad() == nil {
				t.Errorf("%s passed", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
