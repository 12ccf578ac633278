// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/faulty"
)

// TestCUDA runs every call of the engine on the backend cuda, with XLA's plugin
// for the CPU standing in for a GPU's, and compares with the CPU backend.
func TestCUDA(t *testing.T) {
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: the backend cuda is not run (make xla-test)")
	}
	ctx := context.Background()
	path := microModel(t, "mast3r_micro")
	open := func(backend string) *gomps.Engine {
		e, err := gomps.Open(gomps.Config{Backend: backend, Precision: "fp32", ExecutableCache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := e.Load(ctx, path); err != nil {
			t.Fatal(err)
		}
		return e
	}
	gpu, cpu := open("cuda"), open("cpu")
	if i := gpu.Info(); i.Backend != "cuda" || i.Precision != "fp32" {
		t.Errorf("backend %s, precision %s", i.Backend, i.Precision)
	}
	pictures := []gomps.Image{picture(64, 96, 1), picture(64, 96, 2), picture(64, 96, 3)}
	raw := gomps.InferOptions{Raw: true}
	one := func(what string, run func(e *gomps.Engine) ([]*gomps.Tensor, error)) {
		t.Helper()
		got, err := run(gpu)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want, err := run(cpu)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i := range want {
			if e := distance(got[i].Float32s(), want[i].Float32s()); !(e <= 2e-5) {
				t.Errorf("%s: tensor %d: relative L2 %.2g", what, i, e)
			}
			got[i].Release()
			want[i].Release()
		}
	}
	view := func(views ...gomps.View) (list []*gomps.Tensor) {
		for _, v := range views {
			for _, x := range []*gomps.Tensor{v.Points, v.Conf, v.Desc, v.DescConf} {
				if x != nil {
					list = append(list, x)
				}
			}
		}
		return list
	}
	one("pair", func(e *gomps.Engine) ([]*gomps.Tensor, error) {
		r, err := e.Infer(ctx, pictures[0], pictures[1], raw)
		if err != nil {
			return nil, err
		}
		return view(r.View[:]...), nil
	})
	one("pair of other sizes", func(e *gomps.Engine) ([]*gomps.Tensor, error) {
		r, err := e.Infer(ctx, picture(133, 201, 4), picture(40, 55, 5), gomps.InferOptions{Resolution: 64})
		if err != nil {
			return nil, err
		}
		return view(r.View[:]...), nil
	})
	one("only descriptors, symmetric", func(e *gomps.Engine) ([]*gomps.Tensor, error) {
		r, err := e.InferSymmetric(ctx, pictures[0], pictures[1], gomps.InferOptions{Raw: true, Only: gomps.OutputDesc})
		if err != nil {
			return nil, err
		}
		return view(r.View[:]...), nil
	})
	one("sequence", func(e *gomps.Engine) (list []*gomps.Tensor, err error) {
		results, err := e.InferSequence(ctx, pictures, raw)
		for _, r := range results {
			list = append(list, view(r.View[:]...)...)
		}
		return list, err
	})
	one("features, kept and decoded", func(e *gomps.Engine) ([]*gomps.Tensor, error) {
		a, err := e.Encode(ctx, pictures[0], raw)
		if err != nil {
			return nil, err
		}
		defer a.Release()
		b, err := e.NewFeatures(a.Tokens.Float32s(), a.Transform)
		if err != nil {
			return nil, err
		}
		defer b.Release()
		r, err := e.Decode(ctx, a, b, raw)
		if err != nil {
			return nil, err
		}
		return view(r.View[:]...), nil
	})
	if n := gpu.Info().LiveBuffers; n != 0 {
		t.Errorf("%d buffers are left", n)
	}
}

// TestCUDAMatches: descriptors that stay on the device give the CPU's matches.
func TestCUDAMatches(t *testing.T) {
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: the backend cuda is not run (make xla-test)")
	}
	e := open(t, gomps.Config{Backend: "cuda", Precision: "fp32", ExecutableCache: t.TempDir()}, "mast3r_micro")
	r, err := e.Infer(t.Context(), picture(64, 96, 1), picture(64, 96, 2), gomps.InferOptions{Raw: true, Only: gomps.OutputDesc})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	far := [2]gomps.Map{gomps.MapOf(&r.View[0]), gomps.MapOf(&r.View[1])}
	near := far
	for i := range near {
		if far[i].Source == nil || far[i].Desc != nil {
			t.Fatalf("map %d is on the host", i)
		}
		near[i].Source, near[i].Desc = nil, slices.Clone(r.View[i].Desc.Float32s())
	}
	opt := gomps.MatchOptions{Reciprocal: true, Subsample: 4, BothWays: true, Subpixel: true}
	got, err := e.Match(t.Context(), far[0], far[1], opt)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Match(t.Context(), near[0], near[1], opt)
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() == 0 || !slices.Equal(got.Idx1, want.Idx1) || !slices.Equal(got.XY2, want.XY2) {
		t.Errorf("%d matches of maps on the device, %d of the same on the host", got.Len(), want.Len())
	}
	wrong := far[0]
	wrong.Width--
	var se *gomps.ShapeError
	if _, err := e.Match(t.Context(), wrong, far[1], opt); !errors.As(err, &se) {
		t.Errorf("a map of another size than its tensor: %v", err)
	}
	r.View[0].Desc.Release()
	if _, err := e.Match(t.Context(), far[0], far[1], opt); err == nil {
		t.Error("descriptors that were released were matched")
	}
}

// TestCUDAViews: scenes are those of the CPU, and nothing of them comes to the host before
// somebody reads it.
func TestCUDAViews(t *testing.T) {
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: the backend cuda is not run (make xla-test)")
	}
	const height, width = 112, 168
	cfg := gomps.Config{Precision: "fp32", ExecutableCache: t.TempDir()}
	cfg.Backend = "cuda"
	gpu := open(t, cfg, "da3_tiny")
	cfg.Backend = "cpu"
	cpu := open(t, cfg, "da3_tiny")
	pics := pictures(4, height, width)
	cam := gomps.KnownCamera{Intrinsics: [3][3]float64{{150, 0, 84}, {0, 150, 56}, {0, 0, 1}}}
	for i := range 3 {
		cam.Pose[i][i] = 1
	}
	known := make([]gomps.KnownCamera, len(pics))
	for i := range known {
		known[i] = cam
		known[i].Pose[0][3] = 0.2 * float64(i)
	}
	for what, opt := range map[string]gomps.ViewsOptions{
		"together": {Raw: true, Rays: true},
		"known":    {Raw: true, Cameras: known},
		"windows":  {Raw: true, Window: 3, Overlap: 1},
	} {
		s := inferViews(t, gpu, pics, opt)
		if n := gpu.Pool().Stats().InUseBytes; what != "windows" && n > 0 {
			t.Errorf("%s: the host has %d bytes of results that nobody has read", what, n)
		}
		want := inferViews(t, cpu, pics, opt)
		for i := range want.View {
			g, w := s.View[i], want.View[i]
			for name, pair := range map[string][2]*gomps.Tensor{"depth": {g.Depth, w.Depth}, "conf": {g.Conf, w.Conf}, "points": {g.Points, w.Points}, "rays": {g.Rays, w.Rays}} {
				if (pair[0] == nil) != (pair[1] == nil) {
					t.Fatalf("%s: view %d: %s is there on one backend only", what, i, name)
				}
				if pair[0] == nil {
					continue
				}
				if e := distance(pair[0].Float32s(), pair[1].Float32s()); !(e <= 2e-5) {
					t.Errorf("%s: view %d: %s: relative L2 %.2g", what, i, name, e)
				}
			}
		}
		s.Release()
	}
}

// TestCUDAFaults: a GPU without memory and one that is gone are errors of their kinds, of
// every part of a call, of reading results and of matching; the engine goes on.
func TestCUDAFaults(t *testing.T) {
	e, f, infer := openFaulty(t)
	calls := map[string]struct {
		run   func() error
		calls map[faulty.Function]int // of each function
	}{
		"infer": {func() error {
			r, err := infer(t.Context())
			if err == nil {
				r.Release()
			}
			return err
		}, map[faulty.Function]int{faulty.Upload: 4, faulty.Execute: 6, faulty.Await: 6}}, // two pictures, encoder, decoder, heads
		"read": {func() error {
			r, err := infer(t.Context())
			if err != nil {
				return err
			}
			defer r.Release()
			return r.View[1].Desc.CopyTo(make([]float32, r.View[1].Desc.Numel()))
		}, map[faulty.Function]int{faulty.Download: 3}}, // whether they are finite, twice
		"match": {func() error {
			r, err := infer(t.Context())
			if err != nil {
				return err
			}
			defer r.Release()
			_, err = e.Match(t.Context(), gomps.MapOf(&r.View[0]), gomps.MapOf(&r.View[1]), gomps.MatchOptions{})
			return err
		}, map[faulty.Function]int{faulty.Download: 8}}, // likewise, points, confidences and descriptors
	}
	for what, c := range calls {
		for _, code := range []int{faulty.ResourceExhausted, faulty.Unavailable} {
			for function, n := range c.calls {
				for after := range n {
					f.Fail(function, code, after)
					err := c.run()
					f.Fail(-1, 0, 0)
					if !errors.Is(err, gomps.ErrDevice) || errors.Is(err, gomps.ErrMemory) != (code == faulty.ResourceExhausted) {
						t.Errorf("%s: function %d, call %d, code %d: %v", what, function, after, code, err)
					}
					if err := c.run(); err != nil { // and what is still under way ends
						t.Errorf("%s: after function %d failed: %v", what, function, err)
					}
				}
			}
		}
	}
}

// openFaulty opens an engine on a plugin that fails when it is told to, and a call of it.
func openFaulty(t *testing.T) (*gomps.Engine, *faulty.Plugin, func(context.Context) (*gomps.Result, error)) {
	t.Helper()
	f := faulty.Open(t)
	t.Setenv("MAST3R_PJRT_CPU", f.File)
	e := open(t, gomps.Config{Backend: "cuda", Precision: "fp32", ExecutableCache: t.TempDir()}, "mast3r_micro")
	return e, f, func(ctx context.Context) (*gomps.Result, error) {
		return e.Infer(ctx, picture(70, 96, 1), picture(70, 96, 2), gomps.InferOptions{Resolution: 64})
	}
}

// TestEachGPUIsCompared: of several GPUs of one name each is compared with the CPU, and one
// that is not there is named.
func TestEachGPUIsCompared(t *testing.T) {
	f := faulty.Open(t)
	t.Setenv("MAST3R_PJRT_CPU", f.File)
	try := func(name string) error {
		e, err := gomps.Open(gomps.Config{Backend: name, Precision: "fp32", ExecutableCache: t.TempDir()})
		if err != nil {
			return err
		}
		return e.Close()
	}
	for range 2 {
		if err := try("cuda:0"); err != nil {
			t.Fatal(err)
		}
	}
	f.Fail(faulty.Execute, faulty.Internal, 0)
	if err := try("cuda:1"); !errors.Is(err, gomps.ErrDevice) {
		t.Errorf("a second GPU that fails: %v, want an error of its comparison", err)
	}
	f.Fail(-1, 0, 0)
	if err := try("cuda:1"); err != nil {
		t.Error(err)
	}
	if err := try("cuda:200"); !errors.Is(err, gomps.ErrDevice) || !strings.Contains(err.Error(), "200") {
		t.Errorf("a GPU that is not there: %v", err)
	}
}

// TestCUDAGivenUp: a caller who gives up while the device is busy gets that error when the
// device is done, nothing is left, and the engine goes on.
func TestCUDAGivenUp(t *testing.T) {
	e, f, infer := openFaulty(t)
	if r, err := infer(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		r.Release()
	}
	f.Hold(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := infer(ctx)
		done <- err
	}()
	for f.Hold(true) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	time.Sleep(20 * time.Millisecond)
	f.Hold(false)
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || errors.Is(err, gomps.ErrDevice) {
			t.Errorf("a call that was given up: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a call that was given up does not end")
	}
	if n := e.Info().LiveBuffers; n != 0 {
		t.Errorf("%d buffers are left", n)
	}
	if r, err := infer(t.Context()); err != nil {
		t.Errorf("after a call that was given up: %v", err)
	} else {
		r.Release()
	}
}

// TestNoCUDA: without a driver the answer is an error that says so, at once.
func TestNoCUDA(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("there is a GPU here")
	}
	t.Setenv("MAST3R_PJRT_CPU", "")
	start := time.Now()
	_, err := gomps.Open(gomps.Config{Backend: "cuda"})
	var device *gomps.DeviceError
	if !errors.As(err, &device) || !strings.Contains(err.Error(), "driver") {
		t.Errorf("error %v, want a DeviceError about the driver", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("it took %v", d)
	}
	for _, name := range []string{"cuda:", "cuda:x", "cuda:-1", "CUDA"} {
		var setting *gomps.ConfigError
		if _, err := gomps.Open(gomps.Config{Backend: name}); !errors.As(err, &setting) {
			t.Errorf("backend %q: %v", name, err)
		}
	}
	for _, name := range []string{"cpu", "metal"} {
		var setting *gomps.ConfigError
		if _, err := gomps.Open(gomps.Config{Backend: name, Precision: "tf32"}); !errors.As(err, &setting) {
			t.Errorf("tf32 on %s: %v", name, err)
		}
	}
}

func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, n float64
	for i, w := range want {
		d += math.Pow(float64(got[i])-float64(w), 2)
		n += math.Pow(float64(w), 2)
	}
	return math.Sqrt(d / n)
}
