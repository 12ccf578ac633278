// SPDX-License-Identifier: Apache-2.0

package objc

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// Encode is the Objective-C type encoding of a method whose Go type is t
// (receiver first): result, receiver, selector, arguments, in the reduced form
// of [Normalize].
func Encode(t reflect.Type) string {
	var b strings.Builder
	if t.NumOut() == 0 {
		b.WriteByte('v')
	} else {
		b.WriteString(encodeType(t.Out(0)))
	}
	b.WriteString("@:") // a class receiver is an object too
	for i := 1; i < t.NumIn(); i++ {
		b.WriteString(encodeType(t.In(i)))
	}
	return b.String()
}

// encodeType maps one Go type. "?" stands for a type that no message uses, so
// that it differs from every real encoding.
func encodeType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ID]():
		return "@"
	case reflect.TypeFor[Class]():
		return "#"
	case reflect.TypeFor[SEL]():
		return ":"
	case reflect.TypeFor[Block]():
		return "@?"
	case reflect.TypeFor[unsafe.Pointer]():
		return "^v"
	case reflect.TypeFor[*byte]():
		return "*"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "B"
	case reflect.Int32:
		return "i"
	case reflect.Uint32:
		return "I"
	case reflect.Int64:
		return "q"
	case reflect.Uint64:
		return "Q"
	case reflect.Float32:
		return "f"
	case reflect.Float64:
		return "d"
	case reflect.Pointer:
		return "^" + encodeType(t.Elem())
	case reflect.Struct:
		s := "{"
		for i := range t.NumField() {
			s += encodeType(t.Field(i).Type)
		}
		return s + "}"
	}
	return "?"
}

// Normalize removes from an @encode string what does not change the calling
// convention: frame offsets, struct names, the qualifiers const (r), in (n),
// inout (N), out (o), bycopy (O), byref (R) and oneway (V), and the class names
// and block signatures of extended encodings (@"NSArray", @?<v@?>).
func Normalize(enc string) string {
	var b strings.Builder
	for i := 0; i < len(enc); i++ {
		switch c := enc[i]; {
		case c >= '0' && c <= '9', strings.IndexByte("rnNoORV", c) >= 0:
		case c == '"':
			if n := strings.IndexByte(enc[i+1:], '"'); n >= 0 {
				i += n + 1
			}
		case c == '<':
			i = closing(enc, i)
		case c == '{':
			b.WriteByte(c)
			// "{CGSize=dd}" keeps the fields; "{OpaqueThing}" has none.
			for i+1 < len(enc) && enc[i+1] != '}' {
				if i++; enc[i] == '=' {
					break
				}
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// closing is the position of the '>' that ends the '<' at i.
func closing(s string, i int) int {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '<':
			depth++
		case '>':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// sameABI compares two normalized encodings up to signedness: NSUInteger and
// NSInteger travel alike, and Apple's headers and implementations differ there
// for at least one method (gather's axis).
func sameABI(a, b string) bool {
	fold := strings.NewReplacer("q", "Q", "i", "I", "s", "S", "c", "C")
	return fold.Replace(a) == fold.Replace(b)
}

const (
	intRegisters   = 8 // x0..x7; receiver and selector take the first two
	floatRegisters = 8 // v0..v7
)

// CheckABI reports a method type (receiver first) that purego v0.11 cannot call
// correctly on Apple arm64:
//
//   - variadic functions: the platform passes variable arguments on the stack,
//     the caller would put them in registers;
//   - a struct once the eight integer registers are full: it must be one
//     pointer, purego copies it by value;
//   - an argument narrower than 8 bytes on the stack: Apple packs those, and
//     whether the caller does depends on how the call was made. None of the
//     messages this module needs has one, so none is allowed.
func CheckABI(t reflect.Type) error {
	if t.IsVariadic() {
		return fmt.Errorf("variadic message %v", t)
	}
	if t.NumOut() > 1 {
		return fmt.Errorf("message %v with %d results", t, t.NumOut())
	}
	for i := range t.NumOut() {
		if strings.Contains(encodeType(t.Out(i)), "?") {
			return fmt.Errorf("result of type %v has no Objective-C encoding", t.Out(i))
		}
	}
	ints, floats := 2, 0
	for i := 1; i < t.NumIn(); i++ {
		a := t.In(i)
		if e := encodeType(a); strings.Contains(strings.ReplaceAll(e, "@?", "@"), "?") {
			return fmt.Errorf("argument %d of type %v has no Objective-C encoding", i, a)
		}
		switch a.Kind() {
		case reflect.Struct:
			if ints >= intRegisters {
				return fmt.Errorf("argument %d is a struct after the eighth integer register", i)
			}
			// Up to 16 bytes travel in registers, more behind one pointer.
			ints++
			if a.Size() > 8 && a.Size() <= 16 {
				ints++
			}
		case reflect.Float32, reflect.Float64:
			if floats >= floatRegisters && a.Size() < 8 {
				return fmt.Errorf("argument %d is a %d-byte float on the stack", i, a.Size())
			}
			floats++
		default:
			if ints >= intRegisters && a.Size() < 8 {
				return fmt.Errorf("argument %d is a %d-byte integer on the stack", i, a.Size())
			}
			ints++
		}
	}
	return nil
}
