// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// A packed weight on disk is one file: a page of header and the packed bytes,
// which are mapped and used in place. The pages are the page cache's own, so that
// all processes with one model hold its packed weights once. One file for each
// weight, and not one for each model, since what is packed depends on what is
// asked for (a program without descriptors never packs their layers), and since
// a file written under another name and renamed is there whole or not at all:
// readers need no lock, and a writer that dies leaves nothing half done. Deleting a
// mapped file does no harm; cutting it short takes the pages away under the
// reader, as with the model file, and only this user can do so.
//
// What a file is for is in its name, and what it was made of in its header: a
// changed model file finds the old name with another header, and replaces it.
const (
	packMagic  = "M3RPACK\x01"
	packHeader = 4096      // bytes; keeps what follows on a page
	packChunk  = 256 << 10 // bytes of one checksum
)

// The header: magic, digest of the origin, size and checksum of the contents,
// checksum of the header up to here. The rest of the page is zero.
const (
	headDigest = 8
	headSize   = headDigest + sha256.Size
	headSum    = headSize + 8
	headCheck  = headSum + 4
	headEnd    = headCheck + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errPack is why a file of the cache is not used: damage, or another origin.
var errPack = errors.New("not this weight")

// packName is what a cached weight is known by.
type packName struct {
	dir, file string // below the directory of the cache
	digest    [sha256.Size]byte
	size      int
}

// packNameOf derives the name of a weight that comes from a file. The instruction
// set counts: conversions to bfloat16 differ in how they treat subnormals.
func packNameOf(key weightKey, batch, size int, p graph.Param) (n packName) {
	o := p.Source
	dir := sha256.Sum256([]byte(o.File))
	h := sha256.New()
	put := func(format string, v ...any) { fmt.Fprintf(h, format+"\x00", v...) }
	put("%s %s %s %d", runtime.GOARCH, gemm.Active(), key.as, o.Offset)
	put("%s %d %d %d %d %v", key.src, key.size, key.n, key.k, batch, key.arrange)
	n.dir = filepath.Base(filepath.Dir(o.File)) + "-" + hex.EncodeToString(dir[:8])
	n.file = hex.EncodeToString(h.Sum(nil)[:16]) + ".pack"
	put("%d %s", gemm.LayoutVersion, o.Version)
	sample(h, p.Data)
	h.Sum(n.digest[:0])
	n.size = size
	return n
}

// sample hashes a few hundred bytes spread over the data: enough to tell one
// tensor from another, and no more than a few page faults.
func sample(h hash.Hash, data []byte) {
	const piece, pieces = 64, 8
	step := max(piece, len(data)/pieces)
	for i := 0; i < len(data); i += step {
		_, _ = h.Write(data[i:min(i+piece, len(data))])
	}
}

// packSum is the checksum of the contents: one of the checksums of its chunks,
// which the threads compute side by side. A file that was not on the disk yet
// when the power went is found by it, so that no write waits for the disk.
func packSum(pool *par.Pool, b []byte) uint32 {
	n := (len(b) + packChunk - 1) / packChunk
	sums := make([]byte, 4*n)
	one := func(_, i int) {
		c := crc32.Checksum(b[i*packChunk:min((i+1)*packChunk, len(b))], castagnoli)
		binary.LittleEndian.PutUint32(sums[4*i:], c)
	}
	if pool == nil {
		for i := range n {
			one(0, i)
		}
	} else {
		pool.Run(n, one)
	}
	return crc32.Checksum(sums, castagnoli)
}

// header is the first page of a weight's file.
func (n packName) header(sum uint32) []byte {
	b := make([]byte, packHeader)
	copy(b, packMagic)
	copy(b[headDigest:], n.digest[:])
	binary.LittleEndian.PutUint64(b[headSize:], uint64(n.size))
	binary.LittleEndian.PutUint32(b[headSum:], sum)
	binary.LittleEndian.PutUint32(b[headCheck:], crc32.Checksum(b[:headCheck], castagnoli))
	return b
}

// contents returns the packed bytes in the image of a file, or why it is not used.
func (n packName) contents(pool *par.Pool, image []byte) ([]byte, error) {
	if len(image) != packHeader+n.size {
		return nil, fmt.Errorf("%d bytes, want %d: %w", len(image), packHeader+n.size, errPack)
	}
	body := image[packHeader:]
	sum := binary.LittleEndian.Uint32(image[headSum:])
	if !bytes.Equal(image[:packHeader], n.header(sum)) {
		return nil, fmt.Errorf("header of something else: %w", errPack)
	}
	if got := packSum(pool, body); got != sum {
		return nil, fmt.Errorf("checksum %08x, want %08x: %w", got, sum, errPack)
	}
	return body, nil
}

// packCache is a directory of packed weights. Whatever is wrong with it, weights
// are packed in memory instead: a cache never makes an engine fail.
type packCache struct {
	dir  string
	log  *slog.Logger
	mu   sync.Mutex      // one packing at a time: each uses all threads, and all use buf
	buf  *region         // what is packed before it is written; reused
	full bool            // a write has failed; later ones are not tried
	seen map[string]bool // directories without leftovers

	found, written, refused atomic.Int64
}

func newPackCache(dir string, log *slog.Logger) *packCache {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &packCache{dir: dir, log: log, buf: &region{}, seen: map[string]bool{}}
}

// get maps a packed weight, which fill makes when the directory lacks it. An error
// that is not fill's own means that the cache cannot be used for it.
func (c *packCache) get(pool *par.Pool, n packName, fill func(mem []byte) error) ([]byte, func(), error) {
	mem, free, err := c.open(pool, n)
	if err == nil {
		c.found.Add(1)
		return mem, free, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return nil, nil, err
	}
	return c.make(pool, n, fill)
}

// open maps a file that is there.
func (c *packCache) open(pool *par.Pool, n packName) ([]byte, func(), error) {
	path := filepath.Join(c.dir, n.dir, n.file)
	image, unmap, err := mapPack(path, packHeader+n.size)
	if err == nil {
		var mem []byte
		if mem, err = n.contents(pool, image); err == nil {
			return mem, unmap, nil
		}
		unmap()
	}
	if errors.Is(err, errPack) {
		c.refused.Add(1)
		c.log.Debug("a cached weight is packed again", "file", path, "reason", err)
	}
	return nil, nil, err
}

// packPatience is how long a process waits for another that packs.
var packPatience = 10 * time.Second

// make packs, writes and maps a weight. The lock on the directory only spares
// double work and double memory: two writers without it would each rename a
// complete file. It therefore needs not to be waited for forever.
func (c *packCache) make(pool *par.Pool, n packName, fill func(mem []byte) error) ([]byte, func(), error) {
	dir := filepath.Join(c.dir, n.dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, c.fail(err)
	}
	unlock, err := lockPacks(dir, packPatience)
	if err != nil {
		return nil, nil, c.fail(err)
	}
	defer unlock()
	if mem, free, err := c.open(pool, n); err == nil { // the other process was first
		c.found.Add(1)
		return mem, free, nil
	}
	c.sweep(dir)
	tmp, err := os.CreateTemp(dir, packTemp)
	if err != nil {
		return nil, nil, c.fail(err)
	}
	defer os.Remove(tmp.Name()) // does nothing after the rename
	defer tmp.Close()
	if len(c.buf.b) < n.size {
		c.buf.release()
		if c.buf, err = newRegion(n.size); err != nil {
			c.buf = &region{}
			return nil, nil, err
		}
	}
	mem := c.buf.b[:n.size]
	clear(mem) // what padding there is must be the same in each file
	if err := fill(mem); err != nil {
		return nil, nil, &fillError{err}
	}
	if err := c.store(tmp, n, packSum(pool, mem), mem, filepath.Join(dir, n.file)); err != nil {
		return nil, nil, c.fail(err)
	}
	c.written.Add(1)
	return c.open(pool, n)
}

// packTemp are the names of unfinished files.
const packTemp = ".*.tmp"

// sweep removes temporary files of writers that were killed. Holding the lock means
// that no writer is running.
func (c *packCache) sweep(dir string) {
	if c.seen[dir] {
		return
	}
	c.seen[dir] = true
	left, _ := os.ReadDir(dir) // what cannot be listed stays
	for _, f := range left {
		if ok, _ := filepath.Match(packTemp, f.Name()); ok {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// store writes by write and not through a mapping, where a full disk is an error
// and not a signal.
func (c *packCache) store(tmp *os.File, n packName, sum uint32, mem []byte, path string) error {
	if _, err := tmp.Write(n.header(sum)); err != nil {
		return err
	}
	if _, err := tmp.Write(mem); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// fillError is a failure of the packing itself and none of the cache.
type fillError struct{ error }

func (e *fillError) Unwrap() error { return e.error }

// fail stops writing; the caller holds mu.
func (c *packCache) fail(err error) error {
	c.full = true
	c.log.Warn("the cache of packed weights cannot be written", "directory", c.dir, "error", err)
	return fmt.Errorf("cpu: cache of packed weights: %w", err)
}

// idle gives the memory for packing back.
func (c *packCache) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf.release()
}
