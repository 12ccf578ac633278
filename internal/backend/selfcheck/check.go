// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Limits are the largest relative L2 errors that pass. They are an order above
// what different orders of summation make of these sizes, and an order below the
// least that a known kind of fault makes (the tests plant some).
var limits = map[backend.Precision]float64{backend.FP32: 2e-3, backend.FP16: 3e-2, backend.BF16: 4e-2}

// Check is one comparison.
type Check struct {
	Name string
	// Worst is the largest relative L2 error among the outputs.
	Worst, Limit float64
	// Err says that something failed to run, or which output disagrees.
	Err error
}

// ErrDisagree is in the chain of Check.Err when both ran and differ.
var ErrDisagree = errors.New("results differ from the reference")

// compare runs g on both backends.
func compare(ctx context.Context, name string, dev, ref backend.Backend, p backend.Precision, g *graph.Graph, in [][]byte) Check {
	c := Check{Name: name, Limit: limits[p]}
	want, err := run(ctx, ref, backend.FP32, g, in)
	if err != nil {
		c.Err = fmt.Errorf("selfcheck: %s: reference: %w", name, err)
		return c
	}
	got, err := run(ctx, dev, p, g, in)
	if err != nil {
		c.Err = fmt.Errorf("selfcheck: %s: %w", name, err)
		return c
	}
	for i, o := range g.Outputs {
		e := relative(got[i], want[i])
		c.Worst = max(c.Worst, e)
		if !(e <= c.Limit) && c.Err == nil { // NaN is no agreement either
			c.Err = fmt.Errorf("selfcheck: %s: output %q: relative error %.2g, want at most %.2g: %w", name, o.Name, e, c.Limit, ErrDisagree)
		}
	}
	return c
}

// run evaluates g once; outputs are float32.
func run(ctx context.Context, b backend.Backend, p backend.Precision, g *graph.Graph, in [][]byte) (_ [][]float32, err error) {
	prog, err := b.Compile(ctx, g, backend.Options{Precision: p})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	var bufs []backend.Buffer
	defer func() {
		for _, x := range bufs {
			x.Release()
		}
	}()
	for _, data := range in {
		x, err := b.Alloc(len(data))
		if err != nil {
			return nil, err
		}
		copy(x.Bytes(), data)
		bufs = append(bufs, x)
	}
	for _, o := range g.Outputs {
		x, err := b.Alloc(o.Node.Bytes())
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, x)
	}
	w, err := b.Begin(backend.Decode)
	if err != nil {
		return nil, err
	}
	defer w.Discard()
	if err := w.Run(ctx, prog, bufs[:len(in)], bufs[len(in):]); err != nil {
		return nil, err
	}
	done, err := w.Submit()
	if err != nil {
		return nil, err
	}
	if _, err := done.Wait(ctx); err != nil {
		// The buffers go back now: the device must be done with them.
		_, _ = done.Wait(context.WithoutCancel(ctx))
		return nil, err
	}
	out := make([][]float32, len(g.Outputs))
	for i, x := range bufs[len(in):] {
		out[i] = floats(x.Bytes())
	}
	return out, nil
}

func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func bytesOf(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// relative is |got-want| / |want| in L2.
func relative(got, want []float32) float64 {
	var d, n float64
	for i, w := range want {
		e := float64(got[i]) - float64(w)
		d += e * e
		n += float64(w) * float64(w)
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / max(n, 1e-30))
}

// f32 declares an input of standard size.
func f32(g *graph.Graph, name string, shape ...int) *graph.Node {
	return g.Input(name, tensor.F32, shape...)
}
