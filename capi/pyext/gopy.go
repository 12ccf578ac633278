// SPDX-License-Identifier: Apache-2.0

//go:build gopy

package pyext

import _ "github.com/mast3r-runtime/mast3r-runtime/capi/pyext/hide" // link flags
