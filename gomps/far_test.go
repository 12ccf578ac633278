// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"log/slog"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestCUDARows: the device gathers the rows that are asked for, whatever their number, and
// the map itself is not brought for few.
func TestCUDARows(t *testing.T) {
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: the backend cuda is not run (make xla-test)")
	}
	e, err := Open(Config{Backend: BackendCUDA, Precision: "fp32", ExecutableCache: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const h, w, dim = 60, 70, 8
	buf, err := e.dev.Alloc(4 * h * w * dim)
	if err != nil {
		t.Fatal(err)
	}
	numbers := float32s(buf.Bytes(), h*w*dim)
	for i := range numbers {
		numbers[i] = float32(math.Sin(float64(i)))
	}
	x := newTensor(tensor.Shape{h, w, dim}, buf)
	defer x.Release()
	f := &far{context.Background(), e, x}
	for _, n := range []int{1, 700, 1024, 1500, h * w} {
		pixels := make([]int32, n)
		for i := range pixels {
			pixels[i] = int32((i*977 + n) % (h * w))
		}
		got, err := f.Rows(pixels)
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for _, p := range pixels {
			want = append(want, numbers[int(p)*dim:][:dim]...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d rows differ", n)
		}
	}
	if n := len(e.rows.list); n != 2 {
		t.Errorf("%d programs for the numbers of rows below half of the map, want two: of 1024 and of 2048", n)
	}
}
