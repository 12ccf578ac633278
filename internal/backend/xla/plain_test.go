// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// What follows needs no plugin.

// TestCacheKey: a program is another one on another device, with another flag and of
// another text.
func TestCacheKey(t *testing.T) {
	flags := map[string]any{"xla_a": true, "xla_b": int64(1)}
	keys := map[string]bool{}
	add := func(k *cache, text string, flags map[string]any) { keys[k.key(text, flags)] = true }
	one := &cache{device: "plugin 1, H100, driver 580"}
	add(one, "text", flags)
	add(one, "text", map[string]any{"xla_b": int64(1), "xla_a": true}) // the same
	add(&cache{device: "plugin 1, H200, driver 580"}, "text", flags)
	add(one, "text", map[string]any{"xla_a": true, "xla_b": int64(2)})
	add(one, "text", map[string]any{"xla_a": true})
	add(one, "another text", flags)
	if len(keys) != 5 {
		t.Errorf("%d names of five programs", len(keys))
	}
}

// TestDamagedFiles: what XLA did not make never reaches it.
func TestDamagedFiles(t *testing.T) {
	k := &cache{log: slog.New(slog.DiscardHandler)}
	name := filepath.Join(t.TempDir(), "a.xla")
	for what, data := range map[string][]byte{
		"empty": nil, "short": []byte(magic), "another digest": append([]byte(magic), make([]byte, 100)...), "another program's": bytes.Repeat([]byte("x"), 100),
	} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if x := k.load(nil, name); x != nil {
			t.Errorf("%s: it was loaded", what)
		}
	}
}

// TestPrecisionOptions: each precision has the products it is named after.
func TestPrecisionOptions(t *testing.T) {
	b := &Backend{cfg: Config{Attention: Fused}}
	for p, want := range map[backend.Precision]stablehlo.Options{
		backend.FP32: {Exact: true}, backend.TF32: {}, backend.FP16: {Half: tensor.F16, FusedAttention: true}, backend.BF16: {Half: tensor.BF16, FusedAttention: true},
	} {
		if got, err := b.options(p); err != nil || got != want {
			t.Errorf("%v: %+v, %v, want %+v", p, got, err, want)
		}
	}
	if _, err := b.options(99); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an unknown precision: %v", err)
	}
}

// TestParallel: everything is done once, and a panic is an error.
func TestParallel(t *testing.T) {
	const n = 100
	var done [n]atomic.Int32
	if err := parallel(n, 7, func(i int) { done[i].Add(1) }); err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if got := done[i].Load(); got != 1 {
			t.Errorf("number %d was done %d times", i, got)
		}
	}
	if err := parallel(n, 7, func(i int) {
		if i == 40 {
			panic("a file that was cut short")
		}
	}); err == nil {
		t.Error("a panic was lost")
	}
}

// TestResizeTable: the table has the places of the first pixels from the part's corner on,
// then every output's weights, with zeros behind.
func TestResizeTable(t *testing.T) {
	x := backend.Taps{Size: 3, First: []int{10, 11}, Count: []int{2, 3}, Weights: []int32{5, 6, 99, 7, 8, 9}}
	y := backend.Taps{Size: 1, First: []int{4}, Count: []int{1}, Weights: []int32{-3}}
	var want []byte
	for _, v := range []int32{0, 1, 5, 6, 0, 0, 7, 8, 9, 0, 0, -3, 0, 0, 0} {
		want = binary.LittleEndian.AppendUint32(want, uint32(v))
	}
	if got := resizeTable(x, y, stablehlo.ResizeSize{Height: 1, Width: 2, Taps: 4}); !bytes.Equal(got, want) {
		t.Errorf("the table is %v, want %v", got, want)
	}
}
