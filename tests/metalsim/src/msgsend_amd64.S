// SPDX-License-Identifier: Apache-2.0
// objc_msgSend for x86-64 SysV: save every argument register where C can read it, run the
// message in C, and load the result registers. Unlike Apple's, this does not jump to the
// method: arguments are decoded by the method's type encoding, not by the callee's C type.
#ifdef __x86_64__
	.text
.macro ENTRY name stret
	.globl \name
	.type \name,@function
\name:
	push %rbp
	mov %rsp, %rbp
	sub $0x90, %rsp
	mov %rdi, 0x00(%rsp)
	mov %rsi, 0x08(%rsp)
	mov %rdx, 0x10(%rsp)
	mov %rcx, 0x18(%rsp)
	mov %r8, 0x20(%rsp)
	mov %r9, 0x28(%rsp)
	movq %xmm0, 0x48(%rsp)
	movq %xmm1, 0x50(%rsp)
	movq %xmm2, 0x58(%rsp)
	movq %xmm3, 0x60(%rsp)
	movq %xmm4, 0x68(%rsp)
	movq %xmm5, 0x70(%rsp)
	movq %xmm6, 0x78(%rsp)
	movq %xmm7, 0x80(%rsp)
	lea 16(%rbp), %rax // above the saved rbp and the return address
	mov %rax, 0x88(%rsp)
	mov %rsp, %rdi
	mov $\stret, %esi
	call ms_dispatch
	mov 0x00(%rsp), %rax
	mov 0x08(%rsp), %rdx
	movq 0x48(%rsp), %xmm0
	movq 0x50(%rsp), %xmm1
	leave
	ret
	.size \name,.-\name
.endm
ENTRY objc_msgSend 0
ENTRY objc_msgSend_stret 1 // results above 16 bytes: rdi = where, rsi = receiver
#endif
	.section .note.GNU-stack,"",@progbits
