// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// TestCostOfPublishedModels compares with the figures of the specification, which
// were counted apart from this code (network.md 17): GFLOP of one encoder pass, of
// the decoder, of both heads, of the pair.
func TestCostOfPublishedModels(t *testing.T) {
	for _, c := range []struct {
		variant                            string
		height, width                      int
		encoder, decoder, dpt, local, pair float64
	}{
		{"mast3r_vit_large", 384, 512, 523, 437, 187, 90, 2037},
		{"mast3r_vit_large", 288, 512, 381, 312, 140, 68, 1490},
		{"dune_vit_small_336", 336, 336, 31, 311, 130, 32, 697},
		{"dune_vit_small_448", 448, 448, 64, 620, 231, 57, 1323},
		{"dune_vit_base_14", 336, 448, 154, 437, 173, 61, 1212},
	} {
		got, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Variant: c.variant, Height1: c.height, Width1: c.width})
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, flops int64, want float64) {
			// Up to 4 % less in the heads: a convolution by 1x1 is moved before the
			// upsampling, which the specification counts as a saving of its own.
			if g := float64(flops) / 1e9; g > 1.02*want+1 || g < 0.96*want-1 {
				t.Errorf("%s %dx%d: %s %.0f GFLOP, want %.0f", c.variant, c.height, c.width, what, g, want)
			}
		}
		near("encoder", got.Graphs[0].FLOPs, 2*c.encoder)
		near("decoder", got.Graphs[1].FLOPs, c.decoder)
		near("head", got.Graphs[2].FLOPs, c.dpt+c.local)
		near("pair", got.Total.FLOPs, c.pair)
	}
}

// TestCost counts what can be counted by hand.
func TestCost(t *testing.T) {
	path := microModel(t, "mast3r_micro")
	full, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: path, Height1: 48, Width1: 64, Precision: "fp32", TFLOPS: 1, GBps: 100})
	if err != nil {
		t.Fatal(err)
	}
	var sum gomps.CostPart
	for _, g := range full.Graphs {
		sum.Dispatches += g.Dispatches
		sum.FLOPs += g.FLOPs
		sum.Weights += g.Weights
		least := 1e3 * max(float64(g.FLOPs)/1e12, float64(g.Bytes)/100e9)
		if g.PredictedMS < least*(1-1e-9) || g.PredictedMS > 1e3*(float64(g.FLOPs)/1e12+float64(g.Bytes)/100e9) {
			t.Errorf("%s: %.4f ms predicted, want at least %.4f and at most the sum", g.Name, g.PredictedMS, least)
		}
	}
	if len(full.Graphs) != 4 || sum.Dispatches != full.Total.Dispatches || sum.FLOPs != full.Total.FLOPs {
		t.Errorf("graphs %+v, total %+v", full.Graphs, full.Total)
	}
	byKind := map[string]gomps.CostPart{}
	for _, o := range full.Ops {
		byKind[o.Name] = o
	}
	// 3 encoder blocks, and 10 blocks of two attentions in each of two decoders.
	// Self-attention splits the heads of q, k and v at once.
	if a := byKind["attention"]; a.Dispatches != 3+2*2*10 || a.Transposes != 2*(3+2*10)+4*2*10 {
		t.Errorf("attention: %+v", a)
	}
	e, err := gomps.Open(gomps.Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	// Nearly every weight is read once; the norm that both decoders share, twice.
	if p := 4 * e.Info().Parameters; sum.Weights < p*95/100 || sum.Weights > p*104/100 {
		t.Errorf("%d bytes of weights, the model has %d", sum.Weights, p)
	}
	half, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: path, Height1: 48, Width1: 64, TFLOPS: 1, GBps: 100})
	if err != nil || half.Precision != "fp16" || 2*half.Total.Weights != full.Total.Weights || half.Total.FLOPs != full.Total.FLOPs {
		t.Errorf("half precision: %+v, %v", half, err)
	}
	mixed, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: path, Height1: 48, Width1: 64, Height2: 64, Width2: 48})
	if err != nil || len(mixed.Graphs) != 5 {
		t.Errorf("two sizes: %+v, %v", mixed, err)
	}
}

func TestCostErrors(t *testing.T) {
	var ce *gomps.ConfigError
	var se *gomps.ShapeError
	var we *gomps.WeightsError
	for name, c := range map[string]struct {
		opt gomps.CostOptions
		as  any
	}{
		"no model":  {gomps.CostOptions{}, &ce},
		"variant":   {gomps.CostOptions{Variant: "mast3r_huge"}, &ce},
		"precision": {gomps.CostOptions{Variant: "mast3r_vit_large", Precision: "int8"}, &ce},
		"speed":     {gomps.CostOptions{Variant: "mast3r_vit_large", TFLOPS: math.NaN()}, &ce},
		"size":      {gomps.CostOptions{Variant: "mast3r_vit_large", Height1: 100, Width1: 100}, &se},
		"half size": {gomps.CostOptions{Variant: "mast3r_vit_large", Height1: 160}, &se},
		"enormous":  {gomps.CostOptions{Variant: "mast3r_vit_large", Height1: 1 << 40, Width1: 16}, &se},
		"file":      {gomps.CostOptions{Model: t.TempDir() + "/none"}, &we},
	} {
		if _, err := gomps.EstimateCost(t.Context(), c.opt); !errors.As(err, c.as) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
