// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

var background = context.Background()

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func number(b backend.Buffer, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
}

// affine is y = a*x + b on n numbers, with a and b as weights from data.
func affine(t testing.TB, n int, p func(name string, v float32) graph.Param) *graph.Graph {
	t.Helper()
	g := graph.New("affine")
	x := g.Input("x", tensor.F32, n)
	y := g.AddTo(g.Binary(graph.Mul, x, g.Param(p("a", 3))), g.Param(p("b", 1)))
	g.Output("y", y)
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// vectorParam is a weight of n equal numbers on the Go heap.
func vectorParam(n int) func(string, float32) graph.Param {
	return func(name string, v float32) graph.Param {
		d := make([]float32, n)
		for i := range d {
			d[i] = v
		}
		return graph.Param{Name: name, Shape: tensor.Shape{n}, DType: tensor.F32, Data: floats(d...)}
	}
}

func compile(t testing.TB, b *metal.Backend, g *graph.Graph, opt backend.Options) backend.Program {
	t.Helper()
	p, err := b.Compile(background, g, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func alloc(t testing.TB, b *metal.Backend, n int) backend.Buffer {
	t.Helper()
	x, err := b.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func begin(t testing.TB, b *metal.Backend, q backend.Queue) backend.Work {
	t.Helper()
	w, err := b.Begin(q)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestQueues overlaps an encoder and a decoder: the decoder's work is submitted
// while the encoder's may still run, and reads what that writes.
func TestQueues(t *testing.T) {
	b, s := open(t, metal.Config{})
	s.Set("latency", "0.01")
	const n = 64
	p := compile(t, b, affine(t, n, vectorParam(n)), fp32)
	const rounds = 20
	var last []backend.Pending
	var outs []backend.Buffer
	for i := range rounds {
		x, mid, y := alloc(t, b, 4*n), alloc(t, b, 4*n), alloc(t, b, 4*n)
		copy(x.Bytes(), floats(float32(i)))
		enc, dec := begin(t, b, backend.First), begin(t, b, backend.Second)
		if err := enc.Run(background, p, []backend.Buffer{x}, []backend.Buffer{mid}); err != nil {
			t.Fatal(err)
		}
		sent, err := enc.Submit()
		if err != nil {
			t.Fatal(err)
		}
		if err := dec.After(sent); err != nil {
			t.Fatal(err)
		}
		if err := dec.Run(background, p, []backend.Buffer{mid}, []backend.Buffer{y}); err != nil {
			t.Fatal(err)
		}
		done, err := dec.Submit()
		if err != nil {
			t.Fatal(err)
		}
		// Given back early, as the engine does; the device still uses them.
		x.Release()
		mid.Release()
		last, outs = append(last, done), append(outs, y)
	}
	for i, done := range last {
		if _, err := done.Wait(background); err != nil {
			t.Fatal(err)
		}
		if got, want := number(outs[i], 0), 3*(3*float32(i)+1)+1; got != want {
			t.Errorf("pair %d: got %v, want %v", i, got, want)
		}
		outs[i].Release()
	}
	if st := b.Stats(); st.CommandBuffers != 2*rounds || st.Runs != 2*rounds {
		t.Errorf("%+v, want one command buffer a work", st)
	}
	if got := s.Counter("commits"); got != 2*rounds {
		t.Errorf("%d commits, want %d", got, 2*rounds)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestWaitHonoursContext(t *testing.T) {
	b, s := open(t, metal.Config{})
	p := compile(t, b, affine(t, 4, vectorParam(4)), fp32)
	x, y := alloc(t, b, 16), alloc(t, b, 16)
	copy(x.Bytes(), floats(1, 2, 3, 4))
	s.Set("latency", "0.2")
	w := begin(t, b, backend.Second)
	if err := w.Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
	defer cancel()
	if _, err := done.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := w.Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); err == nil {
		t.Error("submitted work took another run")
	}
	// Closing waits for the device: the weights may be unmapped after it.
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := begin(t, b, backend.Second).Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("a closed program: %v", err)
	}
	if _, err := done.Wait(background); err != nil {
		t.Error(err)
	}
	x.Release()
	y.Release()
	canceled, stop := context.WithCancel(background)
	stop()
	if _, err := b.Compile(canceled, p.Graph(), fp32); !errors.Is(err, context.Canceled) {
		t.Errorf("compiling: %v", err)
	}
}

func TestDeviceErrors(t *testing.T) {
	b, s := open(t, metal.Config{})
	p := compile(t, b, affine(t, 4, vectorParam(4)), fp32)
	defer p.Close()
	x, y := alloc(t, b, 16), alloc(t, b, 16)
	defer x.Release()
	defer y.Release()
	copy(x.Bytes(), floats(1, 2, 3, 4))
	// The encoder's command buffer is the one that fails, and only after the
	// decoder's has been committed.
	s.Set("fail_command", "1")
	s.Set("hold", "1")
	enc, dec := begin(t, b, backend.First), begin(t, b, backend.Second)
	if err := enc.Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	failed, err := enc.Submit()
	if err != nil {
		t.Fatal(err)
	}
	// Work of the other queue that waits for it must not hang.
	if err := dec.After(failed); err != nil {
		t.Fatal(err)
	}
	done, err := dec.Submit()
	if err != nil {
		t.Fatal(err)
	}
	s.Set("hold", "0")
	var ce *device.CommandError
	if _, err := failed.Wait(background); !errors.As(err, &ce) || !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("got %v, want a CommandError, out of memory", err)
	}
	if _, err := done.Wait(background); err != nil {
		t.Errorf("the other queue: %v", err)
	}
	runAffine(t, b, p, 4)

	b.Trim() // with free buffers to give back, the pool would try again
	s.Set("fail_alloc", "1")
	if _, err := b.Alloc(1 << 20); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a refused allocation: %v", err)
	}
	s.Set("fail_alloc", "1")
	if _, err := b.Compile(background, affine(t, 5, vectorParam(5)), fp32); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a refused weight: %v", err)
	}
}

// TestSubmitFails: what a work holds goes back when its Submit fails, or Close would wait
// for it for ever.
func TestSubmitFails(t *testing.T) {
	b, _ := open(t, metal.Config{})
	p := compile(t, b, affine(t, 4, vectorParam(4)), fp32)
	x, y := alloc(t, b, 16), alloc(t, b, 16)
	w := begin(t, b, backend.First)
	if err := w.Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	metal.CommitBehindItsBack(t, b, w)
	if _, err := w.Submit(); err == nil {
		t.Fatal("a work that is committed already was submitted")
	}
	x.Release()
	y.Release()
	if n := b.Device().LiveBuffers; n != 0 {
		t.Errorf("%d buffers are held", n)
	}
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the program waits for work that was never submitted")
	}
}

func TestNewFails(t *testing.T) {
	for key, want := range map[string]error{"fail_queue": device.ErrNoDevice, "fail_event": nil, "no_device": device.ErrNoDevice} {
		t.Run(key, func(t *testing.T) {
			s := metalsim.Open(t)
			s.Set(key, "1")
			b, err := metal.New(metal.Config{})
			if err == nil {
				b.Close()
				t.Fatal("the backend opened")
			}
			if want != nil && !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	b, _ := open(t, metal.Config{})
	other, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := compile(t, b, affine(t, 4, vectorParam(4)), fp32)
	defer p.Close()
	x, y, short, foreign := alloc(t, b, 16), alloc(t, b, 16), alloc(t, b, 12), alloc(t, other, 16)
	released := alloc(t, b, 16)
	released.Release()
	for _, z := range []backend.Buffer{x, y, short, foreign} {
		defer z.Release()
	}
	one := func(z backend.Buffer) []backend.Buffer { return []backend.Buffer{z} }
	for name, c := range map[string]struct{ in, out []backend.Buffer }{
		"no input":        {nil, one(y)},
		"short input":     {one(short), one(y)},
		"nil input":       {one(nil), one(y)},
		"foreign output":  {one(x), one(foreign)},
		"short output":    {one(x), one(short)},
		"two outputs":     {one(x), []backend.Buffer{y, y}},
		"released buffer": {one(released), one(y)},
	} {
		w := begin(t, b, backend.First)
		if w.Run(background, p, c.in, c.out) == nil {
			t.Errorf("%s passed", name)
		}
		w.Discard()
		w.Discard()
	}
	w := begin(t, other, backend.First)
	if w.Run(background, p, one(x), one(y)) == nil {
		t.Error("a program of another backend passed")
	}
	done, err := w.Submit() // empty work is done at once
	if err != nil {
		t.Fatal(err)
	}
	if _, err := done.Wait(background); err != nil {
		t.Error(err)
	}
	v := begin(t, b, backend.Second)
	if v.After(done) == nil || v.After(nil) == nil {
		t.Error("work of another backend passed")
	}
	v.Discard()
	if _, err := v.Submit(); err == nil {
		t.Error("discarded work was submitted")
	}
	if _, err := b.Begin(7); err == nil {
		t.Error("queue 7 passed")
	}
	if _, err := b.Compile(background, p.Graph(), backend.Options{Precision: 9}); !errors.Is(err, metal.ErrUnsupported) {
		t.Errorf("precision 9: %v", err)
	}
	if _, err := b.Alloc(-1); err == nil {
		t.Error("a negative size passed")
	}
}

// TestThousandRuns watches for growth: of objects, of memory, of the pool.
func TestThousandRuns(t *testing.T) {
	b, s := open(t, metal.Config{})
	p := compile(t, b, affine(t, 16, vectorParam(16)), fp32)
	defer p.Close()
	runAffine(t, b, p, 16)
	s.Settle()
	bytes, pool := s.Counter("buffer_bytes_live"), b.Device().PoolBytes
	s.Mark()
	for range 1000 {
		runAffine(t, b, p, 16)
	}
	if n := s.Leaked(); n > 0 {
		t.Errorf("%d more objects after 1000 runs:\n%s", n, s.LiveObjects())
	}
	if now := s.Counter("buffer_bytes_live"); now != bytes || b.Device().PoolBytes != pool {
		t.Errorf("%d bytes live, %d before; pool %d, %d before", now, bytes, b.Device().PoolBytes, pool)
	}
	b.Trim()
	if d := b.Device(); d.PoolBuffers != 0 {
		t.Errorf("%d buffers pooled after Trim", d.PoolBuffers)
	}
}

func TestClosed(t *testing.T) {
	b, _ := open(t, metal.Config{})
	x := alloc(t, b, 4)
	copy(x.Bytes(), floats(7))
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if number(x, 0) != 7 {
		t.Error("a buffer is gone with the backend")
	}
	x.Release()
	x.Release()
	if _, err := b.Alloc(4); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("Alloc: %v", err)
	}
	if _, err := b.Begin(backend.First); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("Begin: %v", err)
	}
	if _, err := b.Compile(background, affine(t, 1, vectorParam(1)), fp32); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("Compile: %v", err)
	}
}

func TestDevice(t *testing.T) {
	b, _ := open(t, metal.Config{})
	d := b.Device()
	if d.Backend != "metal" || d.Name == "" || d.WorkingSet == 0 || d.MaxBuffer == 0 || !d.UnifiedMemory || !strings.HasPrefix(d.OS, "macOS ") {
		t.Errorf("%+v", d)
	}
}

// TestConcurrent has many goroutines compile, run and close at once.
func TestConcurrent(t *testing.T) {
	b, _ := open(t, metal.Config{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			n := 10 + i
			p, err := b.Compile(background, affine(t, n, vectorParam(n)), fp32)
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				runAffine(t, b, p, n)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			b.Trim()
		})
	}
	wg.Wait()
}

// TestSplit has work that would keep the watchdog waiting: it is cut between
// runs, without the host waiting.
func TestSplit(t *testing.T) {
	b, _ := open(t, metal.Config{})
	const n = 512
	g := graph.New("product")
	x := g.Input("x", tensor.F32, n, n)
	g.Output("y", g.Add(graph.MatMul{}, x, x))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	p := compile(t, b, g, fp32)
	defer p.Close()
	metal.SetMaxFLOPs(t, 2.5*2*n*n*n) // two runs a command buffer
	w := begin(t, b, backend.First)
	a, c := alloc(t, b, 4*n*n), alloc(t, b, 4*n*n)
	defer a.Release()
	defer c.Release()
	for i := range n {
		copy(a.Bytes()[4*(i*n+i):], floats(2))
	}
	for range 5 {
		if err := w.Run(background, p, []backend.Buffer{a}, []backend.Buffer{c}); err != nil {
			t.Fatal(err)
		}
		a, c = c, a
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	times, err := done.Wait(background)
	if err != nil || len(times) != 5 {
		t.Errorf("%d times, %v", len(times), err)
	}
	if st := b.Stats(); st.CommandBuffers != 3 || st.Runs != 5 {
		t.Errorf("%+v, want 5 runs in 3 command buffers", st)
	}
	if got := number(a, n+1); got != float32(math.Pow(2, 32)) {
		t.Errorf("got %v, want 2^32: five squarings", got)
	}
	// Work that was split and then dropped must not be left running.
	w = begin(t, b, backend.First)
	for range 3 {
		if err := w.Run(background, p, []backend.Buffer{a}, []backend.Buffer{c}); err != nil {
			t.Fatal(err)
		}
	}
	w.Discard()
}

// TestWatchdog has a GPU on which each run takes most of the time that the
// system allows a command buffer.
func TestWatchdog(t *testing.T) {
	b, s := open(t, metal.Config{})
	g := graph.New("product")
	x := g.Input("x", tensor.F32, 64, 64)
	g.Output("y", g.Add(graph.MatMul{}, x, x))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	p := compile(t, b, g, fp32)
	defer p.Close()
	in, out := alloc(t, b, 4*64*64), alloc(t, b, 4*64*64)
	defer in.Release()
	defer out.Release()
	const flops = 2 * 64 * 64 * 64
	s.Set("tflops", fmt.Sprint(flops/1.5/1e12)) // 1.5 s a run, 2 s allowed
	runs := func() {
		w := begin(t, b, backend.Second)
		for range 4 {
			if err := w.Run(background, p, []backend.Buffer{in}, []backend.Buffer{out}); err != nil {
				t.Fatal(err)
			}
		}
		done, err := w.Submit()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := done.Wait(background); err != nil {
			t.Error(err)
		}
	}
	runs() // the limit is for a real GPU: nothing is split
	if v := s.Violations(); len(v) != 1 || !strings.HasPrefix(v[0], "watchdog:") {
		t.Errorf("violations %q, want the watchdog", v)
	}
	s.ClearViolations()
	metal.SetMaxFLOPs(t, 1.5*flops)
	runs()
}
