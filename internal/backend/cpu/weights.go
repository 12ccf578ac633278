// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// weightKey identifies a packed weight: the bytes it came from and the way they
// were arranged. Two views of one tensor (a convolution kernel and the matrix of
// the same numbers) share their bytes, but not their key.
type weightKey struct {
	data    *byte
	size    int
	src     tensor.DType
	n, k    int
	as      tensor.DType
	arrange [5]int // offset and strides of the source
}

// weight is one entry of the cache.
type weight struct {
	key    weightKey
	packed *gemm.Packed
	free   func() // gives the memory of packed back; nil before there is any
	source []byte // keeps memory of the Go heap alive, so that its address stays its name
	sum    uint64
	users  int
	ready  chan struct{} // closed when packing has ended
	err    error
}

// weightCache holds the packed weights of a backend. Weights that no program
// uses stay until Trim: pictures of another size come with the same weights.
//
// Packing copies: gigabytes are read from a mapped file and written to fresh
// memory. Each source is given back as soon as it is packed, so that the peak is
// one set of weights and not two; and packing uses all threads on one weight,
// rather than one thread on each, for the same reason.
type weightCache struct {
	mu   sync.Mutex
	all  map[weightKey]*weight
	mem  slabs
	disk *packCache // nil without one
	// packed counts the packings, for tests.
	packed int
	// planned, where it is not nil, is to be told of the bytes of each weight, and
	// nothing is packed.
	planned func(bytes int)
	// packing is the most memory that packing one of these takes besides.
	packing int
}

// keyOf is the key of a parameter as n rows of k.
func keyOf(p graph.Param, n, k int, as tensor.DType) weightKey {
	return weightKey{data: unsafe.SliceData(p.Data), size: len(p.Data), src: p.DType, n: n, k: k, as: as}
}

// get returns the packed form of a parameter, packing it at the first call.
func (c *weightCache) get(pool *par.Pool, p graph.Param, s gemm.Source, n, k int, as tensor.DType, offset int) (*weight, error) {
	key := keyOf(p, n, k, as)
	key.arrange = [5]int{offset, s.StrideN, s.StrideC, s.Taps, s.StrideTap}
	return c.entry(pool, key, p, 1, func(dst *gemm.Packed) error { return packRows(pool, p, s, dst) })
}

// pieceBytes is how much of a source is packed before it is given back: the
// largest tensors of a model have hundreds of megabytes, which would be in memory
// twice for a moment. Tests make it smaller.
var pieceBytes = 16 << 20

// packRows packs s to dst. Where its rows lie one after the other they are packed
// and given back piece by piece.
func packRows(pool *par.Pool, p graph.Param, s gemm.Source, dst *gemm.Packed) error {
	row, skip := s.StrideN*p.DType.Size(), len(p.Data)-len(s.Data)
	if s.StrideN < dst.K || p.Source.Release == nil {
		return dst.Pack(pool, s)
	}
	rows := max(1, pieceBytes/row/gemm.PanelRows) * gemm.PanelRows
	for r := 0; r < dst.N; r += rows {
		end := min(r+rows, dst.N)
		part, err := dst.Part(r, end)
		if err != nil {
			return err
		}
		piece := s
		piece.Data = s.Data[r*row:]
		if err := part.Pack(pool, piece); err != nil {
			return err
		}
		if end < dst.N {
			p.Source.Release(skip+r*row, skip+end*row)
		}
	}
	return nil
}

// entry returns the weight of a key, a batch of matrices that fill packs at the
// first call. Programs compiled at the same time meet here: the second waits for
// the first's packing.
func (c *weightCache) entry(pool *par.Pool, key weightKey, p graph.Param, batch int, fill func(dst *gemm.Packed) error) (*weight, error) {
	var sum uint64
	if c.planned == nil {
		sum = sampleOf(p.Data) // not under the lock: this reads a mapped file
	}
	for {
		w, mine := c.claim(key, p, sum)
		if mine {
			if err := c.pack(pool, w, p, batch, fill); err != nil {
				return nil, fmt.Errorf("weight %q: %w", p.Name, err)
			}
			return w, nil
		}
		<-w.ready
		if w.err == nil {
			return w, nil
		}
		c.drop(w)
		if !errors.Is(w.err, errAbandoned) {
			return nil, w.err
		}
	}
}

// errAbandoned is the error of a weight whose packing did not come to an end: its
// program was cancelled. Who waits for it packs it in its turn.
var errAbandoned = errors.New("cpu: the packing of a weight was given up")

// claim counts a use of a weight; mine says that the caller has to pack it.
func (c *weightCache) claim(key weightKey, p graph.Param, sum uint64) (w *weight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[weightKey]*weight{}
	}
	w = c.all[key]
	if w != nil && w.sum != sum && w.users == 0 {
		// Another file was mapped where an unmapped one had been.
		w.release()
		w = nil
	}
	if w != nil {
		w.users++
		return w, false
	}
	w = &weight{key: key, source: p.Data, sum: sum, users: 1, ready: make(chan struct{})}
	c.all[key] = w
	c.packed++
	return w, true
}

// pack fills a claimed weight. Whatever happens in it, those who wait go on.
func (c *weightCache) pack(pool *par.Pool, w *weight, p graph.Param, batch int, fill func(dst *gemm.Packed) error) error {
	w.err = errAbandoned
	defer func() {
		close(w.ready)
		if w.err != nil {
			c.drop(w)
		}
	}()
	w.err = c.build(pool, w, p, batch, fill)
	if w.err == nil && c.planned == nil && p.Source.Release != nil {
		p.Source.Release(0, len(p.Data))
	}
	return w.err
}

var sampleSeed = maphash.MakeSeed()

// sampleOf is a quick hash of the data, to see that it is still the same.
func sampleOf(data []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(sampleSeed)
	sample(&h, data)
	return h.Sum64()
}

// build packs a weight, or maps it from the disk when it was packed before.
func (c *weightCache) build(pool *par.Pool, w *weight, p graph.Param, batch int, fill func(dst *gemm.Packed) error) (err error) {
	defer fault.Guard(&err)()
	size, err := gemm.PackedSize(w.key.as, w.key.n, w.key.k)
	if err != nil {
		return err
	}
	size *= batch
	if c.planned != nil {
		c.planned(size)
		w.packed, err = gemm.Layout(w.key.as, w.key.n, w.key.k, batch)
		return err
	}
	if err := checkValues(pool, p, w.key.as); err != nil {
		return err
	}
	pack := func(mem []byte) error {
		dst, err := gemm.NewPacked(w.key.as, w.key.n, w.key.k, batch, mem)
		if err != nil {
			return err
		}
		w.packed = dst
		return fill(dst)
	}
	if c.disk != nil && p.Source.File != "" {
		mem, free, err := c.disk.get(pool, packNameOf(w.key, batch, size, p), pack)
		if err == nil {
			w.free = free
			w.packed, err = gemm.NewPacked(w.key.as, w.key.n, w.key.k, batch, mem)
			return err
		}
		if f := (*fillError)(nil); errors.As(err, &f) {
			return f.error
		}
	}
	mem, slab, err := c.alloc(size)
	if err != nil {
		return err
	}
	w.free = slab.free
	return pack(mem)
}

// checkValues wants the weights of a file to be finite, and to stay so as they are
// stored: what is not would come out of the network as NaN. Constants that somebody
// has computed may be anything.
func checkValues(pool *par.Pool, p graph.Param, as tensor.DType) error {
	if p.Source.Release == nil {
		return nil
	}
	const piece = 1 << 20 // bytes, a multiple of every type
	errs := make([]error, (len(p.Data)+piece-1)/piece)
	check := func(_, i int) {
		err := tensor.CheckRange(p.Data[i*piece:min((i+1)*piece, len(p.Data))], p.DType, as)
		var e *tensor.RangeError
		if errors.As(err, &e) {
			e.Name, e.Element = p.Name, e.Element+i*piece/p.DType.Size()
		}
		errs[i] = err
	}
	if pool == nil {
		for i := range errs {
			check(0, i)
		}
	} else {
		pool.Run(len(errs), check)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *weightCache) alloc(size int) ([]byte, *slab, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mem.alloc(size)
}

// release gives the memory back; the cache's lock is held.
func (w *weight) release() {
	if w.free != nil {
		w.free()
		w.free, w.packed = nil, nil
	}
}

// drop ends one use. A weight that could not be packed is forgotten.
func (c *weightCache) drop(w *weight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.users--
	if w.users == 0 && w.err != nil && c.all[w.key] == w {
		delete(c.all, w.key)
		w.release()
	}
}

// trim frees the weights that no program uses.
func (c *weightCache) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, w := range c.all {
		if w.users == 0 {
			w.release()
			delete(c.all, k)
		}
	}
}

// close frees all weights; no program may run any more.
func (c *weightCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, w := range c.all {
		w.release()
		delete(c.all, k)
	}
}

// stored is the type a weight is kept in. float16 weights stay float16: the kernels widen them for free (kernels.md 2),
// and nothing is lost.
func (o lowerOptions) stored(src tensor.DType) tensor.DType {
	switch {
	case o.bf16:
		return tensor.BF16
	case o.f16 || src == tensor.F16:
		return tensor.F16
	}
	return tensor.F32
}
