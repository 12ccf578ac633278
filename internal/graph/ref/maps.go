// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

func maps(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.Conv2D:
		conv2d(o, in, out)
	case graph.ConvTranspose2D:
		convTranspose2d(o, in, out)
	case graph.Pool2D:
		pool2d(o, in[0], out)
	case graph.Resize2D:
		resize2d(o, in[0], out)
	case graph.PixelShuffle:
		pixelShuffle(o.R, in[0], out)
	default:
		return false, nil
	}
	return true, nil
}

func conv2d(o graph.Conv2D, in []Tensor, out Tensor) {
	x, w := in[0], in[1]
	h, wd, c := x.Shape[1], x.Shape[2], x.Shape[3]
	icg, kh, kw := w.Shape[1], w.Shape[2], w.Shape[3]
	ocg := w.Shape[0] / o.Groups
	rest := in[2:]
	var bias, residual []float64
	if o.Bias {
		bias, rest = rest[0].Data, rest[1:]
	}
	if o.Residual {
		residual = rest[0].Data
	}
	index(out.Shape, func(flat int, at []int) {
		oc := at[3]
		sum := 0.0
		for i := range kh {
			y := at[1]*o.Stride + i*o.Dilation - o.Pad
			if y < 0 || y >= h {
				continue
			}
			for j := range kw {
				xx := at[2]*o.Stride + j*o.Dilation - o.Pad
				if xx < 0 || xx >= wd {
					continue
				}
				px := x.Data[((at[0]*h+y)*wd+xx)*c+oc/ocg*icg:]
				for l := range icg {
					v := px[l]
					if o.PreRelu {
						v = relu(v)
					}
					sum += v * w.Data[((oc*icg+l)*kh+i)*kw+j]
				}
			}
		}
		if bias != nil {
			sum += bias[oc]
		}
		sum = activate(o.Act, sum)
		if residual != nil {
			sum += residual[flat]
		}
		out.Data[flat] = sum
	})
}

// convTranspose2d scatters: each input pixel adds its vector times the kernel.
func convTranspose2d(o graph.ConvTranspose2D, in []Tensor, out Tensor) {
	x, w := in[0], in[1]
	oh, ow, oc := out.Shape[1], out.Shape[2], out.Shape[3]
	kh, kw := w.Shape[2], w.Shape[3]
	if o.Bias {
		for i := range out.Data {
			out.Data[i] = in[2].Data[i%oc]
		}
	}
	index(x.Shape, func(flat int, at []int) {
		v, c := x.Data[flat], at[3]
		for i := range kh {
			y := at[1]*o.Stride + i - o.Pad
			if y < 0 || y >= oh {
				continue
			}
			for j := range kw {
				xx := at[2]*o.Stride + j - o.Pad
				if xx < 0 || xx >= ow {
					continue
				}
				for l := range oc {
					out.Data[((at[0]*oh+y)*ow+xx)*oc+l] += v * w.Data[((c*oc+l)*kh+i)*kw+j]
				}
			}
		}
	})
}

func pool2d(o graph.Pool2D, x, out Tensor) {
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	index(out.Shape, func(flat int, at []int) {
		sum, top := 0.0, math.Inf(-1)
		for i := range o.Kernel[0] {
			for j := range o.Kernel[1] {
				v := x.Data[((at[0]*h+at[1]*o.Stride[0]+i)*w+at[2]*o.Stride[1]+j)*c+at[3]]
				sum += v
				top = math.Max(top, v)
			}
		}
		if o.Average {
			top = sum / float64(o.Kernel[0]*o.Kernel[1])
		}
		out.Data[flat] = top
	})
}

// tap is one source position of a resampled one.
type tap struct {
	at     int
	weight float64
}

// taps gives, for each of m outputs over n inputs, what it is made of.
func taps(o graph.Resize2D, n, m int, scale float64) [][]tap {
	all := make([][]tap, m)
	for i := range all {
		if o.Mode == graph.Nearest {
			all[i] = []tap{{min(i*n/m, n-1), 1}}
			continue
		}
		r := sourceCoordinate(o.AlignCorners, i, n, m, scale)
		if o.Mode == graph.Bilinear {
			r = max(r, 0)
		}
		b := int(math.Floor(r))
		t := r - float64(b)
		ws := []float64{1 - t, t}
		first := b
		if o.Mode == graph.Bicubic {
			ws = []float64{cubicFar(t + 1), cubicNear(t), cubicNear(1 - t), cubicFar(2 - t)}
			first = b - 1
		}
		for j, w := range ws {
			all[i] = append(all[i], tap{min(max(first+j, 0), n-1), w})
		}
	}
	return all
}

func sourceCoordinate(align bool, i, n, m int, scale float64) float64 {
	if align {
		if m == 1 {
			return 0
		}
		return float64(i) * float64(n-1) / float64(m-1)
	}
	if scale == 0 {
		scale = float64(n) / float64(m)
	}
	return (float64(i)+0.5)*scale - 0.5
}

// The cubic convolution kernel with a = -0.75, |x| < 1 and 1 <= |x| < 2.
const cubicA = -0.75

func cubicNear(x float64) float64 { return ((cubicA+2)*x-(cubicA+3))*x*x + 1 }

func cubicFar(x float64) float64 { return ((cubicA*x-5*cubicA)*x+8*cubicA)*x - 4*cubicA }

func resize2d(o graph.Resize2D, x, out Tensor) {
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	ty, tx := taps(o, h, o.H, o.ScaleH), taps(o, w, o.W, o.ScaleW)
	index(out.Shape, func(flat int, at []int) {
		sum := 0.0
		for _, a := range ty[at[1]] {
			for _, b := range tx[at[2]] {
				sum += a.weight * b.weight * x.Data[((at[0]*h+a.at)*w+b.at)*c+at[3]]
			}
		}
		out.Data[flat] = sum
	})
}

func pixelShuffle(r int, x, out Tensor) {
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	index(out.Shape, func(flat int, at []int) {
		y, i := at[1]/r, at[1]%r
		xx, j := at[2]/r, at[2]%r
		ch := at[3]*r*r + i*r + j
		out.Data[flat] = x.Data[((at[0]*h+y)*w+xx)*c+ch]
	})
}
