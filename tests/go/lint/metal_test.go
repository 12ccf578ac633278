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
			case path == "github.com/ebitengine/purego" && f.dir != "internal/backend/metal/objc" && !strings.HasPrefix(f.dir, "internal/backend/xla/"):
				t.Errorf("%s: purego outside internal/backend/metal/objc and internal/backend/xla", f.path)
			}
		}
	}
}

// metalDirs are the packages that docs/metal.md names for tests.
var metalDirs = map[string]string{"metaltest": "tests/go/metaltest", "objc": "internal/backend/metal/objc", "device": "internal/backend/metal/device",
	"mpsgraph": "internal/backend/metal/mpsgraph", "metal": "internal/backend/metal", "selfcheck": "internal/backend/selfcheck",
	"optest": "tests/go/optest", "darwin": "tests/go/darwin", "lint": "tests/go/lint", "bufpool": "internal/backend/bufpool",
	"tensor": "gomps/tensor", "metalcost": "tests/go/metalcost"}

// section is a table of docs/metal.md.
func section(t *testing.T, title string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metal.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## "+title)
	table, _, _ = strings.Cut(table, "\n## ")
	return table
}

// testsOf are the names of the tests by folder.
func testsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
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
	return tests
}

// TestFindingsAreTested reads the table of what was believed: every row names
// tests that exist, or says that it was only read.
func TestFindingsAreTested(t *testing.T) {
	tests, rows := testsOf(t), 0
	for _, line := range strings.Split(section(t, "What was believed"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !regexp.MustCompile(`\d`).MatchString(cells[1]) {
			continue
		}
		rows++
		if strings.Contains(cells[3], "*Read only*") {
			continue
		}
		found := 0
		for _, where := range strings.Split(cells[5], ";") {
			p := regexp.MustCompile("`(\\w+)`").FindStringSubmatch(where)
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(where, -1) {
				found++
				if p == nil || !tests[metalDirs[p[1]]][name] {
					t.Errorf("docs/metal.md names %s in %q, which is not there", name, where)
				}
			}
			for _, path := range regexp.MustCompile("`(tests/[\\w/.]+)`").FindAllStringSubmatch(where, -1) {
				found++
				if _, err := os.Stat(filepath.Join("..", "..", "..", path[1])); err != nil {
					t.Errorf("docs/metal.md names %s: %v", path[1], err)
				}
			}
		}
		if found == 0 {
			t.Errorf("no test is named for %q", cells[2])
		}
	}
	if rows < 14 {
		t.Errorf("only %d rows of findings", rows)
	}
}

// TestSeededFaultsAreTested reads the table of faults in docs/metal.md: every row
// names tests that exist.
func TestSeededFaultsAreTested(t *testing.T) {
	table, tests, dirs, rows := section(t, "Seeded faults"), testsOf(t), metalDirs, 0
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
