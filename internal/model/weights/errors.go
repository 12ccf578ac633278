// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"errors"
	"strconv"
	"strings"
)

// Kind says what is wrong with a model file.
type Kind uint8

// The kinds of damage. Each has a sentinel error of the same name, for
// errors.Is.
const (
	KindTruncated Kind = iota + 1
	KindLFSPointer
	KindTorch
	KindHeaderSize
	KindHeader
	KindDuplicate
	KindDType
	KindShape
	KindSize
	KindOffsets
	KindOverlap
	KindHole
	KindTrailing
	KindMissing
	KindMismatch
	KindConflict
	KindArchive
	KindStorage
	KindPickle
	KindNoModel
	KindUnsupported
	KindForeign
	KindValues
)

// The sentinels; ErrFormat is true of each of them.
var (
	ErrFormat     = errors.New("weights: bad model file")
	ErrTruncated  = errors.New("weights: file ends too early")
	ErrLFSPointer = errors.New("weights: git LFS pointer instead of the file")
	ErrTorch      = errors.New("weights: PyTorch file of the old kind")
	ErrHeaderSize = errors.New("weights: impossible header length")
	ErrHeader     = errors.New("weights: malformed header")
	ErrDuplicate  = errors.New("weights: duplicate key")
	ErrDType      = errors.New("weights: unknown dtype")
	ErrShape      = errors.New("weights: impossible shape")
	ErrSize       = errors.New("weights: byte count does not fit shape and dtype")
	ErrOffsets    = errors.New("weights: offsets out of range")
	ErrOverlap    = errors.New("weights: overlapping tensors")
	ErrHole       = errors.New("weights: bytes that belong to no tensor")
	ErrTrailing   = errors.New("weights: bytes after the last tensor")
	ErrMissing    = errors.New("weights: missing tensor")
	ErrMismatch   = errors.New("weights: tensor of the wrong shape")
	ErrConflict   = errors.New("weights: one tensor under two names with different contents")

	ErrArchive     = errors.New("weights: damaged PyTorch archive")
	ErrStorage     = errors.New("weights: tensor without its storage")
	ErrPickle      = errors.New("weights: pickle that is not read here")
	ErrNoModel     = errors.New("weights: no model in the file")
	ErrUnsupported = errors.New("weights: a model of another kind")
	ErrValues      = errors.New("weights: numbers that cannot be used")
	ErrForeign     = errors.New("weights: a file of another kind")
)

var kinds = [...]error{
	KindTruncated:  ErrTruncated,
	KindLFSPointer: ErrLFSPointer,
	KindTorch:      ErrTorch,
	KindHeaderSize: ErrHeaderSize,
	KindHeader:     ErrHeader,
	KindDuplicate:  ErrDuplicate,
	KindDType:      ErrDType,
	KindShape:      ErrShape,
	KindSize:       ErrSize,
	KindOffsets:    ErrOffsets,
	KindOverlap:    ErrOverlap,
	KindHole:       ErrHole,
	KindTrailing:   ErrTrailing,
	KindMissing:    ErrMissing,
	KindMismatch:   ErrMismatch,
	KindConflict:   ErrConflict,

	KindArchive:     ErrArchive,
	KindStorage:     ErrStorage,
	KindPickle:      ErrPickle,
	KindNoModel:     ErrNoModel,
	KindUnsupported: ErrUnsupported,
	KindForeign:     ErrForeign,
	KindValues:      ErrValues,
}

// FormatError is the error of every function that reads a model file, other
// than those of the operating system.
type FormatError struct {
	Kind   Kind
	Path   string // the file, "" for bytes in memory
	Tensor string // the tensor, "" when the damage is not in one
	Got    string
	Want   string
}

// Error prints what is known: kind, file, tensor, got, want.
func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(e.sentinel().Error())
	sep := ": "
	for _, p := range []struct{ label, text string }{
		{"file ", Quoted(e.Path)}, {"tensor ", Quoted(e.Tensor)}, {"got ", e.Got}, {"want ", e.Want},
	} {
		if p.text != "" {
			b.WriteString(sep + p.label + p.text)
			sep = ", "
		}
	}
	return b.String()
}

// Is makes errors.Is(err, ErrFormat) and errors.Is(err, ErrTruncated), ... work.
func (e *FormatError) Is(target error) bool {
	return target == ErrFormat || target == e.sentinel()
}

func (e *FormatError) sentinel() error {
	if int(e.Kind) < len(kinds) && kinds[e.Kind] != nil {
		return kinds[e.Kind]
	}
	return ErrFormat
}

// Quoted puts a name or a path of a stranger into an error text: on one line, and
// short, since a tensor name may have as many bytes as the header. A backslash stays
// one, for Windows paths are full of them.
func Quoted(s string) string {
	const most = 200
	tail := ""
	if len(s) > most {
		s, tail = s[:most], "..."
	}
	if s == "" {
		return ""
	}
	return strings.ReplaceAll(strconv.Quote(s), `\\`, `\`) + tail
}
