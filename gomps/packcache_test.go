// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gomps_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// pairOf loads a model in a new engine and returns all numbers of a pair.
func pairOf(t testing.TB, cfg gomps.Config, dir string) []float32 {
	t.Helper()
	cfg.Backend, cfg.Resolution = "cpu", 112
	e, err := gomps.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	r := infer(t, e, picture(84, 112, 0), picture(84, 112, 5))
	defer r.Release()
	return values(r.View[:]...)
}

// packed lists the files of a cache with their times of change.
func packed(t *testing.T, cache string) map[string]time.Time {
	t.Helper()
	all := map[string]time.Time{}
	list, err := filepath.Glob(filepath.Join(cache, "*", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = st.ModTime()
	}
	return all
}

func TestPackCache(t *testing.T) {
	for _, variant := range []string{"mast3r_micro", "dune_micro"} {
		for _, precision := range []string{"fp32", "fp16", "bf16"} {
			dir, cache := microModel(t, variant), t.TempDir()
			want := pairOf(t, gomps.Config{Precision: precision}, dir)
			cold := pairOf(t, gomps.Config{Precision: precision, PackCache: cache}, dir)
			files := packed(t, cache)
			t.Setenv(gomps.EnvPackCache, cache)
			warm := pairOf(t, gomps.Config{Precision: precision}, dir)
			t.Setenv(gomps.EnvPackCache, "")
			if !slices.Equal(cold, want) || !slices.Equal(warm, want) {
				t.Errorf("%s %s: the cache changes results: cold %v, warm %v", variant, precision, !slices.Equal(cold, want), !slices.Equal(warm, want))
			}
			if len(files) < 10 {
				t.Errorf("%s %s: %d files in the cache", variant, precision, len(files))
			}
			for path, was := range packed(t, cache) {
				if !files[path].Equal(was) {
					t.Errorf("%s %s: %s was written again", variant, precision, path)
				}
			}
		}
	}
}

func TestPackCacheSaysWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	dir := microModel(t, "mast3r_micro")
	if want, got := pairOf(t, gomps.Config{}, dir), pairOf(t, gomps.Config{PackCache: file, Logger: logger}, dir); !slices.Equal(got, want) {
		t.Error("wrong result")
	}
	if n := strings.Count(log.String(), "cache of packed weights"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// BenchmarkLoad is the time from a model file to the first result: packing in
// memory, filling an empty cache, and from a full one. MAST3R_MODEL names another
// model than a small synthetic one.
func BenchmarkLoad(b *testing.B) {
	dir := os.Getenv("MAST3R_MODEL")
	if dir == "" {
		dir = microModel(b, "mast3r_tiny")
	}
	size := gomps.Config{Backend: "cpu", Resolution: 224}
	first := func(cache string) {
		cfg := size
		cfg.PackCache = cache
		e, err := gomps.Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		if err := e.Load(b.Context(), dir); err != nil {
			b.Fatal(err)
		}
		r, err := e.Infer(context.Background(), picture(160, 224, 0), picture(160, 224, 5), gomps.InferOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			first("")
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			first(b.TempDir())
		}
	})
	b.Run("warm", func(b *testing.B) {
		cache := b.TempDir()
		first(cache)
		for b.Loop() {
			first(cache)
		}
	})
}
