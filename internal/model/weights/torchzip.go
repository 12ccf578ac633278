// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// archive is the zip of torch.save: ROOT/data.pkl, ROOT/data/KEY for each storage
// and some small entries, all stored without compression, ROOT being any name.
type archive struct {
	image    []byte
	pickle   []byte
	storages map[string]span
}

// span is a range of the image.
type span struct{ begin, end int }

// openArchive lists the archive. The checksums are left alone: to verify them
// would be to read the whole file, which opening a mapped one is meant to avoid.
func openArchive(image []byte) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(image), int64(len(image)))
	// Names that would escape a directory are harmless here: nothing is extracted.
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, archiveError("", err.Error(), "a complete zip archive (is the file cut short?)")
	}
	root, err := archiveRoot(z)
	if err != nil {
		return nil, err
	}
	a := &archive{image: image, storages: map[string]span{}}
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, root)
		key, isStorage := strings.CutPrefix(name, "data/")
		if !ok || !isStorage && name != "data.pkl" && name != "byteorder" {
			continue
		}
		s, err := a.span(f)
		if err != nil {
			return nil, err
		}
		switch {
		case isStorage:
			if _, twice := a.storages[key]; twice {
				return nil, &FormatError{Kind: KindDuplicate, Got: "entry " + Quoted(f.Name) + " twice", Want: "each entry once"}
			}
			a.storages[key] = s
		case name == "data.pkl":
			a.pickle = image[s.begin:s.end]
		case string(image[s.begin:s.end]) != "little":
			return nil, archiveError(f.Name, Quoted(string(image[s.begin:s.end])), `"little"`)
		}
	}
	return a, nil
}

// archiveRoot finds the one data.pkl and returns the folder it is in.
func archiveRoot(z *zip.Reader) (string, error) {
	root, found := "", 0
	for _, f := range z.File {
		if r, ok := strings.CutSuffix(f.Name, "data.pkl"); ok && (r == "" || strings.HasSuffix(r, "/")) {
			root = r
			found++
		}
	}
	if found != 1 {
		return "", archiveError("", fmt.Sprintf("%d entries named data.pkl", found), "one, as torch.save writes it")
	}
	return root, nil
}

// span is where an entry's bytes are. The directory at the end of the file says
// how long an entry is, a local header where it starts: both are the file's own
// word and checked against its size.
func (a *archive) span(f *zip.File) (span, error) {
	if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 {
		return span{}, archiveError(f.Name, fmt.Sprintf("compression method %d", f.Method), "entries that are not compressed")
	}
	begin, err := f.DataOffset()
	if err != nil {
		return span{}, archiveError(f.Name, err.Error(), "a local header")
	}
	size, n := f.UncompressedSize64, uint64(len(a.image))
	if begin < 0 || uint64(begin) > n || size > n-uint64(begin) {
		return span{}, archiveError(f.Name, fmt.Sprintf("%d bytes at %d", size, begin), fmt.Sprintf("an end within the %d bytes of the file", n))
	}
	return span{int(begin), int(begin) + int(size)}, nil
}

func archiveError(entry, got, want string) error {
	if entry != "" {
		got = "entry " + Quoted(entry) + ": " + got
	}
	return &FormatError{Kind: KindArchive, Got: got, Want: want}
}
