// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

// TestCommittedFiles fails when the assembly in the parent folder is not what
// the generator writes, whichever of the two was edited.
func TestCommittedFiles(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from the generator's output: run go generate in internal/match/kernel", name)
		}
	}
}
