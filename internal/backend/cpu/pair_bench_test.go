// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
)

// pair is everything a picture pair needs, compiled.
type pair struct {
	b     *cpu.Backend
	progs []backend.Program
	in    [][]backend.Buffer
	out   [][]backend.Buffer
}

// newPair wires encoder, decoder and both heads of a model together.
func newPair(t testing.TB, b *cpu.Backend, m *mast3r.Model, h, w int, opt backend.Options) *pair {
	p := &pair{b: b}
	add := func(g *graph.Graph, err error, in ...backend.Buffer) []backend.Buffer {
		if err != nil {
			t.Fatal(err)
		}
		prog, err := b.Compile(context.Background(), g, opt)
		if err != nil {
			t.Fatal(err)
		}
		var out []backend.Buffer
		for _, o := range g.Outputs {
			x, err := b.Alloc(o.Node.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, x)
		}
		p.progs, p.in, p.out = append(p.progs, prog), append(p.in, in), append(p.out, out)
		return out
	}
	var pics []backend.Buffer
	for i := range 2 {
		x, err := b.Alloc(h * w * 3)
		if err != nil {
			t.Fatal(err)
		}
		for j := range x.Bytes() {
			x.Bytes()[j] = byte(j*7 + i + j/999)
		}
		pics = append(pics, x)
	}
	g, err := m.Encoder(2, h, w)
	feat := add(g, err, pics...)
	grid := m.GridOf(h, w)
	g, err = m.Decoder(1, grid, grid)
	hooks := add(g, err, feat...)
	for v := range 2 {
		g, err = m.Head(v+1, 1, h, w, mast3r.AllOutputs)
		add(g, err, feat[v], hooks[3*v], hooks[3*v+1], hooks[3*v+2])
	}
	return p
}

// run does one pair and returns the time of each program.
func (p *pair) run(t testing.TB) []time.Duration {
	w, err := p.b.Begin(backend.First)
	if err != nil {
		t.Fatal(err)
	}
	for i, prog := range p.progs {
		if err := w.Run(context.Background(), prog, p.in[i], p.out[i]); err != nil {
			t.Fatal(err)
		}
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	d, err := done.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// BenchmarkPair is a whole pair of the large model at 512x384. With
// MAST3R_PROFILE set it prints where the time goes. It needs 6 GB of memory.
func BenchmarkPair(b *testing.B) {
	if testing.Short() {
		b.Skip("-short")
	}
	m := modeltest.Synthetic(b, "mast3r_vit_large", false)
	for _, opt := range []backend.Precision{backend.FP32, backend.FP16, backend.BF16} {
		b.Run(opt.String(), func(b *testing.B) {
			prof := profile{}
			be, err := cpu.New(cpu.Config{Profile: prof.add})
			if err != nil {
				b.Fatal(err)
			}
			defer be.Close()
			start := time.Now()
			p := newPair(b, be, m, 384, 512, backend.Options{Precision: opt})
			b.Logf("compiled in %v", time.Since(start).Round(time.Millisecond))
			p.run(b) // the first touches of the arena
			clear(prof)
			best := make([]time.Duration, len(p.progs))
			n, used := 0, processorTime(b)
			for b.Loop() {
				n++
				for i, d := range p.run(b) {
					if best[i] == 0 || d < best[i] {
						best[i] = d
					}
				}
			}
			b.ReportMetric((processorTime(b)-used).Seconds()/float64(n), "cpu-s/op")
			for i, name := range []string{"encoder", "decoder", "head1", "head2"} {
				b.ReportMetric(best[i].Seconds(), name+"-s")
			}
			if os.Getenv("MAST3R_PROFILE") != "" {
				prof.print(n)
			}
		})
	}
}

type profileKey struct{ graph, op, shape string }

type profile map[profileKey]*backend.Sample

func (p profile) add(s backend.Sample) {
	k := profileKey{s.Graph, s.Op, s.Shape}
	if p[k] == nil {
		p[k] = &backend.Sample{}
	}
	p[k].Time += s.Time
	p[k].FLOPs += s.FLOPs
	p[k].Bytes += s.Bytes
	p[k].Node++
}

func (p profile) print(runs int) {
	keys := slices.SortedFunc(maps.Keys(p), func(a, b profileKey) int { return cmp.Compare(p[b].Time, p[a].Time) })
	w := tabwriter.NewWriter(os.Stderr, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "graph\top\tshape\tsteps\tms\tGFLOP/s\tGB/s")
	for _, k := range keys {
		s := p[k]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.2f\t%.0f\t%.1f\n", strings.TrimSuffix(k.graph, "1"), k.op, k.shape, s.Node/runs,
			s.Time.Seconds()*1e3/float64(runs), float64(s.FLOPs)/s.Time.Seconds()/1e9, float64(s.Bytes)/s.Time.Seconds()/1e9)
	}
	w.Flush()
}
