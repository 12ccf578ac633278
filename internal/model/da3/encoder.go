// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func blockName(i int) string { return fmt.Sprintf("%sblocks.%d", backbone, i) }

// Encoder builds the graph of everything that sees one picture alone, for images
// pictures of one size at once (da3.md 3).
//
// Inputs: image0, image1, ... u8 [1,H,W,3]. Outputs: feat0, feat1, ...
// f32 [1,Lead+N,Dim]: the class token before the last block, by which the
// reference view is chosen, and all tokens after it, the class token first.
func (m *Model) Encoder(images, height, width int) (*graph.Graph, error) {
	return m.encoder(images, height, width, tensor.U8)
}

// EncoderF32 is Encoder for inputs that are already the network's numbers,
// f32 [1,H,W,3], normalised: pictures that were never bytes.
func (m *Model) EncoderF32(images, height, width int) (*graph.Graph, error) {
	return m.encoder(images, height, width, tensor.F32)
}

func (m *Model) encoder(images, height, width int, pixel tensor.DType) (*graph.Graph, error) {
	if err := vit.CheckPictures(images, height, width, m.Patch); err != nil {
		return nil, err
	}
	b := m.builder("encoder")
	x := b.Pictures(images, height, width, pixel)
	if pixel == tensor.U8 {
		x = b.ImageNet(b.Bytes(x))
	}
	x = b.Patches(x, backbone+"patch_embed.proj", m.Patch, m.Dim)
	pos := b.Cast(b.Weight(backbone+"pos_embed", 1, m.PosGrid*m.PosGrid+1, m.Dim), tensor.F32)
	grid := vit.Grid{Rows: height / m.Patch, Cols: width / m.Patch}
	x = b.Concat(1, b.ClassToken(backbone+"cls_token", pos, images), b.AddTo(x, b.PositionTable(pos, m.PosGrid, grid)))
	before := x
	for i := range m.Start {
		before = x
		x = b.block(x, i, nil)
	}
	x = b.Concat(1, b.SliceAxis(before, 1, 0, 1), x)
	for i := range images {
		b.Output(fmt.Sprintf("feat%d", i), b.Picture(x, i))
	}
	return b.Build()
}
