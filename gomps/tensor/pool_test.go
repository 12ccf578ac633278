// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// TestLoopMakesNoBuffers: a loop over one size takes what it gave back, once as
// many buffers exist as the batches in flight hold; where the pool may keep fewer, a
// batch is no larger than that.
func TestLoopMakesNoBuffers(t *testing.T) {
	metalsim.Open(t)
	for _, c := range []struct{ batch, perSize int }{{0, 0}, {30, 0}, {0, 8}} {
		ctx, err := Open(Config{Backend: "metal", BatchSize: c.batch, PoolPerSize: c.perSize})
		if err != nil {
			t.Fatal(err)
		}
		a, b := must[*Tensor](t)(ctx.Full(1, 4, 4)), must[*Tensor](t)(ctx.Full(2, 4, 4))
		before := ctx.dev.Pool().Stats()
		for range 1000 {
			must[*Tensor](t)(ctx.MatMul(a, b)).Release()
		}
		if err := ctx.Sync(); err != nil {
			t.Fatal(err)
		}
		after := ctx.dev.Pool().Stats()
		made, evicted := int(after.Allocations-before.Allocations), int(after.Evictions-before.Evictions)
		t.Logf("batch %d, %d a size: %d buffers made, %d evicted", c.batch, c.perSize, made, evicted)
		batch := c.batch
		if batch == 0 {
			batch = defaultBatch
		}
		if c.perSize == 0 && made > (maxFlying+1)*batch || evicted > 0 {
			t.Errorf("batch %d, %d a size: %d buffers made, %d evicted in 1000 products", c.batch, c.perSize, made, evicted)
		}
		if n := after.PooledBuffers; c.perSize > 0 && n > c.perSize {
			t.Errorf("%d buffers kept, want at most %d", n, c.perSize)
		}
		release([]*Tensor{a, b})
		if err := ctx.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(Config{PoolPerSize: -1}); !errors.Is(err, ErrOption) {
		t.Errorf("-1 buffers a size: %v", err)
	}
}
