// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// variant is a published model, or the one in the wheel.
type variant struct {
	name  string
	dims  string // of package synth
	grid  int    // of DUNE's position table
	sizes []size
}

type size struct{ width, height int }

func (s size) String() string { return fmt.Sprintf("%d x %d", s.width, s.height) }

// variants at the sizes of work.md 1 and 3, 4:3 and wider for the first,
// which cuts pictures to multiples of 16, and of 14 for those of DUNE.
var variants = []variant{
	{"mast3r_vit_large", "mast3r_vit_large", 0, []size{{512, 384}, {512, 288}, {512, 160}, {224, 224}}},
	{"dune_vit_small_336", "dune_vit_small_14", 24, []size{{336, 336}}},
	{"dune_vit_small_448", "dune_vit_small_14", 32, []size{{448, 336}}},
	{"dune_vit_base_336", "dune_vit_base_14", 24, []size{{336, 336}}},
	{"dune_vit_base_448", "dune_vit_base_14", 32, []size{{448, 336}}},
	{"mast3r_tiny", wheel, 0, []size{{256, 192}}},
}

// wheel stands for the model file that the Python package carries.
const wheel = ""

// precisions and the type of the file that needs no conversion for it: what a
// user who cares about time converts the model to. Bfloat16 and float32 on other
// files cast their matrices in every run.
var precisions = []struct {
	p    backend.Precision
	file tensor.DType
}{{backend.FP16, tensor.F16}, {backend.BF16, tensor.BF16}, {backend.FP32, tensor.F32}}

// specs are the tensors of v and the file's metadata.
func (v variant) specs(wheelFile string) ([]weights.Spec, map[string]string, error) {
	if v.dims == wheel {
		set, err := weights.OpenSet(wheelFile)
		if err != nil {
			return nil, nil, err
		}
		var list []weights.Spec
		for _, name := range set.Names() {
			list = append(list, weights.Spec{Name: name, Shape: set.Shape(name)})
		}
		return list, set.Metadata(), set.Close()
	}
	d, err := synth.Variant(v.dims)
	if err != nil {
		return nil, nil, err
	}
	d.PosGrid = v.grid
	var list []weights.Spec
	for _, f := range d.Files() {
		list = append(list, f.Specs...)
	}
	return list, d.Metadata(v.name), nil
}

// sparse writes a safetensors file that is all header: its data is a hole in the
// file, which reads as zeros and takes no room.
func sparse(path string, specs []weights.Spec, meta map[string]string, d tensor.DType) error {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	head := map[string]any{"__metadata__": meta}
	names := map[tensor.DType]string{tensor.F32: "F32", tensor.F16: "F16", tensor.BF16: "BF16"}
	var at int64
	for _, s := range specs {
		end := at + int64(s.Shape.Numel()*d.Size())
		head[s.Name] = entry{names[d], s.Shape, [2]int64{at, end}}
		at = end
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 { // elements aligned, as every writer does
		text = append(text, ' ')
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	return errors.Join(os.WriteFile(path, file, 0o644), os.Truncate(path, int64(len(file))+at))
}

// runs are what one size of a variant costs in one precision.
type runs struct {
	variant   string
	size      size
	precision backend.Precision
	parts     map[string]counts // by graph
	// pair is both encoders, decoder, heads. A further picture of a sequence, paired
	// with one that is encoded already, is encoder1, decoder, heads. Retrieval on the
	// GPU is encoder1: its head computes in float64 on the CPU.
	pair, sequence, retrieval counts
}

// lower compiles every graph of every variant. dir is for the sparse files.
func lower(sim *metalsim.Sim, dir, wheelFile string, list []variant) ([]runs, error) {
	b, err := metal.New(metal.Config{})
	if err != nil {
		return nil, err
	}
	var all []runs
	for _, v := range list {
		for _, p := range precisions {
			specs, meta, err := v.specs(wheelFile)
			if err != nil {
				return nil, errors.Join(err, b.Close())
			}
			path := filepath.Join(dir, fmt.Sprintf("%s_%v.safetensors", v.name, p.p))
			err = sparse(path, specs, meta, p.file)
			if err == nil {
				var more []runs
				more, err = v.measure(&recorder{sim: sim, dev: b, precision: p.p}, path)
				all = append(all, more...)
			}
			if err != nil {
				return nil, errors.Join(err, b.Close())
			}
		}
	}
	return all, b.Close()
}

// measure compiles the graphs of every size of the model in a file.
func (v variant) measure(rec *recorder, path string) (list []runs, err error) {
	set, err := weights.OpenSet(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.close(), set.Close()) }()
	m, err := mast3r.Open(set)
	if err != nil {
		return nil, err
	}
	for _, s := range v.sizes {
		r, err := rec.runs(m, s)
		if err != nil {
			return nil, fmt.Errorf("metalcost: %s %v %v: %w", v.name, s, rec.precision, err)
		}
		r.variant = v.name
		list = append(list, r)
	}
	return list, nil
}

// recorder compiles graphs and counts what the simulator saw. Programs stay open
// until the end: they share the weights.
type recorder struct {
	sim       *metalsim.Sim
	dev       *metal.Backend
	precision backend.Precision
	open      []backend.Program
}

func (rec *recorder) close() error {
	var errs []error
	for _, p := range rec.open {
		errs = append(errs, p.Close())
	}
	rec.open = nil
	return errors.Join(errs...)
}

// runs counts the graphs of one size.
func (rec *recorder) runs(m *mast3r.Model, s size) (runs, error) {
	r := runs{size: s, precision: rec.precision, parts: map[string]counts{}}
	grid := m.GridOf(s.height, s.width)
	for name, build := range map[string]func() (*graph.Graph, error){
		"encoder of 2": func() (*graph.Graph, error) { return m.Encoder(2, s.height, s.width) },
		"encoder of 1": func() (*graph.Graph, error) { return m.Encoder(1, s.height, s.width) },
		"decoder":      func() (*graph.Graph, error) { return m.Decoder(1, grid, grid) },
		"head 1":       func() (*graph.Graph, error) { return m.Head(1, 1, s.height, s.width, mast3r.AllOutputs) },
		"head 2":       func() (*graph.Graph, error) { return m.Head(2, 1, s.height, s.width, mast3r.AllOutputs) },
	} {
		g, err := build()
		if err != nil {
			return r, err
		}
		if r.parts[name], err = rec.count(g); err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
	}
	tail := r.parts["decoder"].plus(r.parts["head 1"]).plus(r.parts["head 2"])
	r.pair = r.parts["encoder of 2"].plus(tail)
	r.sequence = r.parts["encoder of 1"].plus(tail)
	r.retrieval = r.parts["encoder of 1"]
	return r, nil
}

// count compiles g and counts the graph that came out.
func (rec *recorder) count(g *graph.Graph) (counts, error) {
	exe, err := rec.dev.Compile(context.Background(), g, backend.Options{Precision: rec.precision})
	if err != nil {
		return counts{}, err
	}
	rec.open = append(rec.open, exe)
	prog, err := parse(rec.sim.Program())
	if err != nil {
		return counts{}, err
	}
	return prog.count()
}
