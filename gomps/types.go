// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
)

// Image is a view of 8-bit RGB pixels, row by row, channels interleaved. It is
// only read, and only during the call it is given to.
type Image struct {
	Pix           []byte
	Height, Width int
	// Stride is the distance of two rows in bytes; 0 means 3*Width.
	Stride int
}

// InferOptions are the options of one inference.
type InferOptions struct {
	// Raw uses the pictures without resizing; their sides must be multiples of the
	// patch size. Otherwise they are resized and cropped (network.md 3).
	Raw bool
	// Rectangle43 cuts square pictures to 4:3, as the reference loader does.
	Rectangle43 bool
	// Resolution is the long side of the pictures in this call; 0: the engine's.
	Resolution int
	// Only names the outputs to compute; 0 means all. Points and Conf come from
	// one branch of a head, Desc and DescConf from the other. A branch without a
	// requested output is not run. The other tensors are nil.
	Only Outputs
}

// Outputs is a set of the network's outputs.
type Outputs uint8

// The outputs.
const (
	OutputPoints   = Outputs(mast3r.Points)
	OutputConf     = Outputs(mast3r.Conf)
	OutputDesc     = Outputs(mast3r.Desc)
	OutputDescConf = Outputs(mast3r.DescConf)
	AllOutputs     = Outputs(mast3r.AllOutputs)
)

// View is the output for one picture. H and W are its network size.
type View struct {
	// Points [H,W,3] are in camera 1's frame.
	Points *Tensor
	// Conf [H,W] is the confidence of Points, at least 1.
	Conf *Tensor
	// Desc [H,W,D] are unit descriptors.
	Desc *Tensor
	// DescConf [H,W] is the confidence of Desc, above 0.
	DescConf *Tensor
	// Transform describes how the picture was resized and cropped.
	Transform Transform
}

// Release gives the memory of the four tensors back.
func (v *View) Release() {
	for _, t := range []*Tensor{v.Points, v.Conf, v.Desc, v.DescConf} {
		if t != nil {
			t.Release()
		}
	}
}

// Result is the reconstruction of a pair.
type Result struct {
	View   [2]View
	Timing Timing
}

// Release gives the memory of both views back.
func (r *Result) Release() {
	for i := range r.View {
		r.View[i].Release()
	}
}

// Symmetric is the reconstruction of a pair in both directions. View XY is
// picture X in camera Y's frame, in the order 11, 21, 22, 12.
type Symmetric struct {
	View   [4]View
	Timing Timing
}

// Release gives the memory of the four views back.
func (s *Symmetric) Release() {
	for i := range s.View {
		s.View[i].Release()
	}
}

// Timing is where the time went. Encoder, Decoder and Heads are device times;
// Inference is their sum, Total the wall time of the call.
type Timing struct {
	Preprocess, Encoder, Decoder, Heads, Copy, Inference, Total time.Duration
}

// add adds device times.
func (t *Timing) add(o Timing) {
	t.Encoder, t.Decoder, t.Heads = t.Encoder+o.Encoder, t.Decoder+o.Decoder, t.Heads+o.Heads
}
