// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax, cumulative sums. A reduced dimension stays, with size 1.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUM, PROD, MAX, MIN, MAXN, MINN, AND, OR, MEAN, VAR };
static const struct { const char *stem; int op; } reductions[] = {
	{"reductionSumWithTensor", SUM}, {"reductionProductWithTensor", PROD}, {"reductionMaximumWithTensor", MAX},
	{"reductionMinimumWithTensor", MIN}, {"reductionMaximumPropagateNaNWithTensor", MAXN},
	{"reductionMinimumPropagateNaNWithTensor", MINN}, {"reductionAndWithTensor", AND}, {"reductionOrWithTensor", OR},
};

static double start(int op)
{
	switch (op) {
	case PROD: case AND: return 1;
	case MAX: case MAXN: return -INFINITY;
	case MIN: case MINN: return INFINITY;
	}
	return 0;
}
static inline double step(int op, double a, double x)
{
	switch (op) {
	case PROD: return a * x;
	case MAX: return fmax(a, x);
	case MIN: return fmin(a, x);
	case MAXN: return isnan(a) || a > x ? a : x;
	case MINN: return isnan(a) || a < x ? a : x;
	case AND: return a != 0 && x != 0;
	case OR: return a != 0 || x != 0;
	}
	return a + x;
}

// out_offset: strides of the result per input dimension, 0 where reduced.
static void reduce_strides(const ms_val *in, const ms_val *out, int64_t *st)
{
	ms_strides(&out->shape, st);
	for (int i = 0; i < in->shape.rank; i++)
		if (out->shape.d[i] == 1)
			st[i] = 0;
}

// fold visits every input element with its place in the result; rows of the last dimension
// are the inner loop. get gives the element as a double.
static inline double get(const ms_val *v, int64_t j) { return ms_is_float(v->dtype) ? v->f[j] : (double)v->i[j]; }

// Sums run in double: Apple's tree of float32 sums is about as exact as a short one.
static void fold(const ms_val *in, const ms_val *out, double *acc, int op, const double *mean, bool half)
{
	int rank = in->shape.rank;
	int64_t st[MS_RANK], at[MS_RANK] = {0}, o = 0, row = rank ? in->shape.d[rank - 1] : 1;
	reduce_strides(in, out, st);
	int64_t so = rank ? st[rank - 1] : 0;
	for (int64_t base = 0; base < in->n; base += row) {
		for (int64_t j = 0; j < row; j++) {
			double x = get(in, base + j), *a = &acc[o + j * so];
			if (mean) {
				x -= mean[o + j * so];
				x *= x;
			}
			*a = step(op, *a, x);
			if (half)
				*a = ms_half((float)*a);
		}
		for (int i = rank - 2; i >= 0; i--) {
			o += st[i];
			if (++at[i] < in->shape.d[i])
				break;
			o -= st[i] * in->shape.d[i];
			at[i] = 0;
		}
	}
}

static void eval_reduce(const ms_node *n, ms_val **in, ms_val **out)
{
	int op = (int)n->i[0];
	int64_t m = out[0]->n;
	double *acc = malloc((size_t)m * 8), *mean = NULL, count = (double)in[0]->n / (double)m;
	bool half = ms_half_sums(in[0]->dtype);
	for (int64_t j = 0; j < m; j++)
		acc[j] = start(op);
	if (op == VAR) { // biased: mean of squared distances, as PyTorch's LayerNorm uses
		mean = calloc((size_t)m, 8);
		if (n->nin > 1)
			for (int64_t j = 0; j < m; j++)
				mean[j] = in[1]->f[j];
		else
			fold(in[0], out[0], mean, SUM, NULL, half);
		for (int64_t j = 0; j < m && n->nin == 1; j++)
			mean[j] /= count;
	}
	fold(in[0], out[0], acc, op, mean, half);
	for (int64_t j = 0; j < m; j++) {
		double v = op == MEAN || op == VAR ? acc[j] / count : acc[j];
		if (ms_is_float(out[0]->dtype))
			out[0]->f[j] = (float)v;
		else
			out[0]->i[j] = (int64_t)v;
	}
	free(acc);
	free(mean);
}

// reduced_shape: axes NULL reduces all.
static bool reduced_shape(ms_builder *b, const ms_shape *x, id axes, ms_shape *out)
{
	*out = *x;
	if (!axes) {
		for (int i = 0; i < x->rank; i++)
			out->d[i] = 1;
		return true;
	}
	int64_t v[MS_RANK];
	int n = (int)ms_length(axes), seen = 0;
	if (n > x->rank || !ms_ints(b, axes, v, n, "axes")) {
		ms_reject(b, "mpsgraph-shape", "%d axes of a tensor of rank %d", n, x->rank);
		return false;
	}
	for (int i = 0; i < n; i++) {
		int a;
		if (!ms_axis(b, v[i], x->rank, &a))
			return false;
		if (seen >> a & 1)
			ms_reject(b, "mpsgraph-shape", "axis %d twice", a);
		seen |= 1 << a;
		out->d[a] = 1;
	}
	return true;
}

static void reduction(ms_builder *b, int op, const ms_value *x, const ms_shape *s)
{
	bool logical = op == AND || op == OR;
	if (logical != (x->dtype == MS_BOOL))
		ms_reject(b, "mpsgraph-dtype", "reduction of %s", ms_dtype_name(x->dtype));
	if (op == MEAN || op == VAR)
		ms_need_float(b, x);
	b->n->i[0] = op;
	b->n->flops = (double)ms_count_of(&x->shape) * (op == VAR ? 3 : 1);
	ms_output(b, s, x->dtype);
	ms_finish(b, eval_reduce);
}
static int which(const char *sel)
{
	size_t n = strcspn(sel, ":");
	for (int k = 0; k < ARRAY_LEN(reductions); k++)
		if (strlen(reductions[k].stem) == n && !strncmp(reductions[k].stem, sel, n))
			return reductions[k].op;
	abort();
}
IMP(g_reduce_axes)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s;
	reduced_shape(&b, &x->shape, c->a[1].o, &s);
	reduction(&b, which(b.n->op), x, &s);
}
IMP(g_reduce_axis)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int a;
	if (ms_axis(&b, c->a[1].i, s.rank, &a))
		s.d[a] = 1;
	reduction(&b, which(b.n->op), x, &s);
}
IMP(g_mean)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s;
	reduced_shape(&b, &x->shape, c->a[1].o, &s);
	reduction(&b, MEAN, x, &s);
}
IMP(g_variance)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s;
	reduced_shape(&b, &x->shape, c->a[1].o, &s);
	reduction(&b, VAR, x, &s);
}
IMP(g_variance_mean)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *m = ms_input(&b, c->a[1].o);
	ms_shape s;
	reduced_shape(&b, &x->shape, c->a[2].o, &s);
	if (!b.bad && (!ms_same_shape(&m->shape, &s) || m->dtype != x->dtype))
		ms_reject(&b, "mpsgraph-shape", "mean %s %s, want %s %s", ms_dtype_name(m->dtype), ms_shape_text(&m->shape), ms_dtype_name(x->dtype), ms_shape_text(&s));
	reduction(&b, VAR, x, &s);
}

// ---- argmax, argmin: Int32, the first of equals ----
static void split_at(const ms_shape *s, int axis, int64_t *outer, int64_t *n, int64_t *inner)
{
	*outer = *inner = 1;
	*n = s->d[axis];
	for (int i = 0; i < s->rank; i++)
		*(i < axis ? outer : i > axis ? inner : &(int64_t){0}) *= s->d[i];
}
// Which of several equal elements wins is not documented; the first, here.
static void eval_arg(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t outer, k, inner;
	split_at(&in[0]->shape, (int)n->i[1], &outer, &k, &inner);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			int64_t best = 0;
			for (int64_t j = 1; j < k; j++) {
				double x = get(in[0], (o * k + j) * inner + i), y = get(in[0], (o * k + best) * inner + i);
				if (n->i[0] == MAX ? x > y : x < y)
					best = j;
			}
			out[0]->i[o * inner + i] = best;
		}
}
static void arg(ms_call *c, int op)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int a;
	if (ms_axis(&b, c->a[1].i, s.rank, &a))
		s.d[a] = 1;
	b.n->i[0] = op;
	b.n->i[1] = b.bad ? 0 : a;
	ms_output(&b, &s, MS_I32);
	ms_finish(&b, eval_arg);
}
IMP(g_argmax) { arg(c, MAX); }
IMP(g_argmin) { arg(c, MIN); }

// ---- softmax ----
void ms_softmax_rows(float *p, int64_t rows, int64_t n, int64_t stride, bool half)
{
	for (int64_t r = 0; r < rows; r++) {
		float *x = p + r * n * stride; // callers with stride > 1 pass one row at a time
		float max = -INFINITY;
		for (int64_t j = 0; j < n; j++)
			max = x[j * stride] > max ? x[j * stride] : max;
		double sum = 0;
		for (int64_t j = 0; j < n; j++) {
			float e = expf(x[j * stride] - max);
			x[j * stride] = half ? ms_half(e) : e;
			sum += x[j * stride];
			if (half)
				sum = ms_half((float)sum);
		}
		for (int64_t j = 0; j < n; j++)
			x[j * stride] = (float)(x[j * stride] / sum);
	}
}
static void eval_softmax(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t outer, k, inner;
	split_at(&in[0]->shape, (int)n->i[0], &outer, &k, &inner);
	memcpy(out[0]->f, in[0]->f, (size_t)out[0]->n * 4);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++)
			ms_softmax_rows(out[0]->f + o * k * inner + i, 1, k, inner, ms_half_sums(in[0]->dtype));
}
// The maximum is subtracted first: rows of large scores do not overflow.
IMP(g_softmax)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int a;
	ms_need_float(&b, x);
	if (ms_axis(&b, c->a[1].i, x->shape.rank, &a))
		b.n->i[0] = a;
	b.n->flops = 4 * (double)ms_count_of(&x->shape);
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_softmax);
}
// softMaxGradient: y (g - sum(g y)) with y = softmax(source)
static void eval_softmax_grad(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t outer, k, inner;
	split_at(&in[1]->shape, (int)n->i[0], &outer, &k, &inner);
	memcpy(out[0]->f, in[1]->f, (size_t)out[0]->n * 4);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			float *y = out[0]->f + o * k * inner + i;
			const float *g = in[0]->f + o * k * inner + i;
			double dot = 0;
			ms_softmax_rows(y, 1, k, inner, false);
			for (int64_t j = 0; j < k; j++)
				dot += (double)g[j * inner] * y[j * inner];
			for (int64_t j = 0; j < k; j++)
				y[j * inner] = (float)(y[j * inner] * (g[j * inner] - dot));
		}
}
IMP(g_softmax_grad)
{
	ms_builder b = ms_begin(c);
	const ms_value *g = ms_input(&b, c->a[0].o), *x = ms_input(&b, c->a[1].o);
	int a;
	ms_need_float(&b, x);
	ms_same_dtype(&b, g, x);
	if (!ms_same_shape(&g->shape, &x->shape))
		ms_reject(&b, "mpsgraph-shape", "gradient %s of a source %s", ms_shape_text(&g->shape), ms_shape_text(&x->shape));
	if (ms_axis(&b, c->a[2].i, x->shape.rank, &a))
		b.n->i[0] = a;
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_softmax_grad);
}

// ---- cumulative sum ----
// exclusive leaves out the element itself, reverse starts at the end.
static void eval_cumsum(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t outer, k, inner;
	split_at(&in[0]->shape, (int)n->i[0], &outer, &k, &inner);
	bool exclusive = n->i[1], reverse = n->i[2], fl = ms_is_float(in[0]->dtype);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			double sum = 0;
			for (int64_t t = 0; t < k; t++) {
				int64_t at = (o * k + (reverse ? k - 1 - t : t)) * inner + i;
				double next = sum + get(in[0], at), v = exclusive ? sum : next;
				if (fl)
					out[0]->f[at] = (float)v;
				else
					out[0]->i[at] = (int64_t)v;
				sum = next;
			}
		}
}
static void cumsum(ms_call *c, bool exclusive, bool reverse)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int a;
	if (ms_axis(&b, c->a[1].i, x->shape.rank, &a))
		b.n->i[0] = a;
	b.n->i[1] = exclusive;
	b.n->i[2] = reverse;
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_cumsum);
}
IMP(g_cumsum) { cumsum(c, false, false); }
IMP(g_cumsum_flags) { cumsum(c, c->a[2].q, c->a[3].q); }

static const ms_impl impls[] = {
	{"-meanOfTensor:axes:name:", g_mean}, {"-varianceOfTensor:axes:name:", g_variance},
	{"-varianceOfTensor:meanTensor:axes:name:", g_variance_mean}, {"-reductionArgMaximumWithTensor:axis:name:", g_argmax},
	{"-reductionArgMinimumWithTensor:axis:name:", g_argmin}, {"-softMaxWithTensor:axis:name:", g_softmax},
	{"-softMaxGradientWithIncomingGradient:sourceTensor:axis:name:", g_softmax_grad},
	{"-cumulativeSumWithTensor:axis:name:", g_cumsum}, {"-cumulativeSumWithTensor:axis:exclusive:reverse:name:", g_cumsum_flags},
};

void ms_init_reduce(void)
{
	MS_IMPLEMENT("MPSGraph", impls);
	for (int k = 0; k < 2 * ARRAY_LEN(reductions); k++) {
		char sel[160] = "-";
		strcat(strcat(sel, reductions[k / 2].stem), k % 2 ? ":axis:name:" : ":axes:name:");
		ms_impl one = {sel, k % 2 ? g_reduce_axis : g_reduce_axes};
		ms_implement("MPSGraph", &one, 1);
	}
}
