// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// modelFile writes a synthetic model as users have it, in one file of type d.
func modelFile(t *testing.T, variant string, d tensor.DType) *mast3r.Model {
	t.Helper()
	pool := par.New(2)
	defer pool.Close()
	set, err := synth.Model(pool, variant)
	if err != nil {
		t.Fatal(err)
	}
	var list []weights.Tensor
	for _, name := range set.Names() {
		x, err := set.Need(name, set.Shape(name))
		if err != nil {
			t.Fatal(err)
		}
		if d == tensor.F16 {
			var data []byte
			for _, f := range x.Float32s(nil) {
				h := tensor.F16FromFloat32(f)
				data = append(data, byte(h), byte(h>>8))
			}
			x = weights.Tensor{Name: name, DType: d, Shape: x.Shape, Data: data}
		}
		list = append(list, x)
	}
	path := filepath.Join(t.TempDir(), "unified.safetensors")
	if err := weights.Write(path, list, set.Metadata(), 0); err != nil {
		t.Fatal(err)
	}
	file, err := weights.OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := mast3r.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parts builds the four graphs of a pair of one size.
func parts(t *testing.T, m *mast3r.Model, h, w int) []*graph.Graph {
	t.Helper()
	grid := m.GridOf(h, w)
	enc, err1 := m.Encoder(2, h, w)
	dec, err2 := m.Decoder(1, grid, grid)
	head1, err3 := m.Head(1, 1, h, w, mast3r.AllOutputs)
	head2, err4 := m.Head(2, 1, h, w, mast3r.AllOutputs)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return []*graph.Graph{enc, dec, head1, head2}
}

// TestModelFiles loads whole models: no byte of a matrix is copied when the file
// has the precision's type, of vectors only those that are not of the type that
// reads them, and a pair is one command buffer.
func TestModelFiles(t *testing.T) {
	for _, c := range []struct {
		variant string
		stored  tensor.DType
		opt     backend.Options
	}{
		{"mast3r_micro", tensor.F32, fp32},
		{"mast3r_micro", tensor.F16, fp16},
		{"mast3r_micro", tensor.F16, fp32},
		{"dune_micro", tensor.F16, fp16},
	} {
		t.Run(c.variant+"/"+c.stored.String()+"/"+c.opt.Precision.String(), func(t *testing.T) {
			m := modelFile(t, c.variant, c.stored)
			b, s := open(t, metal.Config{})
			var progs []backend.Program
			defer func() {
				for _, p := range progs {
					if err := p.Close(); err != nil {
						t.Error(err)
					}
				}
			}()
			h, w := 2*m.Patch, 3*m.Patch
			folded, vectors, all := 0, map[string]int{}, map[string]int{}
			for _, g := range parts(t, m, h, w) {
				progs = append(progs, compile(t, b, g, c.opt))
				for _, n := range g.Nodes {
					p, ok := n.Op.(graph.Param)
					if ok && p.DType == tensor.F16 {
						all[p.Name] = tensor.F32.Size() * p.Shape.Numel()
					}
					if ok && len(p.Shape) == 1 && p.DType != tensor.F32 && len(p.Data) > 4 {
						vectors[p.Name] = tensor.F32.Size() * p.Shape[0]
					}
				}
			}
			for _, n := range vectors {
				folded += n // at most: biases of products stay half as wide
			}
			if m.Arch == mast3r.DUNE {
				// The position table is resampled for the grid, and joins the tokens.
				folded += 4 * m.EncDim * (2*3 + 2*(1+m.Registers) + 8)
			}
			st, wide := b.Stats(), 0
			for _, n := range all {
				wide += n
			}
			// In float32 nothing of a half-precision file can stay where it is, and each
			// weight is widened once; some are made into others before.
			if converted := c.stored == tensor.F16 && c.opt == fp32; converted {
				if st.MappedBytes != 0 || st.CopiedBytes < wide*9/10 || st.CopiedBytes > wide+folded {
					t.Errorf("%+v, want none in place and about %d to %d bytes copied", st, wide, wide+folded)
				}
			} else if st.MappedBytes == 0 || st.CopiedBytes > folded {
				t.Errorf("%+v, want at most %d bytes copied", st, folded)
			}
			// Nothing went into the graphs but numbers such as 0.5.
			if n := s.Counter("bytes_buffer") + s.Counter("bytes_data") + s.Counter("bytes_constant"); n > 1024 {
				t.Errorf("%d bytes went through copies", n)
			}
			runPair(t, b, progs)
			if got := s.Counter("commits"); got != 1 {
				t.Errorf("%d command buffers for a pair, want 1", got)
			}
			if st := b.Stats(); st.Runs != 4 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// runPair runs encoder, decoder and heads in one Work, as the engine does.
func runPair(t *testing.T, b *metal.Backend, progs []backend.Program) {
	t.Helper()
	var all []backend.Buffer
	defer func() {
		for _, x := range all {
			x.Release()
		}
	}()
	outputs := func(p backend.Program) (list []backend.Buffer) {
		for _, o := range p.Graph().Outputs {
			x := alloc(t, b, o.Node.Bytes())
			list, all = append(list, x), append(all, x)
		}
		return list
	}
	var pixels []backend.Buffer
	for i, n := range progs[0].Graph().Inputs {
		x := alloc(t, b, n.Bytes())
		for j := range x.Bytes() {
			x.Bytes()[j] = byte(j*(i+3)) | 1
		}
		pixels, all = append(pixels, x), append(all, x)
	}
	w := begin(t, b, backend.Second)
	defer w.Discard()
	run := func(p backend.Program, in []backend.Buffer) []backend.Buffer {
		out := outputs(p)
		if err := w.Run(background, p, in, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	feats := run(progs[0], pixels)
	hooks := run(progs[1], feats)
	half := len(hooks) / 2
	run(progs[2], append(feats[:1:1], hooks[:half]...))
	results := run(progs[3], append(feats[1:2:2], hooks[half:]...))
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	times, err := done.Wait(background)
	if err != nil || len(times) != 4 {
		t.Fatalf("%d times, %v", len(times), err)
	}
	for i, x := range results {
		if v := number(x, 0); v != v {
			t.Errorf("result %d begins with NaN", i)
		}
	}
}

// part compiles one graph of a model and gives buffers for its runs.
func part(t *testing.T, b *metal.Backend, g *graph.Graph) (p backend.Program, in, out []backend.Buffer) {
	t.Helper()
	p = compile(t, b, g, fp32)
	t.Cleanup(func() { check(t, p.Close()) })
	for _, n := range p.Graph().Inputs {
		in = append(in, alloc(t, b, n.Bytes()))
	}
	for _, o := range p.Graph().Outputs {
		out = append(out, alloc(t, b, o.Node.Bytes()))
	}
	return p, in, out
}

func release(buffers ...[]backend.Buffer) {
	for _, list := range buffers {
		for _, x := range list {
			x.Release()
		}
	}
}

// TestEveryCommandBufferIsAsked fails each command buffer of a network in turn, on
// an MPSGraph that likes to commit in the middle of an encoding and with cuts of
// our own between the parts: an error anywhere is an error, and all run in order.
func TestEveryCommandBufferIsAsked(t *testing.T) {
	m := modelFile(t, "mast3r_micro", tensor.F32)
	for name, cut := range map[string]float64{"in one": 1e15, "in parts": 1} {
		t.Run(name, func(t *testing.T) {
			b, s := open(t, metal.Config{})
			s.Set("commit_continue", "30")
			metal.SetCutFLOPs(t, cut)
			p, in, out := part(t, b, parts(t, m, 2*m.Patch, 2*m.Patch)[2])
			defer release(in, out)
			for n := 1; ; n++ {
				s.Set("fail_command", fmt.Sprint(n))
				before := s.Counter("commits")
				w := begin(t, b, backend.Second)
				check(t, errors.Join(w.Run(background, p, in, out), w.Run(background, p, in, out)))
				done, err := w.Submit()
				check(t, err)
				_, err = done.Wait(background)
				commits := int(s.Counter("commits") - before)
				if n > commits {
					check(t, err)
					if want := map[string]int{"in one": 1, "in parts": 2}[name]; commits != want {
						t.Errorf("%d command buffers, want %d", commits, want)
					}
					return
				}
				if !errors.Is(err, device.ErrOutOfMemory) {
					t.Errorf("command buffer %d of %d failed, and the work ends with %v", n, commits, err)
				}
			}
		})
	}
}

// TestHiddenCommits meets an MPSGraph that commits in the middle of an encoding
// whatever it is told: an error, and nothing is reused that may be in use.
func TestHiddenCommits(t *testing.T) {
	m := modelFile(t, "mast3r_micro", tensor.F32)
	b, s := open(t, metal.Config{})
	s.Set("commit_continue", "30")
	s.Set("commit_anyway", "1")
	s.Set("latency", "0.01")
	p, in, out := part(t, b, parts(t, m, 2*m.Patch, 2*m.Patch)[2])
	for i := range 2 {
		w := begin(t, b, backend.Second)
		if err := w.Run(background, p, in, out); !errors.Is(err, device.ErrHiddenCommits) {
			t.Errorf("got %v", err)
		}
		if i == 1 {
			w.Discard()
			continue
		}
		done, err := w.Submit() // what was encoded may not be thrown away unwaited here either
		check(t, err)
		_, err = done.Wait(background)
		check(t, err)
	}
	for _, x := range append(in, out...) {
		n := x.Len()
		x.Release()
		again := alloc(t, b, n) // of the same class: the same memory
		clear(again.Bytes())
		again.Release()
	}
}

// TestWithoutTheProperty: MPSGraph's environment variable stands in for it.
func TestWithoutTheProperty(t *testing.T) {
	const variable = "MPSGRAPH_DISABLE_CC"
	s := metalsim.Open(t)
	s.Set("private_methods", "0")
	s.Set("commit_continue", "30")
	t.Setenv(variable, "") // puts back what was there
	os.Unsetenv(variable)
	m := modelFile(t, "mast3r_micro", tensor.F32)
	b, err := metal.New(metal.Config{})
	check(t, err)
	t.Cleanup(func() { check(t, b.Close()) })
	if os.Getenv(variable) == "" {
		t.Errorf("%s is not set", variable)
	}
	p, in, out := part(t, b, parts(t, m, 2*m.Patch, 2*m.Patch)[2])
	defer release(in, out)
	w := begin(t, b, backend.Second)
	check(t, w.Run(background, p, in, out))
	w.Discard()
	if n := s.Counter("commits"); n != 0 {
		t.Errorf("%d command buffers were committed underneath", n)
	}
}
