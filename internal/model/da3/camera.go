// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// PoseDim is the number of numbers that stand for a camera: translation (3),
// quaternion x, y, z, w (4), vertical and horizontal field of view in radians.
const PoseDim = 9

// Camera builds the camera decoder for views (da3.md 6).
//
// Input: camera f32 [views,2*Dim]. Output: pose f32 [views,PoseDim].
func (m *Model) Camera(views int) (*graph.Graph, error) {
	if views < 1 || !m.Views {
		return nil, fmt.Errorf("model: cameras of %d views of %s", views, m.Variant)
	}
	b := m.builder("camera")
	d := 2 * m.Dim
	x := b.Input("camera", tensor.F32, views, d)
	for _, layer := range []string{"0", "2"} {
		x = b.Unary(graph.Relu, b.LinearLayer(x, "cam_dec.backbone."+layer, d))
	}
	b.Output("pose", b.Concat(1, b.LinearLayer(x, "cam_dec.fc_t", 3), b.LinearLayer(x, "cam_dec.fc_qvec", 4),
		b.Unary(graph.Relu, b.LinearLayer(x, "cam_dec.fc_fov.0", 2))))
	return b.Build()
}

// Tokens builds the camera encoder, which turns known cameras into the tokens
// that stand in for the class tokens (da3.md 9).
//
// Input: pose f32 [views,PoseDim]. Output: cameras f32 [views,Dim].
func (m *Model) Tokens(views int) (*graph.Graph, error) {
	if views < 1 || !m.Given {
		return nil, fmt.Errorf("model: known cameras of %d views for %s", views, m.Variant)
	}
	b := m.builder("tokens")
	x := b.Input("pose", tensor.F32, views, PoseDim)
	x = b.MLP(x, "cam_enc.pose_branch", m.Dim)
	x = b.NormLayer(x, "cam_enc.token_norm", outerEps)
	x = b.Reshape(x, 1, views, m.Dim)
	for i := range givenDepth {
		x = b.Block(x, fmt.Sprintf("cam_enc.trunk.%d", i), vit.Block{Heads: givenHeads, Eps: outerEps, Scale: true}, "")
	}
	x = b.NormLayer(x, "cam_enc.trunk_norm", outerEps)
	b.Output("cameras", b.Reshape(x, views, m.Dim))
	return b.Build()
}
