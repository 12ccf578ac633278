// SPDX-License-Identifier: Apache-2.0

package darwin

import (
	"bytes"
	"debug/macho"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// found is what a check reports.
type found []string

type stopped struct{}

func (l *found) Errorf(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

func (l *found) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic(stopped{})
}

// findings runs a check on an image.
func findings(t *testing.T, check func(reporter, *macho.File, []byte), image []byte) (l found) {
	t.Helper()
	f, err := macho.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer func() {
		if v := recover(); v != nil && v != (stopped{}) {
			panic(v)
		}
	}()
	check(&l, f, image)
	return l
}

// TestSeededFaults: each check finds its fault in a library that has it.
func TestSeededFaults(t *testing.T) {
	f, image := library(t)
	header := func(kind uint32) int { return bytes.Index(image, command(f, kind)) }
	segment := func(name string) int {
		for _, l := range f.Loads {
			if s, ok := l.(*macho.Segment); ok && s.Name == name {
				return bytes.Index(image, s.Raw())
			}
		}
		t.Fatalf("no segment %s", name)
		return 0
	}
	put := func(at int, b ...byte) func([]byte) { return func(image []byte) { copy(image[at:], b) } }
	for name, c := range map[string]struct {
		check func(reporter, *macho.File, []byte)
		plant func(image []byte)
		says  string
	}{
		"a byte of code":              {pageHashes, func(image []byte) { image[f.Section("__text").Offset+100] ^= 1 }, "1 of"},
		"a byte after the signature":  {pageHashes, func(image []byte) { image[header(cmdCodeSignature)+12]-- }, "the signature is at"},
		"code that may be written":    {segments, put(segment("__TEXT")+60, 7), "__TEXT"},
		"a segment inside a page":     {segments, put(segment("__DATA")+24, 8), "__DATA"},
		"constants for ever writable": {segments, put(segment("__DATA_CONST")+68, 0), "__DATA_CONST"},
		"no UUID":                     {segments, put(header(cmdUUID)+8, make([]byte, 16)...), "UUID"},
		"another function of the system": {imports, func(image []byte) {
			for {
				at := bytes.Index(image, []byte("\x00_strdup\x00"))
				if at < 0 {
					return
				}
				copy(image[at+1:], "_system")
			}
		}, "_system"},
		"a pointer out of the library": {allFixups, func(image []byte) { put(firstPointer(t, f, image), 0, 0, 0, 0, 0xf)(image) }, "points to"},
		"a binding to another library": {allFixups, otherLibrary(f), "a binding to library"},
	} {
		t.Run(name, func(t *testing.T) {
			if before := findings(t, c.check, image); len(before) != 0 {
				t.Fatalf("before: %q", before)
			}
			faulty := slices.Clone(image)
			c.plant(faulty)
			if l := findings(t, c.check, faulty); !strings.Contains(strings.Join(l, "\n"), c.says) {
				t.Errorf("finds %q, want a word of %q", l, c.says)
			}
		})
	}
}

// firstPointer is where dyld sets the first pointer.
func firstPointer(t *testing.T, f *macho.File, image []byte) int {
	x := newFixups(t, f, image)
	if c := command(f, cmdChainedFixups); c != nil {
		x.chained(c)
	} else {
		x.classic(command(f, cmdDyldInfoOnly))
	}
	return x.first
}

// otherLibrary changes the library of the first binding.
func otherLibrary(f *macho.File) func(image []byte) {
	if c := command(f, cmdChainedFixups); c != nil {
		at := f.ByteOrder.Uint32(c[8:])
		return func(image []byte) { image[at+f.ByteOrder.Uint32(image[at+8:])]-- }
	}
	at := int(f.ByteOrder.Uint32(command(f, cmdDyldInfoOnly)[16:]))
	return func(image []byte) {
		for image[at]&0xf0 != 0x10 { // to where the library is set
			switch image[at] & 0xf0 {
			case 0x40: // a symbol's name
				at += bytes.IndexByte(image[at:], 0)
			case 0x70, 0x60, 0x80, 0x20: // a number of several bytes
				for at++; image[at] >= 0x80; at++ {
				}
			}
			at++
		}
		image[at]-- // the library's number; 0x10 is added to it
	}
}
