// SPDX-License-Identifier: Apache-2.0

package darwin

import (
	"debug/macho"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Load commands that debug/macho leaves raw (mach-o/loader.h).
const (
	cmdBuildVersion  = 0x32
	cmdCodeSignature = 0x1d
	cmdExportsTrie   = 0x80000033
	cmdDyldInfoOnly  = 0x80000022
	cmdIDDylib       = 0xd
	platformMacOS    = 1
)

// library is the dylib of `make darwin`.
func library(t *testing.T) (*macho.File, []byte) {
	t.Helper()
	path := os.Getenv("MAST3R_DYLIB")
	if path == "" {
		path = filepath.Join("..", "..", "..", "build", "darwin", "libmast3r_runtime.dylib")
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no cross-built library, run make darwin (needs clang and lld): %v", err)
	}
	f, err := macho.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, image
}

// command is the raw load command of a kind, nil when there is none.
func command(f *macho.File, kind uint32) []byte {
	for _, l := range f.Loads {
		if raw := l.Raw(); len(raw) >= 8 && f.ByteOrder.Uint32(raw) == kind {
			return raw
		}
	}
	return nil
}

func TestHeader(t *testing.T) {
	f, _ := library(t)
	if f.Type != macho.TypeDylib || f.Cpu != macho.CpuArm64 {
		t.Errorf("type %v, processor %v, want a dylib for arm64", f.Type, f.Cpu)
	}
	v := command(f, cmdBuildVersion)
	if v == nil {
		t.Fatal("no LC_BUILD_VERSION")
	}
	platform, minos := f.ByteOrder.Uint32(v[8:]), f.ByteOrder.Uint32(v[12:])
	target, err := os.ReadFile(filepath.Join("..", "..", "..", "packaging", "darwin", "deployment_target"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%d.%d", minos>>16, minos>>8&0xff)
	if want := strings.TrimSpace(string(target)); platform != platformMacOS || got != want {
		t.Errorf("platform %d, minimum system %s, want macOS (1) %s", platform, got, want)
	}
	if id := command(f, cmdIDDylib); id == nil || !strings.Contains(string(id), "@rpath/libmast3r_runtime.dylib") {
		t.Errorf("install name %q, want @rpath/libmast3r_runtime.dylib", id)
	}
}

// TestSigned: Apple silicon runs nothing unsigned; the linker signs ad hoc.
func TestSigned(t *testing.T) {
	f, image := library(t)
	c := command(f, cmdCodeSignature)
	if c == nil {
		t.Fatal("no LC_CODE_SIGNATURE")
	}
	at, size := f.ByteOrder.Uint32(c[8:]), f.ByteOrder.Uint32(c[12:])
	if int(at)+int(size) > len(image) {
		t.Fatalf("signature at %d+%d of %d bytes", at, size, len(image))
	}
	// A super blob, big-endian: magic, length, count, then (slot, offset) pairs.
	blob := image[at : at+size]
	if magic := binary.BigEndian.Uint32(blob); magic != 0xfade0cc0 {
		t.Fatalf("signature magic %#x", magic)
	}
	dir := blob[binary.BigEndian.Uint32(blob[16:]):]
	const adhoc = 2
	if magic, flags := binary.BigEndian.Uint32(dir), binary.BigEndian.Uint32(dir[12:]); magic != 0xfade0c02 || flags&adhoc == 0 {
		t.Errorf("code directory %#x with flags %#x, want ad hoc", magic, flags)
	}
}

// TestNeeds: Metal and the rest are loaded at run time, so that the library
// itself only needs what every system has.
func TestNeeds(t *testing.T) {
	f, _ := library(t)
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libs {
		switch l {
		case "/usr/lib/libSystem.B.dylib", "/usr/lib/libresolv.9.dylib",
			"/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation":
		default:
			t.Errorf("the library needs %s", l)
		}
	}
	if len(libs) == 0 {
		t.Error("the library needs nothing: the load commands were not read")
	}
}

// TestExports compares the exports with the functions that the header declares.
func TestExports(t *testing.T) {
	f, image := library(t)
	trie := exportsTrie(t, f, image)
	var got []string
	walk(t, trie, 0, "", 0, &got)
	header, err := os.ReadFile(filepath.Join("..", "..", "..", "capi", "mast3r.h"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	comments := regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	declared := regexp.MustCompile(`\b(mast3r_[a-z0-9_]+)\s*\(`)
	for _, m := range declared.FindAllSubmatch(comments.ReplaceAll(header, nil), -1) {
		want = append(want, "_"+string(m[1]))
	}
	slices.Sort(got)
	slices.Sort(want)
	want = slices.Compact(want)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is declared and not exported", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s is exported and not declared", name)
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d declarations were found", len(want))
	}
}

func exportsTrie(t *testing.T, f *macho.File, image []byte) []byte {
	t.Helper()
	if c := command(f, cmdExportsTrie); c != nil {
		at, size := f.ByteOrder.Uint32(c[8:]), f.ByteOrder.Uint32(c[12:])
		return image[at : at+size]
	}
	c := command(f, cmdDyldInfoOnly)
	if c == nil {
		t.Fatal("neither LC_DYLD_EXPORTS_TRIE nor LC_DYLD_INFO_ONLY")
	}
	at, size := f.ByteOrder.Uint32(c[40:]), f.ByteOrder.Uint32(c[44:])
	return image[at : at+size]
}

// walk reads a node of the exports trie: the size of its terminal data, that
// data, then children as (edge text, offset of the child).
func walk(t *testing.T, trie []byte, at uint64, prefix string, depth int, out *[]string) {
	t.Helper()
	if depth > 200 || at >= uint64(len(trie)) {
		t.Fatalf("the exports trie is damaged at %d", at)
	}
	p := trie[at:]
	terminal, n := binary.Uvarint(p)
	p = p[n:]
	if terminal > 0 {
		*out = append(*out, prefix)
	}
	p = p[terminal:]
	children := p[0]
	p = p[1:]
	for range children {
		end := slices.Index(p, 0)
		edge := string(p[:end])
		p = p[end+1:]
		child, n := binary.Uvarint(p)
		p = p[n:]
		walk(t, trie, child, prefix+edge, depth+1, out)
	}
}
