// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// sources of this package: a change of the lowering must not find old packages.
//
//go:embed *.go
var sources embed.FS

// packages keeps compiled graphs on disk: DIR/KEY/graph.mpsgraphpackage and
// DIR/KEY/order.json. Weights are fed and are not in them.
//
// A damaged package is an exception inside Apple's code, which ends the process
// and cannot be caught from Go. So a package is written aside and renamed into
// place, its files are hashed before they are loaded, and while one is loaded and
// compiled a marker says so: one whose loading ended a process is removed and not tried
// again. What goes wrong is a warning; the graph is then compiled as ever.
type packages struct {
	dir    string
	system string // of the key: code, device, operating system
	log    *slog.Logger
}

const packageName, orderName, markerSuffix = "graph.mpsgraphpackage", "order.json", ".loading"

// record is order.json.
type record struct {
	mpsgraph.Order
	// Digest is over the package's files.
	Digest string `json:"digest"`
}

func newPackages(dir string, b *Backend, log *slog.Logger) *packages {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i := b.dev.Info()
	// MPSGraph compiles for the SDK that the program was linked with.
	system := fmt.Sprintf("%s %q %d %v %v %v", Identity(), i.Name, i.RegistryID, i.System, i.SDK, b.cfg.Attention)
	return &packages{dir: dir, system: system, log: log}
}

// Identity changes with this code and with the build of the operating system.
func Identity() string {
	h := sha256.New()
	fmt.Fprintf(h, "%x %x %s", mpsgraph.SourceHash(), mpsgraph.HashOf(sources), systemBuild())
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// key names the package of a graph: everything that the compiler sees. Of the
// weights it sees shapes and types; the least are constants.
func (c *packages) key(g *graph.Graph, opt backend.Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v\n%s", c.system, opt.Precision, g)
	for _, n := range g.Nodes {
		if p, ok := n.Op.(graph.Param); ok {
			fmt.Fprintf(h, "%d %v", n.ID, n)
			if len(p.Data) <= 16 {
				fmt.Fprintf(h, " %x", p.Data)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// compile takes the executable from disk, or makes and keeps it. Owner thread.
func (c *packages) compile(b *Backend, l *lowering, results []*mpsgraph.Tensor, opt backend.Options) (*mpsgraph.Executable, error) {
	if c == nil {
		return l.out.Compile(b.dev, l.feeds, results)
	}
	if err := l.out.Err(); err != nil {
		return nil, err
	}
	dir := filepath.Join(c.dir, c.key(l.src, opt))
	exe, err := c.load(b.dev, dir, l.feeds, results)
	if err == nil {
		return exe, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("a compiled graph on disk is not used", "path", dir, "reason", err)
	}
	if exe, err = l.out.Compile(b.dev, l.feeds, results); err != nil {
		return nil, err
	}
	if err := c.save(dir, exe); err != nil {
		c.log.Warn("a compiled graph was not kept on disk", "path", dir, "reason", err)
	}
	return exe, nil
}

// load reads a package that this code, on this system and device, has written.
// Whatever is wrong with it removes it: the next process compiles and keeps anew.
func (c *packages) load(dev *device.Device, dir string, feeds, results []*mpsgraph.Tensor) (*mpsgraph.Executable, error) {
	raw, err := os.ReadFile(filepath.Join(dir, orderName))
	if err != nil {
		return nil, err
	}
	// What cannot be used now never can be.
	drop := func(err error) error { return errors.Join(err, os.RemoveAll(dir)) }
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, drop(fmt.Errorf("%s: %w", orderName, err))
	}
	// Loading a package that is cut short ends the process, so that is asked first.
	path := filepath.Join(dir, packageName)
	if got, err := digest(path); err != nil || got != r.Digest {
		return nil, drop(fmt.Errorf("its files have changed (%v)", err))
	}
	done, err := c.mark(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	exe, err := mpsgraph.LoadPackage(dev, path, feeds, results, r.Order)
	if err != nil {
		return nil, drop(err)
	}
	return exe, nil
}

// mark says that dir is being loaded, by a file that is locked meanwhile. It fails
// when another process is at it, and removes dir when that process is no more.
func (c *packages) mark(dir string) (done func(), err error) {
	marker := dir + markerSuffix
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if lockFile(f) != nil {
		return nil, errors.Join(errors.New("another process is loading it"), f.Close())
	}
	ours, err1 := f.Stat()
	there, err2 := os.Stat(marker)
	if err1 != nil || err2 != nil || !os.SameFile(ours, there) {
		return nil, errors.Join(errors.New("another process was loading it"), f.Close())
	}
	before, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if len(before) > 0 { // with the lock free, of a process that is no more
		return nil, errors.Join(errors.New("loading it ended a process"), os.RemoveAll(dir), os.Remove(marker), f.Close())
	}
	if _, err = fmt.Fprintln(f, os.Getpid()); err != nil {
		return nil, errors.Join(err, os.Remove(marker), f.Close())
	}
	return func() { _ = errors.Join(os.Remove(marker), f.Close()) }, nil // left behind it only costs a compilation
}

// save writes aside and renames: a reader sees a whole package or none. The
// digest is of what was written, before anybody else could touch it.
func (c *packages) save(dir string, exe *mpsgraph.Executable) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(c.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, packageName)
	if err := exe.Save(path); err != nil {
		return err
	}
	r := record{Order: exe.Order()}
	if r.Digest, err = digest(path); err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, orderName), raw, 0o644); err != nil {
		return err
	}
	// Another process may have been first: its package is as good.
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

// digest is over the names and contents of all files below path.
func digest(path string) (string, error) {
	h := sha256.New()
	files := 0
	err := fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			return err
		}
		files++
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
		return nil
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("%s holds no file", path)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}
