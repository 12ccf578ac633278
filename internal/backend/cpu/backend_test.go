// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// graphsOf are the parts of a small network with the real head widths.
func graphsOf(t testing.TB, m *mast3r.Model, h, w int) []*graph.Graph {
	t.Helper()
	var list []*graph.Graph
	add := func(g *graph.Graph, err error) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	g := m.GridOf(h, w)
	add(m.Encoder(1, h, w))
	add(m.Decoder(1, g, g))
	add(m.Head(1, 1, h, w, mast3r.AllOutputs))
	return list
}

// mini is a network with the real head widths on a small trunk, made once.
func mini(t testing.TB) *mast3r.Model {
	t.Helper()
	miniOnce.Do(func() { miniModel = modeltest.Synthetic(t, "mast3r_mini", false) })
	if miniModel == nil {
		t.Fatal("the model could not be made: see the first test that failed")
	}
	return miniModel
}

var (
	miniOnce  sync.Once
	miniModel *mast3r.Model
)

// inputsOf draws bytes for a graph's inputs.
func inputsOf(g *graph.Graph, seed uint64) [][]byte {
	r := rand.New(rand.NewPCG(seed, 7))
	var in [][]byte
	for _, n := range g.Inputs {
		x := make([]byte, n.Bytes())
		if n.DType == tensor.F32 {
			for i, f := 0, asFloats(x); i < len(f); i++ {
				f[i] = float32(r.NormFloat64())
			}
		} else {
			for i := range x {
				x[i] = byte(r.Uint32())
			}
		}
		in = append(in, x)
	}
	return in
}

func mustRun(t testing.TB, run optest.Runner, g *graph.Graph, in [][]byte) [][]byte {
	t.Helper()
	out, err := run(g, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameBits(t *testing.T, what string, g *graph.Graph, got, want [][]byte) {
	t.Helper()
	for i, o := range g.Outputs {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: graph %q: output %q differs", what, g.Name, o.Name)
		}
	}
}

// Threads, other work on the same backend before, and packing afresh must not
// change a bit.
func TestThreadsAndHistoryDoNotChangeBits(t *testing.T) {
	m := mini(t)
	one := optest.Backend(newBackend(t, 1), backend.Options{})
	others := []optest.Runner{}
	for _, n := range []int{2, 3} {
		others = append(others, optest.Backend(newBackend(t, n), backend.Options{}))
	}
	for _, size := range [][2]int{{48, 32}, {32, 48}} {
		for _, g := range graphsOf(t, m, size[0], size[1]) {
			in := inputsOf(g, 1)
			want := mustRun(t, one, g, in)
			for i, run := range others {
				sameBits(t, fmt.Sprintf("backend %d", i), g, mustRun(t, run, g, in), want)
			}
		}
	}
}

func TestBatchEqualsSingle(t *testing.T) {
	m := mini(t)
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	g2, err := m.Encoder(2, 48, 32)
	if err != nil {
		t.Fatal(err)
	}
	g1, err := m.Encoder(1, 48, 32)
	if err != nil {
		t.Fatal(err)
	}
	in := inputsOf(g2, 3)
	both := mustRun(t, run, g2, in)
	var feats [][]byte
	for i := range in {
		single := mustRun(t, run, g1, in[i:i+1])
		sameBits(t, fmt.Sprintf("picture %d", i), g1, single, both[i:i+1])
		feats = append(feats, single[0])
	}
	h2, err := m.Head(2, 2, 48, 32, mast3r.AllOutputs)
	if err != nil {
		t.Fatal(err)
	}
	h1, err := m.Head(2, 1, 48, 32, mast3r.AllOutputs)
	if err != nil {
		t.Fatal(err)
	}
	a, b := inputsOf(h1, 4), inputsOf(h1, 5)
	joined := make([][]byte, len(a))
	for i := range a {
		joined[i] = append(append([]byte(nil), a[i]...), b[i]...)
	}
	both = mustRun(t, run, h2, joined)
	for i, in := range [][][]byte{a, b} {
		single := mustRun(t, run, h1, in)
		for j := range single {
			n := len(single[j])
			if !bytes.Equal(both[j][i*n:][:n], single[j]) {
				t.Errorf("head output %q of batch entry %d differs", h1.Outputs[j].Name, i)
			}
		}
	}
}

// compiled is a program with buffers of its own.
type compiled struct {
	b       *cpu.Backend
	p       backend.Program
	in, out []backend.Buffer
}

func compile(t testing.TB, b *cpu.Backend, g *graph.Graph, in [][]byte) *compiled {
	t.Helper()
	p, err := b.Compile(context.Background(), g, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &compiled{b: b, p: p}
	for _, data := range in {
		x, err := b.Alloc(len(data))
		if err != nil {
			t.Fatal(err)
		}
		copy(x.Bytes(), data)
		c.in = append(c.in, x)
	}
	for _, o := range g.Outputs {
		x, err := b.Alloc(o.Node.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		c.out = append(c.out, x)
	}
	return c
}

func (c *compiled) run(ctx context.Context) error {
	w, err := c.b.Begin(backend.First)
	if err != nil {
		return err
	}
	defer w.Discard()
	if err := w.Run(ctx, c.p, c.in, c.out); err != nil {
		return err
	}
	done, err := w.Submit()
	if err != nil {
		return err
	}
	_, err = done.Wait(ctx)
	return err
}

func TestRunsTakeTurns(t *testing.T) {
	m := mini(t)
	b := newBackend(t, 2)
	var progs []*compiled
	for i, g := range graphsOf(t, m, 32, 48) {
		progs = append(progs, compile(t, b, g, inputsOf(g, uint64(i))))
	}
	want := make([][][]byte, len(progs))
	for i, c := range progs {
		if err := c.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.out {
			want[i] = append(want[i], bytes.Clone(x.Bytes()))
		}
	}
	var wg sync.WaitGroup
	for i, c := range progs {
		wg.Add(1)
		par.Go(func() {
			defer wg.Done()
			for range 5 {
				if err := c.run(context.Background()); err != nil {
					t.Error(err)
				}
			}
			for j, x := range c.out {
				if !bytes.Equal(x.Bytes(), want[i][j]) {
					t.Errorf("graph %q: output %d changed when others ran too", c.p.Graph().Name, j)
				}
			}
		}, func(e *par.Panic) { t.Error(e) })
	}
	wg.Wait()
}

// After the first run, a run allocates a Work and little else.
func TestRunAllocatesNothing(t *testing.T) {
	m := mini(t)
	b := newBackend(t, 2)
	ctx := context.Background()
	for _, g := range graphsOf(t, m, 32, 48) {
		c := compile(t, b, g, inputsOf(g, 1))
		// The whole process is counted: what earlier tests leave behind adds to some of the tries.
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(5, func() {
				if err := c.run(ctx); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if least > 4 {
			t.Errorf("graph %q: %v allocations in a run of %d nodes", g.Name, least, len(g.Nodes))
		}
	}
}

func TestCancel(t *testing.T) {
	m := mini(t)
	b := newBackend(t, 2)
	g := graphsOf(t, m, 32, 48)[0]
	ctx, cancel := context.WithCancel(context.Background())
	c := compile(t, b, g, inputsOf(g, 1))
	cancel()
	if err := c.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run under a cancelled context: %v", err)
	}
	if err := c.run(context.Background()); err != nil {
		t.Errorf("run after a cancelled one: %v", err)
	}
	if _, err := b.Compile(ctx, g, backend.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("compile under a cancelled context: %v", err)
	}
}

// alien is an operation that no backend knows; it borrows its shape rule.
type alien struct{ graph.Unary }

func (alien) Kind() string { return "alien" }

func TestErrors(t *testing.T) {
	b := newBackend(t, 2)
	g := graph.New("errors")
	x := g.Input("x", tensor.F32, 4)
	g.Output("y", g.Add(alien{}, x))
	if _, err := b.Compile(context.Background(), g, backend.Options{}); !errors.Is(err, cpu.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "alien") {
		t.Errorf("unknown operation: %v", err)
	}
	g = graph.New("relu")
	g.Output("y", g.Unary(graph.Relu, g.Input("x", tensor.F32, 4)))
	if _, err := b.Compile(context.Background(), g, backend.Options{Precision: 99}); !errors.Is(err, cpu.ErrUnsupported) {
		t.Errorf("unknown precision: %v", err)
	}
	c := compile(t, b, g, [][]byte{make([]byte, 16)})
	c.in = nil
	if err := c.run(context.Background()); err == nil {
		t.Error("a run without its input succeeded")
	}
	short, err := b.Alloc(12)
	if err != nil {
		t.Fatal(err)
	}
	c.in = []backend.Buffer{short}
	if err := c.run(context.Background()); err == nil || !strings.Contains(err.Error(), "12 bytes") {
		t.Errorf("a run with a short buffer: %v", err)
	}
	short.Release()
	short.Release()
	if err := c.run(context.Background()); err == nil {
		t.Error("a run with a released buffer succeeded")
	}
	for _, n := range []int{-1, 5000} {
		if _, err := cpu.New(cpu.Config{Threads: n}); err == nil {
			t.Errorf("%d threads were accepted", n)
		}
	}
	if _, err := b.Alloc(-1); err == nil {
		t.Error("a buffer of -1 bytes was given")
	}
}

func TestGatherRefusesIndices(t *testing.T) {
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	g := graph.New("gather")
	g.Output("y", g.Add(graph.Gather{Axis: 0}, g.Input("x", tensor.F32, 3, 2), g.Input("i", tensor.I32, 1)))
	for _, i := range []byte{3, 255} {
		if _, err := run(g, [][]byte{make([]byte, 24), {i, 0, 0, 0}}); !errors.Is(err, backend.ErrIndex) {
			t.Errorf("index %d of 3: %v", i, err)
		}
	}
	if _, err := run(g, [][]byte{make([]byte, 24), {255, 255, 255, 255}}); !errors.Is(err, backend.ErrIndex) {
		t.Errorf("index -1: %v", err)
	}
}

func TestClose(t *testing.T) {
	b, err := cpu.New(cpu.Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New("relu")
	g.Output("y", g.Unary(graph.Relu, g.Input("x", tensor.F32, 4)))
	c := compile(t, b, g, [][]byte{{0, 0, 128, 63, 0, 0, 128, 191, 0, 0, 0, 0, 0, 0, 0, 64}})
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if d := b.Device(); d.LiveBuffers != 2 || d.Backend != "cpu" || d.Threads != 2 || d.ISA == "" {
		t.Errorf("device %+v", d)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if y := asFloats(c.out[0].Bytes()); y[0] != 1 || y[1] != 0 || y[3] != 2 {
		t.Errorf("result after Close: %v", y)
	}
	if err := c.run(context.Background()); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("run after Close: %v", err)
	}
	if _, err := b.Compile(context.Background(), g, backend.Options{}); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("compile after Close: %v", err)
	}
	if _, err := b.Alloc(4); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("alloc after Close: %v", err)
	}
	for _, x := range append(c.in, c.out...) {
		x.Release()
	}
	if d := b.Device(); d.LiveBuffers != 0 {
		t.Errorf("%d live buffers at the end", d.LiveBuffers)
	}
	if err := c.p.Close(); err != nil {
		t.Error(err)
	}
}

// TestDivide: backends of one thread run at once, on weights that were packed once, and end
// with the one they are parts of.
func TestDivide(t *testing.T) {
	b, err := cpu.New(cpu.Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	lanes := b.Divide(3)
	if len(lanes) != 3 || b.Divide(2)[1] != lanes[1] {
		t.Fatalf("%d backends, want 3 that are kept", len(lanes))
	}
	for _, lane := range lanes {
		if n := lane.Device().Threads; n != 1 {
			t.Errorf("%d threads, want 1", n)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lanes[2].Begin(backend.First); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, cpu.ErrClosed)
	}
	if n := len(b.Divide(4)); n > 3 {
		t.Errorf("%d backends of one that is closed", n)
	}
}
