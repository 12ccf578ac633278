// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Features are one encoded picture, the input of the decoder. They can be kept,
// saved, and decoded with those of any other picture, so that a picture that is
// part of many pairs is encoded once.
type Features struct {
	// Tokens is [rows*cols, EncDim], normalised; networks of many views have two rows of
	// class tokens before those of the patches.
	Tokens *Tensor
	// Transform describes how the picture was resized and cropped.
	Transform Transform
}

// Release gives the memory back.
func (f *Features) Release() { f.Tokens.Release() }

// Encode runs the encoder on one picture.
func (e *Engine) Encode(ctx context.Context, img Image, opt InferOptions) (*Features, error) {
	l, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	j := e.newJob(ctx, l, opt.Only)
	defer j.close()
	p, err := j.encodeOne(0, img, opt)
	if err != nil {
		return nil, err
	}
	out := &Features{Transform: p.transform,
		Tokens: newTensor(tensor.Shape{l.rows(p.height, p.width), l.facts.EncDim}, p.feat)}
	j.disown(p.feat)
	return out, nil
}

// encodeOne runs the encoder on image number i of a call. The features are the job's.
func (j *job) encodeOne(i int, img Image, opt InferOptions) (*picture, error) {
	pics, err := j.prepareAt(i, []Image{img}, opt)
	if err != nil {
		return nil, err
	}
	w, err := j.begin(encoderQueue)
	if err != nil {
		return nil, err
	}
	if err := w.encode(pics...); err != nil {
		return nil, err
	}
	var t Timing
	return pics[0], w.finish(&t)
}

// NewFeatures brings saved features back to the device: tokens and transform as
// Encode gave them, with the same model.
func (e *Engine) NewFeatures(tokens []float32, t Transform) (*Features, error) {
	l, err := e.lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	n, err := l.featureTokens(t)
	if err != nil {
		return nil, err
	}
	shape := tensor.Shape{n, l.facts.EncDim}
	if len(tokens) != shape.Numel() {
		return nil, &ShapeError{"features", fmt.Sprintf("%d numbers", len(tokens)), fmt.Sprintf("%d for %v", shape.Numel(), shape)}
	}
	buf, err := e.dev.Alloc(4 * len(tokens))
	if err != nil {
		return nil, deviceError("allocate features", err)
	}
	copy(float32s(buf.Bytes(), len(tokens)), tokens)
	return &Features{Tokens: newTensor(shape, buf), Transform: t}, nil
}

// featureTokens is the number of tokens of a picture of a transform's size.
func (l *loaded) featureTokens(t Transform) (int, error) {
	p := l.facts.Patch
	if t.Height < p || t.Width < p || t.Height%p != 0 || t.Width%p != 0 || t.Height > maxSide || t.Width > maxSide {
		return 0, &ShapeError{"features", fmt.Sprintf("a picture of %dx%d", t.Height, t.Width), fmt.Sprintf("multiples of the patch size %d", p)}
	}
	return l.rows(t.Height, t.Width), nil
}

// rows are those of the features of a picture of network size.
func (l *loaded) rows(height, width int) int {
	return l.facts.Lead + l.facts.GridOf(height, width).Tokens()
}

// Decode reconstructs the pair of two encoded pictures, as Infer does.
func (e *Engine) Decode(ctx context.Context, a, b *Features, opt InferOptions) (*Result, error) {
	l, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	if err := l.pairable(opt); err != nil {
		return nil, err
	}
	j := e.newJob(ctx, l, opt.Only)
	defer j.close()
	pics := make([]*picture, 2)
	for i, f := range []*Features{a, b} {
		if pics[i], err = j.encoded(f); err != nil {
			return nil, err
		}
	}
	out := &Result{}
	if l.pair == nil {
		if err := j.pairByViews(pics[0], pics[1], &out.View[0], &out.View[1], &out.Timing); err != nil {
			return nil, err
		}
		j.keep(&out.Timing)
		return out, nil
	}
	w, err := j.begin(decoderQueue)
	if err != nil {
		return nil, err
	}
	if err := w.decode(pics[0], pics[1], &out.View[0], &out.View[1]); err != nil {
		return nil, err
	}
	if err := w.finish(&out.Timing); err != nil {
		return nil, err
	}
	j.keep(&out.Timing)
	return out, nil
}

// encoded is a picture whose features are there already.
func (j *job) encoded(f *Features) (*picture, error) {
	if f == nil || !f.Tokens.Valid() {
		return nil, &ShapeError{"features", "none, or released ones", "features of Encode or NewFeatures"}
	}
	n, err := j.l.featureTokens(f.Transform)
	if err != nil {
		return nil, err
	}
	if want := (tensor.Shape{n, j.l.facts.EncDim}); !f.Tokens.shape.Equal(want) {
		return nil, &ShapeError{"features", f.Tokens.shape.String(), want.String()}
	}
	return &picture{transform: f.Transform, height: f.Transform.Height, width: f.Transform.Width, feat: *f.Tokens.mem.buf.Load()}, nil
}

// disown takes a buffer out of what the job gives back.
func (j *job) disown(b backend.Buffer) {
	for i, x := range j.buffers {
		if x == b {
			j.buffers = append(j.buffers[:i], j.buffers[i+1:]...)
			return
		}
	}
}
