// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// maxHeader is the limit of the format's reference implementation. It bounds
// what a hostile length can make us parse.
const maxHeader = 100_000_000

// maxTensors bounds the memory that a header of many tiny entries can claim;
// the largest model here has about a thousand.
const maxTensors = 1 << 17

const metadataKey = "__metadata__"

// dtypeNames are the format's spellings of the element types we can hold.
var dtypeNames = map[string]tensor.DType{
	"F64": tensor.F64, "F32": tensor.F32, "F16": tensor.F16, "BF16": tensor.BF16,
	"I64": tensor.I64, "I32": tensor.I32, "I16": tensor.I16, "I8": tensor.I8,
	"U64": tensor.U64, "U32": tensor.U32, "U16": tensor.U16, "U8": tensor.U8,
	"BOOL": tensor.Bool,
}

// dtypeName is the inverse of dtypeNames.
func dtypeName(d tensor.DType) (string, bool) {
	for name, have := range dtypeNames {
		if have == d {
			return name, true
		}
	}
	return "", false
}

// entry is one tensor of the header; offsets count from the first data byte.
type entry struct {
	name       string
	dtype      tensor.DType
	shape      tensor.Shape
	begin, end int
}

// parse checks a whole file image and returns its tensors in data order, the
// metadata, and the offset of the data.
func parse(image []byte) ([]entry, map[string]string, int, error) {
	if err := foreign(image); err != nil {
		return nil, nil, 0, err
	}
	if len(image) < 8 {
		return nil, nil, 0, &FormatError{Kind: KindTruncated,
			Got: fmt.Sprintf("%d bytes", len(image)), Want: "at least the 8 bytes of the header length"}
	}
	n := binary.LittleEndian.Uint64(image)
	// Compared as unsigned: as an int, 2^63 would be negative and pass for short.
	if n < 2 || n > maxHeader {
		return nil, nil, 0, &FormatError{Kind: KindHeaderSize,
			Got: strconv.FormatUint(n, 10), Want: fmt.Sprintf("2 to %d bytes", maxHeader)}
	}
	if n > uint64(len(image)-8) {
		return nil, nil, 0, &FormatError{Kind: KindTruncated,
			Got:  fmt.Sprintf("%d bytes", len(image)),
			Want: fmt.Sprintf("8 + %d bytes of header", n)}
	}
	data := 8 + int(n)
	entries, meta, err := parseHeader(image[8:data])
	if err != nil {
		return nil, nil, 0, err
	}
	if err := checkLayout(entries, len(image)-data); err != nil {
		return nil, nil, 0, err
	}
	return entries, meta, data, nil
}

// foreign recognises the text that git leaves in place of a file when LFS is not
// installed.
func foreign(image []byte) error {
	if bytes.HasPrefix(image, []byte("version https://git-lfs.github.com/spec/")) {
		line, _, _ := bytes.Cut(image[:min(len(image), 120)], []byte("\n"))
		return &FormatError{Kind: KindLFSPointer, Got: Quoted(string(line)),
			Want: "the file itself (git lfs pull fetches it)"}
	}
	// A safetensors file has a brace behind its first eight bytes.
	if len(image) > 8 && image[8] == '{' {
		return nil
	}
	start := bytes.ToLower(bytes.TrimLeft(image[:min(len(image), 64)], " \t\r\n\ufeff"))
	for _, f := range foreignFiles {
		if bytes.HasPrefix(image, []byte(f.magic)) || f.text && bytes.HasPrefix(start, []byte(f.magic)) {
			return &FormatError{Kind: KindForeign, Got: f.is, Want: modelFiles}
		}
	}
	if len(image) > 262 && string(image[257:262]) == "ustar" {
		return &FormatError{Kind: KindForeign, Got: "a tar archive", Want: modelFiles}
	}
	return nil
}

const modelFiles = "safetensors, a .pth of torch.save, or a folder with a model"

// foreignFiles are what lies under a model's name often enough, by the first bytes.
var foreignFiles = []struct {
	magic, is string
	text      bool // after white space, in small or capital letters
}{
	{"gguf", "a GGUF file of llama.cpp", true},
	{"<!doctype html", "an HTML page: a download that ended at a log-in or an error", true},
	{"<html", "an HTML page: a download that ended at a log-in or an error", true},
	{"<?xml", "an XML file: an error message of a server, perhaps", true},
	{"{", "JSON text, no weights; of a sharded model, name the folder or the .safetensors.index.json file", true},
	{"\x1f\x8b", "a gzip file, unpack it first", false},
	{"BZh", "a bzip2 file, unpack it first", false},
	{"\xfd7zXZ", "an xz file, unpack it first", false},
	{"\x28\xb5\x2f\xfd", "a zstd file, unpack it first", false},
	{"7z\xbc\xaf", "a 7-Zip archive, unpack it first", false},
	{"Rar!", "a RAR archive, unpack it first", false},
	{"\x89HDF", "an HDF5 file (Keras)", false},
	{"\x93NUMPY", "a NumPy array", false},
	{"\x89PNG", "a PNG picture", false},
	{"\xff\xd8\xff", "a JPEG picture", false},
	{"%PDF", "a PDF file", false},
	{"\x7fELF", "a program", false},
	{"\x08\x07\x12", "an ONNX model", false},
	{"\x08\x08\x12", "an ONNX model", false},
	{"\x08\x09\x12", "an ONNX model", false},
	{"\x08\x0a\x12", "an ONNX model", false},
}

// header reads the JSON token by token: encoding/json would keep the last of
// two equal keys in silence, and a name given twice is an ambiguity that two
// readers may resolve in two ways.
type header struct {
	dec *json.Decoder
}

func parseHeader(text []byte) ([]entry, map[string]string, error) {
	if text[0] != '{' {
		return nil, nil, headerError("", fmt.Sprintf("first byte %q", text[0]), "'{'")
	}
	if !utf8.Valid(text) {
		return nil, nil, headerError("", "invalid UTF-8", "JSON")
	}
	h := header{json.NewDecoder(bytes.NewReader(text))}
	h.dec.UseNumber()
	var (
		entries []entry
		meta    map[string]string
	)
	err := h.object("", func(key string) (err error) {
		if key == metadataKey {
			meta, err = h.metadata()
			return err
		}
		if len(entries) == maxTensors {
			return headerError(key, "more entries", fmt.Sprintf("at most %d tensors", maxTensors))
		}
		e, err := h.entry(key)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	// Only the padding that aligns the data may follow.
	if rest := bytes.TrimRight(text[h.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, nil, headerError("", fmt.Sprintf("%d bytes after the closing brace", len(rest)), "padding")
	}
	return entries, meta, nil
}

// headerError is for JSON that is broken or not of the format's form.
func headerError(name, got, want string) *FormatError {
	return &FormatError{Kind: KindHeader, Tensor: name, Got: got, Want: want}
}

// object walks one JSON object; each calls back with the decoder at the value.
func (h header) object(name string, each func(key string) error) error {
	if err := h.delim(name, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for h.dec.More() {
		tok, err := h.dec.Token()
		if err != nil {
			return headerError(name, err.Error(), "JSON")
		}
		key, ok := tok.(string)
		if !ok {
			return headerError(name, fmt.Sprint(tok), "a key")
		}
		if seen[key] {
			e := &FormatError{Kind: KindDuplicate, Tensor: name, Got: Quoted(key) + " twice", Want: "each key once"}
			if name == "" {
				e.Tensor = key
			}
			return e
		}
		seen[key] = true
		if err := each(key); err != nil {
			return err
		}
	}
	return h.delim(name, '}')
}

func (h header) delim(name string, want json.Delim) error {
	tok, err := h.dec.Token()
	if err != nil {
		return headerError(name, err.Error(), fmt.Sprintf("%q", want.String()))
	}
	if tok != want {
		return headerError(name, Quoted(fmt.Sprint(tok)), fmt.Sprintf("%q", want.String()))
	}
	return nil
}

func (h header) metadata() (map[string]string, error) {
	meta := map[string]string{}
	err := h.object(metadataKey, func(key string) error {
		tok, err := h.dec.Token()
		if err != nil {
			return headerError(metadataKey, err.Error(), "a string")
		}
		s, ok := tok.(string)
		if !ok {
			return headerError(metadataKey, fmt.Sprintf("key %s: %v", Quoted(key), tok), "a string")
		}
		meta[key] = s
		return nil
	})
	return meta, err
}

// entry reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}.
func (h header) entry(name string) (entry, error) {
	e := entry{name: name}
	var offsets []int
	var fields int
	err := h.object(name, func(key string) (err error) {
		fields++
		switch key {
		case "dtype":
			e.dtype, err = h.dtype(name)
		case "shape":
			var dims []int
			dims, err = h.integers(name, KindShape, maxDims)
			e.shape = tensor.Shape(dims)
		case "data_offsets":
			offsets, err = h.integers(name, KindOffsets, 2)
		default:
			return headerError(name, "field "+Quoted(key), "dtype, shape, data_offsets")
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if fields != 3 {
		return e, headerError(name, fmt.Sprintf("%d fields", fields), "dtype, shape, data_offsets")
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return e, &FormatError{Kind: KindOffsets, Tensor: name,
			Got: fmt.Sprint(offsets), Want: "[begin, end] with begin <= end"}
	}
	e.begin, e.end = offsets[0], offsets[1]
	// Only after Check are the products below free of overflow.
	if err := e.shape.Check(e.dtype.Size()); err != nil {
		return e, &FormatError{Kind: KindShape, Tensor: name,
			Got: e.shape.String(), Want: fmt.Sprintf("at most %d bytes", math.MaxInt)}
	}
	if want := e.shape.Numel() * e.dtype.Size(); e.end-e.begin != want {
		return e, &FormatError{Kind: KindSize, Tensor: name,
			Got:  fmt.Sprintf("%d bytes", e.end-e.begin),
			Want: fmt.Sprintf("%d for %v of %v", want, e.shape, e.dtype)}
	}
	return e, nil
}

func (h header) dtype(name string) (tensor.DType, error) {
	tok, err := h.dec.Token()
	if err != nil {
		return tensor.Invalid, headerError(name, err.Error(), "a dtype")
	}
	s, ok := tok.(string)
	if !ok {
		return tensor.Invalid, headerError(name, fmt.Sprintf("dtype %v", tok), "a string")
	}
	d, ok := dtypeNames[s]
	if !ok {
		return tensor.Invalid, &FormatError{Kind: KindDType, Tensor: name, Got: Quoted(s),
			Want: "F64, F32, F16, BF16, I8 to I64, U8 to U64 or BOOL"}
	}
	return d, nil
}

// maxDims is far above any layer's rank; it keeps a hostile shape from costing
// memory before it is refused.
const maxDims = 32

// integers reads an array of at most most integers, none negative, that fit an
// int.
func (h header) integers(name string, kind Kind, most int) ([]int, error) {
	if err := h.delim(name, '['); err != nil {
		return nil, err
	}
	list := []int{}
	for h.dec.More() {
		tok, err := h.dec.Token()
		if err != nil {
			return nil, headerError(name, err.Error(), "an integer")
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, headerError(name, fmt.Sprint(tok), "an integer")
		}
		v, err := strconv.ParseInt(num.String(), 10, strconv.IntSize)
		if err != nil || v < 0 || len(list) == most {
			return nil, &FormatError{Kind: kind, Tensor: name, Got: num.String(),
				Want: fmt.Sprintf("at most %d integers from 0 to %d", most, math.MaxInt)}
		}
		list = append(list, int(v))
	}
	return list, h.delim(name, ']')
}

// checkLayout sorts the entries by position, as the header may list them in any
// order, and demands that they tile the data exactly: two tensors on the same
// bytes, or bytes in none, are how a file hides a second content from one of
// two readers.
func checkLayout(entries []entry, size int) error {
	slices.SortStableFunc(entries, func(a, b entry) int {
		if a.begin != b.begin {
			return a.begin - b.begin
		}
		return a.end - b.end
	})
	at := 0
	for i, e := range entries {
		where := fmt.Sprintf("bytes %d to %d", e.begin, e.end)
		switch {
		case e.begin < at:
			return &FormatError{Kind: KindOverlap, Tensor: e.name, Got: where,
				Want: fmt.Sprintf("a start at %d, the end of %s", at, Quoted(entries[i-1].name))}
		case e.begin > at && e.end > size:
			return &FormatError{Kind: KindOffsets, Tensor: e.name, Got: where,
				Want: fmt.Sprintf("an end within the %d bytes of data", size)}
		case e.begin > at:
			return &FormatError{Kind: KindHole, Tensor: e.name, Got: where,
				Want: fmt.Sprintf("a start at %d", at)}
		}
		at = e.end
	}
	// A layout without gaps that is longer than the file is a file cut short.
	for _, e := range entries {
		if e.end > size {
			return &FormatError{Kind: KindTruncated, Tensor: e.name,
				Got: fmt.Sprintf("%d bytes of data", size), Want: fmt.Sprintf("%d", at)}
		}
	}
	if at < size {
		return &FormatError{Kind: KindTrailing,
			Got: fmt.Sprintf("%d bytes of data", size), Want: fmt.Sprintf("%d", at)}
	}
	return nil
}
