// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// TestCommands: a command buffer holds what is run between Begin and Commit, also when
// that is more than a batch, and is waited for alone.
func TestCommands(t *testing.T) {
	metalsim.Open(t)
	for _, backend := range []string{"cpu", "metal"} {
		t.Run(backend, func(t *testing.T) {
			c, err := Open(Config{Backend: backend, BatchSize: 4, PoolPerSize: 16})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			x := must[*Tensor](t)(c.Full(3, 8))
			before := must[*Tensor](t)(c.Add(x, x)) // in no command buffer
			b := must[*Commands](t)(c.Begin())
			if n := c.Stats().Pending; n != 0 {
				t.Errorf("%d operations from before Begin in the buffer", n)
			}
			if _, err := c.Begin(); !errors.Is(err, ErrOption) {
				t.Errorf("a second command buffer at once: %v", err)
			}
			if err := b.Wait(); !errors.Is(err, ErrOption) {
				t.Errorf("waiting before the commit: %v", err)
			}
			made := []*Tensor{x, before}
			defer func() { release(made) }()
			y := x
			for range 10 { // more than two batches
				y = must[*Tensor](t)(c.Add(y, x))
				made = append(made, y)
			}
			if n := len(b.handed); n != 2 {
				t.Errorf("%d batches handed over before the commit, want 2", n)
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := len(b.handed); n != 3 {
				t.Errorf("%d batches handed over, want 3", n)
			}
			later := must[*Tensor](t)(c.Add(y, x))
			made = append(made, later)
			if err := errors.Join(b.Wait(), b.Wait()); err != nil {
				t.Fatal(err)
			}
			if n := c.Stats().Pending; n != 1 {
				t.Errorf("%d operations collected after the commit, want 1: Wait is for the buffer alone", n)
			}
			if err := b.Commit(); !errors.Is(err, ErrOption) {
				t.Errorf("a second commit: %v", err)
			}
			for want, have := range map[float32]*Tensor{6: before, 33: y, 36: later} {
				if got := must[[]float32](t)(have.Float32s()); !slices.Equal(got, []float32{want, want, want, want, want, want, want, want}) {
					t.Errorf("%v, want %v", got, want)
				}
			}
			left := must[*Commands](t)(c.Begin())
			if err := errors.Join(left.Close(), left.Close(), left.Wait()); err != nil {
				t.Errorf("closing instead of the commit: %v", err)
			}
			open := must[*Commands](t)(c.Begin())
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if err := open.Commit(); !errors.Is(err, ErrClosed) {
				t.Errorf("commit on a closed context: %v", err)
			}
			if err := open.Wait(); err != nil {
				t.Errorf("closing has waited already: %v", err)
			}
			if _, err := c.Begin(); !errors.Is(err, ErrClosed) {
				t.Errorf("begin on a closed context: %v", err)
			}
		})
	}
}

// TestCommandsFail: what the device could not do is said by the buffer that it was in,
// each time, and not by the next one.
func TestCommandsFail(t *testing.T) {
	sim := metalsim.Open(t)
	c, err := Open(Config{Backend: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := must[*Tensor](t)(c.Full(3, 8))
	y := must[*Tensor](t)(c.Add(x, x))
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	b := must[*Commands](t)(c.Begin())
	sim.Set("fail_command", "1")
	w := must[*Tensor](t)(c.Mul(y, x))
	if err := b.Commit(); err != nil {
		t.Fatalf("the commit itself: %v", err)
	}
	for range 2 {
		if err := b.Wait(); !errors.Is(err, ErrDevice) {
			t.Errorf("waiting for a buffer that failed: %v", err)
		}
	}
	sim.Set("fail_command", "0")
	next := must[*Commands](t)(c.Begin())
	z := must[*Tensor](t)(c.Add(x, x))
	if err := errors.Join(next.Commit(), next.Wait()); err != nil {
		t.Errorf("the next buffer: %v", err)
	}
	// The context tells the failure once too, to those who only sync.
	if err := c.Sync(); !errors.Is(err, ErrDevice) {
		t.Errorf("sync after the failure: %v", err)
	}
	if got := must[[]float32](t)(z.Float32s()); got[0] != 6 {
		t.Errorf("%v after a failure, want 6", got[0])
	}
	release([]*Tensor{x, y, z, w})
}

// TestEmpty: memory of the pool as it is, to be written whole.
func TestEmpty(t *testing.T) {
	metalsim.Open(t)
	for _, backend := range []string{"cpu", "metal"} {
		c, err := Open(Config{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		before := c.Pool().Stats()
		x := must[*Tensor](t)(c.Empty(F32, 3, 5))
		if s := c.Pool().Stats(); s.InUseBuffers != before.InUseBuffers+1 {
			t.Errorf("%s: %d buffers in use, want one more than %d", backend, s.InUseBuffers, before.InUseBuffers)
		}
		seven := must[*Tensor](t)(c.Full(7, 3, 5))
		if err := x.CopyInPlace(seven); err != nil {
			t.Fatal(err)
		}
		if got := must[[]float32](t)(x.Float32s()); len(got) != 15 || got[0] != 7 || got[14] != 7 {
			t.Errorf("%s: %v", backend, got)
		}
		release([]*Tensor{x, seven})
		again := must[*Tensor](t)(c.Empty(F32, 3, 5))
		if s := c.Pool().Stats(); s.Reuses != before.Reuses+1 {
			t.Errorf("%s: %d reuses, want one more than %d", backend, s.Reuses, before.Reuses)
		}
		again.Release()
		for _, d := range []DType{77, 99} {
			if _, err := c.Empty(d, 2); !errors.Is(err, ErrDType) {
				t.Errorf("%s: element type %d: %v", backend, d, err)
			}
			if _, err := c.Zeros(d, 2); !errors.Is(err, ErrDType) {
				t.Errorf("%s: zeros of element type %d: %v", backend, d, err)
			}
		}
	}
}
