// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestHostileCalls gives every operation wrong attributes and operands of wrong
// shapes: whatever comes back, nothing panics and nothing stays behind.
func TestHostileCalls(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		numbers := []float64{-1 << 53, -1000, -3, -2, -1, 0, 1, 2, 3, 4, 7, 100, 1 << 42, 1 << 53}
		rounds := 12
		if c.Stats().Device.Backend != "cpu" {
			// What no device could hold is refused by the CPU's allocator at once; a
			// simulator would try.
			numbers, rounds = numbers[1:12], 4
		}
		r := rand.New(rand.NewPCG(11, 12))
		number := func() float64 { return numbers[r.IntN(len(numbers))] }
		keep := keeper(t)
		var shapes []*Tensor
		for _, s := range [][]int{{}, {1}, {0, 3}, {4}, {3, 4}, {2, 2, 3}, {1, 2, 5, 4}, {1, 1, 2, 2, 2}} {
			shapes = append(shapes, keep(c.Zeros(F32, s...)), keep(c.Zeros(F16, s...)))
		}
		shapes = append(shapes, keep(c.Zeros(I32, 3)), keep(c.Zeros(I32)))
		live := c.Stats().LiveTensors
		worked := 0
		for _, op := range Operations() {
			sig := named[op.Name].sig
			first := samples()[op.Name][0]
			for range rounds * (1 + len(sig.attributes)) {
				a := maps.Clone(first.attributes)
				if a == nil {
					a = Attributes{}
				}
				for _, d := range sig.attributes {
					switch {
					case r.IntN(2) == 0:
					case d.kind == "ints":
						list := make([]any, r.IntN(5))
						for i := range list {
							list[i] = number()
						}
						a[d.name] = list
					case d.kind != "string":
						a[d.name] = number()
					}
				}
				keepCall := keeper(t)
				in := make([]*Tensor, max(len(first.in), len(sig.operands)))
				for i := range in {
					in[i] = shapes[r.IntN(len(shapes))]
					if i < len(first.in) && r.IntN(2) == 0 {
						in[i] = first.operand(c, i, F32, keepCall)
					} else if strings.HasSuffix(op.Name, "_") || strings.Contains(op.Signature, "!") {
						in[i] = keepCall(in[i].Copy()) // it may be changed
					}
				}
				out, err := c.Do(op.Name, a, in...)
				if err == nil {
					worked++
				}
				if err != nil && strings.Contains(err.Error(), "internal") {
					t.Errorf("%s %v: %v", op.Name, a, err)
				}
				release(out)
				release(slices.DeleteFunc(in, func(x *Tensor) bool { return slices.Contains(shapes, x) }))
			}
		}
		if err := c.Sync(); err != nil {
			t.Error(err)
		}
		if n := c.Stats().LiveTensors; n != live {
			t.Errorf("%d live tensors, want %d", n, live)
		}
		if worked < 100 {
			t.Errorf("only %d calls worked: the test does not reach the operations", worked)
		}
	})
}
