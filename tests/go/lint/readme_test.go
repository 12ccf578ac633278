// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeGo compiles the lines of Go in the README.
func TestReadmeGo(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(readme), "```go\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("README.md has no block of Go")
	}
	program := "package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/mast3r-runtime/mast3r-runtime/gomps\"\n)\n\n" +
		"func use(ctx context.Context, left, right gomps.Image) (any, any, error) {\n" +
		block + "\treturn points, matches, err\n}\n\nfunc main() { _, _, _ = use(context.Background(), gomps.Image{}, gomps.Image{}) }\n"
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "vet", file)
	command.Dir = filepath.Join("..", "..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, program)
	}
}
