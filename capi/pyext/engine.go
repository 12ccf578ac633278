// SPDX-License-Identifier: Apache-2.0

package pyext

import (
	"context"
	"encoding/json"
	"fmt"

	_ "github.com/mast3r-runtime/mast3r-runtime/capi" // the mast3r_* calls
	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// Engine is a two-view engine.
type Engine struct{ e *gomps.Engine }

// recovered turns a panic into an error. The method it is deferred in must name
// its error result.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("mast3r: internal fault: %v", r)
	}
}

// Open opens an engine. Empty texts and zeros are the defaults: the model's own
// variant and resolution, every core, the best backend and precision.
func Open(variant string, resolution int, precision string, threads int, backend string) (e *Engine, err error) {
	defer recovered(&err)
	g, err := gomps.Open(gomps.Config{
		Variant: variant, Resolution: resolution, Precision: precision, Threads: threads, Backend: backend,
	})
	if err != nil {
		return nil, err
	}
	return &Engine{g}, nil
}

// Load loads a model file or folder.
func (e *Engine) Load(path string) (err error) {
	defer recovered(&err)
	return e.e.Load(context.Background(), path)
}

// Warmup runs the network n times on a blank pair.
func (e *Engine) Warmup(n int) (err error) {
	defer recovered(&err)
	return e.e.Warmup(context.Background(), n)
}

// ExportONNX writes the network for one pair of height x width as an ONNX model.
func (e *Engine) ExportONNX(path string, height, width int, half bool) (err error) {
	defer recovered(&err)
	return e.e.ExportONNX(context.Background(), path, gomps.ExportOptions{Height1: height, Width1: width, HalfWeights: half})
}

// Info is everything that is known of the device and the model, as a JSON object.
func (e *Engine) Info() (text string, err error) {
	defer recovered(&err)
	b, err := json.Marshal(e.e.Info())
	return string(b), err
}

// Name says what runs where; "" for a closed engine's remains.
func (e *Engine) Name() (name string) {
	defer func() { _ = recover() }()
	return e.e.Name()
}

// Ready reports whether a model is loaded.
func (e *Engine) Ready() (ready bool) {
	defer func() { _ = recover() }()
	return e.e.Ready()
}

// Close frees the engine.
func (e *Engine) Close() (err error) {
	defer recovered(&err)
	return e.e.Close()
}
