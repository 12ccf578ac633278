// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
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

// TestNoCastOfWeights: whatever the file and the precision, the graph has no cast of
// a weight, which MPSGraph might make of all of them at once; each is converted when
// it is loaded, into its buffer and through no memory as large as itself.
func TestNoCastOfWeights(t *testing.T) {
	const n = 1024 // a matrix of 1M elements
	// Each processor that converts has some memory of its own.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, stored := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16} {
		for _, opt := range []backend.Options{fp32, fp16, bf16} {
			t.Run(stored.String()+"/"+opt.Precision.String(), func(t *testing.T) {
				b, s := open(t, metal.Config{})
				file := mapped(t, repeated(stored, 1.25, n*n))
				g := graph.New("one product")
				w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{n, n}, DType: stored, Data: file, Source: graph.Source{Mapping: file, Release: func(_, _ int) {}}})
				g.Output("y", g.Linear(g.Input("x", tensor.F32, 2, n), w, nil))
				if _, err := g.Build(); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				live := s.Counter("buffer_bytes_live")
				p := compile(t, b, g, opt)
				peak := s.Counter("buffer_bytes_peak") - live
				runtime.ReadMemStats(&after)
				st := b.Stats()
				if kept := int64(st.CopiedBytes + st.MappedBytes); peak > kept+4096 || kept > 4*n*n {
					t.Errorf("%d bytes at the most for %+v", peak, st)
				}
				if heap := after.TotalAlloc - before.TotalAlloc; heap > n*n*7/4 {
					t.Errorf("%d bytes of the heap for a matrix of %d", heap, n*n)
				}
				casts := 0
				for _, line := range strings.Split(s.Program(), "\n") {
					if strings.Contains(line, "cast") {
						casts++
					}
				}
				want := map[backend.Precision]int{backend.FP32: 0, backend.FP16: 2, backend.BF16: 2}[opt.Precision] // of x and y; of x twice
				if casts != want {
					t.Errorf("%d casts, want %d", casts, want)
				}
				x, y := alloc(t, b, 8*n), alloc(t, b, 8*n)
				defer x.Release()
				defer y.Release()
				copy(x.Bytes(), repeated(tensor.F32, 1, 2*n))
				once(t, b, p, x, y)
				if got := number(y, 5); got != 1.25*n {
					t.Errorf("%v, want %v", got, 1.25*n)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRoundedWeights: in bfloat16 the factors of a product are rounded, to even, and
// nothing else is: the same weight is also there as it was.
func TestRoundedWeights(t *testing.T) {
	b, _ := open(t, metal.Config{})
	value := math.Float32frombits(0x3f80_8000 + 1) // 1 and a bit more than half a step of bfloat16
	g := graph.New("rounded")
	w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{1, 2}, DType: tensor.F32, Data: floats(value, 0)})
	x := g.Input("x", tensor.F32, 1, 2)
	g.Output("product", g.Linear(x, w, nil))
	g.Output("sum", g.AddTo(x, w))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	p := compile(t, b, g, bf16)
	in, product, sum := alloc(t, b, 8), alloc(t, b, 4), alloc(t, b, 8)
	for _, x := range []backend.Buffer{in, product, sum} {
		defer x.Release()
	}
	copy(in.Bytes(), floats(1, 0))
	once(t, b, p, in, product, sum)
	if got := number(product, 0); got != 1.0078125 {
		t.Errorf("product %v, want the weight rounded to 1.0078125", got)
	}
	if got := number(sum, 0); got != 1+value {
		t.Errorf("sum %v, want %v", got, 1+value)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestFileCutShort: pages that are gone while a weight is converted are an error, on
// the owner thread too.
func TestFileCutShort(t *testing.T) {
	b, _ := open(t, metal.Config{})
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 4<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	g := graph.New("cut")
	w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{1 << 10, 1 << 10}, DType: tensor.F32, Data: mem, Source: graph.Source{Mapping: mem, Release: func(_, _ int) {}}})
	g.Output("y", g.Linear(g.Input("x", tensor.F32, 2, 1<<10), w, nil))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compile(background, g, fp16); err == nil {
		t.Error("a model whose file is gone compiles")
	}
	if st := b.Stats(); st.CopiedBytes != 0 {
		t.Errorf("%+v is left", st)
	}
}

// once runs p on one input.
func once(t testing.TB, b *metal.Backend, p backend.Program, in backend.Buffer, out ...backend.Buffer) {
	t.Helper()
	w := begin(t, b, backend.First)
	defer w.Discard()
	if err := w.Run(background, p, []backend.Buffer{in}, out); err != nil {
		t.Fatal(err)
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := done.Wait(background); err != nil {
		t.Fatal(err)
	}
}

// repeated is a file of n equal numbers.
func repeated(d tensor.DType, v float32, n int) []byte {
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	switch d {
	case tensor.F64:
		one = binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v)))
	case tensor.F16:
		one = binary.LittleEndian.AppendUint16(nil, tensor.F16FromFloat32(v))
	case tensor.BF16:
		one = binary.LittleEndian.AppendUint16(nil, tensor.BF16FromFloat32(v))
	}
	return bytes.Repeat(one, n)
}
