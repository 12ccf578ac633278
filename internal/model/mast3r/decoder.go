// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Decoder builds the graph of the two decoders for batch pairs, view 1 on grid
// g1 and view 2 on grid g2, which may differ (network.md 6).
//
// Inputs: feat1 f32 [batch,N1,EncDim], feat2. Outputs: for each view the three
// hooked decoder depths, view1.hook1, view1.hook2, view1.hook3, then view 2's,
// f32 [batch,N,DecDim]; hook3 is normalised. Hook 0 of a head is the feature
// itself.
func (m *Model) Decoder(batch int, g1, g2 vit.Grid) (*graph.Graph, error) {
	if batch < 1 || g1.Rows < 1 || g1.Cols < 1 || g2.Rows < 1 || g2.Cols < 1 {
		return nil, fmt.Errorf("model: batch %d, grids %v and %v, want at least 1", batch, g1, g2)
	}
	b := m.builder("decoder")
	views := [2]*decoderView{
		{grid: g1, blocks: "dec_blocks", tap: "dec1."},
		{grid: g2, blocks: "dec_blocks2", tap: "dec2."},
	}
	p := m.names().decoder
	if !m.set.Has(p + "dec_blocks2.0.norm1.weight") {
		// Checkpoints from before the decoders were trained apart (network.md 2.1).
		views[1].blocks = "dec_blocks"
	}
	for i, v := range views {
		feat := b.Input(fmt.Sprintf("feat%d", i+1), tensor.F32, batch, v.grid.Tokens(), m.EncDim)
		v.x = b.LinearLayer(feat, p+"decoder_embed", m.DecDim)
		b.View = v.tap
		b.Tap("embed", v.x)
	}
	for i := range m.DecDepth {
		// Both read what the other was before this block.
		x1 := b.decoderBlock(views[0], views[1], i)
		x2 := b.decoderBlock(views[1], views[0], i)
		views[0].push(x1)
		views[1].push(x2)
	}
	for i, v := range views {
		b.View = v.tap
		out := b.NormLayer(v.x, p+"dec_norm", m.NormEps)
		b.Tap("out", out)
		for j, h := range m.Hooks[1:] {
			y := out
			if h < m.DecDepth {
				y = v.history[h-1]
			}
			b.Output(fmt.Sprintf("view%d.hook%d", i+1, j+1), y)
		}
	}
	return b.Build()
}

// decoderView is one of the two token streams.
type decoderView struct {
	grid    vit.Grid
	blocks  string
	tap     string
	x       *graph.Node
	history []*graph.Node // outputs of the blocks so far
}

func (v *decoderView) push(x *graph.Node) {
	v.x = x
	v.history = append(v.history, x)
}

// decoderBlock is block i of view v: attention to itself, attention to the
// other view, mlp. The other view is normalised by this block's norm_y and is
// not changed.
func (b *builder) decoderBlock(v, other *decoderView, i int) *graph.Node {
	m := b.m
	d, eps, heads := m.DecDim, m.NormEps, m.DecHeads
	name := fmt.Sprintf("%s%s.%d", m.names().decoder, v.blocks, i)
	at := fmt.Sprintf("block%d.", i)
	b.View = v.tap
	rope := graph.Rope{Rows: v.grid.Rows, Cols: v.grid.Cols, Base: m.RopeBase}
	otherRope := graph.Rope{Rows: other.grid.Rows, Cols: other.grid.Cols, Base: m.RopeBase}

	y := b.NormLayer(v.x, name+".norm1", eps)
	b.Tap(at+"norm1", y)
	x := b.AddTo(v.x, b.SelfAttention(y, name+".attn", heads, b.rope(heads, rope), at))

	memory := b.NormLayer(other.x, name+".norm_y", eps)
	b.Tap(at+"norm_y", memory)
	y = b.NormLayer(x, name+".norm2", eps)
	b.Tap(at+"norm2", y)
	q := b.LinearLayer(y, name+".cross_attn.projq", d)
	k := b.LinearLayer(memory, name+".cross_attn.projk", d)
	val := b.LinearLayer(memory, name+".cross_attn.projv", d)
	b.Tap(at+"cross_q", q)
	b.Tap(at+"cross_k", k)
	b.Tap(at+"cross_v", val)
	q, k = b.RoPE(q, heads, rope), b.RoPE(k, heads, otherRope)
	b.Tap(at+"cross_q_rope", q)
	b.Tap(at+"cross_k_rope", k)
	y = b.LinearLayer(b.Attention(q, k, val, heads, vit.ScaleOf(d/heads)), name+".cross_attn.proj", d)
	b.Tap(at+"cross_attn", y)
	x = b.AddTo(x, y)

	y = b.NormLayer(x, name+".norm3", eps)
	b.Tap(at+"norm3", y)
	y = b.MLP(y, name+".mlp", d)
	b.Tap(at+"mlp", y)
	x = b.AddTo(x, y)
	b.Tap(fmt.Sprintf("block%d", i), x)
	return x
}
