// SPDX-License-Identifier: Apache-2.0

package gemm

import "unsafe"

// kargs are the arguments of a microkernel. The assembly reads the fields by
// offset: keep the order in step with the generators in gen.
//
// A kernel computes, for each of its rows i and columns j,
//
//	c[i][j] = ini[i][j] + sum over runs r, k < steps: a[i][off[r]+k] * b[r*steps+k][j]
//
// Strides and offsets are in bytes. A step is one float32 of a row, or one pair
// of bfloat16. Products have one run; a convolution has one per kernel tap or
// kernel row, which is how it needs no im2col.
type kargs struct {
	a     unsafe.Pointer // 0
	lda   uintptr        // 8
	b     unsafe.Pointer // 16: 32 columns per step
	c     unsafe.Pointer // 24
	ldc   uintptr        // 32
	steps int            // 40: > 0
	runs  int            // 48: > 0
	off   *int64         // 56
	ini   unsafe.Pointer // 64
	ldi   uintptr        // 72: 0 repeats one row, the bias
}

// eargs are the arguments of the epilogue on a tile of rows x 32:
//
//	c = res + gamma * act(scale * tile)
//
// with the terms whose pointer is nil left out.
type eargs struct {
	tile  unsafe.Pointer // 0: row stride tileLD floats
	rows  int            // 8: > 0
	c     unsafe.Pointer // 16: may be the tile
	ldc   uintptr        // 24
	act   Act            // 32
	gamma unsafe.Pointer // 40: 32 floats
	res   unsafe.Pointer // 48: may be c
	ldr   uintptr        // 56
	scale unsafe.Pointer // 64: one float per row
}

// sargs are the arguments of the softmax of rows, in place:
//
//	x = 2^(x + mask*log2(e) - max), sum = the sum of x
//
// Powers of two save the reduction of the argument; the caller's scale factor
// brings the log2(e) that makes them powers of e. With short, the results are
// bfloat16, from the beginning of each row on, and less exact.
type sargs struct {
	x     unsafe.Pointer // 0
	n     int            // 8: > 0, a multiple of 32
	mask  unsafe.Pointer // 16: n floats or nil; only with one row
	sum   unsafe.Pointer // 24: result, one float per row
	rows  int            // 32: > 0
	ld    uintptr        // 40
	max   unsafe.Pointer // 48: maxLanes floats per row, the largest of which is known to be the row's; or nil
	short bool
}

// qargs are the arguments of a kernel for the scores of attention: groups of
// scoreRows rows of A times a panel, without a start value. It takes the larger of
// max and of the scores, each in lane column%8, and moves a, max and next on, beyond what they
// point into: they are no pointers, which the garbage collector would look at.
type qargs struct {
	a      uintptr        // 0
	lda    uintptr        // 8
	b      unsafe.Pointer // 16
	c      unsafe.Pointer // 24
	ldc    uintptr        // 32
	steps  int            // 40: > 0
	groups int            // 48: > 0
	max    uintptr        // 56: maxLanes floats per row
	// Two rows of 256 bytes from next on are asked for with each group, for later.
	next uintptr // 64
	ldn  uintptr // 72
}

// targs are the arguments of the panel transposition: 32 rows of n floats become
// n rows of 32, stored as float32 or rounded to float16.
type targs struct {
	dst unsafe.Pointer // 0
	src unsafe.Pointer // 8
	ld  uintptr        // 16
	n   int            // 24: > 0, a multiple of 8
}

// rargs are the arguments of the rotation of RoPE: for both halves of every row,
//
//	dst.u = scale*(src.u*cos - src.v*sin), dst.v = scale*(src.v*cos + src.u*sin)
//
// with u and v of q floats each. Rows of cos and sin have 2q floats and no gaps.
type rargs struct {
	dst   unsafe.Pointer // 0
	src   unsafe.Pointer // 8
	cos   unsafe.Pointer // 16
	sin   unsafe.Pointer // 24
	q     int            // 32: > 0, a multiple of 8
	scale float32        // 40
	rows  int            // 48: > 0
	ldd   uintptr        // 56
	lds   uintptr        // 64
}

// pargs are the arguments of packing rows of 32 floats: dst has no gaps.
type pargs struct {
	dst unsafe.Pointer // 0
	src unsafe.Pointer // 8
	lds uintptr        // 16
	n   int            // 24: > 0 rows, or pairs of rows
}

// wargs are the arguments of a row times a few rows of columns that lie as they
// are, in n groups of 32:
//
//	y[g][j] += sum over k < steps: x[k] * b[k][32g+j]
type wargs struct {
	y     unsafe.Pointer // 0
	ldy   uintptr        // 8: from group to group
	x     unsafe.Pointer // 16
	b     unsafe.Pointer // 24
	ldb   uintptr        // 32
	n     int            // 40: > 0
	steps int            // 48: > 0
}

// tkargs are the arguments of a tile kernel: for each panel, and for each group of
// 16 or 32 rows,
//
//	c[i][j] = ini[i][j] + sum over steps of 32 values: a[i][32s+k] * b[32s+k][j]
//
// in bfloat16. The values of a row may lie together or 32 by 32, kstep bytes apart;
// a panel is as in kargs, its steps 2048 bytes apart. Panels of c are 128 bytes apart.
// Other numbers are bytes too.
type tkargs struct {
	a      unsafe.Pointer // 0
	lda    uintptr        // 8
	kstep  uintptr        // 16
	nexta  uintptr        // 24: from group to group
	b      unsafe.Pointer // 32
	nextb  uintptr        // 40: from panel to panel
	c      unsafe.Pointer // 48
	ldc    uintptr        // 56
	nextc  uintptr        // 64
	ini    unsafe.Pointer // 72
	ldi    uintptr        // 80: 0 repeats one row
	nexti  uintptr        // 88
	panelI uintptr        // 96
	steps  int            // 104: > 0
	groups int            // 112: > 0
	panels int            // 120: > 0
}

// spargs are the arguments of rounding to bfloat16: n values, a multiple of 32, each
// at least floor, 32 to a place, of which the places are step bytes apart.
type spargs struct {
	dst   unsafe.Pointer // 0
	src   unsafe.Pointer // 8
	n     int            // 16: > 0
	step  uintptr        // 24
	floor float32        // 32
}

// vargs are the arguments of a conversion of n elements, n a multiple of 16.
type vargs struct {
	dst   unsafe.Pointer // 0
	src   unsafe.Pointer // 8
	n     int            // 16: > 0
	scale float32        // 24: only for the scaling
}

const tileLD = 32 // floats

var (
	zeroRow [32]float32 // start value without a bias
	noOff   [1]int64    // the single run of a product
)

func at(p unsafe.Pointer, i int) *float32 { return (*float32)(unsafe.Add(p, i*4)) }
