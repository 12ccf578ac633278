// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// layer is a graph of one linear layer over rows of data, whose weights tell
// when they are released.
func layer(t *testing.T, rows int, w []byte, released *int) *graph.Graph {
	t.Helper()
	g := graph.New("layer")
	x := g.Input("x", tensor.F32, rows, 8)
	p := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{3, 8}, DType: tensor.F32, Data: w, Source: graph.Source{Release: func(_, _ int) { *released++ }}})
	g.Output("y", g.Linear(x, p, nil))
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func weightBytes(v float32) []byte {
	var b []byte
	for range 24 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// A large weight goes back piece by piece while it is packed, and the product is
// that of one packed at once.
func TestWeightsArePackedInPieces(t *testing.T) {
	const n, k, rows = 100, 8, 3
	data := make([]byte, 0, 4*n*k)
	for i := range n * k {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i%17)-8))
	}
	run := func(piece int) (out []byte, released [][2]int) {
		defer func(old int) { pieceBytes = old }(pieceBytes)
		pieceBytes = piece
		g := graph.New("layer")
		p := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{n, k}, DType: tensor.F32, Data: data,
			Source: graph.Source{Release: func(from, to int) { released = append(released, [2]int{from, to}) }}})
		g.Output("y", g.Linear(g.Input("x", tensor.F32, rows, k), p, nil))
		built, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		prog, err := b.Compile(context.Background(), built, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := b.Alloc(4 * rows * k)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Alloc(4 * rows * n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range floats(x.Bytes()) {
			floats(x.Bytes())[i] = float32(i) - 11
		}
		w, err := b.Begin(backend.First)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(context.Background(), prog, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(y.Bytes()), released
	}
	whole, at := run(1 << 20)
	if want := [][2]int{{0, 3200}}; !slices.Equal(at, want) {
		t.Errorf("at once: released %v, want %v", at, want)
	}
	pieces, at := run(33 * k * 4)
	if want := [][2]int{{0, 1024}, {1024, 2048}, {2048, 3072}, {0, 3200}}; !slices.Equal(at, want) {
		t.Errorf("in pieces: released %v, want %v", at, want)
	}
	if !bytes.Equal(whole, pieces) {
		t.Error("packed in pieces the product is another one")
	}
}

func TestWeightsArePackedOnce(t *testing.T) {
	b, err := New(Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	w, released := weightBytes(2), 0
	var progs []backend.Program
	for rows := 1; rows < 5; rows++ {
		p, err := b.Compile(context.Background(), layer(t, rows, w, &released), backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		progs = append(progs, p)
	}
	if b.weights.packed != 1 || released != 1 {
		t.Errorf("packed %d times, released %d times, want 1 and 1", b.weights.packed, released)
	}
	p, err := b.Compile(context.Background(), layer(t, 2, w, &released), backend.Options{Precision: backend.FP16})
	if err != nil {
		t.Fatal(err)
	}
	if b.weights.packed != 2 {
		t.Errorf("float16 shares the packing of float32")
	}
	for _, p := range append(progs, p) {
		p.Close()
		p.Close()
	}
	if len(b.weights.all) != 2 {
		t.Errorf("%d weights kept for the next program, want 2", len(b.weights.all))
	}
	// A file mapped where another was must not be taken for it.
	copy(w, weightBytes(3))
	if _, err = b.Compile(context.Background(), layer(t, 2, w, &released), backend.Options{}); err != nil {
		t.Fatal(err)
	}
	if b.weights.packed != 3 {
		t.Errorf("other numbers at the same address were not packed again")
	}
	b.Trim()
	if len(b.weights.all) != 1 {
		t.Errorf("%d weights after Trim, want the one in use", len(b.weights.all))
	}
}

// Values that live at the same time must not share memory: whole rows of a wide
// sum would be wrong if they did, whatever the arena held before.
func TestArenaHoldsWhatIsAlive(t *testing.T) {
	g := graph.New("wide")
	x := g.Input("x", tensor.F32, 64, 512)
	var parts []*graph.Node
	for i := range 8 {
		parts = append(parts, g.Affine(x, 1, float32(i)))
	}
	y := parts[0]
	for _, p := range parts[1:] {
		y = g.AddTo(y, p)
	}
	g.Output("y", y)
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	prog, err := b.Compile(context.Background(), g, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := prog.(*Program)
	if most := 9 * 64 * (512 + rowPad) * 4; p.arenaSize > most {
		t.Errorf("arena of %d bytes, want at most %d", p.arenaSize, most)
	}
	for range 2 {
		for i := range b.arena.b {
			b.arena.b[i] = 0xff // NaN
		}
		in, out := mustAlloc(t, b, 64*512*4), mustAlloc(t, b, 64*512*4)
		for i, f := 0, floats(in.Bytes()); i < len(f); i++ {
			f[i] = float32(i % 100)
		}
		if _, err := p.run(context.Background(), []backend.Buffer{in}, []backend.Buffer{out}); err != nil {
			t.Fatal(err)
		}
		for i, v := range floats(out.Bytes()) {
			if want := float32(8*(i%100) + 28); v != want {
				t.Fatalf("element %d: got %g, want %g", i, v, want)
			}
		}
		b.Trim() // the next run maps the arena again
	}
}

func mustAlloc(t *testing.T, b *Backend, n int) backend.Buffer {
	t.Helper()
	x, err := b.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestBuffersAreReused(t *testing.T) {
	b, err := New(Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x := mustAlloc(t, b, 1000)
	first := &x.Bytes()[0]
	x.Release()
	x.Release()
	if x.Bytes() != nil {
		t.Error("a released buffer still shows its memory")
	}
	y := mustAlloc(t, b, 1000)
	if &y.Bytes()[0] != first {
		t.Error("a released buffer was not reused")
	}
	if d := b.Device(); d.LiveBuffers != 1 || d.PoolBuffers != 0 {
		t.Errorf("device %+v", d)
	}
	y.Release()
	b.Trim()
	if d := b.Device(); d.LiveBuffers != 0 || d.PoolBytes != 0 {
		t.Errorf("after Trim: device %+v", d)
	}
	if z := mustAlloc(t, b, 0); len(z.Bytes()) != 0 {
		t.Error("an empty buffer has bytes")
	}
}

func TestSlabs(t *testing.T) {
	var a slabs
	x, s1, err := a.alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	y, s2, err := a.alloc(slabBytes - 128)
	if err != nil {
		t.Fatal(err)
	}
	if s1 != s2 || !aligned(y, align) {
		t.Error("what fits did not go into the first slab, aligned")
	}
	z, s3, err := a.alloc(slabBytes + 1)
	if err != nil {
		t.Fatal(err)
	}
	if s3 == s1 || len(z) != slabBytes+1 {
		t.Error("a large block needs a slab of its own")
	}
	x[99], y[0], z[slabBytes] = 1, 2, 3
	s1.free()
	if s1.region.b == nil {
		t.Error("freed with a block in use")
	}
	s2.free()
	s3.free()
	if s1.region.b != nil || s3.region.b != nil {
		t.Error("not freed with the last block")
	}
	if _, s, err := a.alloc(1); err != nil || s == s3 {
		t.Errorf("a freed slab was used again (%v)", err)
	} else {
		s.free()
	}
}
