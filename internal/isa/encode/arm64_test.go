// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// word is an encoded instruction in generated code, its mnemonic behind it.
var word = regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.+)`)

// Words that the generated assembly of arm64 has for instructions are what another
// assembler makes of the mnemonics beside them.
func TestARM64Words(t *testing.T) {
	words := map[string]string{}
	for _, file := range []string{"../../backend/cpu/gemm/kern_arm64.s", "../../match/kernel/strip_arm64.s"} {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		found := word.FindAllSubmatch(text, -1)
		if len(found) < 100 || len(found) != bytes.Count(text, []byte("WORD")) {
			t.Fatalf("%s: %d words with mnemonics, of %d", file, len(found), bytes.Count(text, []byte("WORD")))
		}
		for _, m := range found {
			what := string(m[2])
			if was, ok := words[what]; ok && was != string(m[1]) {
				t.Errorf("%s: %s and %s", what, was, m[1])
			}
			words[what] = string(m[1])
		}
	}
	for _, what := range []string{"BFMMLA", "BFCVTN", "SMMLA", "SDOT", "FMLA"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(words)), func(s string) bool { return len(s) > len(what) && s[:len(what)+1] == what+" " }) {
			t.Errorf("no %s", what)
		}
	}
	mnemonics := slices.Sorted(maps.Keys(words))
	for i, got := range assembleARM64(t, mnemonics) {
		if want := words[mnemonics[i]]; fmt.Sprintf("%08x", got) != want {
			t.Errorf("%s: %s, want %08x", mnemonics[i], want, got)
		}
	}
}

// assembleARM64 returns the words of instructions.
func assembleARM64(t *testing.T, instructions []string) []uint32 {
	t.Helper()
	clang, err := exec.LookPath("clang-19")
	if err != nil {
		t.Skip("encodings of arm64 NOT compared: clang-19 is not installed")
	}
	var source bytes.Buffer
	for _, s := range instructions {
		fmt.Fprintln(&source, s)
	}
	out := filepath.Join(t.TempDir(), "words.o")
	c := exec.Command(clang, "--target=aarch64-linux-gnu", "-march=armv8.6-a", "-c", "-x", "assembler", "-o", out, "-")
	c.Stdin = &source
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil || len(code) != 4*len(instructions) {
		t.Fatalf("%d bytes for %d instructions: %v", len(code), len(instructions), err)
	}
	words := make([]uint32, len(instructions))
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words
}
