// SPDX-License-Identifier: Apache-2.0

//go:build unix

package objc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// TestRemoveAtExit: the file goes when the process ends in its own time, and stays
// when it is aborted.
func TestRemoveAtExit(t *testing.T) {
	const file, how = "METALSIM_TEST_EXIT_FILE", "METALSIM_TEST_EXIT_HOW"
	if path := os.Getenv(file); path != "" {
		if err := objc.RemoveAtExit(path); err != nil {
			t.Fatal(err)
		}
		var end func(int32)
		f, err := purego.Dlsym(purego.RTLD_DEFAULT, os.Getenv(how))
		if err != nil {
			t.Fatal(err)
		}
		purego.RegisterFunc(&end, f)
		end(0)
	}
	for _, end := range []string{"exit", "abort"} {
		path := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestRemoveAtExit$", "-test.count=1")
		cmd.Env = append(os.Environ(), file+"="+path, how+"="+end)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (end == "exit") {
			t.Fatalf("%s: %v\n%s", end, err, out)
		}
		if _, err := os.Stat(path); os.IsNotExist(err) != (end == "exit") {
			t.Errorf("after %s: %v", end, err)
		}
	}
}
