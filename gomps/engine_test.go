// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// microModel writes the files of a small model with synthetic weights.
func microModel(t testing.TB, variant string) string {
	t.Helper()
	d, err := synth.Variant(variant)
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(0)
	defer pool.Close()
	dir := t.TempDir()
	if err := synth.Write(pool, dir, d, synth.FormulaOf(variant), d.Metadata(variant)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, cfg gomps.Config, variant string) *gomps.Engine {
	t.Helper()
	if cfg.Backend == "" {
		cfg.Backend = "cpu"
	}
	e, err := gomps.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Load(t.Context(), microModel(t, variant)); err != nil {
		t.Fatal(err)
	}
	return e
}

// picture is a smooth pattern with detail, shifted by s.
func picture(h, w, s int) gomps.Image {
	img := gomps.Image{Pix: make([]byte, 3*h*w), Height: h, Width: w}
	for y := range h {
		for x := range w {
			for c := range 3 {
				v := math.Sin(float64((x+s)*(c+2))/7) + math.Cos(float64(y*(3-c)+s)/5) + float64((x*y+31*s)%11)/11
				img.Pix[3*(y*w+x)+c] = byte(127 + 40*v)
			}
		}
	}
	return img
}

func infer(t testing.TB, e *gomps.Engine, a, b gomps.Image) *gomps.Result {
	t.Helper()
	r, err := e.Infer(context.Background(), a, b, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// values are copies of all numbers of views.
func values(views ...gomps.View) []float32 {
	var all []float32
	for _, v := range views {
		for _, t := range []*gomps.Tensor{v.Points, v.Conf, v.Desc, v.DescConf} {
			all = append(all, t.Float32s()...)
		}
	}
	return all
}

func TestInferShapes(t *testing.T) {
	for _, variant := range []string{"mast3r_micro", "dune_micro"} {
		e := open(t, gomps.Config{Resolution: 112}, variant)
		p := e.Info().Patch
		for _, c := range [][2][2]int{{{48, 64}, {48, 64}}, {{64, 48}, {48, 64}}, {{100, 100}, {30, 90}}} {
			r := infer(t, e, picture(c[0][0], c[0][1], 0), picture(c[1][0], c[1][1], 3))
			for i, v := range r.View {
				tr := v.Transform
				want := fmt.Sprint([]int{tr.Height, tr.Width})
				if got := fmt.Sprint(v.Conf.Shape()); got != want {
					t.Errorf("%s: conf %s, want %s", variant, got, want)
				}
				if got := fmt.Sprint(v.Points.Shape(), v.Desc.Shape()); got != fmt.Sprint([]int{tr.Height, tr.Width, 3}, []int{tr.Height, tr.Width, 24}) {
					t.Errorf("%s: points and desc %s", variant, got)
				}
				if tr.Height%p != 0 || tr.Width%p != 0 || tr.OriginalH != c[i][0] || tr.OriginalW != c[i][1] {
					t.Errorf("%s: transform %+v", variant, tr)
				}
				if portrait := c[i][0] > c[i][1]; portrait != (tr.Height > tr.Width) {
					t.Errorf("%s: a %v picture became %dx%d", variant, c[i], tr.Height, tr.Width)
				}
			}
			for i, f := range values(r.View[:]...) {
				if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
					t.Fatalf("%s: value %d is %v", variant, i, f)
				}
			}
		}
	}
}

// TestResultsNeverAlias: a later call and Close change no earlier result.
func TestResultsNeverAlias(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_micro")
	a, b, c := picture(48, 64, 0), picture(48, 64, 5), picture(48, 64, 11)
	r1 := infer(t, e, a, b)
	before := values(r1.View[:]...)
	r2 := infer(t, e, c, a)
	if slices.Equal(before, values(r2.View[:]...)) {
		t.Fatal("two different pairs gave the same result: the test would not see aliasing")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, values(r1.View[:]...)) {
		t.Error("a later call or Close changed an earlier result")
	}
	r1.Release()
	r1.Release()
	if r1.View[0].Points.Valid() || r1.View[0].Points.Float32s() != nil {
		t.Error("a released tensor still shows memory")
	}
	if err := r1.View[0].Points.CopyTo(nil); err == nil {
		t.Error("CopyTo of a released tensor gave no error")
	}
}

// TestSameBits: one thread or two, single or in a sequence, again or after
// another pair, from one goroutine or eight: the same numbers.
func TestSameBits(t *testing.T) {
	imgs := []gomps.Image{picture(48, 64, 0), picture(48, 64, 4), picture(64, 48, 9), picture(48, 64, 1)}
	var first []float32
	for _, threads := range []int{1, 2, 3} {
		e := open(t, gomps.Config{Resolution: 80, Threads: threads}, "mast3r_micro")
		var single []float32
		for i := range len(imgs) - 1 {
			r := infer(t, e, imgs[i], imgs[i+1])
			single = append(single, values(r.View[:]...)...)
			r.Release()
		}
		if first == nil {
			first = single
		} else if !slices.Equal(first, single) {
			t.Fatalf("%d threads: other numbers than with one", threads)
		}
		was := e.Info()
		seq, err := e.InferSequence(context.Background(), imgs, gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Info().Encodes - was.Encodes; got != uint64(len(imgs)) {
			t.Errorf("a sequence of %d pictures encoded %d times", len(imgs), got)
		}
		var all []float32
		for _, r := range seq {
			all = append(all, values(r.View[:]...)...)
			if r.Timing.Encoder <= 0 || r.Timing.Decoder <= 0 || r.Timing.Heads <= 0 || r.Timing.Total <= 0 {
				t.Errorf("timing %+v", r.Timing)
			}
		}
		if !slices.Equal(all, first) {
			t.Errorf("%d threads: the sequence differs from the single pairs", threads)
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	want := infer(t, e, a, b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 3 {
				r, err := e.Infer(context.Background(), a, b, gomps.InferOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Equal(values(r.View[:]...), values(want.View[:]...)) {
					t.Error("another goroutine's call changed the numbers")
				}
				r.Release()
			}
		}()
	}
	wg.Wait()
}

// TestSymmetric: the first two views are those of Infer, and exchanging the
// pictures exchanges the views.
func TestSymmetric(t *testing.T) {
	for _, variant := range []string{"mast3r_micro", "dune_micro"} {
		e := open(t, gomps.Config{Resolution: 84}, variant)
		a, b := picture(48, 84, 0), picture(84, 60, 5)
		ctx := context.Background()
		ab, err := e.InferSymmetric(ctx, a, b, gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ba, err := e.InferSymmetric(ctx, b, a, gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := infer(t, e, a, b)
		for i, pair := range [][2]gomps.View{
			{ab.View[0], r.View[0]}, {ab.View[1], r.View[1]},
			{ab.View[0], ba.View[2]}, {ab.View[1], ba.View[3]}, {ab.View[2], ba.View[0]}, {ab.View[3], ba.View[1]},
		} {
			if !slices.Equal(values(pair[0]), values(pair[1])) {
				t.Errorf("%s: views of case %d differ", variant, i)
			}
		}
	}
}

func TestMemoryIsFlat(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	base := e.Info().LiveBuffers
	for i := range 200 {
		r := infer(t, e, a, b)
		r.Release()
		if i%50 == 0 {
			if _, err := e.InferSequence(canceled(), []gomps.Image{a, b}, gomps.InferOptions{}); !errors.Is(err, context.Canceled) {
				t.Fatalf("canceled sequence: %v", err)
			}
		}
		if live := e.Info().LiveBuffers; live != base {
			t.Fatalf("call %d: %d live buffers, want %d", i, live, base)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestErrors(t *testing.T) {
	if _, err := gomps.Open(gomps.Config{Precision: "fp13"}); !is[*gomps.ConfigError](err) {
		t.Errorf("precision fp13: %v", err)
	}
	if _, err := gomps.Open(gomps.Config{Backend: "tpu"}); !is[*gomps.ConfigError](err) {
		t.Errorf("backend tpu: %v", err)
	}
	e, err := gomps.Open(gomps.Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	ok := picture(48, 64, 0)
	if _, err := e.Infer(ctx, ok, ok, gomps.InferOptions{}); !errors.Is(err, gomps.ErrNotLoaded) {
		t.Errorf("infer before load: %v", err)
	}
	if err := e.Warmup(ctx, 1); !errors.Is(err, gomps.ErrNotLoaded) {
		t.Errorf("warmup before load: %v", err)
	}
	if err := e.Load(t.Context(), filepath.Join(t.TempDir(), "nothing")); !is[*gomps.WeightsError](err) {
		t.Errorf("load of nothing: %v", err)
	}
	if err := e.Load(t.Context(), microModel(t, "mast3r_micro")); err != nil {
		t.Fatal(err)
	}
	for name, img := range map[string]gomps.Image{
		"empty":    {},
		"short":    {Pix: make([]byte, 100), Height: 48, Width: 64},
		"stride":   {Pix: make([]byte, 48*64*3), Height: 48, Width: 64, Stride: 10},
		"negative": {Pix: make([]byte, 48*64*3), Height: -48, Width: 64},
		"huge":     {Pix: make([]byte, 10), Height: 1 << 40, Width: 1 << 40},
		"panorama": {Pix: make([]byte, 3*4000*10), Height: 10, Width: 4000},
	} {
		_, err := e.Infer(ctx, ok, img, gomps.InferOptions{})
		var ie *gomps.ImageError
		if !errors.As(err, &ie) || ie.Index != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Infer(ctx, picture(50, 64, 0), ok, gomps.InferOptions{Raw: true}); !is[*gomps.ImageError](err) || !strings.Contains(err.Error(), "multiples") {
		t.Errorf("raw picture of no multiple: %v", err)
	}
	for n := range 2 {
		if _, err := e.InferSequence(ctx, make([]gomps.Image, n), gomps.InferOptions{}); !is[*gomps.ShapeError](err) {
			t.Errorf("sequence of %d: %v", n, err)
		}
	}
	if _, err := e.Infer(canceled(), ok, ok, gomps.InferOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	infer(t, e, ok, ok).Release() // the engine still works
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Infer(ctx, ok, ok, gomps.InferOptions{}); !errors.Is(err, gomps.ErrClosed) {
		t.Errorf("infer after close: %v", err)
	}
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// Either name of the DUNE models at 448 asks for a file of either name.
func TestVariantAliases(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	d := smallDune(t)
	for _, names := range [][2]string{{"dune_vit_small_14", "dune_vit_small_448"}, {"dune_vit_base_14", "dune_vit_base_448"}} {
		for i := range names {
			dir := t.TempDir()
			if err := synth.Write(pool, dir, d, synth.Golden, d.Metadata(names[i])); err != nil {
				t.Fatal(err)
			}
			e, err := gomps.Open(gomps.Config{Backend: "cpu", Variant: names[1-i]})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Load(t.Context(), dir); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestVariantIsChecked(t *testing.T) {
	for _, c := range []gomps.Config{{Variant: "nonsense"}, {Variant: "MASt3R"}, {Variant: "dune_vit_small_14 "}} {
		c.Backend = "cpu"
		if _, err := gomps.Open(c); !is[*gomps.ConfigError](err) || !strings.Contains(err.Error(), "dune_vit_base_448") {
			t.Errorf("%q: %v, want an error that lists the names", c.Variant, err)
		}
	}
	// The older names leave the resolution open.
	pool := par.New(1)
	defer pool.Close()
	for asked, ok := range map[string]bool{"dune_vit_small_14": true, "dune_vit_small_448": false, "dune_vit_base_14": false} {
		d, dir := smallDune(t), t.TempDir()
		if err := synth.Write(pool, dir, d, synth.Golden, d.Metadata("dune_vit_small_336")); err != nil {
			t.Fatal(err)
		}
		e, err := gomps.Open(gomps.Config{Backend: "cpu", Variant: asked})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Load(t.Context(), dir); (err == nil) != ok || err != nil && !is[*gomps.ConfigError](err) {
			t.Errorf("%s of a file of dune_vit_small_336: %v", asked, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Variant: "mast3r_vit_large"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err = e.Load(t.Context(), microModel(t, "mast3r_micro"))
	if !is[*gomps.ConfigError](err) || !strings.Contains(err.Error(), "mast3r_micro") {
		t.Errorf("another variant than asked for: %v", err)
	}
}

func TestMatch(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64}, "mast3r_micro")
	r := infer(t, e, picture(48, 64, 0), picture(64, 48, 5))
	m1, m2 := gomps.MapOf(&r.View[0]), gomps.MapOf(&r.View[1])
	got, err := e.Match(context.Background(), m1, m2, gomps.MatchOptions{Reciprocal: true, MinConfidence: -1})
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() == 0 || len(got.XY1) != 2*got.Len() || len(got.Points2) != 3*got.Len() {
		t.Fatalf("%d matches, %d coordinates, %d points", got.Len(), len(got.XY1), len(got.Points2))
	}
	for i := range got.Idx1 {
		p, q := int(got.Idx1[i]), int(got.Idx2[i])
		if int(got.XY1[2*i+1])*m1.Width+int(got.XY1[2*i]) != p || int(got.XY2[2*i+1])*m2.Width+int(got.XY2[2*i]) != q {
			t.Fatalf("match %d: coordinates are not those of its pixels", i)
		}
		if got.Points1[3*i] != m1.Points[3*p] || got.Points2[3*i+2] != m2.Points[3*q+2] {
			t.Fatalf("match %d: points are not those of its pixels", i)
		}
		if i > 0 && got.Confidence[i] > got.Confidence[i-1] {
			t.Fatalf("match %d is better than the one before", i)
		}
	}
	m1.Points = nil
	top, err := e.Match(context.Background(), m1, m2, gomps.MatchOptions{Reciprocal: true, MinConfidence: -1, TopK: 3})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(top.Idx1, got.Idx1[:3]) || !math.IsNaN(float64(top.Points1[0])) || math.IsNaN(float64(top.Points2[0])) {
		t.Errorf("top 3 are %v, want %v; points %v", top.Idx1, got.Idx1[:3], top.Points1)
	}
	masked := m1
	masked.Mask = make([]uint8, 3)
	if _, err := e.Match(context.Background(), masked, m2, gomps.MatchOptions{}); !is[*gomps.ShapeError](err) {
		t.Errorf("mask of 3: %v", err)
	}
	m2.Dim = 7
	if _, err := e.Match(context.Background(), m1, m2, gomps.MatchOptions{}); !is[*gomps.ShapeError](err) {
		t.Errorf("descriptors of two lengths: %v", err)
	}
	empty, err := e.Match(context.Background(), gomps.Map{Dim: 24}, gomps.Map{Dim: 24}, gomps.MatchOptions{Reciprocal: true})
	if err != nil || empty.Len() != 0 {
		t.Errorf("empty maps: %v, %d matches", err, empty.Len())
	}
}

// TestWaiting: a call that waits for its turn can be given up, and Info does not
// wait at all.
func TestWaiting(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 512}, "mast3r_micro")
	done := make(chan error, 2)
	a := picture(384, 512, 0)
	go func() {
		_, err := e.InferSequence(context.Background(), []gomps.Image{a, a, a, a}, gomps.InferOptions{})
		done <- err
	}()
	for e.Info().Encodes == 0 { // until it has the turn
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error)
	go func() {
		_, err := e.Infer(ctx, a, a, gomps.InferOptions{})
		waiting <- err
	}()
	if !e.Ready() {
		t.Error("a busy engine is not ready")
	}
	cancel()
	select {
	case err := <-waiting:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled wait: %v", err)
		}
	case err := <-done:
		t.Errorf("the running call ended (%v) before the canceled one", err)
		done <- nil
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
