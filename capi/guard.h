/* SPDX-License-Identifier: Apache-2.0 */
/* What the Go side needs of guard.c. */
#ifndef MAST3R_GUARD_H
#define MAST3R_GUARD_H

#define MAST3R_TYPES_ONLY
#include "mast3r.h"

void m3r_set_error(const char *text);
int32_t m3r_forked(void);

#endif
