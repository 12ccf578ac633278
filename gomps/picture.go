// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// maxSide bounds a picture's sides: far beyond any camera, and small enough
// that products of two sides fit any integer.
const maxSide = 1 << 20

func (m Image) stride() int {
	if m.Stride == 0 {
		return 3 * m.Width
	}
	return m.Stride
}

// check refuses an image whose numbers do not describe its bytes.
func (m Image) check() error {
	switch {
	case m.Height < 1 || m.Width < 1 || m.Height > maxSide || m.Width > maxSide:
		return fmt.Errorf("height %d, width %d, want 1 to %d", m.Height, m.Width, maxSide)
	case m.stride() < 3*m.Width:
		return fmt.Errorf("stride %d bytes, want at least 3*%d", m.stride(), m.Width)
	case m.stride() > (1<<62)/m.Height:
		return fmt.Errorf("stride %d bytes for %d rows is too large", m.stride(), m.Height)
	}
	if want := m.stride()*(m.Height-1) + 3*m.Width; len(m.Pix) < want {
		return fmt.Errorf("%d bytes of pixels, want %d for %dx%d RGB", len(m.Pix), want, m.Height, m.Width)
	}
	return nil
}

// prepare brings images to network size in device memory.
func (j *job) prepare(images []Image, opt InferOptions) ([]*picture, error) {
	return j.prepareAt(0, images, opt)
}

// prepareAt is prepare for images whose first is number base of the call.
func (j *job) prepareAt(base int, images []Image, opt InferOptions) ([]*picture, error) {
	plans, err := j.plans(base, images, opt)
	if err != nil {
		return nil, err
	}
	if err := j.admit(plans, false); err != nil {
		return nil, err
	}
	pics := make([]*picture, len(images))
	for i, img := range images {
		if pics[i], err = j.prepareOne(base+i, img, plans[i]); err != nil {
			return nil, err
		}
	}
	return pics, nil
}

// plans say how images come to network size, to one size for a network of many views.
func (j *job) plans(base int, images []Image, opt InferOptions) ([]preprocess.Transform, error) {
	plans := make([]preprocess.Transform, len(images))
	for i, img := range images {
		t, err := j.transform(img, opt)
		if err != nil {
			return nil, &ImageError{base + i, err}
		}
		plans[i] = t
	}
	if j.l.views != nil {
		preprocess.Common(plans)
	}
	return plans, nil
}

// transform says how a picture comes to network size.
func (j *job) transform(img Image, opt InferOptions) (t preprocess.Transform, err error) {
	if err := img.check(); err != nil {
		return t, err
	}
	patch, size := j.l.facts.Patch, cmp.Or(opt.Resolution, j.l.size)
	switch {
	case opt.Raw && (img.Height%patch != 0 || img.Width%patch != 0):
		return t, fmt.Errorf("raw picture of %dx%d (height x width), want multiples of the patch size %d", img.Height, img.Width, patch)
	case opt.Raw:
		return preprocess.Transform{OriginalW: img.Width, OriginalH: img.Height,
			ResizedW: img.Width, ResizedH: img.Height, Width: img.Width, Height: img.Height}, nil
	case j.l.views != nil:
		return preprocess.PlanNearest(img.Width, img.Height, size, patch)
	}
	return preprocess.Plan(img.Width, img.Height, size, patch, opt.Rectangle43)
}

// prepareOne is prepare for image number i of the call, whose plan is there.
func (j *job) prepareOne(i int, img Image, t preprocess.Transform) (*picture, error) {
	start := time.Now()
	pic, err := j.resized(img, t)
	if device := (*DeviceError)(nil); errors.As(err, &device) {
		return nil, err // no fault of the picture
	}
	if cause := j.ctx.Err(); cause != nil {
		return nil, fmt.Errorf("gomps: preprocessing: %w", cause)
	}
	if err != nil {
		return nil, &ImageError{i, err}
	}
	j.preprocess += time.Since(start)
	return pic, nil
}

func (j *job) resized(img Image, t preprocess.Transform) (_ *picture, err error) {
	defer fault.Watch(img.Pix, "the memory of the picture")() // a mapped file, perhaps
	defer fault.Guard(&err)()
	buf, err := j.temp(3 * t.Width * t.Height)
	if err != nil {
		return nil, err
	}
	err = j.resizeFar(buf, img, t)
	if errors.Is(err, backend.ErrUnsupported) {
		src := preprocess.Image{Pix: img.Pix, W: img.Width, H: img.Height, Stride: img.stride()}
		err = j.e.pool.With(j.ctx, func(pool *par.Pool) error { return j.e.resizer.On(pool).Apply(buf.Bytes(), src, t) })
	}
	if err != nil {
		return nil, err
	}
	return &picture{transform: Transform(t), height: t.Height, width: t.Width, pixels: buf}, nil
}

// resizeFar has the device resize a picture, where it can: the same bytes.
func (j *job) resizeFar(buf backend.Buffer, img Image, t preprocess.Transform) error {
	dev, ok := j.e.dev.(backend.Resizer)
	if !ok || !t.Resizes() {
		return backend.ErrUnsupported
	}
	x, y, err := j.e.resizer.Axes(t)
	if err != nil {
		return err
	}
	src := backend.Picture{Pix: img.Pix, Width: img.Width, Height: img.Height, Stride: img.stride()}
	err = dev.Resize(j.ctx, buf, src, backend.Taps(x), backend.Taps(y))
	if err == nil || errors.Is(err, backend.ErrUnsupported) || j.ctx.Err() != nil {
		return err
	}
	return deviceError("resize a picture", err)
}
