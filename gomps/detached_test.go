// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"testing"
	"time"
)

// detached returns when its context ends although the function hangs, and what that
// returns in the end is dropped.
func TestDetachedDoesNotWait(t *testing.T) {
	running, release, dropped := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	returned := make(chan error, 1)
	go func() {
		_, err := detached(ctx, func() (int, error) { close(running); <-release; return 7, nil }, func(n int) { dropped <- n })
		returned <- err
	}()
	<-running
	cancel()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the function")
	}
	close(release)
	select {
	case n := <-dropped:
		if n != 7 {
			t.Errorf("dropped %d", n)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the late result was not dropped")
	}
}

func TestDetachedPanicsAreErrors(t *testing.T) {
	_, err := detached(t.Context(), func() (int, error) { panic("mine") }, func(int) {})
	if err == nil {
		t.Error("no error")
	}
	v, err := detached(t.Context(), func() (int, error) { return 3, nil }, func(int) { t.Error("dropped") })
	if v != 3 || err != nil {
		t.Error(v, err)
	}
}
