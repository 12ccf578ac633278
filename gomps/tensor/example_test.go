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
