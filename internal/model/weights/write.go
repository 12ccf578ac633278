// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/newfile"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// paddingPrefix names the U8 tensors that Create puts between others to align
// them. The format allows no hole, so padding has to be a tensor; File does
// not list them.
const paddingPrefix = "__padding__."

// Spec describes a tensor to be written. Sizes are all that a header needs, so
// that a model larger than memory can be written piece by piece.
type Spec struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape
}

// Writer fills a new file. Its tensors may be written in any order and from
// several goroutines; nothing is visible under the final name before Commit.
type Writer struct {
	path    string
	tmp     *newfile.File
	specs   []Spec
	starts  []int64 // absolute file offset of each tensor
	total   int64
	size    int64
	written atomic.Int64
}

// Create starts a file with the given tensors, in the given order. With align
// above 1 each tensor's data starts at a multiple of it within the file: 16384,
// the page size of Apple silicon, lets a device map a tensor by itself.
func Create(path string, specs []Spec, meta map[string]string, align int) (*Writer, error) {
	head, starts, total, err := layout(specs, meta, align)
	if err != nil {
		return nil, err
	}
	tmp, err := newfile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	w := &Writer{path: path, tmp: tmp, specs: specs, starts: starts, size: total}
	for _, s := range specs {
		w.total += int64(s.Shape.Numel() * s.DType.Size())
	}
	if err = tmp.Need(total); err == nil {
		_, err = tmp.Write(head)
	}
	if err == nil {
		err = tmp.Truncate(total) // padding reads as zeros
	}
	if err != nil {
		defer w.Abort()
		return nil, fmt.Errorf("weights: %w", err)
	}
	return w, nil
}

// Size is that of the whole file.
func (w *Writer) Size() int64 { return w.size }

// WriteAt writes bytes of tensor i, starting at byte off of it.
func (w *Writer) WriteAt(i int, p []byte, off int64) error {
	size := int64(w.specs[i].Shape.Numel() * w.specs[i].DType.Size())
	if off < 0 || off > size || int64(len(p)) > size-off {
		return fmt.Errorf("weights: tensor %q: writing %d bytes at %d, want at most %d in all", w.specs[i].Name, len(p), off, size)
	}
	if _, err := w.tmp.WriteAt(p, w.starts[i]+off); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	w.written.Add(int64(len(p)))
	return nil
}

// Commit gives the file its name. It fails when not every byte was written.
func (w *Writer) Commit() error {
	defer w.Abort()
	if got := w.written.Load(); got != w.total {
		return fmt.Errorf("weights: %s: %d bytes of tensors written, want %d", w.path, got, w.total)
	}
	if err := w.tmp.Commit(); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

// Abort removes the unfinished file. After Commit it does nothing, so that callers
// may defer it.
func (w *Writer) Abort() { w.tmp.Abort() }

// Write writes tensors that are in memory; see Create.
func Write(path string, tensors []Tensor, meta map[string]string, align int) error {
	specs := make([]Spec, len(tensors))
	for i, t := range tensors {
		specs[i] = Spec{t.Name, t.DType, t.Shape}
		if want := t.Shape.Numel() * t.DType.Size(); len(t.Data) != want {
			return &FormatError{Kind: KindSize, Path: path, Tensor: t.Name,
				Got: fmt.Sprintf("%d bytes", len(t.Data)), Want: strconv.Itoa(want)}
		}
	}
	w, err := Create(path, specs, meta, align)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, t := range tensors {
		if err := w.WriteAt(i, t.Data, 0); err != nil {
			return err
		}
	}
	return w.Commit()
}

// layout checks the specs and returns the header with its length, the absolute
// offset of each tensor, and the size of the file.
func layout(specs []Spec, meta map[string]string, align int) ([]byte, []int64, int64, error) {
	// What the reader would refuse is not written in the first place.
	seen := map[string]bool{metadataKey: true}
	for _, s := range specs {
		if seen[s.Name] || strings.HasPrefix(s.Name, paddingPrefix) {
			return nil, nil, 0, &FormatError{Kind: KindDuplicate, Tensor: s.Name, Want: "each name once, none reserved"}
		}
		seen[s.Name] = true
		if _, ok := dtypeName(s.DType); !ok {
			return nil, nil, 0, &FormatError{Kind: KindDType, Tensor: s.Name, Got: s.DType.String(), Want: "a dtype of the format"}
		}
		if err := s.Shape.Check(s.DType.Size()); err != nil {
			return nil, nil, 0, &FormatError{Kind: KindShape, Tensor: s.Name, Got: s.Shape.String(), Want: err.Error()}
		}
	}
	// Offsets count from the end of the header, so that the padding between
	// tensors aligns them in the file only when the header is aligned as well.
	room := 0
	if align > 1 {
		probe, _, _, err := encode(specs, meta, align, 0)
		if err != nil {
			return nil, nil, 0, err
		}
		room = len(probe) + int(padding(int64(len(probe)), align))
	}
	return encode(specs, meta, align, room)
}

// encode builds the header; room, when not 0, is the size it is padded to. It
// is written by hand, key by key, because the order of keys should be that of
// the data, and encoding/json sorts maps.
func encode(specs []Spec, meta map[string]string, align, room int) ([]byte, []int64, int64, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	sep := byte('{')
	put := func(key string, value any) error {
		b.WriteByte(sep)
		sep = ','
		if err := putJSON(&b, key); err != nil {
			return err
		}
		b.WriteByte(':')
		return putJSON(&b, value)
	}
	type info struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if len(meta) > 0 {
		if err := put(metadataKey, meta); err != nil {
			return nil, nil, 0, err
		}
	}
	starts := make([]int64, len(specs))
	at := int64(0)
	for i, s := range specs {
		if gap := padding(at, align); gap > 0 {
			name := paddingPrefix + strconv.Itoa(i)
			if err := put(name, info{"U8", []int{int(gap)}, [2]int64{at, at + gap}}); err != nil {
				return nil, nil, 0, err
			}
			at += gap
		}
		starts[i] = at
		end := at + int64(s.Shape.Numel()*s.DType.Size())
		name, _ := dtypeName(s.DType)
		shape := append([]int{}, s.Shape...) // a nil slice would be null
		if err := put(s.Name, info{name, shape, [2]int64{at, end}}); err != nil {
			return nil, nil, 0, err
		}
		at = end
	}
	if sep == '{' {
		b.WriteByte(sep)
	}
	b.WriteByte('}')
	// Spaces are the format's padding; multiples of 8 align every element type.
	for b.Len()%8 != 0 || b.Len() < room {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	if len(head)-8 > maxHeader {
		return nil, nil, 0, &FormatError{Kind: KindHeaderSize, Got: strconv.Itoa(len(head) - 8), Want: fmt.Sprintf("at most %d", maxHeader)}
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	for i := range starts {
		starts[i] += int64(len(head))
	}
	return head, starts, int64(len(head)) + at, nil
}

func padding(at int64, align int) int64 {
	if align <= 1 {
		return 0
	}
	return (int64(align) - at%int64(align)) % int64(align)
}

// putJSON writes compact JSON with <, > and & as they are, as every other
// writer of the format does.
func putJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("weights: header: %w", err)
	}
	b.Truncate(b.Len() - 1) // the newline
	return nil
}
