// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// The portable implementation, in plain Go: the fallback for machines without
// kernels, and readable equivalents of all of them. Products are rounded before
// they are added (the conversions below forbid fusing), so that it gives the same
// bits on every architecture.

// Its kernels are numbered before all others; see kernelID.call.
const (
	noKernel kernelID = iota
	portableF32x4
	portableF32x1
	portableF16x4
	portableF16x1
	firstAsm
)

var portableImpl = impl{
	isa: Portable, nr: panelN, sizes: []int{4, 1},
	kern: [3]kernelID{kF32: portableF32x4, kF16: portableF16x4},
}

func callPortable(id kernelID, k *kargs) {
	switch id {
	case portableF32x4:
		portableKernel(k, 4, false)
	case portableF32x1:
		portableKernel(k, 1, false)
	case portableF16x4:
		portableKernel(k, 4, true)
	case portableF16x1:
		portableKernel(k, 1, true)
	default:
		panic("gemm: no such kernel")
	}
}

// portableKernel computes rows x 32 elements. No pointer ever leaves its buffer,
// not even at the end of a loop: the garbage collector may look at any moment.
func portableKernel(k *kargs, rows int, half bool) {
	for i := range rows {
		copy(row32(k.c, i*int(k.ldc))[:], row32(k.ini, i*int(k.ldi))[:])
	}
	var wide [portableChunk][panelN]float32
	for r := range k.runs {
		a := unsafe.Add(k.a, *(*int64)(unsafe.Add(unsafe.Pointer(k.off), r*8)))
		for s := 0; s < k.steps; s += portableChunk {
			n := min(portableChunk, k.steps-s)
			b := wide[:n]
			first := r*k.steps + s
			if half {
				for j, h := range unsafe.Slice((*uint16)(unsafe.Add(k.b, first*panelN*2)), n*panelN) {
					b[j/panelN][j%panelN] = tensor.Float32FromF16(h)
				}
			} else {
				b = unsafe.Slice((*[panelN]float32)(unsafe.Add(k.b, first*panelN*4)), n)
			}
			for i := range rows {
				x := unsafe.Slice(at(unsafe.Add(a, i*int(k.lda)), s), n)
				c := row32(k.c, i*int(k.ldc))
				for j := 0; j < panelN; j += 8 {
					dot8((*[8]float32)(c[j:]), x, b, j)
				}
			}
		}
	}
}

// portableChunk is the number of steps whose float16 weights are widened at once,
// so that all rows share the cost.
const portableChunk = 32

func row32(p unsafe.Pointer, off int) *[panelN]float32 {
	return (*[panelN]float32)(unsafe.Add(p, off))
}

// dot8 adds x[k]*b[k][j:j+8] to c.
func dot8(c *[8]float32, x []float32, b [][panelN]float32, j int) {
	c0, c1, c2, c3, c4, c5, c6, c7 := c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
	for k, a := range x {
		w := (*[8]float32)(b[k][j:])
		c0 += float32(a * w[0])
		c1 += float32(a * w[1])
		c2 += float32(a * w[2])
		c3 += float32(a * w[3])
		c4 += float32(a * w[4])
		c5 += float32(a * w[5])
		c6 += float32(a * w[6])
		c7 += float32(a * w[7])
	}
	*c = [8]float32{c0, c1, c2, c3, c4, c5, c6, c7}
}

func gelu(x float32) float32 {
	return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
}

func relu(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x // NaN stays NaN
}

func portableEpilogue(e *eargs) {
	for i := range e.rows {
		t := row32(e.tile, i*tileLD*4)
		c := row32(e.c, i*int(e.ldc))
		for j, x := range t {
			if e.scale != nil {
				x *= *at(e.scale, i)
			}
			switch e.act {
			case ReLU:
				x = relu(x)
			case GELU:
				x = gelu(x)
			}
			if e.gamma != nil {
				x *= *at(e.gamma, j)
			}
			if e.res != nil {
				x = float32(x) + *at(unsafe.Add(e.res, i*int(e.ldr)), j)
			}
			c[j] = x
		}
	}
}

// portableSoftmax sums in float64: 16 partial sums, as the vector code has, would
// be as good, but this is simpler.
func portableSoftmax(e *sargs) {
	x := unsafe.Slice((*float32)(e.x), e.n)
	if e.mask != nil {
		for i, m := range unsafe.Slice((*float32)(e.mask), e.n) {
			x[i] += float32(m * math.Log2E)
		}
	}
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	sum := 0.0
	for i, v := range x {
		x[i] = float32(math.Exp2(float64(v - top)))
		sum += float64(x[i])
	}
	*at(e.sum, 0) = float32(sum)
}

// eachRow does the softmax of rows where the code for it knows one.
func eachRow(im *impl, s *sargs) {
	one := *s
	for i := range s.rows {
		one.x, one.sum = unsafe.Add(s.x, i*int(s.ld)), unsafe.Add(s.sum, i*4)
		softmaxRow(im, &one)
	}
}

func portableCopyRows(p *pargs) {
	for i := range p.n {
		*row32(p.dst, i*panelN*4) = *row32(p.src, i*int(p.lds))
	}
}

func portableAddRows(p *wargs) {
	for g := range p.n {
		y := row32(p.y, g*int(p.ldy))
		for k := range p.steps {
			x, b := *at(p.x, k), row32(p.b, k*int(p.ldb)+g*panelN*4)
			for j := range y {
				y[j] += float32(x * b[j])
			}
		}
	}
}

func portableBF16(dst unsafe.Pointer, src []float32) {
	out := unsafe.Slice((*uint16)(dst), len(src))
	for i, x := range src {
		out[i] = tensor.BF16FromFloat32(x)
	}
}

// portableUnpair widens n pairs of rows.
func portableUnpair(v *vargs) {
	for i := range v.n {
		pair := (*[panelN]uint32)(unsafe.Add(v.src, i*panelN*4))
		even, odd := row32(v.dst, 2*i*panelN*4), row32(v.dst, (2*i+1)*panelN*4)
		for j, x := range pair {
			even[j], odd[j] = math.Float32frombits(x<<16), math.Float32frombits(x&0xffff0000)
		}
	}
}

func portableReLU(dst, src []float32) {
	for i, x := range src {
		dst[i] = relu(x)
	}
}

func portableScale(dst, src []float32, scale float32) {
	for i, x := range src {
		dst[i] = x * scale
	}
}
