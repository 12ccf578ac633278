// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"fmt"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// smallest is the least network with everything that the published ones have:
// heads of 64 numbers, four different hooks, every kind of layer. 0.6 million
// weights, a few million operations for the pictures below.
var smallest = synth.Dims{
	Arch: synth.MASt3R, Patch: 16,
	EncDim: 64, EncDepth: 1, EncHeads: 1,
	DecDim: 64, DecDepth: 4, DecHeads: 1, MLPRatio: 2, DescDim: 24,
	DPTFeature: 16, DPTLast: 8, DPTLayers: [4]int{8, 8, 16, 16}, LocalHidden: 16,
}

// sizes of the two pictures: different, so that a mix-up of rows and columns or
// of views shows.
var sizes = [2][2]int{{32, 48}, {48, 32}}

var network = sync.OnceValues(func() (*graph.Graph, error) {
	pool := par.New(1)
	defer pool.Close()
	var all []weights.Tensor
	for _, f := range smallest.Files() {
		all = append(all, synth.Tensors(pool, f.Specs, synth.Golden)...)
	}
	m, err := mast3r.Open(weights.NewSetTensors(all, smallest.Metadata("selfcheck")))
	if err != nil {
		return nil, err
	}
	return m.Pair(sizes[0][0], sizes[0][1], sizes[1][0], sizes[1][1])
})

// Network runs a whole pair.
func Network(ctx context.Context, dev, ref backend.Backend, p backend.Precision) Check {
	const name = "network"
	g, err := network()
	if err != nil {
		return Check{Name: name, Err: fmt.Errorf("selfcheck: %s: %w", name, err)}
	}
	var in [][]byte
	for i, s := range sizes {
		pix := make([]byte, 3*s[0]*s[1])
		for k := range pix {
			pix[k] = byte(synth.Bits(fmt.Sprintf("image%d", i+1), k) >> 56)
		}
		in = append(in, pix)
	}
	return compare(ctx, name, dev, ref, p, g, in)
}
