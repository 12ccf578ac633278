// SPDX-License-Identifier: Apache-2.0

package objc

import (
	"bytes"
	"strings"
	"unsafe"
)

// OSVersion is NSOperatingSystemVersion.
type OSVersion struct{ Major, Minor, Patch int64 }

// Foundation classes.
var (
	nsString      = DeclareClass("NSString", V(10, 0))
	nsNumber      = DeclareClass("NSNumber", V(10, 0))
	nsArray       = DeclareClass("NSArray", V(10, 0))
	nsDictionary  = DeclareClass("NSDictionary", V(10, 0))
	nsData        = DeclareClass("NSData", V(10, 0))
	nsProcessInfo = DeclareClass("NSProcessInfo", V(10, 0))
)

// NSObject.
var (
	alloc      = ClassMethod[func(c Class) ID]("NSObject", "alloc", V(10, 0))
	initObject = Instance[func(o ID) ID]("NSObject", "init", V(10, 0))
	respondsTo = Instance[func(o ID, sel SEL) bool]("NSObject", "respondsToSelector:", V(12, 1))
)

// NSString.
var (
	stringWithUTF8String = ClassMethod[func(c Class, cString *byte) ID]("NSString", "stringWithUTF8String:", V(12, 1))
	utf8String           = Instance[func(o ID) *byte]("NSString", "UTF8String", V(12, 1))
)

// NSNumber.
var (
	numberWithInteger = ClassMethod[func(c Class, value int64) ID]("NSNumber", "numberWithInteger:", V(10, 5))
	integerValue      = Instance[func(o ID) int64]("NSNumber", "integerValue", V(10, 5))
)

// Collections. Only the counted factories: a variable argument list would be
// passed in the wrong place.
var (
	arrayWithObjects      = ClassMethod[func(c Class, objects *ID, count uint64) ID]("NSArray", "arrayWithObjects:count:", V(12, 1))
	arrayCount            = Instance[func(o ID) uint64]("NSArray", "count", V(12, 1))
	objectAtIndex         = Instance[func(o ID, index uint64) ID]("NSArray", "objectAtIndex:", V(12, 1))
	dictionaryWithObjects = ClassMethod[func(c Class, objects, keys *ID, count uint64) ID]("NSDictionary", "dictionaryWithObjects:forKeys:count:", V(12, 1))
)

// NSData, NSError, NSProcessInfo.
var (
	dataWithBytes          = ClassMethod[func(c Class, bytes unsafe.Pointer, length uint64) ID]("NSData", "dataWithBytes:length:", V(12, 1))
	errorCode              = Instance[func(o ID) int64]("NSError", "code", V(12, 1))
	errorDomain            = Instance[func(o ID) ID]("NSError", "domain", V(12, 1))
	errorDescription       = Instance[func(o ID) ID]("NSError", "localizedDescription", V(12, 1))
	processInfo            = ClassMethod[func(c Class) ID]("NSProcessInfo", "processInfo", V(12, 1))
	operatingSystemVersion = Instance[func(o ID) OSVersion]("NSProcessInfo", "operatingSystemVersion", V(10, 10))
)

// Alloc allocates an object of c (+1); send an init method to it at once.
func Alloc(c *ClassRef) ID { return alloc.Send(c.ID) }

// New is alloc and init (+1).
func New(c *ClassRef) ID { return initObject.Send(Alloc(c)) }

// RespondsTo reports whether o implements the declared method m.
func RespondsTo[F any](o ID, m *Method[F]) bool { return respondsTo.Send(o, m.Selector()) }

// String makes an NSString (+0). Bytes that are not UTF-8 become U+FFFD, and
// the text ends at the first NUL, as it would in C.
func String(s string) ID {
	s, _, _ = strings.Cut(strings.ToValidUTF8(s, "\uFFFD"), "\x00")
	b := append([]byte(s), 0)
	return stringWithUTF8String.Send(nsString.ID, &b[0])
}

// GoString copies the text of an NSString; nil gives "".
func GoString(o ID) string {
	if o == 0 {
		return ""
	}
	return bytesToString(utf8String.Send(o))
}

func bytesToString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(bytes.Clone(unsafe.Slice(p, n)))
}

// Integer makes an NSNumber (+0).
func Integer(n int) ID { return numberWithInteger.Send(nsNumber.ID, int64(n)) }

// GoInteger is the value of an NSNumber.
func GoInteger(o ID) int { return int(integerValue.Send(o)) }

// Array makes an NSArray (+0) that retains the objects.
func Array(objects []ID) ID {
	if len(objects) == 0 {
		return arrayWithObjects.Send(nsArray.ID, nil, 0)
	}
	return arrayWithObjects.Send(nsArray.ID, &objects[0], uint64(len(objects)))
}

// Integers makes an NSArray of NSNumbers (+0): an MPSShape, among others.
func Integers(values []int) ID {
	var buf [8]ID // no tensor of this module has more dimensions
	ids := buf[:0]
	for _, v := range values {
		ids = append(ids, Integer(v))
	}
	return Array(ids)
}

// GoArray lists the objects of an NSArray; they are interior (+0).
func GoArray(o ID) []ID {
	if o == 0 {
		return nil
	}
	ids := make([]ID, arrayCount.Send(o))
	for i := range ids {
		ids[i] = objectAtIndex.Send(o, uint64(i))
	}
	return ids
}

// GoIntegers reads an NSArray of NSNumbers.
func GoIntegers(o ID) []int {
	ids := GoArray(o)
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = GoInteger(id)
	}
	return out
}

// Dictionary makes an NSDictionary (+0) from parallel slices. It panics when
// their lengths differ, a programmer error.
func Dictionary(keys, objects []ID) ID {
	if len(keys) != len(objects) {
		panic("objc: Dictionary with keys and objects of different lengths")
	}
	if len(keys) == 0 {
		return dictionaryWithObjects.Send(nsDictionary.ID, nil, nil, 0)
	}
	return dictionaryWithObjects.Send(nsDictionary.ID, &objects[0], &keys[0], uint64(len(keys)))
}

// Data makes an NSData (+0) with a copy of b.
func Data(b []byte) ID {
	if b == nil {
		b = []byte{} // has an address, nil has none
	}
	return dataWithBytes.Send(nsData.ID, unsafe.Pointer(unsafe.SliceData(b)), uint64(len(b)))
}

// SystemVersion is the version of the running macOS. Call it inside a pool.
func SystemVersion() OSVersion {
	return operatingSystemVersion.Send(processInfo.Send(nsProcessInfo.ID))
}
