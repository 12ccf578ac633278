// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/pickle"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Files that lie under a model's name and are none are named by their first bytes.
func TestForeignFiles(t *testing.T) {
	tar := make([]byte, 600)
	copy(tar[257:], "ustar")
	for text, want := range map[string]string{
		"GGUF\x03\x00\x00\x00 and more":            "GGUF",
		"  <!DOCTYPE html><html>error</html>":      "HTML",
		"<HTML><head></head></HTML>":               "HTML",
		"<?xml version='1.0'?><Error>":             "XML",
		`{"metadata": {}, "weight_map": {}}`:       "index.json",
		"\x1f\x8b\x08\x00 compressed bytes":        "gzip",
		"BZh91AY&SY and so on":                     "bzip2",
		"\x89HDF\r\n\x1a\n and so on":              "HDF5",
		"\x93NUMPY\x01\x00v\x00{'descr': '<f4'":    "NumPy",
		"\x08\x0a\x12\x07pytorch and so on":        "ONNX",
		"\x7fELF\x02\x01\x01 and so on":            "program",
		"version https://git-lfs.github.com/spec/": "git lfs pull",
		string(tar): "tar",
	} {
		_, err := OpenBytes([]byte(text))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "header length") {
			t.Errorf("%.20q: %v, want one that says %q", text, err, want)
		}
	}
}

func micro(names ...string) []Tensor {
	list := make([]Tensor, len(names))
	for i, n := range names {
		list[i] = FromFloat32s(n, tensor.Shape{1}, []float32{float32(i)})
	}
	return list
}

func TestSharded(t *testing.T) {
	dir := t.TempDir()
	for i, names := range [][]string{{"a", "b"}, {"c"}} {
		if err := Write(filepath.Join(dir, []string{"model-1.safetensors", "model-2.safetensors"}[i]), micro(names...), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(dir, "model.safetensors.index.json")
	write := func(m map[string]string) {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": m})
		if err == nil {
			err = os.WriteFile(index, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(map[string]string{"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"})
	for _, path := range []string{dir, index} {
		s, err := OpenSet(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("%s: %v", path, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "below", "model-1.safetensors"), micro("a"), nil, 0); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]map[string]string{
		"missing shard": {"a": "model-3.safetensors"},
		"one missing":   {"a": "model-1.safetensors", "c": "model-3.safetensors"},
		"below":         {"a": "below/model-1.safetensors"},
		"outside":       {"a": "../model-1.safetensors"},
		"absolute":      {"a": "/etc/passwd"},
		"hidden":        {"a": ".model-1.safetensors"},
		"empty":         {},
	} {
		write(m)
		if s, err := OpenSet(index); err == nil {
			t.Errorf("%s: opened %v", name, s.Names())
		}
	}
}

// The one model-like file of a folder is its model; of several, they are named.
func TestOddNames(t *testing.T) {
	for _, name := range []string{"my.safetensors", "checkpoint-best.pth", "pytorch_model.bin"} {
		dir := t.TempDir()
		if err := Write(filepath.Join(dir, name), micro("a"), nil, 0); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSet(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := Write(filepath.Join(dir, "other.safetensors"), micro("a"), nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSet(dir); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "other.safetensors") {
			t.Errorf("two files: %v, want both named", err)
		}
	}
}

// What training frameworks put before every name is taken off; what is the model's
// own stays.
func TestWrapperPrefixes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"enc_blocks.0.attn.qkv.weight", "enc_blocks.0.attn.qkv.weight"},
		{"model.enc_blocks.0.attn.qkv.weight", "enc_blocks.0.attn.qkv.weight"},
		{"net._orig_mod.enc_blocks.0.attn.qkv.weight", "enc_blocks.0.attn.qkv.weight"},
		{"module.model.enc_blocks.0.attn.qkv.weight", "enc_blocks.0.attn.qkv.weight"},
		{"ema.student.enc_blocks.0.attn.qkv.weight", "enc_blocks.0.attn.qkv.weight"},
		{"model.encoder.blocks.0.0.attn.qkv.weight", "encoder.blocks.0.0.attn.qkv.weight"},
		{"encoder.blocks.0.0.attn.qkv.weight", "encoder.blocks.0.0.attn.qkv.weight"},
		{"model.mast3r.dec_blocks.0.attn.qkv.weight", "mast3r.dec_blocks.0.attn.qkv.weight"},
		{"decoder.mast3r.dec_blocks.0.attn.qkv.weight", "mast3r.dec_blocks.0.attn.qkv.weight"},
		{"x.prewhiten.m", "prewhiten.m"},
	} {
		names := []string{c.in, "loss.weight"}
		if got := newNamer(names).canonical(c.in); got != c.want {
			t.Errorf("%s became %s, want %s", c.in, got, c.want)
		}
	}
	two := []string{"a.enc_blocks.0.attn.qkv.weight", "b.enc_blocks.0.attn.qkv.weight"}
	if p := wrapperPrefix(two); p != "" {
		t.Errorf("of two models in one file, %q was taken", p)
	}
}

// Beside the weights a file may hold objects of any class; nothing of them is run,
// and what would be dangerous to run is refused all the same.
func TestObjectsBesideTheWeights(t *testing.T) {
	const dict, end = "\x80\x04}(\x8c\x01a", "u."
	for name, value := range map[string]string{
		"datetime":      "\x8c\x08datetime\x8c\x08datetime\x93C\x0a\x07\xe8\x01\x01\x00\x00\x00\x00\x00\x00\x85R",
		"set":           "\x8f(K\x01K\x02\x90",
		"frozenset":     "(K\x01\x91",
		"defaultdict":   "\x8c\x0bcollections\x8c\x0bdefaultdict\x93\x8c\x08builtins\x8c\x03int\x93\x85R(\x8c\x01kK\x01u",
		"framework":     "\x8c\x11lightning.pytorch\x8c\x08Callback\x93)\x81}b",
		"settings":      "\x8c\x09omegaconf\x8c\x0aDictConfig\x93)\x81}(\x8c\x01kK\x01ub",
		"named":         "\x8c\x07mypkg.a\x8c\x01T\x93)}\x92",
		"a class's key": "}\x8c\x05mypkg\x8c\x01T\x93K\x01s",
		"list subclass": "\x8c\x05mypkg\x8c\x01L\x93)\x81(K\x01K\x02e",
	} {
		v, _, err := pickle.Decode([]byte(dict + value + end))
		if d, ok := v.(*pickle.Dict); err != nil || !ok || d.Len() != 1 {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
	for name, value := range map[string]string{
		"os.system":           "\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R",
		"posix.system":        "\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R",
		"subprocess.Popen":    "\x8c\x0asubprocess\x8c\x05Popen\x93)R",
		"builtins.eval":       "\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R",
		"builtins.getattr":    "\x8c\x08builtins\x8c\x07getattr\x93)R",
		"importlib.util.x":    "\x8c\x0eimportlib.util\x8c\x01x\x93)R",
		"torch.hub.load":      "\x8c\x09torch.hub\x8c\x04load\x93)R",
		"operator.attrgetter": "\x8c\x08operator\x8c\x0aattrgetter\x93)R",
	} {
		if _, _, err := pickle.Decode([]byte(dict + value + end)); !errors.Is(err, pickle.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func FuzzShards(f *testing.F) {
	f.Add([]byte(`{"weight_map": {"a": "b.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "../b"}}`))
	f.Add([]byte(`{"weight_map": {"a": "/"}}`)) // found by fuzzing: it is its own base name
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "m.safetensors.index.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := shards(path)
		for _, p := range list {
			if filepath.Dir(p) != dir {
				t.Errorf("%q leads to %s", bytes.TrimSpace(text), p)
			}
		}
		if err == nil && len(list) == 0 {
			t.Error("no files and no error")
		}
	})
}
