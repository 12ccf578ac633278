// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"math"
	"testing"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Where there are no tiles, all tests of this package run their programs in Go.
func init() {
	if !AVX512AMX.Usable() {
		ModelTiles()
	}
}

// onTiles runs a test with tiles, or with their model.
func onTiles(t *testing.T) {
	t.Helper()
	if !AVX512AMX.Usable() {
		t.Skip("this processor cannot round for tiles")
	}
	was := Active()
	if err := Force(AVX512AMX); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Force(was) })
	if !Tiles(tileK) {
		t.Fatal("the system refused tiles")
	}
}

func bf16s(x []float32) []uint16 {
	r := make([]uint16, len(x))
	for i, v := range x {
		r[i] = tensor.BF16FromFloat32(v)
	}
	return r
}

// The processor's tiles and their model give the same bits.
func TestTileModel(t *testing.T) {
	onTiles(t)
	if tilesInGo {
		t.Skip("no tiles here to compare the model with")
	}
	r := rng(61)
	const steps, groups, panels = 5, 3, 2
	for i, rows := range []int{tileRows, tileRows, tileRows / 2} {
		a, b := bf16s(normal(r, groups*rows*steps*tileK)), bf16s(normal(r, panels*steps*tileK*panelN))
		ini := normal(r, groups*rows*panels*panelN)
		run := func(model bool) []float32 {
			c := make([]float32, len(ini))
			k := tkargs{a: unsafe.Pointer(&a[0]), lda: steps * tileK * 2, kstep: tileK * 2, nexta: uintptr(rows * steps * tileK * 2),
				b: unsafe.Pointer(&b[0]), nextb: steps * tileStep, c: unsafe.Pointer(&c[0]), ldc: panels * tileRowLD,
				nextc: uintptr(rows * panels * tileRowLD), ini: unsafe.Pointer(&ini[0]), ldi: panels * tileRowLD,
				nexti: uintptr(rows * panels * tileRowLD), panelI: tileRowLD, steps: steps, groups: groups, panels: panels}
			if i == 0 { // packed: another kernel
				k.lda, k.kstep, k.nexta = tileK*2, tileStep, steps*tileStep
			}
			if model {
				portableTiles(&k, rows)
			} else {
				tileProduct(&k, rows)
			}
			return c
		}
		sameBits(t, "tiles and their model", run(false), run(true))
	}
}

// Rows are rounded as the model rounds them, none is left out, and what is no number
// stays none.
func TestSpread(t *testing.T) {
	onTiles(t)
	r := rng(62)
	x := normal(r, 96)
	x[3], x[40], x[41] = float32(math.NaN()), -3, float32(math.Inf(1))
	for _, floor := range []float32{0, float32(math.Inf(-1))} {
		got, want := make([]uint16, 3*64), make([]uint16, 3*64)
		s := spargs{src: unsafe.Pointer(&x[0]), n: len(x), step: 128, floor: floor}
		s.dst = unsafe.Pointer(&got[0])
		spreadBF16(&s)
		s.dst = unsafe.Pointer(&want[0])
		portableSpread(&s)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("floor %v, value %d: %#x, want %#x", floor, i, got[i], want[i])
			}
		}
	}
}

// Every element of a product on tiles is the chain that the documentation says,
// whatever the number of rows, of threads or the place in a batch.
func TestTileChain(t *testing.T) {
	onTiles(t)
	r := rng(63)
	for _, x := range [][3]int{{1, 33, 32}, {15, 64, 96}, {17, 32, 64}, {33, 40, 288}, {97, 31, 320}, {200, 96, 64}} {
		m, n, k := x[0], x[1], x[2]
		a, w, bias := normal(r, m*k), normal(r, n*k), normal(r, n)
		p := mustPack(t, tensor.BF16, n, k, 1, Rows(Bytes(w), tensor.F32, k))
		want := make([]float32, m*n)
		a16, w16 := bf16s(a), bf16s(w)
		for i := range m {
			for j := range n {
				sum := bias[j]
				for k0 := 0; k0 < k; k0 += tileK {
					var even, odd float32
					for d := k0; d < k0+tileK; d += 2 {
						even += float32(wide(a16[i*k+d]) * wide(w16[j*k+d]))
						odd += float32(wide(a16[i*k+d+1]) * wide(w16[j*k+d+1]))
					}
					sum += even + odd
				}
				want[i*n+j] = sum
			}
		}
		for _, pool := range pools(t) {
			c := guard(m * n)
			mm := MatMul{M: m, A: a, LDA: k, W: p, C: c.x, LDC: n, Epilogue: Epilogue{Bias: bias}}
			mm.Scratch = Alloc(mm.ScratchBytes(pool.Threads()))
			mm.Run(pool)
			c.check(t, "C", m, n, n)
			sameBits(t, "product on tiles", c.x, want)
		}
	}
}

// Convolutions of any size on tiles are the sums of their taps.
func TestTileConv(t *testing.T) {
	onTiles(t)
	r := rng(64)
	pool := par.New(2)
	defer pool.Close()
	for _, x := range []Conv{
		{Batch: 1, H: 5, W: 7, Cin: 32, KH: 3, KW: 3, PadH: 1, PadW: 1},
		{Batch: 2, H: 9, W: 70, Cin: 32, KH: 3, KW: 3, PadH: 1, PadW: 1, ReLUIn: true},
		{Batch: 1, H: 12, W: 35, Cin: 64, KH: 3, KW: 3, Stride: 2, PadH: 1, PadW: 1},
		{Batch: 1, H: 3, W: 130, Cin: 32, KH: 1, KW: 1},
		{Batch: 1, H: 3, W: 20, Cin: 1024, KH: 3, KW: 3, PadH: 1, PadW: 1},
	} {
		c := x
		const n = 40
		k := c.KH * c.KW * c.Cin
		w := normal(r, n*k)
		c.X, c.LDX, c.LDY = normal(r, c.Batch*c.H*c.W*c.Cin), c.Cin, n
		c.Weights = mustPack(t, tensor.BF16, n, k, 1, Filters(Bytes(w), tensor.F32, c.Cin, c.KH*c.KW))
		oh, ow := c.OutSize()
		y := guard(c.Batch * oh * ow * n)
		c.Y, c.Bias = y.x, normal(r, n)
		c.Scratch = Alloc(c.ScratchBytes(2))
		for i := range c.Scratch {
			c.Scratch[i] = 0xff // NaN
		}
		c.Run(pool)
		y.check(t, "Y", c.Batch*oh*ow, n, n)
		s := max(c.Stride, 1)
		xs, ws := stored(tensor.BF16, c.X), stored(tensor.BF16, w)
		for i := range y.x {
			o, px := i%n, i/n
			want, scale := float64(c.Bias[o]), 1.0
			for t := range c.KH * c.KW {
				iy, ix := px/ow%oh*s+t/c.KW-c.PadH, px%ow*s+t%c.KW-c.PadW
				if iy < 0 || iy >= c.H || ix < 0 || ix >= c.W {
					continue
				}
				for ch := range c.Cin {
					v := float64(xs[((px/(ow*oh)*c.H+iy)*c.W+ix)*c.Cin+ch])
					if c.ReLUIn {
						v = max(v, 0)
					}
					v *= float64(ws[(o*c.Cin+ch)*c.KH*c.KW+t])
					want, scale = want+v, scale+math.Abs(v)
				}
			}
			closeTo(t, y.x[i], want, scale, 1e-6, "convolution of %dx%dx%d, element %d", x.H, x.W, x.Cin, i)
		}
	}
}
