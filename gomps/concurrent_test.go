// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// Matches of two goroutines on one engine are those of single calls; under -race this
// also sees a missing lock.
func TestConcurrentMatches(t *testing.T) {
	e := open(t, gomps.Config{Threads: 2, Resolution: 64}, "mast3r_tiny")
	var maps [][2]gomps.Map
	var want []*gomps.Matches
	for i := range 3 {
		r := infer(t, e, picture(48, 64, i), picture(64, 48, i+5))
		t.Cleanup(r.Release)
		pair := [2]gomps.Map{gomps.MapOf(&r.View[0]), gomps.MapOf(&r.View[1])}
		m, err := e.Match(t.Context(), pair[0], pair[1], gomps.MatchOptions{Reciprocal: true, MinConfidence: -2})
		if err != nil {
			t.Fatal(err)
		}
		maps, want = append(maps, pair), append(want, m)
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 5 {
				i := g % len(maps)
				m, err := e.Match(t.Context(), maps[i][0], maps[i][1], gomps.MatchOptions{Reciprocal: true, MinConfidence: -2})
				if err != nil || !slices.Equal(m.Idx1, want[i].Idx1) || !slices.Equal(m.Confidence, want[i].Confidence) {
					t.Errorf("pair %d: other matches than alone (%v)", i, err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

// Engines of several goroutines compile networks with rotary embedding at once.
func TestConcurrentCompiles(t *testing.T) {
	e := open(t, gomps.Config{Threads: 2}, "mast3r_tiny")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := e.Infer(t.Context(), picture(48, 64, g), picture(48, 64, g), gomps.InferOptions{Resolution: 32 + 16*g})
			if err != nil {
				t.Error(err)
				return
			}
			r.Release()
		}()
	}
	wg.Wait()
}

// One call may need more programs than are kept: none that is in use is closed.
func TestMoreProgramsThanAreKept(t *testing.T) {
	e := open(t, gomps.Config{Threads: 2, Resolution: 64}, "mast3r_tiny")
	var images []gomps.Image
	for i := range 14 { // an encoder, a decoder and two heads for each new pair of sizes
		images = append(images, picture(32+16*(i%7), 32+16*(i/2%7), i))
	}
	results, err := e.InferSequence(t.Context(), images, gomps.InferOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		one, err := e.Infer(t.Context(), images[i], images[i+1], gomps.InferOptions{Raw: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(values(one.View[:]...), values(r.View[:]...)) {
			t.Errorf("pair %d of the sequence differs from the pair alone", i)
		}
		one.Release()
		r.Release()
	}
}

// A call that is cancelled while the GPU works comes back when the GPU is done: what it
// gives back is free, and no later call meets it there.
func TestCancelledCallsLeaveNothingRunning(t *testing.T) {
	sim := metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", SkipSelfCheck: true}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 3)
	raw := gomps.InferOptions{Raw: true}
	infer(t, e, a, b).Release() // compiles
	for name, call := range map[string]func(context.Context) error{
		"Infer": func(ctx context.Context) error { _, err := e.Infer(ctx, a, b, raw); return err },
		"InferSequence": func(ctx context.Context) error {
			_, err := e.InferSequence(ctx, []gomps.Image{a, b, a, b}, raw)
			return err
		},
		"Profile": func(ctx context.Context) error {
			_, err := e.Profile(ctx, a, b, gomps.ProfileOptions{InferOptions: raw, Iterations: 3, Wait: true})
			return err
		},
	} {
		sim.Set("latency", "0.3")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if p := e.Pool().Stats(); p.InFlight != 0 || p.InUseBuffers != 0 {
			t.Errorf("%s came back with %d buffers in flight, %d in use", name, p.InFlight, p.InUseBuffers)
		}
		cancel()
		sim.Set("latency", "0")
	}
}

// A long sequence holds the features of a few pictures, however long it is: its memory
// grows by its results alone.
func TestSequencesHoldFewFeatures(t *testing.T) {
	e := open(t, gomps.Config{Threads: 2}, "mast3r_micro")
	var peak, kept [2]uint64
	for i, n := range []int{4, 14} {
		images := make([]gomps.Image, n)
		for k := range images {
			images[k] = picture(48, 64, k)
		}
		e.Trim()
		out, err := e.InferSequence(t.Context(), images, gomps.InferOptions{Raw: true, Only: gomps.OutputConf})
		if err != nil {
			t.Fatal(err)
		}
		s := e.Pool().Stats()
		peak[i], kept[i] = s.PeakBytes, s.InUseBytes
		for _, r := range out {
			r.Release()
		}
	}
	if more, results := peak[1]-peak[0], kept[1]-kept[0]; more > results {
		t.Errorf("ten more pictures took %d bytes more at the peak, their results have %d", more, results)
	}
}

// A model file that is refused after it was opened is not mapped any more.
func TestRefusedModelsAreUnmapped(t *testing.T) {
	if _, err := os.Stat("/proc/self/maps"); err != nil {
		t.Skip("mappings are read from /proc")
	}
	path := microModel(t, "mast3r_micro")
	for name, cfg := range map[string]gomps.Config{
		"another variant": {Variant: "mast3r_vit_large"},
		"resolution":      {Resolution: 3},
	} {
		e, err := gomps.Open(gomps.Config{Backend: "cpu", Variant: cfg.Variant, Resolution: cfg.Resolution})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Load(t.Context(), path); !errors.Is(err, gomps.ErrConfig) && !errors.Is(err, gomps.ErrWeights) {
			t.Fatalf("%s: %v", name, err)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(maps), path) {
			t.Errorf("%s: %s is still mapped after it was refused", name, path)
		}
	}
}
