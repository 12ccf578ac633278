// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// TestInferBatch: a batch gives each pair what Infer gives it, to the last bit on the
// CPU, whether pairs go together or not.
func TestInferBatch(t *testing.T) {
	ctx := context.Background()
	// On the CPU one after the other, two and three side by side, all ten.
	for _, threads := range []int{0, 1, 2, 3, 12} {
		device := "cpu"
		if threads == 0 {
			device = "cuda"
		}
		limit := 0.0
		if device == "cuda" {
			if limit = 2e-5; os.Getenv("MAST3R_PJRT_CPU") == "" {
				t.Log("MAST3R_PJRT_CPU is not set: the backend cuda is not run")
				continue
			}
		}
		e, err := gomps.Open(gomps.Config{Backend: device, Threads: threads, Precision: "fp32", ExecutableCache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Load(ctx, microModel(t, "mast3r_micro")); err != nil {
			t.Fatal(err)
		}
		var pairs [][2]gomps.Image
		for i := range 10 {
			pairs = append(pairs, [2]gomps.Image{picture(32, 48, i), picture(48, 32, i+20)})
		}
		opt := gomps.InferOptions{Raw: true, Only: gomps.OutputPoints | gomps.OutputDesc}
		got, err := e.InferBatch(ctx, pairs, opt)
		if err != nil {
			t.Fatal(err)
		}
		if before := e.Info().Decodes; before != 10 {
			t.Errorf("%d decodes, want 10", before)
		}
		for i, p := range pairs {
			want, err := e.Infer(ctx, p[0], p[1], opt)
			if err != nil {
				t.Fatal(err)
			}
			for v := range want.View {
				a, b := &got[i].View[v], &want.View[v]
				if a.Transform != b.Transform || a.Conf.Valid() || !slices.Equal(a.Points.Shape(), b.Points.Shape()) {
					t.Errorf("%s: pair %d, view %d: %+v, want %+v", device, i, v, a, b)
				}
				for k, x := range []*gomps.Tensor{a.Points, a.Desc} {
					y := []*gomps.Tensor{b.Points, b.Desc}[k]
					if d := distance(x.Float32s(), y.Float32s()); !(d <= limit) {
						t.Errorf("%s: pair %d, view %d: relative L2 %.2g", device, i, v, d)
					}
				}
			}
			want.Release()
			got[i].Release()
		}
		more, err := e.InferBatch(ctx, append(pairs, pairs[:3]...), opt) // more lanes than before
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range more {
			r.Release()
		}
		bad := slices.Clone(pairs)
		bad[9][1].Height = 31
		var image *gomps.ImageError
		if _, err := e.InferBatch(ctx, bad, opt); !errors.As(err, &image) || image.Index != 19 {
			t.Errorf("%s: %v, want an error about picture 19", device, err)
		}
		if n := e.Info().LiveBuffers; n != 0 {
			t.Errorf("%s: %d buffers are left", device, n)
		}
		if _, err := e.InferBatch(ctx, nil, opt); !errors.Is(err, gomps.ErrShape) {
			t.Errorf("%s: no pairs: %v", device, err)
		}
	}
}
