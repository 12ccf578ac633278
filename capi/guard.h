/* SPDX-License-Identifier: Apache-2.0 */
/* What the Go side needs of guard.c. */
#ifndef MAST3R_GUARD_H
#define MAST3R_GUARD_H

#include "mast3r.h"

/* What makes a call visible outside the library. Elsewhere than on Windows mast3r.map does. */
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#ifdef __clang__
#pragma clang diagnostic ignored "-Wdll-attribute-on-redeclaration" /* the header is the user's, who imports */
#endif
#else
#define EXPORT
#endif

void m3r_set_error(const char *text);

#endif
