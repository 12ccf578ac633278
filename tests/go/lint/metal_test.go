// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOneDoorToObjectiveC: messages are sent through package objc, whose
// declarations are checked against Apple's table. purego's own Send is variadic,
// which puts small arguments where arm64 does not look for them.
func TestOneDoorToObjectiveC(t *testing.T) {
	for _, f := range repository(t) {
		for _, imp := range f.tree.Imports {
			switch path := strings.Trim(imp.Path.Value, `"`); {
			case path == "github.com/ebitengine/purego/objc":
				t.Errorf("%s: purego/objc sends variadic messages, use internal/backend/metal/objc", f.path)
			case path == "github.com/ebitengine/purego" && f.dir != "internal/backend/metal/objc":
				t.Errorf("%s: purego outside internal/backend/metal/objc", f.path)
			}
		}
	}
}

// TestSeededFaultsAreTested reads the table of faults in docs/metal.md: every row
// names tests that exist.
func TestSeededFaultsAreTested(t *testing.T) {
	dirs := map[string]string{"metaltest": "tests/go/metaltest", "objc": "internal/backend/metal/objc", "device": "internal/backend/metal/device",
		"mpsgraph": "internal/backend/metal/mpsgraph", "metal": "internal/backend/metal"}
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metal.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## Seeded faults")
	table, _, _ = strings.Cut(table, "\n## ")
	tests := map[string]map[string]bool{}
	for _, f := range repository(t) {
		if f.test {
			for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(f.text, -1) {
				if tests[f.dir] == nil {
					tests[f.dir] = map[string]bool{}
				}
				tests[f.dir][name[1]] = true
			}
		}
	}
	rows := 0
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(cells[1], "fault") || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		where := cells[3]
		packages := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(where, -1)
		if len(packages) == 0 {
			t.Errorf("no test is named for %q", cells[1])
		}
		for _, p := range packages {
			if dirs[p[1]] == "" {
				t.Errorf("%q is no package of the Metal path", p[1])
			}
		}
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(where, -1) {
			if !tests[dirs[packages[0][1]]][name] {
				t.Errorf("%s has no %s, which docs/metal.md names for %q", dirs[packages[0][1]], name, cells[1])
			}
		}
	}
	if rows < 12 {
		t.Errorf("only %d rows of seeded faults", rows)
	}
}
