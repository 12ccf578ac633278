// SPDX-License-Identifier: Apache-2.0

package objc

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

type size struct{ W, H, D uint64 }
type pair struct{ A, B uint64 }

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		f    any
		want string
	}{
		{func(ID) {}, "v@:"},
		{func(Class) ID { return 0 }, "@@:"},
		{func(ID, uint64, int64, uint32, int32, bool) {}, "v@:QqIiB"},
		{func(ID, float32, float64) float64 { return 0 }, "d@:fd"},
		{func(ID, size, SEL, Class) {}, "v@:{QQQ}:#"},
		{func(ID, *ID, unsafe.Pointer, *byte, Block) {}, "v@:^@^v*@?"},
		{func(ID) size { return size{} }, "{QQQ}@:"},
	} {
		if got := Encode(reflect.TypeOf(c.f)); got != c.want {
			t.Errorf("%T: got %q, want %q", c.f, got, c.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for enc, want := range map[string]string{
		"@40@0:8r^@16Q24@32":                 "@@:^@Q@",
		"Vv16@0:8":                           "v@:",
		"v72@0:8{?=QQQ}16{?=QQQ}40":          "v@:{QQQ}{QQQ}",
		"{_NSRange=QQ}24@0:8@16":             "{QQ}@:@",
		"v@:{?={?=QQQ}{?=QQQ}}Q":             "v@:{{QQQ}{QQQ}}Q",
		"@?16@0:8":                           "@?@:",
		"@48@0:8^v16Q24Q32@?40":              "@@:^vQQ@?",
		"r*16@0:8":                           "*@:",
		"v24@0:8^{OpaqueThing}16":            "v@:^{}",
		`@"NSArray"24@0:8@"NSString"16`:      "@@:@",
		`v24@0:8@?<v@?@"<MTLBuffer>"^vQ>16`:  "v@:@?",
		"v@:@?<@?<v@?>@?>Q":                  "v@:@?Q",
		`v@:@"open`:                          "v@:@pe", // damaged: no crash
		"v@:<":                               "v@:",
		"I16@0:8":                            "I@:",
		"@44@0:8@16@24I32Q36":                "@@:@@IQ",
		"@52@0:8@16q24B32@36":                "@@:@qB@",
		"{MPSDimensionSlice=QQ}24@0:8Q16":    "{QQ}@:Q",
		"v40@0:8Q16{MPSDimensionSlice=QQ}24": "v@:Q{QQ}",
	} {
		if got := Normalize(enc); got != want {
			t.Errorf("%q: got %q, want %q", enc, got, want)
		}
	}
}

// TestCheckABI plants each mistake of the calling convention.
func TestCheckABI(t *testing.T) {
	type (
		id = ID
		u  = uint64
		f  = float32
	)
	for name, c := range map[string]struct {
		f    any
		want string // part of the error, "" for none
	}{
		"twelve words":                 {func(id, u, u, u, u, u, u, u, u, u, u, u, u) {}, ""},
		"bool in the last register":    {func(id, u, u, u, u, u, bool) {}, ""},
		"struct in the last register":  {func(id, u, u, u, u, u, size) {}, ""},
		"variadic":                     {func(id, ...u) {}, "variadic"},
		"bool on the stack":            {func(id, u, u, u, u, u, u, bool) {}, "1-byte integer on the stack"},
		"uint32 on the stack":          {func(id, u, u, u, u, u, u, u, uint32) {}, "4-byte integer on the stack"},
		"struct on the stack":          {func(id, u, u, u, u, u, u, size) {}, "struct after the eighth"},
		"pair fills two registers":     {func(id, u, u, u, u, pair, bool) {}, "1-byte integer on the stack"},
		"eight floats":                 {func(id, f, f, f, f, f, f, f, f) {}, ""},
		"ninth float32":                {func(id, f, f, f, f, f, f, f, f, f) {}, "4-byte float on the stack"},
		"ninth float64":                {func(id, f, f, f, f, f, f, f, f, float64) {}, ""},
		"a slice has no encoding":      {func(id, []u) {}, "no Objective-C encoding"},
		"a string has no encoding":     {func(id, string) {}, "no Objective-C encoding"},
		"two results":                  {func(id) (u, u) { return 0, 0 }, "2 results"},
		"int changes width":            {func(id, int) {}, "no Objective-C encoding"},
		"slice as a result":            {func(id) []u { return nil }, "no Objective-C encoding"},
		"block and small bool in regs": {func(id, Block, bool) {}, ""},
	} {
		err := CheckABI(reflect.TypeOf(c.f))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestCheckDecl(t *testing.T) {
	for name, d := range map[string]*Decl{
		"arity":          {Selector: "a:b:", Kind: KindInstance, Func: reflect.TypeFor[func(ID, ID)]()},
		"class receiver": {Selector: "a", Kind: KindClass, Func: reflect.TypeFor[func(ID)]()},
		"no receiver":    {Selector: "a", Kind: KindInstance, Func: reflect.TypeFor[func()]()},
		"not a func":     {Selector: "a", Kind: KindInstance, Func: reflect.TypeFor[int]()},
		"abi":            {Selector: "a:", Kind: KindInstance, Func: reflect.TypeFor[func(ID, []byte)]()},
	} {
		if err := checkDecl(d); err == nil {
			t.Errorf("%s: a wrong declaration passed", name)
		}
	}
}

func TestDeclareTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second declaration of NSArray count passed")
		}
	}()
	Instance[func(ID) uint64]("NSArray", "count", V(12, 1))
}

func TestVersion(t *testing.T) {
	if !V(15, 0).AtLeast(V(14, 6)) || !V(15, 1).AtLeast(V(15, 1)) || V(15, 0).AtLeast(V(15, 1)) || V(14, 9).AtLeast(V(15, 0)) {
		t.Error("AtLeast orders versions wrongly")
	}
}
