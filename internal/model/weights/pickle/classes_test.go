// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Pieces of pickles, written out.
const (
	namespace = "cargparse\nNamespace\n"
	f4        = "cnumpy\ndtype\nU\x02f4\x89\x88\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
	array     = "cnumpy.core.multiarray\n_reconstruct\n"
	ndarray   = "cnumpy\nndarray\n"
	storage0  = "(U\x07storagectorch\nHalfStorage\nU\x010U\x06cuda:0K\x06tQ"
	rebuild   = "ctorch._utils\n_rebuild_tensor_v2\n"
)

func TestClasses(t *testing.T) {
	half := &Storage{DType: tensor.F16, Key: "0", Numel: 6}
	for name, c := range map[string]struct {
		pickle string
		want   Value
	}{
		"storage":            {storage0, half},
		"tensor":             {rebuild + "(" + storage0 + "K\x02K\x02K\x01\x86K\x01K\x07\x86\x89NtR", &Tensor{half, 2, tensor.Shape{2, 1}, []int{1, 7}}},
		"tensor, first form": {"ctorch._utils\n_rebuild_tensor\n(" + storage0 + "K\x00))tR", &Tensor{half, 0, tensor.Shape{}, []int{}}},
		"tensor of a size":   {rebuild + "(" + storage0 + "K\x00ctorch\nSize\nK\x06\x85\x85RK\x01\x85tR", &Tensor{half, 0, tensor.Shape{6}, []int{1}}},
		"parameter": {"ctorch._utils\n_rebuild_parameter\n(" + rebuild + "(" + storage0 + "K\x00))tR\x88ccollections\nOrderedDict\n)RtR",
			&Tensor{half, 0, tensor.Shape{}, []int{}}},
		"device":               {"ctorch\ndevice\nU\x04cuda\x85R", Name("torch.device:cuda")},
		"dict of a list":       {"ccollections\nOrderedDict\n]](U\x01aK\x02ea\x85R", dict("a", int64(2))},
		"dict with attributes": {"ccollections\nOrderedDict\n)RU\x01aK\x02s}U\x09_metadataNsb", dict("a", int64(2))},
		"namespace twice":      {namespace + ")\x81}U\x01aK\x01sb}U\x01aK\x02sb", &Object{"argparse.Namespace", dict("a", int64(2))}},
		"buffer":               {"cnumpy._core.numeric\n_frombuffer\n(\x96\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f" + f4 + "K\x01\x85U\x01FtR", &Array{tensor.F32, tensor.Shape{1}, true, []byte{0, 0, 0x80, 0x3f}}},
		"marks":                {"(K\x01K\x02l(NN1(0", &List{[]Value{int64(1), int64(2)}}},
		"dup":                  {"K\x012\x86", Tuple{int64(1), int64(1)}},
		"dict by mark":         {"(U\x01aK\x01d", dict("a", int64(1))},
		"list by mark":         {"(K\x01l", &List{[]Value{int64(1)}}},
		"long strings":         {"T\x01\x00\x00\x00aB\x01\x00\x00\x00b\x86", Tuple{"a", []byte("b")}},
		"put and get by four":  {"K\x05r\x00\x01\x00\x000j\x00\x01\x00\x00", int64(5)},
		"long of no bytes":     {"\x8a\x00", int64(0)},
		"long of four":         {"\x8b\x02\x00\x00\x00\xff\xff", int64(-1)},
	} {
		got, _, err := Decode([]byte("\x80\x02" + c.pickle + "."))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, %v, want %#v", name, got, err, c.want)
		}
	}
}

// Every constructor, called with what its Python namesake would refuse as well.
func TestMisuse(t *testing.T) {
	state := func(s string) string { return array + "(" + ndarray + "K\x00\x85C\x01btR" + s + "b" }
	for name, c := range map[string]struct{ pickle, text string }{
		"dict of a number":         {"ccollections\nOrderedDict\nK\x01\x85R", "1 arguments"},
		"dict of numbers":          {"ccollections\nOrderedDict\n]K\x01a\x85R", "an item of type int"},
		"dict of triples":          {"ccollections\nOrderedDict\n]NNN\x87a\x85R", "an item of type tuple"},
		"dict of lists as keys":    {"ccollections\nOrderedDict\n]]N\x86a\x85R", "dict key of type list"},
		"namespace state":          {namespace + ")\x81}]Nsb", "list"},
		"size of a number":         {"ctorch\nSize\nK\x01\x85R", "want a tuple"},
		"device of a number":       {"ctorch\ndevice\nK\x01\x85R", "name of a device"},
		"path of a number":         {"cpathlib\nPosixPath\nK\x01\x85R", "part of type int"},
		"encode of a number":       {"c_codecs\nencode\nK\x01U\x06latin1\x86R", "a text and latin1"},
		"encode to another":        {"c_codecs\nencode\nU\x01aU\x05utf-8\x86R", "a text and latin1"},
		"storage key":              {"(U\x07storagectorch\nHalfStorage\nK\x00U\x03cpuK\x06tQ", "key of type int"},
		"storage size":             {"(U\x07storagectorch\nHalfStorage\nU\x010U\x03cpuJ\xff\xff\xff\xfftQ", "int -1"},
		"storage by text":          {"(U\x07storageU\x01xU\x010U\x03cpuK\x06tQ", "class str"},
		"tensor of too little":     {rebuild + storage0 + "\x85R", "1 arguments"},
		"tensor offset":            {rebuild + "(" + storage0 + "U\x01a))tR", "offset: str a"},
		"tensor size":              {rebuild + "(" + storage0 + "K\x00])tR", "size: a list"},
		"tensor stride":            {rebuild + "(" + storage0 + "K\x00)G\x00\x00\x00\x00\x00\x00\x00\x00\x85tR", "stride: float 0"},
		"parameter of a number":    {"ctorch._utils\n_rebuild_parameter\nK\x01\x85R", "want a tensor"},
		"dtype of nothing":         {"cnumpy\ndtype\n)R", "want a kind"},
		"dtype of a number":        {"cnumpy\ndtype\nK\x04\x85R", "kind int"},
		"dtype state":              {"cnumpy\ndtype\nU\x02f4\x85R)b", "a tuple, want (version"},
		"dtype with fields":        {"cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01<NU\x01a\x85Ntb", "fields"},
		"array of nothing":         {array + ")R", "0 arguments"},
		"array of a subclass":      {array + "(" + namespace + "K\x00\x85C\x01btR", "a subclass"},
		"array state":              {state(")"), "a tuple, want (version"},
		"array order":              {state("(K\x01K\x01\x85" + f4 + "K\x00C\x04abcdt"), "order is a int"},
		"array bytes":              {state("(K\x01K\x01\x85" + f4 + "\x89]t"), "contents of type list"},
		"array dtype":              {state("(K\x01K\x01\x85N\x89C\x04abcdt"), "a dtype of type None"},
		"array shape":              {state("(K\x01N" + f4 + "\x89C\x04abcdt"), "shape: a None"},
		"array size":               {state("(K\x01K\x02\x85" + f4 + "\x89C\x04abcdt"), "4 bytes, want 8"},
		"array shape overflows":    {state("(K\x01(\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x402t" + f4 + "\x89C\x00t"), "more than"},
		"buffer of too little":     {"cnumpy.core.numeric\n_frombuffer\n)R", "0 arguments"},
		"buffer order":             {"cnumpy.core.numeric\n_frombuffer\n(C\x00" + f4 + ")U\x01AtR", `order "A"`},
		"scalar of too little":     {"cnumpy.core.multiarray\nscalar\n)R", "0 arguments"},
		"pop of nothing":           {"0", "empty"},
		"dup of nothing":           {"2", "empty"},
		"pop to no mark":           {"1", "mark"},
		"append to nothing":        {"K\x01a", "empty"},
		"state of nothing":         {"}b", "empty"},
		"state without one":        {"b", "empty"},
		"persistent id of nothing": {"Q", "empty"},
		"global of one line":       {"ctorch\nSize", "line"},
		"cut in a float":           {"G\x00", "8 bytes wanted"},
		"cut in an integer":        {"J\x00", "4 bytes wanted"},
		"cut in a length":          {"X\x00", "4 bytes wanted"},
		"cut in a memo key":        {"Nr\x00", "4 bytes wanted"},
		"cut in a frame":           {"\x95\x00", "8 bytes wanted"},
	} {
		cut := strings.HasPrefix(name, "cut") || name == "global of one line"
		p := "\x80\x02" + c.pickle
		if !cut {
			p += "."
		}
		v, _, err := Decode([]byte(p))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, v, err, c.text)
		}
	}
}
