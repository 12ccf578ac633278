// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// pool is what a gomps.Pool and a pool of tensors have in common.
type pool interface {
	Stats() gomps.PoolStats
	PerClass() int
	SetPerClass(n int)
	Limit() uint64
	SetLimit(bytes uint64)
	MemoryPressure(critical bool) int
}

// eagerPool has the books of a pool of tensors by the other package's type.
type eagerPool struct{ eager.Pool }

func (p eagerPool) Stats() gomps.PoolStats { return gomps.PoolStats(p.Pool.Stats()) }

// poolOf finds the memory of the object of a handle.
type poolOf func(call string, h uint64) (pool, error)

func enginePool(call string, h uint64) (pool, error) {
	e, err := lookup[*engine](call, C.mast3r_engine(h), kindEngine)
	if err != nil {
		return nil, err
	}
	return e.Pool(), nil
}

func tensorPool(call string, h uint64) (pool, error) {
	c, err := eagerContext(call, C.mast3r_tensor_context(h))
	if err != nil {
		return nil, err
	}
	return eagerPool{c.Pool()}, nil
}

func poolInfo(call string, of poolOf, h uint64, out *C.mast3r_pool) status {
	return done(func() error {
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "pool", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		p, err := of(call, h)
		if err != nil {
			return err
		}
		s := p.Stats()
		*out = C.mast3r_pool{
			size: out.size, per_size: C.int32_t(p.PerClass()), limit_bytes: C.uint64_t(p.Limit()),
			pooled_buffers: C.uint64_t(s.PooledBuffers), pooled_bytes: C.uint64_t(s.PooledBytes),
			in_use_buffers: C.uint64_t(s.InUseBuffers), in_use_bytes: C.uint64_t(s.InUseBytes),
			allocations: C.uint64_t(s.Allocations), reuses: C.uint64_t(s.Reuses), evictions: C.uint64_t(s.Evictions),
			peak_bytes: C.uint64_t(s.PeakBytes), overhead_bytes: C.uint64_t(s.OverheadBytes),
		}
		return nil
	})
}

func poolConfigure(call string, of poolOf, h uint64, perSize C.int32_t, limit C.uint64_t) status {
	return done(func() error {
		if perSize < 0 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d free buffers of one size, want at least 0", call, perSize)
		}
		p, err := of(call, h)
		if err != nil {
			return err
		}
		p.SetPerClass(int(perSize))
		p.SetLimit(uint64(limit))
		return nil
	})
}

func poolPressure(call string, of poolOf, h uint64, critical C.int32_t, freed *C.uint64_t) status {
	return done(func() error {
		p, err := of(call, h)
		if err != nil {
			return err
		}
		n := p.MemoryPressure(critical != 0)
		if freed != nil {
			*freed = C.uint64_t(n)
		}
		return nil
	})
}

//export m3r_tensor_pool_info
func m3r_tensor_pool_info(h C.mast3r_tensor_context, out *C.mast3r_pool) status {
	return poolInfo("mast3r_tensor_pool_info", tensorPool, uint64(h), out)
}

//export m3r_tensor_pool_configure
func m3r_tensor_pool_configure(h C.mast3r_tensor_context, perSize C.int32_t, limit C.uint64_t) status {
	return poolConfigure("mast3r_tensor_pool_configure", tensorPool, uint64(h), perSize, limit)
}

//export m3r_tensor_pool_pressure
func m3r_tensor_pool_pressure(h C.mast3r_tensor_context, critical C.int32_t, freed *C.uint64_t) status {
	return poolPressure("mast3r_tensor_pool_pressure", tensorPool, uint64(h), critical, freed)
}
