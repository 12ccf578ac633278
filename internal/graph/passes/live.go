// SPDX-License-Identifier: Apache-2.0

package passes

import "github.com/mast3r-runtime/mast3r-runtime/internal/graph"

// Live is the most bytes that the values of a graph need at one time, if each comes to
// be at its node and goes after its last reader, with float32 numbers stored in width
// bytes. Inputs, outputs and constants are not counted: they are the caller's.
func Live(g *graph.Graph, width int) int {
	home := map[*graph.Node]int{} // whose memory a value is in: a Reshape is in its operand's
	last := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		home[n], last[i] = i, i
		for k, x := range n.In {
			last[home[x]] = i
			if _, view := n.Op.(graph.Reshape); view && k == 0 {
				home[n] = home[x]
			}
		}
	}
	never := len(g.Nodes)
	for _, o := range g.Outputs {
		last[home[o.Node]] = never
	}
	ends := make([]int, never+1)
	live, most := 0, 0
	for i, n := range g.Nodes {
		switch n.Op.(type) {
		case graph.Input, graph.Param, graph.Reshape:
		default:
			if last[i] < never {
				size := n.Bytes()
				if n.DType.Float() && n.DType.Size() == 4 {
					size = n.Numel() * width
				}
				live += size
				ends[last[i]] += size
			}
		}
		most = max(most, live)
		live -= ends[i]
	}
	return most
}
