// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// public are the packages that other modules may import.
var public = []string{"gomps", "gomps/tensor", "gomps/tensor/executor", "gomps/geometry"}

// TestPublicTypes: no exported name of a public package has an internal type in its
// signature. Nobody outside can name such a type, and godoc does not show it.
func TestPublicTypes(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "gc", compiled(t))
	for _, path := range public {
		pkg, err := imp.Import(module + path)
		if err != nil {
			t.Fatal(err)
		}
		scope := pkg.Scope()
		for _, name := range scope.Names() {
			o := scope.Lookup(name)
			if !o.Exported() {
				continue
			}
			v := visitor{seen: map[types.Type]bool{}}
			if n, ok := o.(*types.TypeName); ok {
				if n.IsAlias() {
					v.visit(types.Unalias(n.Type()))
				} else {
					v.named(n.Type().(*types.Named))
				}
			} else {
				v.visit(o.Type())
			}
			for _, leak := range v.leaks {
				t.Errorf("%s.%s shows the internal type %s", path, name, leak)
			}
		}
	}
}

// compiled finds the export data of the public packages and of all that they import.
func compiled(t *testing.T) importer.Lookup {
	t.Helper()
	args := []string{"list", "-deps", "-export", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, p := range public {
		args = append(args, module+p)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// visitor walks what a user sees of a type.
type visitor struct {
	seen  map[types.Type]bool
	leaks []string
}

// named walks a type of the package itself: its exported fields and methods.
func (v *visitor) named(n *types.Named) {
	for m := range types.NewMethodSet(types.NewPointer(n)).Methods() {
		if m.Obj().Exported() {
			v.visit(m.Type())
		}
	}
	v.visit(n.Underlying())
}

func (v *visitor) visit(t types.Type) {
	if t == nil || v.seen[t] {
		return
	}
	v.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), module+"internal/") {
			v.leaks = append(v.leaks, t.String())
		}
	case *types.Alias:
		v.visit(types.Unalias(t))
	case *types.Pointer:
		v.visit(t.Elem())
	case *types.Slice:
		v.visit(t.Elem())
	case *types.Array:
		v.visit(t.Elem())
	case *types.Chan:
		v.visit(t.Elem())
	case *types.Map:
		v.visit(t.Key())
		v.visit(t.Elem())
	case *types.Tuple:
		for x := range t.Variables() {
			v.visit(x.Type())
		}
	case *types.Signature:
		v.visit(t.Params())
		v.visit(t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				v.visit(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			v.visit(m.Type())
		}
	}
}
