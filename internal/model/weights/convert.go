// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ConvertOptions says what a converted file is to hold.
type ConvertOptions struct {
	// DType is what floating-point weights are rounded to: F32, F16, BF16, or 0 to
	// keep each as it is.
	DType tensor.DType
	// Progress, when not nil, is called with the bytes read so far and in all, from
	// the calling goroutine, a few times a second at most.
	Progress func(done, total int64)
}

// convertAlign is the page size of Apple silicon: there a device maps a tensor
// that starts on a page without a copy.
const convertAlign = 16384

// Convert writes the model files at in, a file or a directory, as safetensors.
//
// Out is a file, or a directory (when it exists as one, or has no .safetensors
// suffix), in which the files get the names that OpenSet looks for: unified,
// encoder, decoder, retrieval or codebook. What goes into a file is what was in
// its source, under the names of the reference, with its metadata. Two names of
// one parameter are written once. Files are streamed and appear under their names
// when they are complete; Convert returns their paths. Directories are made as
// needed.
//
// The whitening of retrieval and the codebook keep their precision: factors of
// lambda^-1/2 may not fit half precision (network.md 18), and the codebook's
// distances decide between near neighbours.
func Convert(ctx context.Context, in, out string, opt ConvertOptions) ([]string, error) {
	switch opt.DType {
	case tensor.Invalid, tensor.F32, tensor.F16, tensor.BF16:
	default:
		return nil, fmt.Errorf("weights: convert to %v, want f32, f16 or bf16", opt.DType)
	}
	sources, err := sourceFiles(in)
	if err != nil {
		return nil, err
	}
	c := &converter{ctx: ctx, opt: opt}
	defer c.close()
	return c.run(sources, out)
}

func (c *converter) run(sources []string, out string) (written []string, err error) {
	defer fault.Guard(&err)()
	for _, p := range sources {
		if err := c.open(p); err != nil {
			return nil, err
		}
	}
	if err := c.place(out); err != nil {
		return nil, err
	}
	for _, job := range c.jobs {
		if err := c.write(job); err != nil {
			return written, err
		}
		written = append(written, job.out)
	}
	return written, nil
}

// sourceFiles is the file itself, without the other half of a published model:
// who names a file means it. A directory may also hold the retrieval files.
func sourceFiles(in string) ([]string, error) {
	st, err := os.Stat(in)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !st.IsDir() {
		return []string{in}, nil
	}
	list, err := Files(in)
	if err != nil {
		return nil, err
	}
	for _, find := range []func(string) (string, error){RetrievalFile, CodebookFile} {
		if p, err := find(in); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

// converter holds what the files of one call share.
type converter struct {
	ctx         context.Context
	opt         ConvertOptions
	jobs        []convertJob
	done, total int64
	shown       int64 // done at the last call of Progress
	floats      []float32
	bytes       []byte
}

// convertJob is one file to write.
type convertJob struct {
	source  *File
	out     string
	tensors []Tensor // under their names in the new file
	specs   []Spec
}

func (c *converter) close() {
	for _, j := range c.jobs {
		j.source.Close()
	}
}

// open reads a source's header and decides about each of its tensors.
func (c *converter) open(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	job := convertJob{source: f}
	c.jobs = append(c.jobs, job) // for close, whatever happens next
	seen := map[string]Tensor{}
	n := newNamer(f.names)
	for _, name := range f.names {
		t := f.entries[name]
		// Only what wrappers put on, and the second name of the DPT convolutions, is
		// changed: a converted file has the names of its source.
		t.Name = mergeLayerRN(n.bare(name))
		if first, ok := seen[t.Name]; ok {
			if err := sameParameter(path, first, t); err != nil {
				return err
			}
			continue
		}
		seen[t.Name] = t
		job.tensors = append(job.tensors, t)
		job.specs = append(job.specs, Spec{t.Name, c.dtype(t), t.Shape})
		c.total += int64(len(t.Data))
	}
	c.jobs[len(c.jobs)-1] = job
	return nil
}

func sameParameter(path string, a, b Tensor) error {
	if a.DType == b.DType && a.Shape.Equal(b.Shape) && (sameBytes(a, b) || bytes.Equal(a.Data, b.Data)) {
		return nil
	}
	return &FormatError{Kind: KindConflict, Path: path, Tensor: a.Name,
		Got: fmt.Sprintf("%v %v and %v %v", a.DType, a.Shape, b.DType, b.Shape), Want: "the same contents"}
}

// sameBytes spares the comparison where a .pth has one storage for both names.
func sameBytes(a, b Tensor) bool {
	return a.file != nil && a.file == b.file && a.offset == b.offset
}

// dtype is the element type of a tensor in the new file.
func (c *converter) dtype(t Tensor) tensor.DType {
	switch {
	case c.opt.DType == tensor.Invalid || !t.DType.Float():
		return t.DType
	case precise(t.Name) && t.DType.Size() > c.opt.DType.Size():
		return t.DType
	}
	return c.opt.DType
}

func precise(name string) bool {
	return name == "centroids" || strings.HasPrefix(name, "prewhiten.") || strings.HasPrefix(name, "postwhiten.")
}

// place gives each file its name.
func (c *converter) place(out string) error {
	st, err := os.Stat(out)
	dir := err == nil && st.IsDir() || !strings.HasSuffix(out, ".safetensors")
	if !dir {
		if len(c.jobs) > 1 {
			return fmt.Errorf("weights: convert %d files to the one file %s, want a directory", len(c.jobs), out)
		}
		c.jobs[0].out = out
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			return fmt.Errorf("weights: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	taken := map[string]string{}
	for i := range c.jobs {
		j := &c.jobs[i]
		name := role(j.tensors) + ".safetensors"
		if other, ok := taken[name]; ok {
			return fmt.Errorf("weights: %s and %s would both become %s", other, j.source.path, name)
		}
		taken[name] = j.source.path
		j.out = filepath.Join(out, name)
	}
	return nil
}

// role tells what a file is by its tensors.
func role(tensors []Tensor) string {
	names := make([]string, len(tensors))
	for i, t := range tensors {
		names[i] = t.Name
	}
	n := newNamer(names)
	switch {
	case slices.Contains(names, "centroids"):
		return "codebook"
	case n.dune && !n.decoder:
		return "encoder"
	case n.decoder && !n.dune:
		return "decoder"
	case slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "prewhiten.") }) &&
		!slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, "enc_blocks.") }):
		return "retrieval"
	}
	return "unified"
}

// write streams one file.
func (c *converter) write(j convertJob) error {
	meta := j.source.Metadata()
	if meta == nil {
		meta = map[string]string{}
	}
	meta["format"] = "pt"              // what readers in Python expect of files with these names
	meta["made_by"] = "mast3r-runtime" // by which the command line knows that it may replace the file
	w, err := Create(j.out, j.specs, meta, convertAlign)
	if err != nil {
		return err
	}
	defer w.Abort() // does nothing after Commit
	for i, t := range j.tensors {
		if err := c.tensor(w, i, t, j.specs[i].DType); err != nil {
			return fmt.Errorf("weights: convert %s: %w", j.source.path, err)
		}
	}
	return w.Commit()
}

// chunk is the number of elements converted at a time: large enough for the disk,
// small enough for the cache.
const chunk = 1 << 19

// tensor writes a tensor piece by piece, and lets go of the pages it has read: the
// source is mapped, and would otherwise count as this process's memory.
func (c *converter) tensor(w *Writer, i int, t Tensor, to tensor.DType) error {
	size := t.DType.Size()
	for at := 0; at < t.Shape.Numel(); at += chunk {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, t.Shape.Numel()-at)
		part := t
		part.Shape, part.Data, part.offset = tensor.Shape{n}, t.Data[at*size:(at+n)*size], t.offset+at*size
		b, err := c.round(part, to, at)
		if err != nil {
			return err
		}
		if err := w.WriteAt(i, b, int64(at*to.Size())); err != nil {
			return err
		}
		if err := part.Release(); err != nil {
			return err
		}
		c.done += int64(len(part.Data))
		c.progress()
	}
	return nil
}

func (c *converter) progress() {
	const step = 16 << 20 // a few calls a second
	if c.opt.Progress != nil && (c.done-c.shown >= step || c.done == c.total) {
		c.shown = c.done
		c.opt.Progress(c.done, c.total)
	}
}

// round is a piece of a tensor in the new type, valid until the next call. A number
// that the type cannot hold is an error: as infinity it would come out of every
// product.
func (c *converter) round(t Tensor, to tensor.DType, at int) ([]byte, error) {
	if err := tensor.CheckRange(t.Data, t.DType, to); err != nil {
		var e *tensor.RangeError
		if errors.As(err, &e) {
			e.Name, e.Element = t.Name, at+e.Element
		}
		return nil, &FormatError{Kind: KindValues, Got: err.Error()}
	}
	if t.DType == to {
		// A copy: write would call a page that is gone a bad address of its own.
		c.bytes = append(c.bytes[:0], t.Data...)
		return c.bytes, nil
	}
	values := t.View()
	if values == nil {
		c.floats = t.Float32s(c.floats)
		values = c.floats
	}
	f := FromFloat32s(t.Name, t.Shape, values)
	var err error
	c.bytes, err = f.castInto(c.bytes[:0], to)
	return c.bytes, err
}
