// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
)

// cache keeps compiled programs in a folder. Its files may be deleted at any
// time; one that cannot be read or loaded is compiled anew and replaced.
type cache struct {
	dir string
	// device names plugin, device and driver, and the device's place among the client's: an
	// executable runs on nothing else.
	device string
	log    *slog.Logger
	others sync.Once // a folder of several users says once that they are
}

// errOthers: a file that another user may have written.
var errOthers = errors.New("not this user's own file")

func newCache(cfg Config, d *pjrt.Device, log *slog.Logger) *cache {
	c := d.Client()
	return &cache{dir: cfg.Cache, log: log,
		device: fmt.Sprintf("%s %s %s %s %d", c.Plugin().Version(), c.PlatformVersion, d.Kind, cfg.Key, d.Index())}
}

// magic begins a file; the digest of what follows is behind it.
const magic = "mast3r-xla-1\n"

// compile gives the executable of a text, from the folder where it is there.
func (k *cache) compile(d *pjrt.Device, text string, flags map[string]any) (_ *pjrt.Executable, cached bool, err error) {
	if k.dir == "" {
		x, err := d.Compile(text, flags)
		return x, false, err
	}
	name := filepath.Join(k.dir, k.key(text, flags)+".xla")
	if x := k.load(d, name); x != nil {
		return x, true, nil
	}
	x, err := d.Compile(text, flags)
	if err != nil {
		return nil, false, err
	}
	if err := k.store(x, name); err != nil {
		k.log.Warn("a compiled program is not kept", "file", name, "error", err)
	}
	return x, false, nil
}

// key names a program on a device.
func (k *cache) key(text string, flags map[string]any) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", k.device)
	for _, f := range slices.Sorted(maps.Keys(flags)) {
		fmt.Fprintf(h, "%s=%v\n", f, flags[f])
	}
	_, _ = io.WriteString(h, text) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))[:40]
}

// load is nil where the folder has no good copy.
func (k *cache) load(d *pjrt.Device, name string) *pjrt.Executable {
	data, err := readOwn(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errOthers), errors.Is(err, fs.ErrPermission):
		k.others.Do(func() {
			k.log.Warn("compiled programs of other users are not used: give each a folder", "file", name, "error", err)
		})
		return nil
	case err != nil:
		k.log.Warn("a compiled program cannot be read", "file", name, "error", err)
		return nil
	}
	// What is handed to XLA must be what XLA made: it may end the process otherwise.
	head := len(magic) + sha256.Size
	if len(data) < head || string(data[:len(magic)]) != magic || [sha256.Size]byte(data[len(magic):head]) != sha256.Sum256(data[head:]) {
		k.log.Warn("a compiled program is damaged: compiled anew", "file", name)
		return nil
	}
	x, err := d.Load(data[head:])
	if err != nil {
		k.log.Warn("a compiled program cannot be loaded: compiled anew", "file", name, "error", err)
		return nil
	}
	return x
}

// store writes a file that is complete or not there.
func (k *cache) store(x *pjrt.Executable, name string) error {
	data, err := x.Serialize()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(k.dir, ".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the renaming there is nothing to remove
	sum := sha256.Sum256(data)
	for _, part := range [][]byte{[]byte(magic), sum[:], data} {
		if _, err := f.Write(part); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
