// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gomps_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/emulated"
)

// within fails the test when f takes longer than any machine needs: it hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// cut keeps the first n bytes of a file and restores the rest when the test is over.
func cut(t *testing.T, path string, n int64) {
	t.Helper()
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

// A model file that is cut short after it was loaded is an error that names it, with
// any number of threads; the engine goes on with another model and can be closed.
func TestTruncationWhileRunning(t *testing.T) {
	emulated.SkipFaults(t)
	whole := filepath.Join(microModel(t, "mast3r_tiny"), "unified.safetensors")
	if _, err := os.Stat(whole); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	pic := picture(64, 64, 1)
	for _, threads := range []int{1, 2, 8} {
		for i, keep := range []int64{0, 4096, int64(len(data)) / 2, int64(len(data)) - 5000} {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			within(t, "a run with a model that was cut", func() {
				e, err := gomps.Open(gomps.Config{Backend: "cpu", Threads: threads, Resolution: 64})
				if err != nil {
					t.Error(err)
					return
				}
				defer func() {
					if err := e.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}()
				if err := e.Load(t.Context(), path); err != nil {
					t.Error(err)
					return
				}
				cut(t, path, keep)
				for range 2 { // what was given up is tried again
					_, err = e.Infer(t.Context(), pic, pic, gomps.InferOptions{})
					var file *gomps.FileError
					if !errors.As(err, &file) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "goroutine") {
						t.Errorf("%d threads, cut %d: %v, want a FileError that names the file", threads, i, err)
					}
				}
				if err := e.Load(t.Context(), whole); err != nil {
					t.Error(err)
					return
				}
				infer(t, e, pic, pic).Release()
			})
		}
	}
}

// So is a picture in a mapped file of the user.
func TestAMappedPictureIsCut(t *testing.T) {
	emulated.SkipFaults(t)
	const side = 512
	path := filepath.Join(t.TempDir(), "picture")
	if err := os.WriteFile(path, make([]byte, 3*side*side), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 3*side*side, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for _, threads := range []int{1, 8} {
		e := open(t, gomps.Config{Threads: threads, Resolution: 64}, "mast3r_tiny")
		pic := gomps.Image{Pix: mem, Height: side, Width: side}
		cut(t, path, 4096)
		var bad *gomps.ImageError
		if _, err := e.Infer(t.Context(), pic, pic, gomps.InferOptions{}); !errors.As(err, &bad) {
			t.Errorf("%d threads: %v, want an ImageError", threads, err)
		}
		infer(t, e, picture(64, 64, 1), picture(64, 64, 2)).Release()
	}
}

// convert of a file that is cut meanwhile leaves nothing behind.
func TestConvertOfAFileThatIsCut(t *testing.T) {
	emulated.SkipFaults(t)
	data, err := os.ReadFile(filepath.Join(microModel(t, "mast3r_tiny"), "unified.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, precision := range []string{"keep", "fp16"} {
		dir := t.TempDir()
		in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out")
		if err := os.WriteFile(in, data, 0o600); err != nil {
			t.Fatal(err)
		}
		first := true
		_, err := gomps.Convert(t.Context(), in, out, gomps.ConvertOptions{Precision: precision, Progress: func(int64, int64) {
			if first {
				cut(t, in, 4096)
			}
			first = false
		}})
		var file *gomps.FileError
		if !errors.As(err, &file) || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: %v, want a FileError that names the file", precision, err)
		}
		if left, err := filepath.Glob(filepath.Join(out, ".*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left over: %v %v", precision, left, err)
		}
	}
}

// A FIFO with no writer is refused at once, wherever a model file is asked for.
func TestPipesAreRefused(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_tiny")
	for _, name := range []string{"x.safetensors", "x.pth", "x.pkl"} {
		path := filepath.Join(t.TempDir(), name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"load":      func() error { return e.Load(t.Context(), path) },
			"retrieval": func() error { return e.LoadRetrieval(t.Context(), path) },
			"alone":     func() error { return e.LoadRetrievalStandalone(t.Context(), path, path) },
			"index":     func() error { _, err := e.OpenIndex(t.Context(), path, 30); return err },
			"cost":      func() error { _, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: path}); return err },
			"convert": func() error {
				_, err := gomps.Convert(t.Context(), path, t.TempDir(), gomps.ConvertOptions{})
				return err
			},
		} {
			within(t, what+" of a FIFO", func() {
				if err := f(); err == nil || !strings.Contains(err.Error(), "regular file") {
					t.Errorf("%s: %v, want an error about a regular file", what, err)
				}
			})
		}
	}
}

// A cancelled call of one of the loaders is context.Canceled and changes nothing; that
// a hanging file system does not hold it up is TestDetachedDoesNotWait.
func TestOpeningIsCancelled(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_tiny")
	path := microModel(t, "mast3r_tiny")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, err := range map[string]error{
		"load":      e.Load(ctx, path),
		"retrieval": e.LoadRetrieval(ctx, path),
		"alone":     e.LoadRetrievalStandalone(ctx, path, path),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", what, err)
		}
	}
	if !e.Ready() {
		t.Error("the model is gone")
	}
}
