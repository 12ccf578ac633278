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
var limits = map[backend.Precision]float64{backend.FP32: 2e-3, backend.FP16: 3e-2, backend.BF16: 4e-2, backend.TF32: 5e-3}

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

// compare runs g on both backends, on the device twice: the same bits must come
// out. Products in half precision have differed from run to run on some GPUs by
// less than the limits of one comparison.
func compare(ctx context.Context, name string, dev, ref backend.Backend, p backend.Precision, g *graph.Graph, in [][]byte) Check {
	c := Check{Name: name, Limit: limits[p]}
	want, _, err := run(ctx, ref, backend.FP32, g, in, 1)
	if err != nil {
		c.Err = fmt.Errorf("selfcheck: %s: reference: %w", name, err)
		return c
	}
	got, steady, err := run(ctx, dev, p, g, in, repeats)
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
	if steady != nil && c.Err == nil {
		c.Err = fmt.Errorf("selfcheck: %s: %w: %w", name, steady, ErrDisagree)
	}
	return c
}

// repeats is how often the device runs a graph. Memory that grows from each run
// to the next is a leak of the system's; the first run also warms up.
const repeats = 3

// run evaluates g so many times; outputs are float32 and those of the first. Not
// steady: another run had other bits, or the device's memory grew in each.
func run(ctx context.Context, b backend.Backend, p backend.Precision, g *graph.Graph, in [][]byte, times int) (out [][]float32, steady, err error) {
	prog, err := b.Compile(ctx, g, backend.Options{Precision: p})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	var bufs []backend.Buffer
	defer func() {
		for _, x := range bufs {
			x.Release()
		}
	}()
	alloc := func(n int) error {
		x, err := b.Alloc(n)
		if err == nil {
			bufs = append(bufs, x)
		}
		return err
	}
	for _, data := range in {
		if err := alloc(len(data)); err != nil {
			return nil, nil, err
		}
		copy(bufs[len(bufs)-1].Bytes(), data)
	}
	for _, o := range g.Outputs {
		if err := alloc(o.Node.Bytes()); err != nil {
			return nil, nil, err
		}
	}
	results := bufs[len(in):]
	grown := 0
	for i := range times {
		before := b.Device().Allocated
		if err := once(ctx, b, prog, bufs[:len(in)], results); err != nil {
			return nil, nil, err
		}
		if b.Device().Allocated > before {
			grown++
		}
		for j, x := range results {
			if err := x.Fetch(); err != nil {
				return nil, nil, err
			}
			if i == 0 {
				out = append(out, floats(x.Bytes()))
			} else if !sameBits(out[j], x.Bytes()) {
				steady = fmt.Errorf("output %q: run %d has other bits than the first", g.Outputs[j].Name, i+1)
			}
		}
	}
	if grown == times && times > 1 {
		steady = fmt.Errorf("the device's memory grows with every run, to %d bytes now", b.Device().Allocated)
	}
	return out, steady, nil
}

// once runs prog and waits for it.
func once(ctx context.Context, b backend.Backend, prog backend.Program, in, out []backend.Buffer) error {
	w, err := b.Begin(backend.First)
	if err != nil {
		return err
	}
	defer w.Discard()
	if err := w.Run(ctx, prog, in, out); err != nil {
		return err
	}
	done, err := w.Submit()
	if err != nil {
		return err
	}
	if _, err := done.Wait(ctx); err != nil {
		// The buffers go back now: the device must be done with them.
		_, _ = done.Wait(context.WithoutCancel(ctx))
		return err
	}
	return nil
}

func sameBits(v []float32, b []byte) bool {
	for i, x := range v {
		if math.Float32bits(x) != binary.LittleEndian.Uint32(b[4*i:]) {
			return false
		}
	}
	return true
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
