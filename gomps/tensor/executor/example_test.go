// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"fmt"
	"log"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor/executor"
)

// A graph of named operations, which is fused and run on the device that is faster
// for each.
func Example() {
	g := executor.NewGraph()
	for _, err := range []error{
		g.AddNode("product", executor.Op{Kind: executor.OpMatMul}, "x", "w"),
		g.AddNode("y", executor.Op{Kind: executor.OpAdd}, "product", "r"),
		g.SetOutput("y"),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	fused, err := g.Optimize()
	if err != nil {
		log.Fatal(err)
	}
	e, err := executor.New(2)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	out, err := e.Execute(fused, map[string]executor.Array{
		"x": {Data: []float32{1, 2}, Shape: []int{1, 2}},
		"w": {Data: []float32{1, 0, 0, 1}, Shape: []int{2, 2}},
		"r": {Data: []float32{10, 20}, Shape: []int{1, 2}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out["y"].Data)
	// Output:
	// [11 22]
}
