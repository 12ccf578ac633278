// SPDX-License-Identifier: Apache-2.0

package objc

import (
	"fmt"
	"reflect"
	"sync"
)

// Kind tells instance methods from class methods.
type Kind string

// The two kinds of method, spelled as in Apple's table.
const (
	KindInstance Kind = "instance"
	KindClass    Kind = "class"
)

// Decl is one row of the table of declared selectors.
type Decl struct {
	Class    string // class, or protocol for Metal's interfaces
	Selector string
	Kind     Kind
	Since    Version      // first macOS that has the method
	Func     reflect.Type // receiver first, then the arguments; no selector
	Private  bool         // not in Apple's headers: ask RespondsTo before sending

	bind func(SEL)
}

func (d *Decl) String() string {
	sign := "-"
	if d.Kind == KindClass {
		sign = "+"
	}
	return fmt.Sprintf("%s[%s %s]", sign, d.Class, d.Selector)
}

// Method is a declared selector. Send is its typed implementation: the
// receiver comes first, the selector is filled in. Send is nil until [Load]
// has succeeded.
type Method[F any] struct {
	Send F
	decl *Decl
}

// ClassRef is a declared class; ID is 0 until [Load] has succeeded.
type ClassRef struct {
	ID    Class
	Name  string
	Since Version
}

// The registry is filled by package variables of this module and read by Load
// and by the checks.
var registry struct {
	sync.Mutex
	decls   []*Decl
	classes []*ClassRef
	seen    map[string]bool
}

// Instance declares an instance method of a class or protocol. F is a func
// type whose first parameter is the receiver, an [ID].
func Instance[F any](class, selector string, since Version) *Method[F] {
	return declare[F](class, selector, KindInstance, since)
}

// Private declares an instance method that the class dumps have and Apple's
// headers have not. A system may lack it: ask [RespondsTo] before sending it.
func Private[F any](class, selector string, since Version) *Method[F] {
	m := Instance[F](class, selector, since)
	m.decl.Private = true
	return m
}

// ClassMethod declares a class method; the receiver in F is a [Class].
func ClassMethod[F any](class, selector string, since Version) *Method[F] {
	return declare[F](class, selector, KindClass, since)
}

// declare panics on a malformed or repeated declaration: both are mistakes in
// a package variable, found by the first run of any test.
func declare[F any](class, selector string, kind Kind, since Version) *Method[F] {
	d := &Decl{Class: class, Selector: selector, Kind: kind, Since: since, Func: reflect.TypeFor[F]()}
	if err := checkDecl(d); err != nil {
		panic(err)
	}
	m := &Method[F]{decl: d}
	d.bind = func(s SEL) { m.Send = Bind[F](s) }
	registry.Lock()
	defer registry.Unlock()
	if registry.seen == nil {
		registry.seen = make(map[string]bool)
	}
	if registry.seen[d.String()] {
		panic(fmt.Sprintf("objc: %v is declared twice", d))
	}
	registry.seen[d.String()] = true
	registry.decls = append(registry.decls, d)
	return m
}

// Selector is the registered selector of m; for respondsToSelector: tests.
func (m *Method[F]) Selector() SEL { return rt.selRegister(m.decl.Selector) }

// DeclareClass declares a class whose methods are sent to it by name.
func DeclareClass(name string, since Version) *ClassRef {
	c := &ClassRef{Name: name, Since: since}
	registry.Lock()
	defer registry.Unlock()
	registry.classes = append(registry.classes, c)
	return c
}

// Declared returns the table of declared selectors. The rows are shared: treat
// them as read-only.
func Declared() []*Decl {
	registry.Lock()
	defer registry.Unlock()
	return append([]*Decl(nil), registry.decls...)
}

// checkDecl verifies what every declaration needs: a receiver of the right
// type, one argument per colon, and the calling-convention rules.
func checkDecl(d *Decl) error {
	t := d.Func
	if t.Kind() != reflect.Func || t.NumIn() < 1 {
		return fmt.Errorf("objc: %v: type %v is not a func with a receiver", d, t)
	}
	want := reflect.TypeFor[ID]()
	if d.Kind == KindClass {
		want = reflect.TypeFor[Class]()
	}
	if t.In(0) != want {
		return fmt.Errorf("objc: %v: receiver is %v, want %v", d, t.In(0), want)
	}
	colons := 0
	for _, c := range d.Selector {
		if c == ':' {
			colons++
		}
	}
	if colons != t.NumIn()-1 {
		return fmt.Errorf("objc: %v: %d arguments in Go, %d in the selector", d, t.NumIn()-1, colons)
	}
	if err := CheckABI(t); err != nil {
		return fmt.Errorf("objc: %v: %w", d, err)
	}
	return nil
}
