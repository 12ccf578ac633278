// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metaltest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// other names the simulated GPU anew: one that has agreed once in this process is
// not compared again.
func other(t *testing.T, s *metalsim.Sim) { s.Set("name", "GPU of "+t.Name()) }

// TestWrongGPU: a GPU that computes something else is not used unless asked for,
// and then it is an error.
func TestWrongGPU(t *testing.T) {
	for _, fault := range []string{"align_corners", "erf", "norm"} {
		t.Run(fault, func(t *testing.T) {
			s := metalsim.Open(t)
			other(t, s)
			s.Set("fault", fault)
			e := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
			if i := e.Info(); i.Backend != "cpu" || !strings.Contains(i.FallbackReason, "differ from the reference") {
				t.Errorf("runs on %s because %q", i.Backend, i.FallbackReason)
			}
			_, err := gomps.Open(gomps.Config{Backend: "metal"})
			if de := (*gomps.DeviceError)(nil); !errors.As(err, &de) || !errors.Is(err, selfcheck.ErrDisagree) {
				t.Errorf("Metal was insisted on: %v", err)
			}
			sure := open(t, gomps.Config{Backend: "metal", SkipSelfCheck: true, Resolution: 32}, "mast3r_micro")
			if i := sure.Info(); i.Backend != "metal" {
				t.Errorf("without the check it runs on %s", i.Backend)
			}
		})
	}
}

// TestWrongAttention: where MPSGraph's own attention is wrong, unsteady, or loses
// memory in every run, the GPU is used without it.
func TestWrongAttention(t *testing.T) {
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	want := infer(t, open(t, gomps.Config{Backend: "cpu", Resolution: 64}, "mast3r_micro"), a, b)
	for fault, precision := range map[string]string{"attention": "fp16", "sdpa_unsteady": "fp16", "sdpa_leak": "fp32"} {
		for _, system := range []string{"15.5", "26.0"} {
			t.Run(fault+" on macOS "+system, func(t *testing.T) {
				s := metalsim.Open(t)
				other(t, s)
				s.Set("os", system)
				s.Set("fault", fault)
				e := open(t, gomps.Config{Precision: precision, Resolution: 64}, "mast3r_micro")
				if i := e.Info(); i.Backend != "metal" {
					t.Fatalf("runs on %s because %q", i.Backend, i.FallbackReason)
				}
				got := infer(t, e, a, b)
				limit := map[string]float64{"fp16": 3e-2, "fp32": 1e-5}[precision]
				for i := range got {
					if d := relL2(got[i], want[i]); d > limit {
						t.Errorf("tensor %d: %.2g apart, want at most %.2g", i, d, limit)
					}
				}
				before := s.Counter("buffer_bytes_live")
				for range 3 {
					infer(t, e, a, b)
				}
				if now := s.Counter("buffer_bytes_live"); now != before {
					t.Errorf("%d bytes allocated, %d before three inferences", now, before)
				}
			})
		}
	}
}

// TestFailingGPU: what fails while the GPU is opened and checked leads to the
// CPU, with the reason, and the next engine gets the GPU again.
func TestFailingGPU(t *testing.T) {
	for _, failure := range []string{"fail_alloc", "fail_command", "fail_graph", "commit_anyway"} {
		t.Run(failure, func(t *testing.T) {
			s := metalsim.Open(t)
			other(t, s)
			s.Set("commit_continue", "30")
			s.Set(failure, "1")
			e := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
			if i := e.Info(); i.Backend != "cpu" || i.FallbackReason == "" {
				t.Errorf("runs on %s because %q", i.Backend, i.FallbackReason)
			}
			s.Set(failure, "0")
			again := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
			if i := again.Info(); i.Backend != "metal" {
				t.Errorf("the next engine runs on %s because %q", i.Backend, i.FallbackReason)
			}
		})
	}
}

// TestCheckedOnce counts command buffers: the first engine of a process compares,
// the second does not, nor does one that was told not to.
func TestCheckedOnce(t *testing.T) {
	s := metalsim.Open(t)
	other(t, s)
	opened := func(cfg gomps.Config) int64 {
		before := s.Counter("commits")
		e, err := gomps.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if e.Info().Backend != "metal" {
			t.Errorf("runs on %s", e.Info().Backend)
		}
		return s.Counter("commits") - before
	}
	if n := opened(gomps.Config{SkipSelfCheck: true}); n != 0 {
		t.Errorf("%d command buffers without the check", n)
	}
	t.Run("environment", func(t *testing.T) {
		t.Setenv(gomps.EnvSelfCheck, "off")
		if n := opened(gomps.Config{}); n != 0 {
			t.Errorf("%d command buffers with the check off", n)
		}
	})
	if n := opened(gomps.Config{}); n != 6 {
		t.Errorf("%d command buffers of the first engine, want 6: two graphs, three times", n)
	}
	if n := opened(gomps.Config{Backend: "metal"}); n != 0 {
		t.Errorf("%d command buffers of the second engine", n)
	}
	if n := opened(gomps.Config{Precision: "fp32"}); n != 6 {
		t.Errorf("%d command buffers of the first engine in another precision, want 6", n)
	}
}

func TestManualAttention(t *testing.T) {
	metalsim.Open(t)
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	native := infer(t, open(t, gomps.Config{Backend: "metal", Precision: "fp32", Resolution: 64}, "mast3r_micro"), a, b)
	manual := infer(t, open(t, gomps.Config{Backend: "metal", Precision: "fp32", Resolution: 64, ManualAttention: true}, "mast3r_micro"), a, b)
	for i := range native {
		if d := relL2(manual[i], native[i]); d > 1e-5 {
			t.Errorf("tensor %d: %.2g apart", i, d)
		}
	}
	t.Setenv(gomps.EnvAttention, "automatic")
	var ce *gomps.ConfigError
	if _, err := gomps.Open(gomps.Config{Backend: "metal"}); !errors.As(err, &ce) {
		t.Errorf("%s=automatic: %v", gomps.EnvAttention, err)
	}
}

// TestFirstUseFails lets compiling fail after the engine has opened: a typed
// error, on the GPU as before, and the next call works.
func TestFirstUseFails(t *testing.T) {
	s := metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp16", Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	for n := 1; n <= 4; n++ { // encoder, decoder and the two heads
		s.Set("fail_graph", "1")
		var de *gomps.DeviceError
		if _, err := e.Infer(background, a, b, gomps.InferOptions{}); !errors.As(err, &de) {
			t.Fatalf("compilation %d failed and gave %v", n, err)
		}
		s.Set("fail_graph", "0")
		if i := e.Info(); i.Backend != "metal" || i.LiveBuffers != 0 {
			t.Errorf("on %s with %d buffers", i.Backend, i.LiveBuffers)
		}
		if n == 4 {
			infer(t, e, a, b)
			break
		}
		s.Set("fail_graph", "2") // one more part gets compiled
		if _, err := e.Infer(background, a, b, gomps.InferOptions{}); err == nil {
			t.Fatal("nothing was left to compile")
		}
		s.Set("fail_graph", "0")
	}
}

// TestNoWeightIsCopied loads files that have the precision's type: every weight
// is used where the file is mapped, but for those of what computes in float32
// (normalisations, the last convolution of a head): in half precision
// those, and nothing else, are converted once instead of in every run.
func TestNoWeightIsCopied(t *testing.T) {
	for _, precision := range []string{"fp32", "fp16"} {
		t.Run(precision, func(t *testing.T) {
			s := metalsim.Open(t)
			e, err := gomps.Open(gomps.Config{Backend: "metal", Precision: precision, Resolution: 64})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}()
			out := filepath.Join(t.TempDir(), "unified.safetensors")
			if _, err := gomps.Convert(background, modelDir(t, "mast3r_micro"), out, gomps.ConvertOptions{Precision: precision}); err != nil {
				t.Fatal(err)
			}
			copied := func() (n int64) {
				for _, c := range []string{"bytes_constant", "bytes_variable", "bytes_buffer", "bytes_data", "bytes_tensor_data"} {
					n += s.Counter(c)
				}
				return n
			}
			before := copied()
			if err := e.Load(t.Context(), out); err != nil {
				t.Fatal(err)
			}
			infer(t, e, picture(48, 64, 0), picture(48, 64, 5))
			i := e.Info()
			size := map[string]int64{"fp32": 4, "fp16": 2}[precision]
			wide := map[string]int{"fp32": 0, "fp16": 4 * floatNumbers(t, out)}[precision]
			if i.WeightsCopied != wide || copied() != before || int64(i.WeightsMapped) < i.Parameters*size*9/10 {
				t.Errorf("of %d weights %d bytes are mapped and %d copied, want %d; Metal copied %d", i.Parameters, i.WeightsMapped,
					i.WeightsCopied, wide, copied()-before)
			}
		})
	}
}

// floatNumbers counts the weights that half precision reads as float32.
func floatNumbers(t *testing.T, path string) (n int) {
	t.Helper()
	set, err := weights.OpenSet(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for _, name := range set.Names() {
		last := strings.HasSuffix(name, "dpt.head.4.bias") || strings.HasSuffix(name, "dpt.head.4.weight")
		if shape := set.Shape(name); last || len(shape) == 1 && strings.Contains(name, "norm") {
			n += shape.Numel()
		}
	}
	return n
}

// TestSelfCheck is the whole report, on a GPU that is right, on one that is not,
// and without one.
func TestSelfCheck(t *testing.T) {
	s := metalsim.Open(t)
	r, err := gomps.SelfCheck(background)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range r.Checks {
		names = append(names, c.Name)
	}
	if !r.OK() || !r.Metal || r.Reason != "" || r.Family != 7 || r.SDK != "15.0" {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"methods", "stack", "fp32 linear of one row", "fp16 attention of a whole picture", "fp32 network", "fp16 network"} {
		if !slices.Contains(names, want) {
			t.Errorf("no check %q in %q", want, names)
		}
	}
	s.Set("fault", "align_corners")
	if r, err = gomps.SelfCheck(background); err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for _, c := range r.Checks {
		if !c.OK {
			wrong = append(wrong, c.Name)
		}
	}
	if want := "fp32 resize, fp32 network, fp16 resize, fp16 network"; strings.Join(wrong, ", ") != want || r.OK() {
		t.Errorf("wrong: %q, want %s", wrong, want)
	}
	s.Set("fault", "none")
	s.Set("fail_command", "1")
	if r, err = gomps.SelfCheck(background); err != nil || r.OK() || r.Checks[2].OK || !r.Checks[3].OK {
		t.Errorf("one command buffer failed: %+v, %v", r, err)
	}
	s.Set("no_device", "1")
	if r, err = gomps.SelfCheck(background); err != nil || r.Metal || r.Reason == "" || len(r.Checks) != 1 || !r.OK() {
		t.Errorf("without a GPU: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	s.Set("no_device", "0")
	if _, err := gomps.SelfCheck(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestExecutableCache: the second engine over a folder of compiled graphs compiles
// nothing, whether Config or the environment named the folder, and computes the
// same bits.
func TestExecutableCache(t *testing.T) {
	s := metalsim.Open(t)
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	dir := t.TempDir()
	run := func(cfg gomps.Config) ([][]float32, int64) {
		cfg.Backend, cfg.Resolution, cfg.SkipSelfCheck = "metal", 64, true
		before := s.Counter("compiles")
		return infer(t, open(t, cfg, "mast3r_micro"), a, b), s.Counter("compiles") - before
	}
	first, n := run(gomps.Config{ExecutableCache: dir})
	if n != 4 {
		t.Errorf("%d graphs compiled, want 4", n)
	}
	t.Setenv(gomps.EnvExecutableCache, dir)
	second, n := run(gomps.Config{})
	if n != 0 || s.Counter("packages_read") != 4 {
		t.Errorf("%d graphs compiled and %d read, want 0 and 4", n, s.Counter("packages_read"))
	}
	for i := range first {
		if !slices.Equal(first[i], second[i]) {
			t.Errorf("tensor %d differs", i)
		}
	}
}
