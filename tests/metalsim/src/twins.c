// SPDX-License-Identifier: Apache-2.0
// C twins of kernels: what a kernel of that name computes. The product has none of its own; those
// here are for the simulator's tests, and tests may register more. They run a whole grid at once.
#include "gpu.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// room checks that argument i holds n bytes: a GPU would read or write past it.
static bool room(const ms_kernel_args *a, const char *kernel, int i, uint64_t n)
{
	if ((uint64_t)a->len[i] >= n)
		return true;
	ms_violation("kernel-range", "kernel %s needs %llu bytes at [[buffer(%d)]], %lld are bound", kernel, (unsigned long long)n, i, (long long)a->len[i]);
	return false;
}

// normalize_u8: table[c*256+v] for each byte of 8-bit RGB rows, interleaved or planar.
static void normalize_u8(const ms_kernel_args *a)
{
	const uint8_t *src = a->buf[0];
	float *dst = a->buf[1];
	const float *table = a->buf[2];
	const uint32_t *p = a->buf[3]; // width, height, row_bytes, planar
	if (!room(a, "normalize_u8", 3, 16))
		return;
	uint64_t n = (uint64_t)p[0] * p[1], bytes = n ? (uint64_t)(p[1] - 1) * p[2] + 3 * p[0] : 0;
	if (!room(a, "normalize_u8", 0, bytes) || !room(a, "normalize_u8", 1, 12 * n) || !room(a, "normalize_u8", 2, 4 * 768))
		return;
	for (uint64_t i = 0; i < n && i < a->grid[0]; i++) {
		uint64_t y = i / p[0], x = i % p[0];
		for (uint64_t c = 0; c < 3; c++)
			dst[p[3] ? c * n + i : 3 * i + c] = table[c * 256 + src[y * p[2] + 3 * x + c]];
	}
}

static struct { char name[64]; ms_kernel run; } twins[64] = {
	{"normalize_u8", normalize_u8},
};

// metalsim_register_kernel adds a twin: f gets the arguments of ms_kernel_args.
MS_EXPORT int metalsim_register_kernel(const char *name, void *f)
{
	for (int i = 0; i < ARRAY_LEN(twins); i++)
		if (!twins[i].name[0] || !strcmp(twins[i].name, name)) {
			snprintf(twins[i].name, sizeof twins[i].name, "%s", name);
			twins[i].run = (ms_kernel)f;
			return 1;
		}
	return 0;
}
ms_kernel ms_twin(const char *name)
{
	for (int i = 0; i < ARRAY_LEN(twins); i++)
		if (!strcmp(twins[i].name, name))
			return twins[i].run;
	return NULL;
}
