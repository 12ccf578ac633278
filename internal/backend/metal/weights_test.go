// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"golang.org/x/sys/unix"
)

func TestWeightsInPlace(t *testing.T) {
	b, s := open(t, metal.Config{})
	// A file with the two weights at odd places, as a checkpoint has them.
	const n = 1000
	file := make([]byte, 3*os.Getpagesize()+52)
	put := func(at int, v float32) {
		for i := range n {
			copy(file[at+4*i:], floats(v))
		}
	}
	put(52, 3)
	put(2*os.Getpagesize()-2000, 1)
	mem := mapped(t, file)
	at := map[string]int{"a": 52, "b": 2*os.Getpagesize() - 2000}
	params := func(name string, _ float32) graph.Param {
		return graph.Param{Name: name, Shape: tensor.Shape{n}, DType: tensor.F32, Data: mem[at[name] : at[name]+4*n],
			Source: graph.Source{Mapping: mem, Offset: at[name], Release: func(_, _ int) { t.Error("a weight in use was released") }}}
	}
	g := affine(t, n, params)
	before := s.Counter("bytes_buffer") + s.Counter("bytes_constant") + s.Counter("bytes_data")
	p := compile(t, b, g, fp32)
	q := compile(t, b, g, fp32) // shares everything
	if copied := s.Counter("bytes_buffer") + s.Counter("bytes_constant") + s.Counter("bytes_data") - before; copied > 64 {
		t.Errorf("%d bytes were copied by loading", copied)
	}
	if st := b.Stats(); st.MappedBytes != 8*n || st.CopiedBytes != 0 {
		t.Errorf("%+v, want %d bytes in place and none copied", st, 8*n)
	}
	runAffine(t, b, p, n)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	runAffine(t, b, q, n)
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Error(err)
	}
	// A float32 value is multiplied in float32 with half precision too: the vectors
	// stay in place.
	h := compile(t, b, g, fp16)
	runAffine(t, b, h, n)
	if st := b.Stats(); st.CopiedBytes != 0 {
		t.Errorf("%+v", st)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	// A device whose largest buffer is smaller than the file.
	s.Set("max_buffer", "8192")
	small, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	r := compile(t, small, g, fp32)
	if st := small.Stats(); st.MappedBytes != 8*n || st.CopiedBytes != 0 {
		t.Errorf("%+v with small buffers", st)
	}
	runAffine(t, small, r, n)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// runAffine checks y = 3x + 1.
func runAffine(t testing.TB, b *metal.Backend, p backend.Program, n int) {
	t.Helper()
	x, y := alloc(t, b, 4*n), alloc(t, b, 4*n)
	defer x.Release()
	defer y.Release()
	for i := range n {
		copy(x.Bytes()[4*i:], floats(float32(i%50)))
	}
	w := begin(t, b, backend.First)
	defer w.Discard()
	if err := w.Run(background, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	times, err := done.Wait(background)
	if err != nil {
		t.Fatal(err)
	}
	if len(times) != 1 || times[0] < 0 {
		t.Errorf("times %v", times)
	}
	for i := range n {
		if got, want := number(y, i), 3*float32(i%50)+1; got != want {
			t.Fatalf("element %d: got %v, want %v", i, got, want)
		}
	}
}

func mapped(t *testing.T, data []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func TestWeightsCopied(t *testing.T) {
	b, _ := open(t, metal.Config{})
	heap := compile(t, b, affine(t, 100, vectorParam(100)), fp32)
	if st := b.Stats(); st.CopiedBytes != 800 || st.MappedBytes != 0 {
		t.Errorf("weights of the heap: %+v", st)
	}
	runAffine(t, b, heap, 100)
	// A matrix of a float32 file is rounded once for half precision, and the file's
	// pages may go.
	g := graph.New("matrix")
	released := 0
	w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{2, 3}, DType: tensor.F32, Data: floats(1, 2, 3, 4, 5, 6), Source: graph.Source{Release: func(_, to int) { released += to }}})
	g.Output("y", g.Linear(g.Input("x", tensor.F32, 1, 3), w, nil))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	half := compile(t, b, g, fp16)
	if st := b.Stats(); st.CopiedBytes != 812 || released != 24 {
		t.Errorf("%+v, %d bytes released", st, released)
	}
	// A file may place elements at any byte; a GPU reads aligned ones only.
	mem := mapped(t, make([]byte, 5000))
	odd := compile(t, b, affine(t, 100, func(name string, _ float32) graph.Param {
		at := map[string]int{"a": 51, "b": 1002}[name]
		return graph.Param{Name: name, Shape: tensor.Shape{100}, DType: tensor.F32, Data: mem[at : at+400], Source: graph.Source{Mapping: mem, Offset: at}}
	}), fp32)
	if st := b.Stats(); st.CopiedBytes != 812+800 || st.MappedBytes != 0 {
		t.Errorf("misaligned weights: %+v", st)
	}
	if err := odd.Close(); err != nil {
		t.Error(err)
	}
	// Data that is elsewhere than its source says is refused.
	bad := affine(t, 4, func(name string, v float32) graph.Param {
		p := vectorParam(4)(name, v)
		p.Source.Mapping = make([]byte, 64)
		return p
	})
	if _, err := b.Compile(background, bad, fp32); err == nil || !strings.Contains(err.Error(), "source") {
		t.Errorf("data elsewhere: %v", err)
	}
	if err := errors.Join(heap.Close(), half.Close()); err != nil {
		t.Error(err)
	}
}

// TestWeightFarBeforeTheEnd: MPS counts elements beyond an offset with 32 bits. A weight
// more than 2^31 of its elements before the end of its mapping gets a buffer of its own
// part, however large a buffer may be; one nearer to the end shares the whole file's.
func TestWeightFarBeforeTheEnd(t *testing.T) {
	const n = 1000
	s := metalsim.Open(t)
	s.Set("max_buffer", "1099511627776")
	s.Set("memory", "1099511627776")
	b, err := metal.New(metal.Config{})
	check(t, err)
	defer b.Close()
	path := filepath.Join(t.TempDir(), "sparse")
	const size = 4*(1<<31) + 1<<20
	check(t, os.WriteFile(path, nil, 0o600))
	if err := os.Truncate(path, size); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt(floats(slices.Repeat([]float32{3}, n)...), 0)
	check(t, err)
	_, err = f.WriteAt(floats(slices.Repeat([]float32{1}, n)...), 1<<20)
	check(t, err)
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		t.Skip("no room to map 8 GB: ", err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	at := map[string]int{"a": 0, "b": 1 << 20}
	before := s.Counter("buffer_bytes_live")
	p := compile(t, b, affine(t, n, func(name string, _ float32) graph.Param {
		return graph.Param{Name: name, Shape: tensor.Shape{n}, DType: tensor.F32, Data: mem[at[name]:][:4*n],
			Source: graph.Source{Mapping: mem, Offset: at[name]}}
	}), fp32)
	// Both lie at least 2^31 elements before the end.
	if grown := s.Counter("buffer_bytes_live") - before; grown > 1<<20 {
		t.Errorf("buffers of %d bytes over two weights of %d", grown, 4*n)
	}
	runAffine(t, b, p, n)
	check(t, p.Close())
}
