// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/retrieval"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Retrieval are the retrieval features of one picture (network.md 11.1).
type Retrieval struct {
	// Features are [N,Dim], whitened and not normalised.
	Features []float32
	N, Dim   int
	// Attention [N] is the Euclidean norm of each feature.
	Attention []float32
	Time      time.Duration
}

// Top keeps the nfeat features of greatest attention, descending, and returns
// their token indices; a negative nfeat is a fraction of the tokens.
func (r *Retrieval) Top(nfeat float64) (*Retrieval, []int, error) {
	f, index, err := r.features().Top(nfeat)
	if err != nil {
		return nil, nil, &ConfigError{"nfeat", fmt.Sprint(nfeat), "a count, or a fraction from -1 to 0"}
	}
	return &Retrieval{Features: f.Values, N: f.N, Dim: f.Dim, Attention: f.Attention, Time: r.Time}, index, nil
}

// Global is one vector for the picture: the attention-weighted sum of the
// features, of length one.
func (r *Retrieval) Global() []float32 { return r.features().Global() }

func (r *Retrieval) features() *retrieval.Features {
	return &retrieval.Features{Values: r.Features, N: r.N, Dim: r.Dim, Attention: r.Attention}
}

// retriever is a retrieval head and, when it stands alone, the model whose
// encoder feeds it.
type retriever struct {
	head *retrieval.Head
	own  *loaded
}

func (r *retriever) close() error {
	if r == nil {
		return nil
	}
	return r.own.close()
}

const noRetrieval = "retrieval heads read the features of MASt3R networks"

// LoadRetrieval reads a retrieval head that uses the encoder of the loaded
// model.
func (e *Engine) LoadRetrieval(ctx context.Context, path string) error {
	l, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer e.turn.give()
	if err := l.pairOnly("retrieval", noRetrieval); err != nil {
		return err
	}
	head, err := openHead(ctx, path, l.facts.EncDim)
	if err != nil {
		return err
	}
	old := e.retriever
	e.set(func() { e.retriever = &retriever{head: head} })
	return old.close()
}

// LoadRetrievalStandalone reads a retrieval head and a model of which only the
// encoder is used. Infer still needs a Load.
func (e *Engine) LoadRetrievalStandalone(ctx context.Context, modelPath, retrievalPath string) error {
	l, err := e.open(ctx, modelPath)
	if err != nil {
		return err
	}
	if err := l.pairOnly("retrieval", noRetrieval); err != nil {
		return errors.Join(err, l.close())
	}
	head, err := openHead(ctx, retrievalPath, l.facts.EncDim)
	if err != nil {
		return errors.Join(err, l.close())
	}
	if err := e.turn.take(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	defer e.turn.give()
	if e.closed {
		return errors.Join(ErrClosed, l.close())
	}
	old := e.retriever
	e.set(func() { e.retriever = &retriever{head: head, own: l} })
	return old.close()
}

func openHead(ctx context.Context, path string, dim int) (*retrieval.Head, error) {
	return readSet(ctx, path, weights.RetrievalFile, func(set *weights.Set) (*retrieval.Head, error) {
		return retrieval.Open(set, dim)
	})
}

// readSet reads something small out of the file that find finds at path.
func readSet[T any](ctx context.Context, path string, find func(string) (string, error), read func(*weights.Set) (*T, error)) (*T, error) {
	return detached(ctx, func() (_ *T, err error) {
		file, err := find(path)
		if err != nil {
			return nil, loadError(path, err)
		}
		set, err := weights.OpenSet(file)
		if err != nil {
			return nil, loadError(path, err)
		}
		guarded := func() (v *T, err error) {
			defer fault.Guard(&err)()
			return read(set)
		}
		v, err := guarded()
		if err := errors.Join(err, set.Close()); err != nil {
			return nil, loadError(path, err)
		}
		return v, nil
	}, func(*T) {})
}

// RetrievalReady reports whether EncodeRetrieval can be called, and whether it
// has its own encoder.
func (e *Engine) RetrievalReady() (ready, standalone bool) {
	e.state.RLock()
	defer e.state.RUnlock()
	if e.closed || e.retriever == nil {
		return false, false
	}
	standalone = e.retriever.own != nil
	return standalone || e.loaded != nil, standalone
}

// ErrNoRetrieval is returned by EncodeRetrieval before LoadRetrieval.
var ErrNoRetrieval = errors.New("gomps: no retrieval head is loaded, call LoadRetrieval or LoadRetrievalStandalone first")

// EncodeRetrieval computes the retrieval features of a picture. The reference
// loader cuts square pictures to 4:3; set opt.Rectangle43 for the same numbers.
func (e *Engine) EncodeRetrieval(ctx context.Context, img Image, opt InferOptions) (*Retrieval, error) {
	out, err := e.EncodeRetrievalBatch(ctx, []Image{img}, opt)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// EncodeRetrievalBatch is EncodeRetrieval for several pictures.
func (e *Engine) EncodeRetrievalBatch(ctx context.Context, images []Image, opt InferOptions) ([]*Retrieval, error) {
	if err := e.turn.take(ctx); err != nil {
		return nil, err
	}
	defer e.turn.give()
	switch {
	case e.closed:
		return nil, ErrClosed
	case e.retriever == nil:
		return nil, ErrNoRetrieval
	}
	l := e.retriever.own
	if l == nil {
		l = e.loaded
	}
	if l == nil {
		return nil, ErrNotLoaded
	}
	if err := l.pairOnly("retrieval", noRetrieval); err != nil {
		return nil, err
	}
	out := make([]*Retrieval, len(images))
	for i, img := range images {
		r, err := e.encodeRetrieval(ctx, l, i, img, opt)
		if err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

func (e *Engine) encodeRetrieval(ctx context.Context, l *loaded, i int, img Image, opt InferOptions) (*Retrieval, error) {
	start := time.Now()
	j := e.newJob(ctx, l, AllOutputs)
	defer j.close()
	p, err := j.encodeOne(i, img, opt)
	if err != nil {
		return nil, err
	}
	n := p.grid(l.facts).Tokens()
	if err := p.feat.Fetch(); err != nil {
		return nil, deviceError("read the features", err)
	}
	x := float32s(p.feat.Bytes(), n*l.facts.EncDim)
	var f *retrieval.Features
	err = e.pool.With(ctx, func(pool *par.Pool) (err error) {
		f, err = e.retriever.head.Apply(pool, x, n)
		return err
	})
	if cause := ctx.Err(); err != nil && cause != nil {
		return nil, fmt.Errorf("gomps: retrieval: %w", cause)
	}
	if err != nil {
		return nil, &ShapeError{"retrieval", err.Error(), "features of the head's length"}
	}
	return &Retrieval{Features: f.Values, N: f.N, Dim: f.Dim, Attention: f.Attention, Time: time.Since(start)}, nil
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func float32s(b []byte, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// RetrievalIndex scores pictures against those that were added to it (ASMK,
// network.md 11.2). It serves one goroutine at a time.
type RetrievalIndex struct {
	e     *Engine
	nfeat float64
	index *retrieval.Index
	words *words
	made  map[string]string // what the numbers in it depend on, beside the features
	// seen are the nearest words of features by their hash: finding them is nearly
	// all the work, and a picture is mostly both added and looked up.
	seen map[[sha256.Size]byte][]int32
}

// mostSeen are the pictures whose words are remembered.
const mostSeen = 4096

// OpenIndex starts an index with a codebook (a safetensors file with "centroids"
// [words,dim], or the published pickle, or a directory with one of them). The
// nfeat strongest features of each picture are used; the published head was made
// for 300.
// Close it before the engine.
func (e *Engine) OpenIndex(ctx context.Context, codebook string, nfeat float64) (*RetrievalIndex, error) {
	book, err := readSet(ctx, codebook, weights.CodebookFile, retrieval.OpenCodebook)
	if err != nil {
		return nil, err
	}
	x := &RetrievalIndex{e: e, nfeat: nfeat, words: newWords(e.dev, book), seen: map[[sha256.Size]byte][]int32{}}
	x.made = map[string]string{
		"kind": "index part", "nfeat": fmt.Sprint(nfeat),
		"codebook": fmt.Sprintf("%x", sha256.Sum256(bytesOf(book.Centroids))),
	}
	if x.index, err = retrieval.NewIndex(book, x.quantize); err != nil {
		return nil, &WeightsError{codebook, err}
	}
	return x, nil
}

// Len is the number of pictures in the index.
func (x *RetrievalIndex) Len() int { return x.index.Len() }

// Add puts a picture into the index and returns its number.
func (x *RetrievalIndex) Add(r *Retrieval) (int, error) {
	top, _, err := r.Top(x.nfeat)
	if err != nil {
		return 0, err
	}
	n, err := x.index.Add(top.features())
	return n, indexError(err)
}

// Score compares a picture with the index: one score for each of its pictures.
func (x *RetrievalIndex) Score(r *Retrieval) ([]float64, error) {
	top, _, err := r.Top(x.nfeat)
	if err != nil {
		return nil, err
	}
	s, err := x.index.Score(top.features())
	return s, indexError(err)
}

// Write writes the pictures of the index, from number first on, to a safetensors file that Merge
// reads. It is some thirtieth of the size of their features.
func (x *RetrievalIndex) Write(path string, first int) error {
	if first < 0 || first > x.index.Len() {
		return &ConfigError{"first", fmt.Sprint(first), fmt.Sprintf("0 to %d", x.index.Len())}
	}
	if err := weights.Write(path, x.index.Tensors(first), x.made, 0); err != nil {
		return loadError(path, err)
	}
	return nil
}

// Merge puts the pictures that Write wrote behind those of this index, as if they had been added one
// by one. The other index must have been made with the same codebook and number of features.
func (x *RetrievalIndex) Merge(ctx context.Context, path string) error {
	find := func(path string) (string, error) { return path, nil }
	part, err := readSet(ctx, path, find, func(s *weights.Set) (*retrieval.Part, error) {
		got := s.Metadata()
		for _, name := range slices.Sorted(maps.Keys(x.made)) {
			if got[name] != x.made[name] {
				return nil, fmt.Errorf("%s %s, want %s", name, weights.Quoted(got[name]), x.made[name])
			}
		}
		return retrieval.OpenPart(s)
	})
	if err != nil {
		return err
	}
	if err := x.index.Merge(part); err != nil {
		return &WeightsError{path, err}
	}
	return nil
}

func indexError(err error) error {
	var dev *DeviceError
	if err == nil || errors.As(err, &dev) {
		return err
	}
	return &ShapeError{"retrieval index", err.Error(), "features of the codebook's length"}
}

// Close frees the codebook on the device.
func (x *RetrievalIndex) Close() error {
	if err := x.e.turn.take(context.Background()); err != nil {
		return err
	}
	defer x.e.turn.give()
	return x.words.close()
}

func (x *RetrievalIndex) quantize(features []float32, n, k int) ([]int32, error) {
	if err := x.e.turn.take(context.Background()); err != nil {
		return nil, err
	}
	defer x.e.turn.give()
	if x.e.closed {
		return nil, ErrClosed
	}
	// The k nearest are the first of the most that anybody asks for.
	most := min(retrieval.QueryAssignments, x.words.book.Words)
	key := sha256.Sum256(bytesOf(features))
	top, ok := x.seen[key]
	if !ok {
		if len(x.seen) >= mostSeen { // of 300 features each: 25 MB
			clear(x.seen)
		}
		var err error
		if top, err = x.words.nearest(features, n, most); err != nil {
			return nil, err
		}
		x.seen[key] = top
	}
	out := make([]int32, 0, n*k)
	for i := range n {
		out = append(out, top[i*most:i*most+k]...)
	}
	return out, nil
}

// words finds nearest centroids on the device. With |x-c|^2 = |x|^2 - 2 x.c +
// |c|^2, the nearest centroid is that of largest x.c - |c|^2/2: a matrix product
// with a bias, and its largest elements.
type words struct {
	dev      backend.Backend
	book     *retrieval.Codebook
	bias     []float32
	programs map[int]backend.Program // by rows
}

// wordRows bounds the scores in memory: rows x words x 4 bytes.
const wordRows = 320

func newWords(dev backend.Backend, book *retrieval.Codebook) *words {
	w := &words{dev: dev, book: book, bias: make([]float32, book.Words), programs: map[int]backend.Program{}}
	for i := range w.bias {
		var sum float64
		for _, v := range book.Centroids[i*book.Dim:][:book.Dim] {
			sum += float64(v) * float64(v)
		}
		w.bias[i] = float32(-sum / 2)
	}
	return w
}

func (w *words) close() error {
	var errs []error
	for _, p := range w.programs {
		errs = append(errs, p.Close())
	}
	clear(w.programs)
	return errors.Join(errs...)
}

// program finds the QueryAssignments nearest words of rows features; callers that
// need one word use the first.
func (w *words) program(rows int) (backend.Program, error) {
	if p, ok := w.programs[rows]; ok {
		return p, nil
	}
	g := graph.New("words")
	x := g.Input("features", tensor.F32, rows, w.book.Dim)
	c := weights.FromFloat32s("centroids", tensor.Shape{w.book.Words, w.book.Dim}, w.book.Centroids)
	b := weights.FromFloat32s("bias", tensor.Shape{w.book.Words}, w.bias)
	score := g.Linear(x, g.Param(graph.Param{Name: c.Name, Shape: c.Shape, DType: c.DType, Data: c.Data}),
		g.Param(graph.Param{Name: b.Name, Shape: b.Shape, DType: b.DType, Data: b.Data}))
	g.Output("words", g.Add(graph.TopK{K: min(retrieval.QueryAssignments, w.book.Words), Index: true}, score))
	g, err := g.Build()
	if err != nil {
		return nil, err
	}
	p, err := w.dev.Compile(context.Background(), g, backend.Options{})
	if err != nil {
		return nil, deviceError("compile the codebook", err)
	}
	w.programs[rows] = p
	return p, nil
}

func (w *words) nearest(features []float32, n, k int) ([]int32, error) {
	out := make([]int32, 0, n*k)
	for at := 0; at < n; at += wordRows {
		rows := min(wordRows, n-at)
		top, stride, err := w.rows(features[at*w.book.Dim:(at+rows)*w.book.Dim], rows)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			out = append(out, top[i*stride:i*stride+k]...)
		}
	}
	return out, nil
}

// rows runs the program for one block; the result has stride entries a row.
func (w *words) rows(features []float32, rows int) (top []int32, stride int, err error) {
	p, err := w.program(rows)
	if err != nil {
		return nil, 0, err
	}
	o := p.Graph().Outputs[0].Node
	var bufs [2]backend.Buffer
	for i, size := range []int{4 * len(features), o.Bytes()} {
		if bufs[i], err = w.dev.Alloc(size); err != nil {
			return nil, 0, deviceError("allocate for the codebook", err)
		}
		defer bufs[i].Release()
	}
	copy(float32s(bufs[0].Bytes(), len(features)), features)
	work, err := w.dev.Begin(encoderQueue)
	if err != nil {
		return nil, 0, deviceError("begin work", err)
	}
	defer work.Discard()
	ctx := context.Background()
	if err := work.Run(ctx, p, bufs[:1], bufs[1:]); err != nil {
		return nil, 0, deviceError("codebook", err)
	}
	done, err := work.Submit()
	if err == nil {
		_, err = done.Wait(ctx)
	}
	if err != nil {
		return nil, 0, deviceError("codebook", err)
	}
	if err := bufs[1].Fetch(); err != nil {
		return nil, 0, deviceError("codebook", err)
	}
	top = append(top, unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(bufs[1].Bytes()))), o.Numel())...)
	return top, o.Shape[1], nil
}

// ScenePair is two pictures, by their position in the list.
type ScenePair struct{ First, Second int }

// SceneOptions are further options of a scene graph.
type SceneOptions struct {
	// Similarity [n,n] is needed by retrieval graphs.
	Similarity []float64
	// Anchor is the first anchor of a retrieval graph.
	Anchor int
	// Prefilter is "", "seqT" or "cycT": keep pairs of pictures at most T apart in
	// their order, cyclically for cyc.
	Prefilter string
	// Symmetrize also appends every pair in reverse order.
	Symmetrize bool
}

// ScenePairs lists the pairs of n pictures in a scene graph: complete,
// swin[-w][-noncyclic], logwin[-w][-noncyclic], oneref[-r], retrieval-Na-k.
func ScenePairs(n int, graph string, opt SceneOptions) ([]ScenePair, error) {
	list, err := retrieval.Pairs(n, graph, retrieval.PairOptions(opt))
	if err != nil {
		return nil, &ConfigError{"scene graph", graph, err.Error()}
	}
	pairs := make([]ScenePair, len(list))
	for i, p := range list {
		pairs[i] = ScenePair(p)
	}
	return pairs, nil
}
