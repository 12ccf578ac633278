// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

//export m3r_submit_export
func m3r_submit_export(h C.mast3r_engine, path *C.char, options *C.mast3r_export_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_export"
		if path == nil {
			return null(call, "path")
		}
		name := C.GoString(path)
		if name == "" {
			return fail(C.MAST3R_E_ARGUMENT, "%s: path is empty, want a file", call)
		}
		opt := gomps.ExportOptions{}
		if options != nil {
			if err := sized(call, "options", options.size, unsafe.Sizeof(*options)); err != nil {
				return err
			}
			opt = gomps.ExportOptions{
				Height1: int(options.height1), Width1: int(options.width1),
				Height2: int(options.height2), Width2: int(options.width2),
				HalfWeights: options.half != 0, HalfCompute: options.half == 2, Attention: options.opset == 23,
			}
			if options.half < 0 || options.half > 2 {
				return fail(C.MAST3R_E_ARGUMENT, "%s: half is %d, want 0 to 2", call, options.half)
			}
			switch options.opset {
			case 0, 20, 23:
			default:
				return fail(C.MAST3R_E_ARGUMENT, "%s: opset is %d, want 20 or 23", call, options.opset)
			}
			for _, side := range []int{opt.Height1, opt.Width1, opt.Height2, opt.Width2} {
				if side < 0 || side > maxSide {
					return fail(C.MAST3R_E_SHAPE, "%s: a side of %d, want 0 to %d", call, side, maxSide)
				}
			}
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			return e.ExportONNX(ctx, name, opt)
		})
	})
}
