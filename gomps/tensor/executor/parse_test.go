// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// TestParseGraph: the JSON form is the graph that the calls make, and what is wrong with
// one is named.
func TestParseGraph(t *testing.T) {
	g, err := ParseGraph([]byte(`{"nodes": [{"name": "h", "op": "MatMul", "operands": ["x", "w"]},
		{"name": "s", "op": "Add", "operands": ["r", "h"]},
		{"name": "n", "op": "LayerNorm", "operands": ["s", "g", "b"], "eps": 0.5},
		{"name": "a", "op": "Attention", "operands": ["n", "n", "n"], "scale": 0.25}], "outputs": ["a", "n", "a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := NewGraph()
	for _, err := range []error{
		want.AddNode("h", Op{Kind: OpMatMul}, "x", "w"), want.AddNode("s", Op{Kind: OpAdd}, "r", "h"),
		want.AddNode("n", Op{Kind: OpLayerNorm, Eps: 0.5}, "s", "g", "b"), want.AddNode("a", Op{Kind: OpAttention, Scale: 0.25}, "n", "n", "n"),
		want.SetOutput("a"), want.SetOutput("n"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(*g) != fmt.Sprint(*want) || fmt.Sprint(g.Outputs()) != "[a n]" {
		t.Errorf("got %+v, want %+v", *g, *want)
	}
	fused, err := ParseGraph([]byte(`{"nodes": [{"name": "h", "op": "MatMul", "operands": ["x", "w"]},
		{"name": "s", "op": "Add", "operands": ["r", "h"]}], "outputs": ["s"], "optimize": true}`))
	if err != nil || len(fused.nodes) != 1 || fused.nodes["s"].op.Kind != OpFusedLinearAdd {
		t.Errorf("optimize: %+v, %v", fused, err)
	}
	many := strings.TrimSuffix(strings.Repeat(`{"name": "x", "op": "Gelu", "operands": ["x"]},`, maxNodes+1), ",")
	for text, part := range map[string]string{
		"":                   "EOF",
		"[]":                 "array",
		`{"nodes": 1}`:       "number",
		`{"outputs": ["y"]}`: "no node",
		`{"knots": []}`:      "knots",
		`{} {}`:              "after its end",
		`{"nodes": [{"name": "y", "op": "Mul"}]}`: `operation "Mul"`,
		`{"nodes": [` + many + `]}`:               "at most 65536",
		`{"optimize": true}`:                      "no output",
	} {
		if _, err := ParseGraph([]byte(text)); !errors.Is(err, tensor.ErrOption) || !strings.Contains(err.Error(), part) {
			t.Errorf("%.60s: %v, want %q", text, err, part)
		}
	}
	// The longest chain is sorted, and does not run out of stack.
	var chain strings.Builder
	for i := range maxNodes {
		fmt.Fprintf(&chain, `{"name": "%d", "op": "Gelu", "operands": ["%d"]},`, i+1, i)
	}
	g, err = ParseGraph(fmt.Appendf(nil, `{"nodes": [%s], "outputs": ["%d"]}`, strings.TrimSuffix(chain.String(), ","), maxNodes))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := g.sorted(); err != nil || len(list) != maxNodes {
		t.Errorf("%d of %d nodes, %v", len(list), maxNodes, err)
	}
}

// TestThresholdsAreChecked: every operation may have one, nothing else.
func TestThresholdsAreChecked(t *testing.T) {
	for kind := range operandCount {
		if err := (Thresholds{kind: 0}).Check(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, bad := range []Thresholds{{"Sinh": 3}, {OpMatMul: -1}} {
		if err := bad.Check(); !errors.Is(err, tensor.ErrOption) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
