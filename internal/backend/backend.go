// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Precision is what a backend may use for weights and matrix products.
type Precision uint8

// The precisions. Sums are float32 in each of them, and so are normalisation
// statistics, softmax and the network's output functions.
const (
	// FP32 keeps every weight and product in float32 (a float16 file loses
	// nothing by staying float16 in memory).
	FP32 Precision = iota
	// FP16 rounds weights to float16, on a GPU activations too.
	FP16
	// BF16 rounds weights and the factors of products to bfloat16, on a GPU of
	// NVIDIA activations too.
	BF16
	// TF32 keeps weights in float32 and rounds the factors of products to ten
	// bits, for the matrix units of NVIDIA's GPUs; others refuse it.
	TF32
)

func (p Precision) String() string {
	switch p {
	case FP32:
		return "fp32"
	case FP16:
		return "fp16"
	case BF16:
		return "bf16"
	case TF32:
		return "tf32"
	}
	return fmt.Sprintf("precision(%d)", uint8(p))
}

// Options steer Compile.
type Options struct {
	Precision Precision
}

// Native is a Backend, or a Buffer of one, that can show the objects it is made of to
// code that uses them directly: MTLDevice and MTLCommandQueue, MTLBuffer and 0. They
// live as long as what shows them.
type Native interface {
	Native() (object, queue uintptr)
}

// Device are facts about where programs run.
type Device struct {
	// Backend is "cpu", "metal" or "cuda", Name the device in words, ISA the instruction
	// set of the kernels.
	Backend, Name, ISA string
	Threads            int
	// Products says which instructions multiply in which precision, and why; "" where
	// there is no choice.
	Products string
	// WorkingSet and MaxBuffer are in bytes; 0 means no limit is known.
	WorkingSet, MaxBuffer uint64
	UnifiedMemory         bool
	OS                    string
	// Build is the operating system's, SDK the one that the main program was linked
	// with, Family Apple's of the GPU (7 is the M1) and Stack that of the thread which
	// compiles, in bytes; empty and 0 on a CPU.
	Build, SDK    string
	Family, Stack int
	// Allocated is what the device's driver has allocated for this process, 0 where
	// nobody counts.
	Allocated uint64
	// PoolBuffers and PoolBytes are what the buffer pool keeps for reuse.
	PoolBuffers int
	PoolBytes   uint64
	// LiveBuffers are those handed out by Alloc and not released yet.
	LiveBuffers int
	// WeightsMapped and WeightsCopied are bytes of the compiled programs' weights
	// that are used in place and copied, CommandBuffers those committed; only a GPU
	// counts them.
	WeightsMapped, WeightsCopied, CommandBuffers int
}

// Sample is the measurement of one operation.
type Sample struct {
	Graph string // the graph's name
	Op    string // the operation's kind
	Node  int    // the node's position in the simplified graph
	Shape string // of the result
	Time  time.Duration
	FLOPs int64 // of products; 0 for everything else
	Bytes int64 // operands and result
}

// Profiler is a Backend that can time each operation.
type Profiler interface {
	// SetProfile has f told of each operation from the next run on; nil ends it.
	SetProfile(f func(Sample))
}

// Footprint is the memory of programs that take turns, in bytes.
type Footprint struct {
	// Weights are prepared weights, what preparing the largest takes, and constants;
	// Activations what the programs compute in: the most that one of them needs.
	Weights, Activations int
}

// Planner is a Backend that can say what programs will need before anything is
// allocated for them.
type Planner interface {
	Footprint(ctx context.Context, graphs []*graph.Graph, opt Options) (Footprint, error)
	// Held is what the backend has by now of what Footprint counts, and of buffers.
	Held() int
}

// Backend runs graphs. Its methods may be called from any goroutine.
type Backend interface {
	Device() Device
	// Alloc gives a buffer of n bytes with unspecified contents.
	Alloc(n int) (Buffer, error)
	// Compile prepares g for running. Weights that several programs share are
	// prepared once per Backend.
	Compile(ctx context.Context, g *graph.Graph, opt Options) (Program, error)
	// Begin starts collecting work for a queue. Work of one queue runs in the order of
	// its Submits; work of different queues may overlap.
	Begin(q Queue) (Work, error)
	// Pool is the memory of Alloc.
	Pool() Pool
	// Trim gives pooled memory back to the system.
	Trim()
	// Close frees what the backend holds; buffers handed out stay readable until
	// they are released.
	Close() error
}

// Divider is a Backend that can run several programs at once, each by one thread: what
// is too small to gain by all of them.
type Divider interface {
	// Divide gives n backends of one thread each. They share prepared weights and the pool
	// of buffers with this one, and end with it. What they compute is the same to the bit.
	Divide(n int) []Backend
}

// Queue is one of a device's two queues of work. A device that gains by it works on
// both at once.
type Queue uint8

// The queues.
const (
	First Queue = iota
	Second
)

// ErrIndex is in the chain of the error of a Run whose indices, which are data, lie
// outside their axis.
var ErrIndex = errors.New("index out of range")

// ErrUnsupported is in the chain of the error about work that a device cannot do
// and another can.
var ErrUnsupported = errors.New("not supported by the device")

// ErrReleased is in the chain of the error of a Run with a buffer that was released.
var ErrReleased = bufpool.ErrReleased

// ErrOutOfMemory is in the chain of an error about memory that the device does not
// have.
var ErrOutOfMemory = bufpool.ErrOutOfMemory

// Buffer is device memory, packed row-major elements.
type Buffer interface {
	Len() int
	// Bytes is the host's view. It is only meaningful before the buffer is given
	// to Run, or after the Pending of that Run has been waited for.
	//
	// What the host writes counts until the buffer is first given to Run. A device
	// with memory of its own fetches its bytes here; where that fails, Bytes is nil.
	Bytes() []byte
	// Fetch makes Bytes ready and says what went wrong.
	Fetch() error
	// Release gives the buffer back once the device is done with it. Calling it
	// again does nothing.
	Release()
}

// DeviceMemory is a Buffer whose elements are in memory that the host cannot read.
type DeviceMemory interface {
	Buffer
	// Device is the address there, which holds until the buffer is released, and the
	// number of the device.
	Device() (address uintptr, id int, err error)
}

// Program is a compiled graph.
type Program interface {
	Graph() *graph.Graph
	Close() error
}

// Work collects runs.
type Work interface {
	// After makes what follows wait, on the device, for done.
	After(done Pending) error
	// Run executes p: in and out are the buffers of the graph's Inputs and
	// Outputs in their order, of exactly their sizes. Between the operations it
	// looks at ctx where it can.
	Run(ctx context.Context, p Program, in, out []Buffer) error
	// Submit hands the work to the device.
	Submit() (Pending, error)
	// Discard drops work that was not submitted. After Submit it does nothing.
	Discard()
}

// Pending is submitted work.
type Pending interface {
	// Wait blocks until the device is done, or ctx is. The durations are the
	// device times of the Runs, in order.
	Wait(ctx context.Context) ([]time.Duration, error)
}

// Descriptors are the vectors of a map.
type Descriptors struct {
	// Data are N vectors of Dim numbers; nil where Buffer has them, on this backend.
	Data   []float32
	Buffer Buffer
	N, Dim int
	// Keep, where not nil, has 0 for those that are left out.
	Keep []uint8
}

// Neighbours are the nearest neighbours of a map's descriptors in another map.
type Neighbours struct {
	// To is the number of each descriptor's neighbour, Score their product: fused
	// multiply-adds in the order of the components. Of equal ones it is the first.
	To    []int32
	Score []float32
	// Used has 0 for the descriptors that were left out, because Keep or a number
	// that cannot be used said so. Their To and Score mean nothing, as do all where
	// the other map has none.
	Used []uint8
}

// Finder is a Backend that finds nearest neighbours among descriptors.
type Finder interface {
	// Nearest finds the neighbours of one in two, and of two in one. The error is
	// ErrUnsupported where somebody else must.
	Nearest(ctx context.Context, one, two Descriptors) ([2]Neighbours, error)
}

// Picture are 8-bit RGB pixels, three bytes each, rows Stride bytes apart.
type Picture struct {
	Pix           []byte
	Width, Height int
	Stride        int
}

// Taps resample one axis of a picture: output i is the sum of the inputs from First[i] on,
// Count[i] of them, times the Weights from Size*i on, in units of 2^-22, rounded to a
// byte. First and First+Count never fall.
type Taps struct {
	Size         int
	First, Count []int
	Weights      []int32
}

// Resizer is a Backend that resizes pictures.
type Resizer interface {
	// Resize writes a picture resampled along its rows by x, then along its columns by y,
	// to dst: u8 [len(y.First),len(x.First),3]. It checks nothing of the picture, which is
	// read during the call. The error is ErrUnsupported where somebody else must.
	Resize(ctx context.Context, dst Buffer, src Picture, x, y Taps) error
}
