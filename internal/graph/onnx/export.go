// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/newfile"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Options of an export.
type Options struct {
	// HalfWeights stores weights as float16; the arithmetic stays float32, the
	// model casts them back.
	HalfWeights bool
	// HalfCompute rounds the factors of products to float16, as a GPU multiplies them,
	// and stores the weights so. Everything between products, softmax, and the last
	// layers of the heads stay float32.
	HalfCompute bool
	// Attention writes attention as ONNX's own operator, for which runtimes have fused
	// kernels; it came with opset 23.
	Attention bool
	// Producer and Version are written into the model.
	Producer, Version string
	// Metadata are free-form strings of the model.
	Metadata map[string]string
}

// ErrUnsupported is in the chain of the error about an operation that has no
// ONNX form.
var ErrUnsupported = errors.New("no ONNX form")

// versions are those of the file format and of the operators: the oldest that have
// what is written.
func (o Options) versions() (ir, opset int64) {
	if o.Attention {
		return 11, 23
	}
	return 9, 20
}

const (
	// externalAlign is where ONNX Runtime can map a tensor by itself.
	externalAlign = 4096
	// inlineLimit: smaller tensors are clearer inside the model.
	inlineLimit = 1024
)

// Export writes g to path and, when it has weights, their bytes to
// path + ".data". Both appear under their names only when they are complete.
func Export(ctx context.Context, g *graph.Graph, path string, opt Options) (err error) {
	if opt.HalfWeights || opt.HalfCompute {
		if g, err = halved(g); err != nil {
			return err
		}
	}
	// Folding turns the position tables into plain constants; fusion is left to
	// the other runtime.
	if g, err = passes.Compose(g); err != nil {
		return err
	}
	if g, err = passes.Fold(g); err != nil {
		return err
	}
	if g, err = passes.Prune(g); err != nil {
		return err
	}
	data, err := create(path + ".data")
	if err != nil {
		return err
	}
	defer data.f.Abort()
	e := &exporter{ctx: ctx, opt: opt, data: data, names: map[int]string{}, halves: map[string]string{}}
	if err := e.graph(g); err != nil {
		return err
	}
	file, err := create(path)
	if err != nil {
		return err
	}
	defer file.f.Abort()
	if _, err := file.Write(e.model(g)); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	if e.external > 0 {
		if err := data.commit(); err != nil {
			return err
		}
	}
	return file.commit()
}

// halved rounds every float32 weight (a constant with a name) to float16. Those
// that only layers read are stored so; the others (tokens and position tables,
// on which arithmetic is done) keep the type and take the rounded values.
func halved(g *graph.Graph) (*graph.Graph, error) {
	layersOnly := make([]bool, len(g.Nodes))
	for i := range layersOnly {
		layersOnly[i] = true
	}
	for _, n := range g.Nodes {
		switch n.Op.(type) {
		case graph.Linear, graph.Conv2D, graph.ConvTranspose2D, graph.LayerNorm:
			continue
		}
		for _, x := range n.In {
			layersOnly[x.ID] = false
		}
	}
	var bad error
	half, err := passes.MapParams(g, func(n *graph.Node, p graph.Param) graph.Param {
		if p.Name == "" || p.DType != tensor.F32 {
			return p
		}
		if err := checkRange(p, tensor.F16); bad == nil {
			bad = err
		}
		return rounded(p, layersOnly[n.ID])
	})
	return half, errors.Join(bad, err)
}

// checkRange wants the numbers of a weight to be finite in another type.
func checkRange(p graph.Param, to tensor.DType) error {
	err := tensor.CheckRange(p.Data, p.DType, to)
	var e *tensor.RangeError
	if errors.As(err, &e) {
		e.Name = p.Name
		return fmt.Errorf("onnx: %w", err)
	}
	return nil
}

// rounded rounds a float32 constant to float16, and with half stores it so.
func rounded(p graph.Param, half bool) graph.Param {
	le := binary.LittleEndian
	data := make([]byte, 0, len(p.Data))
	for at := 0; at < len(p.Data); at += 4 {
		h := tensor.F16FromFloat32(math.Float32frombits(le.Uint32(p.Data[at:])))
		if half {
			data = le.AppendUint16(data, h)
		} else {
			data = le.AppendUint32(data, math.Float32bits(tensor.Float32FromF16(h)))
		}
	}
	p.Data = data
	if half {
		p.DType = tensor.F16
	}
	return p
}

// outFile becomes the file of its name on commit, and nothing otherwise.
type outFile struct {
	*bufio.Writer
	f    *newfile.File
	name string
	at   int64
}

func create(name string) (*outFile, error) {
	f, err := newfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	return &outFile{Writer: bufio.NewWriterSize(f, 1<<20), f: f, name: name}, nil
}

func (t *outFile) commit() error {
	err := t.Flush()
	if err == nil {
		err = t.f.Commit()
	}
	if err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	return nil
}

type exporter struct {
	ctx   context.Context
	opt   Options
	data  *outFile
	names map[int]string // of the values, by node ID
	// halves are float16 values by the float32 ones that stand for the same; read
	// marks the nodes that a product reads, directly or not.
	halves map[string]string
	read   []bool

	nodes, initializers [][]byte
	fresh               int
	external            int // tensors in the data file
}

// graph emits every node in order.
func (e *exporter) graph(g *graph.Graph) error {
	e.read = make([]bool, len(g.Nodes))
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		for _, x := range n.In {
			e.read[x.ID] = e.read[x.ID] || e.read[i] || isProduct(n)
		}
	}
	for _, n := range g.Nodes {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		var name string
		var err error
		switch o := n.Op.(type) {
		case graph.Input:
			name = o.Name
		case graph.Param:
			name, err = e.param(n, o)
		default:
			name, err = e.operation(n)
		}
		if err != nil {
			return fmt.Errorf("onnx: graph %q: %%%d: %w", g.Name, n.ID, err)
		}
		e.names[n.ID] = name
	}
	return nil
}

// param writes a constant; weights that are not float32 are cast where they are
// used.
func (e *exporter) param(n *graph.Node, p graph.Param) (string, error) {
	name := p.Name
	if name == "" {
		name = e.name("const")
	}
	data, d := p.Data, p.DType
	if dataType(d) == 0 {
		return "", fmt.Errorf("%w: constant of type %v", ErrUnsupported, d)
	}
	if err := e.tensor(name, d, p.Shape, data); err != nil {
		return "", err
	}
	if d == tensor.F16 || d == tensor.BF16 || d == tensor.F64 {
		wide := e.op("Cast", []string{name}, attribute{"to", dataType(tensor.F32)})
		if d == tensor.F16 {
			e.halves[wide] = name
		}
		return wide, nil
	}
	return name, nil
}

func (e *exporter) tensor(name string, d tensor.DType, shape tensor.Shape, data []byte) error {
	if len(data) < inlineLimit {
		e.initializers = append(e.initializers, inlineTensor(name, d, shape, data))
		return nil
	}
	pad := -e.data.at & (externalAlign - 1)
	if _, err := io.CopyN(e.data, zeros{}, pad); err != nil {
		return err
	}
	at := e.data.at + pad
	if _, err := e.data.Write(data); err != nil {
		return err
	}
	e.data.at = at + int64(len(data))
	e.external++
	e.initializers = append(e.initializers, externalTensor(name, d, shape, filepath.Base(e.data.name), at, int64(len(data))))
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// name makes a name no other value has.
func (e *exporter) name(what string) string {
	e.fresh++
	return fmt.Sprintf("%s_%d", what, e.fresh)
}

// op emits a node with one result and returns the result's name.
func (e *exporter) op(op string, in []string, attrs ...attribute) string {
	out := e.name(op)
	e.nodes = append(e.nodes, node(op, out, in, []string{out}, attrs...))
	return out
}

// ints is an int64 vector as a constant: the shapes and axes that ONNX takes as
// inputs.
func (e *exporter) ints(v ...int) string {
	name := e.name("ints")
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	e.initializers = append(e.initializers, inlineTensor(name, tensor.I64, tensor.Shape{len(v)}, raw))
	return name
}

// floats is a float32 constant.
func (e *exporter) floats(shape tensor.Shape, v ...float32) (string, error) {
	name := e.name("floats")
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return name, e.tensor(name, tensor.F32, shape, raw)
}

func (e *exporter) scalar(v float32) string {
	name := e.name("scalar")
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	e.initializers = append(e.initializers, inlineTensor(name, tensor.F32, nil, raw))
	return name
}

// model is the ModelProto.
func (e *exporter) model(g *graph.Graph) []byte {
	const (
		fieldIR, fieldProducer, fieldVersion, fieldGraph, fieldOpset, fieldMeta = 1, 2, 3, 7, 8, 14
		graphNode, graphName, graphInit, graphIn, graphOut                      = 1, 2, 5, 11, 12
	)
	var body message
	for _, o := range g.Outputs {
		// An output has a name of its own.
		e.nodes = append(e.nodes, node("Identity", o.Name, []string{e.names[o.Node.ID]}, []string{o.Name}))
	}
	for _, n := range e.nodes {
		body.bytes(graphNode, n)
	}
	body.text(graphName, g.Name)
	for _, t := range e.initializers {
		body.bytes(graphInit, t)
	}
	for _, n := range g.Inputs {
		body.bytes(graphIn, valueInfo(n.Op.(graph.Input).Name, n.DType, n.Shape))
	}
	for _, o := range g.Outputs {
		body.bytes(graphOut, valueInfo(o.Name, o.Node.DType, o.Node.Shape))
	}
	var m message
	ir, opset := e.opt.versions()
	m.integer(fieldIR, ir)
	m.text(fieldProducer, e.opt.Producer)
	m.text(fieldVersion, e.opt.Version)
	m.bytes(fieldGraph, body)
	var set message
	set.text(1, "")
	set.integer(2, opset)
	m.bytes(fieldOpset, set)
	for _, k := range slices.Sorted(maps.Keys(e.opt.Metadata)) {
		var kv message
		kv.text(1, k)
		kv.text(2, e.opt.Metadata[k])
		m.bytes(fieldMeta, kv)
	}
	return m
}

func itoa(v int64) string { return strconv.FormatInt(v, 10) }
