// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// The tensors of a part: how many words each picture has, the words of all pictures one after the
// other, ascending within each, and for every word the bits of its aggregate, little-endian.
const (
	partCounts = "counts" // i32 [pictures]
	partWords  = "words"  // i32 [entries]
	partBits   = "bits"   // u8 [entries, 8*ceil(dim/64)]
)

// Tensors are the pictures of an index from number first on, to be read by OpenPart: what the index
// knows about them, without their features, which are some thirty times as large.
func (x *Index) Tensors(first int) []weights.Tensor {
	n := (x.book.Dim + 63) / 64
	own := x.words[first:]
	at := make([]int, len(own)) // where the next word of each picture goes
	entries := 0
	counts := make([]byte, 0, 4*len(own))
	for i, c := range own {
		at[i] = entries
		entries += int(c)
		counts = binary.LittleEndian.AppendUint32(counts, uint32(c))
	}
	words, codes := make([]byte, 4*entries), make([]byte, 8*n*entries)
	for _, word := range slices.Sorted(maps.Keys(x.lists)) {
		l := x.lists[word]
		from, _ := slices.BinarySearch(l.images, int32(first)) // pictures are in order
		for i := from; i < len(l.images); i++ {
			k := at[int(l.images[i])-first]
			at[int(l.images[i])-first]++
			binary.LittleEndian.PutUint32(words[4*k:], uint32(word))
			for j, b := range l.bits[i*n:][:n] {
				binary.LittleEndian.PutUint64(codes[8*(k*n+j):], b)
			}
		}
	}
	return []weights.Tensor{
		{Name: partCounts, DType: tensor.I32, Shape: tensor.Shape{len(own)}, Data: counts},
		{Name: partWords, DType: tensor.I32, Shape: tensor.Shape{entries}, Data: words},
		{Name: partBits, DType: tensor.U8, Shape: tensor.Shape{entries, 8 * n}, Data: codes},
	}
}

// Part are pictures of an index as its file has them.
type Part struct{ counts, words, bits []byte }

// OpenPart reads the tensors of a part; the bytes are copied.
func OpenPart(s *weights.Set) (*Part, error) {
	counts, err := s.Need(partCounts, tensor.Shape{-1})
	if err != nil {
		return nil, err
	}
	words, err := s.Need(partWords, tensor.Shape{-1})
	if err != nil {
		return nil, err
	}
	codes, err := s.Need(partBits, tensor.Shape{words.Shape[0], -1})
	if err != nil {
		return nil, err
	}
	if counts.DType != tensor.I32 || words.DType != tensor.I32 || codes.DType != tensor.U8 {
		return nil, fmt.Errorf("retrieval: a part of %v, %v and %v, want i32, i32 and u8", counts.DType, words.DType, codes.DType)
	}
	return &Part{bytes.Clone(counts.Data), bytes.Clone(words.Data), bytes.Clone(codes.Data)}, nil
}

// Merge puts the pictures of another index behind those of this one, as if they had been added one by
// one. Nothing is added where the part is damaged, or of another codebook's size.
func (x *Index) Merge(p *Part) error {
	if err := x.check(p); err != nil {
		return err
	}
	n := (x.book.Dim + 63) / 64
	at := 0
	for i := range len(p.counts) / 4 {
		count := int32At(p.counts, i)
		for range count {
			word := int32At(p.words, at)
			l := x.lists[word]
			if l == nil {
				l = &list{}
				x.lists[word] = l
			}
			l.images = append(l.images, int32(len(x.words)))
			for j := range n {
				l.bits = append(l.bits, binary.LittleEndian.Uint64(p.bits[8*(at*n+j):]))
			}
			at++
		}
		x.words = append(x.words, count)
	}
	return nil
}

// check: the counts add up to the entries; the words of a picture are words of the codebook,
// each once, ascending; no bit is set behind the last dimension.
func (x *Index) check(p *Part) error {
	n := (x.book.Dim + 63) / 64
	entries, at := len(p.words)/4, 0
	if len(p.bits) != 8*n*entries {
		return fmt.Errorf("retrieval: %d bytes of bits in a part, want %d for %d words of %d dimensions", len(p.bits), 8*n*entries, entries, x.book.Dim)
	}
	for i := range len(p.counts) / 4 {
		count := int(int32At(p.counts, i))
		if count < 0 || count > entries-at {
			return fmt.Errorf("retrieval: picture %d of a part has %d words, want 0 to %d", i, count, entries-at)
		}
		last := int32(-1)
		for ; count > 0; count-- {
			word := int32At(p.words, at)
			if word <= last || int(word) >= x.book.Words {
				return fmt.Errorf("retrieval: word %d after %d in picture %d of a part, want %d to %d", word, last, i, last+1, x.book.Words-1)
			}
			last = word
			at++
		}
	}
	if at != entries {
		return fmt.Errorf("retrieval: the pictures of a part have %d words, want %d", at, entries)
	}
	rest := x.book.Dim % 64
	for k := 0; rest > 0 && k < entries; k++ {
		if last := binary.LittleEndian.Uint64(p.bits[8*(k*n+n-1):]); last>>rest != 0 {
			return fmt.Errorf("retrieval: entry %d of a part has bits behind dimension %d", k, x.book.Dim)
		}
	}
	return nil
}

func int32At(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }
