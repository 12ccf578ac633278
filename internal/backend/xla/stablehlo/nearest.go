// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"math"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// How the pass over all pairs is cut: tiles of so many rows and columns, steps of
// them below each other, warps of a tile; warps that settle one query.
const (
	matchHigh   = 64
	matchWide   = 128
	matchStep   = 16
	matchWarps  = 4
	settleWarps = 1
)

// nearestMultiple is what the numbers of descriptors are padded to.
const nearestMultiple = matchHigh * matchStep

// Bounds of Nearest: two of the columns of its half-precision operands say which
// descriptors are left out, and indices are 32 bits.
const (
	NearestMaxDim = 30
	nearestDeep   = 32
)

// nearestPenalty is added to the scores of descriptors that are left out. It is a
// number of float16 far below any score of descriptors of at most NearestMaxNorm.
const nearestPenalty = -60000

// NearestMaxNorm bounds the product of the largest lengths of descriptors that
// the result of Nearest's program holds for.
const NearestMaxNorm = 1024

// Nearest is the program for the nearest neighbours of n descriptors of dim
// numbers among m, and of the m among the n, for NVIDIA's GPUs: two kernels in
// Triton's dialect.
//
// A pass over all pairs in half precision keeps the largest score of each strip of
// candidates. With |a-a'| and |b-b'| the largest changes by rounding, no score is
// off by more than |a-a'||b| + |a'||b-b'| and what its own sum rounds; the exact
// scores, fused multiply-adds in the order of the components, are then computed in
// the strips that can hold the best. Ties go to the lowest number.
//
// Inputs: f32 [n*dim], u8 [n] (0 leaves a descriptor out), f32 [m*dim], u8 [m].
// Results: for each side i32 neighbours, f32 scores, u8 whether the descriptor is
// used (one with a number beyond 2^48 is not), all of the padded length; then f32
// [1], the product of the largest lengths.
func Nearest(n, m, dim int) (string, error) {
	rows, cols := NearestPadded(n), NearestPadded(m)
	if n < 1 || m < 1 || dim < 1 || dim > NearestMaxDim || rows/matchWide > math.MaxInt32/cols || max(rows, cols) > math.MaxInt32/max(nearestDeep, dim) {
		return "", fmt.Errorf("%w: nearest neighbours of %d and %d descriptors of %d numbers", ErrUnsupported, n, m, dim)
	}
	w := &writer{consts: map[string]value{}}
	a, b := w.side(0, n, rows, dim), w.side(2, m, cols, dim)
	product := w.binary("multiply", w.top(a.length), w.top(b.length))
	f32 := func(s ...int) value { return value{shape: s, dtype: tensor.F32} }
	i32 := func(s ...int) value { return value{shape: s, dtype: tensor.I32} }
	maxima := w.call(maximaKernel(rows, cols, nearestDeep), []value{a.halves(w, 0), b.halves(w, 1)},
		f32(cols/matchWide, rows), f32(rows/nearestMultiple, cols))
	one := w.call(settleKernel(rows, cols, dim, matchWide), []value{a.rows, a.penalty, b.columns, b.penalty, maxima[0], w.slack(a, b)}, i32(rows), f32(rows))
	two := w.call(settleKernel(cols, rows, dim, nearestMultiple), []value{b.rows, b.penalty, a.columns, a.penalty, maxima[1], w.slack(b, a)}, i32(cols), f32(cols))
	out := []value{one[0], one[1], a.used, two[0], two[1], b.used, w.reshape(product, tensor.Shape{1})}
	var names, types []string
	for _, v := range out {
		names, types = append(names, v.name), append(types, v.typ())
	}
	return fmt.Sprintf("module @nearest {\n  func.func public @main(%%x0: tensor<%dxf32>, %%x1: tensor<%dxui8>, %%x2: tensor<%dxf32>, %%x3: tensor<%dxui8>) -> (%s) {\n%s    return %s : %s\n  }\n}\n",
		n*dim, n, m*dim, m, strings.Join(types, ", "), w.body.String(), strings.Join(names, ", "), strings.Join(types, ", ")), nil
}

// NearestPadded is the length of the results for n descriptors.
func NearestPadded(n int) int { return (n + nearestMultiple - 1) / nearestMultiple * nearestMultiple }

// nearestSide is one side's descriptors in the forms that the kernels read.
type nearestSide struct {
	rows, columns value // float32 [n,dim], [dim,n]; 0 where left out
	half          value // float16 [n,dim]
	used          value // u8 [n]
	penalty       value // float32 [n]: 0, or -Inf where left out
	small         value // float16 [n,1]: 0, or nearestPenalty
	length, off   value // float32 [n]: length, and change by rounding
}

// side reads inputs number at and at+1.
func (w *writer) side(at, n, padded, dim int) nearestSide {
	flat := value{name: fmt.Sprintf("%%x%d", at), shape: tensor.Shape{n * dim}, dtype: tensor.F32}
	keep := value{name: fmt.Sprintf("%%x%d", at+1), shape: tensor.Shape{n}, dtype: tensor.U8}
	x := w.reshape(flat, tensor.Shape{n, dim})
	x = w.pad(x, 0, []int{0, 0}, []int{padded - n, 0}, []int{0, 0})
	keep = w.pad(keep, 0, []int{0}, []int{padded - n}, []int{0})
	// The largest magnitude; of NaN, a comparison that fails.
	fine := w.convert(w.compare("LE", w.unary("abs", x), w.like(0x1p48, x)), tensor.F32)
	all := w.reduce("minimum", 1, fine, 1)
	used := w.emit(value{shape: all.shape, dtype: pred}, "tensor<"+fmt.Sprint(padded)+"xi1>", "stablehlo.and %s, %s",
		w.compare("GT", all, w.like(0, all)).name, w.compare("NE", keep, w.like(0, keep)).name)
	s := nearestSide{}
	s.rows = w.choose(w.broadcast(used, x.shape, 0), x, w.like(0, x))
	s.columns = w.transpose(s.rows, 1, 0)
	// Two conversions that lead back are removed by XLA, a reduction of precision is not.
	rounded := w.emit(s.rows, s.rows.typ(), "stablehlo.reduce_precision %s, format = e5m10", s.rows.name)
	s.half = w.convert(rounded, tensor.F16)
	length := func(v value) value { return w.unary("sqrt", w.reduce("add", 0, w.binary("multiply", v, v), 1)) }
	s.length, s.off = length(s.rows), length(w.binary("subtract", s.rows, rounded))
	s.used = w.convert(used, tensor.U8)
	zero := w.splat(0, tensor.F32, all.shape)
	s.penalty = w.choose(used, zero, w.splat(math.Inf(-1), tensor.F32, all.shape))
	s.small = w.reshape(w.convert(w.choose(used, zero, w.splat(nearestPenalty, tensor.F32, all.shape)), tensor.F16), tensor.Shape{padded, 1})
	return s
}

// top is the largest element.
func (w *writer) top(x value) value { return w.reduce("maximum", 0, x, 0) }

// slack is for each query how far below the best maximum its neighbour can lie:
// twice what a score can be off by. |a'| <= |a| + |a-a'|; a sum of 32 products of
// half precision is off by less than 2^-16 of |a||b|, the exact one by 24 roundings.
func (w *writer) slack(q, c nearestSide) value {
	all := func(x value) value { return w.broadcast(w.top(x), q.length.shape) }
	sum := w.binary("multiply", q.off, all(c.length))
	sum = w.binary("add", sum, w.binary("multiply", w.binary("add", q.length, q.off), all(c.off)))
	sum = w.binary("add", sum, w.binary("multiply", w.binary("multiply", q.length, all(c.length)), w.like(0x1p-16, sum)))
	return w.binary("multiply", sum, w.like(2.01, sum))
}

// halves is the operand of the products: the descriptor, then a one and the
// penalty, or the penalty and a one, then zeros.
func (s nearestSide) halves(w *writer, order int) value {
	n, dim := s.half.shape[0], s.half.shape[1]
	one := w.splat(1, tensor.F16, tensor.Shape{n, 1})
	extra := []value{one, s.small}
	if order == 1 {
		extra = []value{s.small, one}
	}
	parts := append([]value{s.half}, extra...)
	if rest := nearestDeep - dim - 2; rest > 0 {
		parts = append(parts, w.splat(0, tensor.F16, tensor.Shape{n, rest}))
	}
	return w.concat(1, parts...)
}
