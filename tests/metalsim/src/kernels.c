// SPDX-License-Identifier: Apache-2.0
// Metal kernels from source. Nothing here compiles MSL: the source is scanned for kernel
// functions and their [[buffer(n)]] arguments, and each must have a C twin (twins.c). A kernel
// without a twin is a compile error.
#include "gpu.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
