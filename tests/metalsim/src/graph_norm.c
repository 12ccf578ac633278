// SPDX-License-Identifier: Apache-2.0
// normalization: (x - mean) / sqrt(variance + epsilon) * gamma + beta, all broadcast to x,
// and its gradients.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// spread gives the stride of y per dimension of x, 0 where y repeats.
static void spread(const ms_shape *x, const ms_shape *y, int64_t *st)
{
	int64_t ys[MS_RANK];
	ms_strides(y, ys);
	for (int i = 0; i < x->rank; i++) {
		int j = i - (x->rank - y->rank);
		st[i] = j < 0 || y->d[j] == 1 ? 0 : ys[j];
	}
}
static int64_t index_in(const ms_shape *x, const int64_t *st, int64_t k)
{
	int64_t off = 0;
	for (int i = x->rank - 1; i >= 0; i--) {
		off += st[i] * (k % x->d[i]);
		k /= x->d[i];
	}
	return off;
}

// inputs: x, mean, variance, [gamma], [beta]; i[0], i[1]: which are there
static void eval_norm(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_shape *x = &in[0]->shape;
	int64_t sm[MS_RANK], sv[MS_RANK], sg[MS_RANK], sb[MS_RANK];
	const ms_val *g = n->i[0] ? in[3] : NULL, *b = n->i[1] && !ms_faulty("norm") ? in[3 + n->i[0]] : NULL;
	spread(x, &in[1]->shape, sm);
	spread(x, &in[2]->shape, sv);
	if (g)
		spread(x, &g->shape, sg);
	if (b)
		spread(x, &b->shape, sb);
	int64_t row = x->rank ? x->d[x->rank - 1] : 1;
	int l = x->rank - 1;
	for (int64_t k = 0; k < in[0]->n; k += row) {
		int64_t om = index_in(x, sm, k), ov = index_in(x, sv, k), og = g ? index_in(x, sg, k) : 0, ob = b ? index_in(x, sb, k) : 0;
		for (int64_t j = 0; j < row; j++) {
			float r = 1 / sqrtf(in[2]->f[ov + j * sv[l]] + (float)n->f[0]);
			float y = (in[0]->f[k + j] - in[1]->f[om + j * sm[l]]) * r;
			y = g ? y * g->f[og + j * sg[l]] : y;
			out[0]->f[k + j] = b ? y + b->f[ob + j * sb[l]] : y;
		}
	}
}
// gamma and beta "match the input along at least one dimension and broadcast along the rest".
static void fits(ms_builder *b, const ms_value *x, const ms_value *y, const char *what)
{
	ms_shape t;
	ms_same_dtype(b, x, y);
	if (!ms_broadcast(&x->shape, &y->shape, &t) || !ms_same_shape(&t, &x->shape))
		ms_reject(b, "mpsgraph-shape", "%s %s for %s", what, ms_shape_text(&y->shape), ms_shape_text(&x->shape));
}
IMP(g_norm)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	static const char *what[] = {"", "mean", "variance", "gamma", "beta"};
	ms_need_float(&b, x);
	if (x->shape.rank < 1)
		ms_reject(&b, "mpsgraph-shape", "normalization of a scalar");
	for (int i = 1; i < 5; i++)
		if (c->a[i].o) {
			fits(&b, x, ms_input(&b, c->a[i].o), what[i]);
			if (i > 2)
				b.n->i[i - 3] = 1;
		}
	if (!(c->a[5].f > 0))
		ms_reject(&b, "mpsgraph-type", "epsilon %g", (double)c->a[5].f);
	b.n->f[0] = c->a[5].f;
	b.n->flops = 5 * (double)ms_count_of(&x->shape);
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_norm);
}

// ---- gradients; the axes are those of mean and variance ----
// inputs: dy, x, mean, variance
static void eval_gamma_grad(const ms_node *n, ms_val **in, ms_val **out)
{
	const ms_shape *x = &in[1]->shape;
	int64_t sm[MS_RANK], sv[MS_RANK], so[MS_RANK];
	spread(x, &in[2]->shape, sm);
	spread(x, &in[3]->shape, sv);
	spread(x, &out[0]->shape, so);
	double *acc = calloc((size_t)out[0]->n, 8);
	for (int64_t k = 0; k < in[1]->n; k++)
		acc[index_in(x, so, k)] += (double)in[0]->f[k] * (in[1]->f[k] - in[2]->f[index_in(x, sm, k)]) / sqrt(in[3]->f[index_in(x, sv, k)] + n->f[0]);
	for (int64_t k = 0; k < out[0]->n; k++)
		out[0]->f[k] = (float)acc[k];
	free(acc);
}
static void eval_beta_grad(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	const ms_shape *x = &in[1]->shape;
	int64_t so[MS_RANK];
	spread(x, &out[0]->shape, so);
	double *acc = calloc((size_t)out[0]->n, 8);
	for (int64_t k = 0; k < in[1]->n; k++)
		acc[index_in(x, so, k)] += in[0]->f[k];
	for (int64_t k = 0; k < out[0]->n; k++)
		out[0]->f[k] = (float)acc[k];
	free(acc);
}
static void param_grad(ms_call *c, bool gamma)
{
	ms_builder b = ms_begin(c);
	const ms_value *g = ms_input(&b, c->a[0].o), *x = ms_input(&b, c->a[1].o);
	id axes = c->a[gamma ? 4 : 2].o;
	ms_shape s = x->shape;
	int64_t v[MS_RANK];
	int n = (int)ms_length(axes), a;
	ms_need_float(&b, x);
	if (!ms_same_shape(&g->shape, &x->shape))
		ms_reject(&b, "mpsgraph-shape", "gradient %s of %s", ms_shape_text(&g->shape), ms_shape_text(&x->shape));
	if (gamma) {
		fits(&b, x, ms_input(&b, c->a[2].o), "mean");
		fits(&b, x, ms_input(&b, c->a[3].o), "variance");
		b.n->f[0] = c->a[5].f;
	}
	if (n <= MS_RANK && ms_ints(&b, axes, v, n, "axes"))
		for (int i = 0; i < n; i++)
			if (ms_axis(&b, v[i], s.rank, &a))
				s.d[a] = 1;
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, gamma ? eval_gamma_grad : eval_beta_grad);
}
IMP(g_gamma_grad) { param_grad(c, true); }
IMP(g_beta_grad) { param_grad(c, false); }

static const ms_impl impls[] = {
	{"-normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:", g_norm},
	{"-normalizationGammaGradientWithIncomingGradientTensor:sourceTensor:meanTensor:varianceTensor:reductionAxes:epsilon:name:", g_gamma_grad},
	{"-normalizationBetaGradientWithIncomingGradientTensor:sourceTensor:reductionAxes:name:", g_beta_grad},
};
void ms_init_norm(void) { MS_IMPLEMENT("MPSGraph", impls); }
