// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"sync"
	"testing"
)

// TestConcurrent: one context serves goroutines that compute, read and release at
// the same time, one of them a tensor that others still use.
func TestConcurrent(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		shared := must[*Tensor](t)(c.Full(2, 8, 8))
		victim := must[*Tensor](t)(c.Full(1, 8, 8))
		live := c.Stats().LiveTensors
		var wg sync.WaitGroup
		for k := range 6 {
			wg.Go(func() {
				for i := range 40 {
					if err := concurrentRound(c, shared, float32(k)); err != nil {
						t.Errorf("round %d: %v", i, err)
						return
					}
					if k == 0 && i == 20 {
						victim.Release()
					}
					if x, err := c.Exp(victim); err == nil {
						x.Release()
					} else if !errors.Is(err, ErrReleased) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := c.Stats().LiveTensors; n != live-1 {
			t.Errorf("%d live tensors, want %d", n, live-1)
		}
		shared.Release()
	})
}

// concurrentRound checks shared shared + k, 32 + k everywhere.
func concurrentRound(c *Context, shared *Tensor, k float32) error {
	y, err := c.MatMul(shared, shared)
	if err != nil {
		return err
	}
	z, err := c.AddScalar(y, k)
	y.Release()
	if err != nil {
		return err
	}
	defer z.Release()
	v, err := z.Float32s()
	if err == nil && v[63] != 32+k {
		err = errors.New("a wrong number")
	}
	return err
}

// TestForgotten: the garbage collector gives back what was not released.
func TestForgotten(t *testing.T) {
	c, err := Open(Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 50 {
		if _, err := c.Full(1, 10); err != nil {
			t.Fatal(err)
		}
	}
	// Cleanups run after the collection that finds the tensors, in their own time.
	for range 100 {
		if f := measure(t, c); f.tensors == 0 && f.buffers == 0 {
			return
		}
	}
	t.Errorf("%+v after 100 collections", measure(t, c))
}

// TestCloseKeepsTensors: what was computed can be read after Close, and nothing
// else can be done.
func TestCloseKeepsTensors(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		x := must[*Tensor](t)(c.Full(3, 2))
		y := must[*Tensor](t)(c.AddScalar(x, 1))
		if err := errors.Join(c.Close(), c.Close(), c.Cleanup()); err != nil {
			t.Fatal(err)
		}
		if v, err := y.Float32s(); err != nil || v[1] != 4 {
			t.Errorf("read after Close: %v, %v", v, err)
		}
		if _, err := c.Exp(y); !errors.Is(err, ErrClosed) {
			t.Errorf("an operation after Close: %v", err)
		}
		if _, err := c.Full(1, 2); !errors.Is(err, ErrClosed) {
			t.Errorf("a tensor after Close: %v", err)
		}
		if err := y.AddInPlace(x); !errors.Is(err, ErrClosed) {
			t.Errorf("in place after Close: %v", err)
		}
		release([]*Tensor{x, y})
	})
}

// TestInPlaceAfterRelease: a tensor that is released while the result is computed stays so.
func TestInPlaceAfterRelease(t *testing.T) {
	c, err := Open(Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, y := full(t, c, 3), full(t, c, 3)
	x.Release()
	if err := x.become(y, nil); !errors.Is(err, ErrReleased) {
		t.Errorf("got %v, want %v", err, ErrReleased)
	}
	if live := c.Stats().LiveTensors; x.Valid() || y.Valid() || live != 0 {
		t.Errorf("%d tensors live, want none", live)
	}
}
