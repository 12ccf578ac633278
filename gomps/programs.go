// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
)

// maxPrograms bounds what is kept compiled. A pair needs four programs; pictures
// of many sizes would otherwise pile them up without end.
const maxPrograms = 32

// part is the key of a compiled program: which part of the network, for which
// shapes.
type part struct {
	// "encoder", "decoder", "head1", "head2"; "trunk", "camera", "tokens", "depth"
	what   string
	images int // pictures or views at once
	// Sizes in pixels of view 1 and view 2; a part that has one view leaves the
	// other 0.
	h1, w1, h2, w2 int
	want           mast3r.Outputs // heads of pairs
	// Of networks of many views: known cameras, rays.
	given, rays bool
	pairs       int  // at once; 0 is one on its own
	exact       bool // in float32 whatever the network's precision is
}

type program struct {
	part
	backend.Program
	// users counts the calls that have submitted it and not waited yet; such a
	// program is never evicted.
	users int
}

// programs keeps compiled parts, the least recently used first.
type programs struct {
	dev  backend.Backend
	opt  backend.Options
	list []*program
}

// get returns the program for a part, compiling it with build on first use. The
// caller gives it back with put once the device is done.
func (p *programs) get(ctx context.Context, key part, build func() (*graph.Graph, error)) (*program, error) {
	if i := slices.IndexFunc(p.list, func(q *program) bool { return q.part == key }); i >= 0 {
		q := p.list[i]
		p.list = append(slices.Delete(p.list, i, i+1), q)
		q.users++
		return q, nil
	}
	g, err := build()
	if err != nil {
		return nil, err
	}
	if err := p.evict(maxPrograms - 1); err != nil {
		return nil, err
	}
	opt := p.opt
	if key.exact {
		opt.Precision = backend.FP32
	}
	c, err := p.dev.Compile(ctx, g, opt)
	if err != nil {
		return nil, err
	}
	q := &program{part: key, Program: c, users: 1}
	p.list = append(p.list, q)
	return q, nil
}

func (p *programs) put(q *program) { q.users-- }

// evict closes unused programs, oldest first, until at most keep are left.
func (p *programs) evict(keep int) error {
	var errs []error
	for i := 0; len(p.list) > keep && i < len(p.list); {
		q := p.list[i]
		if q.users > 0 {
			i++
			continue
		}
		p.list = slices.Delete(p.list, i, i+1)
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}

func (p *programs) close() error { return p.evict(0) }
