// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A packing that is left by a panic, as a cancelled call's is, leaves nobody waiting: who
// waits for the weight packs it.
func TestAbandonedPackingsLeaveNobodyWaiting(t *testing.T) {
	const n, k = 8, 16
	pool := par.New(1)
	defer pool.Close()
	var c weightCache
	p := graph.Param{Name: "w", Shape: tensor.Shape{n, k}, DType: tensor.F32, Data: make([]byte, 4*n*k)}
	key := keyOf(p, n, k, tensor.F32)
	packing, waiting, stopped := make(chan struct{}), make(chan error, 1), errors.New("stopped")
	par.Go(func() {
		<-packing
		_, err := c.entry(pool, key, p, 1, func(dst *gemm.Packed) error { return packRows(pool, p, gemm.Rows(p.Data, p.DType, k), dst) })
		waiting <- err
	}, func(e *par.Panic) { waiting <- e })
	func() {
		defer func() {
			if r := recover(); r != stopped {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = c.entry(pool, key, p, 1, func(*gemm.Packed) error { close(packing); panic(stopped) })
	}()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if c.packed != 2 {
		t.Errorf("packed %d times, want 2", c.packed)
	}
}
