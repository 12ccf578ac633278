// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mast3r-runtime/mast3r-runtime/"

// arrows are the imports that a package of this module may have from this
// module. Test files may import more; a package that is not listed fails.
var arrows = map[string][]string{
	"internal/tensor":                 {},
	"internal/par":                    {},
	"internal/fault":                  {},
	"internal/newfile":                {},
	"internal/memory":                 {},
	"internal/isa":                    {},
	"internal/isa/encode":             {},
	"internal/graph":                  {"internal/tensor"},
	"internal/graph/ref":              {"internal/graph", "internal/tensor"},
	"internal/graph/passes":           {"internal/graph", "internal/graph/ref"},
	"internal/backend":                {"internal/backend/bufpool", "internal/graph"},
	"internal/backend/bufpool":        {"internal/memory"},
	"internal/model/weights":          {"internal/tensor", "internal/model/weights/pickle", "internal/fault", "internal/newfile"},
	"internal/model/weights/pickle":   {"internal/tensor"},
	"internal/model/weights/synth":    {"internal/model/weights", "internal/tensor", "internal/par"},
	"internal/model/preprocess":       {},
	"gomps/geometry":                  {},
	"internal/model/vit":              {"internal/graph", "internal/tensor", "internal/model/weights"},
	"internal/model/mast3r":           {"internal/graph", "internal/tensor", "internal/model/vit", "internal/model/weights"},
	"internal/model/da3":              {"internal/graph", "internal/tensor", "internal/model/vit", "internal/model/weights"},
	"internal/model":                  {"internal/graph", "internal/model/da3", "internal/model/mast3r", "internal/model/vit", "internal/model/weights"},
	"internal/backend/cpu/gemm":       {"internal/backend/cpu/vec", "internal/isa", "internal/par", "internal/tensor"},
	"internal/backend/cpu/gemm/gen":   {"internal/isa/encode"},
	"internal/backend/cpu/vec":        {"internal/isa", "internal/tensor"},
	"internal/backend/cpu/vec/gen":    {},
	"internal/backend/cpu":            {"internal/backend", "internal/backend/bufpool", "internal/backend/cpu/gemm", "internal/backend/cpu/vec", "internal/graph", "internal/graph/passes", "internal/graph/ref", "internal/par", "internal/tensor", "internal/fault", "internal/memory"},
	"internal/match":                  {"internal/match/kernel", "internal/par"},
	"internal/match/kernel":           {"internal/isa"},
	"internal/match/refine":           {"internal/match/refine/kernel", "internal/par"},
	"internal/match/refine/kernel":    {"internal/isa"},
	"internal/match/kernel/gen":       {"internal/isa/encode"},
	"internal/backend/metal/objc":     {},
	"internal/backend/metal/device":   {"internal/backend/bufpool", "internal/backend/metal/objc", "internal/par"},
	"internal/backend/metal/mpsgraph": {"internal/backend/metal/device", "internal/backend/metal/objc", "internal/tensor"},
	"internal/backend/metal":          {"internal/backend", "internal/backend/bufpool", "internal/backend/cpu/vec", "internal/graph", "internal/graph/passes", "internal/backend/metal/device", "internal/backend/metal/mpsgraph", "internal/backend/metal/objc", "internal/par", "internal/tensor", "internal/fault"},
	"internal/backend/xla/stablehlo":  {"internal/graph", "internal/tensor"},
	"internal/backend/xla/dl":         {},
	"internal/backend/xla/pjrt":       {"internal/backend/bufpool", "internal/backend/xla/dl"},
	"internal/backend/xla/faulty":     {"internal/backend/xla/dl"},
	"internal/backend/xla":            {"internal/backend", "internal/backend/bufpool", "internal/backend/cpu/vec", "internal/backend/xla/pjrt", "internal/backend/xla/stablehlo", "internal/graph", "internal/graph/passes", "internal/par", "internal/tensor"},
	"internal/backend/xla/cuda":       {"internal/backend/xla", "internal/backend/xla/dl"},
	"internal/backend/open":           {"internal/backend", "internal/backend/cpu", "internal/backend/metal", "internal/backend/selfcheck", "internal/backend/xla/cuda", "internal/par"},
	"internal/backend/selfcheck":      {"internal/backend", "internal/graph", "internal/model/mast3r", "internal/par", "internal/tensor", "internal/model/weights", "internal/model/weights/synth"},
	"internal/testing/golden":         {"internal/tensor", "internal/model/weights"},
	"internal/retrieval":              {"internal/par", "internal/tensor", "internal/model/weights"},
	"internal/graph/onnx":             {"internal/graph", "internal/graph/passes", "internal/tensor", "internal/newfile"},
	"gomps":                           {"gomps/geometry", "internal/backend", "internal/backend/open", "internal/graph/onnx", "internal/retrieval", "internal/graph", "internal/graph/passes", "internal/match", "internal/match/refine", "internal/backend/metal/device", "internal/model", "internal/model/da3", "internal/model/mast3r", "internal/model/vit", "internal/backend/metal", "internal/par", "internal/model/preprocess", "internal/backend/selfcheck", "internal/tensor", "internal/model/weights", "internal/model/weights/synth", "internal/fault", "internal/memory"},
	"gomps/tensor":                    {"internal/backend", "internal/backend/open", "internal/graph", "internal/tensor"},
	"gomps/tensor/executor":           {"gomps/tensor"},
	"capi":                            {"gomps", "gomps/geometry", "gomps/tensor", "gomps/tensor/executor", "internal/par", "internal/fault"},
	"capi/cmd/libmast3r":              {"capi", "internal/testing/metalsim/hook"},
	"capi/pyext":                      {"capi", "capi/pyext/hide", "gomps"},
	"capi/pyext/hide":                 {},
	"tests/go/lint":                   {},
	"tools/mutate":                    {},
	"tools/bindings":                  {},
}

// testSupport are packages that only tests import; they may import anything.
var testSupport = []string{"tests/", "internal/testing/", "benchmarks/"}

// file is a parsed Go file of the repository.
type file struct {
	path    string // from the root, slashes
	dir     string
	text    string
	tree    *ast.File
	fset    *token.FileSet
	test    bool
	written bool // by hand, not generated
}

func repository(t *testing.T) []file {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var files []file
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"build", "dist", "out", "testdata"}, d.Name())) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file{
			path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), text: string(text), tree: tree, fset: fset,
			test: strings.HasSuffix(rel, "_test.go"), written: !ast.IsGenerated(tree),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d Go files below %s: this is not the repository", len(files), root)
	}
	return files
}

func TestArrowsGoOneWay(t *testing.T) {
	used := map[string]bool{}
	for _, f := range repository(t) {
		if f.test || slices.ContainsFunc(testSupport, func(p string) bool { return strings.HasPrefix(f.dir+"/", p) }) {
			continue
		}
		allowed, ok := arrows[f.dir]
		if !ok {
			t.Errorf("%s: package %s has no row in the table of arrows", f.path, f.dir)
			continue
		}
		for _, imp := range f.tree.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(path, module); ok {
				used[f.dir+" -> "+ours] = true
				if !slices.Contains(allowed, ours) {
					t.Errorf("%s: %s must not import %s", f.path, f.dir, ours)
				}
			}
			if path == "C" && !strings.HasPrefix(f.dir, "capi") {
				t.Errorf("%s: cgo outside capi", f.path)
			}
		}
	}
	for from, list := range arrows {
		for _, to := range list {
			if !used[from+" -> "+to] && !slices.ContainsFunc(testSupport, func(p string) bool { return strings.HasPrefix(from+"/", p) }) {
				t.Errorf("the table of arrows lets %s import %s, which it does not", from, to)
			}
		}
	}
}

// TestInternalFitsOnAPage: the folders directly under internal are the parts of the
// project, few enough to keep in mind.
func TestInternalFitsOnAPage(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "internal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 || len(entries) > 12 {
		t.Errorf("%d entries under internal, want at most 12", len(entries))
	}
}

// TestOneDetection: only internal/isa asks the processor what it can do.
func TestOneDetection(t *testing.T) {
	for _, f := range repository(t) {
		for _, imp := range f.tree.Imports {
			if imp.Path.Value == `"golang.org/x/sys/cpu"` && f.dir != "internal/isa" {
				t.Errorf("%s imports x/sys/cpu; ask internal/isa", f.path)
			}
		}
	}
}

// TestGoStatements lets goroutines start only where a panic in them is caught, in
// par.Go or by a recover in the function itself: a panic in a bare goroutine ends
// the process of whoever loaded the library.
func TestGoStatements(t *testing.T) {
	for _, f := range repository(t) {
		if f.test || f.dir == "internal/par" || strings.HasPrefix(f.dir, "tests/") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			g, ok := n.(*ast.GoStmt)
			if ok && !recovers(g) {
				t.Errorf("%v: a go statement without a recover, use par.Go", f.fset.Position(g.Pos()))
			}
			return true
		})
	}
}

// recovers reports whether the function literal of a go statement defers a
// function that recovers.
func recovers(g *ast.GoStmt) bool {
	lit, ok := g.Call.Fun.(*ast.FuncLit)
	if !ok {
		return false
	}
	found := false
	for _, s := range lit.Body.List {
		d, ok := s.(*ast.DeferStmt)
		if !ok {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == "recover"
			return true
		})
	}
	return found
}

// TestNothingPrints: a library speaks through errors and slog.
func TestNothingPrints(t *testing.T) {
	for _, f := range repository(t) {
		if f.test || f.tree.Name.Name == "main" || strings.HasPrefix(f.dir, "tests/") {
			continue
		}
		for _, imp := range f.tree.Imports {
			if imp.Path.Value == `"log"` {
				t.Errorf("%s: package log in a library, want log/slog", f.path)
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if ok && (x.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Print") || x.Name == "os" && (s.Sel.Name == "Stdout" || s.Sel.Name == "Stderr" || s.Sel.Name == "Exit")) {
				t.Errorf("%v: %s.%s in a library", f.fset.Position(s.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
	}
}

func TestFilesAreReadable(t *testing.T) {
	const lines, function = 600, 90
	for _, f := range repository(t) {
		if !f.written {
			continue
		}
		if n := strings.Count(f.text, "\n"); n > lines {
			t.Errorf("%s has %d lines, want at most %d", f.path, n, lines)
		}
		if !strings.Contains(f.text, "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s has no SPDX line", f.path)
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line
			if n > function {
				t.Errorf("%v: %s has %d lines, want at most %d", f.fset.Position(fn.Pos()), fn.Name.Name, n, function)
			}
		}
	}
}

// TestPackagesAreDocumented wants a doc.go with a package comment.
func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	all := map[string]bool{}
	for _, f := range repository(t) {
		if f.test {
			continue
		}
		all[f.dir] = true
		if f.tree.Doc != nil && (filepath.Base(f.path) == "doc.go" || f.tree.Name.Name == "main") {
			documented[f.dir] = true
		}
	}
	for dir := range all {
		if !documented[dir] {
			t.Errorf("package %s has no doc.go with a package comment", dir)
		}
	}
}
