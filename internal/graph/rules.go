// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func isIndex(n *Node) error {
	if n.DType != tensor.I32 && n.DType != tensor.I64 {
		return dtypeErr("index is %v, want i32 or i64", n.DType)
	}
	return nil
}

// enumName is the name of v, a value of an enumeration with these names.
func enumName[T ~uint8](names []string, v T) string {
	if int(v) >= len(names) {
		return fmt.Sprintf("unknown(%d)", v)
	}
	return names[v]
}

// enumAll are the n values of an enumeration.
func enumAll[T ~uint8](n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = T(i)
	}
	return all
}

// arity checks the number of operands.
func arity(in []*Node, want int) error {
	if len(in) != want {
		return shapeErr("got %d operands, want %d", len(in), want)
	}
	return nil
}

func rank(n *Node, what string, want int) error {
	if len(n.Shape) != want {
		return shapeErr("%s has %d dimensions (%v), want %d", what, len(n.Shape), n, want)
	}
	return nil
}

// isFloat checks that a value can be computed with.
func isFloat(n *Node, what string) error {
	if !n.DType.Float() {
		return dtypeErr("%s is %v, want a float type", what, n.DType)
	}
	return nil
}

// vector checks a per-channel weight.
func vector(n *Node, what string, want int) error {
	if len(n.Shape) != 1 || n.Shape[0] != want {
		return shapeErr("%s is %v, want [%d]", what, n, want)
	}
	return isFloat(n, what)
}

func same(n *Node, what string, want tensor.Shape) error {
	if !n.Shape.Equal(want) {
		return shapeErr("%s is %v, want %v", what, n.Shape, want)
	}
	return nil
}

// axisIn resolves a possibly negative axis.
func axisIn(axis, rank int) (int, error) {
	a := axis
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= rank {
		return 0, shapeErr("axis %d of a value with %d dimensions", axis, rank)
	}
	return a, nil
}

// broadcastShapes is numpy's rule.
func broadcastShapes(a, b tensor.Shape) (tensor.Shape, error) {
	n := max(len(a), len(b))
	out := make(tensor.Shape, n)
	for i := range out {
		da, db := 1, 1
		if j := i - n + len(a); j >= 0 {
			da = a[j]
		}
		if j := i - n + len(b); j >= 0 {
			db = b[j]
		}
		switch {
		case da == db, db == 1:
			out[i] = da
		case da == 1:
			out[i] = db
		default:
			return nil, shapeErr("%v and %v do not broadcast: %d against %d", a, b, da, db)
		}
	}
	return out, nil
}

func count(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func lastDim(n *Node) int {
	if len(n.Shape) == 0 {
		return 0
	}
	return n.Shape[len(n.Shape)-1]
}
