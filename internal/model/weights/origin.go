// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// Identity names a file across processes, for caches of what was made of it: its
// absolute path, and a version that changes with its size, its time of change, or
// the first megabyte or last 64 KiB of its bytes, where the formats keep their
// tables of contents. Hashing all of it would take longer than what a cache saves.
// Both are empty for a file in memory.
func (f *File) Identity() (path, version string) {
	if f.path == "" {
		return "", ""
	}
	f.identity.Do(func() {
		abs, err := filepath.Abs(f.path)
		if err != nil { // the working directory is gone: nobody can name the file
			return
		}
		const head, tail = 1 << 20, 64 << 10
		h := sha256.New()
		fmt.Fprintf(h, "%d %d\n", len(f.image), f.changed)
		h.Write(f.image[:min(head, len(f.image))])
		h.Write(f.image[max(0, len(f.image)-tail):])
		f.absolute, f.version = abs, hex.EncodeToString(h.Sum(nil)[:16])
	})
	return f.absolute, f.version
}
