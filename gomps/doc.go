// SPDX-License-Identifier: Apache-2.0

// Package gomps turns two photographs into dense 3D points, confidences and
// descriptors, and descriptors into matches, with MASt3R networks.
//
//	e, err := gomps.Open(gomps.Config{})
//	...
//	defer e.Close()
//	err = e.Load(context.Background(), "mast3r_tiny/unified.safetensors")
//	r, err := e.Infer(ctx, left, right, gomps.InferOptions{})
//	points := r.View[0].Points.Float32s() // [H,W,3], camera 1's frame
//
// The name is Go and MPS, the Metal Performance Shaders of the first backend.
//
// An Engine runs one model on one device: the GPU of a Mac (macOS 15 or later,
// Metal), an NVIDIA GPU (CUDA), or the CPU. All run the same graphs. Its methods
// may be called from any goroutine; calls on one engine take turns.
//
// Points are in OpenCV axes (x right, y down, z forward) of the first picture's
// camera, in metres when the model is metric. Every result owns its memory: a
// later call never changes an earlier result, and results outlive Close.
package gomps
