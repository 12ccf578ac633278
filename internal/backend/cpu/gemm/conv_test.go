// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// refConv is the convolution of px as a plain loop; w is [out][in][kh][kw]. It
// returns the value and the sum of the magnitudes of its terms.
func refConv(c *Conv, px, w []float32, n, oy, ox, o int) (sum, mag float64) {
	s := max(c.Stride, 1)
	if c.Bias != nil {
		sum = float64(c.Bias[o])
		mag = math.Abs(sum)
	}
	for ky := range c.KH {
		for kx := range c.KW {
			y, x := oy*s+ky-c.PadH, ox*s+kx-c.PadW
			if y < 0 || y >= c.H || x < 0 || x >= c.W {
				continue
			}
			for i := range c.Cin {
				v := px[((n*c.H+y)*c.W+x)*c.LDX+i]
				if c.ReLUIn {
					v = max(v, 0)
				}
				p := float64(v) * float64(w[((o*c.Cin+i)*c.KH+ky)*c.KW+kx])
				sum += p
				mag += math.Abs(p)
			}
		}
	}
	return sum, mag
}

// actType is the type in which activations meet weights of type d.
func actType(d tensor.DType) tensor.DType {
	if d == tensor.BF16 {
		return d
	}
	return tensor.F32
}

func checkConv(t *testing.T, c *Conv, w []float32, ep *Epilogue) {
	t.Helper()
	oh, ow := c.OutSize()
	px, w := stored(actType(c.Weights.Type), c.X), stored(c.Weights.Type, w)
	for p := range c.Batch * oh * ow {
		for o := range c.Weights.N {
			sum, mag := refConv(c, px, w, p/(oh*ow), p/ow%oh, p%ow, o)
			want := refEpilogue(ep, sum, p, o)
			if ep.Gamma != nil {
				mag = mag*math.Abs(float64(ep.Gamma[o])) + math.Abs(want)
			}
			if ep.Res != nil {
				mag += math.Abs(float64(ep.Res[p*ep.LDR+o]))
			}
			if got := c.Y[p*c.LDY+o]; !(math.Abs(float64(got)-want) <= sumTol*(mag+1e-3)) {
				t.Fatalf("%v %dx%d/%d pad %d,%d of %dx%dx%dx%d to %d: Y[%d][%d] = %v, want %v", c.Weights.Type, c.KH, c.KW,
					c.Stride, c.PadH, c.PadW, c.Batch, c.H, c.W, c.Cin, c.Weights.N, p, o, got, want)
			}
		}
	}
}

func TestConv(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(21)
		for round := range rounds(30) {
			c := Conv{Batch: 1 + r.IntN(2), H: 1 + r.IntN(9), W: 1 + r.IntN(12), Cin: 1 + r.IntN(20),
				KH: 1 + r.IntN(3), KW: 1 + r.IntN(3), Stride: r.IntN(3), PadH: r.IntN(3), PadW: r.IntN(3), ReLUIn: r.IntN(2) > 0}
			out := 1 + r.IntN(70)
			switch round {
			case 0: // several tiles across, the padded pixel stride
				c = Conv{Batch: 1, H: 2, W: 117, Cin: 512, KH: 3, KW: 3, PadH: 1, PadW: 1}
				out = 3
			case 1: // patches
				c = Conv{Batch: 2, H: 48, W: 64, Cin: 3, KH: 16, KW: 16, Stride: 16}
				out = 40
			case 2: // stride 2 on an even size, as the network's head does
				c = Conv{Batch: 1, H: 24, W: 32, Cin: 16, KH: 3, KW: 3, Stride: 2, PadH: 1, PadW: 1}
				out = 33
			}
			if c.H+2*c.PadH < c.KH || c.W+2*c.PadW < c.KW {
				continue
			}
			taps := c.KH * c.KW
			w := normal(r, out*c.Cin*taps)
			for _, d := range types() {
				if d == tensor.BF16 && (c.Cin%2 != 0 || !RoundsBF16(c.Cin)) {
					continue
				}
				c := c
				c.LDX, c.LDY = c.Cin+r.IntN(3), out+r.IntN(40)
				x := guard(c.Batch*c.H*c.W*c.LDX).fill(r, c.Batch*c.H*c.W, c.Cin, c.LDX)
				oh, ow := c.OutSize()
				pixels := c.Batch * oh * ow
				y := guard((pixels-1)*c.LDY + out)
				c.X, c.Y = x.x, y.x
				c.Weights = mustPack(t, d, out, c.Cin*taps, 1, Filters(Bytes(w), tensor.F32, c.Cin, taps))
				ep, _ := randomEpilogue(r, pixels, out)
				c.Epilogue = ep
				scratch := guard(c.ScratchBytes(2) / 4)
				c.Scratch = Bytes(scratch.x)
				c.Run(pool)
				checkConv(t, &c, w, &ep)
				y.check(t, "Y", pixels, out, c.LDY)
				scratch.check(t, "scratch", 1, len(scratch.x), len(scratch.x))
			}
		}
	})
}

// Thread counts, and a batch against its pictures alone, give the same bits.
func TestConvSameBits(t *testing.T) {
	ps := pools(t)
	eachISA(t, func(t *testing.T) {
		r := rng(22)
		for _, d := range types() {
			cin := 12
			if d == tensor.BF16 && !RoundsBF16(cin) {
				if cin = 32; !RoundsBF16(cin) {
					continue
				}
			}
			c := Conv{Batch: 2, H: 31, W: 70, Cin: cin, KH: 3, KW: 3, PadH: 1, PadW: 1, LDX: cin, LDY: 48,
				Epilogue: Epilogue{Bias: normal(r, 48), Act: ReLU}}
			c.X = normal(r, 2*31*70*cin)
			c.Weights = mustPack(t, d, 48, 9*cin, 1, Filters(Bytes(normal(r, 48*9*cin)), tensor.F32, cin, 9))
			var want []float32
			for _, p := range ps {
				c := c
				c.Y = make([]float32, 2*31*70*48)
				c.Scratch = Alloc(c.ScratchBytes(p.Threads()))
				c.Run(p)
				if want == nil {
					want = c.Y
				}
				sameBits(t, fmt.Sprintf("%v: %d threads", d, p.Threads()), want, c.Y)
			}
			single := make([]float32, len(want))
			for b := range 2 {
				one := c
				one.Batch = 1
				one.X, one.Y = c.X[b*31*70*cin:], single[b*31*70*48:]
				one.Scratch = Alloc(one.ScratchBytes(2))
				one.Run(ps[1])
			}
			sameBits(t, fmt.Sprintf("%v: single pictures", d), want, single)
		}
	})
}

// A 1x1 convolution is a product, bit for bit.
func TestConvPointwiseIsMatMul(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(23)
		w := mustPack(t, tensor.F32, 50, 20, 1, Rows(Bytes(normal(r, 1000)), tensor.F32, 20))
		x := normal(r, 7*9*20)
		a, b := make([]float32, 63*50), make([]float32, 63*50)
		c := Conv{Batch: 1, H: 7, W: 9, Cin: 20, KH: 1, KW: 1, X: x, LDX: 20, Weights: w, Y: a, LDY: 50}
		c.Scratch = Alloc(c.ScratchBytes(2))
		c.Run(pool)
		m := MatMul{M: 63, A: x, LDA: 20, W: w, C: b, LDC: 50}
		m.Run(pool)
		sameBits(t, "1x1", a, b)
	})
}

func TestConvErrors(t *testing.T) {
	w := mustPack(t, tensor.F32, 5, 18, 1, Filters(Bytes(make([]float32, 90)), tensor.F32, 2, 9))
	good := func() Conv {
		return Conv{Batch: 1, H: 4, W: 4, Cin: 2, KH: 3, KW: 3, PadH: 1, PadW: 1, Weights: w,
			X: make([]float32, 32), LDX: 2, Y: make([]float32, 80), LDY: 5}
	}
	ok := good()
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Conv){
		"no weights":   func(c *Conv) { c.Weights = nil },
		"channels":     func(c *Conv) { c.Cin = 3 },
		"no batch":     func(c *Conv) { c.Batch = 0 },
		"too small":    func(c *Conv) { c.H, c.PadH = 2, 0 },
		"short input":  func(c *Conv) { c.X = c.X[:31] },
		"short output": func(c *Conv) { c.Y = c.Y[:79] },
		"negative":     func(c *Conv) { c.PadW = -1 },
		"overflow":     func(c *Conv) { c.Batch, c.H, c.W = math.MaxInt, math.MaxInt, math.MaxInt },
		"bias":         func(c *Conv) { c.Bias = make([]float32, 4) },
	} {
		c := good()
		spoil(&c)
		if err := c.Check(); !errors.Is(err, ErrShape) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
