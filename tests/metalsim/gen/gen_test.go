// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// shared finds the folder of specifications beside the repository.
func shared() string {
	if s := os.Getenv("MAST3R_SHARED"); s != "" {
		return s
	}
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if s := filepath.Join(dir, "shared"); exists(filepath.Join(s, "apple", "selectors.json")) {
			return s
		}
	}
	return ""
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// TestDataIsApples regenerates the trimmed data from the full file.
func TestDataIsApples(t *testing.T) {
	s := shared()
	if s == "" {
		t.Skip("no shared/apple/selectors.json beside the repository")
	}
	raw, err := os.ReadFile(filepath.Join(s, "apple", "selectors.json"))
	if err != nil {
		t.Skip(err)
	}
	want, err := Trim(raw)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "../data/selectors.json", want)
}

// TestTableIsData regenerates the C table from the trimmed data.
func TestTableIsData(t *testing.T) {
	raw, err := os.ReadFile("../data/selectors.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Table(raw)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "../src/table_gen.c", want)
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the generator makes now: run go run ./tests/metalsim/gen", path)
	}
}

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		ret  string
		args []string
		want string
	}{
		{"@", []string{"@", "q", "B", "@"}, "@44@0:8@16q24B32@36"},
		{"v", []string{"{?=QQQ}", "{?=QQQ}"}, "v64@0:8{?=QQQ}16{?=QQQ}40"},
		{"@", []string{"@", "@", "@", "f", "@"}, "@52@0:8@16@24@32f40@44"},
	} {
		if got := encode(c.ret, c.args); got != c.want {
			t.Errorf("encode(%s, %v) = %s, want %s", c.ret, c.args, got, c.want)
		}
	}
}

func TestExpect(t *testing.T) {
	for in, want := range map[string]string{
		"MPSGraphTensor *": "MPSGraphTensor", "id<MTLBuffer>": "<MTLBuffer>", "Option<&NSString>": "NSString",
		"&ProtocolObject<dyn MTLBuffer>": "<MTLBuffer>", "NSArray<NSNumber *> *": "NSArray/NSNumber",
		"MPSShape *": "NSArray/NSNumber", "Option<&MPSShape>": "NSArray/NSNumber", "dispatch_data_t": "",
		"MPSGraphTensorDataDictionary *": "NSDictionary/MPSGraphTensor/MPSGraphTensorData",
		"NSArray<NSURL *> *":             "NSArray/NSURL", "NSDictionary<NSString *,NSObject *> *": "NSDictionary",
	} {
		if got := expect(in); got != want {
			t.Errorf("expect(%q) = %q, want %q", in, got, want)
		}
	}
}
