// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	verb     = regexp.MustCompile(`%[-+# 0-9.\[\]*]*[a-zA-Z%]`)
	pathName = regexp.MustCompile(`(?i)(path|dir|file|folder|where)s?$`)
)

// TestPathsAreQuotedOnce: %q and strconv.Quote write each backslash twice, and a path of Windows has
// many. Paths go through weights.Quoted, or into the text as they are. Files that Windows never
// compiles may do as they like.
func TestPathsAreQuotedOnce(t *testing.T) {
	formats := 0
	for _, f := range repository(t) {
		if f.test || strings.HasPrefix(f.dir, "tests/") || strings.HasPrefix(f.dir, "internal/testing/") ||
			strings.HasPrefix(f.dir, "internal/backend/metal") || strings.HasSuffix(f.path, "_unix.go") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range quoted(call) {
				formats++
				if name := lastName(arg); pathName.MatchString(name) {
					t.Errorf("%v: %s is a path, and quoted with its backslashes doubled", f.fset.Position(arg.Pos()), name)
				}
			}
			return true
		})
	}
	if formats < 50 {
		t.Fatalf("only %d quoted arguments found: this lint sees nothing", formats)
	}
}

// quoted gives the arguments of a call that it writes as Go strings.
func quoted(call *ast.CallExpr) []ast.Expr {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Quote" && len(call.Args) == 1 {
		return call.Args
	}
	for i, arg := range call.Args {
		literal, ok := arg.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		format, err := strconv.Unquote(literal.Value)
		if err != nil || !strings.Contains(format, "%q") {
			continue
		}
		var found []ast.Expr
		at := i + 1
		for _, v := range verb.FindAllString(format, -1) {
			if v == "%%" {
				continue
			}
			at += strings.Count(v, "*")
			if strings.HasSuffix(v, "q") && at < len(call.Args) {
				found = append(found, call.Args[at])
			}
			at++
		}
		return found
	}
	return nil
}

// lastName is the name that an expression ends with: e.Path of e.Path, path of string(path).
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.CallExpr:
		if len(e.Args) > 0 {
			return lastName(e.Args[len(e.Args)-1])
		}
		return lastName(e.Fun)
	}
	return ""
}
