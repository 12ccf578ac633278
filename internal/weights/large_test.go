// SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/weights/synth"
)

// torchSave writes an archive as torch.save lays it out, tensor after tensor, each
// the same block of numbers again and again.
func torchSave(tb testing.TB, path string, specs []weights.Spec, args string) {
	tb.Helper()
	file, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	z := zip.NewWriter(file)
	entry := func(name string, size int64) (write func([]byte)) {
		// As torch does, sizes stand before the data: no descriptor follows it.
		w, err := z.CreateRaw(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store,
			UncompressedSize64: uint64(size), CompressedSize64: uint64(size)})
		if err != nil {
			tb.Fatal(err)
		}
		return func(b []byte) {
			if _, err := w.Write(b); err != nil {
				tb.Fatal(err)
			}
		}
	}
	p := torchPickle(specs, args)
	entry("data.pkl", int64(len(p)))(p)
	block := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(block); i += 4 {
		v := float32(rng.NormFloat64()) * 0.02
		copy(block[i:], weights.FromFloat32s("", tensor.Shape{1}, []float32{v}).Data)
	}
	for i, s := range specs {
		left := 4 * s.Shape.Numel()
		write := entry("data/"+strconv.Itoa(i), int64(left))
		for left > 0 {
			n := min(left, len(block))
			write(block[:n])
			left -= n
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
}

// torchPickle is {"args": {"model": args}, "model": {name: tensor, ...}}.
func torchPickle(specs []weights.Spec, args string) []byte {
	var b bytes.Buffer
	text := func(s string) {
		b.WriteByte('X')
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
		b.WriteString(s)
	}
	number := func(n int) {
		b.WriteString("\x8a\x08")
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
	tuple := func(v []int) {
		b.WriteByte('(')
		for _, n := range v {
			number(n)
		}
		b.WriteByte('t')
	}
	b.WriteString("\x80\x02}(")
	text("args")
	b.WriteString("cargparse\nNamespace\n)\x81}")
	text("model")
	text(args)
	b.WriteString("sb")
	text("model")
	b.WriteString("ccollections\nOrderedDict\n)R(")
	for i, s := range specs {
		text(s.Name)
		b.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		text("storage")
		b.WriteString("ctorch\nFloatStorage\n")
		text(strconv.Itoa(i))
		text("cpu")
		number(s.Shape.Numel())
		b.WriteString("tQ")
		number(0)
		tuple(s.Shape)
		tuple(s.Shape.Strides())
		b.WriteString("\x89ccollections\nOrderedDict\n)RtR")
	}
	b.WriteString("uu.")
	return b.Bytes()
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
		m, err := model.Open(set)
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
