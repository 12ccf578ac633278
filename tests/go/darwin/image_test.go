// SPDX-License-Identifier: Apache-2.0

package darwin

import (
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// More load commands (mach-o/loader.h).
const (
	cmdUUID          = 0x1b
	cmdChainedFixups = 0x80000034
)

// reporter is a test, or a list of what a check finds.
type reporter interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// allowedFile has the names that the library may import from libSystem: what Go's
// runtime and its standard library use on every Mac, and plain libc. A new import
// is looked at before it is added there.
const allowedFile = "testdata/imports.txt"

// TestPageHashes recomputes the signature's hash of every page: macOS kills a
// process at the first page that differs.
func TestPageHashes(t *testing.T) {
	f, image := library(t)
	pageHashes(t, f, image)
}

func pageHashes(t reporter, f *macho.File, image []byte) {
	c := command(f, cmdCodeSignature)
	at, size := f.ByteOrder.Uint32(c[8:]), f.ByteOrder.Uint32(c[12:])
	if int(at+size) != len(image) || at%16 != 0 {
		t.Errorf("the signature is at %d, %d bytes, of %d", at, size, len(image))
	}
	blob, big := image[at:at+size], binary.BigEndian
	dir := blob[big.Uint32(blob[16:]):]
	hashes, slots, limit := dir[big.Uint32(dir[16:]):], big.Uint32(dir[28:]), big.Uint32(dir[32:])
	kind, page := dir[37], 1<<dir[39]
	if kind != 2 || dir[36] != sha256.Size || limit != at || int(slots) != (int(at)+page-1)/page {
		t.Fatalf("hash type %d of %d bytes, %d pages of %d, up to %d, want SHA-256 up to %d", kind, dir[36], slots, page, limit, at)
	}
	bad := 0
	for i := range int(slots) {
		got := sha256.Sum256(image[i*page : min((i+1)*page, int(at))])
		if string(got[:]) != string(hashes[i*sha256.Size:][:sha256.Size]) {
			bad++
		}
	}
	if bad != 0 {
		t.Errorf("%d of %d pages differ from the signature", bad, slots)
	}
}

// TestSegments: dyld refuses segments that overlap, are not whole pages of 16 KiB,
// or may be written and run.
func TestSegments(t *testing.T) {
	f, image := library(t)
	segments(t, f, image)
}

func segments(t reporter, f *macho.File, _ []byte) {
	var end uint64
	count := 0
	for _, l := range f.Loads {
		s, ok := l.(*macho.Segment)
		if !ok {
			continue
		}
		count++
		const page, write, exec = 1 << 14, 2, 4
		if s.Addr%page != 0 || s.Offset%page != 0 || s.Addr < end || s.Prot&(write|exec) == write|exec || s.Maxprot&(write|exec) == write|exec {
			t.Errorf("segment %s at %#x, %#x in the file, permissions %d of %d, after %#x", s.Name, s.Addr, s.Offset, s.Prot, s.Maxprot, end)
		}
		end = s.Addr + s.Memsz
		const readOnly = 0x10 // once its pointers are set
		if s.Name == "__TEXT" && s.Prot != 5 || s.Name == "__DATA_CONST" && s.Flag&readOnly == 0 {
			t.Errorf("%s has permissions %d, flags %#x", s.Name, s.Prot, s.Flag)
		}
	}
	if count < 4 {
		t.Errorf("%d segments", count)
	}
	if u := command(f, cmdUUID); u == nil || strings.Trim(string(u[8:24]), "\x00") == "" {
		t.Errorf("LC_UUID is %x", u)
	}
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, "__thread") {
			t.Errorf("section %s: thread-local variables", s.Name)
		}
		// What dyld calls when it has loaded the library is code of the library.
		const initOffsets = 0x16
		if s.Flags&0xff != initOffsets {
			continue
		}
		data, err := s.Data()
		if err != nil {
			t.Fatalf("section %s: %v", s.Name, err)
		}
		for text := f.Segment("__TEXT"); len(data) >= 4; data = data[4:] {
			if at := uint64(f.ByteOrder.Uint32(data)); at == 0 || at >= text.Memsz {
				t.Errorf("an initialiser at %#x, __TEXT has %#x bytes", at, text.Memsz)
			}
		}
	}
}

// TestImports: every symbol comes from libSystem, none is weak, and all are known.
func TestImports(t *testing.T) {
	f, image := library(t)
	imports(t, f, image)
}

func imports(t reporter, f *macho.File, _ []byte) {
	raw, err := os.ReadFile(allowedFile)
	if err != nil {
		t.Fatalf("%v", err)
	}
	known := map[string]bool{}
	for _, name := range strings.Fields(string(raw)) {
		known[name] = true
	}
	names, err := f.ImportedSymbols()
	if err != nil || len(names) < 50 {
		t.Fatalf("%d imports, %v", len(names), err)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("imports %s, which %s does not have", name, allowedFile)
		}
	}
}

// TestFixups follows what dyld does to pointers when it loads the library: each is
// in a segment that may be written, whole, and points into the library; each
// binding has an import.
func TestFixups(t *testing.T) {
	f, image := library(t)
	allFixups(t, f, image)
}

func allFixups(t reporter, f *macho.File, image []byte) {
	x := newFixups(t, f, image)
	if c := command(f, cmdChainedFixups); c != nil {
		x.chained(c)
	} else if c := command(f, cmdDyldInfoOnly); c != nil {
		x.classic(c) // what linkers write for systems before 13
	} else {
		t.Fatalf("%v", "neither chained fixups nor dyld info")
	}
	if x.rebases < 1000 || x.binds < 50 {
		t.Errorf("%d rebases and %d binds", x.rebases, x.binds)
	}
}

type fixups struct {
	t              reporter
	image          []byte
	segments       []*macho.Segment
	lo, hi         uint64
	libs           []string
	rebases, binds int
	first          int // the first pointer, in the file
}

func newFixups(t reporter, f *macho.File, image []byte) *fixups {
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatalf("%v", err)
	}
	x := &fixups{t: t, image: image, libs: libs, lo: 1 << 63}
	for _, l := range f.Loads {
		if s, ok := l.(*macho.Segment); ok {
			x.segments = append(x.segments, s)
			x.lo, x.hi = min(x.lo, s.Addr), max(x.hi, s.Addr+s.Memsz)
		}
	}
	return x
}

// pointer checks a place in a segment and what it points to.
func (x *fixups) pointer(segment int, at, target uint64) {
	if x.rebases++; x.rebases == 1 {
		x.first = int(x.segments[segment].Offset + at)
	}
	if s := x.segments[segment]; at+8 > s.Filesz || (s.Addr+at)%8 != 0 || s.Maxprot&2 == 0 || target < x.lo || target > x.hi {
		x.t.Errorf("%s+%#x points to %#x", s.Name, at, target)
	}
}

// library checks the ordinal of a binding.
func (x *fixups) library(ordinal int, weak bool) {
	if weak || ordinal < 1 || ordinal > len(x.libs) || x.libs[ordinal-1] != "/usr/lib/libSystem.B.dylib" {
		x.t.Errorf("a binding to library %d, weak %v", ordinal, weak)
	}
}

// chained reads LC_DYLD_CHAINED_FIXUPS.
func (x *fixups) chained(c []byte) {
	le := binary.LittleEndian
	fix := x.image[le.Uint32(c[8:]):][:le.Uint32(c[12:])]
	starts, imports, count := le.Uint32(fix[4:]), le.Uint32(fix[8:]), le.Uint32(fix[16:])
	if format := le.Uint32(fix[20:]); format != 1 {
		x.t.Fatalf("imports of format %d", format)
	}
	for i := range count {
		v := le.Uint32(fix[imports+4*i:])
		x.library(int(v&0xff), v>>8&1 != 0)
	}
	for i := range le.Uint32(fix[starts:]) {
		if at := le.Uint32(fix[starts+4+4*i:]); at != 0 {
			x.chainsOf(int(i), fix[starts+at:], count)
		}
	}
}

func (x *fixups) chainsOf(segment int, seg []byte, imports uint32) {
	le, s := binary.LittleEndian, x.segments[segment]
	page, format, count := uint64(le.Uint16(seg[4:])), le.Uint16(seg[6:]), int(le.Uint16(seg[20:]))
	base := uint64(0) // format 2 holds addresses, format 6 counts from the image's start
	if format == 6 {
		base = x.lo
	}
	if format != 2 && format != 6 || page != 1<<14 || le.Uint64(seg[8:]) != s.Addr-x.lo {
		x.t.Fatalf("segment %s: pointers of format %d, pages of %d at %#x", s.Name, format, page, le.Uint64(seg[8:]))
	}
	for p := range count {
		at := uint64(le.Uint16(seg[22+2*p:]))
		if at == 0xffff {
			continue
		}
		for at += uint64(p) * page; ; {
			v := le.Uint64(x.image[s.Offset+at:])
			if v>>63 == 0 {
				x.pointer(segment, at, base+(v&(1<<36-1))|v>>36&0xff<<56) // nobody uses the high byte
			} else if x.binds++; v&0xffffff >= uint64(imports) {
				x.t.Errorf("%s+%#x binds import %d of %d", s.Name, at, v&0xffffff, imports)
			}
			next := (v >> 51 & 0xfff) * 4
			if next == 0 {
				break
			}
			if at += next; at/page != uint64(p) || at+8 > s.Filesz {
				x.t.Fatalf("%s: a chain leaves page %d", s.Name, p)
			}
		}
	}
}

// classic reads LC_DYLD_INFO_ONLY: three small programs of opcodes (mach-o/loader.h).
func (x *fixups) classic(c []byte) {
	le := binary.LittleEndian
	x.rebase(x.image[le.Uint32(c[8:]):][:le.Uint32(c[12:])])
	x.bind(x.image[le.Uint32(c[16:]):][:le.Uint32(c[20:])], false)
	x.bind(x.image[le.Uint32(c[32:]):][:le.Uint32(c[36:])], true)
}

// reader takes numbers off a stream.
type reader []byte

func (r *reader) uleb() uint64 {
	v, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) byte() byte {
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}

func (x *fixups) rebase(r reader) {
	segment, at := 0, uint64(0)
	do := func(times, skip uint64) {
		for range times {
			s := x.segments[segment]
			if at+8 > s.Filesz {
				x.t.Fatalf("%s+%#x is outside the file", s.Name, at)
			}
			x.pointer(segment, at, binary.LittleEndian.Uint64(x.image[s.Offset+at:]))
			at += 8 + skip
		}
	}
	for len(r) > 0 {
		op := r.byte()
		switch imm := uint64(op & 0xf); op & 0xf0 {
		case 0x00: // done
			return
		case 0x10:
			if imm != 1 {
				x.t.Fatalf("rebase of type %d, want pointers", imm)
			}
		case 0x20:
			segment, at = int(imm), r.uleb()
		case 0x30:
			at += r.uleb()
		case 0x40:
			at += 8 * imm
		case 0x50:
			do(imm, 0)
		case 0x60:
			do(r.uleb(), 0)
		case 0x70:
			do(1, r.uleb())
		case 0x80:
			times := r.uleb()
			do(times, r.uleb())
		default:
			x.t.Fatalf("rebase opcode %#x", op)
		}
	}
}

// bind follows bindings; of lazy ones each ends by itself.
func (x *fixups) bind(r reader, lazy bool) {
	ordinal, weak := 0, false
	do := func(times uint64) {
		x.binds += int(times)
		x.library(ordinal, weak)
	}
	for len(r) > 0 {
		op := r.byte()
		switch imm := int(op & 0xf); op & 0xf0 {
		case 0x00:
			if !lazy {
				return
			}
		case 0x10:
			ordinal = imm
		case 0x20:
			ordinal = int(r.uleb())
		case 0x40: // symbol and its flags
			weak = imm&1 != 0
			for r.byte() != 0 {
			}
		case 0x50:
		case 0x60, 0x70, 0x80: // addend, segment and offset, advance
			r.uleb()
		case 0x90:
			do(1)
		case 0xa0:
			do(1)
			r.uleb()
		case 0xb0:
			do(1)
		case 0xc0:
			times := r.uleb()
			r.uleb()
			do(times)
		default:
			x.t.Fatalf("bind opcode %#x", op)
		}
	}
}
