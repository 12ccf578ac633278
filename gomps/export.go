// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/onnx"
)

// ExportOptions are the options of ExportONNX.
type ExportOptions struct {
	// Height1, Width1 are the network size of the first picture, multiples of the
	// patch size; 0 means the native size at 4:3. Height2, Width2 likewise, 0
	// meaning the same as the first.
	Height1, Width1, Height2, Width2 int
	// HalfWeights stores weights as float16.
	HalfWeights bool
	// HalfCompute rounds the factors of products to float16 too, for a GPU; norms,
	// softmax and the last layers of the heads stay float32.
	HalfCompute bool
	// Attention writes attention as an operator of its own, for which runtimes have
	// fused kernels: opset 23 in place of 20.
	Attention bool
}

// ExportONNX writes the loaded network for one pair of pictures as an ONNX model
// (opset 20, or 23 with Attention) to path, its weights to path + ".data".
//
// Inputs: image1, image2 u8 [1,H,W,3], RGB, at network size. Outputs: points1,
// conf1, desc1, desc_conf1 and the same of view 2, as Infer gives them.
func (e *Engine) ExportONNX(ctx context.Context, path string, opt ExportOptions) (err error) {
	l, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer e.turn.give()
	if err := l.pairOnly("export to ONNX", "load a MASt3R network"); err != nil {
		return err
	}
	defer fault.Guard(&err)()
	p := l.facts.Patch
	if opt.Width1 == 0 && opt.Height1 == 0 {
		opt.Width1 = max(l.size/p*p, p)
		opt.Height1 = max(opt.Width1*3/4/p*p, p)
	}
	if opt.Width2 == 0 && opt.Height2 == 0 {
		opt.Width2, opt.Height2 = opt.Width1, opt.Height1
	}
	g, err := l.pair.Pair(opt.Height1, opt.Width1, opt.Height2, opt.Width2)
	if err != nil {
		return &ShapeError{"export", err.Error(), "picture sizes that are multiples of the patch size"}
	}
	meta := map[string]string{"variant": l.facts.Variant, "desc_dim": fmt.Sprint(l.facts.DescDim), "patch_size": fmt.Sprint(p)}
	err = onnx.Export(ctx, g, path, onnx.Options{HalfWeights: opt.HalfWeights,
		HalfCompute: opt.HalfCompute, Attention: opt.Attention, Producer: "mast3r-runtime", Metadata: meta})
	if cause := ctx.Err(); err != nil && cause != nil {
		return fmt.Errorf("gomps: export: %w", cause)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &FileError{err}
	}
	if err != nil {
		return deviceError("export to ONNX", err)
	}
	return nil
}
