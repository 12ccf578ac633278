// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/memory"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Errors of this package are or wrap these.
var (
	ErrClosed      = errors.New("cpu: closed")
	ErrUnsupported = errors.New("cpu: not supported")
)

// Config are the settings of a Backend.
type Config struct {
	// Threads is the number of threads; 0 means as many as Go may use, which
	// follows the processor quota of a container.
	Threads int
	// PackCache is a directory that keeps packed weights from one process to the
	// next and shares them among those that run; "" packs at load. What is wrong
	// with it is a warning to Logger, and weights are packed in memory.
	PackCache string
	// Logger gets these warnings; nil discards them.
	Logger *slog.Logger
	// Profile, when set, is told of every step that ran.
	Profile func(backend.Sample)
}

// Backend is the CPU as a backend.Backend.
type Backend struct {
	cfg     Config
	pool    *par.Pool
	buffers *bufferPool
	weights *weightCache
	ropes   *ropeCache

	// mu serialises runs: they share the pool, the arena and the scratch.
	mu             sync.Mutex
	closed         bool
	arena, scratch *region
	lanes          []*Backend // see Divide
}

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Profiler = (*Backend)(nil)
	_ backend.Divider  = (*Backend)(nil)
)

// New starts a backend.
func New(cfg Config) (*Backend, error) {
	if cfg.Threads < 0 || cfg.Threads > par.MaxThreads {
		return nil, fmt.Errorf("cpu: %d threads, want 0 (automatic) to %d", cfg.Threads, par.MaxThreads)
	}
	b := &Backend{cfg: cfg, pool: par.New(cfg.Threads), arena: &region{}, scratch: &region{},
		buffers: newBufferPool(), weights: &weightCache{}, ropes: &ropeCache{}}
	if cfg.PackCache != "" {
		b.weights.disk = newPackCache(cfg.PackCache, cfg.Logger)
	}
	return b, nil
}

// Divide makes the backends at the first call and keeps them.
func (b *Backend) Divide(n int) []backend.Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.lanes) < n && !b.closed {
		lane := &Backend{cfg: Config{Threads: 1}, pool: par.New(1), arena: &region{}, scratch: &region{}, buffers: b.buffers, weights: b.weights, ropes: b.ropes}
		b.lanes = append(b.lanes, lane)
	}
	out := make([]backend.Backend, min(n, len(b.lanes)))
	for i := range out {
		out[i] = b.lanes[i]
	}
	return out
}

// Device are the facts for the user.
func (b *Backend) Device() backend.Device {
	s := b.buffers.Stats()
	return backend.Device{
		Backend: "cpu", Name: processorName(), ISA: gemm.Active().String(), Products: gemm.Products(), Threads: b.pool.Threads(),
		// No buffer can be larger than all of the memory.
		WorkingSet: memory.Total(), MaxBuffer: memory.Total(), UnifiedMemory: true, OS: runtime.GOOS + "/" + runtime.GOARCH,
		PoolBuffers: s.PooledBuffers, PoolBytes: s.PooledBytes, LiveBuffers: s.InUseBuffers,
	}
}

// Compile lowers g and packs its weights.
func (b *Backend) Compile(ctx context.Context, g *graph.Graph, opt backend.Options) (_ backend.Program, err error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	simple, err := passes.Simplify(g, "cumsum")
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	p := &Program{b: b, g: g}
	defer func() {
		if err != nil {
			p.dropWeights()
		}
	}()
	defer recovered(g, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := b.pool.With(ctx, func(pool *par.Pool) error { return p.lower(ctx, pool, simple, opt) }); err != nil {
		return nil, fmt.Errorf("cpu: graph %q: %w", g.Name, err)
	}
	if b.weights.disk != nil {
		b.weights.disk.idle()
	}
	if err := b.reserve(p.arenaSize, p.scratchSize); err != nil {
		return nil, err
	}
	return p, nil
}

// recovered turns a panic into an error: a bug of ours must not end the user's
// process, and a page of a mapped file that is gone is none.
func recovered(g *graph.Graph, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("cpu: graph %q: %w", g.Name, fault.Recovered(v))
	}
}

// open reports a backend that was closed.
func (b *Backend) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return nil
}

// reserve grows the arena and the scratch. Values do not outlive a run, so the
// old memory goes first and the peak is not the sum.
func (b *Backend) reserve(arena, scratch int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	for _, r := range []struct {
		at   **region
		size int
	}{{&b.arena, arena}, {&b.scratch, scratch}} {
		if len((*r.at).b) >= r.size {
			continue
		}
		(*r.at).release()
		n, err := newRegion(r.size)
		if err != nil {
			*r.at = &region{}
			return err
		}
		*r.at = n
	}
	return nil
}

// Trim gives pooled buffers, the arena and unused weights back to the system.
// The next run maps the arena again.
func (b *Backend) Trim() {
	b.buffers.Clear()
	b.free()
	b.weights.trim()
}

// free gives the memory that runs use back, of the lanes too.
func (b *Backend) free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arena.release()
	b.scratch.release()
	for _, lane := range b.lanes {
		lane.free()
	}
}

// Close frees everything but the buffers in other hands. Programs must not be
// run any more; they report ErrClosed.
func (b *Backend) Close() error {
	if b.end() {
		b.free()
		b.buffers.Close()
		b.weights.close()
	}
	return nil
}

// end lets no run begin any more, of the lanes neither, and reports whether one could.
func (b *Backend) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closed = true
	b.pool.Close()
	for _, lane := range b.lanes {
		lane.end()
	}
	return true
}
