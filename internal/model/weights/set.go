// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Set is the tensors of one model under their canonical names. Need and Report
// may be called from several goroutines, for weights that are packed in
// parallel; the rest is read-only once the set is made.
type Set struct {
	files   []*File
	tensors map[string][]Tensor // more than one: aliases of one parameter
	meta    map[string]string

	mu     sync.Mutex
	used   map[string]bool
	faults map[string]error // by tensor, for Report
}

// OpenSet opens the files of a model. Each path is a file or a directory; see
// Files.
func OpenSet(paths ...string) (*Set, error) {
	var files []*File
	closeAll := func(err error) (*Set, error) {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	for _, path := range paths {
		list, err := Files(path)
		if err != nil {
			return closeAll(err)
		}
		for _, p := range list {
			f, err := Open(p)
			if err != nil {
				return closeAll(err)
			}
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("weights: no path given, want a file or a directory")
	}
	return NewSet(files...), nil
}

// NewSet merges open files; the set closes them.
func NewSet(files ...*File) *Set {
	s := &Set{files: files, tensors: map[string][]Tensor{}, meta: map[string]string{},
		used: map[string]bool{}, faults: map[string]error{}}
	for _, f := range files {
		list := make([]Tensor, len(f.names))
		for i, name := range f.names {
			list[i] = f.entries[name]
		}
		s.add(list, f.meta)
	}
	return s
}

// NewSetTensors makes a set of tensors in memory, for example synthetic ones.
func NewSetTensors(tensors []Tensor, meta map[string]string) *Set {
	s := NewSet()
	s.add(tensors, meta)
	return s
}

// add files tensors under their canonical names. It gets one file's tensors at
// a time, since what a name means may depend on its neighbours in the file.
func (s *Set) add(list []Tensor, meta map[string]string) {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	n := newNamer(names)
	for i, t := range list {
		name := n.canonical(names[i])
		s.tensors[name] = append(s.tensors[name], t)
	}
	for k, v := range meta {
		if _, ok := s.meta[k]; !ok {
			s.meta[k] = v
		}
	}
}

// Metadata is a copy of the files' free-form strings; the first file's win.
func (s *Set) Metadata() map[string]string { return maps.Clone(s.meta) }

// Config is config.json beside the first of the files, as publishers on the
// Hugging Face hub write it; nil where there is none, or no file.
func (s *Set) Config() ([]byte, error) {
	if len(s.files) == 0 || s.files[0].path == "" {
		return nil, nil
	}
	return besideModel(s.files[0].path, "config.json")
}

// Names lists the canonical names in order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.tensors)) }

// Has reports whether a tensor is there without marking it as used.
func (s *Set) Has(name string) bool { return len(s.tensors[name]) > 0 }

// Shape is the shape of a tensor, nil when it is missing. It does not mark the
// tensor as used: a model's dimensions are read off the shapes before anything
// is loaded.
func (s *Set) Shape(name string) tensor.Shape {
	if list := s.tensors[name]; len(list) > 0 {
		return list[0].Shape.Clone()
	}
	return nil
}

// Need returns a tensor and marks it as used. A dimension of -1 in shape
// matches any. The error is a *FormatError and also kept for Report, so that a
// caller may go on and report every fault at once.
func (s *Set) Need(name string, shape tensor.Shape) (Tensor, error) {
	t, err := s.need(name, shape)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.faults[name] = err
		return Tensor{}, err
	}
	s.used[name] = true
	return t, nil
}

func (s *Set) need(name string, shape tensor.Shape) (Tensor, error) {
	list := s.tensors[name]
	if len(list) == 0 {
		return Tensor{}, &FormatError{Kind: KindMissing, Path: s.paths(), Tensor: name, Want: shape.String()}
	}
	// Aliases are one parameter in the model, so that different contents would
	// leave it to chance which one counts. Comparing costs reading the bytes,
	// which is why it waits until they are needed.
	t := list[0]
	for _, o := range list[1:] {
		if o.DType != t.DType || !o.Shape.Equal(t.Shape) || !bytes.Equal(o.Data, t.Data) {
			return Tensor{}, &FormatError{Kind: KindConflict, Path: s.paths(), Tensor: name,
				Got:  fmt.Sprintf("%s %v %v and %s %v %v", Quoted(t.Name), t.DType, t.Shape, Quoted(o.Name), o.DType, o.Shape),
				Want: "the same contents"}
		}
	}
	if !fits(t.Shape, shape) {
		return Tensor{}, &FormatError{Kind: KindMismatch, Path: s.paths(), Tensor: name,
			Got: t.Shape.String(), Want: shape.String()}
	}
	return t, nil
}

// fits compares dimension by dimension; -1 in want is a wildcard.
func fits(got, want tensor.Shape) bool {
	return slices.EqualFunc(got, want, func(g, w int) bool { return w == -1 || g == w })
}

func (s *Set) paths() string {
	var list []string
	for _, f := range s.files {
		if f.path != "" {
			list = append(list, f.path)
		}
	}
	return strings.Join(list, ", ")
}

// Report is the account of a set after a model has taken what it needs.
type Report struct {
	Missing    []string // asked for, not there
	Misshapen  []string // asked for, there in another shape
	Conflicts  []string // asked for, there twice with different contents
	Extra      []string // there, never asked for
	KnownExtra []string // the same, but known to be of no use to inference

	faults []error
}

// Report sorts the names by what happened to them.
func (s *Set) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r Report
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		err := s.faults[name]
		r.faults = append(r.faults, err)
		switch {
		case errors.Is(err, ErrMissing):
			r.Missing = append(r.Missing, name)
		case errors.Is(err, ErrMismatch):
			r.Misshapen = append(r.Misshapen, name)
		default:
			r.Conflicts = append(r.Conflicts, name)
		}
	}
	for _, name := range s.Names() {
		switch {
		case s.used[name] || s.faults[name] != nil: // accounted for already
		case unused.MatchString(name):
			r.KnownExtra = append(r.KnownExtra, name)
		default:
			r.Extra = append(r.Extra, name)
		}
	}
	return r
}

// Err joins the faults, or the first ten of them; nil when the model has
// everything. Extra tensors are not an error.
func (r Report) Err() error {
	const most = 10
	if len(r.faults) <= most {
		return errors.Join(r.faults...)
	}
	return errors.Join(append(slices.Clone(r.faults[:most]),
		fmt.Errorf("weights: and %d more tensors missing or of the wrong shape", len(r.faults)-most))...)
}

// Close closes the files; see File.Close.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
