// SPDX-License-Identifier: Apache-2.0
// sort, argSort, topK, bottomK. Equal values keep the order of their indices here, or with
// fault "ties" the opposite one: Apple's do as they like (PyTorch's tests of topk stopped to
// compare the indices of equal elements).
#include "graph.h"
#include <stdlib.h>
#include <string.h>

typedef struct { double v; int64_t i; } item;
static int tie(const item *x, const item *y) { return (x->i < y->i ? -1 : x->i > y->i) * (ms_faulty("ties") ? -1 : 1); }
static int up(const void *a, const void *b)
{
	const item *x = a, *y = b;
	return x->v < y->v ? -1 : x->v > y->v ? 1 : tie(x, y);
}
static int down(const void *a, const void *b)
{
	const item *x = a, *y = b;
	return x->v > y->v ? -1 : x->v < y->v ? 1 : tie(x, y);
}

// i: 0 axis, 1 descending, 2 k, 3 which results (bit 0 values, bit 1 indices)
static void eval_sort(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_val *x = in[0];
	int axis = (int)n->i[0];
	int64_t outer = 1, inner = 1, len = x->shape.d[axis], k = n->i[2];
	for (int i = 0; i < x->shape.rank; i++)
		*(i < axis ? &outer : i > axis ? &inner : &(int64_t){0}) *= x->shape.d[i];
	item *v = malloc((size_t)len * sizeof *v);
	bool fl = ms_is_float(x->dtype);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			for (int64_t j = 0; j < len; j++) {
				int64_t at = (o * len + j) * inner + i;
				v[j] = (item){fl ? x->f[at] : (double)x->i[at], j};
			}
			qsort(v, (size_t)len, sizeof *v, n->i[1] ? down : up);
			for (int64_t j = 0; j < k; j++) {
				int64_t at = (o * k + j) * inner + i;
				if (n->i[3] & 1) {
					if (fl)
						out[0]->f[at] = (float)v[j].v;
					else
						out[0]->i[at] = x->i[(o * len + v[j].i) * inner + i];
				}
				if (n->i[3] & 2)
					out[n->i[3] & 1]->i[at] = v[j].i;
			}
		}
	free(v);
}
// The fifth axis from the end aborts (PyTorch issue 154890); nobody has tried the others of
// such a tensor.
static void at_most_4(ms_builder *b, const ms_value *x)
{
	if (x->shape.rank > 4)
		ms_reject(b, "mpsgraph-limit", "sort of %s: more than 4 dimensions", ms_shape_text(&x->shape));
}
static void sort(ms_call *c, bool arg, bool descending)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int a;
	at_most_4(&b, x);
	if (ms_axis(&b, c->a[1].i, x->shape.rank, &a)) {
		b.n->i[0] = a;
		b.n->i[1] = descending;
		b.n->i[2] = x->shape.d[a];
		b.n->i[3] = arg ? 2 : 1;
	}
	ms_output(&b, &x->shape, arg ? MS_I32 : x->dtype);
	ms_finish(&b, eval_sort);
}
IMP(g_sort) { sort(c, false, false); }
IMP(g_sort_order) { sort(c, false, c->a[2].q); }
IMP(g_argsort) { sort(c, true, false); }
IMP(g_argsort_order) { sort(c, true, c->a[2].q); }

static void top(ms_call *c, int64_t axis, int64_t k, bool descending)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	uint32_t t = x->dtype;
	int a;
	at_most_4(&b, x);
	if (ms_axis(&b, axis, s.rank, &a)) {
		if (k < 1 || k > s.d[a])
			ms_reject(&b, "mpsgraph-shape", "k %lld of axis %d of %s", (long long)k, a, ms_shape_text(&s));
		s.d[a] = k;
		b.n->i[0] = a;
		b.n->i[1] = descending;
		b.n->i[2] = k;
		b.n->i[3] = 3;
	}
	ms_output(&b, &s, t);
	ms_output(&b, &s, MS_I32);
	ms_finish_array(&b, eval_sort);
}
IMP(g_topk) { top(c, -1, c->a[1].i, true); }
IMP(g_topk_axis) { top(c, c->a[1].i, c->a[2].i, true); }
IMP(g_bottomk_axis) { top(c, c->a[1].i, c->a[2].i, false); }

static const ms_impl impls[] = {
	{"-sortWithTensor:axis:name:", g_sort}, {"-sortWithTensor:axis:descending:name:", g_sort_order},
	{"-argSortWithTensor:axis:name:", g_argsort}, {"-argSortWithTensor:axis:descending:name:", g_argsort_order},
	{"-topKWithSourceTensor:k:name:", g_topk}, {"-topKWithSourceTensor:axis:k:name:", g_topk_axis},
	{"-bottomKWithSourceTensor:axis:k:name:", g_bottomk_axis},
};
void ms_init_sort_ops(void) { MS_IMPLEMENT("MPSGraph", impls); }
