// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"
)

// Infer reconstructs a pair (network.md 9, asymmetric): both views in camera 1's
// frame. The pictures may be of different sizes.
func (e *Engine) Infer(ctx context.Context, img1, img2 Image, opt InferOptions) (*Result, error) {
	out := &Result{}
	if err := e.inferPair(ctx, img1, img2, opt, out.View[:], &out.Timing); err != nil {
		return nil, err
	}
	return out, nil
}

// InferSymmetric encodes each picture once and decodes the pair both ways.
func (e *Engine) InferSymmetric(ctx context.Context, img1, img2 Image, opt InferOptions) (*Symmetric, error) {
	out := &Symmetric{}
	if err := e.inferPair(ctx, img1, img2, opt, out.View[:], &out.Timing); err != nil {
		return nil, err
	}
	return out, nil
}

// inferPair fills in two views of the pair, and two more of the pair the other way
// round where there is room for four.
func (e *Engine) inferPair(ctx context.Context, img1, img2 Image, opt InferOptions, views []View, t *Timing) error {
	l, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer e.turn.give()
	if err := l.pairable(opt); err != nil {
		return err
	}
	j := e.newJob(ctx, l, opt.Only)
	defer j.close()
	if err := j.admitImages([]Image{img1, img2}, opt, len(views) > 2); err != nil {
		return err
	}
	pics, err := j.prepare([]Image{img1, img2}, opt)
	if err != nil {
		return err
	}
	if err := j.pair(pics, views, t); err != nil {
		return err
	}
	j.keep(t)
	return nil
}

// pair computes two views of a pair, and two more of the pair the other way round
// where there is room for four.
func (j *job) pair(pics []*picture, views []View, t *Timing) error {
	if j.l.pair == nil {
		for i := 0; i < len(views); i += 2 {
			if err := j.pairByViews(pics[i/2], pics[1-i/2], &views[i], &views[i+1], t); err != nil {
				return err
			}
		}
		return nil
	}
	w, err := j.begin(decoderQueue)
	if err != nil {
		return err
	}
	if err := w.encode(pics...); err != nil {
		return err
	}
	for i := 0; i < len(views); i += 2 {
		if err := w.decode(pics[i/2], pics[1-i/2], &views[i], &views[i+1]); err != nil {
			return err
		}
	}
	return w.finish(t)
}

// InferSequence reconstructs the pairs (0,1), (1,2), ... Every picture is
// encoded once. On a device with queues the encoding of the next picture
// overlaps the decoding of the pair before it.
func (e *Engine) InferSequence(ctx context.Context, images []Image, opt InferOptions) ([]*Result, error) {
	if len(images) < 2 {
		return nil, &ShapeError{"images of a sequence", fmt.Sprint(len(images)), "at least 2"}
	}
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
	if l.pair == nil {
		return j.sequenceByViews(images, opt)
	}
	if err := j.admitImages(images, opt, false); err != nil {
		return nil, err
	}
	s := sequence{job: j, opt: opt, out: make([]*Result, len(images)-1)}
	for i := range images {
		if err := s.step(i, images[i]); err != nil {
			return nil, err
		}
	}
	if err := s.wait(len(s.out) - 1); err != nil {
		return nil, err
	}
	for _, r := range s.out {
		j.keep(&r.Timing)
	}
	return s.out, nil
}

// sequence is the state of InferSequence: the picture before, and the pair in
// flight.
type sequence struct {
	*job
	opt      InferOptions
	out      []*Result
	previous *picture
	// encoders are the encoder works whose times belong to the next pair.
	encoders []*work
	inFlight []*work
}

// step encodes picture i and starts the pair (i-1, i); then it waits for the
// pair before, so that never more than two are in memory.
func (s *sequence) step(i int, img Image) error {
	pics, err := s.prepareAt(i, []Image{img}, s.opt)
	if err != nil {
		return err
	}
	pic := pics[0]
	enc, err := s.begin(encoderQueue)
	if err != nil {
		return err
	}
	if err := enc.encode(pic); err != nil {
		return err
	}
	if _, err := enc.submit(); err != nil {
		return err
	}
	previous := s.previous
	s.previous, s.encoders = pic, append(s.encoders, enc)
	if previous == nil {
		return nil
	}
	dec, err := s.begin(decoderQueue)
	if err != nil {
		return err
	}
	for _, w := range s.encoders {
		if err := dec.After(w.pending); err != nil {
			return dec.wrap("wait for an encoder", err)
		}
	}
	r := &Result{}
	if err := dec.decode(previous, pic, &r.View[0], &r.View[1]); err != nil {
		return err
	}
	if _, err := dec.submit(); err != nil {
		return err
	}
	previous.feat.Release()
	if err := s.wait(i - 2); err != nil {
		return err
	}
	s.out[i-1], s.inFlight, s.encoders = r, append(s.encoders, dec), nil
	return nil
}

// wait finishes pair i, if it is in flight.
func (s *sequence) wait(i int) error {
	for _, w := range s.inFlight {
		if err := w.finish(&s.out[i].Timing); err != nil {
			return err
		}
	}
	s.inFlight = nil
	return nil
}
