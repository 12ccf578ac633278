// SPDX-License-Identifier: Apache-2.0

package objc_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// Declarations of this test: a method that makes an error, one that returns a
// 24-byte struct is among the package's own.
var (
	dataClass     = objc.DeclareClass("NSData", objc.V(10, 0))
	dictClass     = objc.DeclareClass("NSDictionary", objc.V(10, 0))
	objectForKey  = objc.Instance[func(o, key objc.ID) objc.ID]("NSDictionary", "objectForKey:", objc.V(12, 1))
	dictCount     = objc.Instance[func(o objc.ID) uint64]("NSDictionary", "count", objc.V(12, 1))
	dataLength    = objc.Instance[func(o objc.ID) uint64]("NSData", "length", objc.V(12, 1))
	isEqualString = objc.Instance[func(o, s objc.ID) bool]("NSString", "isEqualToString:", objc.V(12, 1))
	numberDouble  = objc.Instance[func(o objc.ID) float64]("NSNumber", "doubleValue", objc.V(12, 1))
	numberFloat   = objc.Instance[func(o objc.ID) float32]("NSNumber", "floatValue", objc.V(12, 1))
	withDouble    = objc.ClassMethod[func(c objc.Class, v float64) objc.ID]("NSNumber", "numberWithDouble:", objc.V(12, 1))
	withFloat     = objc.ClassMethod[func(c objc.Class, v float32) objc.ID]("NSNumber", "numberWithFloat:", objc.V(12, 1))
	numberClass   = objc.DeclareClass("NSNumber", objc.V(10, 0))
	errorWith     = objc.ClassMethod[func(c objc.Class, domain objc.ID, code int64, userInfo objc.ID) objc.ID]("NSError", "errorWithDomain:code:userInfo:", objc.V(12, 1))
	errorClass    = objc.DeclareClass("NSError", objc.V(10, 0))
)

func TestStrings(t *testing.T) {
	metalsim.Open(t)
	objc.WithPool(func() {
		for s, want := range map[string]string{
			"": "", "abc": "abc", "µ–漢字🙂": "µ–漢字🙂", "cut\x00here": "cut", "bad\xffutf8": "bad\uFFFDutf8",
			strings.Repeat("x", 5000): strings.Repeat("x", 5000),
		} {
			o := objc.String(s)
			if got := objc.GoString(o); got != want {
				t.Errorf("%.20q came back as %.20q", s, got)
			}
			if !isEqualString.Send(o, objc.String(want)) {
				t.Errorf("%.20q is not equal to itself", s)
			}
		}
		if objc.GoString(0) != "" {
			t.Error("nil is the empty string")
		}
	})
}

func TestNumbersAndCollections(t *testing.T) {
	metalsim.Open(t)
	objc.WithPool(func() {
		for _, n := range []int{0, 1, -1, 1 << 40, -(1 << 62)} {
			if got := objc.GoInteger(objc.Integer(n)); got != n {
				t.Errorf("%d came back as %d", n, got)
			}
		}
		// Floats travel in other registers than integers, float and double in
		// different widths.
		for _, v := range []float64{0, -1.5, 1e300, 0.1} {
			if got := numberDouble.Send(withDouble.Send(numberClass.ID, v)); got != v {
				t.Errorf("double %v came back as %v", v, got)
			}
			if got := numberFloat.Send(withFloat.Send(numberClass.ID, float32(v))); got != float32(v) {
				t.Errorf("float %v came back as %v", v, got)
			}
		}
		for n := range 20 {
			want := make([]int, n)
			for i := range want {
				want[i] = i * i
			}
			if got := objc.GoIntegers(objc.Integers(want)); !slices.Equal(got, want) {
				t.Errorf("%v came back as %v", want, got)
			}
		}
		if objc.GoArray(0) != nil {
			t.Error("nil is the empty array")
		}
		keys := []objc.ID{objc.String("a"), objc.String("b")}
		d := objc.Dictionary(keys, []objc.ID{objc.Integer(1), objc.Integer(2)})
		if dictCount.Send(d) != 2 || objc.GoInteger(objectForKey.Send(d, objc.String("b"))) != 2 {
			t.Error("the dictionary does not hold what was put in")
		}
		if dictCount.Send(objc.Dictionary(nil, nil)) != 0 {
			t.Error("the empty dictionary is not empty")
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("keys without objects passed")
				}
			}()
			objc.Dictionary(keys, nil)
		}()
		if n := dataLength.Send(objc.Data([]byte("hello"))); n != 5 {
			t.Errorf("length %d", n)
		}
		if n := dataLength.Send(objc.Data(nil)); n != 0 {
			t.Errorf("length %d", n)
		}
		_, _ = dataClass, dictClass
	})
}

func TestErrors(t *testing.T) {
	metalsim.Open(t)
	objc.WithPool(func() {
		if objc.GoError(0) != nil {
			t.Error("nil is no error")
		}
		e := objc.GoError(errorWith.Send(errorClass.ID, objc.String("TestDomain"), -42, 0))
		if e == nil || e.Domain != "TestDomain" || e.Code != -42 || !strings.Contains(e.Error(), "TestDomain -42") {
			t.Errorf("got %+v", e)
		}
		var err error = e
		var as *objc.Error
		if !errors.As(err, &as) {
			t.Error("an Error is not itself")
		}
	})
}

func TestSystemVersion(t *testing.T) {
	s := metalsim.Open(t)
	s.Set("os", "15.4.1")
	objc.WithPool(func() {
		// A struct result of 24 bytes: through a hidden pointer.
		if v := objc.SystemVersion(); v != (objc.OSVersion{Major: 15, Minor: 4, Patch: 1}) {
			t.Errorf("got %+v", v)
		}
	})
}

func TestOwnership(t *testing.T) {
	s := metalsim.Open(t)
	var own objc.Owner
	objc.WithPool(func() {
		own.Own(objc.New(dictClass))
		own.Keep(objc.String("kept beyond the pool, and long enough not to be a tagged pointer"))
		own.Own(0)
		objc.Retain(0)
		objc.Release(0)
	})
	if s.Leaked() < 1 {
		t.Error("what the owner keeps went with the pool")
	}
	own.Release()
	own.Release()
	// A pool inside a pool, and a panic through one.
	func() {
		defer func() { _ = recover() }()
		objc.WithPool(func() {
			objc.WithPool(func() { objc.String("inner, long enough not to be a tagged pointer") })
			panic("through the pool")
		})
	}()
}

func TestSimulatorSeesMisuse(t *testing.T) {
	s := metalsim.Open(t)
	s.SimulatorOnly()
	for name, misuse := range map[string]func(){
		"no pool":       func() { objc.String("autoreleased into nothing, and far too long for a tag") },
		"over-release":  func() { objc.WithPool(func() { o := objc.New(dictClass); objc.Release(o); objc.Release(o) }) },
		"wrong class":   func() { objc.WithPool(func() { objectForKey.Send(objc.Integer(5), objc.Integer(6)) }) },
		"released self": func() { objc.WithPool(func() { o := objc.Data([]byte{1}); objc.Release(o); objc.Release(o) }) },
	} {
		misuse()
		if len(s.Violations()) == 0 {
			t.Errorf("%s: the simulator saw nothing", name)
		}
		s.ClearViolations()
	}
	s.Mark()
}
