// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// memoryCase is one call whose memory is estimated and measured.
type memoryCase struct {
	variant, precision string
	height, width      int
	pictures           int
	symmetric          bool
	batch              int // pairs; 0: none
}

func (c memoryCase) String() string {
	return fmt.Sprintf("%s/%s/%dx%d/%d/%v/%d", c.variant, c.precision, c.height, c.width, c.pictures, c.symmetric, c.batch)
}

// TestEstimateMemory compares the estimate with the peak of a process of its own that
// makes the call: never more than the estimate, never less than 77 % of it.
func TestEstimateMemory(t *testing.T) {
	if path := os.Getenv("GOMPS_TEST_MEMORY"); path != "" {
		measureCall(t, path)
		return
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the peak of a process is read from /proc")
	}
	const tiny = "../python/mast3r_runtime/models/mast3r_tiny"
	for _, c := range []memoryCase{
		{"mast3r_tiny", "fp32", 192, 256, 2, false, 0},
		{"mast3r_tiny", "fp32", 384, 512, 2, false, 0},
		{"mast3r_tiny", "fp16", 384, 512, 2, false, 0},
		{"mast3r_tiny", "bf16", 384, 512, 2, false, 0},
		{"mast3r_tiny", "fp32", 576, 768, 2, false, 0},
		{"mast3r_tiny", "fp32", 384, 512, 2, true, 0},
		{"mast3r_tiny", "fp32", 384, 512, 5, false, 0},
		{"mast3r_tiny", "fp32", 192, 256, 2, false, 7}, // side by side, and one more
		{"mast3r_tiny", "fp32", 384, 512, 2, false, 3}, // one after the other
		{"mast3r_mini", "fp32", 192, 256, 2, false, 0},
		{"dune_micro", "fp32", 336, 448, 2, false, 0},
		{"da3_tiny", "fp32", 378, 504, 8, false, 0},
		{"da3_small", "fp32", 378, 504, 2, false, 0},
		{"da3_small", "fp32", 378, 504, 4, false, 0},
		{"da3_small", "bf16", 378, 504, 2, false, 0},
	} {
		path := tiny
		if c.variant != "mast3r_tiny" {
			path = microModel(t, c.variant)
		}
		t.Run(c.String(), func(t *testing.T) {
			got, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Model: path, Precision: c.precision,
				Height1: c.height, Width1: c.width, Pictures: c.pictures, Symmetric: c.symmetric, Batch: c.batch, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEstimateMemory$", "-test.v")
			cmd.Env = append(os.Environ(), "GOMPS_TEST_MEMORY="+path, "GOMPS_TEST_CALL="+c.String())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, text, _ := strings.Cut(string(out), "grown by ")
			text, _, _ = strings.Cut(text, "\n")
			measured, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("measured %d MB, estimated %d MB (%.2f): %+v", measured>>20, got.Total>>20, float64(measured)/float64(got.Total), got)
			if measured > got.Total || float64(got.Total) > 1.3*float64(measured) {
				t.Errorf("measured %d MB, estimated %d MB", measured>>20, got.Total>>20)
			}
		})
	}
}

// measureCall makes a call and prints by how much the process grew at its peak.
func measureCall(t *testing.T, path string) {
	f := strings.Split(os.Getenv("GOMPS_TEST_CALL"), "/")
	var h, w, n, batch int
	if _, err := fmt.Sscanf(f[2]+" "+f[3]+" "+f[5], "%dx%d %d %d", &h, &w, &n, &batch); err != nil {
		t.Fatal(err)
	}
	grey := gomps.Image{Pix: make([]byte, 3*h*w), Height: h, Width: w}
	for i := range grey.Pix {
		grey.Pix[i] = byte(i * 7)
	}
	before := status(t, "VmRSS")
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Precision: f[1], Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	raw := gomps.InferOptions{Raw: true}
	images := make([]gomps.Image, n)
	for i := range images {
		images[i] = grey
	}
	switch {
	case strings.HasPrefix(f[0], "da3"):
		_, err = e.InferViews(t.Context(), images, gomps.ViewsOptions{Raw: true})
	case f[4] == "true":
		_, err = e.InferSymmetric(t.Context(), grey, grey, raw)
	case batch > 0:
		_, err = e.InferBatch(t.Context(), slices.Repeat([][2]gomps.Image{{grey, grey}}, batch), raw)
	case n == 2:
		_, err = e.Infer(t.Context(), grey, grey, raw)
	default:
		_, err = e.InferSequence(t.Context(), images, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("grown by %d\n", status(t, "VmHWM")-before)
}

// status is a size of this process by its name in /proc/self/status.
func status(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no " + name)
	return 0
}

// TestEstimateMemoryOfPublishedModels: their weights need not be there. The large one has
// 689 million parameters, each of them once in float32 (the 3x3 kernels as 36 numbers for
// 9) and once in half of that on a GPU.
func TestEstimateMemoryOfPublishedModels(t *testing.T) {
	for _, c := range []struct {
		backend, precision string
		least, most        float64 // GB of weights
	}{
		{"cpu", "fp32", 2.5, 3.0},
		{"cpu", "fp16", 1.25, 1.5},
		{"metal", "fp16", 1.25, 1.4},
		{"cuda", "bf16", 1.25, 1.4},
	} {
		got, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Variant: "mast3r_vit_large", Backend: c.backend, Precision: c.precision})
		if err != nil {
			t.Fatal(err)
		}
		if w := float64(got.Weights) / (1 << 30); w < c.least || w > c.most || got.Activations < 10<<20 || got.Total < got.Weights+got.Activations {
			t.Errorf("%s in %s: %+v, want %.2f to %.2f GB of weights", c.backend, c.precision, got, c.least, c.most)
		}
	}
}

// TestEstimateMemoryOfSomeOutputs: results that nobody asks for take no memory, and a
// branch that is not run needs no weights.
func TestEstimateMemoryOfSomeOutputs(t *testing.T) {
	of := func(only gomps.Outputs) *gomps.Memory {
		m, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Variant: "mast3r_vit_large", Pictures: 1000, Only: only})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	all, conf, points := of(0), of(gomps.OutputConf), of(gomps.OutputPoints)
	if all.Results != 29*conf.Results || points.Results != 3*conf.Results { // 3 + 1 + 24 + 1 numbers a pixel
		t.Errorf("results of %d, %d and %d bytes", all.Results, points.Results, conf.Results)
	}
	if conf.Weights >= all.Weights || conf.Total >= all.Total {
		t.Errorf("%d bytes of weights for the confidences, %d for everything", conf.Weights, all.Weights)
	}
}

// TestEstimateMemoryRefusesDescriptors of networks that have none, as their calls do.
func TestEstimateMemoryRefusesDescriptors(t *testing.T) {
	_, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Variant: "da3_base", Only: gomps.OutputDesc})
	if _, ok := errors.AsType[*gomps.UnsupportedError](err); !ok {
		t.Errorf("%v, want an UnsupportedError", err)
	}
}

// TestTooLargeForMemory: a pair that does not fit into memory is refused before anything
// is allocated for it, with what it needs and what there is, and the engine goes on.
func TestTooLargeForMemory(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 8192}, "mast3r_mini")
	big := gomps.Image{Pix: make([]byte, 3*48*64), Height: 48, Width: 64}
	for name, infer := range map[string]func() error{
		"pair": func() error { _, err := e.Infer(t.Context(), big, big, gomps.InferOptions{}); return err },
		"symmetric": func() error {
			_, err := e.InferSymmetric(t.Context(), big, big, gomps.InferOptions{})
			return err
		},
		"sequence of small pictures": func() error {
			images := make([]gomps.Image, 1<<19)
			for i := range images {
				images[i] = big
			}
			_, err := e.InferSequence(t.Context(), images, gomps.InferOptions{Resolution: 512})
			return err
		},
	} {
		err := infer()
		var lack *gomps.MemoryError
		if !errors.As(err, &lack) || !errors.Is(err, gomps.ErrMemory) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lack.Need <= lack.Free || lack.Limit == "" || !strings.Contains(err.Error(), lack.Limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := e.Info().LiveBuffers; n != 0 {
		t.Errorf("%d buffers were allocated for calls that were refused", n)
	}
	r, err := e.Infer(t.Context(), big, big, gomps.InferOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
}

// TestEstimateMemoryErrors: what cannot be estimated is named.
func TestEstimateMemoryErrors(t *testing.T) {
	var ce *gomps.ConfigError
	var se *gomps.ShapeError
	for name, c := range map[string]struct {
		opt gomps.MemoryOptions
		as  any
	}{
		"no model":  {gomps.MemoryOptions{}, &ce},
		"backend":   {gomps.MemoryOptions{Variant: "mast3r_vit_large", Backend: "tpu"}, &ce},
		"precision": {gomps.MemoryOptions{Variant: "mast3r_vit_large", Precision: "tf32"}, &ce},
		"pictures":  {gomps.MemoryOptions{Variant: "mast3r_vit_large", Pictures: 1}, &ce},
		"sequence":  {gomps.MemoryOptions{Variant: "mast3r_vit_large", Pictures: 3, Symmetric: true}, &ce},
		"size":      {gomps.MemoryOptions{Variant: "mast3r_vit_large", Height1: 100, Width1: 100}, &se},
	} {
		if _, err := gomps.EstimateMemory(t.Context(), c.opt); !errors.As(err, c.as) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
