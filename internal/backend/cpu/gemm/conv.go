// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Conv is a two-dimensional convolution with zero padding:
//
//	Y[n][oy][ox][o] = epilogue(sum over ky, kx, c: relu?(X[n][oy*s+ky-p][ox*s+kx-p][c]) * W[o][(ky*KW+kx)*Cin+c])
//
// X and Y are NHWC, pixels LDX and LDY floats apart and otherwise dense; Res has
// Y's pixels, LDR apart. W comes from Filters, with K = KH*KW*Cin.
//
// It is an implicit product: a task copies the window of X under its tile of
// output pixels into scratch, with the zero border and the optional ReLU applied,
// and then every output pixel is a row of A whose runs lie at constant offsets.
// Nothing of the size of an im2col matrix, nor a padded X, ever exists.
type Conv struct {
	Batch, H, W, Cin int
	KH, KW           int
	Stride           int // 0 means 1
	PadH, PadW       int
	ReLUIn           bool
	X                []float32
	LDX              int
	Weights          *Packed
	Y                []float32
	LDY              int
	Epilogue

	// Then, where it is set, takes the output instead of Y, which is not used: n pixels
	// from the one at index pixel on, channels side by side. The map is never written.
	Then func(pixel, n int, y []float32)

	// Scratch has ScratchBytes(threads) bytes.
	Scratch []byte

	fn    func(worker, tile int)
	im    *impl
	g     convPlan
	small struct { // see splitSmall: Run does not search again
		shape  [13]int
		th, nc int
	}
}

// windowBytes bounds the copied window of a task: it shares the second-level
// cache with a panel of weights.
const windowBytes = 320 << 10

// convPlan is everything Run derives from the fields.
type convPlan struct {
	oh, ow int     // output size
	th, tw int     // tile of output pixels
	ty, tx int     // tiles per picture
	nc, nb int     // panels per task, groups of panels
	pix    int     // floats, or pairs of bfloat16, between pixels of the window
	win    int     // pixels per window row
	bytes  int     // per worker: the window, the sums of tiles, the output for Then
	sums   int     // where the sums begin
	out    int     // where that begins
	way    way     // float32 is the widest
	off    []int64 // of the runs
	steps  int     // per run
}

// OutSize returns the height and width of Y.
func (c *Conv) OutSize() (h, w int) {
	s := max(c.Stride, 1)
	return (c.H+2*c.PadH-c.KH)/s + 1, (c.W+2*c.PadW-c.KW)/s + 1
}

// Check reports whether the fields fit together.
func (c *Conv) Check() error {
	w := c.Weights
	taps, ok := product(c.KH, c.KW, c.Cin)
	if w == nil || !ok || w.Batch != 1 || w.K != taps || c.Cin < 1 || c.KH < 1 || c.KW < 1 {
		return fmt.Errorf("gemm: convolution %dx%d of %d channels: weights do not fit: %w", c.KH, c.KW, c.Cin, ErrShape)
	}
	if c.Batch < 1 || c.H < 1 || c.W < 1 || c.PadH < 0 || c.PadW < 0 || c.Stride < 0 ||
		c.H+2*c.PadH < c.KH || c.W+2*c.PadW < c.KW {
		return fmt.Errorf("gemm: convolution %dx%d of %dx%dx%d, stride %d, padding %d,%d: %w",
			c.KH, c.KW, c.Batch, c.H, c.W, c.Stride, c.PadH, c.PadW, ErrShape)
	}
	if w.kind == kBF16 && !RoundsBF16(c.Cin) || w.kind == kBF16 && c.Cin%2 != 0 {
		return fmt.Errorf("gemm: convolution of %d channels, %v weights, %v: %w", c.Cin, w.Type, Active(), ErrUnsupported)
	}
	in, ok := product(c.Batch, c.H, c.W)
	if !ok {
		return fmt.Errorf("gemm: convolution input overflows: %w", ErrShape)
	}
	if err := checkRows("convolution input", c.X, in, c.Cin, c.LDX); err != nil {
		return err
	}
	oh, ow := c.OutSize()
	out, ok := product(c.Batch, oh, ow)
	if !ok {
		return fmt.Errorf("gemm: convolution output overflows: %w", ErrShape)
	}
	if c.Then == nil {
		if err := checkRows("convolution output", c.Y, out, w.N, c.LDY); err != nil {
			return err
		}
	}
	return c.Epilogue.check(out, w.N)
}

// plan fills c.g for a number of threads, reusing its memory. Its choices never
// touch a result: every output pixel has its own chain over (ky, kx, c).
func (c *Conv) plan(threads int) {
	g := &c.g
	s, cin := max(c.Stride, 1), c.Cin/c.Weights.stepSize
	unit, across, most := 14, 56, 16 // pixels of a kernel and of a tile, and its lines
	if g.way = wayWide; c.Weights.kind == kBF16 {
		g.way = active.Load().bf16(c.Cin)
	}
	if g.way == wayTiles {
		unit, across, most = 16, 64, 8
	}
	g.oh, g.ow = c.OutSize()
	// Rows of A that are a multiple of 2 KiB apart would crowd into two sets of
	// the first-level cache. Otherwise pixels stay adjacent, which joins the taps
	// of a kernel row into one run: few and long runs, also for 3 channels.
	g.pix, g.steps = cin, cin*c.KW
	runs := c.KH
	if cin*s%512 == 0 {
		g.pix, g.steps, runs = cin+16, cin, c.KH*c.KW
	}
	// Tiles of about 4 full kernels across, and as many rows as fit. A tile reads
	// (th*s+KH-1)(tw*s+KW-1) pixels for th*tw outputs: for 3x3 about 1.5 copies per
	// pixel, each of them paid back by 9*Cout multiplications.
	g.tx = max(1, (g.ow+across/2)/across)
	g.tw = (g.ow + g.tx - 1) / g.tx
	if g.tx > 1 {
		g.tw = ceil(g.tw, unit)
	}
	g.tx = (g.ow + g.tw - 1) / g.tw
	g.win = (g.tw-1)*s + c.KW
	line := g.win * g.pix * 4
	g.th = min(g.oh, max(1, min(most, (windowBytes/line-c.KH)/s+1)))
	panels := c.Weights.panels()
	g.nc = panels
	// Small pictures: fewer rows, then fewer panels per task, until each thread has a
	// few tasks. Tasks that share a window copy it twice, the lesser evil.
	small := g.way == wayTiles && c.splitSmall(threads)
	for threads > 1 && !small {
		g.ty, g.nb = (g.oh+g.th-1)/g.th, (panels+g.nc-1)/g.nc
		switch {
		case c.Batch*g.ty*g.tx*g.nb >= 4*threads:
		case g.th > 4:
			g.th = (g.th + 1) / 2
			continue
		case g.nc > 1 && c.Then == nil:
			g.nc = (g.nc + 1) / 2
			continue
		}
		break
	}
	g.ty, g.nb = (g.oh+g.th-1)/g.th, (panels+g.nc-1)/g.nc
	// One vector more, for the rounding to bfloat16 in whole vectors.
	g.bytes = ceil(((g.th-1)*s+c.KH)*line+64, 64) + 64
	if g.way == wayTiles {
		// The last tile may have 15 rows that are none, for memory that holds anything.
		g.sums = ceil(g.bytes+15*s*g.pix*4, 64)
		g.bytes = g.sums + tileSums(g.th, g.tw)*4
	}
	if g.out = g.bytes; c.Then != nil {
		g.bytes += ceil(g.th*g.tw*c.Weights.N*4, 64)
	}
	g.off = g.off[:0]
	for r := range runs {
		y, x := r, 0
		if runs != c.KH {
			y, x = r/c.KW, r%c.KW
		}
		g.off = append(g.off, int64((y*g.win+x)*g.pix*4))
	}
}

// splitSmall chooses the lines and panels of a task on tiles where every thread gets one or
// two of them; see MatMul.splitSmall. It reports whether the convolution is so small.
func (c *Conv) splitSmall(threads int) bool {
	g, s, panels := &c.g, max(c.Stride, 1), c.Weights.panels()
	width := ceil(g.tw, tileRows)
	if work := float64(c.Batch*g.oh*g.tx*width*panels) * float64(c.Weights.K) / tileRate; threads == 1 || work > float64(threads)*taskWork {
		return false
	}
	least := 1
	if c.Then != nil {
		least = panels
	}
	shape := [...]int{threads, c.Batch, g.oh, g.tx, g.tw, g.th, g.win, panels, c.Weights.K, c.Cin, c.KH, s, least}
	if c.small.shape == shape {
		g.th, g.nc = c.small.th, c.small.nc
		return true
	}
	best, most := math.Inf(1), g.th
	for th := 1; th <= most; th++ {
		for nc := least; nc <= panels; nc++ {
			tasks := c.Batch * g.tx * ((g.oh + th - 1) / th) * ((panels + nc - 1) / nc)
			pixels := ((th-1)*s + c.KH) * g.win
			out, w := th*g.tw*nc*panelN*6, nc*panelN*c.Weights.K*2 // half of the outputs have a residual
			task := float64(th*width*nc)*float64(c.Weights.K)/tileRate + float64(pixels*c.Cin*4+out)/dirtyRate +
				float64(w)/cleanRate + float64(pixels)*pixelWork + taskWork/20
			if t := float64(mostTasks(tasks, threads)) * task; t < best {
				best, g.th, g.nc = t, th, nc
			}
		}
	}
	c.small.shape, c.small.th, c.small.nc = shape, g.th, g.nc
	return true
}

// pixelWork is what rounding a pixel of a window takes besides moving it, in cycles.
const pixelWork = 30

// ScratchBytes returns the bytes of Scratch that Run needs on a pool of that many
// threads. The shape fields must be set.
func (c *Conv) ScratchBytes(threads int) int {
	c.plan(threads)
	return threads * c.g.bytes
}

// Run computes Y. It panics if Check or the size of Scratch would report an
// error: both are mistakes of the program, known before its first run.
func (c *Conv) Run(pool *par.Pool) {
	if err := c.Check(); err != nil {
		panic(err)
	}
	checkScratch("convolution", c.Scratch, c.ScratchBytes(pool.Threads()))
	if c.fn == nil {
		c.fn = c.tile
	}
	c.im = active.Load()
	pool.Run(c.Batch*c.g.ty*c.g.tx*c.g.nb, c.fn)
}

func (c *Conv) tile(worker, t int) {
	g := &c.g
	s := max(c.Stride, 1)
	ox := t % g.tx * g.tw
	oy := t / g.tx % g.ty * g.th
	pg := t / (g.tx * g.ty) % g.nb
	n := t / (g.tx * g.ty * g.nb)
	mem := c.Scratch[worker*g.bytes:][:g.bytes]
	win := mem
	if g.way == wayTiles {
		win = mem[:g.sums]
	}
	ends := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem[g.out:]))), len(mem[g.out:])/4)
	h, w := min(g.th, g.oh-oy), min(g.tw, g.ow-ox)
	c.window(win, n, oy*s-c.PadH, ox*s-c.PadW, (h-1)*s+c.KH, (w-1)*s+c.KW)
	p := (n*g.oh+oy)*g.ow + ox
	b := block{
		im: c.im, w: c.Weights, wdata: unsafe.Pointer(&c.Weights.data[0]),
		p0: pg * g.nc, p1: min(c.Weights.panels(), (pg+1)*g.nc),
		lines: h, rows: w,
		a: unsafe.Pointer(&win[0]), lda: s * g.pix * 4, linA: s * g.win * g.pix * 4,
		off: g.off, steps: g.steps, ep: &c.Epilogue,
	}
	if c.Then == nil {
		b.c, b.ldc, b.linC = unsafe.Pointer(&c.Y[p*c.LDY]), c.LDY*4, g.ow*c.LDY*4
	} else {
		b.c, b.ldc, b.linC = unsafe.Pointer(&ends[0]), c.Weights.N*4, w*c.Weights.N*4
	}
	if g.way == wayTiles {
		sums := mem[g.sums:g.out]
		b.tile = tileBlock{on: true, kstep: tileK * 2, next: tileRows * b.lda,
			sums: unsafe.Slice((*float32)(unsafe.Pointer(&sums[0])), len(sums)/4)}
	}
	if c.Res != nil {
		b.res, b.ldr, b.linR = unsafe.Pointer(&c.Res[p*c.LDR]), c.LDR*4, g.ow*c.LDR*4
	}
	b.run()
	for l := range h {
		if c.Then != nil {
			c.Then(p+l*g.ow, w, ends[l*w*c.Weights.N:][:w*c.Weights.N])
		}
	}
}

// window copies rows x cols input pixels from (y0, x0) on, zeros outside.
func (c *Conv) window(dst []byte, n, y0, x0, rows, cols int) {
	g := &c.g
	px := g.pix * 4
	// Columns of the window that lie inside the picture. Cleared and copied parts
	// together cover the window, so what an earlier task left never shows.
	in0, in1 := min(cols, max(0, -x0)), max(0, min(cols, c.W-x0))
	for r := range rows {
		line := dst[r*g.win*px:][:cols*px]
		y := y0 + r
		if y < 0 || y >= c.H || in0 >= in1 {
			clear(line)
			continue
		}
		clear(line[:in0*px])
		clear(line[in1*px:])
		src := ((n*c.H+y)*c.W + x0) * c.LDX
		if c.Weights.kind != kBF16 && c.LDX == c.Cin && g.pix == c.Cin {
			copyRow(c.im, unsafe.Pointer(&line[in0*px]), c.X[src+in0*c.LDX:][:(in1-in0)*c.Cin], c.ReLUIn)
			continue
		}
		for i := in0; i < in1; i++ {
			x := c.X[src+i*c.LDX:][:c.Cin]
			switch {
			case g.way == wayTiles:
				c.spreadPixel(line[i*px:][:px], x)
				continue
			case c.Weights.kind == kBF16:
				c.roundPixel(line[i*px:][:px], x)
				continue
			}
			copyRow(c.im, unsafe.Pointer(&line[i*px]), x, c.ReLUIn)
		}
	}
}

// spreadPixel stores the channels of a pixel, a multiple of 32, as bfloat16.
func (c *Conv) spreadPixel(dst []byte, x []float32) {
	s := spargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&x[0]), n: len(x), step: tileK * 2}
	if !c.ReLUIn {
		s.floor = float32(math.Inf(-1))
	}
	spreadBF16(&s)
}

// roundPixel stores the channels of a pixel as bfloat16.
func (c *Conv) roundPixel(dst []byte, x []float32) {
	var buf [128]float32
	for len(x) > 0 {
		n := min(len(x), len(buf))
		copyRow(c.im, unsafe.Pointer(&buf), x[:n], c.ReLUIn)
		clear(buf[n : (n+15)&^15])
		var out [128]uint16
		toBF16(c.im, unsafe.Pointer(&out), buf[:(n+15)&^15])
		copy(unsafe.Slice((*uint16)(unsafe.Pointer(&dst[0])), n), out[:n])
		x, dst = x[n:], dst[n*2:]
	}
}

// copyRow copies src to dst, with negative values set to zero if relu is set.
func copyRow(im *impl, dst unsafe.Pointer, src []float32, relu bool) {
	out := unsafe.Slice((*float32)(dst), len(src))
	if !relu {
		copy(out, src)
		return
	}
	reluRow(im, out, src)
}
