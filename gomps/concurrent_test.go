// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
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
