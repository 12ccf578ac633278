// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// encode stores values as d, beginning at an odd address: files may be hostile.
func encode(d tensor.DType, x []float32) []byte {
	b := make([]byte, len(x)*d.Size()+1)[1:]
	if uintptr(unsafe.Pointer(&b[0]))%2 == 0 {
		panic("test wants an odd address")
	}
	for i, v := range x {
		switch d {
		case tensor.F32:
			binary.LittleEndian.PutUint32(b[i*4:], math.Float32bits(v))
		case tensor.F16:
			binary.LittleEndian.PutUint16(b[i*2:], tensor.F16FromFloat32(v))
		case tensor.BF16:
			binary.LittleEndian.PutUint16(b[i*2:], tensor.BF16FromFloat32(v))
		case tensor.F64:
			binary.LittleEndian.PutUint64(b[i*8:], math.Float64bits(float64(v)))
		}
	}
	return b
}

// element reads W[n][k] back from its panel, following the layout of the package
// comment and nothing else.
func element(p *Packed, b, n, k int) float32 {
	q := p.data[b*p.stride+n/32*p.panel:]
	j := n % 32
	switch p.Type {
	case tensor.F16:
		return tensor.Float32FromF16(binary.LittleEndian.Uint16(q[(k*32+j)*2:]))
	case tensor.BF16:
		return tensor.Float32FromBF16(binary.LittleEndian.Uint16(q[(k/2*64+j*2+k%2)*2:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(q[(k*32+j)*4:]))
}

func TestPack(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(11)
		for range rounds(40) {
			taps := 1 + r.IntN(3)*r.IntN(5)
			inner, n, batch := 1+r.IntN(90), 1+r.IntN(100), 1+r.IntN(2)
			if taps > 1 {
				inner = 1 + inner/4
			}
			k := taps * inner
			x := normal(r, batch*n*k)
			for _, from := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64} {
				for _, to := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
					checkPack(t, pool, r, from, to, n, taps, inner, batch, x)
				}
			}
		}
	})
}

func checkPack(t *testing.T, pool *par.Pool, r *rand.Rand, from, to tensor.DType, n, taps, inner, batch int, x []float32) {
	t.Helper()
	k := taps * inner
	data := encode(from, x)
	s := Filters(data, from, inner, taps)
	if taps == 1 {
		s = Rows(data, from, k)
		if r.IntN(2) == 0 {
			s = Columns(data, from, n)
		}
	}
	s.StrideB = n * k
	size, err := PackedSize(to, n, k)
	if err != nil {
		t.Fatal(err)
	}
	g := guard(size * batch / 4)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&g.x[0])), size*batch)
	p, err := NewPacked(to, n, k, batch, buf)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pack(pool, s); err != nil {
		t.Fatal(err)
	}
	g.check(t, "panel", 1, size*batch/4, size*batch/4)
	want := stored(to, stored(from, x))
	for b := range batch {
		for j := range (n + 31) / 32 * 32 {
			for q := range p.steps() * p.stepSize {
				v := float32(0)
				if j < n && q < k {
					v = want[b*n*k+j*s.StrideN+q/inner*s.StrideTap+q%inner*s.StrideC]
				}
				if got := element(p, b, j, q); got != v {
					t.Fatalf("%v to %v, [%d][%d], %d taps, batch %d: element %d,%d,%d is %v, want %v",
						from, to, n, k, taps, batch, b, j, q, got, v)
				}
			}
		}
	}
}

// Infinities, NaNs, subnormals and ties survive packing exactly as the scalar
// conversions make them.
// A matrix packed part by part is the matrix packed at once.
func TestPackParts(t *testing.T) {
	const k = 37
	r := rng(5)
	for _, n := range []int{1, 32, 64, 100, 131} {
		src := encode(tensor.F32, normal(r, n*k))
		for _, to := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			size, err := PackedSize(to, n, k)
			if err != nil {
				t.Fatal(err)
			}
			var packed [2]*Packed
			for i := range packed {
				if packed[i], err = NewPacked(to, n, k, 1, Alloc(size)); err != nil {
					t.Fatal(err)
				}
			}
			if err := packed[0].Pack(nil, Rows(src, tensor.F32, k)); err != nil {
				t.Fatal(err)
			}
			for n0 := 0; n0 < n; n0 += 2 * PanelRows {
				part, err := packed[1].Part(n0, min(n0+2*PanelRows, n))
				if err != nil {
					t.Fatal(err)
				}
				if err := part.Pack(nil, Rows(src[n0*k*4:], tensor.F32, k)); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(packed[0].data, packed[1].data) {
				t.Errorf("%v [%d][%d]: in parts other bytes than at once", to, n, k)
			}
			for _, bad := range [][2]int{{-32, 32}, {0, 0}, {0, n + 1}, {1, n}, {32, 32}} {
				if _, err := packed[0].Part(bad[0], bad[1]); !errors.Is(err, ErrShape) {
					t.Errorf("part %v of %d rows: %v", bad, n, err)
				}
			}
		}
	}
}

func TestPackSpecialValues(t *testing.T) {
	bits := []uint32{0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x477fefff, 0x477ff000, 0x477fe000,
		0x33000000, 0x33000001, 0x38800000, 0x387fffff, 0x3f801000, 0x3f803000, 0x3f800fff, 0x3f808000, 0x3f818000}
	x := make([]float32, 64)
	for i := range x {
		x[i] = math.Float32frombits(bits[i%len(bits)])
	}
	eachISA(t, func(t *testing.T) {
		for _, to := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			p := mustPack(t, to, 1, 64, 1, Rows(Bytes(x), tensor.F32, 64))
			for i, want := range stored(to, x) {
				got := element(p, 0, 0, i)
				if got != want && !(got != got && want != want) || math.Signbit(float64(got)) != math.Signbit(float64(want)) {
					t.Errorf("%v: %x packed as %v, want %v", to, math.Float32bits(x[i]), got, want)
				}
			}
		}
	})
}

func TestPackErrors(t *testing.T) {
	for _, x := range []struct{ n, k int }{{0, 1}, {1, 0}, {-1, 5}, {math.MaxInt, 2}, {math.MaxInt / 2, math.MaxInt / 2}, {1, math.MaxInt}} {
		if _, err := PackedSize(tensor.F32, x.n, x.k); !errors.Is(err, ErrShape) {
			t.Errorf("PackedSize(%d, %d): error %v", x.n, x.k, err)
		}
	}
	if _, err := PackedSize(tensor.I8, 1, 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("PackedSize of i8: error %v", err)
	}
	buf := Alloc(32 * 8 * 4)
	if _, err := NewPacked(tensor.F32, 5, 8, 1, buf[:len(buf)-1]); !errors.Is(err, ErrShape) {
		t.Errorf("short buffer: error %v", err)
	}
	if _, err := NewPacked(tensor.F32, 5, 8, 0, buf); !errors.Is(err, ErrShape) {
		t.Errorf("no batch: error %v", err)
	}
	if _, err := NewPacked(tensor.F32, 5, 7, 1, buf[1:]); !errors.Is(err, ErrShape) {
		t.Errorf("odd buffer: error %v", err)
	}
	p, err := NewPacked(tensor.F32, 5, 8, 1, buf)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 5*8*4)
	for name, s := range map[string]Source{
		"short":    Rows(data[:len(data)-1], tensor.F32, 8),
		"empty":    Rows(nil, tensor.F32, 0),
		"integer":  Rows(data, tensor.I32, 8),
		"negative": Rows(data, tensor.F32, -1),
		"huge":     Rows(data, tensor.F32, math.MaxInt),
		"wrap":     {Data: data, Type: tensor.F32, StrideN: math.MaxInt / 4, StrideC: math.MaxInt / 7},
		"taps":     Filters(data, tensor.F32, 2, 3),
	} {
		if err := p.Pack(nil, s); !errors.Is(err, ErrShape) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := p.Pack(nil, Rows(data, tensor.F32, 8)); err != nil {
		t.Errorf("exact source: %v", err)
	}
}

// Whatever shape and strides a damaged file leads to, packing refuses or stays
// inside its memory.
func FuzzPack(f *testing.F) {
	f.Add(uint8(tensor.F32), 5, 8, 1, 8, 1, 0, 0, 0, 160)
	f.Add(uint8(tensor.F16), 33, 18, 2, 18, 9, 9, 1, 594, 2400)
	f.Add(uint8(tensor.BF16), 3, 7, 1, 1, 3, 0, 0, 0, 42)
	f.Add(uint8(tensor.F64), 1, 1, 1, math.MaxInt, 1, 1, math.MaxInt, 1, 8)
	f.Fuzz(func(t *testing.T, typ uint8, n, k, batch, sn, sc, taps, st, sb, size int) {
		if size < 0 || size > 1<<16 {
			return
		}
		for _, to := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			bytes, err := PackedSize(to, n, k)
			if err != nil || bytes > 1<<18 || batch < 1 || batch > 4 {
				continue
			}
			p, err := NewPacked(to, n, k, batch, Alloc(bytes*batch))
			if err != nil {
				t.Fatal(err)
			}
			_ = p.Pack(nil, Source{Data: make([]byte, size), Type: tensor.DType(typ),
				StrideN: sn, StrideC: sc, Taps: taps, StrideTap: st, StrideB: sb})
		}
	})
}

func BenchmarkPack(b *testing.B) {
	const n, k = 4096, 1024
	pool := par.New(0)
	defer pool.Close()
	x := normal(rng(1), n*k)
	for _, from := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		data := encode(from, x)
		for _, to := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			b.Run(fmt.Sprintf("%v-%v", from, to), func(b *testing.B) {
				size, _ := PackedSize(to, n, k)
				p, err := NewPacked(to, n, k, 1, Alloc(size))
				if err != nil {
					b.Fatal(err)
				}
				cpu := cpuTime()
				for b.Loop() {
					if err := p.Pack(pool, Rows(data, from, k)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*k), "ns/weight")
				b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/(n*k), "cpu-ns/weight")
			})
		}
	}
}
