// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// citation is a document named in a comment or a string: network.md 4.1,
// docs/metal.md. A field such as s.md is none: documents have longer names.
var citation = regexp.MustCompile(`([\w./-]*\w\w\.md)\b(?: (\d+(?:\.\d+)?))?`)

// written are documents that programs write, and no file of the repository.
var written = []string{"bench.md", "table.md"}

// TestCitedDocumentsExist: a reader who meets "network.md 4.1" in a comment finds
// that document, and that section, in the repository.
func TestCitedDocumentsExist(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	documents := map[string]string{} // text by file name
	var sources []string
	suffixes := []string{".go", ".py", ".c", ".h", ".hpp", ".cpp", ".cu", ".s", ".sh", ".metal", ".toml", ".yml", "Makefile"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".github" && d.Name() != ".ci" || slices.Contains([]string{"build", "dist", "out", "testdata", "node_modules"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir():
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			documents[filepath.Base(path)] += string(text) + "\n"
			return err
		case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }):
			sources = append(sources, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cited := 0
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range citation.FindAllStringSubmatch(string(text), -1) {
			name, section := filepath.Base(m[1]), m[2]
			document, ok := documents[name]
			if slices.Contains(written, name) {
				continue
			}
			cited++
			if !ok {
				t.Errorf("%s cites %s, which is not in the repository", path, m[1])
			} else if section != "" && !hasSection(document, section) {
				t.Errorf("%s cites %s %s, and %s has no section %s", path, m[1], section, name, section)
			}
		}
	}
	if cited < 50 {
		t.Errorf("found %d citations, want at least 50: the search is broken", cited)
	}
}

// hasSection reports whether a document has a heading that begins with the number.
func hasSection(document, number string) bool {
	return regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(number) + `\b`).MatchString(document)
}

func TestCitations(t *testing.T) {
	for text, want := range map[string][]string{
		"// see network.md 4.1).":       {"network.md", "4.1"},
		"// docs/metal.md, the table":   {"docs/metal.md", ""},
		"s.md = e.f32(s.m)":             {},
		`os.ReadFile("docs/metal.md")`:  {"docs/metal.md", ""},
		"[RUNS.md](../training/RUNS.md": {"RUNS.md", ""},
	} {
		m := citation.FindStringSubmatch(text)
		if len(m) > 0 {
			m = m[1:]
		}
		if !slices.Equal(m, want) {
			t.Errorf("%q: got %q, want %q", text, m, want)
		}
	}
	if hasSection("## 12. Matching", "1") || !hasSection("### 4.1 RoPE", "4.1") {
		t.Error("sections are found by their whole number")
	}
}
