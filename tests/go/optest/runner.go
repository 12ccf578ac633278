// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Runner evaluates a graph on packed inputs and returns packed outputs.
type Runner func(g *graph.Graph, in [][]byte) ([][]byte, error)

// Backend runs graphs on a device.
func Backend(b backend.Backend, opt backend.Options) Runner {
	return func(g *graph.Graph, in [][]byte) (out [][]byte, err error) {
		ctx := context.Background()
		p, err := b.Compile(ctx, g, opt)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		var ins, outs []backend.Buffer
		defer func() {
			for _, x := range append(ins, outs...) {
				x.Release()
			}
		}()
		for _, data := range in {
			x, err := b.Alloc(len(data))
			if err != nil {
				return nil, err
			}
			copy(x.Bytes(), data)
			ins = append(ins, x)
		}
		for _, o := range p.Graph().Outputs {
			x, err := b.Alloc(o.Node.Bytes())
			if err != nil {
				return nil, err
			}
			outs = append(outs, x)
		}
		w, err := b.Begin(backend.First)
		if err != nil {
			return nil, err
		}
		defer w.Discard()
		if err := w.Run(ctx, p, ins, outs); err != nil {
			return nil, err
		}
		done, err := w.Submit()
		if err != nil {
			return nil, err
		}
		if _, err := done.Wait(ctx); err != nil {
			return nil, err
		}
		for _, x := range outs {
			out = append(out, append([]byte(nil), x.Bytes()...))
		}
		return out, nil
	}
}

// Reference runs graphs with the plain loops.
func Reference(g *graph.Graph, in [][]byte) ([][]byte, error) {
	values := make([]ref.Tensor, len(in))
	for i, n := range g.Inputs {
		v, err := ref.Decode(n.DType, n.Shape, in[i])
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	res, err := ref.Run(g, values)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(res))
	for i, v := range res {
		if out[i], err = v.Encode(g.Outputs[i].Node.DType); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// floats decodes any float or integer output for comparison.
func floats(n *graph.Node, data []byte) ([]float64, error) {
	t, err := ref.Decode(n.DType, n.Shape, data)
	return t.Data, err
}

// bytesOf encodes float32 values.
func bytesOf(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// int32s encodes indices.
func int32s(v []int) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(x)))
	}
	return b
}

// relL2 is |got-want|/|want| with the pairs that are not finite compared
// exactly: an infinity or NaN must be met by the same.
func relL2(got, want []float64) float64 {
	var d, n float64
	for i, w := range want {
		g := got[i]
		if math.IsNaN(w) || math.IsInf(w, 0) {
			if g != w && !(math.IsNaN(w) && math.IsNaN(g)) {
				return math.Inf(1)
			}
			continue
		}
		d += (g - w) * (g - w)
		n += w * w
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / max(n, 1e-30))
}

func shapeOf(dims []int) tensor.Shape { return tensor.Shape(dims) }
