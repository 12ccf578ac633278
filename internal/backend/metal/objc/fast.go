// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// bindFast fills *fptr for the commonest integer-only signatures and reports
// whether it did. SyscallN loads integer registers only (it mirrors them into
// the float registers), so a signature with a float or a struct must never
// appear here; BOOL travels as 0 or 1 in a full register.
func bindFast(fptr any, s SEL) bool {
	return bindGetters(fptr, s) || bindObjects(fptr, s) || bindNumbers(fptr, s)
}

// bindGetters covers messages without arguments.
func bindGetters(fptr any, s SEL) bool {
	switch p := fptr.(type) {
	case *func(ID):
		*p = func(o ID) { purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s)) }
	case *func(ID) ID:
		*p = func(o ID) ID { return ID(send0(uintptr(o), s)) }
	case *func(Class) ID:
		*p = func(c Class) ID { return ID(send0(uintptr(c), s)) }
	case *func(ID) uint64:
		*p = func(o ID) uint64 { return uint64(send0(uintptr(o), s)) }
	case *func(ID) int64:
		*p = func(o ID) int64 { return int64(send0(uintptr(o), s)) }
	case *func(ID) uint32:
		*p = func(o ID) uint32 { return uint32(send0(uintptr(o), s)) }
	default:
		return false
	}
	return true
}

func send0(o uintptr, s SEL) uintptr {
	r, _, _ := purego.SyscallN(rt.msgSend, o, uintptr(s))
	return r
}

// bindObjects covers messages whose arguments are objects: most MPSGraph ops.
func bindObjects(fptr any, s SEL) bool {
	switch p := fptr.(type) {
	case *func(ID, ID):
		*p = func(o, a ID) { purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a)) }
	case *func(ID, ID) ID:
		*p = func(o, a ID) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a))
			return ID(r)
		}
	case *func(Class, ID) ID:
		*p = func(c Class, a ID) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(c), uintptr(s), uintptr(a))
			return ID(r)
		}
	case *func(ID, ID, ID) ID:
		*p = func(o, a, b ID) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a), uintptr(b))
			return ID(r)
		}
	case *func(ID, ID, ID, ID) ID:
		*p = func(o, a, b, c ID) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a), uintptr(b), uintptr(c))
			return ID(r)
		}
	case *func(ID, ID, ID, ID, ID) ID:
		*p = func(o, a, b, c, d ID) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a), uintptr(b), uintptr(c), uintptr(d))
			return ID(r)
		}
	default:
		return false
	}
	return true
}

// bindNumbers covers messages that mix objects with 64-bit integers.
func bindNumbers(fptr any, s SEL) bool {
	switch p := fptr.(type) {
	case *func(ID, uint64):
		*p = func(o ID, n uint64) { purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(n)) }
	case *func(ID, uint64) ID:
		*p = func(o ID, n uint64) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(n))
			return ID(r)
		}
	case *func(Class, int64) ID:
		*p = func(c Class, n int64) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(c), uintptr(s), uintptr(n))
			return ID(r)
		}
	case *func(ID, ID, uint64):
		*p = func(o, a ID, n uint64) {
			purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a), uintptr(n))
		}
	case *func(ID, ID, uint64, uint64):
		*p = func(o, a ID, m, n uint64) {
			purego.SyscallN(rt.msgSend, uintptr(o), uintptr(s), uintptr(a), uintptr(m), uintptr(n))
		}
	case *func(Class, *ID, uint64) ID:
		*p = func(c Class, a *ID, n uint64) ID {
			r, _, _ := purego.SyscallN(rt.msgSend, uintptr(c), uintptr(s), uintptr(unsafe.Pointer(a)), uintptr(n))
			return ID(r)
		}
	default:
		return false
	}
	return true
}
