// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

var update = flag.Bool("update", false, "write the files instead of comparing them")

const (
	root  = "../.."
	begin = "/* begin: " + notice + " */\n"
	end   = "/* end of the generated part */\n"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func header(t *testing.T) *Header {
	t.Helper()
	h, err := Parse(read(t, "capi/mast3r.h"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// between replaces what stands between the two marks of a text.
func between(t *testing.T, text, part string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("mast3r.hpp: no marks %q and %q", begin, end)
	}
	return head + begin + part + end + tail
}

// firstDifference names the first line in which two texts differ.
func firstDifference(got, want string) (line int, g, w string) {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		g, w = "(end)", "(end)"
		if i < len(a) {
			g = a[i]
		}
		if i < len(b) {
			w = b[i]
		}
		if g != w {
			return i + 1, g, w
		}
	}
	return 0, "", ""
}

func TestGeneratedFiles(t *testing.T) {
	h := header(t)
	structs, err := h.PythonStructs()
	if err != nil {
		t.Fatal(err)
	}
	python, err := h.PythonHeader()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"capi/exports.c":  h.Exports(),
		"capi/mast3r.hpp": between(t, read(t, "capi/mast3r.hpp"), h.Exceptions()),
		"python/mast3r_runtime/_library/structs.py": structs,
		"python/mast3r_runtime/_library/header.py":  python,
		"python/mast3r_runtime/_library/version.py": h.PythonVersion(),
	} {
		if *update {
			if err := os.WriteFile(filepath.Join(root, path), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if line, got, want := firstDifference(read(t, path), want); line != 0 {
			t.Errorf("%s:%d is\n\t%s\nand mast3r.h makes it\n\t%s\nrun: go test ./tools/bindings -update", path, line, got, want)
		}
	}
}

// What is written by hand must know every status: its name in guard.c, its exception in Python.
func TestEveryStatusIsKnown(t *testing.T) {
	guard, python := read(t, "capi/guard.c"), read(t, "python/mast3r_runtime/_library/calls.py")
	for _, name := range header(t).Errors() {
		if !strings.Contains(guard, "case MAST3R_E_"+name+":") {
			t.Errorf("capi/guard.c: mast3r_status_name does not know MAST3R_E_%s", name)
		}
		if !strings.Contains(python, "header.E_"+name+": errors.") {
			t.Errorf("_library/calls.py: no exception for header.E_%s", name)
		}
	}
}

// Every call that enters Go has its //export in capi.
func TestEveryCallIsExported(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "capi", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in capi: %v", err)
	}
	var exported []string
	for _, file := range files {
		for line := range strings.Lines(read(t, strings.TrimPrefix(file, root+"/"))) {
			if name, ok := strings.CutPrefix(line, "//export m3r_"); ok {
				exported = append(exported, "mast3r_"+strings.TrimSpace(name))
			}
		}
	}
	var declared []string
	for _, call := range header(t).Calls {
		if call.Result == "mast3r_status" {
			declared = append(declared, call.Name)
		}
	}
	for _, name := range declared {
		if !slices.Contains(exported, name) {
			t.Errorf("mast3r.h declares %s, capi exports no m3r_%s", name, strings.TrimPrefix(name, "mast3r_"))
		}
	}
	for _, name := range exported {
		if !slices.Contains(declared, name) {
			t.Errorf("capi exports what mast3r.h does not declare: %s", name)
		}
	}
}

// The limits of the header are those of the Go code.
func TestLimits(t *testing.T) {
	want := map[string]int{"THREADS": par.MaxThreads, "DIMS": eager.MaxDims}
	for _, c := range header(t).Defines {
		if _, name, ok := strings.Cut(c.Name, "_MAX_"); ok && want[name] != c.Value {
			t.Errorf("mast3r.h: %s is %d, in Go it is %d", c.Name, c.Value, want[name])
		}
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	good := read(t, "capi/mast3r.h")
	for name, change := range map[string][2]string{
		"a union":              {"typedef struct {", "typedef union {"},
		"an array parameter":   {"const char *path, mast3r_job", "const char path[8], mast3r_job"},
		"a function pointer":   {"mast3r_status mast3r_live(mast3r_stats *out);", "mast3r_status mast3r_live(void (*f)(int));"},
		"a number of no value": {"MAST3R_PENDING = 1,", "MAST3R_PENDING,"},
		"a define in words":    {"#define MAST3R_MAX_DIMS 8", "#define MAST3R_MAX_DIMS eight"},
		"no version":           {"#define MAST3R_VERSION", "#define MAST3R_OTHER"},
	} {
		if bad := strings.Replace(good, change[0], change[1], 1); bad == good {
			t.Errorf("%s: the header has no %q any more", name, change[0])
		} else if _, err := Parse(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	h, err := Parse(strings.Replace(good, "float min_confidence;", "long min_confidence;", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.PythonStructs(); err == nil || !strings.Contains(err.Error(), `match_options.min_confidence: mast3r.h: no Python type for "long"`) {
		t.Errorf("a type without a counterpart: %v", err)
	}
}
