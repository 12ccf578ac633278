// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
)

// The reference is held against PyTorch before anything is held against the
// reference.
func TestReferenceGolden(t *testing.T) { Golden(t, Reference, 1) }

// TestReferenceTable: the reference knows every operation.
func TestReferenceTable(t *testing.T) { Table(t, "ref", Reference, 0) }

// Random against the reference itself shows that the drawn graphs build, and
// that Simplify keeps their meaning.
func TestSimplifyKeepsMeaning(t *testing.T) { Random(t, Reference, 20, 1e-6) }

func TestReferenceArgOfNaN(t *testing.T) { ArgOfNaN(t, Reference) }

func TestReferenceMaximaOfNaN(t *testing.T) { MaximaOfNaN(t, Reference) }

// TestComposed holds what operations are made of against their own plain loops.
func TestComposed(t *testing.T) {
	composed := 0
	Table(t, "ref", func(g *graph.Graph, in [][]byte) ([][]byte, error) {
		if _, err := g.Build(); err != nil {
			return nil, err
		}
		parts, err := passes.Compose(g)
		if err != nil {
			return nil, err
		}
		for _, n := range g.Nodes {
			if _, ok := n.Op.(graph.Composed); ok {
				composed++
			}
		}
		for _, n := range parts.Nodes {
			if _, ok := n.Op.(graph.Composed); ok {
				t.Errorf("%s is made of %s", g.Name, n.Op.Kind())
			}
		}
		return Reference(parts, in)
	}, 1e-6)
	if composed == 0 {
		t.Error("no example has a composed operation")
	}
}
