// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// EnvShared overrides where the shared folder is looked for.
const EnvShared = "MAST3R_SHARED"

var findShared = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(EnvShared); dir != "" {
		_, err := os.Stat(filepath.Join(dir, "golden"))
		return dir, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	// Beside the repository means in a parent of the test's directory.
	for {
		shared := filepath.Join(dir, "shared")
		if _, err := os.Stat(filepath.Join(shared, "golden")); err == nil {
			return shared, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no folder shared/golden above the test's directory")
		}
		dir = parent
	}
})

// Path joins elem to the shared folder, for example Path(tb, "golden", "tiny").
// It skips the test when the folder or that path in it is not there.
func Path(tb testing.TB, elem ...string) string {
	tb.Helper()
	dir, err := findShared()
	if err != nil {
		tb.Skipf("golden data not found (%v; set %s)", err, EnvShared)
	}
	p := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		tb.Skipf("golden data not found (%v)", err)
	}
	return p
}

// ReadJSON decodes a file of the shared folder into v.
func ReadJSON(tb testing.TB, path string, v any) {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		tb.Fatal(fmt.Errorf("golden: %s: %w", path, err))
	}
}
