// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
)

// Errors of this package are or wrap these, or those of package pjrt.
var (
	ErrClosed      = errors.New("xla: closed")
	ErrUnsupported = errors.New("xla: not supported")
	ErrNoPlugin    = errors.New("xla: no plugin")
	ErrNoDevice    = errors.New("xla: no device")
)

// Config are the settings of a Backend.
type Config struct {
	// Name is what the backend is called: "cuda".
	Name string
	// Plugin is the file of the PJRT plugin.
	Plugin string
	// Options are those of the plugin's client.
	Options map[string]any
	// Device is the number that the system gives the device.
	Device int
	// Flags are XLA's, for every compilation.
	Flags map[string]any
	// Cache is a folder for compiled programs; "" keeps none.
	Cache string
	// Key tells the device's driver from others of the same plugin, for the cache.
	Key string
	// Attention says how attention is computed in half precision. Where the fused one
	// does not compile, the other is taken, with a warning.
	Attention Attention
	// Logger is told what is wrong with the cache; nil discards.
	Logger *slog.Logger
}

// Attention is a way to compute attention.
type Attention uint8

// The ways: products and a softmax, or cuDNN's fused attention.
const (
	Unfused Attention = iota
	Fused
)

// Backend is one device as a backend.Backend.
type Backend struct {
	cfg     Config
	log     *slog.Logger
	client  *pjrt.Client
	dev     *pjrt.Device
	host    *bufpool.Pool[[]byte] // the host's copies
	weights *weightStore
	cache   *cache
	// Programs for nearest neighbours, by numbers and dimension, and for resizing.
	finders  texts[[3]int]
	resizers texts[stablehlo.ResizeSize]

	mu     sync.Mutex
	closed bool
	live   int
	stats  Stats
}

// Stats count what the backend did.
type Stats struct {
	Runs, Compiled, FromCache int
	// Matching is how long the device took for the last Nearest.
	Matching time.Duration
}

var _ backend.Backend = (*Backend)(nil)

// hostMemory makes the host's copies.
type hostMemory struct{}

func (hostMemory) Alloc(n int) ([]byte, error) { return make([]byte, n), nil }
func (hostMemory) Free([]byte)                 {}

// New opens a device of a plugin.
func New(cfg Config) (*Backend, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p, err := pjrt.Load(cfg.Plugin)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlugin, err)
	}
	c, err := p.NewClient(cfg.Options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	dev, err := numbered(c, cfg.Device)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	b := &Backend{cfg: cfg, log: log, client: c, dev: dev,
		host: bufpool.New[[]byte](hostMemory{}, bufpool.Options{Limit: 1 << 30})}
	b.weights = newWeightStore(b.dev)
	b.cache = newCache(cfg, dev, log)
	return b, nil
}

// numbered is the client's device with a number of the system's. A client need not have
// those that it was asked for: XLA's for NVIDIA has, in every client of a process, those
// of the first (xla/client/client_library.cc keeps one per platform and ignores later options).
func numbered(c *pjrt.Client, number int) (*pjrt.Device, error) {
	var there []int
	for _, d := range c.Devices() {
		if d.HardwareID == number {
			return d, nil
		}
		there = append(there, d.HardwareID)
	}
	return nil, fmt.Errorf("%w: number %d of %s, of which this process has %v", ErrNoDevice, number, c.Platform, there)
}

// Device are the facts for the user.
func (b *Backend) Device() backend.Device {
	d := backend.Device{Backend: b.cfg.Name, Name: b.dev.Kind, OS: runtime.GOOS + "/" + runtime.GOARCH,
		ISA: fmt.Sprintf("PJRT %s", b.client.Plugin().Version())}
	if m, err := b.dev.Memory(); err == nil { // some plugins keep no books
		d.WorkingSet, d.PoolBytes = uint64(m.Limit), uint64(m.InUse)
	}
	d.WeightsCopied = b.weights.inUse()
	b.mu.Lock()
	defer b.mu.Unlock()
	d.LiveBuffers, d.CommandBuffers = b.live, b.stats.Runs
	return d
}

// Memory are the device allocator's books.
func (b *Backend) Memory() (pjrt.Memory, error) { return b.dev.Memory() }

// account adds to an error about memory how much is in use.
func (b *Backend) account(err error) error {
	if !errors.Is(err, backend.ErrOutOfMemory) {
		return err
	}
	m, books := b.dev.Memory()
	if books != nil {
		return err // some plugins keep none
	}
	return fmt.Errorf("%w (%d MB of %d MB are in use)", err, m.InUse>>20, m.Limit>>20)
}

// Stats returns the counters.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Pool is the host's memory; the device's is the plugin's affair.
func (b *Backend) Pool() backend.Pool { return b.host }

// Trim gives the host's free copies back.
func (b *Backend) Trim() { b.host.Clear() }

func (b *Backend) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return nil
}

// Close ends the use of the device. Programs must be closed before. The client
// goes with the last buffer: those handed out stay readable.
func (b *Backend) Close() error {
	if b.end() {
		return nil
	}
	b.weights.close()
	b.finders.close()
	b.resizers.close()
	return b.release()
}

// end marks the backend closed, and says whether it was.
func (b *Backend) end() (already bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	already, b.closed = b.closed, true
	return already
}

// release closes the client when nothing needs it any more.
func (b *Backend) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed || b.live > 0 || b.client == nil {
		return nil
	}
	c := b.client
	b.client = nil
	b.host.Close()
	return c.Close()
}

// count changes the books.
func (b *Backend) count(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}
