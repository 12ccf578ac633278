// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// checkProfile is what holds of every profile, on any device.
func checkProfile(t *testing.T, p *gomps.Profile, cost *gomps.Cost) {
	t.Helper()
	var stages, ops float64
	for i, s := range p.Stages {
		stages += s.MS
		if s.MS <= 0 || s.FLOPs != cost.Graphs[i].FLOPs || math.Abs(s.TFLOPS*s.MS*1e9-float64(s.FLOPs)) > 1 {
			t.Errorf("stage %+v, want %d FLOPs", s, cost.Graphs[i].FLOPs)
		}
	}
	if len(p.Stages) != len(cost.Graphs) || stages > p.WallMS*3 || p.DeviceMS <= 0 {
		t.Errorf("stages %+v of %.3f ms, wall time %.3f ms", p.Stages, stages, p.WallMS)
	}
	counts := map[string]int{}
	for i, o := range p.Ops {
		ops += o.MS
		counts[o.Name] = o.Count
		if i > 0 && o.MS > p.Ops[i-1].MS {
			t.Errorf("%s before the dearer %s", p.Ops[i-1].Name, o.Name)
		}
	}
	if counts["attention"] != 43 || counts["linear"] == 0 || ops <= 0 {
		t.Errorf("operations %+v", p.Ops)
	}
}

func TestProfile(t *testing.T) {
	path := microModel(t, "mast3r_micro")
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Resolution: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, a, b := context.Background(), picture(48, 64, 0), picture(48, 64, 3)
	if _, err := e.Profile(ctx, a, b, gomps.ProfileOptions{}); !errors.Is(err, gomps.ErrNotLoaded) {
		t.Errorf("without a model: %v", err)
	}
	if err := e.Load(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	cost, err := gomps.EstimateCost(t.Context(), gomps.CostOptions{Model: path, Height1: 48, Width1: 64})
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []bool{false, true} {
		p, err := e.Profile(ctx, a, b, gomps.ProfileOptions{Iterations: 3, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		if !p.Measured || !p.OpsMeasured || p.Backend != "cpu" || p.Height1 != 48 || p.Width2 != 64 || p.Iterations != 3 || p.Wait != wait {
			t.Errorf("%+v", p)
		}
		checkProfile(t, p, cost)
	}
	if i := e.Info(); i.LiveBuffers != 0 {
		t.Errorf("%d buffers are left", i.LiveBuffers)
	}
	var ce *gomps.ConfigError
	if _, err := e.Profile(ctx, a, b, gomps.ProfileOptions{Iterations: -1}); !errors.As(err, &ce) {
		t.Errorf("-1 iterations: %v", err)
	}
	if _, err := e.Profile(canceled(), a, b, gomps.ProfileOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if r, err := e.Infer(ctx, a, b, gomps.InferOptions{}); err != nil {
		t.Errorf("after profiling: %v", err)
	} else {
		r.Release()
	}
}
