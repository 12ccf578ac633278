// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/faulty"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
)

// openFaulty is open through a plugin that fails when it is told to.
func openFaulty(t *testing.T) (*Backend, *faulty.Plugin) {
	t.Helper()
	f := faulty.Open(t)
	t.Setenv("MAST3R_PJRT_CPU", f.File)
	return open(t, Config{}), f
}

// TestFaults: whatever call of the plugin fails, and however, the error is of its kind
// and has the plugin's words, and the backend goes on.
func TestFaults(t *testing.T) {
	b, f := openFaulty(t)
	p := compile(t, b, scaled(2))
	plan, err := preprocess.Plan(40, 30, 32, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	axisX, axisY := axes(t, plan)
	small := alloc(t, b, nil, 3*plan.Width*plan.Height)
	src := backend.Picture{Pix: make([]byte, 3*40*30), Width: 40, Height: 30, Stride: 120}
	work := map[string]func() error{
		"run": func() error {
			x, y := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 16)
			if err := once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
				return err
			}
			if err := y.Fetch(); err != nil {
				return err
			}
			if got := y.Bytes(); !bytes.Equal(got, floats(3, 6, 7, 10)) {
				t.Errorf("y is %v", got)
			}
			return nil
		},
		"compile": func() error {
			q, err := b.Compile(background, scaled(7), backend.Options{})
			if err == nil {
				err = q.Close()
			}
			return err
		},
		"resize": func() error { return b.Resize(background, small, src, axisX, axisY) },
	}
	for what, list := range map[string][]faulty.Function{
		"run": {faulty.Upload, faulty.Execute, faulty.Await, faulty.Download}, "compile": {faulty.Compile}, "resize": {faulty.Upload, faulty.Execute, faulty.Await},
	} {
		if err := work[what](); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, function := range list {
			for _, code := range []int{faulty.ResourceExhausted, faulty.Internal, faulty.Unavailable} {
				for after := range 3 {
					f.Fail(function, code, after)
					err := work[what]()
					f.Fail(-1, 0, 0)
					if err == nil {
						if after == 0 {
							t.Errorf("%s: function %d failed and nobody says so", what, function)
						}
						continue // it is not called so often
					}
					var said *pjrt.Error
					if !errors.As(err, &said) || said.Code != pjrt.Code(code) || !strings.Contains(err.Error(), "the test said so") {
						t.Errorf("%s: function %d: %v, want the plugin's error %d", what, function, err, code)
					}
					if errors.Is(err, backend.ErrOutOfMemory) != (code == faulty.ResourceExhausted) {
						t.Errorf("%s: function %d, code %d: %v", what, function, code, err)
					}
					if err := work[what](); err != nil {
						t.Errorf("%s: after function %d failed: %v", what, function, err)
					}
				}
			}
		}
	}
}

// TestHeld: a call whose context ends while the device is busy does not wait for the
// device; closing the program does.
func TestHeld(t *testing.T) {
	b, f := openFaulty(t)
	p := compile(t, b, scaled(2))
	in, out := []backend.Buffer{alloc(t, b, floats(1, 2, 3, 4), 16)}, []backend.Buffer{alloc(t, b, nil, 16)}
	if err := once(t, b, p, in, out); err != nil { // uploads too
		t.Fatal(err)
	}
	f.Hold(true)
	w, err := b.Begin(backend.First)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(background, p, in, out); err != nil {
		t.Fatal(err)
	}
	pending, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if _, err := pending.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that was given up: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case <-closed:
		t.Error("a program was closed under its run")
	case <-time.After(50 * time.Millisecond):
	}
	f.Hold(false)
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the device is free, and the program does not close")
	}
	if _, err := pending.Wait(background); err != nil || !bytes.Equal(out[0].Bytes(), floats(3, 6, 7, 10)) {
		t.Errorf("afterwards: %v, %v", out[0].Bytes(), err)
	}
}

// TestOneCompiles: programs of one process are compiled one after the other, by whichever
// backend. CUDA's plugin was seen to hang else.
func TestOneCompiles(t *testing.T) {
	b, f := openFaulty(t)
	other := open(t, Config{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			p, err := []*Backend{b, other}[i%2].Compile(background, scaled(float32(20+i)), backend.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			p.Close()
		})
	}
	wg.Wait()
	if n := f.Together(); n != 1 {
		t.Errorf("%d threads compiled at once", n)
	}
}

// TestNotCompiled: what does not compile is left to the host, and not tried again; a lack
// of memory passes.
func TestNotCompiled(t *testing.T) {
	b, f := openFaulty(t)
	resize := func(size int) error {
		plan, err := preprocess.Plan(40, 30, size, 16, false)
		if err != nil {
			t.Fatal(err)
		}
		x, y := axes(t, plan)
		src := backend.Picture{Pix: make([]byte, 3*40*30), Width: 40, Height: 30, Stride: 120}
		return b.Resize(background, alloc(t, b, nil, 3*plan.Width*plan.Height), src, x, y)
	}
	f.Fail(faulty.Compile, faulty.Internal, 0)
	for range 2 {
		if err := resize(32); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("a program that does not compile: %v, want ErrUnsupported", err)
		}
	}
	f.Fail(faulty.Compile, faulty.ResourceExhausted, 0)
	if err := resize(48); !errors.Is(err, backend.ErrOutOfMemory) {
		t.Errorf("no memory to compile: %v, want ErrOutOfMemory", err)
	}
	if err := resize(48); err != nil {
		t.Errorf("with memory: %v", err)
	}
}
