// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Whatever decides about the packed bytes is in the name of the file or in the
// header, and what only a new version of the model changes is in the header alone.
func TestPackName(t *testing.T) {
	type in struct {
		key   weightKey
		batch int
		p     graph.Param
		isa   gemm.ISA
	}
	was := gemm.Active()
	defer func() { _ = gemm.Force(was) }()
	name := func(change func(*in)) packName {
		x := in{
			key:   weightKey{size: 96, src: tensor.F32, n: 3, k: 8, as: tensor.F16, arrange: [5]int{0, 8, 1, 1, 0}},
			batch: 1, isa: was,
			p: graph.Param{Data: make([]byte, 96), Source: graph.Source{File: "/m/a/unified.safetensors", Version: "1", Offset: 64}},
		}
		change(&x)
		if err := gemm.Force(x.isa); err != nil {
			t.Fatal(err)
		}
		return packNameOf(x.key, x.batch, 512, x.p)
	}
	base := name(func(*in) {})
	if again := name(func(*in) {}); again != base {
		t.Fatalf("the same weight has two names, %v and %v", base, again)
	}
	if !strings.HasPrefix(base.dir, "a-") || filepath.Base(base.file) != base.file || base.size != 512 {
		t.Errorf("name %q in %q of %d bytes", base.file, base.dir, base.size)
	}
	for what, change := range map[string]func(*in){
		"file":            func(x *in) { x.p.Source.File = "/n/a/unified.safetensors" },
		"offset":          func(x *in) { x.p.Source.Offset++ },
		"size":            func(x *in) { x.key.size++ },
		"source type":     func(x *in) { x.key.src = tensor.BF16 },
		"rows":            func(x *in) { x.key.n++ },
		"columns":         func(x *in) { x.key.k++ },
		"type":            func(x *in) { x.key.as = tensor.F32 },
		"arrangement":     func(x *in) { x.key.arrange[2] = 9 },
		"batch":           func(x *in) { x.batch = 16 },
		"instruction set": func(x *in) { x.isa = gemm.Portable },
	} {
		if what == "instruction set" && was == gemm.Portable {
			continue
		}
		if n := name(change); n.dir == base.dir && n.file == base.file || n.digest == base.digest && what != "file" {
			t.Errorf("another %s has the same name", what)
		}
	}
	for what, change := range map[string]func(*in){
		"version": func(x *in) { x.p.Source.Version = "2" },
		"number":  func(x *in) { x.p.Data[95] = 1 },
	} {
		if n := name(change); n.dir != base.dir || n.file != base.file || n.digest == base.digest {
			t.Errorf("another %s: name kept %v, digest %v; want the old name and a new digest", what, n.file == base.file, n.digest != base.digest)
		}
	}
}

// Who has waited for another's packing uses it.
func TestPackCacheWaitsForTheOther(t *testing.T) {
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	want, _ := runCached(t, dir, g, backend.FP32)
	path := packFiles(t, dir)[0]
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockPacks(filepath.Dir(path), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, c := runCached(t, dir, g, backend.FP32)
		counts(t, c, cachedWeights, 0, 0)
		if !bytes.Equal(got, want) {
			t.Error("wrong result")
		}
	}()
	time.Sleep(100 * time.Millisecond) // for long enough to look for the file and miss it
	if err := os.Rename(aside, path); err != nil {
		t.Error(err)
	}
	unlock()
	<-done
}
