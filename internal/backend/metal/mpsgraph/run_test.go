// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mpsgraph_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// gpu is a device with a queue for one test.
type gpu struct {
	*device.Device
	t   *testing.T
	sim *metalsim.Sim
	q   *device.Queue
}

func open(t *testing.T) *gpu {
	t.Helper()
	s := metalsim.Open(t)
	d, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		q.Release()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if n := d.LiveBuffers(); n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
	})
	return &gpu{Device: d, t: t, sim: s, q: q}
}

// array is host data: float32 values whatever the type they are stored as.
type array struct {
	shape tensor.Shape
	dtype tensor.DType
	v     []float64
}

func f32(shape tensor.Shape, v ...float64) array { return array{shape, tensor.F32, v} }

func i32(shape tensor.Shape, v ...float64) array { return array{shape, tensor.I32, v} }

// ramp is a small varied sequence, exact in half precision.
func ramp(d tensor.DType, shape ...int) array {
	a := array{shape, d, make([]float64, tensor.Shape(shape).Numel())}
	for i := range a.v {
		a.v[i] = float64((i*7)%23-11) / 8
	}
	return a
}

func (a array) encode() []byte {
	var b []byte
	le := binary.LittleEndian
	for _, x := range a.v {
		switch a.dtype {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(x)))
		case tensor.F16:
			b = le.AppendUint16(b, tensor.F16FromFloat32(float32(x)))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(int32(x)))
		default:
			panic(fmt.Sprint("encode ", a.dtype))
		}
	}
	return b
}

func (a *array) decode(b []byte) {
	le := binary.LittleEndian
	a.v = make([]float64, a.shape.Numel())
	for i := range a.v {
		switch a.dtype {
		case tensor.F32:
			a.v[i] = float64(math.Float32frombits(le.Uint32(b[4*i:])))
		case tensor.F16:
			a.v[i] = float64(tensor.Float32FromF16(le.Uint16(b[2*i:])))
		case tensor.I32:
			a.v[i] = float64(int32(le.Uint32(b[4*i:])))
		case tensor.Bool:
			a.v[i] = float64(b[i])
		default:
			panic(fmt.Sprint("decode ", a.dtype))
		}
	}
}

// run builds a graph on placeholders for in, runs it and returns its results.
func (g *gpu) run(in []array, build func(*mpsgraph.Graph, []*mpsgraph.Tensor) []*mpsgraph.Tensor) ([]array, error) {
	g.t.Helper()
	var release []func()
	defer func() {
		for _, f := range release {
			f()
		}
	}()
	buffer := func(n int) (*device.Buffer, error) {
		b, err := g.NewBuffer(n)
		if err == nil {
			release = append(release, b.Release)
		}
		return b, err
	}
	var out []array
	var bufs []*device.Buffer
	var cb *device.CommandBuffer
	err := g.Do(func() error {
		m := mpsgraph.NewGraph()
		defer m.Release()
		var feeds []*mpsgraph.Tensor
		var data []*mpsgraph.Data
		describe := func(shape tensor.Shape, d tensor.DType) (*device.Buffer, error) {
			b, err := buffer(shape.Numel() * d.Size())
			if err != nil {
				return nil, err
			}
			x, err := mpsgraph.NewData(b, 0, shape, d)
			if err != nil {
				return nil, err
			}
			release = append(release, func() { _ = g.Do(func() error { x.Release(); return nil }) })
			data = append(data, x)
			return b, nil
		}
		for i, a := range in {
			feeds = append(feeds, m.Placeholder(a.shape, a.dtype, fmt.Sprint("in", i)))
			b, err := describe(a.shape, a.dtype)
			if err != nil {
				return err
			}
			copy(b.Bytes(), a.encode())
		}
		results := build(m, feeds)
		exe, err := m.Compile(g.Device, feeds, results)
		if err != nil {
			return err
		}
		defer exe.Release()
		for _, v := range exe.Results() {
			b, err := describe(v.Shape, v.DType)
			if err != nil {
				return err
			}
			bufs = append(bufs, b)
			out = append(out, array{shape: v.Shape, dtype: v.DType})
		}
		if cb, err = g.q.NewCommandBuffer("test"); err != nil {
			return err
		}
		if err := exe.Encode(cb, data[:len(in)], data[len(in):]); err != nil {
			return err
		}
		if err := cb.Commit(); err != nil {
			return err
		}
		return cb.Wait()
	})
	if cb != nil {
		cb.Release()
	}
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].decode(bufs[i].Bytes())
	}
	return out, nil
}

// want compares results within a relative limit.
func want(t *testing.T, what string, got array, limit float64, wanted ...float64) {
	t.Helper()
	if len(got.v) != len(wanted) {
		t.Errorf("%s: %d elements, want %d", what, len(got.v), len(wanted))
		return
	}
	for i, w := range wanted {
		if d := math.Abs(got.v[i] - w); !(d <= limit*max(1, math.Abs(w))) && !(math.IsNaN(w) && math.IsNaN(got.v[i])) {
			t.Errorf("%s: element %d is %v, want %v", what, i, got.v[i], w)
			return
		}
	}
}
