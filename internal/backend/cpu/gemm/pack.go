// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Source says where W[n][k] lies in unpacked memory. Strides are in elements;
// element (n, k) with k = tap*(K/Taps) + c is at
//
//	batch*StrideB + n*StrideN + tap*StrideTap + c*StrideC
//
// so one description covers the rows of a linear layer, a transposed matrix, and
// a convolution's [O][I][kh][kw], whose taps must become the outer part of k.
type Source struct {
	Data      []byte       // little endian, any alignment
	Type      tensor.DType // F32, F16, BF16 or F64
	StrideN   int
	StrideC   int
	Taps      int // 0 means 1
	StrideTap int
	StrideB   int
}

// Rows describes W stored as [n][k] with a row stride of ld elements.
func Rows(data []byte, t tensor.DType, ld int) Source {
	return Source{Data: data, Type: t, StrideN: ld, StrideC: 1}
}

// Columns describes W stored transposed, as [k][n] with a row stride of ld
// elements: the B of a plain A·B, the V of an attention.
func Columns(data []byte, t tensor.DType, ld int) Source {
	return Source{Data: data, Type: t, StrideN: 1, StrideC: ld}
}

// Filters describes convolution weights [out][in][taps] (OIHW).
func Filters(data []byte, t tensor.DType, in, taps int) Source {
	return Source{Data: data, Type: t, StrideN: in * taps, StrideC: taps, Taps: taps, StrideTap: 1}
}

// Bytes views float32 values as a Source's Data.
func Bytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*4)
}

// check verifies that every element of p lies inside s.
func (s *Source) check(p *Packed) error {
	if s.Type != tensor.F32 && s.Type != tensor.F16 && s.Type != tensor.BF16 && s.Type != tensor.F64 {
		return fmt.Errorf("gemm: pack from %v: %w", s.Type, ErrUnsupported)
	}
	taps := max(s.Taps, 1)
	if s.Taps < 0 || p.K%taps != 0 {
		return fmt.Errorf("gemm: pack: k %d in %d taps: %w", p.K, s.Taps, ErrShape)
	}
	last, sum := 0, true
	for _, d := range [...][2]int{{p.Batch, s.StrideB}, {p.N, s.StrideN}, {taps, s.StrideTap}, {p.K / taps, s.StrideC}} {
		x, ok := product(d[0]-1, d[1])
		sum = sum && ok && last <= math.MaxInt-1-x
		last += x
	}
	if !sum || last >= len(s.Data)/s.Type.Size() {
		return fmt.Errorf("gemm: pack: %d bytes of %v do not hold %d x [%d][%d] with strides n %d, c %d, tap %d, batch %d: %w",
			len(s.Data), s.Type, p.Batch, p.N, p.K, s.StrideN, s.StrideC, s.StrideTap, s.StrideB, ErrShape)
	}
	return nil
}

// Pack fills p from s, converting (round to nearest, ties to even). A nil pool
// packs on the calling goroutine. It is meant for load time and allocates.
func (p *Packed) Pack(pool *par.Pool, s Source) error {
	if err := s.check(p); err != nil {
		return err
	}
	j := newPackJob(active.Load(), p, &s, p.data)
	if pool == nil {
		for t := range j.tiles() {
			j.tile(0, t)
		}
		return nil
	}
	pool.Run(j.tiles(), j.tile)
	return nil
}

// packJob packs whole matrices in tiles of pc panels and kc values of k.
type packJob struct {
	im     *impl
	p      *Packed
	s      *Source
	dst    []byte
	pc, pb int // panels per tile, groups of panels
	kc, kb int
}

// newPackJob chooses tiles that read rows of 1 KiB or more, whichever way the rows
// lie, so that the processor foresees what comes next.
func newPackJob(im *impl, p *Packed, s *Source, dst []byte) packJob {
	j := packJob{im: im, p: p, s: s, dst: dst, pc: 1, kc: 1024}
	if s.columns(p) {
		j.pc, j.kc = 8, 128
	}
	j.pb, j.kb = (p.panels()+j.pc-1)/j.pc, (p.K+j.kc-1)/j.kc
	return j
}

func (j *packJob) tiles() int { return j.p.Batch * j.pb * j.kb }

func (j *packJob) tile(_, t int) {
	var st stage
	k0 := t % j.kb * j.kc
	p0 := t / j.kb % j.pb * j.pc
	b := t / (j.kb * j.pb)
	p := j.p
	dst := j.dst[b*p.stride+p0*p.panel+k0*panelN*p.Type.Size():]
	st.pack(j.im, p, j.s, b, p0, min(p.panels(), p0+j.pc), k0, min(j.kc, p.K-k0), dst, p.panel)
}

// columns says that each k has its n side by side, as a panel does: nothing needs
// to be turned or converted.
func (s *Source) columns(p *Packed) bool {
	return p.kind == kF32 && s.Type == tensor.F32 && s.StrideN == 1 && max(s.Taps, 1) == 1
}

// stageK is the number of k values staged at once: 32 rows of them stay in the
// first-level cache between conversion and transposition.
const stageK = 64

// stage holds 32 rows of stageK values as float32, or as bfloat16 when the panel
// is: two of those make one 4-byte step, which transposes like a float32.
type stage struct {
	f [panelN * stageK]float32
}

// pack packs kn values from k0 on, a multiple of 2, of panels p0 <= p < p1 of matrix
// b to dst, stride bytes from panel to panel.
func (st *stage) pack(im *impl, p *Packed, s *Source, b, p0, p1, k0, kn int, dst []byte, stride int) {
	base := b*s.StrideB + p0*panelN*s.StrideN
	if s.columns(p) {
		packColumns(im, s.Data[(base+k0*s.StrideC)*4:], s.StrideC*4, kn, (min(p1*panelN, p.N)-p0*panelN)*4, dst, stride)
		return
	}
	for pi := p0; pi < p1; pi++ {
		st.panel(im, p, s, base, min(panelN, p.N-pi*panelN), k0, kn, dst)
		base += panelN * s.StrideN
		dst = dst[min(stride, len(dst)):]
	}
}

// packColumns deals kn rows of width bytes, ld apart, out to panels. Long rows are
// read in order, which is fastest from memory; short rows, which fit the cache, are
// read panel by panel.
func packColumns(im *impl, src []byte, ld, kn, width int, dst []byte, stride int) {
	const line = panelN * 4
	if width >= 8*line {
		for k := range kn {
			row := src[k*ld:][:width]
			to := k * line
			for ; len(row) >= line; row = row[line:] {
				*(*[line]byte)(dst[to:]) = *(*[line]byte)(row)
				to += stride
			}
			if len(row) > 0 {
				clear(dst[to:][:line][copy(dst[to:], row):])
			}
		}
		return
	}
	for at := 0; at < width; at += line {
		if width-at >= line {
			copyRows(im, &pargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[at]), lds: uintptr(ld), n: kn})
		} else {
			for k := range kn {
				to := dst[k*line:][:line]
				clear(to[copy(to, src[k*ld+at:][:width-at]):])
			}
		}
		dst = dst[min(stride, len(dst)):]
	}
}

// panel packs a part of one panel, whose row 0 begins at element base: load and
// widen its rows, round, transpose. With float32 in the middle, 4 source types and 3
// targets need 7 routines and not 12, and no conversion loses anything (float64
// rounds once on the way to 32 bits).
func (st *stage) panel(im *impl, p *Packed, s *Source, base, rows, k0, kn int, dst []byte) {
	step := panelN * p.Type.Size() // bytes per k
	done := 0
	if p.kind == kF32 && s.Type == tensor.F32 && s.StrideC == 1 && max(s.Taps, 1) == 1 && rows == panelN {
		done = transposeFast(im, kF32, dst, unsafe.Pointer(unsafe.SliceData(s.Data[(base+k0)*4:])), s.StrideN, kn)
	}
	clear(st.f[rows*stageK:])
	for k := done; k < kn; k += stageK {
		n := min(stageK, kn-k)
		st.load(im, s, base, p.K/max(s.Taps, 1), k0+k, n, rows)
		if p.kind == kBF16 {
			st.narrow(im, n)
		}
		transpose(im, p.kind, dst[k*step:], st.f[:], stageK, (n+p.stepSize-1)/p.stepSize)
	}
}

// load fills the stage with k0 <= k < k0+kn of rows n.
func (st *stage) load(im *impl, s *Source, base, inner, k0, kn, rows int) {
	for r := range rows {
		out := st.f[r*stageK:][:kn]
		if max(s.Taps, 1) == 1 && s.StrideC == 1 {
			widen(im, out, s, base+r*s.StrideN+k0)
			continue
		}
		for i := range out {
			k := k0 + i
			out[i] = s.at(base + r*s.StrideN + k/inner*s.StrideTap + k%inner*s.StrideC)
		}
	}
}

// at reads one element.
func (s *Source) at(i int) float32 {
	switch s.Type {
	case tensor.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(s.Data[i*4:]))
	case tensor.F16:
		return tensor.Float32FromF16(binary.LittleEndian.Uint16(s.Data[i*2:]))
	case tensor.BF16:
		return tensor.Float32FromBF16(binary.LittleEndian.Uint16(s.Data[i*2:]))
	}
	return float32(math.Float64frombits(binary.LittleEndian.Uint64(s.Data[i*8:])))
}

// widen converts len(out) consecutive elements from element i on.
func widen(im *impl, out []float32, s *Source, i int) {
	done := widenFast(im, out, s, i)
	for j := done; j < len(out); j++ {
		out[j] = s.at(i + j)
	}
}

// narrow rounds the first kn values of each row to bfloat16 in place, padding an
// odd kn with a zero.
func (st *stage) narrow(im *impl, kn int) {
	for r := range panelN {
		row := st.f[r*stageK:][:stageK]
		for i := kn; i < (kn+15)&^15; i++ {
			row[i] = 0
		}
		toBF16(im, unsafe.Pointer(&row[0]), row[:(kn+15)&^15])
	}
}

// transpose writes n steps of a panel from 32 rows, ld values apart.
func transpose(im *impl, kind int, dst []byte, src []float32, ld, n int) {
	done := transposeFast(im, kind, dst, unsafe.Pointer(&src[0]), ld, n)
	if kind == kF16 {
		for k := done; k < n; k++ {
			row := (*[panelN]uint16)(unsafe.Pointer(&dst[k*panelN*2]))
			for j := range row {
				row[j] = tensor.F16FromFloat32(src[j*ld+k])
			}
		}
		return
	}
	for k := done; k < n; k++ {
		row := (*[panelN]float32)(unsafe.Pointer(&dst[k*panelN*4]))
		for j := range row {
			row[j] = src[j*ld+k]
		}
	}
}
