// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"context"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Footprint plans programs as Compile does, on a backend of its own that packs
// nothing: what it counts is what Compile will allocate.
func (b *Backend) Footprint(ctx context.Context, graphs []*graph.Graph, opt backend.Options) (f backend.Footprint, err error) {
	if err := b.open(); err != nil {
		return f, err
	}
	plan := &Backend{cfg: b.cfg, pool: b.pool, weights: &weightCache{}, ropes: &ropeCache{}}
	plan.weights.planned = func(bytes int) { f.Weights += bytes }
	for _, g := range graphs {
		p := &Program{b: plan, g: g}
		if err := p.plan(ctx, opt); err != nil {
			return f, fmt.Errorf("cpu: graph %q: %w", g.Name, err)
		}
		for _, s := range p.storages {
			if s.kind == fromParam {
				f.Weights += s.size
			}
		}
		f.Activations = max(f.Activations, p.arenaSize+p.scratchSize)
	}
	f.Weights += plan.weights.packing
	return f, nil
}

func (p *Program) plan(ctx context.Context, opt backend.Options) (err error) {
	defer recovered(p.g, &err)
	simple, err := passes.Simplify(p.g)
	if err != nil {
		return err
	}
	return p.b.pool.With(ctx, func(pool *par.Pool) error { return p.lower(ctx, pool, simple, opt) })
}

// Held is the memory of the weights, the arena, the scratch and the buffers, of the lanes too.
func (b *Backend) Held() int {
	return b.regions() + b.weights.held() + int(b.buffers.Stats().PooledBytes)
}

func (b *Backend) regions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.arena.b) + len(b.scratch.b)
	for _, lane := range b.lanes {
		n += lane.regions()
	}
	return n
}

// held is the memory of the packed weights.
func (c *weightCache) held() (bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.mem.all {
		bytes += s.used
	}
	return bytes
}
