// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

func norms(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.LayerNorm:
		layerNorm(in, float64(o.Eps), out)
	case graph.RMSNorm:
		rmsNorm(in, float64(o.Eps), out)
	case graph.Softmax:
		softmax(in[0], o.Axis, out)
	case graph.L2Normalize:
		eachVector(in[0], out, func(x, y []float64) {
			d := norm(x)
			for i, v := range x {
				y[i] = v / d
			}
		})
	case graph.ExpPoints:
		eachVector(in[0], out, func(x, y []float64) {
			d := norm(x)
			for i, v := range x {
				y[i] = v / max(d, 1e-8) * math.Expm1(d)
			}
		})
	default:
		return false, nil
	}
	return true, nil
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

func softmax(x Tensor, axis int, out Tensor) {
	axis = resolve(axis, len(x.Shape))
	n, inner := x.Shape[axis], 1
	for _, d := range x.Shape[axis+1:] {
		inner *= d
	}
	row := make([]float64, n)
	for i := range len(x.Data) / n {
		base := i/inner*n*inner + i%inner
		for j := range row {
			row[j] = x.Data[base+j*inner]
		}
		softmaxRow(row, row)
		for j := range row {
			out.Data[base+j*inner] = row[j]
		}
	}
}

func eachVector(x, out Tensor, f func(x, y []float64)) {
	d := x.Shape[len(x.Shape)-1]
	for i := 0; i < len(x.Data); i += d {
		f(x.Data[i:i+d], out.Data[i:i+d])
	}
}

func layerNorm(in []Tensor, eps float64, out Tensor) {
	eachVector(in[0], out, func(x, y []float64) {
		n := float64(len(x))
		mean, variance := 0.0, 0.0
		for _, v := range x {
			mean += v / n
		}
		for _, v := range x {
			variance += (v - mean) * (v - mean) / n
		}
		for i, v := range x {
			y[i] = (v-mean)/math.Sqrt(variance+eps)*in[1].Data[i] + in[2].Data[i]
		}
	})
}

func rmsNorm(in []Tensor, eps float64, out Tensor) {
	eachVector(in[0], out, func(x, y []float64) {
		r := math.Sqrt(dot(x, x)/float64(len(x)) + eps)
		for i, v := range x {
			y[i] = v / r * in[1].Data[i]
		}
	})
}
