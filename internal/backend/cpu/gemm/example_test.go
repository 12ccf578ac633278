// SPDX-License-Identifier: Apache-2.0

package gemm_test

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A linear layer y = relu(x Wᵀ + b), W stored as float16. Weights are packed once,
// the MatMul is filled in once; each Run then only computes.
func ExampleMatMul() {
	pool := par.New(2)
	defer pool.Close()

	const m, n, k = 2, 3, 4
	w := []float32{1, 0, 0, 0, 0, 1, 0, 0, -1, -1, -1, -1}
	size, err := gemm.PackedSize(tensor.F16, n, k)
	if err != nil {
		fmt.Println(err)
		return
	}
	packed, err := gemm.NewPacked(tensor.F16, n, k, 1, gemm.Alloc(size))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := packed.Pack(pool, gemm.Rows(gemm.Bytes(w), tensor.F32, k)); err != nil {
		fmt.Println(err)
		return
	}

	y := make([]float32, m*n)
	layer := gemm.MatMul{
		M: m, A: []float32{1, 2, 3, 4, -5, 6, -7, 8}, LDA: k,
		W: packed, C: y, LDC: n,
		Epilogue: gemm.Epilogue{Bias: []float32{0.5, 0, 11}, Act: gemm.ReLU},
	}
	layer.Scratch = gemm.Alloc(layer.ScratchBytes(pool.Threads()))
	layer.Run(pool)
	fmt.Println(y)
	// Output: [1.5 2 1 0 6 9]
}
