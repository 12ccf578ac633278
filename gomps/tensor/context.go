// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/open"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Config describes the context to open. The zero value is the best device of the machine.
type Config struct {
	// Backend is "cpu", "metal", "cuda", or "auto" (""): what the environment variable
	// MAST3R_BACKEND names, or else Metal, then CUDA, where there is one.
	Backend string
	// Threads is the number of CPU threads, 0 for all.
	Threads int
	// BatchSize is how many operations are collected before they are handed to the device;
	// 0 means 100, or PoolPerSize where that is less. It may not exceed PoolPerSize, since
	// everything that a batch releases comes back at once.
	BatchSize int
	// CacheSize bounds the compiled operations that are kept; 0 means 512.
	CacheSize int
	// PoolPerSize is how many free buffers of one size the pool keeps; 0 means 50, or
	// BatchSize where that is more.
	PoolPerSize int
	// PoolLimit bounds the bytes in use and kept together; 0 means the device's own
	// limit. What is in use may exceed it.
	PoolLimit uint64
	// SkipSelfCheck uses the GPU without comparing it with the CPU first, which otherwise
	// happens once in a process. MAST3R_SELFCHECK=off does the same.
	SkipSelfCheck bool
	// Manual leaves it to the caller to release every tensor: none that is forgotten gives its
	// memory back, and the collector has nothing to look for, which an operation on a few
	// numbers would notice.
	Manual bool
	// Logger gets the reason if the CPU is used instead of a GPU; nil discards it.
	Logger *slog.Logger
}

// Stats count what a Context has done.
type Stats struct {
	// Operations that were run, and how many found their program in the cache.
	Operations, CacheHits, CacheMisses uint64
	// Programs are in the cache now.
	Programs int
	// Commits are batches handed to the device; Pending operations wait for one.
	Commits uint64
	Pending int
	// LiveTensors were made and not released yet.
	LiveTensors int
	// Device describes the device.
	Device Device
	// Fallback says why the CPU is used instead of a GPU.
	Fallback string
}

// Context owns a device, the compiled operations, and the work that the device has not
// been given yet. Its methods may be called from any goroutine; operations take turns.
type Context struct {
	dev      backend.Backend
	fallback string
	batch    int
	manual   bool // see Config

	mu      sync.Mutex
	closed  bool
	work    backend.Work // being collected; nil when there is none
	pending int          // runs in work
	// commands is the command buffer that is open, nil when there is none.
	commands *Commands
	flying   []backend.Pending
	cache    *cache
	texts    texts
	stats    Stats
	books    books
}

const (
	defaultBatch   = 100
	defaultPerSize = 50
	defaultCache   = 512
	// maxFlying is the most batches that the device has at a time: one runs, one waits,
	// and one more covers the time that the host needs to fill the next.
	maxFlying = 3
)

// Open starts a context.
func Open(cfg Config) (*Context, error) {
	if cfg.BatchSize < 0 || cfg.CacheSize < 0 {
		return nil, refuse(ErrOption, "batch size %d, cache size %d, want at least 0", cfg.BatchSize, cfg.CacheSize)
	}
	batch, perSize, err := cfg.batching()
	if err != nil {
		return nil, err
	}
	c := &Context{batch: batch, manual: cfg.Manual}
	size := cfg.CacheSize
	if size == 0 {
		size = defaultCache
	}
	c.cache = newCache(size)
	c.dev, c.fallback, err = open.Device(open.Config{Backend: cfg.Backend, Threads: cfg.Threads, SkipSelfCheck: cfg.SkipSelfCheck, Logger: cfg.Logger})
	if setting := (*open.SettingError)(nil); errors.As(err, &setting) {
		return nil, refuse(ErrOption, "%s is %q, want %s", setting.Name, setting.Got, setting.Want)
	}
	if err != nil {
		return nil, refuse(ErrDevice, "%w", err)
	}
	c.dev.Pool().SetPerClass(perSize)
	if cfg.PoolLimit != 0 {
		c.dev.Pool().SetLimit(cfg.PoolLimit)
	}
	// A CPU is done with an operation when the call returns.
	c.books.deferred = c.dev.Device().Backend != "cpu"
	return c, nil
}

// batching gives the size of a batch and the free buffers per size. The first never
// exceeds the second; otherwise each batch would destroy buffers that the next allocates
// again.
func (cfg Config) batching() (batch, perSize int, err error) {
	batch, perSize = cfg.BatchSize, cfg.PoolPerSize
	switch {
	case perSize < 0:
		return 0, 0, refuse(ErrOption, "%d buffers of one size in the pool, want at least 0", perSize)
	case batch == 0 && perSize == 0:
		batch, perSize = defaultBatch, defaultBatch
	case batch == 0:
		batch = min(defaultBatch, perSize)
	case perSize == 0:
		perSize = max(defaultPerSize, batch)
	case batch > perSize:
		return 0, 0, refuse(ErrOption, "batches of %d operations and %d buffers of one size in the pool, want at most as many operations", batch, perSize)
	}
	return batch, perSize, nil
}

// Stats returns the counters.
func (c *Context) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Programs, s.Pending = c.cache.len(), c.pending
	s.LiveTensors = int(c.books.live.Load())
	s.Fallback = c.fallback
	if !c.closed {
		s.Device = deviceOf(c.dev.Device())
	}
	return s
}

// Commit hands the collected operations to the device and does not wait.
func (c *Context) Commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commit()
}

func (c *Context) commit() error {
	if c.work == nil {
		return nil
	}
	w := c.work
	c.work, c.pending = nil, 0
	p, err := w.Submit()
	c.books.handOver()
	if err != nil {
		err = refuse(ErrDevice, "commit: %w", err)
	}
	c.commands.handOver(p, err)
	if err != nil {
		return err
	}
	c.stats.Commits++
	c.flying = append(c.flying, p)
	if len(c.flying) <= maxFlying {
		return nil
	}
	// A loop that never reads would run further and further ahead of the device, and the
	// memory of what is not done would grow.
	first := c.flying[0]
	c.flying = slices.Delete(c.flying, 0, 1)
	return wait(first)
}

func wait(p backend.Pending) error {
	if _, err := p.Wait(context.Background()); err != nil {
		return refuse(ErrDevice, "wait: %w", err)
	}
	return nil
}

// Sync hands the collected operations to the device and waits for it.
func (c *Context) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sync()
}

func (c *Context) sync() error {
	err := c.commit()
	for _, p := range c.flying {
		err = errors.Join(err, wait(p))
	}
	clear(c.flying)
	c.flying = c.flying[:0]
	return err
}

// Cleanup syncs, forgets the compiled operations, gives pooled memory back and
// resets the counters. Calling it again does nothing.
func (c *Context) Cleanup() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	err := errors.Join(c.sync(), c.cache.clear())
	c.dev.Trim()
	c.Pool().ResetStats()
	c.stats = Stats{}
	return err
}

// Close frees the device. Tensors not yet released can still be read. Closing
// again does nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	err := errors.Join(c.sync(), c.cache.clear())
	c.closed = true
	return errors.Join(err, c.dev.Close())
}

// run applies the operation named key, whose graph build makes from inputs of
// the operands' types, and returns its outputs as new tensors.
//
// key names everything that build depends on but the operands' shapes and types.
func (c *Context) run(key string, build func(g *graph.Graph, in []*graph.Node) []*graph.Node, in ...*Tensor) ([]*Tensor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	operands, err := c.memory(key, in)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(in)
	p, g, err := c.program(key, build, in)
	if err != nil {
		return nil, err
	}
	out := make([]*Tensor, len(g.Outputs))
	bufs := make([]backend.Buffer, len(out))
	for i, o := range g.Outputs {
		if out[i], err = c.newTensor(o.Node.Shape, o.Node.DType, operands); err != nil {
			release(out)
			return nil, err
		}
		bufs[i] = out[i].buffer()
	}
	if p == nil {
		return out, nil
	}
	if err := c.encode(p, operands, bufs); err != nil {
		release(out)
		switch {
		case errors.Is(err, ErrDevice):
			return nil, err
		case errors.Is(err, backend.ErrIndex):
			return nil, refuse(ErrOption, "%s: %w", key, err)
		case errors.Is(err, backend.ErrReleased):
			return nil, refuse(ErrReleased, "%s: %w", key, err)
		}
		return nil, refuse(ErrDevice, "%s: %w", key, err)
	}
	return out, nil
}

func release(list []*Tensor) {
	for _, t := range list {
		if t != nil {
			t.Release()
		}
	}
}

func (c *Context) encode(p backend.Program, in, out []backend.Buffer) error {
	if c.work == nil {
		w, err := c.dev.Begin(backend.First)
		if err != nil {
			return err
		}
		c.work = w
		c.books.collect()
	}
	// From here on the backend keeps the buffers until the device has run this, even if
	// their tensors are released.
	if err := c.work.Run(context.Background(), p, in, out); err != nil {
		return err
	}
	c.stats.Operations++
	c.pending++
	if c.pending >= c.batch {
		return c.commit()
	}
	return nil
}

// keyOf is a key of run made of a name and whole numbers.
func keyOf(name string, numbers ...int) string {
	key := append(make([]byte, 0, 64), name...)
	for _, n := range numbers {
		key = strconv.AppendInt(append(key, ','), int64(n), 10)
	}
	return string(key)
}

// program finds or compiles an operation. If no result has elements, it returns nil: there
// is nothing to compile, and MPSGraph has no empty values.
func (c *Context) program(key string, build func(g *graph.Graph, in []*graph.Node) []*graph.Node, in []*Tensor) (backend.Program, *graph.Graph, error) {
	name := append(make([]byte, 0, 128), key...)
	for _, t := range in {
		name = append(append(name, ' '), t.dtype.String()...)
		for _, d := range t.shape {
			name = strconv.AppendInt(append(name, ','), int64(d), 10)
		}
	}
	if p := c.cache.get(name); p != nil {
		c.stats.CacheHits++
		return p, p.Graph(), nil
	}
	g := graph.New(key)
	nodes := make([]*graph.Node, len(in))
	for i, t := range in {
		nodes[i] = g.Input(fmt.Sprintf("x%d", i), t.dtype, t.shape...)
	}
	for i, n := range build(g, nodes) {
		g.Output(fmt.Sprintf("y%d", i), n)
	}
	g, err := g.Build()
	if err != nil {
		return nil, nil, wrapGraph(err)
	}
	if !slices.ContainsFunc(g.Outputs, func(o graph.Output) bool { return o.Node.Numel() > 0 }) {
		return nil, g, nil
	}
	c.stats.CacheMisses++
	p, err := c.dev.Compile(context.Background(), g, backend.Options{})
	if err != nil {
		return nil, nil, refuse(ErrDevice, "compile %s: %w", key, err)
	}
	// Closing an evicted program waits for its last run, so that run must be with the
	// device already.
	evicted := c.cache.put(string(name), p)
	if evicted != nil {
		if err := errors.Join(c.sync(), evicted.Close()); err != nil {
			return nil, nil, err
		}
	}
	return p, g, nil
}

// wrapGraph turns a graph's error into one of this package; its text names the
// operation and both shapes.
func wrapGraph(err error) error {
	switch {
	case errors.Is(err, graph.ErrDType):
		return refuse(ErrDType, "%w", err)
	case errors.Is(err, graph.ErrShape):
		return refuse(ErrShape, "%w", err)
	}
	return fmt.Errorf("tensor: %w", err)
}
