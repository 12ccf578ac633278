// SPDX-License-Identifier: Apache-2.0
// Compiling (ordering and checking) a graph and running it on a queue's worker.
#include "program.h"
#include <stdlib.h>
#include <string.h>

void ms_program_release(ms_program *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	ms_core_release(p->core);
	ms_mem_release(p->token);
	free(p->nodes);
	free(p->feeds);
	free(p->targets);
	free(p->values);
	free(p->last_use);
	free(p);
}

// need marks the node of a value and everything before it.
static void need(ms_core *k, int value, bool *node)
{
	int at = k->values[value]->node;
	if (node[at])
		return;
	node[at] = true;
	for (int i = 0; i < k->nodes[at]->nin; i++)
		need(k, k->nodes[at]->in[i], node);
}

// ordered puts feeds in creation order or, as an optimiser may, in another one.
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void order_feeds(int *feeds, int n)
{
	qsort(feeds, (size_t)n, sizeof *feeds, by_value);
	for (int i = 0; ms_cfg.shuffle_feeds && i < n / 2; i++) {
		int t = feeds[i];
		feeds[i] = feeds[n - 1 - i];
		feeds[n - 1 - i] = t;
	}
}

static int *copy_ints(const int *v, int n)
{
	int *r = malloc((size_t)(n + 1) * sizeof *r);
	memcpy(r, v, (size_t)n * sizeof *r);
	return r;
}

// fed checks that every placeholder on the way to the targets has a feed.
static bool fed(const char *what, ms_core *k, const bool *node, const int *feeds, int nfeeds)
{
	for (int v = 0; v < k->nvalues; v++) {
		if (k->values[v]->kind != 'p' || !node[k->values[v]->node])
			continue;
		bool found = false;
		for (int i = 0; i < nfeeds; i++)
			found = found || feeds[i] == v;
		if (!found) {
			ms_violation("feed-missing", "%s: a target depends on placeholder %s %s, which is not fed", what,
				     ms_dtype_name(k->values[v]->dtype), ms_shape_text(&k->values[v]->shape));
			return false;
		}
	}
	return true;
}

ms_program *ms_compile(const char *what, ms_core *k, int *feeds, int nfeeds, int *targets, int ntargets, const int *ops, int nops, int level)
{
	bool *node = calloc((size_t)k->nnodes + 1, 1);
	for (int i = 0; i < ntargets; i++)
		need(k, targets[i], node);
	for (int i = 0; i < nops; i++) {
		node[ops[i]] = true;
		for (int j = 0; j < k->nodes[ops[i]]->nin; j++)
			need(k, k->nodes[ops[i]]->in[j], node);
	}
	if (!fed(what, k, node, feeds, nfeeds)) {
		free(node);
		return NULL;
	}
	ms_program *p = calloc(1, sizeof *p);
	*p = (ms_program){.refs = 1, .core = k, .nfeeds = nfeeds, .ntargets = ntargets, .nvalues = k->nvalues, .level = level};
	atomic_fetch_add(&k->refs, 1);
	p->nodes = calloc((size_t)k->nnodes + 1, sizeof *p->nodes);
	p->values = malloc((size_t)(k->nvalues + 1) * sizeof *p->values);
	memcpy(p->values, k->values, (size_t)k->nvalues * sizeof *p->values);
	p->last_use = malloc((size_t)(k->nvalues + 1) * sizeof *p->last_use);
	memset(p->last_use, 0xff, (size_t)k->nvalues * sizeof *p->last_use);
	for (int i = 0; i < k->nnodes; i++) {
		if (!node[i] || !k->nodes[i]->eval)
			continue;
		for (int j = 0; j < k->nodes[i]->nin; j++)
			p->last_use[k->nodes[i]->in[j]] = p->nnodes;
		p->flops += k->nodes[i]->flops;
		p->nodes[p->nnodes++] = k->nodes[i];
	}
	for (int i = 0; i < ntargets; i++)
		p->last_use[targets[i]] = p->nnodes;
	p->feeds = copy_ints(feeds, nfeeds);
	order_feeds(p->feeds, nfeeds);
	p->targets = copy_ints(targets, ntargets);
	p->token = ms_mem_foreign(NULL, 0);
	free(node);
	ms_record(p);
	return p;
}

// ---- running ----
// Packed float32 is read where it lies: feeding a model's weights copies nothing.
static void bind_store(ms_val *v, const ms_store_at *at)
{
	*v = (ms_val){.shape = at->shape, .dtype = at->dtype, .n = ms_count_of(&at->shape)};
	bool packed = at->row == ms_row_bytes(&at->shape, at->dtype, false);
	const uint8_t *src = at->mem->gpu + at->offset;
	if (packed && at->dtype == MS_F32) {
		v->p = (void *)src; // read in place
		return;
	}
	v->buf = ms_buf_new(v->n, ms_is_float(at->dtype));
	v->p = v->buf->p;
	uint8_t *tmp = NULL;
	if (!packed) {
		tmp = malloc((size_t)(v->n * ms_dtype_size(at->dtype)));
		ms_read_rows(at, at->mem->gpu, tmp);
		src = tmp;
	}
	ms_load(src, at->dtype, v->n, v->p);
	free(tmp);
}
static void drop(ms_val *v)
{
	ms_buf_release(v->buf);
	*v = (ms_val){0};
}
// Reported of macOS 26: a product of one row and the bias after it become one kernel, which
// forgets the bias (PyTorch issue 188438).
static bool loses_bias(const ms_program *p, const ms_node *n, ms_val *vals)
{
	if (!ms_faulty("gemv_bias") || strncmp(n->op, "additionWith", 12))
		return false;
	for (int i = 0; i < 2; i++) {
		const ms_node *from = p->core->nodes[p->values[n->in[i]]->node];
		ms_val *x = &vals[n->in[i]], *y = &vals[n->out[0]];
		if (strncmp(from->op, "matrixMultiplication", 20) || x->n != y->n || x->shape.d[x->shape.rank - 2] != 1)
			continue;
		memcpy(y->p, x->p, (size_t)x->n * 4);
		return true;
	}
	return false;
}
// A node owns fresh storage for its results; views share their input's.
static void eval_node(const ms_program *p, const ms_node *n, ms_val *vals)
{
	ms_val **in = malloc((size_t)(n->nin + n->nout + 1) * sizeof *in), **out = in + n->nin;
	for (int i = 0; i < n->nin; i++) {
		in[i] = &vals[n->in[i]];
		ms_value *v = p->values[n->in[i]];
		if (!in[i]->p && v->data) { // a constant or variable, bound at its first use
			*in[i] = (ms_val){.shape = v->shape, .dtype = v->dtype, .n = v->data->n, .buf = ms_buf_retain(v->data)};
			in[i]->p = v->data->p;
		}
	}
	for (int i = 0; i < n->nout; i++) {
		const ms_value *v = p->values[n->out[i]];
		out[i] = &vals[n->out[i]];
		*out[i] = (ms_val){.shape = v->shape, .dtype = v->dtype, .n = ms_count_of(&v->shape)};
		if (!n->view) {
			out[i]->buf = ms_buf_new(out[i]->n, ms_is_float(v->dtype));
			out[i]->p = out[i]->buf->p;
		}
	}
	if (!loses_bias(p, n, vals))
		n->eval(n, in, out);
	for (int i = 0; i < n->nout && !n->view; i++)
		if (ms_is_float(out[i]->dtype))
			ms_round_to(out[i]->dtype, out[i]->f, out[i]->n);
	if (n->assigns >= 0) {
		ms_buf *d = ms_buf_new(in[0]->n, ms_is_float(in[0]->dtype));
		memcpy(d->p, in[0]->p, (size_t)d->n * (ms_is_float(in[0]->dtype) ? 4 : 8));
		ms_buf_release(p->values[n->assigns]->data);
		p->values[n->assigns]->data = d;
	}
	free(in);
}

ms_graph_state *ms_graph_state_new(ms_program *p)
{
	ms_graph_state *st = calloc(1, sizeof *st);
	*st = (ms_graph_state){.refs = 1, .p = p, .in = calloc((size_t)p->nfeeds + 1, sizeof *st->in),
			       .out = calloc((size_t)p->ntargets + 1, sizeof *st->out)};
	atomic_fetch_add(&p->refs, 1);
	return st;
}
void ms_graph_state_release(ms_graph_state *st)
{
	if (atomic_fetch_sub(&st->refs, 1) != 1)
		return;
	for (int i = 0; st->vals && i < st->p->nvalues; i++)
		drop(&st->vals[i]);
	free(st->vals);
	ms_program_release(st->p);
	free(st->in);
	free(st->out);
	free(st);
}

static void section_destroy(ms_op *op)
{
	ms_graph_state_release(((ms_graph_op *)op)->state);
	free(op);
}
ms_op *ms_graph_section(ms_graph_state *st, int from, int to)
{
	ms_graph_op *g = calloc(1, sizeof *g);
	*g = (ms_graph_op){{.run = ms_graph_run, .destroy = section_destroy}, st, from, to};
	atomic_fetch_add(&st->refs, 1);
	return &g->op;
}

static void store_results(ms_graph_state *st)
{
	ms_program *p = st->p;
	for (int i = 0; i < p->ntargets; i++) {
		const ms_value *w = p->values[p->targets[i]];
		int64_t n = ms_count_of(&w->shape);
		// Reported: the compiler drops what only copies (PyTorch pull request 152371).
		if (w->node >= 0 && ms_faulty("identity") && !strncmp(p->core->nodes[w->node]->op, "identityWith", 12))
			continue;
		uint8_t *tmp = malloc((size_t)(n * ms_dtype_size(w->dtype)));
		if (st->done == p->nnodes) {
			const void *v = st->vals[p->targets[i]].p;
			ms_store(v ? v : w->data->p, w->dtype, n, tmp); // a constant may be a target
		} else { // an earlier section failed: this one completes, with what it made of garbage
			memset(tmp, 0xff, (size_t)(n * ms_dtype_size(w->dtype)));
		}
		ms_write_rows(&st->out[i], st->out[i].mem->gpu, tmp);
		free(tmp);
	}
}

// Results are stored after the last node, so an early store cannot disturb a later read.
void ms_graph_run(ms_op *op, ms_submit *s)
{
	(void)s;
	ms_graph_op *g = (ms_graph_op *)op;
	ms_graph_state *st = g->state;
	ms_program *p = st->p;
	if (g->from == 0) {
		st->vals = calloc((size_t)p->nvalues + 1, sizeof *st->vals);
		for (int i = 0; i < p->nfeeds; i++)
			bind_store(&st->vals[p->feeds[i]], &st->in[i]);
	}
	for (int i = g->from; i < g->to && st->vals && st->done == i; i++) {
		eval_node(p, p->nodes[i], st->vals);
		st->done++;
		for (int j = 0; j < p->nodes[i]->nin; j++)
			if (p->last_use[p->nodes[i]->in[j]] == i)
				drop(&st->vals[p->nodes[i]->in[j]]);
	}
	if (g->to == p->nnodes)
		store_results(st);
}
