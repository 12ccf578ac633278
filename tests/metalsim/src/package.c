// SPDX-License-Identifier: Apache-2.0
// Packages: an executable as a folder on disk. Apple's hold MLIR; these hold the program as it
// is in memory and are of use to the library that wrote them only. As on a Mac, writing says
// nothing of failure, a package knows no tensors, and a bad one is an exception.
#include "program.h"
#include "foundation.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "metalsim package 1"
#define LIMIT (1 << 28) // a count beyond this is damage

// anchor: evaluating functions are stored as their distance from it; another build of this
// library has another distance to the check symbol.
static const char *anchor(void) { return (const char *)(uintptr_t)ms_compile; }
static int64_t check(void) { return (const char *)(uintptr_t)ms_graph_run - anchor() + (const char *)(uintptr_t)ms_gemm - anchor(); }

// One walk serves both directions, so that they cannot differ.
typedef struct { FILE *f; bool writing, bad; } stream;

static void raw(stream *s, void *p, size_t n)
{
	if (s->bad || n == 0)
		return;
	s->bad = (s->writing ? fwrite(p, 1, n, s->f) : fread(p, 1, n, s->f)) != n;
}
// count also bounds what a damaged file may ask for.
static int count(stream *s, int n)
{
	int32_t v = n;
	raw(s, &v, sizeof v);
	if (v < 0 || v > LIMIT)
		s->bad = true;
	return s->bad ? 0 : v;
}
static void *block(stream *s, void *p, size_t n)
{
	if (!s->writing)
		p = calloc(1, n + 1);
	raw(s, p, n);
	return p;
}
static int *ints(stream *s, int *v, int n) { return block(s, v, (size_t)n * sizeof *v); }

static void value(stream *s, ms_value *v)
{
	raw(s, &v->shape, sizeof v->shape);
	raw(s, &v->dtype, sizeof v->dtype);
	raw(s, &v->node, sizeof v->node);
	raw(s, &v->kind, sizeof v->kind);
	int64_t n = v->data ? v->data->n : -1;
	raw(s, &n, sizeof n);
	if (s->bad || n < 0)
		return;
	if (n > LIMIT) {
		s->bad = true;
		return;
	}
	if (!s->writing)
		v->data = ms_buf_new(n, ms_is_float(v->dtype));
	raw(s, v->data->p, (size_t)n * (ms_is_float(v->dtype) ? 4 : 8));
}

static void node(stream *s, ms_node *n)
{
	int len = count(s, n->op ? (int)strlen(n->op) : 0);
	char *op = block(s, (char *)n->op, (size_t)len);
	if (!s->writing) {
		n->op = "of a package"; // texts of nodes belong to the library
		free(op);
	}
	int64_t eval = n->eval ? (const char *)(uintptr_t)n->eval - anchor() : 0;
	raw(s, &eval, sizeof eval);
	if (!s->writing)
		n->eval = (ms_eval)(uintptr_t)(anchor() + eval);
	n->nin = count(s, n->nin);
	n->nout = count(s, n->nout);
	n->in = ints(s, n->in, n->nin);
	n->out = ints(s, n->out, n->nout);
	raw(s, &n->view, sizeof n->view);
	raw(s, &n->flops, sizeof n->flops);
	raw(s, n->i, sizeof n->i);
	raw(s, n->f, sizeof n->f);
	raw(s, n->s, sizeof n->s);
	raw(s, &n->assigns, sizeof n->assigns);
	int list = count(s, n->list ? (int)malloc_usable_size(n->list) : 0);
	if (list)
		n->list = block(s, n->list, (size_t)list);
}

static void program(stream *s, ms_program *p)
{
	char magic[sizeof MAGIC] = MAGIC;
	int64_t c = check();
	raw(s, magic, sizeof magic);
	raw(s, &c, sizeof c);
	if (s->bad || memcmp(magic, MAGIC, sizeof magic) || c != check()) {
		s->bad = true;
		return;
	}
	p->nvalues = count(s, p->nvalues);
	p->nnodes = count(s, p->nnodes);
	p->nfeeds = count(s, p->nfeeds);
	p->ntargets = count(s, p->ntargets);
	p->feeds = ints(s, p->feeds, p->nfeeds);
	p->targets = ints(s, p->targets, p->ntargets);
	p->last_use = ints(s, p->last_use, p->nvalues);
	raw(s, &p->flops, sizeof p->flops);
	raw(s, &p->level, sizeof p->level);
	if (!s->writing && !s->bad) {
		ms_core *k = p->core;
		k->values = calloc((size_t)p->nvalues + 1, sizeof *k->values);
		k->nodes = calloc((size_t)p->nnodes + 1, sizeof *k->nodes);
		p->values = calloc((size_t)p->nvalues + 1, sizeof *p->values);
		p->nodes = calloc((size_t)p->nnodes + 1, sizeof *p->nodes);
		for (; k->nvalues < p->nvalues; k->nvalues++)
			p->values[k->nvalues] = k->values[k->nvalues] = calloc(1, sizeof(ms_value));
		for (; k->nnodes < p->nnodes; k->nnodes++)
			p->nodes[k->nnodes] = k->nodes[k->nnodes] = calloc(1, sizeof(ms_node));
	}
	for (int i = 0; i < p->nvalues && !s->bad; i++)
		value(s, p->values[i]);
	for (int i = 0; i < p->nnodes && !s->bad; i++)
		node(s, p->nodes[i]);
}

static bool in_package(char *path, size_t n, id url) { return snprintf(path, n, "%s/program", ms_url_path(url)) < (int)n; }

// ms_package_write: MPSGraph makes the folder; what cannot be written is not reported.
void ms_package_write(ms_program *p, id url)
{
	char path[4096];
	if (mkdir(ms_url_path(url), 0755) && errno != EEXIST)
		return;
	stream s = {.writing = true};
	if (!in_package(path, sizeof path, url) || !(s.f = fopen(path, "wb")))
		return;
	program(&s, p);
	fclose(s.f);
	ms_count("packages_written", 1);
}

ms_program *ms_package_read(id url)
{
	char path[4096];
	stream s = {0};
	if (!in_package(path, sizeof path, url) || !(s.f = fopen(path, "rb"))) {
		ms_violation("bad-package", "%s is no package", ms_url_path(url));
		return NULL;
	}
	ms_program *p = calloc(1, sizeof *p);
	p->refs = 1;
	p->core = calloc(1, sizeof *p->core);
	p->core->refs = 1;
	p->token = ms_mem_foreign(NULL, 0);
	program(&s, p);
	bool whole = !s.bad && fgetc(s.f) == EOF;
	fclose(s.f);
	if (!whole) {
		ms_violation("bad-package", "%s is damaged or of another version", ms_url_path(url));
		ms_program_release(p);
		return NULL;
	}
	ms_count("packages_read", 1);
	p->portable = true;
	return p;
}
