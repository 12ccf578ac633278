// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Dump writes the graph as text, a line per value:
//
//	%7 = linear(%5, patch_embed.proj.weight, patch_embed.proj.bias) Bias=true : f32[1,24,64]
//
// Params are named in place of their numbers and get no line of their own. The
// text is stable and meant to be compared in tests.
func (g *Graph) Dump(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s\n", g.Name)
	for _, n := range g.Nodes {
		if _, ok := n.Op.(Param); ok {
			continue
		}
		fmt.Fprintf(&b, "  %%%d = %s(%s)%s : %v\n", n.ID, n.Op.Kind(), operands(n), attributes(n.Op), n)
	}
	for _, o := range g.Outputs {
		fmt.Fprintf(&b, "  output %s = %s\n", o.Name, ref(o.Node))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String is Dump's text.
func (g *Graph) String() string {
	var b strings.Builder
	_ = g.Dump(&b) // a strings.Builder does not fail
	return b.String()
}

func operands(n *Node) string {
	if in, ok := n.Op.(Input); ok {
		return fmt.Sprintf("%q", in.Name)
	}
	parts := make([]string, len(n.In))
	for i, x := range n.In {
		parts[i] = ref(x)
	}
	return strings.Join(parts, ", ")
}

func ref(n *Node) string {
	if p, ok := n.Op.(Param); ok && p.Name != "" {
		return p.Name
	}
	if p, ok := n.Op.(Param); ok && n.Numel() == 1 {
		return fmt.Sprintf("const(%x)", p.Data)
	}
	return fmt.Sprintf("%%%d", n.ID)
}

// attributes prints the fields of an op that are not zero; the shape of an
// Input or Reshape is the value's own and not repeated.
func attributes(op Op) string {
	v := reflect.ValueOf(op)
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Shape" || f.Name == "Name" || f.Name == "DType" || f.Name == "Fn" || v.Field(i).IsZero() {
			continue
		}
		x := v.Field(i)
		if x.Kind() == reflect.Pointer {
			x = x.Elem()
		}
		fmt.Fprintf(&b, " %s=%v", f.Name, x.Interface())
	}
	return b.String()
}
