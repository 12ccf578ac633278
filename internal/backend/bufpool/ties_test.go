// SPDX-License-Identifier: Apache-2.0

package bufpool

import "testing"

// Of buffers released at one instant the first released is evicted first.
func TestTiesGoInTheOrderOfRelease(t *testing.T) {
	p, h, _ := newPool(t, 0)
	const n = 4
	var held []*Buffer[chunk]
	for i := range n { // a class each, so that only the order of release can decide
		held = append(held, get(t, p, MinClass<<i))
	}
	for _, i := range []int{2, 0, 3, 1} {
		held[i].Release()
	}
	for _, i := range []int{2, 0, 3} {
		p.SetLimit(uint64(h.bytes - 1))
		if _, there := h.live[held[i].Memory().id]; there {
			t.Fatalf("after one eviction buffer %d is still there: %v", i, h.live)
		}
	}
}
