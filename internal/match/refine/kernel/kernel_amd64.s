// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

#include "textflag.h"

// Twelve bytes of four RGB pixels become [R0 R1 G0 G1 B0 B1 0 0], [R2 R3 ...].
DATA pairs<>+0(SB)/8, $0x8080050204010300
DATA pairs<>+8(SB)/8, $0x80800b080a070906
GLOBL pairs<>(SB), RODATA|NOPTR, $16

// The first two of four RGB pixels as 16-bit numbers [R G B 0], and the next two.
DATA front<>+0(SB)/8, $0x8080800280018000
DATA front<>+8(SB)/8, $0x8080800580048003
GLOBL front<>(SB), RODATA|NOPTR, $16
DATA back<>+0(SB)/8, $0x8080800880078006
DATA back<>+8(SB)/8, $0x8080800b800a8009
GLOBL back<>(SB), RODATA|NOPTR, $16

// 77, 150, 29, 0: the weights of a grey value.
DATA weights<>+0(SB)/8, $0x0000001d0096004d
GLOBL weights<>(SB), RODATA|NOPTR, $8

DATA constants<>+0(SB)/4, $0x01010101 // ones
DATA constants<>+4(SB)/4, $512
DATA constants<>+8(SB)/4, $0x3b800000 // 1/256
DATA constants<>+12(SB)/4, $0x00020002
DATA constants<>+16(SB)/4, $0x3a83126f // 1e-3
DATA constants<>+20(SB)/4, $0x3f800000 // 1
GLOBL constants<>(SB), RODATA|NOPTR, $24

// func halveColoursAVX2(out, a, b *byte, blocks int)
// 8 values a block: 16 pixels of each row, four to a 128-bit lane.
TEXT ·halveColoursAVX2(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ blocks+24(FP), CX
	TESTQ CX, CX
	JZ done
	VBROADCASTI128 pairs<>(SB), Y15
	VPBROADCASTQ weights<>(SB), Y14
	VPBROADCASTD constants<>+0(SB), Y13
	VPBROADCASTD constants<>+4(SB), Y12
loop:
	VMOVDQU (SI), X0
	VINSERTI128 $1, 12(SI), Y0, Y0
	VMOVDQU (DX), X1
	VINSERTI128 $1, 12(DX), Y1, Y1
	VMOVDQU 24(SI), X2
	VINSERTI128 $1, 36(SI), Y2, Y2
	VMOVDQU 24(DX), X3
	VINSERTI128 $1, 36(DX), Y3, Y3
	VPSHUFB Y15, Y0, Y0
	VPSHUFB Y15, Y1, Y1
	VPSHUFB Y15, Y2, Y2
	VPSHUFB Y15, Y3, Y3
	// Pixels are unsigned, the ones signed: the sums of two neighbours.
	VPMADDUBSW Y13, Y0, Y0
	VPMADDUBSW Y13, Y1, Y1
	VPMADDUBSW Y13, Y2, Y2
	VPMADDUBSW Y13, Y3, Y3
	VPADDW Y1, Y0, Y0
	VPADDW Y3, Y2, Y2
	VPMADDWD Y14, Y0, Y0
	VPMADDWD Y14, Y2, Y2
	VPHADDD Y2, Y0, Y0 // 0 1 4 5 | 2 3 6 7
	VPERMQ $0xd8, Y0, Y0
	VPADDD Y12, Y0, Y0
	VPSRLD $10, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSDW X1, X0, X0
	VPACKUSWB X0, X0, X0
	VMOVQ X0, (DI)
	ADDQ $48, SI
	ADDQ $48, DX
	ADDQ $8, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
done:
	RET

// func halveGreyAVX2(out, a, b *byte, blocks int)
TEXT ·halveGreyAVX2(SB), NOSPLIT, $0-32
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ blocks+24(FP), CX
	TESTQ CX, CX
	JZ done
	VPBROADCASTD constants<>+0(SB), Y13
	VPBROADCASTD constants<>+12(SB), Y12
loop:
	VMOVDQU (SI), Y0
	VMOVDQU (DX), Y1
	VPMADDUBSW Y13, Y0, Y0
	VPMADDUBSW Y13, Y1, Y1
	VPADDW Y1, Y0, Y0
	VPADDW Y12, Y0, Y0
	VPSRLW $2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSWB X1, X0, X0
	VMOVDQU X0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $16, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
done:
	RET

// func prefetchAVX2(p *byte, stride, rows, lines int)
TEXT ·prefetchAVX2(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ stride+8(FP), DX
	MOVQ rows+16(FP), CX
	MOVQ lines+24(FP), R8
row:
	MOVQ SI, DI
	MOVQ R8, R9
line:
	PREFETCHT0 (DI)
	ADDQ $64, DI
	DECQ R9
	JNZ line
	ADDQ DX, SI
	DECQ CX
	JNZ row
	RET

// func greyAVX2(out *float32, rgb *byte, blocks int)
TEXT ·greyAVX2(SB), NOSPLIT, $0-24
	MOVQ out+0(FP), DI
	MOVQ rgb+8(FP), SI
	MOVQ blocks+16(FP), CX
	TESTQ CX, CX
	JZ done
	VBROADCASTI128 front<>(SB), Y15
	VBROADCASTI128 back<>(SB), Y14
	VPBROADCASTQ weights<>(SB), Y13
	VBROADCASTSS constants<>+8(SB), Y12
loop:
	VMOVDQU (SI), X0
	VINSERTI128 $1, 12(SI), Y0, Y0
	VPSHUFB Y14, Y0, Y1
	VPSHUFB Y15, Y0, Y0
	VPMADDWD Y13, Y0, Y0
	VPMADDWD Y13, Y1, Y1
	VPHADDD Y1, Y0, Y0
	VCVTDQ2PS Y0, Y0
	VMULPS Y12, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $24, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
done:
	RET

// func fiveAVX2(out, a, b, c, d, e *float32, s *[3]float32, blocks int)
TEXT ·fiveAVX2(SB), NOSPLIT, $0-64
	MOVQ out+0(FP), DI
	MOVQ a+8(FP), R8
	MOVQ b+16(FP), R9
	MOVQ c+24(FP), R10
	MOVQ d+32(FP), R11
	MOVQ e+40(FP), R12
	MOVQ s+48(FP), SI
	MOVQ blocks+56(FP), CX
	TESTQ CX, CX
	JZ done
	VBROADCASTSS 0(SI), Y13
	VBROADCASTSS 4(SI), Y14
	VBROADCASTSS 8(SI), Y15
	XORQ AX, AX
loop:
	VMULPS (R10)(AX*1), Y13, Y0
	VMOVUPS (R9)(AX*1), Y1
	VADDPS (R11)(AX*1), Y1, Y1
	VMULPS Y14, Y1, Y1
	VMOVUPS (R8)(AX*1), Y2
	VADDPS (R12)(AX*1), Y2, Y2
	VMULPS Y15, Y2, Y2
	VADDPS Y1, Y0, Y0
	VADDPS Y2, Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	DECQ CX
	JNZ loop
	VZEROUPPER
done:
	RET

// A pair of neighbouring pixels of samples i and i+1, in one register.
#define PAIRS(base, i, x) \
	MOVLQSX (4*i)(SP), R8; \
	MOVLQSX (4*i+4)(SP), R9; \
	VMOVSD (base)(R8*4), x; \
	VMOVHPD (base)(R9*4), x, x

// func readAVX2(p *readArgs)
// Eight samples a block. Loads of pairs of pixels are several times faster than
// gathering them.
TEXT ·readAVX2(SB), NOSPLIT, $32-8
	MOVQ p+0(FP), AX
	MOVQ 0(AX), DI
	MOVQ 8(AX), SI
	MOVQ 16(AX), DX
	MOVQ 24(AX), BX
	MOVQ 32(AX), CX
	MOVQ 40(AX), R10
	VMOVD R10, X15
	VPBROADCASTD X15, Y15 // stride
	LEAQ (SI)(R10*4), R11 // the row below
	VBROADCASTSS 48(AX), Y14 // x, y, a, b
	VBROADCASTSS 52(AX), Y13
	VBROADCASTSS 56(AX), Y12
	VBROADCASTSS 60(AX), Y11
	VBROADCASTSS 64(AX), Y10
	VBROADCASTSS 68(AX), Y9
loop:
	VMOVUPS (DX), Y0 // i
	VMOVUPS (BX), Y1 // j
	VMULPS Y1, Y10, Y2
	VMULPS Y1, Y9, Y3
	VADDPS Y2, Y14, Y2
	VADDPS Y3, Y13, Y3
	VMULPS Y0, Y12, Y4
	VMULPS Y0, Y11, Y5
	VADDPS Y4, Y2, Y2 // x
	VADDPS Y5, Y3, Y3 // y
	VCVTTPS2DQ Y2, Y4
	VCVTTPS2DQ Y3, Y5
	VCVTDQ2PS Y4, Y6
	VCVTDQ2PS Y5, Y7
	VSUBPS Y6, Y2, Y2 // fractions
	VSUBPS Y7, Y3, Y3
	VPMULLD Y15, Y5, Y5
	VPADDD Y4, Y5, Y5
	VMOVDQU Y5, (SP)
	PAIRS(SI, 0, X0)
	PAIRS(SI, 4, X1)
	VINSERTF128 $1, X1, Y0, Y0
	PAIRS(SI, 2, X1)
	PAIRS(SI, 6, X4)
	VINSERTF128 $1, X4, Y1, Y1
	VSHUFPS $0x88, Y1, Y0, Y4 // left
	VSHUFPS $0xdd, Y1, Y0, Y5 // right
	VSUBPS Y4, Y5, Y5
	VMULPS Y5, Y2, Y5
	VADDPS Y5, Y4, Y4 // up
	PAIRS(R11, 0, X0)
	PAIRS(R11, 4, X1)
	VINSERTF128 $1, X1, Y0, Y0
	PAIRS(R11, 2, X1)
	PAIRS(R11, 6, X5)
	VINSERTF128 $1, X5, Y1, Y1
	VSHUFPS $0x88, Y1, Y0, Y5
	VSHUFPS $0xdd, Y1, Y0, Y6
	VSUBPS Y5, Y6, Y6
	VMULPS Y6, Y2, Y6
	VADDPS Y6, Y5, Y5 // down
	VSUBPS Y4, Y5, Y5
	VMULPS Y5, Y3, Y5
	VADDPS Y5, Y4, Y4
	VMOVUPS Y4, (DI)
	ADDQ $32, DX
	ADDQ $32, BX
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// Adds the lanes of y into every lane of its lower half x, t being scratch:
// ((0+4)+(2+6)) + ((1+5)+(3+7)).
#define ADDED(y, x, t) \
	VEXTRACTF128 $1, y, t; \
	VADDPS t, x, x; \
	VPERMILPS $0x4e, x, t; \
	VADDPS t, x, x; \
	VPERMILPS $0xb1, x, t; \
	VADDPS t, x, x

// func fitAVX2(p *fitArgs)
TEXT ·fitAVX2(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	MOVQ 0(AX), SI // now
	MOVQ 8(AX), DX // weight
	MOVQ 16(AX), BX // value
	MOVQ 24(AX), R8 // gx
	MOVQ 32(AX), R9 // gy
	MOVQ 40(AX), CX
	SHLQ $5, CX
	VXORPS Y0, Y0, Y0
	XORQ R10, R10
mean:
	VMOVUPS (SI)(R10*1), Y1
	VMULPS (DX)(R10*1), Y1, Y1
	VADDPS Y1, Y0, Y0
	ADDQ $32, R10
	CMPQ R10, CX
	JLT mean
	ADDED(Y0, X0, X1)
	VBROADCASTSS X0, Y8
	VXORPS Y0, Y0, Y0
	XORQ R10, R10
square:
	VMOVUPS (SI)(R10*1), Y1
	VSUBPS Y8, Y1, Y1
	VMULPS (DX)(R10*1), Y1, Y2
	VMULPS Y1, Y2, Y2
	VADDPS Y2, Y0, Y0
	ADDQ $32, R10
	CMPQ R10, CX
	JLT square
	ADDED(Y0, X0, X1)
	VSQRTSS X0, X0, X0
	VADDSS constants<>+16(SB), X0, X0
	VMOVSS X0, 64(AX)
	VMOVSS X8, 60(AX)
	VMOVSS constants<>+20(SB), X1
	VDIVSS X0, X1, X1
	VBROADCASTSS X1, Y9
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	XORQ R10, R10
residual:
	VMOVUPS (SI)(R10*1), Y0
	VSUBPS Y8, Y0, Y0
	VMULPS Y9, Y0, Y0
	VSUBPS (BX)(R10*1), Y0, Y0 // r
	VMULPS (R8)(R10*1), Y0, Y1
	VADDPS Y1, Y5, Y5
	VMULPS (R9)(R10*1), Y0, Y1
	VADDPS Y1, Y6, Y6
	VMULPS (DX)(R10*1), Y0, Y1
	VMULPS Y0, Y1, Y1
	VADDPS Y1, Y7, Y7
	ADDQ $32, R10
	CMPQ R10, CX
	JLT residual
	ADDED(Y5, X5, X1)
	ADDED(Y6, X6, X1)
	ADDED(Y7, X7, X1)
	VMOVSS X5, 48(AX)
	VMOVSS X6, 52(AX)
	VMOVSS X7, 56(AX)
	VZEROUPPER
	RET
