// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"math"
	"testing"
)

// nearestF16 searches the whole format for the nearest value: slow, obvious.
func nearestF16(f float64) uint16 {
	best, bestD := uint16(0), math.Inf(1)
	for h := 0; h < 0x7c00; h++ {
		v := float64(Float32FromF16(uint16(h)))
		d := math.Abs(v - f)
		if d < bestD || d == bestD && h&1 == 0 {
			best, bestD = uint16(h), d
		}
	}
	return best
}

func TestF16EveryValueRoundTrips(t *testing.T) {
	for h := 0; h < 1<<16; h++ {
		f := Float32FromF16(uint16(h))
		got := F16FromFloat32(f)
		if f != f {
			if got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
				t.Fatalf("NaN %#04x came back as %#04x", h, got)
			}
			continue
		}
		if got != uint16(h) {
			t.Fatalf("%#04x (%g) came back as %#04x", h, f, got)
		}
	}
}

func TestF16RoundsToNearestEven(t *testing.T) {
	for _, f := range []float32{1.0004883, 1.0014648, 0.1, 3.14159, 65504, 65519, 5.9e-8, 2.9e-8, 2.99e-8, 6.1e-5, 6.09e-5, 1e-7, 1234.5678} {
		if got, want := F16FromFloat32(f), nearestF16(float64(f)); got != want {
			t.Errorf("%g: got %#04x, want %#04x", f, got, want)
		}
	}
	// Every midpoint between neighbours must go to the even one.
	for h := 0; h < 0x7bff; h++ {
		mid := (float64(Float32FromF16(uint16(h))) + float64(Float32FromF16(uint16(h+1)))) / 2
		want := uint16(h + h&1)
		if got := F16FromFloat32(float32(mid)); got != want {
			t.Fatalf("midpoint above %#04x: got %#04x, want %#04x", h, got, want)
		}
	}
	if got := F16FromFloat32(65520); got != 0x7c00 {
		t.Errorf("65520: got %#04x, want infinity", got)
	}
}

// TestF16FromFloat64RoundsOnce: float32 on the way makes ties of numbers that are none.
func TestF16FromFloat64RoundsOnce(t *testing.T) {
	for h := 0; h < 0x7bff; h++ {
		low, high := float64(Float32FromF16(uint16(h))), float64(Float32FromF16(uint16(h+1)))
		mid := (low + high) / 2
		for _, x := range []struct {
			v    float64
			want int
		}{{mid, h + h&1}, {math.Nextafter(mid, low), h}, {math.Nextafter(mid, high), h + 1}, {low, h}} {
			for _, sign := range []float64{1, -1} {
				want := uint16(x.want)
				if sign < 0 {
					want |= 0x8000
				}
				if got := F16FromFloat64(sign * x.v); got != want {
					t.Fatalf("%v: got %#04x, want %#04x", sign*x.v, got, want)
				}
			}
		}
	}
	for v, want := range map[float64]uint16{
		65519.999: 0x7bff, 65520: 0x7c00, 1e300: 0x7c00, -1e300: 0xfc00, math.Inf(-1): 0xfc00, 5e-324: 0, math.Copysign(0, -1): 0x8000,
	} {
		if got := F16FromFloat64(v); got != want {
			t.Errorf("%v: got %#04x, want %#04x", v, got, want)
		}
	}
	if got := F16FromFloat64(math.NaN()); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
		t.Errorf("NaN: got %#04x", got)
	}
}

func TestBF16(t *testing.T) {
	for h := 0; h < 1<<16; h++ {
		f := Float32FromBF16(uint16(h))
		if f != f {
			continue
		}
		if got := BF16FromFloat32(f); got != uint16(h) {
			t.Fatalf("%#04x came back as %#04x", h, got)
		}
	}
	if got := BF16FromFloat32(math.Float32frombits(0x3f808000)); got != 0x3f80 {
		t.Errorf("tie below an odd neighbour: got %#04x, want 0x3f80", got)
	}
	if got := BF16FromFloat32(math.Float32frombits(0x3f818000)); got != 0x3f82 {
		t.Errorf("tie above an odd value: got %#04x, want 0x3f82", got)
	}
	if got := BF16FromFloat32(float32(math.NaN())); got&0x7fff <= 0x7f80 {
		t.Errorf("NaN became %#04x", got)
	}
}

func TestShape(t *testing.T) {
	s := Shape{2, 3, 4}
	if s.Numel() != 24 || s.String() != "[2,3,4]" || s.Strides()[0] != 12 {
		t.Errorf("shape %v: numel %d, strides %v", s, s.Numel(), s.Strides())
	}
	if (Shape{}).Numel() != 1 {
		t.Error("a scalar has one element")
	}
	if err := (Shape{1 << 40, 1 << 30}).Check(4); err == nil {
		t.Error("an overflowing shape passed Check")
	}
	if err := (Shape{3, -1}).Check(4); err == nil {
		t.Error("a negative dimension passed Check")
	}
	if err := (Shape{0, 1 << 40, 1 << 40}).Check(4); err != nil {
		t.Errorf("an empty tensor is fine, got %v", err)
	}
}
