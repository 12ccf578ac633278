// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// values.txt holds pickles that CPython wrote, one a line: the expression, the
// protocol and the bytes in hexadecimal. testdata/make.py wrote it.
func cpython(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "values.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		var name, hex string
		var protocol int
		if _, err := fmt.Sscanf(line, "%s %d %s", &name, &protocol, &hex); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var b []byte
		if _, err := fmt.Sscanf(hex, "%x", &b); err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("%s/%d", name, protocol)] = b
	}
	return out
}

func dict(items ...Value) *Dict {
	d := &Dict{}
	for i := 0; i < len(items); i += 2 {
		if err := d.set(items[i], items[i+1]); err != nil {
			panic(err)
		}
	}
	return d
}

var little = binary.LittleEndian

func TestCPython(t *testing.T) {
	i := func(v int64) int64 { return v }
	shared := &List{Items: []Value{i(1)}}
	want := map[string]Value{
		"none": nil, "true": true, "false": false,
		"ints":      &List{[]Value{i(0), i(255), i(256), i(65535), i(65536), i(-1), i(1 << 31), i(-1 << 31), i(1<<63 - 1), i(-1 << 63)}},
		"floats":    Tuple{0.1, -1e300},
		"text":      "héllo ∞",
		"long_text": strings.Repeat("x", 300),
		"bytes":     []byte("\x00\xff"),
		"empties":   Tuple{Tuple{}, &List{}, &Dict{}},
		"tuples":    Tuple{Tuple{i(1)}, Tuple{i(1), i(2)}, Tuple{i(1), i(2), i(3)}, Tuple{i(1), i(2), i(3), i(4)}},
		"dict":      dict("a", i(1), i(2), "b", nil, true),
		"shared":    &List{[]Value{shared, shared}},
		"ordered":   dict("z", i(1), "a", i(2)),
		"namespace": &Object{"argparse.Namespace", dict("lr", 0.5, "names", &List{[]Value{"a"}})},
		"array":     &Array{DType: tensor.F32, Shape: tensor.Shape{1, 2}, Data: little.AppendUint32(little.AppendUint32(nil, 0), 0x3f800000)},
		"path":      Name("path"),
		"scalar":    &Array{DType: tensor.F64, Shape: tensor.Shape{}, Data: little.AppendUint64(nil, 0x3fd0000000000000)},
	}
	files := cpython(t)
	if len(files) != 4*len(want) {
		t.Errorf("%d pickles, want %d of each of %d", len(files), 4, len(want))
	}
	for name, v := range want {
		for protocol := 2; protocol <= 5; protocol++ {
			key := fmt.Sprintf("%s/%d", name, protocol)
			got, n, err := Decode(append(files[key], "rest"...))
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			if a, ok := got.(*Array); ok && len(a.Shape) == 0 {
				a.Shape = tensor.Shape{}
			}
			if !reflect.DeepEqual(got, v) || n != len(files[key]) {
				t.Errorf("%s: got %#v after %d bytes, want %#v after %d", key, got, n, v, len(files[key]))
			}
		}
	}
	got, _, err := Decode(files["shared/4"])
	if l, ok := got.(*List); err != nil || !ok || l.Items[0] != l.Items[1] {
		t.Error("one list referred to twice became two")
	}
}

func TestDict(t *testing.T) {
	d := dict("b", int64(1), int64(7), int64(2), "a", int64(3), "b", int64(4))
	var keys []string
	for k := range d.All {
		keys = append(keys, k)
	}
	if v, ok := d.Get("b"); d.Len() != 3 || !reflect.DeepEqual(keys, []string{"b", "a"}) || v != Value(int64(4)) || !ok {
		t.Errorf("got %d items, text keys %q, b = %v", d.Len(), keys, v)
	}
	for range d.All {
		break
	}
	if _, ok := d.Get("none"); ok {
		t.Error("a key that is not there was found")
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("(", 1000)
	cases := []struct {
		name, pickle string
		kind         error
		text         string
	}{
		{"empty", "", ErrMalformed, "PROTO"},
		{"protocol 0", "I1\n.", ErrMalformed, "PROTO"},
		{"protocol 6", "\x80\x06N.", ErrRefused, "protocol 6"},
		{"no stop", "\x80\x02N", ErrMalformed, "1 bytes wanted, 0 left"},
		{"stop on nothing", "\x80\x02.", ErrMalformed, "empty"},
		{"stop above a mark", "\x80\x02N(.", ErrMalformed, "empty"},
		{"unknown instruction", "\x80\x02\xfe.", ErrMalformed, "0xfe"},
		{"os.system", "\x80\x02cos\nsystem\n.", ErrRefused, `"os.system"`},
		{"stack global", "\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", ErrRefused, `"builtins.eval"`},
		{"stack global of numbers", "\x80\x04K\x01K\x02\x93.", ErrMalformed, "two strings"},
		{"a long name", "\x80\x02c" + strings.Repeat("a", 5000) + "\nb\n.", ErrRefused, "aaa..."},
		{"name without end", "\x80\x02cos", ErrMalformed, "line"},
		{"call of a number", "\x80\x02K\x01)R.", ErrMalformed, "int"},
		{"call of a name", "\x80\x02ctorch\nfloat32\n)R.", ErrRefused, "torch.float32"},
		{"call of a storage class", "\x80\x02ctorch\nFloatStorage\n)R.", ErrRefused, "FloatStorage"},
		{"call without a tuple", "\x80\x02cargparse\nNamespace\nK\x01\x81.", ErrMalformed, "int"},
		{"arguments", "\x80\x02cargparse\nNamespace\nK\x01\x85R.", ErrMalformed, "1 arguments"},
		{"state of a number", "\x80\x02K\x01}b.", ErrRefused, "int"},
		{"state that is no dict", "\x80\x02cargparse\nNamespace\n)RK\x01b.", ErrMalformed, "int"},
		{"append to a dict", "\x80\x02}K\x01a.", ErrMalformed, "a list"},
		{"items for a list", "\x80\x02]K\x01K\x02s.", ErrMalformed, "dict"},
		{"odd items", "\x80\x02}(K\x01u.", ErrMalformed, "even"},
		{"a list as key", "\x80\x02}]K\x02s.", ErrRefused, "list"},
		{"a float as key", "\x80\x02}G\x7f\xf8\x00\x00\x00\x00\x00\x00K\x02s.", ErrRefused, "float"},
		{"no mark", "\x80\x02K\x01t.", ErrMalformed, "mark"},
		{"tuple through a mark", "\x80\x02K\x01(\x85.", ErrMalformed, "fewer than 1"},
		{"memo never written", "\x80\x02h\x05.", ErrMalformed, "memo 5"},
		{"memo of nothing", "\x80\x02q\x00.", ErrMalformed, "empty"},
		{"long of 9 bytes", "\x80\x02\x8a\x09123456789.", ErrRefused, "9 bytes"},
		{"length 2^63", "\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x80.", ErrMalformed, "9223372036854775808 bytes"},
		{"length 2^64-1", "\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\xff.", ErrMalformed, "18446744073709551615"},
		{"not UTF-8", "\x80\x02X\x01\x00\x00\x00\xff.", ErrMalformed, "UTF-8"},
		{"open marks", "\x80\x02" + deep + ".", ErrMalformed, "empty"},
		{"bytes twice through latin1", "\x80\x02c_codecs\nencode\n(X\x02\x00\x00\x00\xc4\x80X\x06\x00\x00\x00latin1tR.", ErrMalformed, "latin1"},
		{"persistent id", "\x80\x02K\x01Q.", ErrMalformed, "persistent id"},
		{"storage of a class that is none", "\x80\x02(U\x07storagectorch\nSize\nU\x010U\x03cpuK\x01tQ.", ErrMalformed, "torch.Size"},
		{"tensor of a list", "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(]K\x00))tR.", ErrMalformed, "storage"},
		{"object array", "\x80\x02cnumpy\ndtype\nU\x02O8\x85R.", ErrMalformed, "O8"},
		{"big-endian array", "\x80\x02cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01>NNNtb.", ErrMalformed, "byte order"},
	}
	for op, name := range refusedOps {
		cases = append(cases, struct {
			name, pickle string
			kind         error
			text         string
		}{name, "\x80\x02" + string([]byte{op}) + ".", ErrRefused, name})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, _, err := Decode([]byte(c.pickle))
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, %v, want %v with %q", v, err, c.kind, c.text)
			}
			if len(fmt.Sprint(err)) > 400 {
				t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
			}
		})
	}
}

// What one byte can make must not be made again and again.
func TestLimits(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	body := "X" + string(little.AppendUint32(nil, uint32(len(text)))) + text
	keys := "}("
	for i := range 1000 {
		keys += "M" + string(little.AppendUint16(nil, uint16(i))) + "N"
	}
	keys += "uq\x000"
	for name, pickle := range map[string]string{
		"instructions":       "\x80\x02" + strings.Repeat("N", maxOps) + ".",
		"text encoded often": "\x80\x02" + body + "q\x000" + strings.Repeat("c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R0", 70) + "N.",
		"a dict copied often": "\x80\x02" + keys + "cargparse\nNamespace\nq\x010" +
			strings.Repeat("h\x01)Rh\x00b0", 2000) + "N.",
		"items copied often": "\x80\x02](" + strings.Repeat("NN\x86", 1000) + "eq\x000ccollections\nOrderedDict\nq\x010" +
			strings.Repeat("h\x01h\x00\x85R0", 2000) + "N.",
	} {
		if _, _, err := Decode([]byte(pickle)); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A list that holds itself is a value like any other.
func TestCycle(t *testing.T) {
	v, _, err := Decode([]byte("\x80\x02]q\x00h\x00a."))
	l, ok := v.(*List)
	if err != nil || !ok || len(l.Items) != 1 || l.Items[0] != Value(l) {
		t.Errorf("got %v, %v", v, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range cpython(f) {
		f.Add(b)
	}
	f.Add([]byte("\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x01tQK\x00K\x01\x85K\x01\x85\x89NtR."))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n, err := Decode(b)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %v", err)
		}
		if err == nil && (n < 3 || n > len(b)) {
			t.Fatalf("%v took %d of %d bytes", v, n, len(b))
		}
		if a, ok := v.(*Array); ok && len(a.Data) != a.Shape.Numel()*a.DType.Size() {
			t.Fatalf("%d bytes for %v %v", len(a.Data), a.DType, a.Shape)
		}
	})
}
