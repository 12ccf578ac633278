// SPDX-License-Identifier: Apache-2.0

package tensor_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// Numbers in, a product, numbers out.
func Example() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x, err := c.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := c.MatMul(x, x)
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	v, err := y.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.Shape(), v)
	// Output:
	// [2 2] [7 10 15 22]
}

// Any operation can be called by its name, as other languages do.
func ExampleContext_Do() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x, err := c.FromFloat32s([]float32{1, 2, 3, 4}, 4)
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.Do("cumsum", tensor.Attributes{"axis": 0.0}, x)
	if err != nil {
		log.Fatal(err)
	}
	v, err := out[0].Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v)
	// Output:
	// [1 3 6 10]
}

// Errors have a kind and details.
func ExampleError() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	x, err := c.Zeros(tensor.F32, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.MatMul(x, x)
	var refused *tensor.Error
	fmt.Println(errors.Is(err, tensor.ErrShape), errors.As(err, &refused))
	fmt.Println(refused.Kind)
	// Output:
	// true true
	// tensor: shapes do not fit
}

// A graph of named operations, which is fused and run on the device that is faster
// for each.
func ExampleExecutor() {
	g := tensor.NewGraph()
	for _, err := range []error{
		g.AddNode("product", tensor.Op{Kind: tensor.OpMatMul}, "x", "w"),
		g.AddNode("y", tensor.Op{Kind: tensor.OpAdd}, "product", "r"),
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
	e, err := tensor.NewExecutor(2)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	out, err := e.Execute(fused, map[string]tensor.Array{
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
