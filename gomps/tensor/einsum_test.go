// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// plainEinsum sums over all values of all letters.
func plainEinsum(spec string, in []Array) Array {
	left, out, _ := strings.Cut(spec, "->")
	terms := strings.Split(left, ",")
	size := map[byte]int{}
	var letters []byte
	for i, t := range terms {
		for d := range t {
			if _, ok := size[t[d]]; !ok {
				letters = append(letters, t[d])
			}
			size[t[d]] = in[i].Shape[d]
		}
	}
	at := map[byte]int{}
	flat := func(t string) int {
		k := 0
		for d := range t {
			k = k*size[t[d]] + at[t[d]]
		}
		return k
	}
	y := Array{Shape: []int{}}
	n := 1
	for d := range out {
		y.Shape = append(y.Shape, size[out[d]])
		n *= size[out[d]]
	}
	sum := make([]float64, n)
	var walk func(i int)
	walk = func(i int) {
		if i == len(letters) {
			p := 1.0
			for k, t := range terms {
				p *= float64(in[k].Data[flat(t)])
			}
			sum[flat(out)] += p
			return
		}
		for v := range size[letters[i]] {
			at[letters[i]] = v
			walk(i + 1)
		}
	}
	walk(0)
	y.Data = make([]float32, n)
	for i, v := range sum {
		y.Data[i] = float32(v)
	}
	return y
}

func TestEinsum(t *testing.T) {
	cases := []struct {
		spec string
		in   []Array
	}{
		{"ij,jk->ik", []Array{wave(3, 4), wave(4, 5)}},
		{"ij,kj->ik", []Array{wave(3, 4), wave(5, 4)}},
		{"ij,jk->ki", []Array{wave(3, 4), wave(4, 5)}},
		{"bij,bjk->bik", []Array{wave(2, 3, 4), wave(2, 4, 5)}},
		{"bhid,bhjd->bhij", []Array{wave(2, 2, 3, 4), wave(2, 2, 5, 4)}},
		{"bhij,bhjd->bihd", []Array{wave(2, 2, 3, 4), wave(2, 2, 4, 5)}},
		{"bid,de->bie", []Array{wave(2, 3, 4), wave(4, 6)}},
		{"i,j->ij", []Array{wave(3), wave(4)}},
		{"i,i->", []Array{wave(5), wave(5)}},
		{"ij,ij->i", []Array{wave(3, 4), wave(3, 4)}},
		{"ijx,jky->ik", []Array{wave(3, 4, 2), wave(4, 5, 3)}},
		{"ij->ji", []Array{wave(3, 4)}},
		{"ij->", []Array{wave(3, 4)}},
		{"ii->i", []Array{wave(4, 4)}},
		{"ii->", []Array{wave(4, 4)}},
		{"bii->b", []Array{wave(2, 3, 3)}},
		{"iji->j", []Array{wave(3, 4, 3)}},
		{"iii->i", []Array{wave(3, 3, 3)}},
		// Rows that the CPU would pad, were they not a factor.
		{"ij,jk->ik", []Array{wave(2, 3), wave(3, 512)}},
		{"ji,jk->ik", []Array{wave(512, 2), wave(512, 3)}},
	}
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		for _, x := range cases {
			var in []*Tensor
			for _, a := range x.in {
				in = append(in, keep(c.FromFloat32s(a.Data, a.Shape...)))
			}
			want := plainEinsum(x.spec, x.in)
			y := keep(c.Einsum(x.spec, in...))
			got := must[[]float32](t)(y.Float32s())
			if len(got) != len(want.Data) || !y.shape.Equal(want.Shape) {
				t.Fatalf("%s: shape %v, want %v", x.spec, y.shape, want.Shape)
			}
			for i, w := range want.Data {
				if d := math.Abs(float64(got[i] - w)); !(d <= 1e-4) {
					t.Fatalf("%s: element %d is %v, want %v", x.spec, i, got[i], w)
				}
			}
		}
	})
}

func TestEinsumErrors(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		a, b := keep(c.Zeros(F32, 3, 4)), keep(c.Zeros(F32, 5, 4))
		for _, x := range []struct {
			spec string
			in   []*Tensor
			want error
			text string
		}{
			{"ij,jk->ik", []*Tensor{a, b}, ErrShape, "j is 4 in [3,4] and 5 in [5,4]"},
			{"ijk,jk->i", []*Tensor{a, b}, ErrShape, "3 dimensions"},
			{"ij,kj", []*Tensor{a, b}, ErrOption, "result"},
			{"ij->ik", []*Tensor{a}, ErrOption, "k of the result"},
			{"ij->ii", []*Tensor{a}, ErrOption, "once"},
			{"i1->i", []*Tensor{a}, ErrOption, "no letter"},
			{"ij->i", []*Tensor{a, b}, ErrOption, "of 2 tensors"},
			{"ij,jk,kl->il", []*Tensor{a, b, b}, ErrOption, "one or two"},
			{"ij->i", []*Tensor{nil}, ErrReleased, "operand 0"},
		} {
			if _, err := c.Einsum(x.spec, x.in...); !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.text) {
				t.Errorf("%s: %v, want %v with %q", x.spec, err, x.want, x.text)
			}
		}
	})
}
