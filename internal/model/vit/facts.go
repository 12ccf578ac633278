// SPDX-License-Identifier: Apache-2.0

package vit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ErrUnknown is in the chain of the error about files that hold no network of
// a known family.
var ErrUnknown = errors.New("no network of a known family")

// Unknown says that a set has none of the tensors by which a family is
// recognised.
func Unknown(s *weights.Set, marks []string) error {
	const some = 5
	names := s.Names()
	list := fmt.Sprintf("%.200q", names[:min(some, len(names))])
	if len(names) > some {
		list += ", ..."
	}
	return fmt.Errorf("model: %w: none of %s is among its %d tensors: %s", ErrUnknown, strings.Join(marks, ", "), len(names), list)
}

// Facts are what can be told of a network of any family. What a family does not
// have is 0.
type Facts struct {
	// Family is the package, Variant the name in the metadata or one told by the
	// dimensions.
	Family, Variant string
	// Patch is the side of a patch, Resolution the native long side, in pixels.
	Patch, Resolution int
	// The part that sees one picture alone, and the part that sees several.
	EncDim, EncDepth, EncHeads int
	DecDim, DecDepth, DecHeads int
	// Lead are the rows of a picture's features before those of its patches.
	Lead int
	// DescDim is the length of a descriptor.
	DescDim int
	// Parameters counts the numbers that are used.
	Parameters int64
}

// GridOf is the grid of a picture of network size.
func (f Facts) GridOf(height, width int) Grid { return Grid{height / f.Patch, width / f.Patch} }

// Grid is the size of a picture in patches.
type Grid struct{ Rows, Cols int }

// Tokens is Rows*Cols.
func (g Grid) Tokens() int { return g.Rows * g.Cols }

// CheckSize refuses pictures that are not made of whole patches.
func CheckSize(height, width, patch int) error {
	if height < patch || width < patch || height%patch != 0 || width%patch != 0 {
		return fmt.Errorf("model: picture of %dx%d (height x width), want multiples of the patch size %d", height, width, patch)
	}
	return nil
}

// CheckPictures refuses no pictures at all, and those that CheckSize refuses.
func CheckPictures(images, height, width, patch int) error {
	if images < 1 {
		return fmt.Errorf("model: %d pictures, want at least 1", images)
	}
	return CheckSize(height, width, patch)
}

// Check asks a set for every tensor of a network by building each part once, and
// counts the numbers that are used. The error names all tensors that are missing
// or misshapen.
func Check(s *weights.Set, variant string, parts ...func() (*graph.Graph, error)) (parameters int64, err error) {
	sizes := map[string]int{}
	var errs []error
	for _, part := range parts {
		g, err := part()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, n := range g.Nodes {
			if p, ok := n.Op.(graph.Param); ok && p.Name != "" {
				sizes[p.Name] = n.Numel()
			}
		}
	}
	if err := s.Report().Err(); err != nil {
		return 0, fmt.Errorf("model: %s: %w", variant, err)
	}
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("model: %s: %w", variant, err)
	}
	for _, n := range sizes {
		parameters += int64(n)
	}
	return parameters, nil
}

// Depth counts blocks; format has a %d. A file cannot make it run long: it stops
// at the first name that is missing.
func Depth(s *weights.Set, format string) int {
	n := 0
	for s.Has(fmt.Sprintf(format, n)) {
		n++
	}
	return n
}

// SquareSide is the side of the square of which a position table has one more
// row.
func SquareSide(name string, rows int) (int, error) {
	side := int(math.Round(math.Sqrt(float64(rows - 1))))
	if side < 1 || side*side != rows-1 {
		return 0, fmt.Errorf("model: %s has %d positions, want 1 + a square", name, rows)
	}
	return side, nil
}

// Shapes reads shapes and collects what is missing, so that one error names all
// of it.
type Shapes struct {
	Set  *weights.Set
	Errs []error
}

// Of is the shape of a tensor of the given rank; ones where it is missing.
func (s *Shapes) Of(name string, rank int) tensor.Shape {
	want := make(tensor.Shape, rank)
	for i := range want {
		want[i] = -1
	}
	t, err := s.Set.Need(name, want)
	if err != nil {
		s.Errs = append(s.Errs, err)
		return make(tensor.Shape, rank)
	}
	return t.Shape
}

// Metadata reads typed values out of a file's free-form strings and collects
// what cannot be read.
type Metadata struct {
	Values map[string]string
	Errs   []error
}

// Fail records that the value of key is not what was wanted.
func (m *Metadata) Fail(key, want string) {
	m.Errs = append(m.Errs, fmt.Errorf("model: metadata %q is %.80q, want %s", key, m.Values[key], want))
}

// Integer is a positive integer.
func (m *Metadata) Integer(key string, otherwise int) int {
	v, ok := m.Values[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		m.Fail(key, "a positive integer")
		return otherwise
	}
	return n
}

// Number is a positive number.
func (m *Metadata) Number(key string, otherwise float32) float32 {
	v, ok := m.Values[key]
	if !ok {
		return otherwise
	}
	f, err := strconv.ParseFloat(v, 32)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		m.Fail(key, "a positive number")
		return otherwise
	}
	return float32(f)
}

// Hooks are the four depths that a head reads.
func (m *Metadata) Hooks(otherwise [4]int) [4]int {
	const key = "dpt_hooks"
	v, ok := m.Values[key]
	if !ok {
		return otherwise
	}
	parts := strings.Split(v, ",")
	var h [4]int
	for i := range h {
		var err error
		if len(parts) == len(h) {
			h[i], err = strconv.Atoi(strings.TrimSpace(parts[i]))
		}
		if len(parts) != len(h) || err != nil {
			m.Fail(key, "four integers")
			return otherwise
		}
	}
	return h
}
