// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A tile is a piece of one tensor: 1 MiB of float32, so that many workers share
// one large tensor and a worker's piece stays in its cache until written out.
const tileElems = 1 << 18

type tile struct{ tensor, start, n int }

func tiles(specs []weights.Spec) []tile {
	var list []tile
	for i, s := range specs {
		n := s.Shape.Numel()
		for at := 0; at < n; at += tileElems {
			list = append(list, tile{i, at, min(tileElems, n-at)})
		}
	}
	return list
}

// Tensors makes tensors in memory on the pool's threads.
func Tensors(pool *par.Pool, specs []weights.Spec, f Formula) []weights.Tensor {
	data := make([][]float32, len(specs))
	out := make([]weights.Tensor, len(specs))
	// float32 memory seen as bytes, not the reverse: it is aligned.
	for i, s := range specs {
		data[i] = make([]float32, s.Shape.Numel())
		out[i] = weights.FromFloat32s(s.Name, s.Shape, data[i])
	}
	list := tiles(specs)
	pool.Run(len(list), func(_, t int) {
		p := list[t]
		f.Fill(data[p.tensor][p.start:p.start+p.n], specs[p.tensor].Name, specs[p.tensor].Shape, p.start)
	})
	return out
}

// Model makes a named model in memory, in the formula that its golden data was
// made with.
func Model(pool *par.Pool, variant string) (*weights.Set, error) {
	d, err := Variant(variant)
	if err != nil {
		return nil, err
	}
	var all []weights.Tensor
	for _, file := range d.Files() {
		all = append(all, Tensors(pool, file.Specs, FormulaOf(variant))...)
	}
	return weights.NewSetTensors(all, d.Metadata(variant)), nil
}

// FormulaOf is the formula of a variant's golden data.
func FormulaOf(variant string) Formula {
	if variant == "mast3r_tiny" || variant == "dunemast3r_tiny" {
		return Spec21
	}
	if variants[variant].Arch == DA3 {
		return Loud
	}
	return Golden
}

// Write writes the files of a model to a directory, which it creates. It holds
// only one tile per thread in memory.
func Write(pool *par.Pool, dir string, d Dims, f Formula, meta map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	for _, file := range d.Files() {
		if err := writeFile(pool, filepath.Join(dir, file.Name), file.Specs, f, meta); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(pool *par.Pool, path string, specs []weights.Spec, f Formula, meta map[string]string) error {
	w, err := weights.Create(path, specs, meta, 0)
	if err != nil {
		return err
	}
	defer w.Abort()
	var (
		mu      sync.Mutex
		failed  error
		scratch = make([][]float32, pool.Threads())
		list    = tiles(specs)
	)
	pool.Run(len(list), func(worker, t int) {
		p := list[t]
		if scratch[worker] == nil {
			scratch[worker] = make([]float32, tileElems)
		}
		values := scratch[worker][:p.n]
		f.Fill(values, specs[p.tensor].Name, specs[p.tensor].Shape, p.start)
		// Tiles do not overlap, so that writes in any order make the same file.
		view := weights.FromFloat32s("", tensor.Shape{p.n}, values)
		if err := w.WriteAt(p.tensor, view.Data, 4*int64(p.start)); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		}
	})
	if failed != nil {
		return failed
	}
	return w.Commit()
}
