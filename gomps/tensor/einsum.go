// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Einsum is Einstein's summation over one or two tensors, with the result
// written out: "ij,jk->ik", "bhid,bhjd->bhij", "ii->i", "ij->".
//
// A letter names a dimension. Letters that the result lacks are summed over; one
// that repeats within a tensor takes the diagonal. Two tensors become one
// product of matrices: the letters of both and the result are its batch, those
// of both that the result lacks are summed.
func (c *Context) Einsum(spec string, in ...*Tensor) (*Tensor, error) {
	if err := given("einsum "+spec, in...); err != nil {
		return nil, err
	}
	e, err := parseEinsum(spec, in)
	if err != nil {
		return nil, err
	}
	return c.compute("einsum "+spec, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		a := e.reduced(g, term{in[0], e.in[0]})
		if len(in) == 2 {
			a = e.product(g, a, e.reduced(g, term{in[1], e.in[1]}))
		}
		return a.in(g, e.out).node
	}, in...)
}

// einsum is a parsed specification.
type einsum struct {
	in  []string
	out string
}

// term is a value and the letters of its dimensions.
type term struct {
	node    *graph.Node
	letters string
}

func parseEinsum(spec string, in []*Tensor) (*einsum, error) {
	left, out, ok := strings.Cut(strings.ReplaceAll(spec, " ", ""), "->")
	e := &einsum{in: strings.Split(left, ","), out: out}
	if !ok || len(e.in) > 2 {
		return nil, refuse(ErrOption, "einsum %q, want one or two tensors and the result, as in ij,jk->ik", spec)
	}
	if len(in) != len(e.in) {
		return nil, refuse(ErrOption, "einsum %q of %d tensors, want %d", spec, len(in), len(e.in))
	}
	// Every letter has one size, wherever it stands; the error about one that has two
	// names both tensors.
	size := map[rune]int{}
	from := map[rune]int{} // the tensor that size comes from
	for i, letters := range e.in {
		if len(letters) != len(in[i].shape) {
			return nil, refuse(ErrShape, "einsum %q: tensor %d is %v, want %d dimensions", spec, i, in[i].shape, len(letters))
		}
		for d, l := range letters {
			if l < 'A' || l > 'z' || l > 'Z' && l < 'a' {
				return nil, refuse(ErrOption, "einsum %q: %q is no letter", spec, l)
			}
			n, seen := size[l]
			if seen && n != in[i].shape[d] {
				return nil, refuse(ErrShape, "einsum %q: %c is %d in %v and %d in %v", spec, l, n, in[from[l]].shape, in[i].shape[d], in[i].shape)
			}
			size[l], from[l] = in[i].shape[d], i
		}
	}
	for i, l := range out {
		if _, ok := size[l]; !ok || strings.ContainsRune(out[:i], l) {
			return nil, refuse(ErrOption, "einsum %q: %c of the result must stand in a tensor, and once in the result", spec, l)
		}
	}
	return e, nil
}

// reduced takes diagonals and sums what neither the result nor the other tensor
// needs.
func (e *einsum) reduced(g *graph.Graph, t term) term {
	for i := 0; i < len(t.letters); i++ {
		if j := strings.IndexByte(t.letters[i+1:], t.letters[i]); j >= 0 {
			t = t.diagonal(g, i, i+1+j)
			i = -1 // the positions have moved
		}
	}
	var gone []int
	kept := ""
	for i, l := range t.letters {
		needed := strings.ContainsRune(e.out, l)
		if len(e.in) == 2 {
			needed = needed || strings.ContainsRune(e.in[0], l) && strings.ContainsRune(e.in[1], l)
		}
		if needed {
			kept += string(l)
		} else {
			gone = append(gone, i)
		}
	}
	if len(gone) > 0 {
		t = term{g.Add(graph.Reduce{Axes: gone}, t.node), kept}
	}
	return t
}

// diagonal of dimensions i and j, put last: every n+1-th element of n*n.
func (t term) diagonal(g *graph.Graph, i, j int) term {
	n := t.node.Shape[i]
	perm, letters, shape := []int{}, "", []int{}
	for d := range t.letters {
		if d != i && d != j {
			perm, letters, shape = append(perm, d), letters+t.letters[d:d+1], append(shape, t.node.Shape[d])
		}
	}
	y := g.Reshape(g.Transpose(t.node, append(perm, i, j)...), append(shape, n*n)...)
	at := make([]int, n)
	for k := range at {
		at[k] = k * (n + 1)
	}
	return term{g.Add(graph.Gather{Axis: len(shape)}, y, indices(g, at)), letters + t.letters[i:i+1]}
}

// in orders the dimensions as letters says, which are those of t.
func (t term) in(g *graph.Graph, letters string) term {
	if t.letters == letters {
		return t
	}
	perm := make([]int, len(letters))
	for i, l := range letters {
		perm[i] = strings.IndexRune(t.letters, l)
	}
	return term{g.Transpose(t.node, perm...), letters}
}

// product is one batched product of matrices, which is the fastest thing that both
// backends have: [batch, left, sum] x [batch, right, sum]^T, each group of letters
// one dimension.
func (e *einsum) product(g *graph.Graph, a, b term) term {
	var batch, sum, left, right string
	for _, l := range a.letters {
		switch {
		case !strings.ContainsRune(b.letters, l):
			left += string(l)
		case strings.ContainsRune(e.out, l):
			batch += string(l)
		default:
			sum += string(l)
		}
	}
	for _, l := range b.letters {
		if !strings.ContainsRune(a.letters, l) {
			right += string(l)
		}
	}
	a, b = a.in(g, batch+left+sum), b.in(g, batch+right+sum)
	sizes := func(n *graph.Node, from, count int) (dims []int, product int) {
		dims, product = n.Shape[from:from+count], 1
		for _, d := range dims {
			product *= d
		}
		return dims, product
	}
	bd, bn := sizes(a.node, 0, len(batch))
	ld, ln := sizes(a.node, len(batch), len(left))
	_, sn := sizes(a.node, len(batch)+len(left), len(sum))
	rd, rn := sizes(b.node, len(batch), len(right))
	y := g.Add(graph.MatMul{TransB: true}, g.Reshape(a.node, bn, ln, sn), g.Reshape(b.node, bn, rn, sn))
	return term{g.Reshape(y, slices.Concat(bd, ld, rd)...), batch + left + right}
}
