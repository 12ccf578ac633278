// SPDX-License-Identifier: Apache-2.0

package objc

import "fmt"

// Mismatch is a declared selector that the running system sees differently.
type Mismatch struct {
	Decl *Decl
	Want string // encoding of the Go declaration
	Got  string // encoding of the runtime, "" when the method is missing
}

func (m Mismatch) Error() string {
	if m.Got == "" {
		return fmt.Sprintf("objc: %v is missing (declared since macOS %v)", m.Decl, m.Decl.Since)
	}
	return fmt.Sprintf("objc: %v: declared %s, the system has %s", m.Decl, m.Want, m.Got)
}

// Report is the result of [SelfCheck].
type Report struct {
	Checked    int
	Unchecked  []*Decl // protocol methods without a sample object or metadata, private ones that are not there
	Mismatches []Mismatch
}

// SelfCheck compares every declared selector with the running system's own type
// encoding. Metal's interfaces are protocols whose implementing classes are
// private: samples gives an object for each protocol that is at hand, the rest
// is read from the protocol's metadata where the runtime keeps it. Methods
// newer than the running system are skipped. Needs no GPU.
func SelfCheck(system Version, samples map[string]ID) (Report, error) {
	if err := Load(); err != nil {
		return Report{}, err
	}
	var rep Report
	for _, d := range Declared() {
		if !system.AtLeast(d.Since) {
			continue
		}
		got, known := runtimeEncoding(d, samples[d.Class])
		if !known || got == "" && d.Private {
			rep.Unchecked = append(rep.Unchecked, d)
			continue
		}
		rep.Checked++
		if want := Encode(d.Func); !sameABI(want, Normalize(got)) {
			rep.Mismatches = append(rep.Mismatches, Mismatch{d, want, got})
		}
	}
	return rep, nil
}

// runtimeEncoding finds the encoding of d; known is false when the runtime has
// neither class, sample nor protocol to ask.
func runtimeEncoding(d *Decl, sample ID) (enc string, known bool) {
	sel := rt.selRegister(d.Selector)
	class := rt.getClass(d.Class)
	if sample != 0 {
		class = rt.objectClass(sample)
	}
	if class != 0 {
		find := rt.instanceMethod
		if d.Kind == KindClass {
			find = rt.classMethod
		}
		m := find(class, sel)
		if m == 0 {
			return "", true
		}
		return rt.methodEncoding(m), true
	}
	p := rt.getProtocol(d.Class)
	if p == 0 {
		return "", false
	}
	for _, required := range []bool{true, false} {
		if e := rt.protocolEncoding(p, sel, required, d.Kind == KindInstance); e != "" {
			return e, true
		}
	}
	return "", true
}
