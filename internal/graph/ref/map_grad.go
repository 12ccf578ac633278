// SPDX-License-Identifier: Apache-2.0

package ref

import "github.com/mast3r-runtime/mast3r-runtime/internal/graph"

func mapGradients(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.PoolIndex:
		poolIndex(o, in[0], out)
	case graph.PoolGrad:
		poolGrad(o, in, out)
	case graph.ConvGradInput:
		convGradInput(o, in, out)
	case graph.ConvGradWeight:
		convGradWeight(o, in, out)
	default:
		return false, nil
	}
	return true, nil
}

// window finds the maximum of one pooling window: its position in the plane,
// the lowest on ties.
func window(x Tensor, kernel, stride [2]int, at []int) int {
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	best := -1
	value := func(p int) float64 { return x.Data[(at[0]*h*w+p)*c+at[3]] }
	for i := range kernel[0] {
		for j := range kernel[1] {
			p := (at[1]*stride[0]+i)*w + at[2]*stride[1] + j
			if best < 0 || value(p) > value(best) || value(p) != value(p) && value(best) == value(best) {
				best = p
			}
		}
	}
	return best
}

func poolIndex(o graph.PoolIndex, x, out Tensor) {
	index(out.Shape, func(flat int, at []int) {
		out.Data[flat] = float64(window(x, o.Kernel, o.Stride, at))
	})
}

func poolGrad(o graph.PoolGrad, in []Tensor, out Tensor) {
	x, gy := in[0], in[1]
	plane, c := x.Shape[1]*x.Shape[2], x.Shape[3]
	index(gy.Shape, func(flat int, at []int) {
		p := window(x, o.Kernel, o.Stride, at)
		out.Data[(at[0]*plane+p)*c+at[3]] += gy.Data[flat]
	})
}

// taps2d visits every product of a convolution: flat positions in x, w and y.
func taps2d(o graph.Conv2D, x, w, y []int, visit func(xi, wi, yi int)) {
	ocg, icg := w[0]/o.Groups, w[1]
	index(y, func(yi int, at []int) {
		for i := range w[2] {
			row := at[1]*o.Stride + i*o.Dilation - o.Pad
			if row < 0 || row >= x[1] {
				continue
			}
			for j := range w[3] {
				col := at[2]*o.Stride + j*o.Dilation - o.Pad
				if col < 0 || col >= x[2] {
					continue
				}
				base := ((at[0]*x[1]+row)*x[2]+col)*x[3] + at[3]/ocg*icg
				for l := range icg {
					visit(base+l, ((at[3]*icg+l)*w[2]+i)*w[3]+j, yi)
				}
			}
		}
	})
}

func convGradInput(o graph.ConvGradInput, in []Tensor, out Tensor) {
	gy, w := in[0], in[1]
	conv := graph.Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
	taps2d(conv, out.Shape, w.Shape, gy.Shape, func(xi, wi, yi int) {
		out.Data[xi] += gy.Data[yi] * w.Data[wi]
	})
}

func convGradWeight(o graph.ConvGradWeight, in []Tensor, out Tensor) {
	x, gy := in[0], in[1]
	conv := graph.Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
	taps2d(conv, x.Shape, out.Shape, gy.Shape, func(xi, wi, yi int) {
		out.Data[wi] += gy.Data[yi] * x.Data[xi]
	})
}
