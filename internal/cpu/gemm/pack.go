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
		sum = sum && ok && d[1] >= 0 && last <= math.MaxInt-1-x
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
	im := active.Load()
	tile := func(_, t int) {
		var st stage
		st.panel(im, p, &s, t/p.panels(), t%p.panels())
	}
	n := p.Batch * p.panels()
	if pool == nil {
		for t := range n {
			tile(0, t)
		}
		return nil
	}
	pool.Run(n, tile)
	return nil
}

// stageK is the number of k values staged at once: 32 rows of them stay in the
// first-level cache between conversion and transposition.
const stageK = 64

// stage holds 32 rows of stageK values as float32, or as bfloat16 when the panel
// is: two of those make one 4-byte step, which transposes like a float32.
type stage struct {
	f [panelN * stageK]float32
}

// panel packs panel pi of matrix b: load and widen 32 rows, round, transpose. With
// float32 in the middle, 4 source types and 3 targets need 7 routines and not 12,
// and no conversion loses anything (float64 rounds once on the way to 32 bits).
func (st *stage) panel(im *impl, p *Packed, s *Source, b, pi int) {
	dst := p.data[b*p.stride+pi*p.panel:][:p.panel]
	n0 := pi * panelN
	rows := min(panelN, p.N-n0)
	clear(st.f[rows*stageK:])
	step := panelN * p.Type.Size() // bytes per k
	base := b*s.StrideB + n0*s.StrideN
	if p.kind == kF32 && s.Type == tensor.F32 && s.StrideN == 1 && max(s.Taps, 1) == 1 {
		// The B of a plain A·B: each k has its n side by side, as a panel does.
		for k := range p.K {
			n := copy(dst[k*step:][:step], s.Data[(base+k*s.StrideC)*4:][:rows*4])
			clear(dst[k*step+n:][:step-n])
		}
		return
	}
	for k := 0; k < p.K; k += stageK {
		kn := min(stageK, p.K-k)
		st.load(im, s, base, p.K/max(s.Taps, 1), k, kn, rows)
		if p.kind == kBF16 {
			st.narrow(im, kn)
		}
		transpose(im, p.kind, dst[k*step:], st.f[:], stageK, (kn+p.stepSize-1)/p.stepSize)
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
	done := transposeFast(im, kind, dst, src, ld, n)
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
