// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Head is what stands between the encoder and the index: whitening, and in some
// checkpoints a projector and a second whitening.
type Head struct {
	// Dim is the length of an encoder feature, Out of a retrieval feature.
	Dim, Out int

	pre, post *whitening
	layers    []layer
	residual  bool
}

// whitening is z = (x - m) p in float64, rounded to float32 at the end. The
// matrix holds factors lambda^-1/2 of a principal component analysis and may be
// badly scaled, so the reference, too, computes it in float64.
type whitening struct {
	in, out int
	m, p    []float64
}

// layer is a Linear, followed in all but the last by LayerNorm and GELU.
type layer struct {
	in, out     int
	w, b        []float32
	gamma, beta []float32
}

// projectorEps is torch's default epsilon of LayerNorm.
const projectorEps = 1e-5

// Open reads a head for encoder features of length dim. The numbers are copied:
// the set may be closed.
func Open(s *weights.Set, dim int) (*Head, error) {
	h := &Head{Dim: dim, Out: dim, residual: s.Metadata()["residual"] == "True"}
	var err error
	if s.Has("prewhiten.m") || s.Has("prewhiten.p") || !s.Has("projector.0.weight") {
		if h.pre, err = openWhitening(s, "prewhiten", h.Out); err != nil {
			return nil, err
		}
		h.Out = h.pre.out
	}
	width := h.Out
	for i := 0; s.Has(fmt.Sprintf("projector.%d.weight", 3*i)); i++ {
		l, err := openLayer(s, i, h.Out)
		if err != nil {
			return nil, err
		}
		h.layers = append(h.layers, l)
		h.Out = l.out
	}
	if h.residual && len(h.layers) > 0 && h.Out != width {
		return nil, fmt.Errorf("retrieval: a residual projector from %d to %d, want equal widths", width, h.Out)
	}
	if s.Has("postwhiten.m") || s.Has("postwhiten.p") {
		if h.post, err = openWhitening(s, "postwhiten", h.Out); err != nil {
			return nil, err
		}
		h.Out = h.post.out
	}
	return h, s.Report().Err()
}

func openWhitening(s *weights.Set, name string, in int) (*whitening, error) {
	m, err := s.Need(name+".m", tensor.Shape{1, in})
	if err != nil {
		return nil, err
	}
	p, err := s.Need(name+".p", tensor.Shape{in, -1})
	if err != nil {
		return nil, err
	}
	w := &whitening{in: in, out: p.Shape[1]}
	w.m = m.Float64s(make([]float64, in))
	w.p = p.Float64s(make([]float64, in*w.out))
	return w, nil
}

func openLayer(s *weights.Set, i, in int) (layer, error) {
	l := layer{in: in}
	read := func(name string, shape ...int) []float32 {
		t, e := s.Need(name, shape)
		if e != nil {
			return nil
		}
		return t.Float32s(make([]float32, t.Shape.Numel()))
	}
	name := fmt.Sprintf("projector.%d", 3*i)
	shape := s.Shape(name + ".weight")
	if len(shape) == 2 {
		l.out = shape[0]
	}
	l.w = read(name+".weight", l.out, in)
	l.b = read(name+".bias", l.out)
	if s.Has(fmt.Sprintf("projector.%d.weight", 3*i+3)) {
		norm := fmt.Sprintf("projector.%d", 3*i+1)
		l.gamma = read(norm+".weight", l.out)
		l.beta = read(norm+".bias", l.out)
	}
	return l, s.Report().Err()
}

// Features are the retrieval features of one picture.
type Features struct {
	// Values are [N,Dim], not normalised.
	Values []float32
	N, Dim int
	// Attention is the Euclidean norm of each feature (before a second whitening).
	Attention []float32
}

// Apply computes the features of n encoder tokens x [n,Dim].
func (h *Head) Apply(pool *par.Pool, x []float32, n int) (*Features, error) {
	if n < 0 || len(x) != n*h.Dim {
		return nil, fmt.Errorf("retrieval: %d numbers for %d tokens, want %d each", len(x), n, h.Dim)
	}
	f := &Features{Values: make([]float32, n*h.Out), N: n, Dim: h.Out, Attention: make([]float32, n)}
	pool.Run((n+block-1)/block, func(_, t int) {
		from, to := t*block, min((t+1)*block, n)
		h.tokens(x[from*h.Dim:to*h.Dim], f.Values[from*h.Out:to*h.Out], f.Attention[from:to])
	})
	return f, nil
}

// block is how many tokens share one pass over a whitening matrix, which is
// larger than a cache.
const block = 16

// tokens is the way of some features x through the head, to y and attention.
func (h *Head) tokens(x, y, attention []float32) {
	n := len(attention)
	if h.pre != nil {
		x = h.pre.apply(x, n)
	}
	z := x
	for _, l := range h.layers {
		z = l.apply(z, n)
	}
	if h.residual && len(h.layers) > 0 {
		for i := range z {
			z[i] += x[i]
		}
	}
	width := len(z) / n
	for t := range attention {
		var sum float64
		for _, v := range z[t*width:][:width] {
			sum += float64(v) * float64(v)
		}
		attention[t] = float32(math.Sqrt(sum))
	}
	if h.post != nil {
		z = h.post.apply(z, n)
	}
	copy(y, z)
}

// apply whitens n features.
func (w *whitening) apply(x []float32, n int) []float32 {
	acc := make([]float64, n*w.out)
	for i, m := range w.m {
		row := w.p[i*w.out:][:w.out]
		for t := range n {
			d := float64(x[t*w.in+i]) - m
			sums := acc[t*w.out:][:len(row)]
			for j, p := range row {
				sums[j] += d * p
			}
		}
	}
	y := make([]float32, len(acc))
	for j, v := range acc {
		y[j] = float32(v)
	}
	return y
}

// apply runs n features through the layer.
func (l layer) apply(x []float32, n int) []float32 {
	y := make([]float32, n*l.out)
	for t := range n {
		l.one(x[t*l.in:][:l.in], y[t*l.out:][:l.out])
	}
	return y
}

func (l layer) one(x, y []float32) {
	acc := make([]float64, l.out)
	var mean float64
	for o := range acc {
		sum := float64(l.b[o])
		for i, w := range l.w[o*l.in:][:l.in] {
			sum += float64(w) * float64(x[i])
		}
		acc[o] = sum
		mean += sum / float64(l.out)
	}
	if l.gamma == nil {
		for o, v := range acc {
			y[o] = float32(v)
		}
		return
	}
	var variance float64
	for _, v := range acc {
		variance += (v - mean) * (v - mean) / float64(l.out)
	}
	r := 1 / math.Sqrt(variance+projectorEps)
	for o, v := range acc {
		v = (v-mean)*r*float64(l.gamma[o]) + float64(l.beta[o])
		y[o] = float32(0.5 * v * (1 + math.Erf(v/math.Sqrt2)))
	}
}

// Top keeps the nfeat features of greatest attention, in descending order, and
// returns their token numbers. A negative nfeat is a fraction of the tokens,
// -0.25 a quarter, rounded down; more than there are gives all.
func (f *Features) Top(nfeat float64) (*Features, []int, error) {
	k := int(nfeat)
	if nfeat < 0 {
		k = int(-nfeat * float64(f.N))
	}
	if math.IsNaN(nfeat) || nfeat < -1 || nfeat > 0 && nfeat != math.Trunc(nfeat) {
		return nil, nil, fmt.Errorf("retrieval: nfeat %v, want a count, or a fraction from -1 to 0", nfeat)
	}
	k = min(k, f.N)
	order := make([]int, f.N)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.Attention[b], f.Attention[a]) })
	order = order[:k]
	out := &Features{N: k, Dim: f.Dim, Values: make([]float32, 0, k*f.Dim)}
	for _, i := range order {
		out.Values = append(out.Values, f.Values[i*f.Dim:][:f.Dim]...)
		out.Attention = append(out.Attention, f.Attention[i])
	}
	return out, order, nil
}

// Global is the attention-weighted sum of the features, of length one.
func (f *Features) Global() []float32 {
	acc := make([]float64, f.Dim)
	for i, a := range f.Attention {
		for j, v := range f.Values[i*f.Dim:][:f.Dim] {
			acc[j] += float64(a) * float64(v)
		}
	}
	var norm float64
	for _, v := range acc {
		norm += v * v
	}
	norm = max(math.Sqrt(norm), 1e-12)
	out := make([]float32, f.Dim)
	for j, v := range acc {
		out[j] = float32(v / norm)
	}
	return out
}
