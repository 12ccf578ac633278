// SPDX-License-Identifier: Apache-2.0

package torchfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Content is what a checkpoint holds beside its tensors.
type Content struct {
	Args map[string]any    // the argparse.Namespace under "args": strings, ints, bools
	Top  map[string]string // strings at the top
}

// Save writes a checkpoint. Data gives the bytes of tensor i in as many pieces as
// it likes; each tensor gets a storage of its own.
func Save(path string, specs []weights.Spec, c Content, data func(i int, write func([]byte) error) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	z := zip.NewWriter(file)
	// Raw, because sizes stand before the data in torch's files; no checksum is
	// made, and none is read.
	entry := func(name string, size int, fill func(func([]byte) error) error) error {
		w, err := z.CreateRaw(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store,
			UncompressedSize64: uint64(size), CompressedSize64: uint64(size)})
		if err != nil {
			return err
		}
		return fill(func(b []byte) error {
			_, err := w.Write(b)
			return err
		})
	}
	body, err := program(specs, c)
	if err != nil {
		return err
	}
	if err := entry("data.pkl", len(body), func(write func([]byte) error) error { return write(body) }); err != nil {
		return err
	}
	for i, s := range specs {
		size := s.Shape.Numel() * s.DType.Size()
		err := entry("data/"+strconv.Itoa(i), size, func(write func([]byte) error) error { return data(i, write) })
		if err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return file.Close()
}

// SaveTensors is Save for tensors in memory.
func SaveTensors(path string, tensors []weights.Tensor, c Content) error {
	specs := make([]weights.Spec, len(tensors))
	for i, t := range tensors {
		specs[i] = weights.Spec{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	return Save(path, specs, c, func(i int, write func([]byte) error) error { return write(tensors[i].Data) })
}

// storages are torch's names of element types.
var storages = map[tensor.DType]string{tensor.F32: "Float", tensor.F64: "Double", tensor.F16: "Half", tensor.BF16: "BFloat16"}

// assembler writes a pickle of protocol 2.
type assembler struct{ bytes.Buffer }

func (b *assembler) text(s string) {
	b.WriteByte('X')
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	b.WriteString(s)
}

func (b *assembler) number(n int) {
	b.WriteString("\x8a\x08")
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func (b *assembler) tuple(v []int) {
	b.WriteByte('(')
	for _, n := range v {
		b.number(n)
	}
	b.WriteByte('t')
}

func (b *assembler) value(v any) error {
	switch v := v.(type) {
	case string:
		b.text(v)
	case int:
		b.number(v)
	case bool:
		b.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	default:
		return fmt.Errorf("torchfile: argument of type %T, want string, int or bool", v)
	}
	return nil
}

// program is {"args": Namespace(...), ..., "model": OrderedDict(name=tensor, ...)}.
func program(specs []weights.Spec, c Content) ([]byte, error) {
	b := &assembler{}
	b.WriteString("\x80\x02}(")
	if c.Args != nil {
		b.text("args")
		b.WriteString("cargparse\nNamespace\n)\x81}(")
		for _, key := range slices.Sorted(maps.Keys(c.Args)) {
			b.text(key)
			if err := b.value(c.Args[key]); err != nil {
				return nil, err
			}
		}
		b.WriteString("ub")
	}
	for _, key := range slices.Sorted(maps.Keys(c.Top)) {
		b.text(key)
		b.text(c.Top[key])
	}
	b.text("model")
	b.WriteString("ccollections\nOrderedDict\n)R(")
	for i, s := range specs {
		kind, ok := storages[s.DType]
		if !ok {
			return nil, fmt.Errorf("torchfile: tensor %q: dtype %v, want a floating-point type", s.Name, s.DType)
		}
		b.text(s.Name)
		b.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		b.text("storage")
		b.WriteString("ctorch\n" + kind + "Storage\n")
		b.text(strconv.Itoa(i))
		b.text("cpu")
		b.number(s.Shape.Numel())
		b.WriteString("tQ")
		b.number(0)
		b.tuple(s.Shape)
		b.tuple(s.Shape.Strides())
		b.WriteString("\x89ccollections\nOrderedDict\n)RtR")
	}
	b.WriteString("uu.")
	return b.Bytes(), nil
}
