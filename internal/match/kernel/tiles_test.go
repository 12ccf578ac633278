// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && !noasm

package kernel

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// The assembly for matrix tiles does what a plain loop does, also where the processor has no
// tiles: testdata/tiles.c runs it there, and does what the tiles would.
func TestTileAssembly(t *testing.T) {
	if !isa.AVX512.Usable() {
		t.Skip("the assembly for tiles was NOT run: no AVX-512 here")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("the assembly for tiles was NOT run: gcc is not installed")
	}
	if isa.AVX512AMX.Usable() {
		t.Skip("here the other tests run it")
	}
	program := filepath.Join(t.TempDir(), "tiles")
	build := exec.Command(gcc, "-O2", "-fomit-frame-pointer", "-Wall", "-Werror", "-o", program, filepath.Join("testdata", "tiles.c"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range functions(t, self) {
		out, err := exec.Command(program, self, fmt.Sprint(at[0]), fmt.Sprint(at[1]), name).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// functions finds the functions of tiles in a program: their places in the file, and sizes.
// Go's own table has them, also where symbols are stripped.
func functions(t *testing.T, program string) map[string][2]uint64 {
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := file.Section(".text")
	lines, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(lines, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][2]uint64{}
	for _, f := range table.Funcs {
		_, name, _ := strings.Cut(strings.TrimSuffix(f.Name, ".abi0"), "/kernel.")
		// There may be a short one of that name that Go calls, and which calls the other.
		if size := f.End - f.Entry; strings.Contains(name, "AMX") && !strings.HasSuffix(name, "Go") && size > found[name][1] {
			found[name] = [2]uint64{f.Entry - text.Addr + text.Offset, size}
		}
	}
	for _, name := range []string{"stripAMX", "stripRowAMX", "cellsAMX"} {
		if found[name][1] < 100 {
			t.Fatalf("%s is not in the table of functions", name)
		}
	}
	return found
}
