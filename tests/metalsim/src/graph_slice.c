// SPDX-License-Identifier: Apache-2.0
// slice, strided slice and its gradient and update, split, one-hot, coordinates, band part.
#include "graph.h"
#include <stdlib.h>
#include <string.h>

// list = start[16], step[16]; each element of "small" (rank dims) sits in "big" there.
#define STARTS(n) ((n)->list)
#define STEPS(n) ((n)->list + MS_RANK)

// visit calls back for every element of the window with its index in the whole tensor.
static void visit(const ms_node *n, const ms_shape *window, const ms_shape *whole, void (*f)(void *, int64_t small, int64_t big), void *arg)
{
	int64_t st[MS_RANK], at[MS_RANK] = {0}, total = ms_count_of(window);
	ms_strides(whole, st);
	for (int64_t k = 0; k < total; k++) {
		int64_t big = 0;
		for (int i = 0; i < window->rank; i++)
			big += (STARTS(n)[i] + at[i] * STEPS(n)[i]) * st[i];
		f(arg, k, big);
		for (int i = window->rank - 1; i >= 0 && ++at[i] == window->d[i]; i--)
			at[i] = 0;
	}
}
typedef struct { ms_val *dst; const ms_val *src; bool to_big; } move;
static void move_one(void *p, int64_t small, int64_t big)
{
	move *m = p;
	int64_t d = m->to_big ? big : small, s = m->to_big ? small : big;
	if (ms_is_float(m->dst->dtype))
		m->dst->f[d] = m->src->f[s];
	else
		m->dst->i[d] = m->src->i[s];
}
// The window keeps squeezed dimensions as 1: s[0] of the node.
static void eval_slice(const ms_node *n, ms_val **in, ms_val **out)
{
	// Contiguous rows are the common case: steps of 1 and whole trailing dimensions.
	const ms_shape *w = &n->s[0], *x = &in[0]->shape;
	int axis = -1;
	bool simple = true;
	for (int i = 0; i < w->rank; i++)
		if (w->d[i] != x->d[i] || STEPS(n)[i] != 1) {
			simple = simple && axis < 0 && STEPS(n)[i] == 1;
			axis = i;
		}
	if (!simple) {
		move m = {out[0], in[0], false};
		visit(n, w, x, move_one, &m);
		return;
	}
	axis = axis < 0 ? 0 : axis;
	int64_t size = ms_is_float(out[0]->dtype) ? 4 : 8, outer = 1, inner = size;
	for (int i = 0; i < w->rank; i++)
		*(i < axis ? &outer : i > axis ? &inner : &(int64_t){0}) *= w->d[i];
	int64_t from = w->rank ? x->d[axis] * inner : inner, row = w->rank ? w->d[axis] * inner : inner, at = w->rank ? STARTS(n)[axis] * inner : 0;
	for (int64_t o = 0; o < outer; o++)
		memcpy((char *)out[0]->p + o * row, (char *)in[0]->p + o * from + at, (size_t)row);
}
static void eval_slice_grad(const ms_node *n, ms_val **in, ms_val **out)
{
	move m = {out[0], in[0], true};
	memset(out[0]->p, 0, (size_t)out[0]->n * (ms_is_float(out[0]->dtype) ? 4 : 8));
	visit(n, &n->s[0], &out[0]->shape, move_one, &m);
}
static void eval_slice_update(const ms_node *n, ms_val **in, ms_val **out)
{
	move m = {out[0], in[1], true};
	memcpy(out[0]->p, in[0]->p, (size_t)out[0]->n * (ms_is_float(out[0]->dtype) ? 4 : 8));
	visit(n, &n->s[0], &out[0]->shape, move_one, &m);
}

// window works out a strided slice of whole; result has squeezed dimensions removed.
// Bits of the masks: start ignored, end ignored, dimension squeezed. Negative starts and ends
// count from the end. An empty slice is refused, as MPSGraph has no empty tensors.
static void window(ms_builder *b, const ms_shape *whole, id starts, id ends, id steps, const uint64_t *mask, ms_shape *result)
{
	int64_t s[MS_RANK], e[MS_RANK], t[MS_RANK];
	b->n->list = calloc(2 * MS_RANK, sizeof(int64_t));
	*result = (ms_shape){0};
	if (!ms_ints(b, starts, s, whole->rank, "starts") || !ms_ints(b, ends, e, whole->rank, "ends") || !ms_ints(b, steps, t, whole->rank, "strides"))
		return;
	b->n->s[0].rank = whole->rank;
	for (int i = 0; i < whole->rank; i++) {
		int64_t d = whole->d[i];
		if (t[i] < 1)
			ms_reject(b, "not-implemented", "stride %lld", (long long)t[i]);
		s[i] = mask[0] >> i & 1 ? 0 : s[i] < 0 ? s[i] + d : s[i];
		e[i] = mask[1] >> i & 1 ? d : e[i] < 0 ? e[i] + d : e[i];
		if (mask[2] >> i & 1)
			e[i] = s[i] + 1;
		if (s[i] < 0 || e[i] > d || s[i] >= e[i])
			ms_reject(b, "mpsgraph-shape", "slice %lld to %lld of axis %d of %s", (long long)s[i], (long long)e[i], i, ms_shape_text(whole));
		if (b->bad)
			return;
		STARTS(b->n)[i] = s[i];
		STEPS(b->n)[i] = t[i];
		b->n->s[0].d[i] = (e[i] - s[i] + t[i] - 1) / t[i];
		if (!(mask[2] >> i & 1))
			result->d[result->rank++] = b->n->s[0].d[i];
	}
}
static void slice(ms_call *c, bool masked)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	uint64_t mask[3] = {masked ? c->a[4].q : 0, masked ? c->a[5].q : 0, masked ? c->a[6].q : 0};
	ms_shape r;
	window(&b, &x->shape, c->a[1].o, c->a[2].o, c->a[3].o, mask, &r);
	ms_output(&b, &r, x->dtype);
	ms_finish(&b, eval_slice);
}
IMP(g_strided) { slice(c, false); }
IMP(g_strided_masks) { slice(c, true); }
IMP(g_slice)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int a;
	b.n->list = calloc(2 * MS_RANK, sizeof(int64_t));
	ms_shape s = x->shape;
	if (ms_axis(&b, c->a[1].i, s.rank, &a)) {
		int64_t start = c->a[2].i < 0 ? c->a[2].i + s.d[a] : c->a[2].i, len = c->a[3].i;
		if (start < 0 || len < 1 || start + len > s.d[a])
			ms_reject(&b, "mpsgraph-shape", "slice %lld + %lld of axis %d of %s", (long long)c->a[2].i, (long long)len, a, ms_shape_text(&s));
		STARTS(b.n)[a] = start;
		s.d[a] = len;
		for (int i = 0; i < s.rank; i++)
			STEPS(b.n)[i] = 1;
	}
	b.n->s[0] = s;
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_slice);
}
// The forward input's shape comes as a tensor: a constant, or shapeOfTensor (folded below).
IMP(g_slice_grad)
{
	ms_builder b = ms_begin(c);
	const ms_value *g = ms_input(&b, c->a[0].o);
	int n = 0;
	const int64_t *d = ms_constant_ints(&b, c->a[1].o, &n);
	ms_shape whole = {.rank = n}, r = {0};
	for (int i = 0; i < n && d; i++)
		whole.d[i] = d[i];
	if (d)
		window(&b, &whole, c->a[2].o, c->a[3].o, c->a[4].o, (uint64_t[3]){0}, &r);
	if (!b.bad && !ms_same_shape(&r, &g->shape))
		ms_reject(&b, "mpsgraph-shape", "gradient %s of a slice %s", ms_shape_text(&g->shape), ms_shape_text(&r));
	ms_output(&b, &whole, g->dtype);
	ms_finish(&b, eval_slice_grad);
}
IMP(g_slice_update)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *u = ms_input(&b, c->a[1].o);
	ms_shape r;
	ms_same_dtype(&b, x, u);
	window(&b, &x->shape, c->a[2].o, c->a[3].o, c->a[4].o, (uint64_t[3]){0}, &r);
	if (!b.bad && !ms_same_shape(&r, &u->shape))
		ms_reject(&b, "mpsgraph-shape", "update %s of a slice %s", ms_shape_text(&u->shape), ms_shape_text(&r));
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_slice_update);
}

// ---- split: one node, several results ----
static void eval_split(const ms_node *n, ms_val **in, ms_val **out)
{
	int axis = (int)n->i[0];
	int64_t size = ms_is_float(in[0]->dtype) ? 4 : 8, outer = 1, row = in[0]->n * size, at = 0;
	for (int i = 0; i < axis; i++)
		outer *= in[0]->shape.d[i];
	row /= outer;
	for (int k = 0; k < n->nout; k++) {
		int64_t part = out[k]->n * size / outer;
		for (int64_t o = 0; o < outer; o++)
			memcpy((char *)out[k]->p + o * part, (char *)in[0]->p + o * row + at, (size_t)part);
		at += part;
	}
}
// The sizes must cover the axis exactly.
static void split(ms_builder *b, const ms_value *x, const int64_t *sizes, int n, int64_t axis)
{
	int a;
	int64_t sum = 0;
	for (int k = 0; k < n; k++)
		sum += sizes[k];
	if (ms_axis(b, axis, x->shape.rank, &a) && sum != x->shape.d[a])
		ms_reject(b, "mpsgraph-shape", "split sizes sum to %lld, axis %d of %s", (long long)sum, a, ms_shape_text(&x->shape));
	ms_shape s = x->shape;
	uint32_t t = x->dtype;
	for (int k = 0; k < n && !b->bad; k++) {
		s.d[a] = sizes[k];
		ms_output(b, &s, t);
	}
	b->n->i[0] = b->bad ? 0 : a;
	ms_finish_array(b, eval_split);
}
IMP(g_split_n)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t sizes[256];
	int n = (int)c->a[1].q, a;
	if (n < 1 || n > 256)
		ms_reject(&b, "mpsgraph-shape", "%d splits", n);
	else if (ms_axis(&b, c->a[2].i, x->shape.rank, &a) && x->shape.d[a] % n)
		ms_reject(&b, "mpsgraph-shape", "axis %d of %s into %d equal parts", a, ms_shape_text(&x->shape), n);
	for (int k = 0; k < n && !b.bad; k++)
		sizes[k] = x->shape.d[a] / n;
	split(&b, x, sizes, b.bad ? 0 : n, c->a[2].i);
}
IMP(g_split_sizes)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t sizes[256];
	int n = (int)ms_length(c->a[1].o);
	if (n > 256 || !ms_ints(&b, c->a[1].o, sizes, n, "splitSizes"))
		n = 0;
	split(&b, x, sizes, n, c->a[2].i);
}

// ---- shape, coordinates: constants of the graph's static shapes ----
static void constant_result(ms_builder *b, const ms_shape *s, ms_buf *data)
{
	int v = ms_output(b, s, MS_I32);
	if (v >= 0) {
		b->core->values[v]->kind = 'c';
		b->core->values[v]->data = data;
		b->n->nin = 0;
	} else {
		ms_buf_release(data);
	}
	ms_finish(b, NULL);
}
IMP(g_shape_of)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_buf *d = ms_buf_new(x->shape.rank, false);
	memcpy(d->p, x->shape.d, (size_t)x->shape.rank * 8);
	constant_result(&b, &(ms_shape){1, {x->shape.rank}}, d);
}
IMP(g_coordinate)
{
	ms_builder b = ms_begin(c);
	ms_shape s = {0};
	int a = 0;
	if (!ms_shape_from(c->a[1].o, &s))
		ms_reject(&b, "mpsgraph-shape", "shape must be integers");
	ms_axis(&b, c->a[0].i, s.rank, &a);
	int64_t n = b.bad ? 0 : ms_count_of(&s), inner = 1;
	ms_buf *d = ms_buf_new(n, false);
	for (int i = a + 1; i < s.rank; i++)
		inner *= s.d[i];
	for (int64_t k = 0; k < n; k++)
		((int64_t *)d->p)[k] = k / inner % s.d[a];
	constant_result(&b, &s, d);
}

// ---- one-hot ----
static void eval_one_hot(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t depth = n->i[0], inner = n->i[1];
	for (int64_t k = 0; k < out[0]->n; k++) {
		int64_t o = k / (depth * inner), d = k / inner % depth, i = k % inner;
		double v = in[0]->i[o * inner + i] == d ? n->f[0] : n->f[1];
		if (ms_is_float(out[0]->dtype))
			out[0]->f[k] = (float)v;
		else
			out[0]->i[k] = (int64_t)v;
	}
}
static void one_hot(ms_call *c, int64_t axis, bool last, uint32_t t, double on, double off)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int a;
	if (ms_is_float(x->dtype))
		ms_reject(&b, "mpsgraph-dtype", "indices are %s", ms_dtype_name(x->dtype));
	if (ms_axis(&b, last ? s.rank : axis, s.rank + 1, &a)) {
		b.n->i[1] = 1;
		for (int i = a; i < s.rank; i++)
			b.n->i[1] *= s.d[i];
		memmove(s.d + a + 1, s.d + a, (size_t)(s.rank - a) * sizeof s.d[0]);
		s.d[a] = c->a[1].i;
		s.rank++;
	}
	b.n->i[0] = c->a[1].i;
	b.n->f[0] = on;
	b.n->f[1] = off;
	ms_output(&b, &s, t);
	ms_finish(&b, eval_one_hot);
}
IMP(g_one_hot) { one_hot(c, 0, true, MS_F32, 1, 0); }
IMP(g_one_hot_type) { one_hot(c, 0, true, (uint32_t)c->a[2].q, 1, 0); }
IMP(g_one_hot_axis) { one_hot(c, c->a[2].i, false, MS_F32, 1, 0); }
IMP(g_one_hot_axis_type) { one_hot(c, c->a[2].i, false, (uint32_t)c->a[3].q, 1, 0); }
IMP(g_one_hot_all) { one_hot(c, c->a[2].i, false, (uint32_t)c->a[3].q, c->a[4].d, c->a[5].d); }

// ---- band part: keep entries between numLower below and numUpper above the diagonal ----
static void eval_band(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t rows = in[0]->shape.d[in[0]->shape.rank - 2], cols = in[0]->shape.d[in[0]->shape.rank - 1];
	for (int64_t k = 0; k < out[0]->n; k++) {
		int64_t i = k / cols % rows, j = k % cols;
		bool keep = (n->i[0] < 0 || i - j <= n->i[0]) && (n->i[1] < 0 || j - i <= n->i[1]);
		if (ms_is_float(out[0]->dtype))
			out[0]->f[k] = keep ? in[0]->f[k] : 0;
		else
			out[0]->i[k] = keep ? in[0]->i[k] : 0;
	}
}
IMP(g_band)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	if (x->shape.rank < 2)
		ms_reject(&b, "mpsgraph-shape", "band part of rank %d", x->shape.rank);
	b.n->i[0] = c->a[1].i;
	b.n->i[1] = c->a[2].i;
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_band);
}

static const ms_impl impls[] = {
	{"-sliceTensor:dimension:start:length:name:", g_slice}, {"-sliceTensor:starts:ends:strides:name:", g_strided},
	{"-sliceTensor:starts:ends:strides:startMask:endMask:squeezeMask:name:", g_strided_masks},
	{"-sliceGradientTensor:fwdInShapeTensor:starts:ends:strides:name:", g_slice_grad},
	{"-sliceUpdateDataTensor:updateTensor:starts:ends:strides:name:", g_slice_update},
	{"-splitTensor:numSplits:axis:name:", g_split_n}, {"-splitTensor:splitSizes:axis:name:", g_split_sizes},
	{"-shapeOfTensor:name:", g_shape_of}, {"-coordinateAlongAxis:withShape:name:", g_coordinate},
	{"-oneHotWithIndicesTensor:depth:name:", g_one_hot}, {"-oneHotWithIndicesTensor:depth:dataType:name:", g_one_hot_type},
	{"-oneHotWithIndicesTensor:depth:axis:name:", g_one_hot_axis},
	{"-oneHotWithIndicesTensor:depth:axis:dataType:name:", g_one_hot_axis_type},
	{"-oneHotWithIndicesTensor:depth:axis:dataType:onValue:offValue:name:", g_one_hot_all},
	{"-bandPartWithTensor:numLower:numUpper:name:", g_band},
};
void ms_init_slice_ops(void) { MS_IMPLEMENT("MPSGraph", impls); }
