// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Case is one golden file: tensors, the strides they were subsampled with, and
// the noise of the reference.
type Case struct {
	Name string
	Meta map[string]string

	file  *weights.File
	noise map[string]struct {
		RelL2 float64 `json:"rel_l2"`
	}
}

// Load opens a safetensors file, with noise.json beside it if there is one.
// The file is closed when the test ends.
func Load(tb testing.TB, path string) *Case {
	tb.Helper()
	f, err := weights.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	c := &Case{Name: strings.TrimSuffix(filepath.Base(path), ".safetensors"), Meta: f.Metadata(), file: f}
	// How far the reference in float32 is from itself in float64, per tensor:
	// no implementation can be asked to be much closer than that.
	noise := filepath.Join(filepath.Dir(path), "noise.json")
	if _, err := os.Stat(noise); errors.Is(err, fs.ErrNotExist) {
		return c
	}
	var all map[string]map[string]struct {
		RelL2 float64 `json:"rel_l2"`
	}
	ReadJSON(tb, noise, &all)
	// The full-size files have no case name; their noise goes by variant and size.
	key := c.Meta["case"]
	if key == "" {
		key = c.Meta["variant"] + "_" + c.Meta["size"]
	}
	c.noise = all[key]
	return c
}

// Names lists the tensors in file order.
func (c *Case) Names() []string { return c.file.Names() }

// Has reports whether the case holds a tensor: many hold only the outputs.
func (c *Case) Has(name string) bool {
	_, ok := c.file.Tensor(name)
	return ok
}

// Tensor returns a tensor; the test fails at once when it is not there.
func (c *Case) Tensor(tb testing.TB, name string) weights.Tensor {
	tb.Helper()
	t, ok := c.file.Tensor(name)
	if !ok {
		tb.Fatalf("golden: %s has no tensor %q, it has %q", c.Name, name, c.Names())
	}
	return t
}

// Floats returns a tensor's values, in new memory, and its shape.
func (c *Case) Floats(tb testing.TB, name string) ([]float32, tensor.Shape) {
	tb.Helper()
	t := c.Tensor(tb, name)
	return t.Float32s(nil), t.Shape
}

// Ints returns the values of an integer tensor and its shape. All golden
// integers are far below 2^53, where float64 would begin to round.
func (c *Case) Ints(tb testing.TB, name string) ([]int, tensor.Shape) {
	tb.Helper()
	t := c.Tensor(tb, name)
	list := make([]int, t.Shape.Numel())
	for i, v := range t.Float64s(nil) {
		list[i] = int(v)
	}
	return list, t.Shape
}

// stride reads one of the subsampling strides, def when it is not given.
func (c *Case) stride(key string, def int) int {
	if v, err := strconv.Atoi(c.Meta[key]); err == nil {
		return v
	}
	return def
}
