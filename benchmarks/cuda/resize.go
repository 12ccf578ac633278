// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// resize times how pictures of a film, a telephone and a large camera come to network
// size, on the device with the way there and on this machine's CPU, and compares the bytes.
func (t *timer) resize() error {
	pool := par.New(0)
	defer pool.Close()
	z := preprocess.NewResizer(pool)
	for _, c := range []struct{ w, h int }{{1920, 1080}, {4032, 3024}, {6000, 4000}} {
		if *width < 512 { // a rehearsal
			c.w, c.h = c.w/10, c.h/10
		}
		plan, err := preprocess.Plan(c.w, c.h, *width, 16, false)
		if err != nil {
			return err
		}
		src := preprocess.Image{Pix: make([]byte, 3*c.w*c.h), W: c.w, H: c.h, Stride: 3 * c.w}
		r := rand.New(rand.NewPCG(3, 3))
		for i := range src.Pix {
			src.Pix[i] = byte(r.UintN(256))
		}
		want := make([]byte, 3*plan.Width*plan.Height)
		var cpu, device []time.Duration
		for range 5 {
			start := time.Now()
			if err := z.Apply(want, src, plan); err != nil {
				return err
			}
			cpu = append(cpu, time.Since(start))
		}
		x, y, err := z.Axes(plan)
		if err != nil {
			return err
		}
		out, err := t.b.Alloc(len(want))
		if err != nil {
			return err
		}
		defer out.Release()
		var first time.Duration
		for i := range 12 {
			start := time.Now()
			if err := t.b.Resize(context.Background(), out, backend.Picture{Pix: src.Pix, Width: c.w, Height: c.h, Stride: src.Stride}, backend.Taps(x), backend.Taps(y)); err != nil {
				return err
			}
			if i == 0 {
				first = time.Since(start)
			}
			if i >= 2 {
				device = append(device, time.Since(start))
			}
		}
		wrong := 0
		for i, v := range out.Bytes() {
			if v != want[i] {
				wrong++
			}
		}
		t.print(map[string]any{"what": fmt.Sprintf("resize %dx%d", c.w, c.h), "cpu_ms": median(cpu), "device_ms": median(device), "wrong": wrong, "compile_s": first.Seconds()}, nil)
	}
	return nil
}
