// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mpsgraph

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"golang.org/x/sys/unix"
)

// A selector that MPSGraph does not have, for the faults below.
var misspelt = objc.Instance[func(o, tensor, shape, name objc.ID) objc.ID]("MPSGraph", "reshapeTensr:withShape:name:", objc.V(11, 0))

// sink keeps a read from being optimised away.
var sink byte

// bench is a device with two buffers, for planting faults below the checks of
// this package.
type bench struct {
	t    *testing.T
	sim  *metalsim.Sim
	dev  *device.Device
	q    *device.Queue
	a, b *device.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	f := &bench{t: t, sim: metalsim.Open(t)}
	f.sim.SimulatorOnly()
	var err error
	if f.dev, err = device.Open(); err != nil {
		t.Fatal(err)
	}
	if f.q, err = f.dev.NewQueue(); err != nil {
		t.Fatal(err)
	}
	for _, b := range []**device.Buffer{&f.a, &f.b} {
		if *b, err = f.dev.NewBuffer(4096); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		f.a.Release()
		f.b.Release()
		f.q.Release()
		if err := f.dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// do runs f on the owner thread with a fresh graph.
func (f *bench) do(run func(g *Graph) error) error {
	return f.dev.Do(func() error {
		g := NewGraph()
		defer g.Release()
		return run(g)
	})
}

func (f *bench) data(b *device.Buffer, shape tensor.Shape, d tensor.DType) *Data {
	x, err := NewData(b, 0, shape, d)
	if err != nil {
		f.t.Fatal(err)
	}
	return x
}

// negate compiles y = -x for shape and encodes it into a command buffer. The
// executable lives until the end of the test, as it must while a run is under
// way.
func (f *bench) negate(g *Graph, shape tensor.Shape) (*device.CommandBuffer, error) {
	x := g.Placeholder(shape, tensor.F32, "")
	exe, err := g.Compile(f.dev, []*Tensor{x}, []*Tensor{g.Neg(x)})
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { objc.WithPool(exe.Release) })
	cb, err := f.q.NewCommandBuffer("fault")
	if err != nil {
		return nil, err
	}
	in, out := f.data(f.a, shape, tensor.F32), f.data(f.b, shape, tensor.F32)
	defer in.Release()
	defer out.Release()
	return cb, exe.Encode(cb, []*Data{in}, []*Data{out})
}

// TestSeededFaults plants, below the checks of this package, the mistakes that
// a port of this kind makes; the simulator must name each of them.
func TestSeededFaults(t *testing.T) {
	for name, fault := range map[string]struct {
		code  string // of the violation
		plant func(f *bench) error
	}{
		"misspelt selector": {"unknown-selector", func(f *bench) error {
			return f.do(func(g *Graph) error {
				misspelt.Send(g.id, g.Placeholder(tensor.Shape{4}, tensor.F32, "").id, objc.Integers([]int{2, 2}), 0)
				return nil
			})
		}},
		"argument of the wrong class": {"bad-object|arg-class|mpsgraph-type|wrong-class", func(f *bench) error {
			return f.do(func(g *Graph) error {
				addition.Send(g.id, g.Placeholder(tensor.Shape{4}, tensor.F32, "").id, objc.Integer(3), 0)
				return nil
			})
		}},
		"nil where an object must be": {"nil-arg", func(f *bench) error {
			return f.do(func(g *Graph) error {
				addition.Send(g.id, g.Placeholder(tensor.Shape{4}, tensor.F32, "").id, 0, 0)
				return nil
			})
		}},
		"bytes that do not fit the shape": {"byte-count", func(f *bench) error {
			return f.do(func(g *Graph) error {
				constantData.Send(g.id, objc.Data(make([]byte, 12)), objc.Integers([]int{4}), dataTypes[tensor.F32])
				return nil
			})
		}},
		"float32 times float16": {"mpsgraph-dtype", func(f *bench) error {
			return f.do(func(g *Graph) error {
				a, b := g.Placeholder(tensor.Shape{2, 2}, tensor.F32, ""), g.Placeholder(tensor.Shape{2, 2}, tensor.F16, "")
				matmul.Send(g.id, a.id, b.id, 0)
				return nil
			})
		}},
		"inner dimensions": {"mpsgraph-shape", func(f *bench) error {
			return f.do(func(g *Graph) error {
				a, b := g.Placeholder(tensor.Shape{2, 3}, tensor.F32, ""), g.Placeholder(tensor.Shape{2, 3}, tensor.F32, "")
				matmul.Send(g.id, a.id, b.id, 0) // the transpose of b is missing
				return nil
			})
		}},
		"feeds in the order of creation": {"feed-mismatch", func(f *bench) error {
			return f.do(func(g *Graph) error {
				a, b := g.Placeholder(tensor.Shape{2, 3}, tensor.F32, ""), g.Placeholder(tensor.Shape{3}, tensor.F32, "")
				exe, err := g.Compile(f.dev, []*Tensor{a, b}, []*Tensor{g.Add(a, b)})
				if err != nil {
					return err
				}
				defer exe.Release()
				exe.feedAt[0], exe.feedAt[1] = exe.feedAt[1], exe.feedAt[0]
				cb, err := f.q.NewCommandBuffer("")
				if err != nil {
					return err
				}
				defer cb.Release()
				in1, in2, out := f.data(f.a, a.shape, tensor.F32), f.data(f.a, b.shape, tensor.F32), f.data(f.b, a.shape, tensor.F32)
				defer in1.Release()
				defer in2.Release()
				defer out.Release()
				_ = exe.Encode(cb, []*Data{in1, in2}, []*Data{out}) // refused below, or recorded
				return nil
			})
		}},
		"tensor data released twice": {"over-release", func(f *bench) error {
			return f.do(func(*Graph) error {
				d := f.data(f.a, tensor.Shape{4}, tensor.F32)
				objc.Release(d.id)
				objc.Release(d.id)
				return nil
			})
		}},
		"no autorelease pool": {"no-pool", func(f *bench) error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			objc.Integers([]int{1 << 40, 2 << 40})
			f.sim.Mark() // they are gone for good
			return nil
		}},
		"encoding after the commit": {"encode-after-commit", func(f *bench) error {
			return f.do(func(g *Graph) error {
				cb, err := f.negate(g, tensor.Shape{4})
				if err != nil {
					return err
				}
				defer cb.Release()
				if err := cb.Commit(); err != nil {
					return err
				}
				x := g.Placeholder(tensor.Shape{4}, tensor.F32, "")
				exe, err := g.Compile(f.dev, []*Tensor{x}, []*Tensor{g.Neg(x)})
				if err != nil {
					return err
				}
				defer exe.Release()
				in, out := f.data(f.a, x.shape, tensor.F32), f.data(f.b, x.shape, tensor.F32)
				defer in.Release()
				defer out.Release()
				encode.Send(exe.id, cb.ID(), objc.Array([]objc.ID{in.id}), objc.Array([]objc.ID{out.id}), 0)
				return cb.Wait()
			})
		}},
		"reading before completion": {"read-before-completion", func(f *bench) error {
			f.sim.Set("latency", "0.05")
			var cb *device.CommandBuffer
			err := f.do(func(g *Graph) error {
				var err error
				if cb, err = f.negate(g, tensor.Shape{4}); err != nil {
					return err
				}
				return cb.Commit()
			})
			if err != nil {
				return err
			}
			defer cb.Release()
			sink += f.b.Bytes()[0]
			return cb.Wait()
		}},
		"mapping released in flight": {"freed-in-flight", func(f *bench) error {
			f.sim.Set("latency", "0.05")
			mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Munmap(mem) }()
			own := f.a
			defer own.Release()
			if f.a, err = f.dev.NewBufferNoCopy(mem); err != nil {
				return err
			}
			var cb *device.CommandBuffer
			err = f.do(func(g *Graph) error {
				if cb, err = f.negate(g, tensor.Shape{4}); err != nil {
					return err
				}
				if err := cb.Commit(); err != nil {
					return err
				}
				return nil
			})
			if err != nil {
				return err
			}
			defer cb.Release()
			f.a.Release()
			return cb.Wait()
		}},
		"attention before macOS 15": {"unknown-selector", func(f *bench) error {
			return f.do(func(g *Graph) error {
				q := g.Placeholder(tensor.Shape{1, 1, 2, 4}, tensor.F32, "")
				f.sim.Set("os", "14.6")
				attention.Send(g.id, q.id, q.id, q.id, 0, 1, 0)
				return nil
			})
		}},
		"result that is a feed of another shape": {"feed-mismatch|mpsgraph-shape|byte-count", func(f *bench) error {
			return f.do(func(g *Graph) error {
				x := g.Placeholder(tensor.Shape{4}, tensor.F32, "")
				exe, err := g.Compile(f.dev, []*Tensor{x}, []*Tensor{g.Neg(x)})
				if err != nil {
					return err
				}
				defer exe.Release()
				cb, err := f.q.NewCommandBuffer("")
				if err != nil {
					return err
				}
				defer cb.Release()
				in, out := f.data(f.a, tensor.Shape{4}, tensor.F32), f.data(f.b, tensor.Shape{2, 2}, tensor.F32)
				defer in.Release()
				defer out.Release()
				encode.Send(exe.id, cb.ID(), objc.Array([]objc.ID{in.id}), objc.Array([]objc.ID{out.id}), 0)
				return nil
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newBench(t)
			if err := fault.plant(f); err != nil {
				t.Fatal(err)
			}
			found := f.sim.Violations()
			f.sim.ClearViolations()
			for _, v := range found {
				for _, code := range strings.Split(fault.code, "|") {
					if strings.HasPrefix(v, code+":") {
						return
					}
				}
			}
			t.Errorf("want a violation %s, got %q", fault.code, found)
		})
	}
}

// TestLeakIsSeen forgets to release tensor data.
func TestLeakIsSeen(t *testing.T) {
	f := newBench(t)
	var d *Data
	if err := f.do(func(*Graph) error { d = f.data(f.a, tensor.Shape{4}, tensor.F32); return nil }); err != nil {
		t.Fatal(err)
	}
	f.sim.Settle()
	before := f.sim.Leaked()
	objc.WithPool(d.Release)
	if after := f.sim.Leaked(); before-after < 1 {
		t.Errorf("%d objects with tensor data left behind, %d without", before, after)
	}
}

// TestFaultsOfValues are mistakes that run and give wrong numbers: what the
// golden data is for. Each must be far above the limits used there.
func TestFaultsOfValues(t *testing.T) {
	f := newBench(t)
	ramp := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(math.Sin(float64(i) * 1.7))
		}
		return v
	}
	eval := func(shape tensor.Shape, build func(g *Graph, x *Tensor) *Tensor) []float32 {
		for i, v := range ramp(shape.Numel()) {
			binary.LittleEndian.PutUint32(f.a.Bytes()[4*i:], math.Float32bits(v))
		}
		n := 0
		err := f.do(func(g *Graph) error {
			x := g.Placeholder(shape, tensor.F32, "")
			y := build(g, x)
			exe, err := g.Compile(f.dev, []*Tensor{x}, []*Tensor{y})
			if err != nil {
				return err
			}
			defer exe.Release()
			n = y.shape.Numel()
			cb, err := f.q.NewCommandBuffer("")
			if err != nil {
				return err
			}
			defer cb.Release()
			in, out := f.data(f.a, shape, tensor.F32), f.data(f.b, y.shape, tensor.F32)
			defer in.Release()
			defer out.Release()
			if err := errors.Join(exe.Encode(cb, []*Data{in}, []*Data{out}), cb.Commit()); err != nil {
				return err
			}
			return cb.Wait()
		})
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(f.b.Bytes()[4*i:]))
		}
		return v
	}
	attend := func(split func(g *Graph, x *Tensor) *Tensor) func(g *Graph, x *Tensor) *Tensor {
		return func(g *Graph, x *Tensor) *Tensor {
			q := split(g, x)
			return g.Reshape(g.Transpose(g.Attention(q, q, q, nil, 0.5), 0, 2, 1, 3), 1, 6, 8)
		}
	}
	image := tensor.Shape{1, 3, 4, 8}
	for name, c := range map[string]struct {
		shape        tensor.Shape
		right, wrong func(g *Graph, x *Tensor) *Tensor
	}{
		"heads without the transpose": {tensor.Shape{1, 6, 8},
			attend(func(g *Graph, x *Tensor) *Tensor { return g.Transpose(g.Reshape(x, 1, 6, 2, 4), 0, 2, 1, 3) }),
			attend(func(g *Graph, x *Tensor) *Tensor { return g.Reshape(x, 1, 2, 6, 4) })},
		"alignCorners off": {image,
			func(g *Graph, x *Tensor) *Tensor { return g.Bilinear(x, 6, 8, true) },
			func(g *Graph, x *Tensor) *Tensor { return g.Bilinear(x, 6, 8, false) }},
		"depth to space in TensorFlow's order": {image,
			func(g *Graph, x *Tensor) *Tensor { return g.PixelShuffle(x, 2) },
			func(g *Graph, x *Tensor) *Tensor {
				return g.done("", nil, depthToSpace2D.Send(g.id, x.id, 2, 1, 3, 2, false, 0), tensor.Shape{1, 6, 8, 2}, tensor.F32)
			}},
		"width and height axes swapped": {image,
			func(g *Graph, x *Tensor) *Tensor { return g.PixelShuffle(x, 2) },
			func(g *Graph, x *Tensor) *Tensor {
				return g.done("", nil, depthToSpace2D.Send(g.id, x.id, 1, 2, 3, 2, true, 0), tensor.Shape{1, 6, 8, 2}, tensor.F32)
			}},
		"gelu by tanh": {tensor.Shape{64},
			func(g *Graph, x *Tensor) *Tensor { return g.Erf(x) },
			func(g *Graph, x *Tensor) *Tensor { return g.Tanh(x) }},
		"softmax over the wrong axis": {tensor.Shape{6, 8},
			func(g *Graph, x *Tensor) *Tensor { return g.Softmax(x, -1) },
			func(g *Graph, x *Tensor) *Tensor { return g.Softmax(x, 0) }},
	} {
		right, wrong := eval(c.shape, c.right), eval(c.shape, c.wrong)
		var d, n float64
		for i, v := range right {
			d += float64((wrong[i] - v) * (wrong[i] - v))
			n += float64(v * v)
		}
		if e := math.Sqrt(d / n); !(e > 1e-2) {
			t.Errorf("%s: changes the result by %.2g only, nobody would notice", name, e)
		}
	}
}
