// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// compiler keeps the programs that it made.
type compiler struct {
	backend.Backend
	made []*compiled
}

type compiled struct {
	backend.Program
	closed bool
}

func (c *compiler) Compile(context.Context, *graph.Graph, backend.Options) (backend.Program, error) {
	c.made = append(c.made, &compiled{})
	return c.made[len(c.made)-1], nil
}

func (c *compiled) Close() error { c.closed = true; return nil }

// A program that a call has submitted is not closed, however many others it needs; given
// back, it is the next to go.
func TestProgramsInUseStay(t *testing.T) {
	dev := &compiler{}
	all := programs{dev: dev}
	get := func(images int) *program {
		q, err := all.get(t.Context(), part{images: images}, func() (*graph.Graph, error) { return &graph.Graph{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	first := get(0)
	for i := range 2 * maxPrograms {
		all.put(get(1 + i))
	}
	if dev.made[0].closed || len(all.list) != maxPrograms {
		t.Fatalf("closed while in use: %v; %d programs are kept, want %d", dev.made[0].closed, len(all.list), maxPrograms)
	}
	all.put(first)
	all.put(get(-1))
	if !dev.made[0].closed || len(all.list) != maxPrograms {
		t.Errorf("closed after use: %v; %d programs are kept, want %d", dev.made[0].closed, len(all.list), maxPrograms)
	}
}
