// SPDX-License-Identifier: Apache-2.0
// objc_msgSend for arm64 AAPCS; see msgsend_amd64.S. Results above 16 bytes go through x8,
// so there is no _stret entry on this architecture.
#ifdef __aarch64__
	.text
	.globl objc_msgSend
	.type objc_msgSend,%function
objc_msgSend:
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	sub sp, sp, #0x90
	stp x0, x1, [sp, #0x00]
	stp x2, x3, [sp, #0x10]
	stp x4, x5, [sp, #0x20]
	stp x6, x7, [sp, #0x30]
	str x8, [sp, #0x40]
	stp d0, d1, [sp, #0x48]
	stp d2, d3, [sp, #0x58]
	stp d4, d5, [sp, #0x68]
	stp d6, d7, [sp, #0x78]
	add x9, x29, #16
	str x9, [sp, #0x88]
	mov x0, sp
	mov w1, #0
	bl ms_dispatch
	ldp x0, x1, [sp, #0x00]
	ldp d0, d1, [sp, #0x48]
	mov sp, x29
	ldp x29, x30, [sp], #16
	ret
	.size objc_msgSend,.-objc_msgSend
#endif
	.section .note.GNU-stack,"",%progbits
