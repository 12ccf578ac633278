// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"context"
	"fmt"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
)

// Program is a compiled graph.
type Program struct {
	b   *Backend
	g   *graph.Graph // as it was given to Compile
	exe *mpsgraph.Executable
	// feeds are the executable's feeds: first the graph's inputs (nil here), then
	// weights.
	feeds   []*mpsgraph.Data
	weights []*weight
	cost    graph.Cost
	ops     map[string]int

	// flights are the runs encoded and not done. Nothing else keeps the mapping under
	// the weights, and an executable that goes while the GPU runs it has crashed
	// others (antirez/iris.c, issue 50).
	flights backend.Flights
	mu      sync.Mutex
	tried   bool // a run was encoded
}

// Compile lowers g, places its weights and has MPSGraph compile it.
func (b *Backend) Compile(ctx context.Context, g *graph.Graph, opt backend.Options) (_ backend.Program, err error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	// An unknown precision must not run as another one.
	if opt.Precision > backend.BF16 {
		return nil, fmt.Errorf("%w: %v", ErrUnsupported, opt.Precision)
	}
	simple, err := passes.Simplify(g)
	if err != nil {
		return nil, fmt.Errorf("mps: %w", err)
	}
	p := &Program{b: b, g: g, cost: simple.Cost()}
	defer recovered(&err)
	defer b.guard("compiling " + g.Name)()
	// The MPSGraph is needed for compiling only; the executable keeps what it needs.
	err = b.dev.Do(func() error {
		l := newLowering(b, simple, opt)
		defer l.out.Release()
		defer func() { p.weights = l.weights }() // also after an error, to drop them
		results, err := l.run(ctx)
		if err != nil {
			return err
		}
		p.feeds, p.ops = l.data, l.out.Ops()
		p.exe, err = b.packages.compile(b, l, results, opt)
		return err
	})
	if err != nil {
		p.free()
		return nil, fmt.Errorf("mps: graph %q: %w", g.Name, err)
	}
	return p, nil
}

// recovered turns a panic into an error: a bug of ours must not end the user's
// process, and a page of a mapped file that is gone is none.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("mps: %w", fault.Recovered(v))
	}
}

// Graph is the graph that was compiled.
func (p *Program) Graph() *graph.Graph { return p.g }

// Ops counts the MPSGraph operations that were made for the program, for cost
// reports; what no result needs is among them, and dropped by the compiler.
func (p *Program) Ops() map[string]int { return p.ops }

// Close waits until the device is done with the program and frees it: memory
// under no-copy weights may be unmapped when it returns.
func (p *Program) Close() error {
	if p.flights.Close() {
		p.free()
	}
	return nil
}

func (p *Program) free() {
	if p.exe != nil {
		objc.WithPool(p.exe.Release)
	}
	for _, w := range p.weights {
		p.b.weights.drop(w)
	}
	p.weights, p.feeds = nil, nil
}

// firstRun guards the first encoding of a program, in which MPSGraph may still
// have something to dislike.
func (p *Program) firstRun() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tried {
		return func() {}
	}
	p.tried = true
	return p.b.guard("running " + p.g.Name)
}

// encode appends a run to cb. Inputs and results are described anew each time,
// since the buffers are others; the weights' descriptions are kept. A command
// buffer retains the buffers that it uses, not the descriptions. Owner thread.
func (p *Program) encode(cb *device.CommandBuffer, in, out []*buffer) error {
	var temp []*mpsgraph.Data
	defer func() {
		for _, d := range temp {
			d.Release()
		}
	}()
	describe := func(x *buffer, v mpsgraph.Value) (*mpsgraph.Data, error) {
		d, err := mpsgraph.NewData(x.buf.Memory(), 0, v.Shape, v.DType)
		if err == nil {
			temp = append(temp, d)
		}
		return d, err
	}
	feeds := make([]*mpsgraph.Data, len(p.feeds))
	copy(feeds, p.feeds)
	var err error
	for i, x := range in {
		if feeds[i], err = describe(x, p.exe.Feeds()[i]); err != nil {
			return err
		}
	}
	results := make([]*mpsgraph.Data, len(out))
	for i, x := range out {
		if results[i], err = describe(x, p.exe.Results()[i]); err != nil {
			return err
		}
	}
	return p.exe.Encode(cb, feeds, results)
}
