// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

var owns = map[string]string{"": "MS_OWN_NONE", "+0": "MS_OWN_ZERO", "+1": "MS_OWN_ONE",
	"alloc": "MS_OWN_ALLOC", "init": "MS_OWN_INIT", "self": "MS_OWN_SELF"}

// Table writes the C table of data/selectors.json. Methods are sorted by class, then kind
// and selector ('+' before '-'), which is the order that the runtime searches.
func Table(raw []byte) ([]byte, error) {
	var d Data
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("gen: data/selectors.json: %w", err)
	}
	sort.SliceStable(d.Methods, func(i, j int) bool {
		a, b := d.Methods[i], d.Methods[j]
		return a.Class < b.Class || a.Class == b.Class && a.Sel < b.Sel
	})
	var b bytes.Buffer
	b.WriteString("// Code generated from data/selectors.json by go run ./tests/metalsim/gen. DO NOT EDIT.\n" +
		"// SPDX-License-Identifier: Apache-2.0\n#include \"sim.h\"\n\nconst ms_class_decl ms_class_table[] = {\n")
	for _, c := range d.Classes {
		v, err := version(c.Since)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\t{%q, %q, %q, %d, %d},\n", c.Name, c.Super, strings.Join(c.Protocols, ","), v, boolInt(c.Protocol))
	}
	fmt.Fprintf(&b, "};\nconst int ms_class_table_n = %d;\n\nconst ms_decl ms_method_table[] = {\n", len(d.Classes))
	for _, m := range d.Methods {
		v, err := version(m.Since)
		if err != nil {
			return nil, err
		}
		own, ok := owns[m.Own]
		if !ok {
			return nil, fmt.Errorf("gen: %s %s: ownership %q", m.Class, m.Sel, m.Own)
		}
		mask := 0
		for _, i := range m.Nullable {
			mask |= 1 << i
		}
		if m.Private {
			own += " | MS_PRIVATE"
		}
		fmt.Fprintf(&b, "\t{%q, %q, %q, %q, %#x, %s, %d},\n", m.Class, m.Sel, m.Enc, strings.Join(m.Args, "|"), mask, own, v)
	}
	fmt.Fprintf(&b, "};\nconst int ms_method_table_n = %d;\n", len(d.Methods))
	return b.Bytes(), nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// version turns "13.2" into 130200; empty is 0, always there.
func version(s string) (int, error) {
	v := 0
	for i, p := range strings.SplitN(s+"..", ".", 4)[:3] {
		n := 0
		if p != "" {
			var err error
			if n, err = strconv.Atoi(p); err != nil || n > 99 {
				return 0, fmt.Errorf("gen: macOS version %q", s)
			}
		}
		v += n * []int{10000, 100, 1}[i]
	}
	return v, nil
}
