// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

func registerFunc(fptr any, addr uintptr) { purego.RegisterFunc(fptr, addr) }

// resolve fills the typed entry points from a library handle.
func resolve(handle uintptr) (runtimeCalls, error) {
	var r runtimeCalls
	r.lookup = func(s string) (uintptr, error) { return purego.Dlsym(handle, s) }
	var err error
	if r.msgSend, err = r.lookup("objc_msgSend"); err != nil {
		return r, fmt.Errorf("objc: %w", err)
	}
	if runtime.GOARCH == "amd64" {
		if r.msgSendStret, err = r.lookup("objc_msgSend_stret"); err != nil {
			return r, fmt.Errorf("objc: %w", err)
		}
	}
	for _, f := range []struct {
		fptr any
		name string
	}{
		{&r.getClass, "objc_getClass"},
		{&r.selRegister, "sel_registerName"},
		{&r.poolPush, "objc_autoreleasePoolPush"},
		{&r.poolPop, "objc_autoreleasePoolPop"},
		{&r.retain, "objc_retain"},
		{&r.release, "objc_release"},
		{&r.objectClass, "object_getClass"},
		{&r.instanceMethod, "class_getInstanceMethod"},
		{&r.classMethod, "class_getClassMethod"},
		{&r.methodEncoding, "method_getTypeEncoding"},
	} {
		addr, err := r.lookup(f.name)
		if err != nil {
			return r, fmt.Errorf("objc: %w", err)
		}
		purego.RegisterFunc(f.fptr, addr)
	}
	resolveProtocols(&r)
	return r, nil
}

// resolveProtocols binds the two calls that describe protocol methods; a
// runtime without them (the simulator) only loses the self-check of protocols
// for which it has no sample object.
func resolveProtocols(r *runtimeCalls) {
	r.getProtocol = func(string) uintptr { return 0 }
	r.protocolEncoding = func(uintptr, SEL, bool, bool) string { return "" }
	get, err1 := r.lookup("objc_getProtocol")
	describe, err2 := r.lookup("protocol_getMethodDescription")
	if err1 != nil || err2 != nil {
		return
	}
	// struct objc_method_description: two words, returned in two registers.
	type description struct {
		sel   SEL
		types uintptr
	}
	var describeFn func(uintptr, SEL, bool, bool) description
	purego.RegisterFunc(&r.getProtocol, get)
	purego.RegisterFunc(&describeFn, describe)
	r.protocolEncoding = func(p uintptr, s SEL, required, instance bool) string {
		return goString(describeFn(p, s, required, instance).types)
	}
}

// goString copies a NUL-terminated C string.
func goString(p uintptr) string {
	if p == 0 {
		return ""
	}
	// The address of the variable is converted, not its value: the memory is
	// C's, and vet cannot know that.
	ptr := *(**byte)(unsafe.Pointer(&p))
	return bytesToString(ptr)
}

var bound sync.Map // reflect.Type of a func with selector -> reflect.Value

// Bind returns objc_msgSend as an F (receiver first) with selector s filled in.
//
// Integer-only signatures that occur once per inference or once per graph node
// go through SyscallN, about 100 ns; all others through one purego.RegisterFunc
// per signature, which costs a few reflect calls more but knows floats and
// structs.
func Bind[F any](s SEL) F {
	var f F
	if bindFast(any(&f), s) {
		return f
	}
	t := reflect.TypeFor[F]()
	send := typedSend(t)
	reflect.ValueOf(&f).Elem().Set(reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
		with := make([]reflect.Value, 0, len(args)+1)
		with = append(with, args[0], reflect.ValueOf(s))
		return send.Call(append(with, args[1:]...))
	}))
	return f
}

// typedSend returns objc_msgSend as the func type t with a selector inserted
// after the receiver, registered once per type.
func typedSend(t reflect.Type) reflect.Value {
	in := []reflect.Type{t.In(0), reflect.TypeFor[SEL]()}
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	var out []reflect.Type
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	full := reflect.FuncOf(in, out, false)
	if v, ok := bound.Load(full); ok {
		return v.(reflect.Value)
	}
	entry := rt.msgSend
	// On amd64 a result above 16 bytes is written through a hidden pointer in
	// the first register, so the receiver moves and another entry point knows
	// it. arm64 keeps that pointer in x8 and needs no second entry.
	if runtime.GOARCH == "amd64" && len(out) == 1 && out[0].Kind() == reflect.Struct && out[0].Size() > 16 {
		entry = rt.msgSendStret
	}
	fp := reflect.New(full)
	purego.RegisterFunc(fp.Interface(), entry)
	v, _ := bound.LoadOrStore(full, fp.Elem())
	return v.(reflect.Value)
}
