// SPDX-License-Identifier: Apache-2.0
// Metal kernels from source. Nothing here compiles MSL: the source is scanned for kernel
// functions and their [[buffer(n)]] arguments, and each must have a C twin, written from the
// kernel's documented meaning. A kernel without a twin is a compile error.
#include "gpu.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- twins: one function per kernel of internal/metal/kernels.metal ----

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

// nearest_partial: per chunk of targets, the largest dot product of each query; first wins.
static void nearest_partial(const ms_kernel_args *a)
{
	const float *query = a->buf[0], *target = a->buf[1];
	float *score = a->buf[2];
	uint32_t *index = a->buf[3];
	const uint32_t *p = a->buf[4]; // queries, targets, dim, chunk, chunks
	const char *k = "nearest_partial";
	if (!room(a, k, 4, 20) || !room(a, k, 0, 4ull * p[0] * p[2]) || !room(a, k, 1, 4ull * p[1] * p[2]) ||
	    !room(a, k, 2, 4ull * p[0] * a->grid[1]) || !room(a, k, 3, 4ull * p[0] * a->grid[1]))
		return;
	for (uint64_t g = 0; g < a->grid[1]; g++)
		for (uint64_t q = 0; q < p[0] && q < a->grid[0]; q++) {
			float best = -INFINITY;
			uint32_t at = UINT32_MAX;
			uint64_t end = (g + 1) * p[3] < p[1] ? (g + 1) * p[3] : p[1];
			for (uint64_t t = g * p[3]; t < end; t++) {
				float s = 0;
				for (uint64_t d = 0; d < p[2]; d++)
					s = fmaf(query[q * p[2] + d], target[t * p[2] + d], s);
				if (s > best) {
					best = s;
					at = (uint32_t)t;
				}
			}
			score[g * p[0] + q] = best;
			index[g * p[0] + q] = at;
		}
}

// nearest_reduce: the best chunk of each query, -1 when no chunk has a candidate.
static void nearest_reduce(const ms_kernel_args *a)
{
	const float *score = a->buf[0];
	const uint32_t *index = a->buf[1], *p = a->buf[3];
	int32_t *out = a->buf[2];
	const char *k = "nearest_reduce";
	if (!room(a, k, 3, 20) || !room(a, k, 0, 4ull * p[0] * p[4]) || !room(a, k, 1, 4ull * p[0] * p[4]) || !room(a, k, 2, 4ull * p[0]))
		return;
	for (uint64_t q = 0; q < p[0] && q < a->grid[0]; q++) {
		int64_t best = -1;
		for (uint64_t g = 0; g < p[4]; g++)
			if (index[g * p[0] + q] != UINT32_MAX && (best < 0 || score[g * p[0] + q] > score[(uint64_t)best * p[0] + q]))
				best = (int64_t)g;
		out[q] = best < 0 ? -1 : (int32_t)index[(uint64_t)best * p[0] + q];
	}
}

static struct { char name[64]; ms_kernel run; } twins[64] = {
	{"normalize_u8", normalize_u8}, {"nearest_partial", nearest_partial}, {"nearest_reduce", nearest_reduce},
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

// ---- the scanner ----
// strip blanks comments, strings and preprocessor lines, so that offsets stay line numbers.
static char *strip(const char *src)
{
	char *s = strdup(src);
	for (char *p = s; *p;) {
		if (p[0] == '/' && p[1] == '/') {
			while (*p && *p != '\n')
				*p++ = ' ';
		} else if (p[0] == '/' && p[1] == '*') {
			for (*p++ = ' '; *p && !(p[-1] == '*' && *p == '/' ); p++)
				if (p[-1] != '\n')
					p[-1] = p[-1] == '*' ? '*' : ' ';
			if (*p)
				p[-1] = *p = ' ';
		} else if (*p == '#') {
			while (*p && *p != '\n')
				*p++ = ' ';
		} else {
			p++;
		}
	}
	return s;
}

static int line_of(const char *s, const char *at)
{
	int n = 1;
	for (; s < at; s++)
		n += *s == '\n';
	return n;
}

static bool balanced(const char *s, char *err, size_t errn)
{
	char stack[256];
	int n = 0;
	for (const char *p = s; *p; p++) {
		if (strchr("({[", *p) && n < 256)
			stack[n++] = *p == '(' ? ')' : *p == '{' ? '}' : ']';
		else if (strchr(")}]", *p) && (!n || stack[--n] != *p)) {
			snprintf(err, errn, "program_source:%d:1: error: unexpected '%c'", line_of(s, p), *p);
			return false;
		}
	}
	if (n)
		snprintf(err, errn, "program_source:%d:1: error: expected '%c' at end of input", line_of(s, s + strlen(s)), stack[n - 1]);
	return n == 0;
}

// word finds w as a whole word.
// Good enough to find qualifiers: MSL is C++, and this is not a parser of it.
static const char *word(const char *s, const char *w)
{
	size_t n = strlen(w);
	for (const char *p = s; (p = strstr(p, w)); p += n)
		if ((p == s || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) && !(isalnum((unsigned char)p[n]) || p[n] == '_'))
			return p;
	return NULL;
}

// parameters reads "device const T *x [[buffer(0)]], ..." up to the closing parenthesis.
static bool parameters(const char *src, const char *p, ms_function *f, char *err, size_t errn)
{
	for (int depth = 1; depth && *p;) {
		const char *start = p;
		while (*p && !(depth == 1 && *p == ',')) {
			depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
			if (!depth)
				break;
			p++;
		}
		char one[512];
		snprintf(one, sizeof one, "%.*s", (int)(p - start), start);
		const char *b = strstr(one, "[[");
		int i;
		if (b && sscanf(b, "[[ buffer ( %d )", &i) == 1 && i >= 0 && i < MS_MAX_BUFFERS) {
			if (f->buffers >> i & 1) {
				snprintf(err, errn, "program_source:%d:1: error: cannot reserve 'buffer' resource location at index %d", line_of(src, start), i);
				return false;
			}
			f->buffers |= 1u << i;
			if (word(one, "const") || word(one, "constant"))
				f->read_only |= 1u << i;
		}
		p += *p != 0;
	}
	return true;
}

bool ms_parse_kernels(const char *source, ms_function *f, int *n, int max, char *err, size_t errn)
{
	char *s = strip(source);
	bool ok = balanced(s, err, errn);
	*n = 0;
	for (const char *p = s; ok && (p = word(p, "kernel")); p++) {
		const char *at = p + 6;
		if (*n == max || sscanf(at, " void %63[A-Za-z0-9_]", f[*n].name) != 1) {
			snprintf(err, errn, "program_source:%d:1: error: kernel must return void", line_of(s, p));
			ok = false;
			break;
		}
		ms_function *k = &f[*n];
		k->buffers = k->read_only = 0;
		ok = parameters(s, strchr(at, '(') ? strchr(at, '(') + 1 : "", k, err, errn);
		k->run = ms_twin(k->name);
		if (ok && !k->run) {
			snprintf(err, errn, "program_source:%d:1: error: the simulator has no twin of kernel '%s'", line_of(s, p), k->name);
			ok = false;
		}
		(*n)++;
	}
	free(s);
	return ok;
}
