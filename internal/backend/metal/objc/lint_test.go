// SPDX-License-Identifier: Apache-2.0

package objc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	_ "github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// appleMethod is what the tables say about one method.
type appleMethod struct {
	enc   string
	since objc.Version // zero: macOS 12.1 or earlier
}

// table maps "-[Class selector]" to Apple's declaration.
type table map[string]appleMethod

// supplement holds methods that the harvested tables lack although Apple's
// public headers have them: the harvest dropped the encoder's dispatch calls.
// MTL4ComputeCommandEncoder's method of the same name is in the table and has
// the same encoding.
var supplement = table{
	"-[MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:]": {"v72@0:8{?=QQQ}16{?=QQQ}40", objc.Version{}},
}

// lint compares one declaration with the table.
func (t table) lint(d *objc.Decl) error {
	m, ok := t[d.String()]
	if !ok {
		return fmt.Errorf("%v is not in Apple's table", d)
	}
	if want, got := objc.Normalize(m.enc), objc.Encode(d.Func); got != want {
		return fmt.Errorf("%v: declared %s, Apple has %s", d, got, want)
	}
	if m.since == (objc.Version{}) && d.Since.AtLeast(objc.V(12, 2)) || m.since != (objc.Version{}) && d.Since != m.since {
		return fmt.Errorf("%v: declared since macOS %v, Apple has %v", d, d.Since, m.since)
	}
	if !objc.MinimumMacOS.AtLeast(d.Since) {
		return fmt.Errorf("%v exists since macOS %v only, %v is claimed", d, d.Since, objc.MinimumMacOS)
	}
	return nil
}

// up finds a path in a folder above the test's.
func up(t *testing.T, path string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if p := filepath.Join(dir, path); fileExists(p) {
			return p
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

func fileExists(p string) bool { _, err := os.Stat(p); return err == nil }

func version(t *testing.T, s string) objc.Version {
	t.Helper()
	if s == "" || strings.HasPrefix(s, "<=") {
		return objc.Version{}
	}
	var v objc.Version
	if _, err := fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor); err != nil {
		t.Fatalf("version %q: %v", s, err)
	}
	return v
}

// readTrimmed reads the repository's own copy of the table.
func readTrimmed(t *testing.T) table {
	path := up(t, "tests/metalsim/data/selectors.json")
	if path == "" {
		t.Skip("tests/metalsim/data/selectors.json is not there")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Methods []struct{ Class, Sel, Enc, Since string }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	tab := table{}
	for _, m := range doc.Methods {
		v := version(t, m.Since)
		if objc.V(12, 1).AtLeast(v) {
			v = objc.Version{}
		}
		tab[fmt.Sprintf("%s[%s %s]", m.Sel[:1], m.Class, m.Sel[1:])] = appleMethod{m.Enc, v}
	}
	return tab.with(supplement)
}

func (t table) with(more table) table {
	for k, m := range more {
		if _, ok := t[k]; !ok {
			t[k] = m
		}
	}
	return t
}

// readFull reads the whole harvested table, where it is at hand.
func readFull(t *testing.T) table {
	path := os.Getenv("MAST3R_SHARED")
	if path == "" {
		path = up(t, "shared")
	}
	path = filepath.Join(path, "apple", "selectors.json")
	if !fileExists(path) {
		t.Skip("the full table of Apple's selectors is not there")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type method struct {
		Class, Selector, Kind, Return string
		Args                          []string
		Since                         string `json:"since_macos"`
		FirstSeen                     string `json:"runtime_first_seen"`
		Encoding                      string `json:"objc_encoding_arm64"`
	}
	var doc struct {
		Selectors []method
		Private   []method `json:"private_spi"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Private {
		m.Since = m.FirstSeen
		doc.Selectors = append(doc.Selectors, m)
	}
	tab := table{}
	for _, m := range doc.Selectors {
		enc := m.Encoding
		if enc == "" {
			enc = m.Return + "@:" + strings.Join(m.Args, "")
		}
		sign := map[string]string{"class": "+", "instance": "-"}[m.Kind]
		v := version(t, m.Since)
		if objc.V(12, 1).AtLeast(v) {
			v = objc.Version{}
		}
		tab[fmt.Sprintf("%s[%s %s]", sign, m.Class, m.Selector)] = appleMethod{enc, v}
	}
	return tab.with(supplement)
}

func TestDeclarationsMatchApple(t *testing.T) {
	for name, read := range map[string]func(*testing.T) table{"trimmed": readTrimmed, "full": readFull} {
		t.Run(name, func(t *testing.T) {
			tab := read(t)
			decls := objc.Declared()
			if len(decls) < 120 {
				t.Fatalf("only %d selectors are declared: is a package missing from this test?", len(decls))
			}
			for _, d := range decls {
				if err := tab.lint(d); err != nil {
					t.Error(err)
				}
				if err := objc.CheckABI(d.Func); err != nil {
					t.Errorf("%v: %v", d, err)
				}
			}
		})
	}
}

// TestLintCatches plants a fault of each kind that the lint exists for.
func TestLintCatches(t *testing.T) {
	tab := table{
		"-[A f:]": {"v20@0:8f16", objc.Version{}},
		"+[A g:]": {"@24@0:8@16", objc.V(14, 0)},
		"-[A h]":  {"Q16@0:8", objc.V(26, 0)},
	}
	type id = objc.ID
	good := []objc.Decl{
		{Class: "A", Selector: "f:", Kind: objc.KindInstance, Since: objc.V(12, 1), Func: reflect.TypeFor[func(id, float32)]()},
		{Class: "A", Selector: "g:", Kind: objc.KindClass, Since: objc.V(14, 0), Func: reflect.TypeFor[func(objc.Class, id) id]()},
	}
	for _, d := range good {
		if err := tab.lint(&d); err != nil {
			t.Errorf("a right declaration: %v", err)
		}
	}
	bad := map[string]objc.Decl{
		"double for float":    {Class: "A", Selector: "f:", Kind: objc.KindInstance, Since: objc.V(12, 1), Func: reflect.TypeFor[func(id, float64)]()},
		"result forgotten":    {Class: "A", Selector: "g:", Kind: objc.KindClass, Since: objc.V(14, 0), Func: reflect.TypeFor[func(objc.Class, id)]()},
		"instance for class":  {Class: "A", Selector: "g:", Kind: objc.KindInstance, Since: objc.V(14, 0), Func: reflect.TypeFor[func(id, id) id]()},
		"wrong availability":  {Class: "A", Selector: "g:", Kind: objc.KindClass, Since: objc.V(13, 0), Func: reflect.TypeFor[func(objc.Class, id) id]()},
		"newer than we claim": {Class: "A", Selector: "h", Kind: objc.KindInstance, Since: objc.V(26, 0), Func: reflect.TypeFor[func(id) uint64]()},
		"no such method":      {Class: "A", Selector: "i", Kind: objc.KindInstance, Func: reflect.TypeFor[func(id) uint64]()},
		"signedness":          {Class: "A", Selector: "h", Kind: objc.KindInstance, Since: objc.V(26, 0), Func: reflect.TypeFor[func(id) int64]()},
	}
	for name, d := range bad {
		if tab.lint(&d) == nil {
			t.Errorf("%s: the lint saw nothing", name)
		}
	}
}

func TestLoadWithoutMetal(t *testing.T) {
	if os.Getenv("MAST3R_OBJC_SIM") != "" {
		t.Skip("a simulator is set")
	}
	if err := objc.Load(); err != nil && !errors.Is(err, objc.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
