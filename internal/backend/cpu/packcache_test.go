// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// cachedWeights is the number of weights of cachedGraph.
const cachedWeights = 3

// cachedGraph has weights of each kind that is packed: of a linear layer, of a
// convolution in Winograd's form, of a direct one. version is that of the file
// they are said to come from, scale a factor of the numbers in it.
func cachedGraph(t *testing.T, version string, scale float32) *graph.Graph {
	t.Helper()
	g := graph.New("cached")
	at := 0
	weight := func(shape ...int) *graph.Node {
		s := tensor.Shape(shape)
		data := make([]byte, 0, 4*s.Numel())
		for i := range s.Numel() {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(scale*float32(math.Sin(float64(i+at)))))
		}
		p := graph.Param{Name: fmt.Sprint("w", at), Shape: s, DType: tensor.F32, Data: data,
			Source: graph.Source{File: "/models/m/unified.safetensors", Version: version, Offset: at}}
		at += len(data)
		return g.Param(p)
	}
	x := g.Input("x", tensor.F32, 1, 20, 20, 16)
	y := g.Conv2D(x, weight(16, 16, 3, 3), nil, 1, 1)
	y = g.Conv2D(y, weight(16, 16, 2, 2), nil, 2, 0)
	g.Output("y", g.Linear(y, weight(33, 16), nil))
	built, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// runCached compiles and runs the graph on a new backend and returns the bytes of
// the result; the backend's cache is for counting.
func runCached(t *testing.T, dir string, g *graph.Graph, p backend.Precision) ([]byte, *packCache) {
	t.Helper()
	b, err := New(Config{Threads: 2, PackCache: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	prog, err := b.Compile(context.Background(), g, backend.Options{Precision: p})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	in, out := mustAlloc(t, b, g.Inputs[0].Bytes()), mustAlloc(t, b, g.Outputs[0].Node.Bytes())
	x := floats(in.Bytes())
	for i := range x {
		x[i] = float32(math.Cos(float64(i) / 3))
	}
	w, err := b.Begin(backend.First)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background(), prog, []backend.Buffer{in}, []backend.Buffer{out}); err != nil {
		t.Fatal(err)
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := done.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out.Bytes()), b.weights.disk
}

// counts compares what a cache did with what it should have done.
func counts(t *testing.T, c *packCache, found, written, refused int64) {
	t.Helper()
	if f, w, r := c.found.Load(), c.written.Load(), c.refused.Load(); f != found || w != written || r != refused {
		t.Errorf("%d found, %d written, %d refused; want %d, %d, %d", f, w, r, found, written, refused)
	}
}

func packFiles(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*", packTemp))
	if len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
	return list
}

func TestPackCacheSameBits(t *testing.T) {
	defer AlwaysWinograd()()
	dir := t.TempDir()
	for i, p := range []backend.Precision{backend.FP32, backend.FP16} {
		g := cachedGraph(t, "1", 1)
		want, _ := runCached(t, "", g, p)
		cold, c := runCached(t, dir, g, p)
		counts(t, c, 0, cachedWeights, 0)
		warm, c := runCached(t, dir, g, p)
		counts(t, c, cachedWeights, 0, 0)
		if !bytes.Equal(cold, want) || !bytes.Equal(warm, want) {
			t.Errorf("%v: results differ: cold %v, warm %v", p, bytes.Equal(cold, want), bytes.Equal(warm, want))
		}
		if n := len(packFiles(t, dir)); n != (i+1)*cachedWeights {
			t.Errorf("%v: %d files, want %d", p, n, (i+1)*cachedWeights)
		}
	}
}

// Another version of the model file replaces the files of the one before.
func TestPackCacheStale(t *testing.T) {
	dir := t.TempDir()
	runCached(t, dir, cachedGraph(t, "1", 1), backend.FP32)
	for _, c := range []struct {
		version string
		scale   float32
	}{{"2", 1}, {"2", 3}} { // the second: the same size and time, other numbers
		g := cachedGraph(t, c.version, c.scale)
		want, _ := runCached(t, "", g, backend.FP32)
		got, cache := runCached(t, dir, g, backend.FP32)
		// Each file is looked at before and after the lock is taken.
		counts(t, cache, 0, cachedWeights, 2*cachedWeights)
		if !bytes.Equal(got, want) {
			t.Errorf("version %s, scale %g: stale weights were used", c.version, c.scale)
		}
	}
	if n := len(packFiles(t, dir)); n != cachedWeights {
		t.Errorf("%d files, want %d", n, cachedWeights)
	}
}

func TestPackCacheDamage(t *testing.T) {
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	want, _ := runCached(t, dir, g, backend.FP32)
	edit := func(f func(b []byte) []byte) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, f(b), 0o600)
		}
	}
	flip := func(at int) func(string) error {
		return edit(func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 0x10; return b })
	}
	for name, damage := range map[string]func(path string) error{
		"magic": flip(0), "digest": flip(headDigest + 3), "size": flip(headSize), "checksum": flip(headSum),
		"header checksum": flip(headCheck + 1), "rest of the header": flip(packHeader - 1),
		"first byte": flip(packHeader), "last byte": flip(-1),
		"empty":     edit(func([]byte) []byte { return nil }),
		"cut":       edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"long":      edit(func(b []byte) []byte { return append(b, 0) }),
		"no header": edit(func(b []byte) []byte { return make([]byte, len(b)) }),
		"writable":  func(path string) error { return os.Chmod(path, 0o666) },
		"link": func(path string) error {
			if err := os.Rename(path, path+".real"); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		},
	} {
		for _, path := range packFiles(t, dir) {
			if err := damage(path); err != nil {
				t.Fatal(name, err)
			}
		}
		got, c := runCached(t, dir, g, backend.FP32)
		if !bytes.Equal(got, want) || c.written.Load() != cachedWeights || c.found.Load() != 0 {
			t.Errorf("%s: right %v, %d written, %d found; want true, %d and 0", name, bytes.Equal(got, want), c.written.Load(), c.found.Load(), cachedWeights)
		}
		_, c = runCached(t, dir, g, backend.FP32)
		counts(t, c, cachedWeights, 0, 0)
	}
}

// A place where nothing can be written costs the cache and nothing else.
func TestPackCacheUnwritable(t *testing.T) {
	g := cachedGraph(t, "1", 1)
	want, _ := runCached(t, "", g, backend.FP32)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, c := runCached(t, file, g, backend.FP32)
	counts(t, c, 0, 0, 0)
	if !bytes.Equal(got, want) || !c.full {
		t.Errorf("right %v, given up %v; want both", bytes.Equal(got, want), c.full)
	}
}

func TestPackCacheReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root writes to directories without permission")
	}
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	want, _ := runCached(t, dir, g, backend.FP32)
	sub := filepath.Dir(packFiles(t, dir)[0])
	if err := os.Remove(packFiles(t, dir)[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(sub, 0o700)
	got, c := runCached(t, dir, g, backend.FP32)
	counts(t, c, cachedWeights-1, 0, 0)
	if !bytes.Equal(got, want) {
		t.Error("wrong result")
	}
}

// A process that holds the lock and does not move delays others for a while only.
func TestPackCacheStuckWriter(t *testing.T) {
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	want, _ := runCached(t, dir, g, backend.FP32)
	list := packFiles(t, dir)
	if err := os.Remove(list[0]); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockPacks(filepath.Dir(list[0]), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func(d time.Duration) { packPatience = d }(packPatience)
	packPatience = 5 * time.Millisecond
	got, c := runCached(t, dir, g, backend.FP32)
	counts(t, c, cachedWeights-1, 0, 0)
	if !bytes.Equal(got, want) {
		t.Error("wrong result")
	}
	unlock()
	_, c = runCached(t, dir, g, backend.FP32)
	counts(t, c, cachedWeights-1, 1, 0)
}

// Leftovers of killed writers go with the next writer.
func TestPackCacheSweeps(t *testing.T) {
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	runCached(t, dir, g, backend.FP32)
	path := packFiles(t, dir)[0]
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), ".123.tmp")); err != nil {
		t.Fatal(err)
	}
	_, c := runCached(t, dir, g, backend.FP32)
	counts(t, c, cachedWeights-1, 1, 0)
	packFiles(t, dir) // reports temporary files
}

// Backends that start at once pack each weight once between them.
func TestPackCacheWritersTogether(t *testing.T) {
	dir, g := t.TempDir(), cachedGraph(t, "1", 1)
	want, _ := runCached(t, "", g, backend.FP32)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var found, written int64
	for range 6 {
		wg.Go(func() {
			got, c := runCached(t, dir, g, backend.FP32)
			mu.Lock()
			defer mu.Unlock()
			found, written = found+c.found.Load(), written+c.written.Load()
			if !bytes.Equal(got, want) {
				t.Error("wrong result")
			}
		})
	}
	wg.Wait()
	if written != cachedWeights || found != 5*cachedWeights {
		t.Errorf("%d written and %d found, want %d and %d", written, found, cachedWeights, 5*cachedWeights)
	}
}

// packChild names the directory for a test binary that plays another process.
const packChild = "PACK_CACHE_CHILD"

func TestPackCacheProcesses(t *testing.T) {
	if dir := os.Getenv(packChild); dir != "" {
		got, c := runCached(t, dir, cachedGraph(t, "1", 1), backend.FP32)
		fmt.Printf("child %x %d %d\n", sha256.Sum256(got), c.found.Load(), c.written.Load())
		return
	}
	dir := t.TempDir()
	want, _ := runCached(t, "", cachedGraph(t, "1", 1), backend.FP32)
	sum := sha256.Sum256(want)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 3 {
		wg.Go(func() {
			cmd := osexec.Command(os.Args[0], "-test.run=^TestPackCacheProcesses$", "-test.count=1")
			cmd.Env = append(os.Environ(), packChild+"="+dir)
			out, err := cmd.CombinedOutput()
			var got string
			var found, written int
			_, after, _ := strings.Cut(string(out), "child ")
			_, scanErr := fmt.Sscan(after, &got, &found, &written)
			if err != nil || scanErr != nil || got != hex.EncodeToString(sum[:]) || found+written != cachedWeights {
				t.Errorf("%v, %v, want %x and %d weights:\n%s", err, scanErr, sum, cachedWeights, out)
			}
			mu.Lock()
			total += written
			mu.Unlock()
		})
	}
	wg.Wait()
	if total != cachedWeights {
		t.Errorf("three processes packed %d weights between them, want %d", total, cachedWeights)
	}
}

// No file that somebody made up is taken for a weight, and none crashes.
func FuzzPackContents(f *testing.F) {
	body := bytes.Repeat([]byte("weights!"), 12)
	n := packName{size: len(body), digest: sha256.Sum256([]byte("origin"))}
	good := append(n.header(packSum(nil, body)), body...)
	f.Add(good)
	f.Add(good[:packHeader])
	f.Add([]byte(packMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, image []byte) {
		got, err := n.contents(nil, image)
		switch {
		case err == nil && !bytes.Equal(image, append(n.header(packSum(nil, got)), got...)):
			t.Errorf("took %d bytes under a header that is not theirs", len(got))
		case err != nil && bytes.Equal(image, good):
			t.Errorf("refused what is right: %v", err)
		}
	})
}
