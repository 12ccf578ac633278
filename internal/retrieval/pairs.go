// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxPairs is the longest list: 64 MiB of it as a caller gets it, and more pairs than
// anybody runs.
const MaxPairs = 1 << 22

// Pair are the numbers of two pictures.
type Pair struct{ First, Second int }

// PairOptions are what a scene graph's name does not say.
type PairOptions struct {
	// Similarity [n,n] is needed by retrieval graphs.
	Similarity []float64
	// Anchor is the first anchor of a retrieval graph. The reference draws it.
	Anchor int
	// Prefilter is "", "seqT" or "cycT": keep pairs of pictures at most T apart in
	// their order, cyclically for cyc.
	Prefilter string
	// Symmetrize appends every pair the other way round.
	Symmetrize bool
}

// Pairs lists the pairs of n pictures that a scene graph wants (network.md 14):
//
//	complete               all
//	swin[-w][-noncyclic]   each with the w after it (w = 3)
//	logwin[-w][-noncyclic] each with those 1, 2, 4, ... 2^(w-1) away (w = 3)
//	oneref[-r]             picture r with all others (r = 0)
//	retrieval-Na-k         Na anchors with each other, every picture with its
//	                       nearest anchor and its k most similar
//
// Where the reference can pair a picture with itself, we do not. Lists other
// than complete and oneref are sorted.
func Pairs(n int, graph string, opt PairOptions) ([]Pair, error) {
	if n < 0 {
		return nil, fmt.Errorf("retrieval: %d pictures", n)
	}
	parts := strings.Split(graph, "-")
	var pairs []Pair
	var err error
	switch parts[0] {
	case "complete":
		if len(parts) != 1 {
			return nil, graphError(graph)
		}
		if err := tooMany(n, graph, n-1, 2); err != nil {
			return nil, err
		}
		for i := range n {
			for j := range i {
				pairs = append(pairs, Pair{i, j})
			}
		}
	case "swin", "logwin":
		pairs, err = windowPairs(n, graph, parts)
	case "oneref":
		pairs, err = referencePairs(n, graph, parts)
	case "retrieval":
		pairs, err = retrievalPairs(n, graph, parts, opt)
	default:
		err = graphError(graph)
	}
	if err == nil {
		pairs, err = prefilter(pairs, n, opt.Prefilter)
	}
	if err != nil {
		return nil, err
	}
	if opt.Symmetrize {
		if err := tooMany(2, graph, len(pairs), 1); err != nil {
			return nil, err
		}
		for _, p := range pairs[:len(pairs):len(pairs)] {
			pairs = append(pairs, Pair{p.Second, p.First})
		}
	}
	return pairs, nil
}

// tooMany refuses a*b/c pairs before they are in memory.
func tooMany(a int, graph string, b, c int) error {
	if hi, lo := bits.Mul64(uint64(a), uint64(max(b, 0))); hi > 0 || lo/uint64(c) > MaxPairs {
		return fmt.Errorf("retrieval: scene graph %q: %d x %d / %d pairs, want at most %d", graph, a, b, c, MaxPairs)
	}
	return nil
}

func graphError(graph string) error {
	return fmt.Errorf("retrieval: scene graph %q, want complete, swin[-w][-noncyclic], logwin[-w][-noncyclic], oneref[-r] or retrieval-Na-k", graph)
}

// number reads field i of a graph's name, or gives otherwise when it is not
// there.
func number(parts []string, i, otherwise int) (int, bool) {
	if i >= len(parts) {
		return otherwise, true
	}
	v, err := strconv.Atoi(parts[i])
	return v, err == nil && v >= 0
}

// sorted is a set of pairs in order.
func sorted(set map[Pair]bool) []Pair {
	out := make([]Pair, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	})
	return out
}

func windowPairs(n int, graph string, parts []string) ([]Pair, error) {
	cyclic := true
	if parts[len(parts)-1] == "noncyclic" {
		cyclic = false
		parts = parts[:len(parts)-1]
	}
	w, ok := number(parts, 1, 3)
	if !ok || len(parts) > 2 {
		return nil, graphError(graph)
	}
	// Wider than the list is the whole list.
	if w = min(w, n); parts[0] == "swin" {
		if err := tooMany(n, graph, w, 1); err != nil {
			return nil, err
		}
	}
	var offsets []int
	for k := range w {
		d := k + 1
		if parts[0] == "logwin" {
			if k > 40 {
				break // beyond any list of pictures
			}
			d = 1 << k
		}
		offsets = append(offsets, d, -d)
	}
	set := map[Pair]bool{}
	for i := range n {
		for _, d := range offsets {
			j := i + d
			if cyclic {
				j = (j%n + n) % n
			}
			if j >= 0 && j < n && j != i {
				set[Pair{min(i, j), max(i, j)}] = true
			}
		}
	}
	return sorted(set), nil
}

func referencePairs(n int, graph string, parts []string) ([]Pair, error) {
	r, ok := number(parts, 1, 0)
	if !ok || len(parts) > 2 {
		return nil, graphError(graph)
	}
	if n > 0 && r >= n {
		return nil, fmt.Errorf("retrieval: scene graph %q of %d pictures: there is no picture %d", graph, n, r)
	}
	var pairs []Pair
	for j := range n {
		if j != r {
			pairs = append(pairs, Pair{r, j})
		}
	}
	return pairs, nil
}

func retrievalPairs(n int, graph string, parts []string, opt PairOptions) ([]Pair, error) {
	anchors, ok1 := number(parts, 1, 0)
	k, ok2 := number(parts, 2, 0)
	if !ok1 || !ok2 || len(parts) != 3 {
		return nil, graphError(graph)
	}
	if len(opt.Similarity) != n*n {
		return nil, fmt.Errorf("retrieval: scene graph %q: similarity of %d numbers, want %d*%d", graph, len(opt.Similarity), n, n)
	}
	if n == 0 {
		return nil, nil
	}
	anchors, k = min(anchors, n), min(k, n)
	if err := errors.Join(tooMany(anchors, graph, anchors, 2), tooMany(n, graph, k+1, 1)); err != nil {
		return nil, err
	}
	if opt.Anchor < 0 || opt.Anchor >= n {
		return nil, fmt.Errorf("retrieval: first anchor %d, want 0 to %d", opt.Anchor, n-1)
	}
	distance := func(i, j int) float64 { return 1 - opt.Similarity[i*n+j] }
	chosen := farthest(n, min(anchors, n), opt.Anchor, distance)
	set := map[Pair]bool{}
	isAnchor := map[int]bool{}
	for i, a := range chosen {
		isAnchor[a] = true
		for _, b := range chosen[i+1:] {
			if a != b {
				set[Pair{a, b}] = true
			}
		}
	}
	for i := range n {
		if !isAnchor[i] && len(chosen) > 0 {
			best := slices.MinFunc(chosen, func(a, b int) int { return cmp.Compare(distance(i, a), distance(i, b)) })
			set[Pair{min(i, best), max(i, best)}] = true
		}
		order := make([]int, n)
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(distance(i, a), distance(i, b)) })
		// The picture itself counts as one of the k where it ranks among them.
		for _, j := range order[:min(k, n)] {
			if j != i {
				set[Pair{min(i, j), max(i, j)}] = true
			}
		}
	}
	return sorted(set), nil
}

// farthest samples count pictures: each time the one whose nearest chosen one is
// farthest. Since a picture's similarity with itself is not 1, the reference
// can choose one twice; then it is listed once here.
func farthest(n, count, first int, distance func(i, j int) float64) []int {
	if count == 0 {
		return nil
	}
	chosen := []int{first}
	nearest := make([]float64, n)
	for j := range n {
		nearest[j] = distance(first, j)
	}
	for range count - 1 {
		next := 0
		for j := range n {
			if nearest[j] > nearest[next] {
				next = j
			}
		}
		if !slices.Contains(chosen, next) {
			chosen = append(chosen, next)
		}
		for j := range n {
			nearest[j] = min(nearest[j], distance(next, j))
		}
	}
	return chosen
}

func prefilter(pairs []Pair, n int, filter string) ([]Pair, error) {
	if filter == "" {
		return pairs, nil
	}
	kind := filter[:min(3, len(filter))]
	limit, err := strconv.Atoi(filter[len(kind):])
	if err != nil || limit < 0 || kind != "seq" && kind != "cyc" {
		return nil, fmt.Errorf("retrieval: prefilter %q, want seqT or cycT with a number T", filter)
	}
	return slices.DeleteFunc(pairs, func(p Pair) bool {
		d := max(p.First-p.Second, p.Second-p.First)
		if kind == "cyc" {
			d = min(d, n-d)
		}
		return d > limit
	}), nil
}
