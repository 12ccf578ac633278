// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"

//export m3r_commands_begin
func m3r_commands_begin(h C.mast3r_tensor_context, out *C.mast3r_commands) status {
	return done(func() error {
		const call = "mast3r_commands_begin"
		if out == nil {
			return null(call, "out")
		}
		c, err := eagerContext(call, h)
		if err != nil {
			return err
		}
		b, err := c.Begin()
		if err != nil {
			return named(call, err)
		}
		*out = C.mast3r_commands(handles.add(kindCommands, b))
		return nil
	})
}

// onCommands runs a method of a command buffer.
func onCommands(call string, h C.mast3r_commands, f func(*eager.Commands) error) status {
	return done(func() error {
		b, err := lookup[*eager.Commands](call, h, kindCommands)
		if err != nil {
			return err
		}
		return named(call, f(b))
	})
}

//export m3r_commands_commit
func m3r_commands_commit(h C.mast3r_commands) status {
	return onCommands("mast3r_commands_commit", h, (*eager.Commands).Commit)
}

//export m3r_commands_wait
func m3r_commands_wait(h C.mast3r_commands) status {
	return onCommands("mast3r_commands_wait", h, (*eager.Commands).Wait)
}

//export m3r_commands_release
func m3r_commands_release(h C.mast3r_commands) status {
	return done(func() error {
		const call = "mast3r_commands_release"
		v, err := handles.remove(call, uint64(h), kindCommands)
		if err != nil {
			return err
		}
		return named(call, v.(*eager.Commands).Close())
	})
}
