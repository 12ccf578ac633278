// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

const descDim = 24

// maps are two maps of unit descriptors: noise, or smooth over cell pixels, the
// second of them shifted, with some noise of its own.
func maps(height, width, cell int) (out [2]match.Map) {
	r := rand.New(rand.NewPCG(7, 7))
	const shift = 20
	rows, cols := height/max(cell, 1)+2, (width+shift)/max(cell, 1)+2
	grid := make([]float64, rows*cols*descDim)
	for i := range grid {
		grid[i] = r.NormFloat64()
	}
	for k := range out {
		out[k] = match.Map{Data: make([]float32, height*width*descDim), Height: height, Width: width, Dim: descDim}
		for i := range height * width {
			row, sum := out[k].Data[i*descDim:(i+1)*descDim], 0.0
			for c := range row {
				v := r.NormFloat64()
				if cell > 0 {
					v = 0.05*v + smooth(grid, cols, c, float64(i/width)/float64(cell), float64(i%width+k*shift)/float64(cell))
				}
				row[c] = float32(v)
				sum += v * v
			}
			for c := range row {
				row[c] *= float32(1 / math.Sqrt(sum))
			}
		}
	}
	return out
}

// smooth interpolates a grid of descriptors.
func smooth(grid []float64, cols, c int, y, x float64) float64 {
	i, j := int(y), int(x)
	v, u := y-float64(i), x-float64(j)
	at := func(i, j int) float64 { return grid[(i*cols+j)*descDim+c] }
	return (1-v)*((1-u)*at(i, j)+u*at(i, j+1)) + v*((1-u)*at(i+1, j)+u*at(i+1, j+1))
}

// match times exact neighbours of whole maps both ways, of maps that are on the device
// and of maps that have to go there, beside this machine's CPU, and compares the answers.
func (t *timer) match() error {
	pool := par.New(0)
	defer pool.Close()
	m := match.New(pool)
	for _, c := range []struct {
		name string
		cell int
	}{{"noise", 0}, {"smooth", 16}, {"very smooth", 64}} {
		pair := maps(*height, *width, c.cell)
		want := [2][]int32{make([]int32, pair[0].Pixels()), make([]int32, pair[1].Pixels())}
		var cpu []time.Duration
		for range 3 {
			start := time.Now()
			if err := m.Nearest(pair[0], pair[1], want[0], want[1]); err != nil {
				return err
			}
			cpu = append(cpu, time.Since(start))
		}
		var host, here [2]backend.Descriptors
		for k := range pair {
			host[k] = backend.Descriptors{Data: pair[k].Data, N: pair[k].Pixels(), Dim: descDim}
			x, err := t.b.Alloc(4 * len(pair[k].Data))
			if err != nil {
				return err
			}
			defer x.Release()
			copy(x.Bytes(), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(pair[k].Data))), x.Len()))
			here[k] = backend.Descriptors{Buffer: x, N: host[k].N, Dim: descDim}
		}
		row := map[string]any{"what": "match " + c.name, "cpu_ms": median(cpu)}
		wrong := 0
		for name, d := range map[string][2]backend.Descriptors{"": here, "host_": host} {
			n, err := t.neighbours(row, name, d, want)
			if err != nil {
				return err
			}
			wrong += n
		}
		row["wrong"] = wrong
		t.print(row, nil)
	}
	return nil
}

// neighbours adds to a row how long the neighbours of two maps take: the program on the
// device, and the whole call. It counts those that are not the wanted ones.
func (t *timer) neighbours(row map[string]any, name string, d [2]backend.Descriptors, want [2][]int32) (wrong int, err error) {
	var whole, device []time.Duration
	var got [2]backend.Neighbours
	for i := range 12 {
		begin := time.Now()
		if got, err = t.b.Nearest(context.Background(), d[0], d[1]); err != nil {
			return 0, err
		}
		if i >= 2 {
			whole, device = append(whole, time.Since(begin)), append(device, t.b.Stats().Matching)
		}
	}
	row[name+"whole_ms"], row[name+"device_ms"] = median(whole), median(device)
	for side := range want {
		for i, j := range want[side] {
			if got[side].To[i] != j {
				wrong++
			}
		}
	}
	return wrong, nil
}
