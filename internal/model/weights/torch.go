// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/pickle"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Two more containers hold models: the zip archives of torch.save (a pickle of
// names, shapes and strides, and the numbers beside it, not compressed), and the
// plain pickle in which the retrieval codebook is published. Both give views
// into the mapping where the numbers lie as a Tensor wants them.

const zipMagic = "PK\x03\x04"

// legacyMagic is how torch.save began before version 1.6: a pickle of the number
// 0x1950a86a20f9469cfc6c.
const legacyMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

// content is what a container holds. The offset of a tensor that is no view into
// the image is -1.
type content struct {
	tensors []Tensor // in data order
	meta    map[string]string
}

// read tells the container by its first bytes and reads it.
func read(image []byte) (content, error) {
	switch {
	case bytes.HasPrefix(image, []byte(zipMagic)):
		return readTorch(image)
	case bytes.HasPrefix(image, []byte(legacyMagic)):
		return content{}, &FormatError{Kind: KindTorch, Got: "a file of torch.save before version 1.6",
			Want: "a zip archive (load the file and save it again with any newer PyTorch)"}
	case isPickle(image):
		return readCodebook(image)
	}
	entries, meta, data, err := parse(image)
	if err != nil {
		return content{}, err
	}
	c := content{meta: meta}
	for _, e := range entries {
		c.tensors = append(c.tensors, Tensor{
			Name: e.name, DType: e.dtype, Shape: e.shape, offset: data + e.begin,
			// The capacity ends with the tensor: append must not reach the next.
			Data: image[data+e.begin : data+e.end : data+e.end],
		})
	}
	return c, nil
}

// isPickle looks for a PROTO instruction. The header length of a safetensors file
// may have the same two bytes, but there a brace follows the eight.
func isPickle(image []byte) bool {
	return len(image) > 1 && image[0] == 0x80 && 2 <= image[1] && image[1] <= 5 && (len(image) < 9 || image[8] != '{')
}

// readTorch reads an archive that torch.save wrote.
func readTorch(image []byte) (content, error) {
	a, err := openArchive(image)
	if err != nil {
		return content{}, err
	}
	v, _, err := pickle.Decode(a.pickle)
	if err != nil {
		return content{}, &FormatError{Kind: KindPickle, Got: err.Error(), Want: "tensors, dicts and plain values"}
	}
	top, ok := v.(*pickle.Dict)
	if !ok {
		return content{}, &FormatError{Kind: KindNoModel, Got: fmt.Sprintf("a %s", pickle.TypeName(v)), Want: "a dict"}
	}
	model, err := stateDict(top)
	if err != nil {
		return content{}, err
	}
	c := content{}
	if c.meta, err = torchMetadata(top, model); err != nil {
		return content{}, err
	}
	budget := len(image) // for what cannot be a view
	for name, value := range model.All {
		if value == nil || strings.HasSuffix(name, "_extra_state") {
			continue // what a layer keeps beside its weights: usually nothing
		}
		t, ok := value.(*pickle.Tensor)
		if !ok {
			return content{}, &FormatError{Kind: KindNoModel, Tensor: name,
				Got: fmt.Sprintf("a %s", pickle.TypeName(value)), Want: "a tensor"}
		}
		if len(c.tensors) == maxTensors {
			return content{}, &FormatError{Kind: KindPickle, Got: "more tensors", Want: fmt.Sprintf("at most %d", maxTensors)}
		}
		w, err := a.tensor(name, t, &budget)
		if err != nil {
			return content{}, err
		}
		c.tensors = append(c.tensors, w)
	}
	slices.SortStableFunc(c.tensors, func(a, b Tensor) int { return a.offset - b.offset })
	return c, nil
}

// wrappers are the keys under which training scripts keep the weights, best first:
// "model" in NAVER's files, "state_dict" in many others.
var wrappers = []string{"model", "state_dict", "model_state_dict", "module", "net", "ema", "ema_state_dict", "model_ema"}

// stateDict finds the tensors by name: at the top, or under a wrapper's key, or under
// a wrapper of that.
func stateDict(top *pickle.Dict) (*pickle.Dict, error) {
	const deepest = 3
	d := top
	for range deepest {
		if holdsTensors(d) {
			return d, nil
		}
		inner, found := d, ""
		for _, key := range wrappers {
			v, ok := d.Get(key)
			if !ok {
				continue
			}
			if next, ok := v.(*pickle.Dict); ok {
				inner = next
				break
			}
			if found == "" {
				found = fmt.Sprintf("%s, a %s", Quoted(key), pickle.TypeName(v))
			}
		}
		if inner == d {
			if found != "" {
				return nil, &FormatError{Kind: KindNoModel, Got: found, Want: "a dict of tensors: model.state_dict(), not the model"}
			}
			break
		}
		if inner.Len() == 0 {
			return inner, nil
		}
		d = inner
	}
	var keys []string
	for key, v := range d.All {
		if len(keys) < 8 {
			keys = append(keys, fmt.Sprintf("%s, a %s", Quoted(key), pickle.TypeName(v)))
		}
	}
	return nil, &FormatError{Kind: KindNoModel, Got: fmt.Sprintf("%d keys: %v", d.Len(), keys),
		Want: `tensors, or a dict of them under ` + strings.Join(wrappers, ", ")}
}

// holdsTensors says whether a dict is one of tensors: all of its values are, or none.
func holdsTensors(d *pickle.Dict) bool {
	tensors := 0
	for _, v := range d.All {
		switch v.(type) {
		case *pickle.Tensor:
			tensors++
		case nil:
		default:
			return false
		}
	}
	return tensors > 0
}

// tensor places a pickled tensor in the archive's bytes.
func (a *archive) tensor(name string, t *pickle.Tensor, budget *int) (Tensor, error) {
	s, size := t.Storage, t.Storage.DType.Size()
	bad := func(kind Kind, got, want string) (Tensor, error) {
		return Tensor{}, &FormatError{Kind: kind, Tensor: name, Got: got, Want: want}
	}
	at, ok := a.storages[s.Key]
	if !ok {
		return bad(KindStorage, "no entry data/"+Quoted(s.Key), "the tensor's storage")
	}
	data := a.image[at.begin:at.end]
	if len(data)%size != 0 || len(data)/size != s.Numel {
		return bad(KindSize, fmt.Sprintf("a storage of %d bytes", len(data)), fmt.Sprintf("%d elements of %v", s.Numel, s.DType))
	}
	if err := t.Shape.Check(size); err != nil {
		return bad(KindShape, t.Shape.String(), err.Error())
	}
	out := Tensor{Name: name, DType: s.DType, Shape: t.Shape, offset: -1}
	n := t.Shape.Numel()
	if n == 0 {
		return out, nil
	}
	if !inside(t, s.Numel) {
		return bad(KindOffsets, fmt.Sprintf("offset %d, shape %v, strides %v", t.Offset, t.Shape, t.Stride),
			fmt.Sprintf("a view within the %d elements of storage %s", s.Numel, Quoted(s.Key)))
	}
	if contiguous(t.Shape, t.Stride) {
		out.offset = at.begin + t.Offset*size
		end := out.offset + n*size
		out.Data = a.image[out.offset:end:end]
		return out, nil
	}
	// A stride of 0 makes any number of elements out of one, and any number of
	// tensors may view one storage: copies may not outgrow the file.
	if n > *budget/size {
		return bad(KindShape, fmt.Sprintf("%v with strides %v", t.Shape, t.Stride), "contiguous tensors")
	}
	*budget -= n * size
	out.Data = gather(data[t.Offset*size:], size, t.Shape, t.Stride)
	return out, nil
}

// inside reports whether every element of a view lies in a storage of n elements.
// Each term is bounded before it is added: they come from the file.
func inside(t *pickle.Tensor, n int) bool {
	if t.Offset >= n {
		return false
	}
	last := t.Offset
	for i, d := range t.Shape {
		step := t.Stride[i]
		if d > 1 && step > 0 && d-1 > (n-1)/step {
			return false
		}
		if last += (d - 1) * step; d > 1 && last >= n {
			return false
		}
	}
	return last < n
}

// contiguous reports whether the strides are those of rows in order; the stride
// of a dimension of one element never counts.
func contiguous(shape tensor.Shape, stride []int) bool {
	want := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && stride[i] != want {
			return false
		}
		want *= shape[i]
	}
	return true
}

// gather copies a view's elements in row-major order.
func gather(data []byte, size int, shape tensor.Shape, stride []int) []byte {
	n := shape.Numel()
	out := make([]byte, 0, n*size)
	index := make([]int, len(shape))
	at := 0
	for range n {
		out = append(out, data[at*size:at*size+size]...)
		for i := len(shape) - 1; i >= 0; i-- {
			at += stride[i]
			if index[i]++; index[i] < shape[i] {
				break
			}
			at -= stride[i] * shape[i]
			index[i] = 0
		}
	}
	return out
}

// readCodebook reads {"state": {"centroids": array}}, or the array at the top,
// as the tensor "centroids".
func readCodebook(image []byte) (content, error) {
	v, _, err := pickle.Decode(image)
	if err != nil {
		return content{}, &FormatError{Kind: KindPickle, Got: err.Error(), Want: "a codebook: a dict with an array of centroids"}
	}
	const name = "centroids"
	for range 2 {
		d, ok := v.(*pickle.Dict)
		if !ok {
			break
		}
		if a, ok := d.Get(name); ok {
			array, ok := a.(*pickle.Array)
			if !ok {
				return content{}, &FormatError{Kind: KindNoModel, Tensor: name,
					Got: fmt.Sprintf("a %s", pickle.TypeName(a)), Want: "a numpy array"}
			}
			return content{tensors: []Tensor{arrayTensor(name, array, image)}}, nil
		}
		v, _ = d.Get("state")
	}
	return content{}, &FormatError{Kind: KindNoModel, Got: "a pickle without centroids",
		Want: `{"state": {"centroids": array}}`}
}

// arrayTensor is an array as a view into the image it was decoded from, or a copy
// in row-major order.
func arrayTensor(name string, a *pickle.Array, image []byte) Tensor {
	t := Tensor{Name: name, DType: a.DType, Shape: a.Shape, Data: a.Data, offset: -1}
	if a.Fortran {
		stride := make([]int, len(a.Shape))
		step := 1
		for i, d := range a.Shape {
			stride[i] = step
			step *= d
		}
		t.Data = gather(a.Data, a.DType.Size(), a.Shape, stride)
		return t
	}
	t.offset = offsetIn(image, a.Data)
	return t
}

// offsetIn is where in image the view lies, -1 when it lies elsewhere.
func offsetIn(image, view []byte) int {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(image)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(view)))
	if len(view) == 0 || at < base || at-base >= uintptr(len(image)) {
		return -1
	}
	return int(at - base)
}
