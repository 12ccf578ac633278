// SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// noise is a picture of random bytes with padding at the end of each row.
func noise(w, h, pad int) Image {
	r := rand.New(rand.NewPCG(uint64(w), uint64(h)))
	m := Image{Pix: make([]byte, h*(3*w+pad)-pad), W: w, H: h, Stride: 3*w + pad}
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
	}
	return m
}

// TestPlan has the examples of network.md 3 and of the list of awkward sizes.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		w, h, size, patch int
		square            bool
		want              Transform // without the original's size
	}{
		{640, 480, 512, 16, false, Transform{ResizedW: 512, ResizedH: 384, Width: 512, Height: 384}},
		{1000, 667, 512, 16, false, Transform{ResizedW: 512, ResizedH: 342, CropY: 3, Width: 512, Height: 336}},
		{333, 500, 512, 16, false, Transform{ResizedW: 341, ResizedH: 512, CropX: 2, Width: 336, Height: 512}},
		{480, 640, 512, 16, false, Transform{ResizedW: 384, ResizedH: 512, Width: 384, Height: 512}},
		{720, 720, 512, 16, false, Transform{ResizedW: 512, ResizedH: 512, CropY: 64, Width: 512, Height: 384}},
		{720, 720, 512, 16, true, Transform{ResizedW: 512, ResizedH: 512, Width: 512, Height: 512}},
		{640, 480, 518, 14, true, Transform{ResizedW: 518, ResizedH: 388, CropY: 5, Width: 518, Height: 378}},
		{720, 720, 518, 14, true, Transform{ResizedW: 518, ResizedH: 518, Width: 518, Height: 518}},
		{640, 480, 224, 16, false, Transform{ResizedW: 299, ResizedH: 224, CropX: 37, Width: 224, Height: 224}},
		{517, 389, 512, 16, false, Transform{ResizedW: 512, ResizedH: 385, Width: 512, Height: 384}},
		{15, 15, 512, 16, false, Transform{ResizedW: 512, ResizedH: 512, CropY: 64, Width: 512, Height: 384}},
		{1, 1, 512, 16, true, Transform{ResizedW: 512, ResizedH: 512, Width: 512, Height: 512}},
		{20000, 20000, 512, 16, true, Transform{ResizedW: 512, ResizedH: 512, Width: 512, Height: 512}},
		{512, 16, 512, 16, true, Transform{ResizedW: 512, ResizedH: 16, Width: 512, Height: 16}},
	} {
		c.want.OriginalW, c.want.OriginalH = c.w, c.h
		got, err := Plan(c.w, c.h, c.size, c.patch, !c.square)
		if err != nil || got != c.want {
			t.Errorf("%dx%d at %d/%d: %+v, %v, want %+v", c.w, c.h, c.size, c.patch, got, err, c.want)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		w, h, size, patch int
		rectangle43       bool
		text              string
	}{
		{4000, 100, 512, 16, false, "512x13"},
		{100, 4000, 512, 16, false, "at most about 33.03 times"},
		{4000, 1, 512, 16, false, "512x0"},
		{0, 5, 512, 16, false, "empty"},
		{5, -1, 512, 16, false, "empty"},
		{MaxSide + 1, 5, 512, 16, false, "longer than 1048576"},
		{math.MaxInt, math.MaxInt, 512, 16, false, "longer than"},
		{640, 480, 15, 16, false, "want a patch"},
		{640, 480, MaxSize + 1, 16, false, "want a patch"},
		{640, 480, 512, 0, false, "want a patch"},
		{720, 720, 518, 14, true, "4:3"},
		{640, 480, 224, 15, false, "no multiple of the patch"},
	} {
		_, err := Plan(c.w, c.h, c.size, c.patch, c.rectangle43)
		if !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%dx%d at %d/%d: got %v, want a SizeError with %q", c.w, c.h, c.size, c.patch, err, c.text)
		}
	}
}

// TestPlanIsNeverEmpty walks many shapes: a plan is an error or has whole,
// non-empty patches inside the resized picture.
func TestPlanIsNeverEmpty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 20000 {
		w, h := 1+r.IntN(1<<r.IntN(14)), 1+r.IntN(1<<r.IntN(14))
		size, patch := []int{512, 224, 518, 448, 336, 96}[r.IntN(6)], 14+r.IntN(4)
		tr, err := Plan(w, h, size, patch, r.IntN(2) == 0)
		if err != nil {
			continue
		}
		good++
		if !tr.valid() || tr.Width%patch != 0 || tr.Height%patch != 0 {
			t.Fatalf("%dx%d at %d/%d: %+v", w, h, size, patch, tr)
		}
	}
	if good < 5000 {
		t.Errorf("only %d plans succeeded", good)
	}
}

func TestPointsAndMatrices(t *testing.T) {
	tr, err := Plan(1021, 517, 512, 16, true) // factors differ in x and y
	if err != nil {
		t.Fatal(err)
	}
	m, inv := tr.Matrix(), tr.Inverse()
	for _, p := range [][2]float64{{0, 0}, {1020, 516}, {-0.5, -0.5}, {333.25, 100.75}} {
		x, y := tr.ToNetwork(p[0], p[1])
		if mx, my := m[0][0]*p[0]+m[0][2], m[1][1]*p[1]+m[1][2]; math.Abs(mx-x)+math.Abs(my-y) > 1e-9 {
			t.Errorf("%v: matrix gives %g,%g, function %g,%g", p, mx, my, x, y)
		}
		bx, by := tr.ToOriginal(x, y)
		if math.Abs(bx-p[0])+math.Abs(by-p[1]) > 1e-9 {
			t.Errorf("%v came back as %g,%g", p, bx, by)
		}
		if ix, iy := inv[0][0]*x+inv[0][2], inv[1][1]*y+inv[1][2]; math.Abs(ix-p[0])+math.Abs(iy-p[1]) > 1e-9 {
			t.Errorf("%v: inverse matrix gives %g,%g", p, ix, iy)
		}
	}
	// The outer edges of the picture are the outer edges of the resized one.
	x, y := tr.ToNetwork(1020.5, 516.5)
	if math.Abs(x+float64(tr.CropX)-511.5) > 1e-9 || math.Abs(y+float64(tr.CropY)-(float64(tr.ResizedH)-0.5)) > 1e-9 {
		t.Errorf("far edge maps to %g,%g in %+v", x, y, tr)
	}
}

// TestIntrinsics projects a point with the original camera and with the mapped
// one: the second must be where ToNetwork puts the first.
func TestIntrinsics(t *testing.T) {
	tr, err := Plan(1000, 667, 512, 16, true)
	if err != nil {
		t.Fatal(err)
	}
	k := [3][3]float64{{800, 0, 490}, {0, 820, 350}, {0, 0, 1}}
	kn := tr.IntrinsicsToNetwork(k)
	X, Y, Z := 0.3, -0.2, 1.7
	u, v := k[0][0]*X/Z+k[0][2], k[1][1]*Y/Z+k[1][2]
	nu, nv := kn[0][0]*X/Z+kn[0][2], kn[1][1]*Y/Z+kn[1][2]
	if wu, wv := tr.ToNetwork(u, v); math.Abs(nu-wu)+math.Abs(nv-wv) > 1e-9 {
		t.Errorf("projected to %g,%g, want %g,%g", nu, nv, wu, wv)
	}
	back := tr.IntrinsicsToOriginal(kn)
	for i := range 3 {
		for j := range 3 {
			if math.Abs(back[i][j]-k[i][j]) > 1e-9 {
				t.Errorf("K[%d][%d] came back as %g, want %g", i, j, back[i][j], k[i][j])
			}
		}
	}
}

// plain resizes one sample by the definition of network.md 3.1, without tables.
func plain(src []int, m, i int, f *filter) int {
	n := len(src)
	scale := float64(n) / float64(m)
	fs := math.Max(scale, 1)
	c, sup := (float64(i)+0.5)*scale, fs*f.radius
	lo, hi := max(int(c-sup+0.5), 0), min(int(c+sup+0.5), n)
	sum := 0.0
	for j := lo; j < hi; j++ {
		sum += f.at((float64(j) - c + 0.5) * (1 / fs))
	}
	acc := 1 << 21
	for j := lo; j < hi; j++ {
		w := f.at((float64(j)-c+0.5)*(1/fs)) / sum * (1 << 22)
		acc += int(w+math.Copysign(0.5, w)) * src[j]
	}
	return min(max(acc>>22, 0), 255)
}

// TestAgainstPlainLoops compares with the definition on noise, cropped and
// not, shrinking and enlarging, with padded rows.
func TestAgainstPlainLoops(t *testing.T) {
	for _, c := range []struct{ w, h, size, patch int }{{61, 47, 32, 8}, {19, 40, 48, 8}, {48, 33, 48, 8}, {33, 48, 48, 16}} {
		src := noise(c.w, c.h, 5)
		tr, err := Plan(c.w, c.h, c.size, c.patch, false)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3*tr.Width*tr.Height)
		if err := NewResizer(nil).Apply(got, src, tr); err != nil {
			t.Fatal(err)
		}
		want := plainPicture(src, tr)
		if !bytes.Equal(got, want) {
			t.Errorf("%+v: differs from plain loops", tr)
		}
	}
}

func plainPicture(src Image, tr Transform) []byte {
	f := bicubic
	if max(src.W, src.H) > max(tr.ResizedW, tr.ResizedH) {
		f = lanczos3
	}
	axis := func(line []int, m int) []int {
		if len(line) == m {
			return line
		}
		out := make([]int, m)
		for i := range out {
			out[i] = plain(line, m, i, f)
		}
		return out
	}
	out := make([]byte, 3*tr.Width*tr.Height)
	for ch := range 3 {
		wide := make([][]int, src.H)
		for y := range wide {
			line := make([]int, src.W)
			for x := range line {
				line[x] = int(src.Pix[y*src.Stride+3*x+ch])
			}
			wide[y] = axis(line, tr.ResizedW)
		}
		for x := range tr.Width {
			line := make([]int, src.H)
			for y := range line {
				line[y] = wide[y][tr.CropX+x]
			}
			for y, v := range axis(line, tr.ResizedH)[tr.CropY : tr.CropY+tr.Height] {
				out[3*(y*tr.Width+x)+ch] = byte(v)
			}
		}
	}
	return out
}

func TestThreadsAndReuseGiveTheSameBits(t *testing.T) {
	pool := par.New(3)
	defer pool.Close()
	z := NewResizer(pool)
	for range 2 {
		for _, s := range [][2]int{{320, 200}, {200, 320}, {64, 64}} {
			src := noise(s[0], s[1], 0)
			tr, err := Plan(s[0], s[1], 96, 16, false)
			if err != nil {
				t.Fatal(err)
			}
			a, b := make([]byte, 3*tr.Width*tr.Height), make([]byte, 3*tr.Width*tr.Height)
			if err := errors.Join(z.Apply(a, src, tr), NewResizer(nil).Apply(b, src, tr)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Errorf("%v: a reused threaded resizer differs from a fresh one", s)
			}
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	good := noise(64, 48, 0)
	tr, err := Plan(64, 48, 32, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 3*tr.Width*tr.Height)
	with := func(f func(*Image)) Image { m := good; f(&m); return m }
	bad := tr
	bad.CropX = 20
	for name, c := range map[string]struct {
		dst []byte
		src Image
		tr  Transform
	}{
		"short pixels":       {dst, with(func(m *Image) { m.Pix = m.Pix[:len(m.Pix)-1] }), tr},
		"no pixels":          {dst, with(func(m *Image) { m.Pix = nil }), tr},
		"narrow stride":      {dst, with(func(m *Image) { m.Stride = 3*64 - 1 }), tr},
		"negative stride":    {dst, with(func(m *Image) { m.Stride = -192 }), tr},
		"huge stride":        {dst, with(func(m *Image) { m.Stride = math.MaxInt }), tr},
		"no rows":            {dst, with(func(m *Image) { m.H = 0 }), tr},
		"other size":         {dst, noise(63, 48, 0), tr},
		"short output":       {dst[1:], good, tr},
		"crop outside":       {dst, good, bad},
		"empty transform":    {nil, good, Transform{OriginalW: 64, OriginalH: 48}},
		"transform overflow": {nil, good, Transform{64, 48, math.MaxInt, math.MaxInt, math.MaxInt, 0, math.MaxInt, 1}},
	} {
		if err := NewResizer(nil).Apply(c.dst, c.src, c.tr); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestApplyAllocatesNothing(t *testing.T) {
	src := noise(200, 150, 0)
	tr, err := Plan(200, 150, 96, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	dst, z := make([]byte, 3*tr.Width*tr.Height), NewResizer(nil)
	run := func() {
		if err := z.Apply(dst, src, tr); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(5, run); n != 0 {
		t.Errorf("%g allocations a call", n)
	}
}

// TestAxes: two plain passes with what Axes says are what Apply does.
func TestAxes(t *testing.T) {
	for _, c := range []struct{ w, h, size int }{{97, 61, 48}, {31, 47, 64}, {150, 100, 48}, {64, 63, 64}} {
		tr, err := Plan(c.w, c.h, c.size, 16, false)
		if err != nil {
			t.Fatal(err)
		}
		src, z := noise(c.w, c.h, 0), NewResizer(nil)
		want := make([]byte, 3*tr.Width*tr.Height)
		if err := z.Apply(want, src, tr); err != nil {
			t.Fatal(err)
		}
		x, y, err := z.Axes(tr)
		if err != nil {
			t.Fatal(err)
		}
		sum := func(a Axis, i int, at func(j int) byte) byte {
			s := int32(half)
			for j := range a.Count[i] {
				s += a.Weights[i*a.Size+j] * int32(at(a.First[i]+j))
			}
			return clamp(s)
		}
		for i := range want {
			row, col, ch := i/3/tr.Width, i/3%tr.Width, i%3
			got := sum(y, row, func(r int) byte {
				return sum(x, col, func(p int) byte { return src.Pix[r*src.Stride+3*p+ch] })
			})
			if got != want[i] {
				t.Fatalf("%+v: byte %d is %d, want %d", c, i, got, want[i])
			}
		}
	}
	if _, _, err := NewResizer(nil).Axes(Transform{}); err == nil {
		t.Error("a transform of nothing was taken")
	}
}

func BenchmarkApply(b *testing.B) {
	pool := par.New(0)
	defer pool.Close()
	for _, s := range [][2]int{{640, 480}, {1920, 1080}, {4000, 3000}} {
		src := noise(s[0], s[1], 0)
		tr, err := Plan(s[0], s[1], 512, 16, true)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 3*tr.Width*tr.Height)
		for _, r := range []Runner{nil, pool} {
			threads := 1
			if r != nil {
				threads = r.Threads()
			}
			b.Run(fmt.Sprintf("%dx%d/threads=%d", s[0], s[1], threads), func(b *testing.B) {
				z := NewResizer(r)
				for b.Loop() {
					if err := z.Apply(dst, src, tr); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
