// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// read is a place that reads a variable, not one that mentions a C constant:
// the name is quoted, or expanded by a shell.
var read = regexp.MustCompile(`["']MAST3R_[A-Z0-9_]+["']|\$\{?MAST3R_[A-Z0-9_]+|\bMAST3R_[A-Z0-9_]+=["'$\w]`)

// constants begin like variables and are names of the C interface or of a build.
var constants = regexp.MustCompile(`^MAST3R_(E_|F\d|I\d|U\d|BF|ABI|API|VERSION|OK|POINTS|CONF|DESC|PENDING|DONE|ALL|TINY|VIT|MICRO|MINI|H$|HPP$)`)

// TestEnvironmentIsDocumented: docs/environment.md names every variable that the
// sources read, and no other.
func TestEnvironmentIsDocumented(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go", "*.py", "*.sh", "*.yml", "Makefile").Output()
	if err != nil {
		t.Skipf("SKIPPED: no git checkout: %v", err)
	}
	used := map[string]string{}
	for _, path := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			continue // deleted and not yet committed
		}
		for _, m := range read.FindAllString(string(text), -1) {
			name := regexp.MustCompile(`MAST3R_[A-Z0-9_]+`).FindString(m)
			if !constants.MatchString(name) {
				used[name] = path
			}
		}
	}
	if len(used) < 10 {
		t.Fatalf("found %d variables, want at least 10: the search is broken", len(used))
	}
	for name, path := range used {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s reads %s, which docs/environment.md does not name", path, name)
		}
	}
	for _, name := range regexp.MustCompile("`(MAST3R_[A-Z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		if used[name[1]] == "" {
			t.Errorf("docs/environment.md names %s, which nothing reads", name[1])
		}
	}
}
