// SPDX-License-Identifier: Apache-2.0
// The text of the last compiled graph, for tests that count what a lowering emits.
#include "program.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static char *text;
static size_t len, cap;

__attribute__((format(printf, 1, 2))) static void put(const char *fmt, ...)
{
	if (cap - len < 1024) {
		cap = cap * 2 + 65536;
		text = realloc(text, cap);
	}
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text + len, cap - len, fmt, ap);
	va_end(ap);
	len += (size_t)n < cap - len ? (size_t)n : cap - len - 1;
}

static void put_values(char tag, const int *v, int n)
{
	put(" %c", tag);
	for (int i = 0; i < n; i++)
		put(i ? ",%d" : "%d", v[i]);
}

// One line a value in use, "v id kind type [shape]" with kind p, c, v or - (a result), then one a
// node in the order they run, "n selector flops iINPUTS oOUTPUTS", then "t" and the targets.
// Nodes that no target needs are not there: MPSGraph compiles the targets.
void ms_record(const ms_program *p)
{
	pthread_mutex_lock(&mu);
	len = 0;
	bool *used = calloc((size_t)p->nvalues + 1, 1);
	for (int i = 0; i < p->nnodes; i++) {
		for (int j = 0; j < p->nodes[i]->nin; j++)
			used[p->nodes[i]->in[j]] = true;
		for (int j = 0; j < p->nodes[i]->nout; j++)
			used[p->nodes[i]->out[j]] = true;
	}
	for (int v = 0; v < p->nvalues; v++)
		if (used[v])
			put("v %d %c %s %s\n", v, p->values[v]->kind ? p->values[v]->kind : '-', ms_dtype_name(p->values[v]->dtype),
			    ms_shape_text(&p->values[v]->shape));
	for (int i = 0; i < p->nnodes; i++) {
		const ms_node *n = p->nodes[i];
		put("n %s %.0f", n->op, n->flops);
		put_values('i', n->in, n->nin);
		put_values('o', n->out, n->nout);
		put("\n");
	}
	put("t");
	put_values('i', p->targets, p->ntargets);
	put("\n");
	free(used);
	pthread_mutex_unlock(&mu);
}

// metalsim_program copies the text, cut to n - 1 bytes, and returns its whole length.
MS_EXPORT int64_t metalsim_program(char *buf, int64_t n)
{
	pthread_mutex_lock(&mu);
	int64_t r = (int64_t)len;
	if (buf && n > 0) {
		int64_t m = r < n - 1 ? r : n - 1;
		if (m)
			memcpy(buf, text, (size_t)m);
		buf[m] = 0;
	}
	pthread_mutex_unlock(&mu);
	return r;
}
