// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// testdata/make.py wrote the .pth and .pkl files with PyTorch and numpy: a
// tensor's values count up from a hundred times its number.

func ramp(number, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(100*number + i)
	}
	return out
}

func TestTorchCheckpoint(t *testing.T) {
	f, err := Open(filepath.Join("testdata", "checkpoint.pth"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]struct {
		dtype  tensor.DType
		shape  tensor.Shape
		values []float64
		view   bool
	}{
		"plain":                     {tensor.F32, tensor.Shape{2, 3}, ramp(0, 6), true},
		"transposed":                {tensor.F32, tensor.Shape{6, 4}, nil, false},
		"slice":                     {tensor.F32, tensor.Shape{2, 3}, []float64{108, 109, 110, 114, 115, 116}, false},
		"expanded":                  {tensor.F32, tensor.Shape{3, 2}, []float64{200, 200, 201, 201, 202, 202}, false},
		"parameter":                 {tensor.F32, tensor.Shape{2}, ramp(3, 2), true},
		"scalar":                    {tensor.F32, tensor.Shape{}, []float64{7.5}, true},
		"empty":                     {tensor.F32, tensor.Shape{0, 3}, []float64{}, false},
		"scratch.layer1_rn.weight":  {tensor.F32, tensor.Shape{2, 2}, ramp(4, 4), true},
		"scratch.layer_rn.0.weight": {tensor.F32, tensor.Shape{2, 2}, ramp(4, 4), true},
		"f64":                       {tensor.F64, tensor.Shape{2}, ramp(5, 2), true},
		"f16":                       {tensor.F16, tensor.Shape{2}, ramp(6, 2), true},
		"bf16":                      {tensor.BF16, tensor.Shape{2}, []float64{700, 700}, true}, // 701 takes ten bits
		"i64":                       {tensor.I64, tensor.Shape{2}, ramp(8, 2), true},
		"i32":                       {tensor.I32, tensor.Shape{2}, ramp(9, 2), true},
		"i16":                       {tensor.I16, tensor.Shape{2}, ramp(10, 2), true},
		"i8":                        {tensor.I8, tensor.Shape{2}, ramp(1, 2), true},
		"u8":                        {tensor.U8, tensor.Shape{2}, ramp(2, 2), true},
		"bool":                      {tensor.Bool, tensor.Shape{2}, []float64{1, 0}, true},
	}
	for i := range 24 {
		w := want["transposed"]
		w.values = append(w.values, float64(100+i%4*6+i/4))
		want["transposed"] = w
	}
	if got := f.Names(); len(got) != len(want) {
		t.Errorf("%d tensors %q, want %d", len(got), got, len(want))
	}
	for name, w := range want {
		got, ok := f.Tensor("module." + name)
		if !ok || got.DType != w.dtype || !got.Shape.Equal(w.shape) {
			t.Errorf("%s: got %v %v (%v), want %v %v", name, got.DType, got.Shape, ok, w.dtype, w.shape)
			continue
		}
		if v := got.Float64s(nil); !slices.Equal(v, w.values) {
			t.Errorf("%s: got %v, want %v", name, v, w.values)
		}
		if _, at, ok := got.Offset(); ok != w.view || ok && &f.Bytes()[at] != &got.Data[0] {
			t.Errorf("%s: is a view: %v, want %v", name, ok, w.view)
		}
	}
	a, _ := f.Tensor("module.scratch.layer1_rn.weight")
	b, _ := f.Tensor("module.scratch.layer_rn.0.weight")
	if &a.Data[0] != &b.Data[0] {
		t.Error("aliases of one storage lie in two places")
	}
	wantMeta := map[string]string{
		"enc_heads": "16", "dec_heads": "12", "rope_base": "100", "resolution": "512",
		"depth_mode": "exp,-inf,inf", "conf_mode": "exp,1,inf", "desc_conf_mode": "exp,0,inf",
	}
	if got := f.Metadata(); !maps.Equal(got, wantMeta) {
		t.Errorf("metadata %v, want %v", got, wantMeta)
	}
	set := NewSet(f)
	if _, err := set.Need("scratch.layer1_rn.weight", tensor.Shape{2, 2}); err != nil {
		t.Error(err)
	}
}

// A file without args is a model all the same: its shapes say nearly everything.
func TestTorchWithoutArgs(t *testing.T) {
	f, err := Open(filepath.Join("testdata", "flat.pth"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if w, ok := f.Tensor("weight"); !ok || w.Float32s(nil)[1] != 1 || len(f.Metadata()) != 0 {
		t.Errorf("got %v %v, metadata %v", w, ok, f.Metadata())
	}
}

func TestTorchRefused(t *testing.T) {
	for file, want := range map[string]struct {
		err  error
		text string
	}{
		"legacy.pth": {ErrTorch, "before version 1.6"},
		"module.pth": {ErrNoModel, "torch.nn.modules.linear.Linear, want a dict of tensors: model.state_dict()"},
	} {
		_, err := Open(filepath.Join("testdata", file))
		if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want %v with %q", file, err, want.err, want.text)
		}
	}
}

func TestCodebook(t *testing.T) {
	for _, order := range []string{"c", "fortran"} {
		for protocol := 2; protocol <= 5; protocol++ {
			name := fmt.Sprintf("codebook_%s_%d.pkl", order, protocol)
			f, err := Open(filepath.Join("testdata", name))
			if err != nil {
				t.Error(err)
				continue
			}
			c, ok := f.Tensor("centroids")
			if !ok || c.DType != tensor.F32 || !c.Shape.Equal(tensor.Shape{3, 4}) || !slices.Equal(c.Float64s(nil), ramp(0, 12)) {
				t.Errorf("%s: got %v", name, c)
			}
			// Protocol 2 writes bytes as text; the others leave them where they are.
			if _, _, ok := c.Offset(); ok != (order == "c" && protocol > 2) {
				t.Errorf("%s: is a view: %v", name, ok)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// numpy 1 called its private module otherwise.
func TestCodebookOfNumpy1(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "codebook_c_3.pkl"))
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.ReplaceAll(b, []byte("cnumpy._core.multiarray\n"), []byte("cnumpy.core.multiarray\n"))
	if bytes.Equal(old, b) {
		t.Fatal("the file does not name the module")
	}
	f, err := OpenBytes(old)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := f.Tensor("centroids"); !slices.Equal(c.Float64s(nil), ramp(0, 12)) {
		t.Errorf("got %v", c)
	}
}

// torchZip builds an archive by hand, so that its parts can be wrong.
func torchZip(t testing.TB, root string, entries map[string][]byte, method uint16) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: root + name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(entries[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A pickle assembler: just enough for dicts of tensors.

func pkl(parts ...string) []byte { return []byte("\x80\x02" + strings.Join(parts, "") + ".") }

func pStr(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func pInt(v int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(v)))
}

func pTuple(v ...int64) string {
	var b strings.Builder
	for _, n := range v {
		b.WriteString(pInt(n))
	}
	return "(" + b.String() + "t"
}

func pDict(items ...string) string { return "}(" + strings.Join(items, "") + "u" }

func pTensor(key string, numel, offset int64, shape, stride string) string {
	id := "(" + pStr("storage") + "ctorch\nFloatStorage\n" + pStr(key) + pStr("cpu") + pInt(numel) + "tQ"
	return "ctorch._utils\n_rebuild_tensor_v2\n(" + id + pInt(offset) + shape + stride + "\x89NtR"
}

func TestHostileTorch(t *testing.T) {
	const big = 1 << 62
	storage := make([]byte, 24) // six float32
	ok := pTensor("0", 6, 0, pTuple(2, 3), pTuple(3, 1))
	model := func(t string) []byte { return pkl(pDict(pStr("model"), pDict(pStr("w"), t))) }
	cases := []struct {
		name   string
		pickle []byte
		want   error
		text   string
	}{
		{"storage missing", model(pTensor("7", 6, 0, pTuple(6), pTuple(1))), ErrStorage, `"7"`},
		{"storage of another size", model(pTensor("0", 5, 0, pTuple(5), pTuple(1))), ErrSize, "24 bytes"},
		{"offset past the end", model(pTensor("0", 6, 6, pTuple(1), pTuple(1))), ErrOffsets, "offset 6"},
		{"offset 2^62", model(pTensor("0", 6, big, pTuple(2, 3), pTuple(3, 1))), ErrOffsets, ""},
		{"negative offset", model(pTensor("0", 6, -1, pTuple(2), pTuple(1))), ErrPickle, "offset"},
		{"shape too long", model(pTensor("0", 6, 1, pTuple(6), pTuple(1))), ErrOffsets, ""},
		{"shape overflows", model(pTensor("0", 6, 0, pTuple(big, big), pTuple(0, 0))), ErrShape, ""},
		{"negative shape", model(pTensor("0", 6, 0, pTuple(-2, 3), pTuple(3, 1))), ErrPickle, "size"},
		{"stride past the end", model(pTensor("0", 6, 0, pTuple(2, 3), pTuple(4, 1))), ErrOffsets, ""},
		{"stride 2^62", model(pTensor("0", 6, 0, pTuple(3, 2), pTuple(big, big))), ErrOffsets, ""},
		{"negative stride", model(pTensor("0", 6, 0, pTuple(6), pTuple(-1))), ErrPickle, "stride"},
		{"expanded beyond the file", model(pTensor("0", 6, 0, pTuple(1<<40), pTuple(0))), ErrShape, "contiguous"},
		{"strides and sizes", model(pTensor("0", 6, 0, pTuple(6), pTuple(1, 1))), ErrPickle, "1 sizes and 2 strides"},
		{"33 dimensions", model(pTensor("0", 6, 0, pTuple(make([]int64, 33)...), pTuple(make([]int64, 33)...))), ErrPickle, "at most 32"},
		{"model is a list", pkl(pDict(pStr("model"), "]")), ErrNoModel, "a list"},
		{"model holds a text", model(pStr("x")), ErrNoModel, "a str"},
		{"no model", pkl(pDict(pStr("weights"), pStr("x"))), ErrNoModel, `"weights"`},
		{"nothing", pkl("}"), ErrNoModel, ""},
		{"a list at the top", pkl("]"), ErrNoModel, "a list"},
		{"a function", pkl("cposix\nsystem\n", pStr("true"), "\x85R"), ErrPickle, "posix.system"},
		{"one confidence", pkl(pDict(pStr("args"), pDict(pStr("model"), pStr("M(two_confs=False)")), pStr("model"), pDict(pStr("w"), ok))), ErrUnsupported, "two_confs"},
		{"constructor", pkl(pDict(pStr("args"), pDict(pStr("model"), pStr("M(a=(1")), pStr("model"), pDict(pStr("w"), ok))), ErrUnsupported, "constructor"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			image := torchZip(t, "any/", map[string][]byte{"data.pkl": c.pickle, "data/0": storage}, zip.Store)
			_, err := OpenBytes(image)
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %v with %q", err, c.want, c.text)
			}
			if fe.Got == "" || fe.Want == "" {
				t.Errorf("%v: does not say what was got and wanted", err)
			}
		})
	}
	t.Run("the same parts, right", func(t *testing.T) {
		image := torchZip(t, "any/", map[string][]byte{"data.pkl": model(ok), "data/0": storage, "byteorder": []byte("little")}, zip.Store)
		f, err := OpenBytes(image)
		if err != nil || len(f.Names()) != 1 {
			t.Fatalf("got %v", err)
		}
	})
}

func TestHostileArchive(t *testing.T) {
	ok := pkl(pDict(pStr("model"), pDict(pStr("w"), pTensor("0", 1, 0, pTuple(1), pTuple(1)))))
	good := map[string][]byte{"data.pkl": ok, "data/0": make([]byte, 4)}
	edit := func(name, text string) map[string][]byte {
		m := maps.Clone(good)
		m[name] = []byte(text)
		return m
	}
	cases := map[string]struct {
		image []byte
		want  error
	}{
		"compressed":   {torchZip(t, "a/", good, zip.Deflate), ErrArchive},
		"big-endian":   {torchZip(t, "a/", edit("byteorder", "big"), zip.Store), ErrArchive},
		"no pickle":    {torchZip(t, "a/", map[string][]byte{"data/0": nil}, zip.Store), ErrArchive},
		"two pickles":  {torchZip(t, "a/", edit("b/data.pkl", ""), zip.Store), ErrArchive},
		"empty pickle": {torchZip(t, "a/", edit("data.pkl", ""), zip.Store), ErrPickle},
	}
	for name, c := range cases {
		if _, err := OpenBytes(c.image); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	// A checkpoint cut at any byte, and with any byte changed, is an error or a
	// model, never a crash.
	whole, err := os.ReadFile(filepath.Join("testdata", "checkpoint.pth"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, err := OpenBytes(whole[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d of %d: got %v", n, len(whole), err)
		}
	}
	for i := range whole {
		whole[i] ^= 0xff
		exercise(t, whole)
		whole[i] ^= 0xff
	}
}

// exercise opens an image and reads every number of what it holds.
func exercise(t testing.TB, image []byte) {
	t.Helper()
	f, err := OpenBytes(image)
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			t.Fatalf("untyped error %v", err)
		}
		return
	}
	for _, name := range f.Names() {
		w, _ := f.Tensor(name)
		if len(w.Data) != w.Shape.Numel()*w.DType.Size() || len(w.Float64s(nil)) != w.Shape.Numel() {
			t.Fatalf("%q: %d bytes for %v %v", name, len(w.Data), w.DType, w.Shape)
		}
	}
}

func FuzzTorch(f *testing.F) {
	storage := make([]byte, 24)
	whole, err := os.ReadFile(filepath.Join("testdata", "checkpoint.pth"))
	if err != nil {
		f.Fatal(err)
	}
	a, err := openArchive(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.pickle)
	f.Add(pkl(pDict(pStr("model"), pDict(pStr("w"), pTensor("0", 6, 0, pTuple(2, 3), pTuple(1, 2))))))
	f.Fuzz(func(t *testing.T, pickled []byte) {
		exercise(t, torchZip(t, "", map[string][]byte{"data.pkl": pickled, "data/0": storage}, zip.Store))
	})
}

func TestConstructor(t *testing.T) {
	for source, want := range map[string]map[string]string{
		"M()": {},
		`M(conf_mode=["exp", 1, float("inf")], img_size=224)`:               {"conf_mode": "exp,1,inf", "resolution": "224"},
		"M(depth_mode=('exp', -float('inf'), np.inf), f=g(a=1, b='),('))":   {"depth_mode": "exp,-inf,inf"},
		" M(3, enc_num_heads = 6 , pos_embed=\"RoPE10\",\n two_confs=True)": {"enc_heads": "6", "rope_base": "10"},
	} {
		got := map[string]string{}
		if err := constructor(source, got); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", source, got, err, want)
		}
	}
	for _, source := range []string{"", "M", "M(", "M(]", "M(a=1, a=2)", "M('a)", "M(pos_embed='cosine')",
		"M(head_type='linear')", "M(output_mode='pts3d')", "M(" + strings.Repeat("a", maxSource) + ")"} {
		if err := constructor(source, map[string]string{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%.40q: got %v", source, err)
		}
	}
}
