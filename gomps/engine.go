// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Engine runs one model on one device.
type Engine struct {
	cfg      Config
	log      *slog.Logger
	dev      backend.Backend
	fallback string

	// turn is taken for the length of every call that uses the device.
	turn turn
	// state guards what follows, for a moment at a time, so that asking for Info
	// does not wait for an inference. It is written with the turn taken.
	state     sync.RWMutex
	closed    bool
	loaded    *loaded
	retriever *retriever

	// matching is apart from turn: matching needs no model and no device.
	matching turn
	pool     *par.Pool
	matcher  *match.Matcher
	// rows are the programs that read some descriptors of a map, used with matching taken.
	rows programs
	// resizer is used with the turn taken.
	resizer *preprocess.Resizer
}

// loaded is a model and what has been compiled of it.
type loaded struct {
	path      string
	set       *weights.Set
	model     model.Network
	facts     vit.Facts
	pair      model.Pairwise  // nil where the network is none
	views     model.Multiview // likewise
	precision backend.Precision
	size      int      // long side
	unused    []string // tensors of the file that the model does not read
	programs  programs
	lanes     []*programs // of the devices that compute pairs side by side
	// apart says that results are in memory which the host must fetch.
	apart    bool
	admitted map[call]bool    // calls whose memory there was
	windows  map[manyCall]int // likewise, and how many views were looked at together
	counts   struct{ encodes, decodes, heads atomic.Uint64 }
}

// Open starts an engine without a model.
func Open(cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dev, fallback, err := cfg.open()
	if err != nil {
		return nil, err
	}
	pool := par.New(cfg.Threads)
	return &Engine{cfg: cfg, log: log, dev: dev, fallback: fallback, turn: make(turn, 1), matching: make(turn, 1),
		pool: pool, matcher: match.New(pool), rows: programs{dev: dev}, resizer: preprocess.NewResizer(pool)}, nil
}

// Load reads a model: a safetensors file, or a directory that holds
// unified.safetensors, model.safetensors, or encoder.safetensors and
// decoder.safetensors. It replaces the model loaded before; when it fails, that
// one stays. Cancelling ctx ends the call even if the file system hangs.
func (e *Engine) Load(ctx context.Context, path string) error {
	l, err := e.open(ctx, path)
	if err != nil {
		return err
	}
	if err := e.turn.take(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	defer e.turn.give()
	if e.closed {
		return errors.Join(ErrClosed, l.close())
	}
	old := e.loaded
	e.set(func() { e.loaded = l })
	if unused := l.unused; len(unused) > 0 {
		e.log.Warn("the model file holds tensors that are not used", "path", path, "count", len(unused), "first", unused[0])
	}
	e.log.Info("model loaded", "path", path, "variant", l.facts.Variant, "parameters", l.facts.Parameters, "precision", l.precision)
	return old.close()
}

// open reads a model.
func (e *Engine) open(ctx context.Context, path string) (*loaded, error) {
	return detached(ctx, func() (*loaded, error) {
		set, err := weights.OpenSet(path)
		if err != nil {
			return nil, loadError(path, err)
		}
		l, err := e.prepare(set)
		if err != nil {
			return nil, loadError(path, errors.Join(err, set.Close()))
		}
		l.path = path
		return l, nil
	}, func(l *loaded) { _ = l.close() })
}

func (e *Engine) prepare(set *weights.Set) (_ *loaded, err error) {
	defer fault.Guard(&err)()
	m, err := model.Open(set)
	if err != nil {
		return nil, err
	}
	facts := m.Facts()
	if v := e.cfg.Variant; v != "" && v != "auto" && !fits(v, facts.Variant) {
		return nil, &ConfigError{"Variant", v, fmt.Sprintf("%s, which is what the file holds", facts.Variant)}
	}
	l := &loaded{set: set, model: m, facts: facts, size: e.cfg.Resolution, unused: m.Report().Extra}
	l.pair, _ = m.(model.Pairwise)
	l.views, _ = m.(model.Multiview)
	if l.size == 0 {
		l.size = facts.Resolution
	}
	if l.size < facts.Patch {
		return nil, &ConfigError{"Resolution", fmt.Sprint(l.size), fmt.Sprintf("at least the patch size %d", facts.Patch)}
	}
	l.precision, err = e.cfg.precision(e.dev.Device().Backend)
	l.apart = e.dev.Device().Backend == BackendCUDA
	l.programs.dev, l.programs.opt = e.dev, backend.Options{Precision: l.precision}
	return l, err
}

// fits says whether a model that was asked for is the one of a file. The older names
// leave the resolution open.
func fits(asked, held string) bool {
	if family, ok := strings.CutSuffix(asked, "_14"); ok {
		return held == asked || held == family+"_336" || held == family+"_448"
	}
	return plainVariant(asked) == plainVariant(held)
}

// plainVariant resolves the two older names that leave the encoder's size unsaid.
func plainVariant(name string) string {
	switch name {
	case "dune_vit_small_14":
		return "dune_vit_small_448"
	case "dune_vit_base_14":
		return "dune_vit_base_448"
	}
	return name
}

func (l *loaded) close() error {
	if l == nil {
		return nil
	}
	errs := []error{l.programs.close()}
	for _, p := range l.lanes {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, l.set.Close())...)
}

// turn is a lock whose waiting can be given up.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("gomps: %w", err)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gomps: waiting for the engine: %w", ctx.Err())
	}
}

func (t turn) give() { <-t }

// lock takes the engine for a call that needs a model.
func (e *Engine) lock(ctx context.Context) (*loaded, error) {
	if err := e.turn.take(ctx); err != nil {
		return nil, err
	}
	var err error
	switch {
	case e.closed:
		err = ErrClosed
	case e.loaded == nil:
		err = ErrNotLoaded
	default:
		return e.loaded, nil
	}
	e.turn.give()
	return nil, err
}

// set changes the state; the caller has the turn.
func (e *Engine) set(change func()) {
	e.state.Lock()
	defer e.state.Unlock()
	change()
}

// Ready reports whether a model is loaded.
func (e *Engine) Ready() bool {
	e.state.RLock()
	defer e.state.RUnlock()
	return !e.closed && e.loaded != nil
}

// Name is the model and the backend: "mast3r_tiny on cpu (avx512)".
func (e *Engine) Name() string {
	i := e.Info()
	what := i.Variant
	if what == "" {
		what = "no model"
	}
	if i.ISA != "" {
		return fmt.Sprintf("%s on %s (%s)", what, i.Backend, i.ISA)
	}
	return fmt.Sprintf("%s on %s", what, i.Backend)
}

// Info describes the device and the model.
func (e *Engine) Info() Info {
	d := e.dev.Device()
	i := Info{
		Backend: d.Backend, Device: d.Name, ISA: d.ISA, Products: d.Products, Threads: d.Threads,
		WorkingSet: d.WorkingSet, MaxBuffer: d.MaxBuffer, UnifiedMemory: d.UnifiedMemory, OS: d.OS,
		PoolBuffers: d.PoolBuffers, PoolBytes: d.PoolBytes, LiveBuffers: d.LiveBuffers,
		FallbackReason: e.fallback,
		WeightsMapped:  d.WeightsMapped, WeightsCopied: d.WeightsCopied, CommandBuffers: d.CommandBuffers,
	}
	e.state.RLock()
	defer e.state.RUnlock()
	l := e.loaded
	if l == nil {
		return i
	}
	m := l.facts
	i.Variant, i.Precision = m.Variant, l.precision.String()
	i.Outputs = l.outputs()
	i.Patch, i.DescDim, i.Resolution = m.Patch, m.DescDim, l.size
	i.EncDim, i.EncDepth, i.EncHeads = m.EncDim, m.EncDepth, m.EncHeads
	i.DecDim, i.DecDepth, i.DecHeads = m.DecDim, m.DecDepth, m.DecHeads
	i.Parameters, i.Metadata = m.Parameters, l.model.Metadata()
	i.UnusedTensors = slices.Clone(l.unused)
	i.Encodes, i.Decodes, i.HeadPasses = l.counts.encodes.Load(), l.counts.decodes.Load(), l.counts.heads.Load()
	return i
}

// Warmup runs n inferences on a grey pair of the native size, so that the first
// pair does not wait for compilation and allocation.
func (e *Engine) Warmup(ctx context.Context, n int) error {
	l, err := e.lock(ctx)
	if err != nil {
		return err
	}
	p := l.facts.Patch
	w := max(l.size/p*p, p)
	h := max(w*3/4/p*p, p)
	e.turn.give()
	grey := Image{Pix: make([]byte, 3*h*w), Height: h, Width: w}
	for i := range grey.Pix {
		grey.Pix[i] = 128
	}
	for range n {
		r, err := e.Infer(ctx, grey, grey, InferOptions{Raw: true})
		if err != nil {
			return err
		}
		r.Release()
	}
	return nil
}

// Trim frees the memory that the engine keeps for reuse.
func (e *Engine) Trim() { e.dev.Trim() }

// Close frees the model and the device. Results stay valid. Closing again does
// nothing.
func (e *Engine) Close() error {
	if err := e.turn.take(context.Background()); err != nil {
		return err
	}
	defer e.turn.give()
	if e.closed {
		return nil
	}
	l, r := e.loaded, e.retriever
	e.set(func() { e.closed, e.loaded, e.retriever = true, nil, nil })
	if err := e.matching.take(context.Background()); err != nil { // waits for a match that runs
		return err
	}
	defer e.matching.give()
	err := errors.Join(l.close(), r.close(), e.rows.close(), e.dev.Close())
	e.pool.Close()
	return err
}
