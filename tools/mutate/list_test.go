// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every mutant of the list can be applied: its old text is in its file once.
func TestTheListFitsTheCode(t *testing.T) {
	text, err := os.ReadFile("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range all {
		code, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(code), m.old); n != 1 {
			t.Errorf("%s: its old text is in %s %d times, want once", m.id, m.file, n)
		}
		if m.old == m.changed || m.test == "" || seen[m.id] {
			t.Errorf("%s: changes nothing, has no test, or is there twice", m.id)
		}
		seen[m.id] = true
	}
	if len(all) < 200 {
		t.Errorf("only %d mutants", len(all))
	}
}
