// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// eachISA runs a test with every instruction set of this machine.
func eachISA(t *testing.T, f func(t *testing.T)) {
	was := Active()
	defer func() { _ = Force(was) }()
	for _, i := range ISAs() {
		if err := Force(i); err != nil {
			t.Fatal(err)
		}
		t.Run(i.String(), f)
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// canary fills the surroundings of guarded buffers: a NaN with a payload, so that
// reading it spoils a result and writing over it shows.
const canary = 0x7fc12345

// guarded is a buffer of n floats between canaries.
type guarded struct {
	all []float32
	x   []float32
}

func guard(n int) guarded {
	const g = 64
	all := make([]float32, n+2*g)
	for i := range all {
		all[i] = math.Float32frombits(canary)
	}
	return guarded{all, all[g : g+n : g+n]}
}

// fill puts random values into rows of n, ld apart, and leaves the canaries in
// the gaps.
func (g guarded) fill(r *rand.Rand, rows, n, ld int) guarded {
	for i := range rows {
		for j := range n {
			g.x[i*ld+j] = float32(r.NormFloat64())
		}
	}
	return g
}

// check fails if anything but rows of n, ld apart, was written.
func (g guarded) check(t *testing.T, what string, rows, n, ld int) {
	t.Helper()
	for i, v := range g.all {
		o := i - 64
		if o >= 0 && o < len(g.x) && o/ld < rows && o%ld < n {
			continue
		}
		if math.Float32bits(v) != canary {
			t.Fatalf("%s: wrote %v outside, at %d (%d rows of %d, stride %d)", what, v, o, rows, n, ld)
		}
	}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// stored returns x as it is after storage in type d.
func stored(d tensor.DType, x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		switch d {
		case tensor.F16:
			y[i] = tensor.Float32FromF16(tensor.F16FromFloat32(v))
		case tensor.BF16:
			y[i] = tensor.Float32FromBF16(tensor.BF16FromFloat32(v))
		default:
			y[i] = v
		}
	}
	return y
}

// types lists the storage types that the active instruction set multiplies.
func types() []tensor.DType {
	var r []tensor.DType
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		if Supports(d) {
			r = append(r, d)
		}
	}
	return r
}

func mustPack(t testing.TB, d tensor.DType, n, k, batch int, s Source) *Packed {
	t.Helper()
	size, err := PackedSize(d, n, k)
	if err != nil {
		t.Fatal(err)
	}
	buf := Alloc(size * batch)
	for i := range buf {
		buf[i] = 0xff // a value left over would be a NaN
	}
	p, err := NewPacked(d, n, k, batch, buf)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pack(nil, s); err != nil {
		t.Fatal(err)
	}
	return p
}

// closeTo fails unless |got-want| <= tol*scale, where scale bounds the terms that
// were added up to make want. The name of the case is formatted on failure only,
// since formatting would take longer than the computation.
func closeTo(t *testing.T, got float32, want, scale, tol float64, format string, args ...any) {
	if d := math.Abs(float64(got) - want); !(d <= tol*scale) {
		t.Helper()
		t.Fatalf("%s: got %v, want %v, off by %.2g, allowed %.2g", fmt.Sprintf(format, args...), got, want, d, tol*scale)
	}
}

func sameBits(t *testing.T, what string, a, b []float32) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%s: %d and %d values", what, len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("%s: element %d: %v and %v differ", what, i, a[i], b[i])
		}
	}
}

func refGELU(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }

func refEpilogue(e *Epilogue, x float64, i, j int) float64 {
	switch e.Act {
	case ReLU:
		x = max(x, 0)
	case GELU:
		x = refGELU(x)
	}
	if e.Gamma != nil {
		x *= float64(e.Gamma[j])
	}
	if e.Res != nil {
		x += float64(e.Res[i*e.LDR+j])
	}
	return x
}

// pools are the thread counts whose results must agree bit for bit.
func pools(t *testing.T) []*par.Pool {
	var ps []*par.Pool
	for _, n := range []int{1, 2, 3} {
		p := par.New(n)
		t.Cleanup(p.Close)
		ps = append(ps, p)
	}
	return ps
}

// rounds is the number of random cases: fewer in short mode, for the slow builds
// that check races and pointers. The fixed cases come first and always run.
func rounds(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}
