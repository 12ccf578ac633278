// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
)

var _ backend.Finder = (*Backend)(nil)

// Nearest finds the nearest neighbours of two maps in each other.
func (b *Backend) Nearest(ctx context.Context, one, two backend.Descriptors) (out [2]backend.Neighbours, err error) {
	if b.dev.Platform() != "cuda" {
		return out, fmt.Errorf("%w: nearest neighbours on %s", backend.ErrUnsupported, b.dev.Platform())
	}
	b.finders.mu.Lock() // Close waits for the end of a run
	defer b.finders.mu.Unlock()
	exe, err := b.finders.get(b, [3]int{one.N, two.N, one.Dim}, func() (string, error) { return stablehlo.Nearest(one.N, two.N, one.Dim) })
	if err != nil {
		return out, fmt.Errorf("xla: nearest neighbours: %w", err)
	}
	var args []*pjrt.Buffer
	for _, d := range []backend.Descriptors{one, two} {
		own, release, err := b.operands(d)
		if err != nil {
			return out, err
		}
		defer release()
		args = append(args, own[:]...)
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	start := time.Now()
	results, err := b.execute(exe, args)
	if err != nil {
		return out, fmt.Errorf("xla: nearest neighbours: %w", err)
	}
	defer func() {
		for _, x := range results {
			x.Close()
		}
	}()
	b.count(func() { b.stats.Matching = time.Since(start) })
	return b.neighbours(results, one.N, two.N)
}

// operands are a map's descriptors on the device, where they may be already, and which
// of them to keep. They hold until release is called.
func (b *Backend) operands(d backend.Descriptors) (out [2]*pjrt.Buffer, release func(), err error) {
	keep := d.Keep
	if keep == nil {
		keep = make([]uint8, d.N)
		for i := range keep {
			keep[i] = 1
		}
	}
	own, here := d.Buffer.(*buffer)
	here = here && own.b == b
	switch {
	case len(keep) != d.N:
		return out, nil, fmt.Errorf("xla: %d marks of %d descriptors", len(keep), d.N)
	case here && own.n != 4*d.N*d.Dim:
		return out, nil, fmt.Errorf("xla: %d bytes of %d descriptors of %d numbers", own.n, d.N, d.Dim)
	case !here && d.Data == nil:
		return out, nil, fmt.Errorf("%w: descriptors of another device", backend.ErrUnsupported)
	case !here && len(d.Data) != d.N*d.Dim:
		return out, nil, fmt.Errorf("xla: %d numbers of %d descriptors of %d", len(d.Data), d.N, d.Dim)
	}
	if out[1], err = b.dev.Upload(keep, pjrt.U8, []int64{int64(len(keep))}); err != nil {
		return out, nil, err
	}
	if here {
		if out[0], err = own.hold(); err != nil {
			out[1].Close()
			return out, nil, err
		}
		return out, func() { own.letGo(); out[1].Close() }, nil
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(d.Data))), 4*len(d.Data))
	if out[0], err = b.dev.Upload(data, pjrt.F32, []int64{int64(len(d.Data))}); err != nil {
		out[1].Close()
		return out, nil, err
	}
	return out, func() { out[0].Close(); out[1].Close() }, nil
}

// neighbours reads the results of the program: three arrays of each side, of the
// padded length, and the product of the largest lengths.
func (b *Backend) neighbours(results []*pjrt.Buffer, n, m int) (out [2]backend.Neighbours, err error) {
	if len(results) != 7 {
		return out, fmt.Errorf("xla: nearest neighbours: %d results, want 7", len(results))
	}
	norm := make([]byte, 4)
	if err := results[6].Download(norm); err != nil {
		return out, err
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(norm)); !(v <= stablehlo.NearestMaxNorm) {
		return out, fmt.Errorf("%w: descriptors of length %g", backend.ErrUnsupported, v)
	}
	for i, count := range []int{n, m} {
		full := stablehlo.NearestPadded(count)
		to, score, used := make([]int32, full), make([]float32, full), make([]uint8, full)
		parts := [][]byte{
			unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), 4*full),
			unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(score))), 4*full), used,
		}
		errs := make([]error, len(parts))
		broken := parallel(len(parts), len(parts), func(k int) { errs[k] = results[3*i+k].Download(parts[k]) })
		for _, err := range append(errs, broken) {
			if err != nil {
				return out, err
			}
		}
		out[i] = backend.Neighbours{To: to[:count], Score: score[:count], Used: used[:count]}
	}
	return out, nil
}
