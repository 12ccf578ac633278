// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"strings"
)

const notice = "Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT."

const exportsHead = `//go:build cgo

/* SPDX-License-Identifier: Apache-2.0 */
/* ` + notice + ` */
/*
 * The visible calls: each looks for a fork and then goes into Go.
 *
 * The look must come before Go is entered. In a forked child the runtime's other
 * threads are gone, and one of them may have held what an entering call waits for.
 * Go's declarations also cannot say const; these can.
 */
#include "_cgo_export.h"
#include "guard.h"

static int refused(void) {
  if (!mast3r_in_forked_child()) return 0;
  m3r_set_error("mast3r: called in a forked child; the Go runtime does not survive fork(), "
                "start processes with spawn or exec");
  return 1;
}

#define CALL(name, parameters, arguments)                                                  \
  EXPORT mast3r_status mast3r_##name parameters {                                          \
    return refused() ? MAST3R_E_FORKED : m3r_##name arguments;                             \
  }

`

// Exports is capi/exports.c. The calls that return no status are written by hand in guard.c:
// they must work where the Go runtime cannot.
func (h *Header) Exports() string {
	var out strings.Builder
	out.WriteString(exportsHead)
	for _, call := range h.Calls {
		if call.Result != "mast3r_status" {
			continue
		}
		var parameters, arguments []string
		for _, p := range call.Params {
			parameters = append(parameters, p.C())
			if p.Const {
				arguments = append(arguments, fmt.Sprintf("(%s %s)%s", p.Type, strings.Repeat("*", p.Stars), p.Name))
			} else {
				arguments = append(arguments, p.Name)
			}
		}
		name := strings.TrimPrefix(call.Name, "mast3r_")
		line := fmt.Sprintf("CALL(%s, (%s), (%s))\n", name, strings.Join(parameters, ", "), strings.Join(arguments, ", "))
		if len(line) > 120 {
			line = fmt.Sprintf("CALL(%s,\n     (%s),\n     (%s))\n", name, wrap(parameters, 6, 110), wrap(arguments, 6, 110))
		}
		out.WriteString(line)
	}
	return out.String()
}

// wrap joins items with commas and breaks the line where it gets longer than width.
func wrap(items []string, indent, width int) string {
	var out strings.Builder
	column := indent
	for i, item := range items {
		if i > 0 {
			out.WriteString(",")
			if column+len(item) > width {
				out.WriteString("\n" + strings.Repeat(" ", indent))
				column = indent
			} else {
				out.WriteString(" ")
			}
		}
		out.WriteString(item)
		column += len(item) + 2
	}
	return out.String()
}

// Errors are the names of the failures, without MAST3R_E_.
func (h *Header) Errors() []string {
	var out []string
	for _, c := range h.Constants {
		if name, ok := strings.CutPrefix(c.Name, "MAST3R_E_"); ok {
			out = append(out, name)
		}
	}
	return out
}

// exception is the class in mast3r.hpp of a failure: NotLoadedError of NOT_LOADED.
func exception(failure string) string {
	if failure == "FORKED" {
		return "ForkError"
	}
	return camel(strings.ToLower(failure)) + "Error"
}

func camel(name string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}

// Exceptions is the part of mast3r.hpp between its marks: a class for each failure, and check.
func (h *Header) Exceptions() string {
	var out strings.Builder
	for _, name := range h.Errors() {
		fmt.Fprintf(&out, "using %s = StatusError<MAST3R_E_%s>;\n", exception(name), name)
	}
	out.WriteString(`
/* Throws what belongs to a status; MAST3R_OK and MAST3R_PENDING pass. */
inline mast3r_status check(mast3r_status status) {
  if (status == MAST3R_OK || status == MAST3R_PENDING) return status;
  const std::string text = mast3r_last_error();
  switch (status) {
`)
	for _, name := range h.Errors() {
		fmt.Fprintf(&out, "  case MAST3R_E_%s: throw %s(text);\n", name, exception(name))
	}
	out.WriteString(`  default: throw Error(status, text.empty() ? mast3r_status_name(status) : text);
  }
}
`)
	return out.String()
}
