// SPDX-License-Identifier: Apache-2.0

//go:build gopy

package hide

/*
#cgo linux LDFLAGS: -Wl,--version-script=${SRCDIR}/pyext.map
#cgo darwin LDFLAGS: -Wl,-exported_symbol,_mast3r_* -Wl,-exported_symbol,_PyInit_*
*/
import "C"
