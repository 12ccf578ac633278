// SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/torchfile"
)

// torchSave writes a checkpoint of float32 tensors, each the same block of numbers
// again and again.
func torchSave(tb testing.TB, path string, specs []weights.Spec, args string) {
	tb.Helper()
	values := make([]float32, 1<<18)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = float32(rng.NormFloat64()) * 0.02
	}
	block := weights.FromFloat32s("", tensor.Shape{len(values)}, values).Data
	err := torchfile.Save(path, specs, torchfile.Content{Args: map[string]any{"model": args}}, func(i int, write func([]byte) error) error {
		for left := 4 * specs[i].Shape.Numel(); left > 0; {
			n := min(left, len(block))
			if err := write(block[:n]); err != nil {
				return err
			}
			left -= n
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// memory samples the process while f runs and returns the most that was resident
// above the start, in heap and in mapped files.
func memory(tb testing.TB, f func()) (heap, files int64) {
	tb.Helper()
	resident := func() (int64, int64) {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			tb.Skipf("no /proc/self/status on %s: %v", runtime.GOOS, err)
		}
		read := func(key string) int64 {
			_, after, _ := strings.Cut(string(text), key+":")
			var kb int64
			fmt.Sscan(after, &kb)
			return kb << 10
		}
		return read("RssAnon"), read("RssFile")
	}
	runtime.GC()
	heap0, files0 := resident()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				h, m := resident()
				heap, files = max(heap, h-heap0), max(files, m-files0)
			}
		}
	}()
	f()
	close(stop)
	<-done
	return heap, files
}

// Neither the heap nor the mapped pages grow with the file.
func TestConvertMemory(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.pth")
	specs := []weights.Spec{
		{Name: "a", DType: tensor.F32, Shape: tensor.Shape{24, 1 << 20}},
		{Name: "b", DType: tensor.F32, Shape: tensor.Shape{24, 1 << 20}},
	}
	torchSave(t, in, specs, "M()")
	heap, files := memory(t, func() {
		if _, err := weights.Convert(context.Background(), in, dir, weights.ConvertOptions{DType: tensor.F16}); err != nil {
			t.Fatal(err)
		}
	})
	const size, most = 2 * 24 * 4 << 20, 48 << 20
	if heap > most || files > most {
		t.Errorf("converting %d MB took %d MB of heap and %d MB of mapped pages, want at most %d", size>>20, heap>>20, files>>20, most>>20)
	}
}

const largeArgs = "AsymmetricMASt3R(pos_embed='RoPE100', img_size=(512, 512), head_type='catmlp+dpt', " +
	"output_mode='pts3d+desc24', depth_mode=('exp', -inf, inf), conf_mode=('exp', 1, inf), enc_num_heads=16, " +
	"dec_num_heads=12, two_confs=True, desc_conf_mode=('exp', 0, inf), landscape_only=False)"

// BenchmarkConvertLarge converts a checkpoint with the names and shapes of the
// published MASt3R, 2.7 GB of float32, and opens both files as a model.
func BenchmarkConvertLarge(b *testing.B) {
	d, err := synth.Variant("mast3r_vit_large")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	in, out := filepath.Join(dir, "in.pth"), filepath.Join(dir, "unified.safetensors")
	torchSave(b, in, d.Files()[0].Specs, largeArgs)
	st, err := os.Stat(in)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	for b.Loop() {
		heap, files := memory(b, func() {
			if _, err := weights.Convert(context.Background(), in, out, weights.ConvertOptions{DType: tensor.F16}); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(float64(heap)/1e6, "heap-MB")
		b.ReportMetric(float64(files)/1e6, "mapped-MB")
	}
	for _, path := range []string{in, out} {
		start := time.Now()
		set, err := weights.OpenSet(path)
		if err != nil {
			b.Fatal(err)
		}
		m, err := mast3r.Open(set)
		if err != nil {
			b.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.Ext(path), ".")
		b.ReportMetric(float64(time.Since(start).Microseconds())/1e3, "open-"+name+"-ms")
		if m.Variant != "mast3r_vit_large" || m.Resolution != 512 {
			b.Errorf("%s is %s at %d", path, m.Variant, m.Resolution)
		}
		if err := set.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
