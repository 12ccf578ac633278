// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

//export m3r_buffer_acquire
func m3r_buffer_acquire(h C.mast3r_engine, nbytes C.uint64_t, out *C.mast3r_buffer) status {
	return done(func() error {
		const call = "mast3r_buffer_acquire"
		if out == nil {
			return null(call, "out")
		}
		e, err := lookup[*engine](call, h, kindEngine)
		if err != nil {
			return err
		}
		n, err := bufferSize(call, nbytes)
		if err != nil {
			return err
		}
		b, err := e.Acquire(n)
		if err != nil {
			return err
		}
		*out = C.mast3r_buffer(handles.add(kindBuffer, b))
		return nil
	})
}

// bufferSize bounds a size, so that no sum of it can overflow.
func bufferSize(call string, nbytes C.uint64_t) (int, error) {
	if nbytes < 1 || nbytes > 1<<40 {
		return 0, fail(C.MAST3R_E_ARGUMENT, "%s: %d bytes, want 1 to 2^40", call, nbytes)
	}
	return int(nbytes), nil
}

//export m3r_buffer_contents
func m3r_buffer_contents(h C.mast3r_buffer, out *unsafe.Pointer, length *C.uint64_t) status {
	return done(func() error {
		b, err := lookup[*gomps.Buffer]("mast3r_buffer_contents", h, kindBuffer)
		if err != nil {
			return err
		}
		if out != nil {
			*out = unsafe.Pointer(unsafe.SliceData(b.Bytes())) // device memory, not Go's
		}
		if length != nil {
			*length = C.uint64_t(b.Len())
		}
		return nil
	})
}

//export m3r_buffer_native
func m3r_buffer_native(h C.mast3r_buffer, out *unsafe.Pointer) status {
	return done(func() error {
		const call = "mast3r_buffer_native"
		if out == nil {
			return null(call, "out")
		}
		b, err := lookup[*gomps.Buffer](call, h, kindBuffer)
		if err != nil {
			return err
		}
		*(*uintptr)(unsafe.Pointer(out)) = b.Native()
		return nil
	})
}

//export m3r_engine_native
func m3r_engine_native(h C.mast3r_engine, device, queue *unsafe.Pointer) status {
	return done(func() error {
		e, err := lookup[*engine]("mast3r_engine_native", h, kindEngine)
		if err != nil {
			return err
		}
		d, q := e.Native()
		if device != nil {
			*(*uintptr)(unsafe.Pointer(device)) = d
		}
		if queue != nil {
			*(*uintptr)(unsafe.Pointer(queue)) = q
		}
		return nil
	})
}

//export m3r_buffer_release
func m3r_buffer_release(h C.mast3r_buffer) status {
	return done(func() error {
		v, err := handles.remove("mast3r_buffer_release", uint64(h), kindBuffer)
		if err != nil {
			return err
		}
		v.(*gomps.Buffer).Release()
		return nil
	})
}

//export m3r_pool_warmup
func m3r_pool_warmup(h C.mast3r_engine, sizes *C.uint64_t, count C.size_t) status {
	return done(func() error {
		const call = "mast3r_pool_warmup"
		if sizes == nil && count > 0 {
			return null(call, "sizes")
		}
		if count > maxSide {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d sizes, want at most %d", call, count, maxSide)
		}
		e, err := lookup[*engine](call, h, kindEngine)
		if err != nil {
			return err
		}
		list := make([]int, count)
		for i, n := range unsafe.Slice(sizes, int(count)) {
			if list[i], err = bufferSize(call, n); err != nil {
				return err
			}
		}
		return e.WarmPool(list...)
	})
}

//export m3r_pool_info
func m3r_pool_info(h C.mast3r_engine, out *C.mast3r_pool) status {
	return poolInfo("mast3r_pool_info", enginePool, uint64(h), out)
}

//export m3r_pool_configure
func m3r_pool_configure(h C.mast3r_engine, perSize C.int32_t, limit C.uint64_t) status {
	return poolConfigure("mast3r_pool_configure", enginePool, uint64(h), perSize, limit)
}

//export m3r_pool_pressure
func m3r_pool_pressure(h C.mast3r_engine, critical C.int32_t, freed *C.uint64_t) status {
	return poolPressure("mast3r_pool_pressure", enginePool, uint64(h), critical, freed)
}

//export m3r_engine_synchronize
func m3r_engine_synchronize(h C.mast3r_engine) status {
	return done(func() error {
		e, err := lookup[*engine]("mast3r_engine_synchronize", h, kindEngine)
		if err != nil {
			return err
		}
		e.wait()
		return nil
	})
}
