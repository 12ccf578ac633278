// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// TestFeatures: encoding, saving and decoding gives what Infer gives, bit for
// bit, in any combination.
func TestFeatures(t *testing.T) {
	ctx := context.Background()
	e := open(t, gomps.Config{Resolution: 80}, "mast3r_micro")
	imgs := []gomps.Image{picture(48, 64, 0), picture(64, 48, 4), picture(48, 64, 9)}
	base := e.Info().LiveBuffers
	var feats []*gomps.Features
	for _, img := range imgs {
		f, err := e.Encode(ctx, img, gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		saved := slices.Clone(f.Tokens.Float32s())
		transform := f.Transform
		f.Release()
		if f, err = e.NewFeatures(saved, transform); err != nil {
			t.Fatal(err)
		}
		feats = append(feats, f)
	}
	encodes := e.Info().Encodes
	for i := range imgs {
		for j := range imgs {
			got, err := e.Decode(ctx, feats[i], feats[j], gomps.InferOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := infer(t, e, imgs[i], imgs[j])
			if !slices.Equal(values(got.View[:]...), values(want.View[:]...)) {
				t.Errorf("pair %d, %d differs from Infer", i, j)
			}
			got.Release()
			want.Release()
			encodes += 2 // Infer's
		}
	}
	if got := e.Info().Encodes; got != encodes {
		t.Errorf("%d encodes, want %d: Decode must encode nothing", got, encodes)
	}
	for _, f := range feats {
		f.Release()
	}
	if live := e.Info().LiveBuffers; live != base {
		t.Errorf("%d live buffers, want %d", live, base)
	}
	if _, err := e.Decode(ctx, feats[0], feats[1], gomps.InferOptions{}); !is[*gomps.ShapeError](err) {
		t.Errorf("released features: %v", err)
	}
	if _, err := e.NewFeatures(make([]float32, 7), gomps.Transform{Height: 48, Width: 64}); !is[*gomps.ShapeError](err) {
		t.Errorf("seven numbers: %v", err)
	}
	if _, err := e.NewFeatures(nil, gomps.Transform{Height: 1 << 40, Width: 1 << 40}); !is[*gomps.ShapeError](err) {
		t.Errorf("a huge picture: %v", err)
	}
}

// TestOnly: what is asked for has the same numbers, the rest is not there.
func TestOnly(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 4)
	all := infer(t, e, a, b)
	for _, only := range []gomps.Outputs{gomps.OutputPoints, gomps.OutputConf | gomps.OutputDescConf, gomps.OutputDesc} {
		r, err := e.Infer(context.Background(), a, b, gomps.InferOptions{Only: only})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range r.View {
			w := all.View[i]
			for k, pair := range [][2]*gomps.Tensor{{v.Points, w.Points}, {v.Conf, w.Conf}, {v.Desc, w.Desc}, {v.DescConf, w.DescConf}} {
				switch asked := only&(1<<k) != 0; {
				case asked != (pair[0] != nil):
					t.Errorf("only %#x: output %d is there: %v", only, k, pair[0] != nil)
				case asked && !slices.Equal(pair[0].Float32s(), pair[1].Float32s()):
					t.Errorf("only %#x: output %d has other numbers", only, k)
				}
			}
		}
		r.Release()
	}
	if m := gomps.MapOf(&gomps.View{}); m.Height != 0 {
		t.Errorf("the map of an empty view: %+v", m)
	}
}
