// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"go/printer"
	"strings"
	"testing"
)

// TestLocksAreDeferred wants every Lock to be followed by a defer of its Unlock. A
// panic passes through any statement between the two (a mapped file that was cut
// short, a cancelled region of par), and is turned into an error further up: a lock
// that stays taken would make the next call hang.
func TestLocksAreDeferred(t *testing.T) {
	for _, f := range repository(t) {
		if f.test || strings.HasPrefix(f.dir, "tests/") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				f.locks(t, n.List)
			case *ast.CaseClause:
				f.locks(t, n.Body)
			case *ast.CommClause:
				f.locks(t, n.Body)
			}
			return true
		})
	}
}

func (f file) locks(t *testing.T, list []ast.Stmt) {
	for i, s := range list {
		lock, ok := s.(*ast.ExprStmt)
		if !ok {
			continue
		}
		mutex, name := f.method(lock.X)
		if name != "Lock" && name != "RLock" {
			continue
		}
		want := mutex + "." + strings.Replace(name, "Lock", "Unlock", 1)
		if i+1 < len(list) {
			if d, ok := list[i+1].(*ast.DeferStmt); ok {
				if m, n := f.method(d.Call); m+"."+n == want {
					continue
				}
			}
		}
		t.Errorf("%v: %s.%s without a defer of %s in the next line", f.fset.Position(s.Pos()), mutex, name, want)
	}
}

// method splits x.y.Name() into "x.y" and "Name".
func (f file) method(e ast.Expr) (on, name string) {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) > 0 {
		return "", ""
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	var b strings.Builder
	if err := printer.Fprint(&b, f.fset, s.X); err != nil {
		return "", ""
	}
	return b.String(), s.Sel.Name
}

// TestUnfinishedFilesAreDeferred wants what removes an unfinished file to be
// deferred, for the same reason.
func TestUnfinishedFilesAreDeferred(t *testing.T) {
	for _, f := range repository(t) {
		if f.test || strings.HasPrefix(f.dir, "tests/") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if ok && fn.Name.Name == "Abort" {
				return false
			}
			s, ok := n.(*ast.ExprStmt)
			if !ok {
				return true
			}
			if on, name := f.method(s.X); name == "Abort" {
				t.Errorf("%v: %s.Abort without defer", f.fset.Position(s.Pos()), on)
			}
			return true
		})
	}
}
