// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

type namedProgram struct {
	backend.Program
	name string
}

// The program that was used last survives an eviction, though it is the oldest made,
// and the cache holds exactly its size.
func TestTheLeastRecentlyUsedGoes(t *testing.T) {
	c := newCache(2)
	for _, n := range []string{"a", "b"} {
		if gone := c.put(n, &namedProgram{name: n}); gone != nil {
			t.Fatalf("%v went with room left", gone)
		}
	}
	c.get([]byte("a"))
	if gone := c.put("c", &namedProgram{name: "c"}); gone == nil || gone.(*namedProgram).name != "b" {
		t.Errorf("%v went, want b", gone)
	}
	if c.get([]byte("a")) == nil || c.get([]byte("b")) != nil || c.len() != 2 {
		t.Errorf("a is %v, b is %v, %d kept", c.get([]byte("a")), c.get([]byte("b")), c.len())
	}
}

// BatchNorm with two eps on the same shapes gives two results.
func TestBatchNormEpsIsPartOfTheProgram(t *testing.T) {
	c, err := Open(Config{Backend: "cpu", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := func(v ...float32) *Tensor {
		x, err := c.FromFloat32s(v, 1)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x, err := c.FromFloat32s([]float32{3}, 1, 1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, eps := range []float32{1e-5, 3, 1e-5} {
		y, err := c.BatchNorm(x, one(1), one(0), one(1), one(1), eps)
		if err != nil {
			t.Fatal(err)
		}
		got, err := y.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 / math.Sqrt(1+float64(eps)); math.Abs(float64(got[0])-want) > 1e-5 {
			t.Errorf("eps %g: %g, want %g", eps, got[0], want)
		}
	}
}

type endedWork struct{ err error }

func (w endedWork) Wait(context.Context) ([]time.Duration, error) { return nil, w.err }

// Sync tells the error of each work, wherever in the row it stands.
func TestSyncTellsEveryError(t *testing.T) {
	c, err := Open(Config{Backend: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bad := errors.New("the device failed")
	for at := range 3 {
		list := []backend.Pending{endedWork{}, endedWork{}, endedWork{}}
		list[at] = endedWork{bad}
		c.flying = list
		if err := c.Sync(); !errors.Is(err, bad) || !errors.Is(err, ErrDevice) {
			t.Errorf("work %d of three failed: %v", at, err)
		}
		if err := c.Sync(); err != nil {
			t.Errorf("told twice: %v", err)
		}
	}
}

// Evicting a program whose work has not been handed over does not wait for ever.
func TestEvictionOfCollectedWork(t *testing.T) {
	metalsim.Open(t)
	c, err := Open(Config{Backend: "metal"})
	if err != nil {
		t.Fatal(err)
	}
	c.cache = newCache(2)
	ended := make(chan error, 1)
	go func() {
		for n := 2; n < 7; n++ {
			x, err := c.Full(1, n, n)
			if err != nil {
				ended <- err
				return
			}
			y, err := c.MatMul(x, x) // never read
			if err != nil {
				ended <- err
				return
			}
			x.Release()
			y.Release()
		}
		ended <- c.Close()
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("hangs")
	}
}
