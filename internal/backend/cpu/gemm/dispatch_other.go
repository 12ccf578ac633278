// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package gemm

import "unsafe"

var impls = [numISA]*impl{Portable: &portableImpl}

func (id kernelID) call(k *kargs) { callPortable(id, k) }

func epilogue(_ *impl, e *eargs) { portableEpilogue(e) }

func softmax(im *impl, s *sargs) { eachRow(im, s) }

func softmaxRow(_ *impl, s *sargs) { portableSoftmax(s) }

// There is no kernel for groups of scores.
const scoreRows = 1

func scores(*impl, int, *qargs) bool { return false }

func widenFast(*impl, []float32, *Source, int) int { return 0 }

func transposeFast(*impl, int, []byte, unsafe.Pointer, int, int) int { return 0 }

func rotateFast(*impl, *rargs) bool { return false }

func unpairBF16(_ *impl, dst []float32, src unsafe.Pointer) {
	portableUnpair(&vargs{dst: unsafe.Pointer(&dst[0]), src: src, n: len(dst) / (2 * panelN)})
}

func copyRows(_ *impl, p *pargs) { portableCopyRows(p) }

func addRows(_ *impl, p *wargs) { portableAddRows(p) }

func reluRow(_ *impl, dst, src []float32) { portableReLU(dst, src) }

func scaleRow(_ *impl, dst, src []float32, s float32) { portableScale(dst, src, s) }

func toBF16(_ *impl, dst unsafe.Pointer, src []float32) { portableBF16(dst, src) }

// Never called: no instruction set here has bfloat16 products.
func pairBF16(*pargs)          { panic("gemm: no bfloat16 products") }
func spreadBF16(*spargs)       { panic("gemm: no bfloat16 products") }
func tileProduct(*tkargs, int) { panic("gemm: no tiles") }
