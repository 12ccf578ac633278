// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ConvertOptions are the options of Convert.
type ConvertOptions struct {
	// Precision is the type of the weights: "fp32", "fp16", "bf16", or "keep" ("")
	// to leave each as it is. Retrieval's whitening and codebook are not rounded.
	Precision string
	// Progress, if not nil, is called repeatedly from another goroutine with the
	// bytes read so far and in all.
	Progress func(done, total int64)
}

// Convert writes model files as safetensors whose tensors start on pages of 16
// KiB, so that a device can map them. In is a .pth, .safetensors or .pkl file, or
// a directory of a model; out is a file or a directory. It streams, using tens of
// megabytes of memory, and returns the paths of the files. A file appears under
// its name when it is complete.
func Convert(ctx context.Context, in, out string, opt ConvertOptions) ([]string, error) {
	dtypes := map[string]tensor.DType{"": tensor.Invalid, "keep": tensor.Invalid,
		"fp32": tensor.F32, "fp16": tensor.F16, "bf16": tensor.BF16}
	d, ok := dtypes[opt.Precision]
	if !ok {
		return nil, &ConfigError{"Precision", opt.Precision, "fp32, fp16, bf16 or keep"}
	}
	var over atomic.Bool
	defer over.Store(true)
	progress := func(done, total int64) {
		if opt.Progress != nil && !over.Load() {
			opt.Progress(done, total)
		}
	}
	written, err := detached(ctx, func() ([]string, error) {
		return weights.Convert(ctx, in, out, weights.ConvertOptions{DType: d, Progress: progress})
	}, func([]string) {})
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return written, err
	}
	return written, loadError(in, err)
}
