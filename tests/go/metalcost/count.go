// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"fmt"
	"maps"
	"slices"
)

// class is what a node does, as far as its cost goes.
type class int

const (
	product     class = iota // matrix products, convolutions, attention: has FLOPs
	elementwise              // one result element from one element of each operand
	statistic                // reductions, softmax, normalisation
	moving                   // rearranges elements
	transposing
	casting
	viewing // nothing
)

// classes of MPSGraph's operations; one that is missing fails the count, so that
// a new operation of the lowering is not taken for nothing.
var classes = map[string]class{
	"matrixMultiplication": product, "convolution2D": product, "scaledDotProductAttention": product,
	"convolutionTranspose2D": product,

	"addition": elementwise, "subtraction": elementwise, "multiplication": elementwise, "division": elementwise,
	"maximum": elementwise, "minimum": elementwise, "reLU": elementwise, "erf": elementwise, "exponent": elementwise,
	"squareRoot": elementwise, "square": elementwise, "absolute": elementwise, "lessThan": elementwise,
	"select": elementwise, "tanh": elementwise, "maximumWithNaNPropagation": elementwise, "minimumWithNaNPropagation": elementwise,

	"mean": statistic, "variance": statistic, "reductionSum": statistic, "softMax": statistic, "normalization": statistic,

	"slice": moving, "concat": moving, "reverse": moving, "depthToSpace2D": moving, "broadcast": moving,
	"identity": moving, "pad": moving, "resize": moving, "resizeBilinear": moving, "gather": moving,

	"transpose": transposing, "cast": casting, "reshape": viewing,
}

// counts are the nodes of one program or of several.
type counts struct {
	kinds map[string]int
	// nodes are all; what is not among the others computes.
	nodes, transposes, weightTransposes, casts, moves, reshapes int
	// copies are reshapes of what a transpose has made, or a slice that is not
	// packed: the compiler cannot leave the elements where they are and read them
	// with strides.
	copies int
	// emitted and stitched are the kernels under the two rules.
	emitted, stitched []kernel
}

// kernel is one dispatch.
type kernel struct {
	flops float64
	bytes int64
}

// milliseconds is the roofline: a GPU computes and moves at the same time, so that
// a kernel takes the longer of both. One after the other, for the nodes of a
// network mostly wait for each other.
func milliseconds(list []kernel, tflops, gbps float64) (ms float64) {
	for _, k := range list {
		ms += 1e3 * max(k.flops/(tflops*1e12), float64(k.bytes)/(gbps*1e9))
	}
	return ms
}

func bytesOf(list []kernel) (n int64) {
	for _, k := range list {
		n += k.bytes
	}
	return n
}

func flopsOf(list []kernel) (n float64) {
	for _, k := range list {
		n += k.flops
	}
	return n
}

// plus adds what another program of the same run does. Programs share a command
// buffer and no kernel.
func (c counts) plus(d counts) counts {
	sum := c
	sum.kinds = map[string]int{}
	for _, m := range []map[string]int{c.kinds, d.kinds} {
		for k, n := range m {
			sum.kinds[k] += n
		}
	}
	sum.nodes += d.nodes
	sum.transposes += d.transposes
	sum.weightTransposes += d.weightTransposes
	sum.casts += d.casts
	sum.moves += d.moves
	sum.reshapes += d.reshapes
	sum.copies += d.copies
	sum.emitted = append(sum.emitted[:len(sum.emitted):len(sum.emitted)], d.emitted...)
	sum.stitched = append(sum.stitched[:len(sum.stitched):len(sum.stitched)], d.stitched...)
	return sum
}

// count applies the rules of the package's documentation.
func (p *program) count() (counts, error) {
	c := counts{kinds: map[string]int{}}
	for _, n := range p.nodes {
		k, ok := classes[n.kind]
		if !ok {
			return c, fmt.Errorf("metalcost: operation %q has no class", n.kind)
		}
		c.kinds[n.kind]++
		c.nodes++
		switch k {
		case transposing:
			if p.free(n) {
				c.weightTransposes++
			} else {
				c.transposes++
			}
		case casting:
			c.casts++
		case moving:
			c.moves++
		case viewing:
			c.reshapes++
			if m := p.values[n.in[0]].maker; m != nil && p.scattered(m) {
				c.copies++
			}
		}
	}
	each := make([]int, len(p.nodes))
	for i := range each {
		each[i] = i
	}
	c.emitted = p.kernels(each)
	c.stitched = p.kernels(p.stitch())
	return c, nil
}

// scattered says whether a result without a copy would have gaps.
func (p *program) scattered(n *node) bool {
	switch n.kind {
	case "transpose":
		return !p.free(n)
	case "slice":
		in, out := p.values[n.in[0]].shape, p.values[n.out[0]].shape
		i := 0
		for i < len(out) && out[i] == 1 {
			i++
		}
		return i+1 < len(out) && !slices.Equal(in[i+1:], out[i+1:])
	}
	return false
}

// free says whether a node dispatches nothing: a reshape of packed elements is
// another reading of the same bytes, and a product takes a transposed factor by
// its strides. That holds for a weight only: what a transpose of an activation
// feeds (attention, a reshape that joins the heads) wants it in order.
func (p *program) free(n *node) bool {
	if classes[n.kind] == viewing {
		return true
	}
	if n.kind != "transpose" || !p.isWeight(n.in[0]) {
		return false
	}
	for _, r := range p.values[n.out[0]].readers {
		if r.kind != "matrixMultiplication" {
			return false
		}
	}
	return true
}

// isWeight says whether a value is fed, perhaps in another type.
func (p *program) isWeight(id int) bool {
	v := p.values[id]
	for v.maker != nil && v.maker.kind == "cast" {
		v = p.values[v.maker.in[0]]
	}
	return v.placeholder
}

// origin is the value that a value is a view of: bytes are counted once for all
// its views.
func (p *program) origin(id int) int {
	for m := p.values[id].maker; m != nil && p.free(m); m = p.values[id].maker {
		id = m.in[0]
	}
	return id
}

// readers are the nodes that read a value or a view of it; out says whether
// it is a result of the program.
func (p *program) readers(id int) (list []*node, out bool) {
	out = p.targets[id]
	for _, r := range p.values[id].readers {
		if !p.free(r) {
			list = append(list, r)
			continue
		}
		more, o := p.readers(r.out[0])
		list, out = append(list, more...), out || o
	}
	return list, out
}

// stitch groups the nodes: a node joins the elementwise nodes that read it if
// nobody else does, so that its result need not be stored. A group has one node
// at most that is not elementwise, its first: elementwise nodes follow in its
// epilogue, while what runs before a product would run once for every tile of it.
// Moves join nothing; they are copies by nature.
func (p *program) stitch() []int {
	group := make([]int, len(p.nodes))
	heavy := make([]bool, len(p.nodes)) // by group
	members := make([][]int, len(p.nodes))
	for i, n := range p.nodes {
		group[i], members[i] = i, []int{i}
		heavy[i] = !p.light(n)
	}
	// A value with two readers joins only when both are in one group already, as in
	// x*erf(x): hence until nothing changes. Groups stay convex, for all that a
	// member feeds is in the group, but for the last one.
	for changed := true; changed; {
		changed = false
		// Backwards, so that a chain is whole before what feeds it is looked at.
		for i := len(p.nodes) - 1; i >= 0; i-- {
			n := p.nodes[i]
			if p.free(n) || len(n.out) != 1 || classes[n.kind] == moving || classes[n.kind] == transposing {
				continue
			}
			readers, out := p.readers(n.out[0])
			if out || len(readers) == 0 {
				continue
			}
			to := group[readers[0].index]
			ok := to != group[i] && !(heavy[to] && heavy[group[i]])
			for _, r := range readers {
				ok = ok && p.light(r) && group[r.index] == to
			}
			if !ok {
				continue
			}
			from := group[i]
			for _, m := range members[from] {
				group[m] = to
			}
			members[to] = append(members[to], members[from]...)
			heavy[to] = heavy[to] || heavy[from]
			changed = true
		}
	}
	return group
}

func (p *program) light(n *node) bool {
	return classes[n.kind] == elementwise || classes[n.kind] == casting
}

// kernels adds up each group: operands from outside once, results that somebody
// outside reads once.
func (p *program) kernels(group []int) []kernel {
	type sets struct {
		flops   float64
		in, out map[int]bool
	}
	all := map[int]*sets{}
	var order []int
	for i, n := range p.nodes {
		if p.free(n) {
			continue
		}
		g := group[i]
		s := all[g]
		if s == nil {
			s = &sets{in: map[int]bool{}, out: map[int]bool{}}
			all[g] = s
			order = append(order, g)
		}
		s.flops += n.flops
		for _, id := range n.in {
			// A value that several nodes of a kernel read is loaded once.
			id = p.origin(id)
			if m := p.values[id].maker; m == nil || group[m.index] != g {
				s.in[id] = true
			}
		}
		for _, id := range n.out {
			readers, out := p.readers(id)
			for _, r := range readers {
				out = out || group[r.index] != g
			}
			if out {
				s.out[id] = true
			}
		}
	}
	list := make([]kernel, len(order))
	for i, g := range order {
		k := kernel{flops: all[g].flops}
		for _, m := range []map[int]bool{all[g].in, all[g].out} {
			for id := range maps.Keys(m) {
				k.bytes += p.values[id].bytes
			}
		}
		if n := p.nodes[g]; n.kind == "slice" { // reads no more than it keeps
			k.bytes = 2 * p.values[n.out[0]].bytes
		}
		list[i] = k
	}
	return list
}
