// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Errors of this package are or wrap these, or those of package device.
var (
	ErrClosed      = errors.New("mps: closed")
	ErrUnsupported = errors.New("mps: not supported")
)

// Config are the settings of a Backend.
type Config struct {
	// Attention chooses between MPSGraph's own and one of products and a softmax in
	// float32.
	Attention Attention
	// AnyGPU takes a GPU that is not an M1 or newer, or a virtual machine's.
	AnyGPU bool
	// Guard, when not nil, is called before what has never been done in this process
	// with this graph, compiling and a first run: Apple's code ends the process when
	// it dislikes something. The result is called afterwards.
	Guard func(what string) (done func())
	// PoolLimit bounds the buffers kept for reuse and in use, in bytes; 0 takes
	// half of what the device recommends, the rest is for weights and MPSGraph.
	PoolLimit uint64
	// ExecutableCache is a folder for compiled graphs, which saves seconds of the
	// next process; "" keeps none. Nothing is ever removed from it. Off by
	// default: MPSGraph ends the process when it dislikes what it loads.
	ExecutableCache string
	// Logger is told what is wrong with the cache; nil discards.
	Logger *slog.Logger
}

// Attention says how attention is computed.
type Attention uint8

// The ways. By hand is slower, and exact in half precision. By default the native
// one is used, but not in float32 on macOS 15, where it leaks memory in every run
// (PyTorch issue 152344).
const (
	AttentionDefault Attention = iota
	AttentionNative
	AttentionByHand
)

// attentionByHand decides for products of type d.
func (b *Backend) attentionByHand(d tensor.DType) bool {
	switch b.cfg.Attention {
	case AttentionNative:
		return false
	case AttentionByHand:
		return true
	}
	return d == tensor.F32 && b.dev.Info().System.Major == 15
}

// Backend is the GPU as a backend.Backend.
type Backend struct {
	cfg     Config
	dev     *device.Device
	queues  [2]*queue
	pool    *bufpool.Pool[*device.Buffer]
	weights *weightStore
	// packages is nil without ExecutableCache.
	packages *packages

	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup // submitted works
	stats   Stats
}

// Stats count what the backend did.
type Stats struct {
	// CommandBuffers were committed, Runs encoded.
	CommandBuffers, Runs int
	// MappedBytes of weights are used in place, CopiedBytes had to be converted or
	// were not in a mapped file, TableBytes were computed (rotary embedding). All
	// of what is in use now.
	MappedBytes, CopiedBytes, TableBytes int
}

var _ backend.Backend = (*Backend)(nil)

// queue is a command queue and the event that counts its submits. There are two, so
// that the encoder of the next picture may fill the gaps between the decoder's
// smaller products.
type queue struct {
	commands *device.Queue
	event    *device.Event
	// submits is the value that the event has once everything submitted so far is
	// done; used on the owner thread only.
	submits uint64
}

// allocator makes pool buffers.
type allocator struct{ dev *device.Device }

func (a allocator) Alloc(n int) (*device.Buffer, error) { return a.dev.NewBuffer(n) }
func (a allocator) Free(b *device.Buffer)               { b.Release() }

// New opens the GPU. Errors say why there is none: objc.ErrUnavailable,
// device.ErrOldSystem, device.ErrNoDevice.
func New(cfg Config) (_ *Backend, err error) {
	dev, err := device.Open()
	if err != nil {
		return nil, err
	}
	if err := dev.Info().Trusted(); err != nil && !cfg.AnyGPU {
		return nil, errors.Join(err, dev.Close())
	}
	limit := cfg.PoolLimit
	if limit == 0 {
		limit = dev.Info().WorkingSet / 2
	}
	b := &Backend{cfg: cfg, dev: dev, weights: newWeightStore(dev),
		pool: bufpool.New[*device.Buffer](allocator{dev}, bufpool.Options{Limit: limit})}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.free())
		}
	}()
	if err := dev.Do(mpsgraph.Supported); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if cfg.ExecutableCache != "" {
		b.packages = newPackages(cfg.ExecutableCache, b, cfg.Logger)
	}
	for i := range b.queues {
		q := &queue{}
		b.queues[i] = q
		if q.commands, err = dev.NewQueue(); err != nil {
			return nil, err
		}
		if q.event, err = dev.NewEvent(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// free releases what New made, the device last: buffers, queues and events are
// its own.
func (b *Backend) free() error {
	b.pool.Close()
	for _, q := range b.queues {
		if q != nil && q.event != nil {
			q.event.Release()
		}
		if q != nil && q.commands != nil {
			q.commands.Release()
		}
	}
	return b.dev.Close()
}

// Device are the facts for the user.
func (b *Backend) Device() backend.Device {
	i, s, count := b.dev.Info(), b.pool.Stats(), b.Stats()
	return backend.Device{
		Backend: "metal", Name: i.Name, WorkingSet: i.WorkingSet, MaxBuffer: i.MaxBuffer, UnifiedMemory: true,
		OS:          fmt.Sprintf("macOS %d.%d.%d", i.System.Major, i.System.Minor, i.System.Patch),
		Allocated:   b.dev.Allocated(),
		SDK:         i.SDK.String(),
		Family:      i.Family,
		Stack:       i.Stack,
		Build:       systemBuild(),
		PoolBuffers: s.PooledBuffers, PoolBytes: s.PooledBytes, LiveBuffers: s.InUseBuffers,
		WeightsMapped: count.MappedBytes, WeightsCopied: count.CopiedBytes, CommandBuffers: count.CommandBuffers,
	}
}

// Stats returns the counters.
func (b *Backend) Stats() Stats {
	s := b.count(func(*Stats) {})
	s.MappedBytes, s.CopiedBytes, s.TableBytes = b.weights.inUse(inPlace), b.weights.inUse(copied), b.weights.inUse(computed)
	return s
}

// count changes the counters and returns them.
func (b *Backend) count(change func(*Stats)) Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.stats)
	return b.stats
}

// Pool is the memory of Alloc.
func (b *Backend) Pool() backend.Pool { return b.pool }

// Trim gives pooled buffers back to the system.
func (b *Backend) Trim() { b.pool.Clear() }

// guard is Config.Guard, or nothing.
func (b *Backend) guard(what string) (done func()) {
	if b.cfg.Guard == nil {
		return func() {}
	}
	return b.cfg.Guard(what)
}

// open reports an error after Close.
func (b *Backend) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return nil
}

// Close waits for the device and frees what the backend holds. Programs must be
// closed before; buffers handed out stay readable until they are released.
func (b *Backend) Close() error {
	if !b.closing() {
		return nil
	}
	b.pending.Wait()
	return b.free()
}

// closing lets nothing more begin, and says whether this call is the first.
func (b *Backend) closing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	already := b.closed
	b.closed = true
	return !already
}

// buffer is device memory on loan from the pool.
type buffer struct {
	b   *Backend
	buf *bufpool.Buffer[*device.Buffer]
}

// Alloc gives a buffer of n bytes with unspecified contents.
func (b *Backend) Alloc(n int) (backend.Buffer, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	x, err := b.pool.Get(n)
	if err != nil {
		return nil, err
	}
	return &buffer{b, x}, nil
}

// Native shows the MTLBuffer.
func (x *buffer) Native() (object, queue uintptr) { return x.buf.Memory().Native(), 0 }

// Native shows the MTLDevice and the queue that the results of an engine come from.
func (b *Backend) Native() (object, queue uintptr) {
	return b.dev.Native(), b.queues[backend.Second].commands.Native()
}

func (x *buffer) Len() int { return x.buf.Len() }

// Fetch has nothing to do: host and device share the memory.
func (x *buffer) Fetch() error { return nil }

func (x *buffer) Bytes() []byte { return x.buf.Memory().Bytes()[:x.buf.Len():x.buf.Len()] }

func (x *buffer) Release() { x.buf.Release() }
