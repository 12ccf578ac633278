// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Codebook are the visual words: centroids [Words,Dim].
type Codebook struct {
	Words, Dim int
	Centroids  []float32
}

// OpenCodebook reads the tensor "centroids" of a set; the numbers are copied.
func OpenCodebook(s *weights.Set) (*Codebook, error) {
	t, err := s.Need("centroids", tensor.Shape{-1, -1})
	if err != nil {
		return nil, err
	}
	c := &Codebook{Words: t.Shape[0], Dim: t.Shape[1]}
	c.Centroids = t.Float32s(make([]float32, t.Shape.Numel()))
	return c, c.check()
}

func (c *Codebook) check() error {
	if c.Words < 1 || c.Dim < 1 || len(c.Centroids) != c.Words*c.Dim {
		return fmt.Errorf("retrieval: codebook of %d numbers for %d words of length %d", len(c.Centroids), c.Words, c.Dim)
	}
	return nil
}

// Quantizer finds, for each of n features [n,Dim], the k nearest words in
// Euclidean distance, nearest first.
type Quantizer func(features []float32, n, k int) ([]int32, error)

// The numbers of words per feature: one for pictures in the index, five for a
// picture that is looked up (network.md 11.2).
const (
	IndexAssignments = 1
	QueryAssignments = 5
)

// code is the aggregate of one word in one picture: a bit per dimension, set
// where the sum of residuals is above 0.
type code struct {
	word int32
	bits []uint64
}

// aggregate sums, for every word among the assignments, the residuals of the
// features that chose it. words holds k entries per feature.
func (c *Codebook) aggregate(features []float32, words []int32, k int) []code {
	sums := map[int32][]float32{}
	for i, w := range words {
		r := sums[w]
		if r == nil {
			r = make([]float32, c.Dim)
			sums[w] = r
		}
		x := features[i/k*c.Dim:][:c.Dim]
		for j, v := range c.Centroids[int(w)*c.Dim:][:c.Dim] {
			r[j] += x[j] - v
		}
	}
	codes := make([]code, 0, len(sums))
	for w, r := range sums {
		b := make([]uint64, (c.Dim+63)/64)
		for j, v := range r {
			if v > 0 {
				b[j/64] |= 1 << (j % 64)
			}
		}
		codes = append(codes, code{w, b})
	}
	slices.SortFunc(codes, func(a, b code) int { return cmp.Compare(a.word, b.word) })
	return codes
}

// Index is an inverted file of pictures.
type Index struct {
	book     *Codebook
	quantize Quantizer
	lists    map[int32]*list
	words    []int32 // distinct words of each picture
}

// list holds the pictures that have a word, and side by side the bits of each.
// Nothing points anywhere: a hundred thousand pictures are some ten million
// entries, which a collector of garbage need not visit one by one.
type list struct {
	images []int32
	bits   []uint64
}

// NewIndex starts an empty index.
func NewIndex(c *Codebook, q Quantizer) (*Index, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Index{book: c, quantize: q, lists: map[int32]*list{}}, nil
}

// Len is the number of pictures.
func (x *Index) Len() int { return len(x.words) }

// Add puts a picture's features into the index and returns its number.
func (x *Index) Add(f *Features) (int, error) {
	codes, err := x.codes(f, IndexAssignments)
	if err != nil {
		return 0, err
	}
	n := len(x.words)
	for _, c := range codes {
		l := x.lists[c.word]
		if l == nil {
			l = &list{}
			x.lists[c.word] = l
		}
		l.images = append(l.images, int32(n))
		l.bits = append(l.bits, c.bits...)
	}
	x.words = append(x.words, int32(len(codes)))
	return n, nil
}

func (x *Index) codes(f *Features, k int) ([]code, error) {
	if f.Dim != x.book.Dim {
		return nil, fmt.Errorf("retrieval: features of length %d, want the codebook's %d", f.Dim, x.book.Dim)
	}
	k = min(k, x.book.Words)
	words, err := x.quantize(f.Values, f.N, k)
	if err != nil {
		return nil, err
	}
	if len(words) != f.N*k {
		return nil, fmt.Errorf("retrieval: %d assignments, want %d for %d features", len(words), f.N*k, f.N)
	}
	return x.book.aggregate(f.Values, words, k), nil
}

// Score looks a picture up: one number per picture of the index,
//
//	sum over shared words of s^3, s = 1 - 2*hamming/dim where s >= 0,
//	divided by sqrt(words of the picture) and sqrt(words of the query).
//
// dim is the number of bits in whole 32-bit words, as in the reference. A score
// is not symmetric: a query has five words per feature, a picture one.
func (x *Index) Score(f *Features) ([]float64, error) {
	codes, err := x.codes(f, QueryAssignments)
	if err != nil {
		return nil, err
	}
	dim := float64((x.book.Dim + 31) / 32 * 32)
	scores := make([]float64, len(x.words))
	for _, c := range codes {
		l := x.lists[c.word]
		if l == nil {
			continue
		}
		n := len(c.bits)
		for i, image := range l.images {
			h := 0
			for j, b := range l.bits[i*n:][:n] {
				h += bits.OnesCount64(b ^ c.bits[j])
			}
			if s := 1 - 2*float64(h)/dim; s >= 0 {
				scores[image] += s * s * s
			}
		}
	}
	for i := range scores {
		if scores[i] > 0 {
			scores[i] /= math.Sqrt(float64(x.words[i])) * math.Sqrt(float64(len(codes)))
		}
	}
	return scores, nil
}
