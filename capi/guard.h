/* SPDX-License-Identifier: Apache-2.0 */
/* What the Go side needs of guard.c. */
#ifndef MAST3R_GUARD_H
#define MAST3R_GUARD_H

#include "mast3r.h"

void m3r_set_error(const char *text);

#endif
