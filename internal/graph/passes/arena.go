// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"cmp"
	"fmt"
	"slices"
)

// Span is a block of memory that is needed from step First to step Last, both
// included.
type Span struct {
	Size        int
	First, Last int
}

// Place gives each span an offset in one arena so that spans whose lives
// overlap do not overlap in memory, and returns the offsets and the arena's
// size. Offsets are multiples of align. Larger spans are placed first, each at
// the lowest offset that is free for its whole life ("greedy by size", Pisarchyk
// and Lee, arXiv 2001.03288), which comes close to the peak of live bytes for
// graphs like ours.
func Place(spans []Span, align int) (offsets []int, size int, err error) {
	if align < 1 {
		return nil, 0, fmt.Errorf("passes: alignment %d, want >= 1", align)
	}
	order := make([]int, len(spans))
	for i, s := range spans {
		if s.Size < 0 || s.Last < s.First {
			return nil, 0, fmt.Errorf("passes: span %d: size %d, steps %d..%d", i, s.Size, s.First, s.Last)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spans[b].Size, spans[a].Size) })
	offsets = make([]int, len(spans))
	var placed []int // sorted by offset
	for _, i := range order {
		at := 0
		for _, j := range placed {
			if spans[j].Last < spans[i].First || spans[i].Last < spans[j].First {
				continue
			}
			if at+spans[i].Size <= offsets[j] {
				break
			}
			at = max(at, roundUp(offsets[j]+spans[j].Size, align))
		}
		offsets[i] = at
		size = max(size, at+spans[i].Size)
		k, _ := slices.BinarySearchFunc(placed, at, func(j, at int) int { return cmp.Compare(offsets[j], at) })
		placed = slices.Insert(placed, k, i)
	}
	return offsets, roundUp(size, align), nil
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }
