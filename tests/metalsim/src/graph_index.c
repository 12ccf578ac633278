// SPDX-License-Identifier: Apache-2.0
// gather and scatter along an axis, with their variants.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Indices are integers; PyTorch casts them to Int32 first.
static bool need_indices(ms_builder *b, const ms_value *x)
{
	if (x->dtype == MS_I32 || x->dtype == MS_I64 || x->dtype == MS_U32 || x->dtype == MS_I16 || x->dtype == MS_U8)
		return true;
	ms_reject(b, "mpsgraph-dtype", "indices are %s", ms_dtype_name(x->dtype));
	return false;
}

// in_range: what MPSGraph reads for a bad index is undefined, so it is a violation and 0.
static bool in_range(const ms_node *n, int64_t i, int64_t d)
{
	if (i >= 0 && i < d)
		return true;
	ms_violation("index-range", "-[MPSGraph %s]: index %lld of an axis of %lld", n->op, (long long)i, (long long)d);
	return false;
}

// ---- gather: result = updates[..axis] x indices[batch..] x updates[axis+1..] ----
// i: 0 outer size before axis (batch not included), 1 axis length, 2 inner size,
//    3 batches, 4 indices per batch
static void eval_gather(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t outer = n->i[0], len = n->i[1], inner = n->i[2], batches = n->i[3], k = n->i[4];
	int64_t size = ms_is_float(out[0]->dtype) ? 4 : 8;
	char *o = out[0]->p;
	bool warned = false;
	for (int64_t b = 0; b < batches; b++)
		for (int64_t a = 0; a < outer; a++)
			for (int64_t j = 0; j < k; j++, o += inner * size) {
				int64_t at = in[1]->i[b * k + j];
				bool ok = at >= 0 && at < len;
				if (!ok && !warned)
					warned = !in_range(n, at, len);
				if (ok)
					memcpy(o, (char *)in[0]->p + ((b * outer + a) * len + at) * inner * size, (size_t)(inner * size));
				else
					memset(o, 0, (size_t)(inner * size));
			}
}
IMP(g_gather)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *ix = ms_input(&b, c->a[1].o);
	int64_t batch = c->a[3].i;
	ms_shape s = {0};
	int axis = 0;
	need_indices(&b, ix);
	if (ms_axis(&b, c->a[2].i, x->shape.rank, &axis) && (batch < 0 || batch > axis || batch > ix->shape.rank))
		ms_reject(&b, "mpsgraph-shape", "batchDimensions %lld with axis %d", (long long)batch, axis);
	int64_t *v = b.n->i;
	v[0] = v[2] = v[3] = v[4] = 1;
	for (int i = 0; i < x->shape.rank && !b.bad; i++) {
		if (i < batch && x->shape.d[i] != ix->shape.d[i])
			ms_reject(&b, "mpsgraph-shape", "batch dimensions of %s and %s", ms_shape_text(&x->shape), ms_shape_text(&ix->shape));
		if (i == axis) {
			v[1] = x->shape.d[i];
			for (int j = (int)batch; j < ix->shape.rank; j++) {
				s.d[s.rank++] = ix->shape.d[j];
				v[4] *= ix->shape.d[j];
			}
		} else {
			s.d[s.rank++] = x->shape.d[i];
			v[i < batch ? 3 : i < axis ? 0 : 2] *= x->shape.d[i];
		}
	}
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_gather);
}

// ---- along axis: indices have the shape of the result ----
static int64_t along(const ms_shape *ixs, int axis, int64_t k, const ms_shape *data, int64_t at)
{
	int64_t st[MS_RANK], off = 0;
	ms_strides(data, st);
	for (int i = ixs->rank - 1; i >= 0; i--) {
		off += st[i] * (i == axis ? at : k % ixs->d[i]);
		k /= ixs->d[i];
	}
	return off;
}
static void eval_gather_along(const ms_node *n, ms_val **in, ms_val **out)
{
	int axis = (int)n->i[0];
	for (int64_t k = 0; k < out[0]->n; k++) {
		bool ok = in_range(n, in[1]->i[k], in[0]->shape.d[axis]);
		int64_t from = ok ? along(&in[1]->shape, axis, k, &in[0]->shape, in[1]->i[k]) : 0;
		if (ms_is_float(out[0]->dtype))
			out[0]->f[k] = ok ? in[0]->f[from] : 0;
		else
			out[0]->i[k] = ok ? in[0]->i[from] : 0;
	}
}
// Except along the axis, indices and data have the same shape.
static void along_shapes(ms_builder *b, const ms_shape *x, const ms_shape *ix, int axis)
{
	ms_shape y = *ix;
	if (y.rank == x->rank)
		y.d[axis] = x->d[axis];
	if (!ms_same_shape(&y, x))
		ms_reject(b, "mpsgraph-shape", "indices %s for data %s along axis %d", ms_shape_text(ix), ms_shape_text(x), axis);
}
IMP(g_gather_along)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[1].o), *ix = ms_input(&b, c->a[2].o);
	int a;
	need_indices(&b, ix);
	if (ms_axis(&b, c->a[0].i, x->shape.rank, &a)) {
		along_shapes(&b, &x->shape, &ix->shape, a);
		b.n->i[0] = a;
	}
	ms_output(&b, &ix->shape, x->dtype);
	ms_finish(&b, eval_gather_along);
}

// ---- scatter ----
enum { S_ADD, S_SUB, S_MUL, S_DIV, S_MIN, S_MAX, S_SET };
static double combine(int mode, double old, double x)
{
	switch (mode) {
	case S_ADD: return old + x;
	case S_SUB: return old - x;
	case S_MUL: return old * x;
	case S_DIV: return old / x;
	case S_MIN: return fmin(old, x);
	case S_MAX: return fmax(old, x);
	}
	return x;
}
static double neutral(int mode)
{
	return mode == S_MUL || mode == S_DIV ? 1 : mode == S_MIN ? INFINITY : mode == S_MAX ? -INFINITY : 0;
}

// scatter accumulates updates in double and rounds at the end; without data, what no index
// sets is 0 ("slices not set by indices are set to 0").
typedef struct { double *acc; bool *set; const ms_val *updates; int mode; } scatter;
static scatter scatter_begin(const ms_node *n, const ms_val *data, const ms_val *updates, int64_t count)
{
	scatter s = {malloc((size_t)count * 8), calloc((size_t)count, 1), updates, (int)n->i[1]};
	for (int64_t k = 0; k < count; k++) {
		s.acc[k] = !data ? neutral(s.mode) : ms_is_float(data->dtype) ? data->f[k] : (double)data->i[k];
		s.set[k] = data != NULL;
	}
	return s;
}
static void scatter_put(scatter *s, int64_t to, int64_t from)
{
	double x = ms_is_float(s->updates->dtype) ? s->updates->f[from] : (double)s->updates->i[from];
	s->acc[to] = combine(s->mode, s->acc[to], x);
	s->set[to] = true;
}
static void scatter_end(scatter *s, ms_val *out)
{
	for (int64_t k = 0; k < out->n; k++) {
		double v = s->set[k] ? s->acc[k] : 0;
		if (ms_is_float(out->dtype))
			out->f[k] = (float)v;
		else
			out->i[k] = (int64_t)v;
	}
	free(s->acc);
	free(s->set);
}
// inputs: [data,] updates, indices; i[0] axis, i[2] data present
static void eval_scatter(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_val *data = n->i[2] ? in[0] : NULL, *up = in[n->i[2]], *ix = in[n->i[2] + 1];
	int axis = (int)n->i[0];
	int64_t outer = 1, inner = 1, len = out[0]->shape.d[axis];
	for (int i = 0; i < out[0]->shape.rank; i++)
		*(i < axis ? &outer : i > axis ? &inner : &(int64_t){0}) *= out[0]->shape.d[i];
	scatter s = scatter_begin(n, data, up, out[0]->n);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t j = 0; j < ix->n; j++)
			for (int64_t i = 0; i < inner && in_range(n, ix->i[j], len); i++)
				scatter_put(&s, (o * len + ix->i[j]) * inner + i, (o * ix->n + j) * inner + i);
	scatter_end(&s, out[0]);
}
static void eval_scatter_along(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_val *data = n->i[2] ? in[0] : NULL, *up = in[n->i[2]], *ix = in[n->i[2] + 1];
	int axis = (int)n->i[0];
	scatter s = scatter_begin(n, data, up, out[0]->n);
	for (int64_t k = 0; k < ix->n; k++)
		if (in_range(n, ix->i[k], out[0]->shape.d[axis]))
			scatter_put(&s, along(&ix->shape, axis, k, &out[0]->shape, ix->i[k]), k);
	scatter_end(&s, out[0]);
}
static void eval_scatter_nd(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_val *data = n->i[2] ? in[0] : NULL, *up = in[n->i[2]], *ix = in[n->i[2] + 1];
	int depth = (int)ix->shape.d[ix->shape.rank - 1], rank = out[0]->shape.rank;
	int64_t st[MS_RANK], inner = 1;
	ms_strides(&out[0]->shape, st);
	for (int i = depth; i < rank; i++)
		inner *= out[0]->shape.d[i];
	scatter s = scatter_begin(n, data, up, out[0]->n);
	for (int64_t k = 0; k < ix->n / depth; k++) {
		int64_t to = 0;
		bool ok = true;
		for (int i = 0; i < depth; i++) {
			ok = ok && in_range(n, ix->i[k * depth + i], out[0]->shape.d[i]);
			to += ix->i[k * depth + i] * st[i];
		}
		for (int64_t i = 0; i < inner && ok; i++)
			scatter_put(&s, to + i, k * inner + i);
	}
	scatter_end(&s, out[0]);
}

enum { PLAIN, ALONG, ND };
// finish_scatter: data or updates first in the inputs; shape is the result's.
// With a data tensor the result starts from it, without one from the mode's neutral element.
static void finish_scatter(ms_builder *b, id data, id updates, id indices, id shape, int64_t axis, int64_t mode, int kind)
{
	const ms_value *d = data ? ms_input(b, data) : NULL, *u = ms_input(b, updates), *ix = ms_input(b, indices);
	ms_shape s = {0}, want;
	int a = 0;
	need_indices(b, ix);
	if (mode < S_ADD || mode > S_SET)
		ms_reject(b, "mpsgraph-type", "scatter mode %lld", (long long)mode);
	if (d)
		s = d->shape;
	else if (!ms_shape_from(shape, &s))
		ms_reject(b, "mpsgraph-shape", "shape must be integers");
	if (d && d->dtype != u->dtype)
		ms_reject(b, "mpsgraph-dtype", "updates %s into %s", ms_dtype_name(u->dtype), ms_dtype_name(d->dtype));
	want = s;
	if (kind == ND) {
		int64_t depth = ix->shape.rank ? ix->shape.d[ix->shape.rank - 1] : 0;
		if (depth < 1 || depth > s.rank)
			ms_reject(b, "mpsgraph-shape", "indices %s into %s", ms_shape_text(&ix->shape), ms_shape_text(&s));
		want = ix->shape;
		want.rank--;
		for (int i = (int)depth; i < s.rank && want.rank < MS_RANK; i++)
			want.d[want.rank++] = s.d[i];
	} else if (ms_axis(b, axis, s.rank, &a)) {
		if (kind == PLAIN && ix->shape.rank != 1)
			ms_reject(b, "mpsgraph-shape", "indices of rank %d, want 1", ix->shape.rank);
		if (kind == PLAIN)
			want.d[a] = ms_count_of(&ix->shape);
		else
			along_shapes(b, &s, &ix->shape, a);
		if (kind == ALONG)
			want = ix->shape;
	}
	if (!b->bad && !ms_same_shape(&want, &u->shape))
		ms_reject(b, "mpsgraph-shape", "updates %s, want %s", ms_shape_text(&u->shape), ms_shape_text(&want));
	b->n->i[0] = a;
	b->n->i[1] = mode;
	b->n->i[2] = d != NULL;
	ms_output(b, &s, u->dtype);
	ms_finish(b, kind == PLAIN ? eval_scatter : kind == ALONG ? eval_scatter_along : eval_scatter_nd);
}
#define A(k) (c->a[k].o)
IMP(g_scatter) { ms_builder b = ms_begin(c); finish_scatter(&b, NULL, A(0), A(1), A(2), c->a[3].i, c->a[4].i, PLAIN); }
IMP(g_scatter_data) { ms_builder b = ms_begin(c); finish_scatter(&b, A(0), A(1), A(2), NULL, c->a[3].i, c->a[4].i, PLAIN); }
IMP(g_scatter_along) { ms_builder b = ms_begin(c); finish_scatter(&b, NULL, A(1), A(2), A(3), c->a[0].i, c->a[4].i, ALONG); }
IMP(g_scatter_along_data) { ms_builder b = ms_begin(c); finish_scatter(&b, A(1), A(2), A(3), NULL, c->a[0].i, c->a[4].i, ALONG); }
static bool no_batch(ms_builder *b, uint64_t batch)
{
	if (batch)
		ms_reject(b, "not-implemented", "scatterND with batchDimensions");
	return true;
}
IMP(g_scatter_nd) { ms_builder b = ms_begin(c); no_batch(&b, c->a[3].q); finish_scatter(&b, NULL, A(0), A(1), A(2), 0, c->a[4].i, ND); }
IMP(g_scatter_nd_add) { ms_builder b = ms_begin(c); no_batch(&b, c->a[3].q); finish_scatter(&b, NULL, A(0), A(1), A(2), 0, S_ADD, ND); }
IMP(g_scatter_nd_data) { ms_builder b = ms_begin(c); no_batch(&b, c->a[3].q); finish_scatter(&b, A(0), A(1), A(2), NULL, 0, c->a[4].i, ND); }

static const ms_impl impls[] = {
	{"-gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:", g_gather},
	{"-gatherAlongAxis:withUpdatesTensor:indicesTensor:name:", g_gather_along},
	{"-scatterWithUpdatesTensor:indicesTensor:shape:axis:mode:name:", g_scatter},
	{"-scatterWithDataTensor:updatesTensor:indicesTensor:axis:mode:name:", g_scatter_data},
	{"-scatterAlongAxis:withUpdatesTensor:indicesTensor:shape:mode:name:", g_scatter_along},
	{"-scatterAlongAxis:withDataTensor:updatesTensor:indicesTensor:mode:name:", g_scatter_along_data},
	{"-scatterNDWithUpdatesTensor:indicesTensor:shape:batchDimensions:mode:name:", g_scatter_nd},
	{"-scatterNDWithUpdatesTensor:indicesTensor:shape:batchDimensions:name:", g_scatter_nd_add},
	{"-scatterNDWithDataTensor:updatesTensor:indicesTensor:batchDimensions:mode:name:", g_scatter_nd_data},
};
void ms_init_index_ops(void) { MS_IMPLEMENT("MPSGraph", impls); }
