// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"slices"
	"strings"
)

const structsHead = `# ` + notice + `
# SPDX-License-Identifier: Apache-2.0
"""The structs of ` + "``capi/mast3r.h``" + `, as ctypes lays them out.

Each carries its size, which the library checks, and a test compares sizes and offsets with
the C compiler's.
"""

from __future__ import annotations

import ctypes as C
from typing import Any, TypeVar

Handle = C.c_uint64
Int32 = C.c_int32
Int64 = C.c_int64
Double = C.c_double
UInt64 = C.c_uint64
Size = C.c_size_t
Pointer = C.c_void_p
address = C.addressof


class _Sized(C.Structure):
    """A struct whose first field is its own size."""


SizedT = TypeVar("SizedT", bound=_Sized)


def struct(kind: type[SizedT], **fields: Any) -> SizedT:
    """Return a struct with its size filled in."""
    return kind(size=C.sizeof(kind), **fields)
`

const headerHead = `# ` + notice + `
# SPDX-License-Identifier: Apache-2.0
"""The constants and calls of ` + "``capi/mast3r.h``" + `. A call that is not listed returns no status."""

from __future__ import annotations

import ctypes as C
from typing import Any

from . import structs as S

`

const versionFile = `# ` + notice + `
# SPDX-License-Identifier: Apache-2.0
"""The version, which capi/mast3r.h gives; pyproject.toml reads it from here."""

__version__ = %q
`

var scalars = map[string]string{
	"int32_t": "C.c_int32", "uint32_t": "C.c_uint32", "int64_t": "C.c_int64", "uint64_t": "C.c_uint64",
	"size_t": "C.c_size_t", "float": "C.c_float", "double": "C.c_double", "char": "C.c_char", "uint8_t": "C.c_uint8",
}

// className is the Python class of a struct: LogRecord of mast3r_log_record.
func className(c string) string { return camel(strings.TrimPrefix(c, "mast3r_")) }

// value is the ctypes type of something held by value; prefix comes before the names of structs.
func (h *Header) value(c, prefix string) (string, error) {
	if base, ok := h.Scalars[c]; ok {
		c = base
	}
	if python, ok := scalars[c]; ok {
		return python, nil
	}
	if slices.Contains(h.Handles, c) {
		return prefix + "Handle", nil
	}
	if slices.ContainsFunc(h.Structs, func(s Struct) bool { return s.Name == c }) {
		return prefix + className(c), nil
	}
	return "", fmt.Errorf("mast3r.h: no Python type for %q", c)
}

// pointer is the ctypes type of a pointer; text and bytes are special.
func (h *Header) pointer(c string, stars int, prefix string) (string, error) {
	switch {
	case c == "char" && stars == 1:
		return "C.c_char_p", nil
	case c == "void" && stars == 1:
		return "C.c_void_p", nil
	case c == "void" && stars == 2:
		return "C.POINTER(C.c_void_p)", nil
	case stars == 1:
		target, err := h.value(c, prefix)
		return "C.POINTER(" + target + ")", err
	}
	return "", fmt.Errorf("mast3r.h: no Python type for %q with %d stars", c, stars)
}

func (h *Header) field(f Field) (string, error) {
	if f.Stars == 1 && f.Type != "char" {
		return "C.c_void_p", nil // numpy gives addresses
	}
	if f.Stars > 0 {
		return h.pointer(f.Type, f.Stars, "")
	}
	kind, err := h.value(f.Type, "")
	if f.Array == "" || err != nil {
		return kind, err
	}
	for _, define := range h.Defines {
		if define.Name == f.Array {
			return fmt.Sprintf("%s * %d", kind, define.Value), nil
		}
	}
	return kind + " * " + f.Array, nil
}

// PythonStructs is python/mast3r_runtime/_library/structs.py.
func (h *Header) PythonStructs() (string, error) {
	var out strings.Builder
	out.WriteString(structsHead)
	for _, s := range h.Structs {
		base := "C.Structure"
		if s.Fields[0].Name == "size" {
			base = "_Sized"
		}
		fmt.Fprintf(&out, "\n\nclass %s(%s):\n    _fields_ = [\n", className(s.Name), base)
		for _, f := range s.Fields {
			kind, err := h.field(f)
			if err != nil {
				return "", fmt.Errorf("%s.%s: %w", s.Name, f.Name, err)
			}
			fmt.Fprintf(&out, "        (%q, %s),\n", f.Name, kind)
		}
		out.WriteString("    ]\n")
	}
	return out.String(), nil
}

// PythonHeader is python/mast3r_runtime/_library/header.py.
func (h *Header) PythonHeader() (string, error) {
	var out strings.Builder
	out.WriteString(headerHead)
	for _, c := range slices.Concat(h.Defines, h.Constants) {
		fmt.Fprintf(&out, "%s = %d\n", strings.TrimPrefix(c.Name, "MAST3R_"), c.Value)
	}
	out.WriteString("\nSIGNATURES: dict[str, list[Any]] = {\n")
	for _, call := range h.Calls {
		if call.Result != "mast3r_status" {
			continue
		}
		var kinds []string
		for _, p := range call.Params {
			kind, err := h.value(p.Type, "S.")
			if p.Stars > 0 {
				kind, err = h.pointer(p.Type, p.Stars, "S.")
			}
			if err != nil {
				return "", fmt.Errorf("%s: %s: %w", call.Name, p.Name, err)
			}
			kinds = append(kinds, kind)
		}
		line := fmt.Sprintf("    %q: [%s],\n", call.Name, strings.Join(kinds, ", "))
		if len(line) > 110 {
			line = fmt.Sprintf("    %q: [\n        %s,\n    ],\n", call.Name, strings.Join(kinds, ",\n        "))
		}
		out.WriteString(line)
	}
	out.WriteString("}\n")
	return out.String(), nil
}

// PythonVersion is python/mast3r_runtime/_library/version.py.
func (h *Header) PythonVersion() string { return fmt.Sprintf(versionFile, h.Version) }
