// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// Sources are the files of this package: what is compiled depends on them, and
// so must the name of a package that is kept.
//
//go:embed *.go
var Sources embed.FS

var (
	executableClass   = objc.DeclareClass("MPSGraphExecutable", objc.V(12, 0))
	serializationDesc = objc.DeclareClass("MPSGraphExecutableSerializationDescriptor", objc.V(14, 0))

	initWithPackage       = objc.Instance[func(o, url, compilationDescriptor objc.ID) objc.ID]("MPSGraphExecutable", "initWithMPSGraphPackageAtURL:compilationDescriptor:", objc.V(14, 0))
	serializeToPackage    = objc.Instance[func(o, url, descriptor objc.ID)]("MPSGraphExecutable", "serializeToMPSGraphPackageAtURL:descriptor:", objc.V(14, 0))
	specialize            = objc.Instance[func(o, device, inputTypes, compilationDescriptor objc.ID)]("MPSGraphExecutable", "specializeWithDevice:inputTypes:compilationDescriptor:", objc.V(12, 0))
	setAppend             = objc.Instance[func(o objc.ID, append bool)]("MPSGraphExecutableSerializationDescriptor", "setAppend:", objc.V(14, 0))
	setDeploymentPlatform = objc.Instance[func(o objc.ID, deploymentPlatform uint64)]("MPSGraphExecutableSerializationDescriptor", "setDeploymentPlatform:", objc.V(14, 0))
)

// MPSGraphDeploymentPlatformMacOS.
const platformMacOS = 0

// Order is MPSGraph's order of feeds and results, as positions in the caller's:
// a package knows no tensors, so it must be kept beside it.
type Order struct {
	Feeds   []int `json:"feeds"`
	Results []int `json:"results"`
}

// Order is the one of a compiled executable.
func (e *Executable) Order() Order { return Order{slices.Clone(e.feedAt), slices.Clone(e.resultAt)} }

// check wants every position once and in range: it comes from a file. Feeds may be
// missing.
func (o Order) check(feeds, results int) error {
	for _, c := range []struct {
		what string
		at   []int
		n    int
	}{{"feed", o.Feeds, feeds}, {"result", o.Results, results}} {
		seen := make([]bool, c.n)
		for _, i := range c.at {
			if i < 0 || i >= c.n || seen[i] {
				return fmt.Errorf("mpsgraph: order of %ss %v of %d", c.what, c.at, c.n)
			}
			seen[i] = true
		}
	}
	if len(o.Results) != results {
		return fmt.Errorf("mpsgraph: order of %d results, want %d", len(o.Results), results)
	}
	return nil
}

// checkPath refuses what an NSString would not carry unchanged: another path would
// be written, or none, and there is no error to tell.
func checkPath(path string) error {
	if path == "" || !utf8.ValidString(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("mpsgraph: package path %q, want UTF-8 without NUL", path)
	}
	return nil
}

// Save writes e as a package, a folder that must not exist. MPSGraph reports no
// failure; that there is a folder afterwards is all that can be asked.
func (e *Executable) Save(path string) error {
	if e.id == 0 {
		return errors.New("mpsgraph: the executable was released")
	}
	if err := checkPath(path); err != nil {
		return err
	}
	var own objc.Owner
	defer own.Release()
	desc := own.Own(objc.New(serializationDesc))
	setAppend.Send(desc, false) // a package may hold several; this one is alone
	setDeploymentPlatform.Send(desc, platformMacOS)
	serializeToPackage.Send(e.id, objc.FileURL(path), desc)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("mpsgraph: save package: %w", err)
	}
	return nil
}

// LoadPackage reads an executable that Save wrote for the same graph on the same
// system and device, and compiles it: a package holds a portable module, which
// MPSGraph would otherwise compile in the first encoding. A damaged package is an
// exception, which ends the process: the caller must know that the files are
// those that were written.
func LoadPackage(dev *device.Device, path string, feeds, results []*Tensor, o Order) (*Executable, error) {
	if err := errors.Join(checkPath(path), o.check(len(feeds), len(results))); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("mpsgraph: load package: %w", err)
	}
	var own objc.Owner
	defer own.Release()
	desc := own.Own(objc.New(compilationDesc))
	setOptimizationLevel.Send(desc, level0)
	setWaitForCompilation.Send(desc, true)
	id := initWithPackage.Send(objc.Alloc(executableClass), objc.FileURL(path), desc)
	if id == 0 {
		return nil, fmt.Errorf("mpsgraph: package %q was refused", path)
	}
	setOptions.Send(id, optionsNone)
	types := make([]objc.ID, len(o.Feeds))
	for i, at := range o.Feeds {
		types[i] = own.Own(shapedType(feeds[at]))
	}
	specialize.Send(id, graphDevice.Send(graphDeviceClass.ID, dev.ID()), objc.Array(types), desc)
	return &Executable{id: id, execution: newExecution(), feeds: valuesOf(feeds), results: valuesOf(results), feedAt: o.Feeds, resultAt: o.Results}, nil
}

// SourceHash identifies this package's code. A version number would have to be
// remembered at every change of the lowering; a hash remembers itself.
func SourceHash() [sha256.Size]byte { return HashOf(Sources) }

// HashOf is a hash of the names and contents of embedded files, tests left out.
func HashOf(files embed.FS) [sha256.Size]byte {
	h := sha256.New()
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		data, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(h, "%s %d\n", e.Name(), len(data))
		h.Write(data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
