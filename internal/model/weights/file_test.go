// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// image builds a file by hand: the writer must not be what checks the reader.
func image(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

// hostile is one damaged file for each way of damaging one.
var hostile = []struct {
	name   string
	image  []byte
	want   error
	tensor string
}{
	{"empty", nil, ErrTruncated, ""},
	{"seven bytes", make([]byte, 7), ErrTruncated, ""},
	{"zero header length", make([]byte, 16), ErrHeaderSize, ""},
	{"header length 2^63", append(binary.LittleEndian.AppendUint64(nil, 1<<63), "{}"...), ErrHeaderSize, ""},
	{"header length 2^64-1", append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "{}"...), ErrHeaderSize, ""},
	{"header longer than the file", append(binary.LittleEndian.AppendUint64(nil, 100), "{}"...), ErrTruncated, ""},
	{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"), ErrLFSPointer, ""},
	{"zip cut short", []byte("PK\x03\x04 and more bytes"), ErrArchive, ""},
	{"pickle of something", []byte("\x80\x02}q\x00."), ErrNoModel, ""},
	{"pickle of a function", []byte("\x80\x02cos\nsystem\n."), ErrPickle, ""},
	{"torch before 1.6", []byte(legacyMagic + " and more bytes"), ErrTorch, ""},
	{"not JSON", image("hello world", 0), ErrHeader, ""},
	{"array", image("[]", 0), ErrHeader, ""},
	{"unclosed", image(`{"a":`, 0), ErrHeader, "a"},
	{"no colon", image(`{"a"}`, 0), ErrHeader, "a"},
	{"number as key", image(`{1:2}`, 0), ErrHeader, ""},
	{"trailing comma", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}`, 1), ErrHeader, ""},
	{"text after the object", image(`{} {}`, 0), ErrHeader, ""},
	{"invalid UTF-8", image("{\"\xff\":1}", 0), ErrHeader, ""},
	{"entry is a number", image(`{"a":1}`, 0), ErrHeader, "a"},
	{"entry is deep", image(`{"a":`+strings.Repeat(`{"b":`, 2000), 0), ErrHeader, "a"},
	{"unknown field", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"zip":1}}`, 1), ErrHeader, "a"},
	{"missing field", image(`{"a":{"dtype":"U8","shape":[1]}}`, 1), ErrHeader, "a"},
	{"dtype is a number", image(`{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}`, 1), ErrHeader, "a"},
	{"metadata is a list", image(`{"__metadata__":[]}`, 0), ErrHeader, metadataKey},
	{"metadata holds a number", image(`{"__metadata__":{"a":1}}`, 0), ErrHeader, metadataKey},
	{"shape holds a string", image(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1), ErrHeader, "a"},
	{"duplicate tensor", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrDuplicate, "a"},
	{"duplicate by escape", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrDuplicate, "a"},
	{"duplicate field", image(`{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDuplicate, "a"},
	{"duplicate metadata", image(`{"__metadata__":{"k":"1","k":"2"}}`, 0), ErrDuplicate, metadataKey},
	{"unknown dtype", image(`{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, 1), ErrDType, "a"},
	{"negative dimension", image(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1), ErrShape, "a"},
	{"fractional dimension", image(`{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}`, 1), ErrShape, "a"},
	{"dimension 2^63", image(`{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}}`, 1), ErrShape, "a"},
	{"element count overflows", image(`{"a":{"dtype":"U8","shape":[4294967296,4294967296,16],"data_offsets":[0,0]}}`, 0), ErrShape, "a"},
	{"byte count overflows", image(`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0), ErrShape, "a"},
	{"33 dimensions", image(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,", 32)+`1],"data_offsets":[0,1]}}`, 1), ErrShape, "a"},
	{"too few bytes for the shape", image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), ErrSize, "a"},
	{"too many bytes for the shape", image(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,8]}}`, 8), ErrSize, "a"},
	{"begin after end", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1), ErrOffsets, "a"},
	{"one offset", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}}`, 1), ErrOffsets, "a"},
	{"three offsets", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, 1), ErrOffsets, "a"},
	{"negative offset", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 1), ErrOffsets, "a"},
	{"past the end", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}}`, 3), ErrOffsets, "b"},
	{"far past the end", image(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}}`, 3), ErrOffsets, "b"},
	{"overlap", image(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), ErrOverlap, "b"},
	{"same bytes twice", image(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), ErrOverlap, "b"},
	{"hole", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), ErrHole, "b"},
	{"hole at the start", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), ErrHole, "a"},
	{"cut short", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}}`, 3), ErrTruncated, "b"},
	{"bytes after the last tensor", image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2), ErrTrailing, ""},
}

func TestHostileFiles(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			_, err := OpenBytes(c.image)
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, c.want) || !errors.Is(err, ErrFormat) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if fe.Tensor != c.tensor {
				t.Errorf("%v: names tensor %q, want %q", err, fe.Tensor, c.tensor)
			}
			if fe.Got == "" || fe.Want == "" {
				t.Errorf("%v: does not say what was got and wanted", err)
			}
			// The same bytes as a file: the path is added, nothing stays mapped.
			path := filepath.Join(t.TempDir(), "m.safetensors")
			if err := os.WriteFile(path, c.image, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err = Open(path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Open: got %v, want %v with the path", err, c.want)
			}
		})
	}
}

func TestTooManyTensors(t *testing.T) {
	var b strings.Builder
	for i := range maxTensors + 1 {
		fmt.Fprintf(&b, `,"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
	}
	if _, err := OpenBytes(image("{"+b.String()[1:]+"}", 0)); !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), "at most 131072") {
		t.Errorf("got %v", err)
	}
}

func TestKindsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for k := KindTruncated; k <= KindUnsupported; k++ {
		err := &FormatError{Kind: k}
		if seen[err.Error()] {
			t.Errorf("kind %d: text %q used twice", k, err)
		}
		seen[err.Error()] = true
		for j := KindTruncated; j <= KindUnsupported; j++ {
			if errors.Is(err, kinds[j]) != (j == k) {
				t.Errorf("kind %d: errors.Is of kind %d's sentinel is %v", k, j, j != k)
			}
		}
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("directory: got %v", err)
	}
}

// everyType is a tensor of each dtype with its values, written by hand.
func everyType() (tensors []Tensor, want map[string][]float64) {
	le := binary.LittleEndian
	want = map[string][]float64{
		"F64": {0.1, -1e300}, "F32": {1.5, -2}, "F16": {0.5, -65504}, "BF16": {1, -3},
		"I8": {-128, 127}, "I16": {-32768, 7}, "I32": {-2147483648, 7}, "I64": {-9007199254740992, 7},
		"U8": {255, 0}, "U16": {65535, 1}, "U32": {4294967295, 1}, "U64": {9007199254740992, 1},
		"BOOL": {1, 0}, "scalar": {42}, "empty": {},
	}
	add := func(name string, d tensor.DType, data []byte, shape ...int) {
		tensors = append(tensors, Tensor{Name: name, DType: d, Shape: shape, Data: data})
	}
	f64 := func(v float64) uint64 { return math.Float64bits(v) }
	f32 := func(v float32) uint32 { return math.Float32bits(v) }
	add("F64", tensor.F64, le.AppendUint64(le.AppendUint64(nil, f64(0.1)), f64(-1e300)), 2)
	add("F32", tensor.F32, le.AppendUint32(le.AppendUint32(nil, f32(1.5)), f32(-2)), 2, 1)
	add("F16", tensor.F16, le.AppendUint16(le.AppendUint16(nil, 0x3800), 0xfbff), 2)
	add("BF16", tensor.BF16, le.AppendUint16(le.AppendUint16(nil, 0x3f80), 0xc040), 2)
	add("I8", tensor.I8, []byte{0x80, 0x7f}, 2)
	add("I16", tensor.I16, []byte{0, 0x80, 7, 0}, 2)
	add("I32", tensor.I32, []byte{0, 0, 0, 0x80, 7, 0, 0, 0}, 2)
	add("I64", tensor.I64, le.AppendUint64(le.AppendUint64(nil, 0xffe0000000000000), 7), 2)
	add("U8", tensor.U8, []byte{255, 0}, 1, 2)
	add("U16", tensor.U16, []byte{255, 255, 1, 0}, 2)
	add("U32", tensor.U32, []byte{255, 255, 255, 255, 1, 0, 0, 0}, 2)
	add("U64", tensor.U64, le.AppendUint64(le.AppendUint64(nil, 1<<53), 1), 2)
	add("BOOL", tensor.Bool, []byte{1, 0}, 2)
	add("scalar", tensor.F32, le.AppendUint32(nil, f32(42)))
	add("empty", tensor.F32, nil, 0, 3)
	return tensors, want
}

func checkEveryType(t *testing.T, f *File) {
	t.Helper()
	list, want := everyType()
	if got := f.Names(); len(got) != len(list) {
		t.Fatalf("names %q, want %d", got, len(list))
	}
	for _, l := range list {
		got, ok := f.Tensor(l.Name)
		if !ok || got.DType != l.DType || !got.Shape.Equal(l.Shape) {
			t.Errorf("%s: got %v %v (%v), want %v %v", l.Name, got.DType, got.Shape, ok, l.DType, l.Shape)
			continue
		}
		d, s := got.Float64s(nil), got.Float32s(make([]float32, 1))
		if len(d) != len(want[l.Name]) || len(s) != len(d) {
			t.Errorf("%s: %d and %d values, want %d", l.Name, len(d), len(s), len(want[l.Name]))
			continue
		}
		for i, w := range want[l.Name] {
			if d[i] != w || s[i] != float32(w) {
				t.Errorf("%s[%d]: got %g and %g, want %g", l.Name, i, d[i], s[i], w)
			}
		}
	}
	if _, ok := f.Tensor("none"); ok {
		t.Error("a tensor that is not there was found")
	}
}

func TestEveryTypeRoundTrips(t *testing.T) {
	list, _ := everyType()
	for _, align := range []int{0, 1, 64, 16384} {
		t.Run(fmt.Sprint("align ", align), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.safetensors")
			if err := Write(path, list, map[string]string{"k<&>": "é\n"}, align); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkEveryType(t, f)
			if got := f.Metadata()["k<&>"]; got != "é\n" {
				t.Errorf("metadata %q", got)
			}
			for _, name := range f.Names() {
				tt, _ := f.Tensor(name)
				of, off, ok := tt.Offset()
				if !ok || of != f || string(f.Bytes()[off:off+len(tt.Data)]) != string(tt.Data) {
					t.Errorf("%s: offset %d does not point at the data", name, off)
				}
				if align > 1 && off%align != 0 {
					t.Errorf("%s: offset %d is no multiple of %d", name, off, align)
				}
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			mem, err := OpenBytes(raw)
			if err != nil {
				t.Fatal(err)
			}
			checkEveryType(t, mem)
		})
	}
}

func TestUnalignedData(t *testing.T) {
	b := image(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}  `, 0)
	b = append(b, 9, 0, 0, 0x80, 0x3f)
	f, err := OpenBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	tt, _ := f.Tensor("b")
	if got := tt.Float32s(nil); got[0] != 1 {
		t.Errorf("got %v, want 1", got)
	}
	// Of two tensors one byte apart at most one is aligned to four.
	u, _ := f.Tensor("a")
	u.DType, u.Data = tensor.F32, f.Bytes()[len(b)-5:len(b)-1]
	if tt.View() != nil && u.View() != nil {
		t.Error("both of two overlapping views claim alignment")
	}
}

func TestReleaseKeepsTheData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	data := make([]byte, 1<<18)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if err := Write(path, []Tensor{{Name: "w", DType: tensor.U8, Shape: tensor.Shape{len(data)}, Data: data}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := f.Tensor("w")
	for range 2 {
		if err := w.Release(); err != nil {
			t.Fatal(err)
		}
		if string(w.Data) != string(data) {
			t.Fatal("the data changed after Release")
		}
		if err := w.ReleasePart(1000, len(data)-1000); err != nil || string(w.Data) != string(data) {
			t.Fatalf("after the release of a part: %v, or other data", err)
		}
	}
	for _, bad := range [][2]int{{-1, 5}, {0, len(data) + 1}, {9, 8}} {
		if err := w.ReleasePart(bad[0], bad[1]); err == nil {
			t.Errorf("bytes %d to %d were released", bad[0], bad[1])
		}
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Release(); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if err := (Tensor{}).Release(); err != nil {
		t.Errorf("in memory: %v", err)
	}
}

func FuzzOpenBytes(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.image)
	}
	f.Add(image(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"s":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}`, 10))
	f.Add(image(`{"__metadata__":{"a":"b"},"z":{"dtype":"F64","shape":[0,4],"data_offsets":[0,0]}}   `, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := OpenBytes(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, name := range file.Names() {
			tt, _ := file.Tensor(name)
			if len(tt.Data) != tt.Shape.Numel()*tt.DType.Size() {
				t.Fatalf("%q: %d bytes for %v %v", name, len(tt.Data), tt.DType, tt.Shape)
			}
			if got := tt.Float64s(nil); len(got) != tt.Shape.Numel() {
				t.Fatalf("%q: %d values for %v", name, len(got), tt.Shape)
			}
		}
		set := NewSet(file)
		for _, name := range set.Names() {
			if _, err := set.Need(name, set.Shape(name)); err != nil && !errors.Is(err, ErrConflict) {
				t.Fatalf("%q: %v", name, err)
			}
		}
	})
}

func TestCastAndMemoryTensors(t *testing.T) {
	values := []float32{1, -0.1, 65520, 3e-8}
	m := FromFloat32s("w", tensor.Shape{2, 2}, values)
	if v := m.View(); len(v) != 4 || &v[0] != &values[0] {
		t.Error("a tensor of float32 values in memory has no view of them")
	}
	for d, want := range map[tensor.DType][]float64{
		tensor.F32:  {1, float64(float32(-0.1)), 65520, float64(float32(3e-8))},
		tensor.F64:  {1, float64(float32(-0.1)), 65520, float64(float32(3e-8))},
		tensor.F16:  {1, -0.0999755859375, math.Inf(1), 5.9604644775390625e-08},
		tensor.BF16: {1, -0.10009765625, 65536, 129.0 / 128 * 0x1p-25},
	} {
		c, err := m.Cast(d)
		if err != nil || c.DType != d || !c.Shape.Equal(m.Shape) || c.Name != "w" {
			t.Fatalf("%v: %+v, %v", d, c, err)
		}
		if got := c.Float64s(nil); !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", d, got, want)
		}
		if d != tensor.F32 && c.View() != nil {
			t.Errorf("%v: has a float32 view", d)
		}
	}
	if _, err := m.Cast(tensor.I32); err == nil {
		t.Error("a cast to integers was accepted")
	}
}

func TestEveryF16(t *testing.T) {
	data := make([]byte, 0, 1<<17)
	for h := range 1 << 16 {
		data = binary.LittleEndian.AppendUint16(data, uint16(h))
	}
	got := Tensor{DType: tensor.F16, Shape: tensor.Shape{1 << 16}, Data: data}.Float32s(nil)
	for h, f := range got {
		if want := tensor.Float32FromF16(uint16(h)); math.Float32bits(f) != math.Float32bits(want) {
			t.Fatalf("%#04x: got %g, want %g", h, f, want)
		}
	}
}

func BenchmarkFloat32s(b *testing.B) {
	const n = 1 << 20
	dst := make([]float32, n)
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		t := Tensor{DType: d, Shape: tensor.Shape{n}, Data: make([]byte, n*d.Size())}
		for i := range t.Data {
			t.Data[i] = 0x30 | byte(i*31)&0xf // ordinary numbers in each type
		}
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(int64(len(t.Data)))
			for b.Loop() {
				t.Float32s(dst)
			}
		})
	}
}
