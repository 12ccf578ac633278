// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

func TestBuffers(t *testing.T) {
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Acquire(1000)
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 1000 || len(b.Bytes()) != 1000 {
		t.Errorf("a buffer of 1000 bytes has %d, shows %d", b.Len(), len(b.Bytes()))
	}
	if n := e.Info().LiveBuffers; n != 1 {
		t.Errorf("%d live buffers, want 1", n)
	}
	if _, err := e.Acquire(0); !is[*gomps.ShapeError](err) {
		t.Errorf("a buffer of nothing: %v", err)
	}
	e.Trim()
	if err := e.WarmPool(1<<20, 1<<20, 1<<16); err != nil {
		t.Fatal(err)
	}
	if i := e.Info(); i.PoolBytes < 2<<20 || i.PoolBuffers != 3 || i.LiveBuffers != 1 {
		t.Errorf("after a warm-up of three: %+v", i)
	}
	b.Bytes()[999] = 7
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Bytes()[999] != 7 {
		t.Error("the buffer did not outlive its engine")
	}
	b.Release()
	b.Release()
	if b.Bytes() != nil {
		t.Error("a released buffer shows memory")
	}
	if _, err := e.Acquire(1); !errors.Is(err, gomps.ErrClosed) {
		t.Errorf("acquire after close: %v", err)
	}
}
