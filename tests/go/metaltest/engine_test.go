// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package metaltest runs the whole engine on the simulated GPU.
package metaltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

var background = context.Background()

func modelDir(t testing.TB, variant string) string {
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

// open starts an engine with a model; the simulator's own end-of-test check then
// finds what the engine's Close leaves behind.
func open(t testing.TB, cfg gomps.Config, variant string) *gomps.Engine {
	t.Helper()
	e, err := gomps.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if i := e.Info(); i.LiveBuffers != 0 {
			t.Errorf("%d buffers were not released", i.LiveBuffers)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Load(t.Context(), modelDir(t, variant)); err != nil {
		t.Fatal(err)
	}
	return e
}

// picture is a smooth pattern with detail, shifted by s.
func picture(h, w, s int) gomps.Image {
	img := gomps.Image{Pix: make([]byte, 3*h*w), Height: h, Width: w}
	for i := range img.Pix {
		c, x, y := i%3, i/3%w+s, i/3/w
		v := math.Sin(float64(x*(c+2))/7) + math.Cos(float64(y*(3-c)+s)/5) + float64((x*y)%11)/11
		img.Pix[i] = byte(127 + 40*v)
	}
	return img
}

// views copies all numbers of a pair, in the order of the tensors.
func views(list ...gomps.View) (out [][]float32) {
	for _, v := range list {
		for _, x := range []*gomps.Tensor{v.Points, v.Conf, v.Desc, v.DescConf} {
			out = append(out, append([]float32(nil), x.Float32s()...))
		}
	}
	return out
}

func relL2(got, want []float32) float64 {
	var d, n float64
	for i, w := range want {
		d += float64(got[i]-w) * float64(got[i]-w)
		n += float64(w) * float64(w)
	}
	return math.Sqrt(d / n)
}

func infer(t testing.TB, e *gomps.Engine, a, b gomps.Image) [][]float32 {
	t.Helper()
	r, err := e.Infer(background, a, b, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	return views(r.View[0], r.View[1])
}

// TestGPUAgreesWithCPU infers pairs, a sequence and both directions on both
// devices.
func TestGPUAgreesWithCPU(t *testing.T) {
	for _, variant := range []string{"mast3r_micro", "dune_micro"} {
		for precision, limit := range map[string]float64{"fp32": 2e-5 * metalsim.Tolerance(), "fp16": 3e-2} {
			t.Run(variant+"/"+precision, func(t *testing.T) {
				metalsim.Open(t)
				gpu := open(t, gomps.Config{Backend: "metal", Precision: precision, Resolution: 112}, variant)
				cpu := open(t, gomps.Config{Backend: "cpu", Precision: "fp32", Resolution: 112}, variant)
				if i := gpu.Info(); i.Backend != "metal" || i.Precision != precision || i.FallbackReason != "" {
					t.Fatalf("runs on %s %s: %s", i.Backend, i.Precision, i.FallbackReason)
				}
				agree := func(what string, got, want [][]float32) {
					t.Helper()
					for i := range want {
						if e := relL2(got[i], want[i]); !(e <= limit) {
							t.Errorf("%s: tensor %d: relative L2 %.3g, want <= %.3g", what, i, e, limit)
						}
					}
				}
				a, b, c := picture(48, 64, 0), picture(64, 48, 5), picture(48, 64, 9)
				before := gpu.Info().CommandBuffers
				pair := infer(t, gpu, a, b)
				if n := gpu.Info().CommandBuffers - before; n != 1 {
					t.Errorf("a pair took %d command buffers, want 1", n)
				}
				agree("pair", pair, infer(t, cpu, a, b))

				seq, err := gpu.InferSequence(background, []gomps.Image{a, b, c, a}, gomps.InferOptions{})
				if err != nil {
					t.Fatal(err)
				}
				pairs := [][2]gomps.Image{{a, b}, {b, c}, {c, a}}
				for i, r := range seq {
					agree(fmt.Sprint("sequence ", i), views(r.View[0], r.View[1]), infer(t, cpu, pairs[i][0], pairs[i][1]))
					r.Release()
				}
				if n := gpu.Info().Encodes; n != 6 {
					t.Errorf("%d pictures were encoded, want 2 of the pair and 4 of the sequence", n)
				}
			})
		}
	}
}

func TestMatchOnGPUResults(t *testing.T) {
	metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp32", Resolution: 112}, "mast3r_micro")
	r, err := e.Infer(background, picture(48, 64, 0), picture(48, 64, 0), gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if _, err := e.Match(background, gomps.MapOf(&r.View[0]), gomps.MapOf(&r.View[1]), gomps.MatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestManyInferences watches for growth, on an MPSGraph that likes to commit in
// the middle of an encoding; MAST3R_LONG=1 makes it a thousand.
func TestManyInferences(t *testing.T) {
	n := 200
	switch {
	case os.Getenv("MAST3R_LONG") != "":
		n = 1000
	case testing.Short():
		n = 50
	}
	s := metalsim.Open(t)
	s.Set("commit_continue", "20")
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp16", Resolution: 32}, "mast3r_micro")
	a, b := picture(32, 32, 0), picture(32, 32, 3)
	want := infer(t, e, a, b)
	s.Settle()
	s.Mark()
	bytes, info := s.Counter("buffer_bytes_live"), e.Info()
	for i := range n {
		got := infer(t, e, a, b)
		if i%100 == 0 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("inference %d differs from the first", i)
		}
	}
	if left := s.Leaked(); left > 0 {
		t.Errorf("%d more objects after %d inferences:\n%s", left, n, s.LiveObjects())
	}
	now := e.Info()
	if s.Counter("buffer_bytes_live") != bytes || now.PoolBytes != info.PoolBytes || now.LiveBuffers != info.LiveBuffers {
		t.Errorf("memory grew: %d to %d bytes, pool %d to %d", bytes, s.Counter("buffer_bytes_live"), info.PoolBytes, now.PoolBytes)
	}
	e.Trim()
	if i := e.Info(); i.PoolBytes != 0 {
		t.Errorf("%d bytes pooled after Trim", i.PoolBytes)
	}
}

// TestInjectedFailures lets the device fail inside inferences: an error of the
// right kind each time, and the engine goes on.
func TestInjectedFailures(t *testing.T) {
	s := metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp16", Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 3)
	want := infer(t, e, a, b)
	seen := 0
	for n := 1; n <= 60; n++ {
		e.Trim()
		s.Set("fail_alloc", fmt.Sprint(n))
		r, err := e.Infer(background, a, b, gomps.InferOptions{})
		s.Set("fail_alloc", "0")
		if err == nil {
			r.Release()
			break
		}
		seen++
		var de *gomps.DeviceError
		if ie := (*gomps.ImageError)(nil); !errors.As(err, &de) || errors.As(err, &ie) || !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("allocation %d: %v", n, err)
		}
	}
	if seen < 5 {
		t.Errorf("only %d allocations of an inference could fail", seen)
	}
	s.Set("fail_command", "1")
	var ce *device.CommandError
	if _, err := e.Infer(background, a, b, gomps.InferOptions{}); !errors.As(err, &ce) {
		t.Errorf("a failing command buffer: %v", err)
	}
	if got := infer(t, e, a, b); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("results after the failures differ")
	}
}

// TestFallback takes the CPU, and says why, where there is no usable GPU.
func TestFallback(t *testing.T) {
	for setting, reason := range map[string]string{
		"no_device=1": "no usable GPU", "os=14.7": "too old", "unified=0": "unified memory", "fail_queue=1": "queue", "fail_event=1": "event",
		"family=6": "family 6", "name=Apple Paravirtual device": "virtual machine",
	} {
		t.Run(setting, func(t *testing.T) {
			s := metalsim.Open(t)
			key, value, _ := strings.Cut(setting, "=")
			s.Set(key, value)
			e := open(t, gomps.Config{Resolution: 32}, "mast3r_micro")
			if i := e.Info(); i.Backend != "cpu" || !strings.Contains(i.FallbackReason, reason) {
				t.Errorf("runs on %s because %q, want the CPU because of %q", i.Backend, i.FallbackReason, reason)
			}
			s.Set(key, value)
			e2, err := gomps.Open(gomps.Config{Backend: "metal"})
			if distrust := key == "family" || key == "name"; (err == nil) != distrust {
				t.Errorf("Metal was asked for: %v", err)
			}
			if err == nil {
				check(t, e2.Close())
			}
		})
	}
}
