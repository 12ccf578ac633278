// SPDX-License-Identifier: Apache-2.0

package metalcost

// memory is what a program needs besides its weights, its inputs and its results.
type memory struct {
	// peak is the most that its values take at once, when each is stored from the
	// node that makes it to the last that reads it, weights in another type left out.
	peak int64
	// casts are all that is fed and cast, weights above all, should MPSGraph keep
	// them.
	casts int64
}

// memory walks the nodes in their order. Views take nothing; MPSGraph stitches
// chains and so stores less.
func (p *program) memory() memory {
	last := map[int]int{} // by origin
	for i, n := range p.nodes {
		for _, id := range n.in {
			last[p.origin(id)] = i
		}
	}
	var m memory
	var live int64
	dies := make([][]int64, len(p.nodes))
	for i, n := range p.nodes {
		if !p.free(n) {
			for _, id := range n.out {
				v := p.values[id]
				switch {
				case n.kind == "cast" && p.isWeight(n.in[0]):
					m.casts += v.bytes
				case p.targets[id]: // the caller's memory
				default:
					live += v.bytes
					if at := last[id]; at > i {
						dies[at] = append(dies[at], v.bytes)
					} else {
						dies[i] = append(dies[i], v.bytes)
					}
				}
			}
		}
		m.peak = max(m.peak, live)
		for _, n := range dies[i] {
			live -= n
		}
	}
	return m
}
