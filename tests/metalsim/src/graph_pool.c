// SPDX-License-Identifier: Apache-2.0
// 2-D max and average pooling, their gradients, and max pooling with indices.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NCHW, NHWC };
enum { EXPLICIT, TF_VALID, TF_SAME };
typedef struct {
	int64_t n, c, h, w, oh, ow, kh, kw, sx, sy, dx, dy, left, right, top, bottom;
	int layout;
	bool max, count_pad;
	int64_t indices; // MPSGraphPoolingReturnIndicesMode
} pool;

static int64_t size(int64_t in, int64_t a, int64_t b, int64_t k, int64_t s, int64_t d, bool ceil)
{
	int64_t span = in + a + b - (d * (k - 1) + 1);
	if (span < 0)
		return 0;
	int64_t n = (span + (ceil ? s - 1 : 0)) / s + 1;
	return ceil && (n - 1) * s >= in + a ? n - 1 : n; // a window must start inside the source
}
// Two spatial dimensions, symmetric or explicit padding, ceil or floor of the last window.
static bool read_pool(ms_builder *b, id d, const ms_shape *x, bool max, pool *p)
{
	*p = (pool){.kh = ms_property(d, "kernelHeight"), .kw = ms_property(d, "kernelWidth"), .sx = ms_property(d, "strideInX"),
		    .sy = ms_property(d, "strideInY"), .dx = ms_property(d, "dilationRateInX"), .dy = ms_property(d, "dilationRateInY"),
		    .left = ms_property(d, "paddingLeft"), .right = ms_property(d, "paddingRight"), .top = ms_property(d, "paddingTop"),
		    .bottom = ms_property(d, "paddingBottom"), .layout = (int)ms_property(d, "dataLayout"), .max = max,
		    .count_pad = ms_property(d, "includeZeroPadToAverage"), .indices = ms_property(d, "returnIndicesMode")};
	bool ceil = ms_property(d, "ceilMode");
	if (x->rank != 4 || (p->layout != NCHW && p->layout != NHWC) || p->kh < 1 || p->kw < 1 || p->sx < 1 || p->sy < 1 || p->dx < 1 || p->dy < 1) {
		ms_reject(b, "mpsgraph-shape", "pooling of %s, kernel %lldx%lld, layout %d", ms_shape_text(x), (long long)p->kh, (long long)p->kw, p->layout);
		return false;
	}
	bool f = p->layout == NCHW;
	p->n = x->d[0];
	p->c = x->d[f ? 1 : 3];
	p->h = x->d[f ? 2 : 1];
	p->w = x->d[f ? 3 : 2];
	int64_t style = ms_property(d, "paddingStyle");
	if (style == TF_VALID) {
		p->left = p->right = p->top = p->bottom = 0;
	} else if (style == TF_SAME) {
		int64_t tw = ((p->w + p->sx - 1) / p->sx - 1) * p->sx + p->dx * (p->kw - 1) + 1 - p->w, th = ((p->h + p->sy - 1) / p->sy - 1) * p->sy + p->dy * (p->kh - 1) + 1 - p->h;
		tw = tw < 0 ? 0 : tw;
		th = th < 0 ? 0 : th;
		p->left = tw / 2;
		p->right = tw - p->left;
		p->top = th / 2;
		p->bottom = th - p->top;
	} else if (style != EXPLICIT) {
		ms_reject(b, "not-implemented", "padding style %lld", (long long)style);
	}
	p->oh = size(p->h, p->top, p->bottom, p->kh, p->sy, p->dy, ceil);
	p->ow = size(p->w, p->left, p->right, p->kw, p->sx, p->dx, ceil);
	if (p->oh < 1 || p->ow < 1)
		ms_reject(b, "mpsgraph-shape", "window %lldx%lld on %s", (long long)p->kh, (long long)p->kw, ms_shape_text(x));
	b->n->list = malloc(sizeof *p);
	memcpy(b->n->list, p, sizeof *p);
	b->n->flops = (double)(p->n * p->c * p->oh * p->ow * p->kh * p->kw);
	return !b->bad;
}
static int64_t at(const pool *p, int64_t h, int64_t w, int64_t n, int64_t c, int64_t y, int64_t x)
{
	return p->layout == NCHW ? ((n * p->c + c) * h + y) * w + x : ((n * h + y) * w + x) * p->c + c;
}
static ms_shape result(const pool *p)
{
	return p->layout == NCHW ? (ms_shape){4, {p->n, p->c, p->oh, p->ow}} : (ms_shape){4, {p->n, p->oh, p->ow, p->c}};
}

// window visits the source pixels of one result pixel; returns how many, and the best.
typedef struct { int64_t count, covered, best; double sum, max; } seen;
static seen window(const pool *p, const float *x, int64_t n, int64_t c, int64_t oy, int64_t ox)
{
	seen s = {.best = -1, .max = -INFINITY};
	for (int64_t t = 0; t < p->kh * p->kw; t++) {
		int64_t yy = oy * p->sy - p->top + t / p->kw * p->dy, xx = ox * p->sx - p->left + t % p->kw * p->dx;
		// Padding counts for the average when asked, but never what lies beyond it.
		s.covered += yy < p->h + p->bottom && xx < p->w + p->right;
		if (yy < 0 || yy >= p->h || xx < 0 || xx >= p->w)
			continue;
		int64_t i = at(p, p->h, p->w, n, c, yy, xx);
		s.count++;
		s.sum += x[i];
		if (s.best < 0 || x[i] > s.max) {
			s.max = x[i];
			s.best = yy * p->w + xx;
		}
	}
	return s;
}
#define EACH(p, n, c, y, x) \
	for (int64_t n = 0; n < (p)->n; n++) for (int64_t c = 0; c < (p)->c; c++) \
		for (int64_t y = 0; y < (p)->oh; y++) for (int64_t x = 0; x < (p)->ow; x++)

static double divisor(const pool *p, const seen *s) { return (double)(p->count_pad ? s->covered : s->count); }

static void eval_pool(const ms_node *node, ms_val **in, ms_val **out)
{
	const pool *p = (const pool *)node->list;
	EACH(p, n, c, y, x) {
		seen s = window(p, in[0]->f, n, c, y, x);
		int64_t o = at(p, p->oh, p->ow, n, c, y, x);
		out[0]->f[o] = (float)(p->max ? s.max : s.sum / divisor(p, &s));
		if (node->nout > 1)
			out[1]->i[o] = s.best;
	}
}
// inputs: incoming gradient, source. Overlapping windows add up.
static void eval_pool_grad(const ms_node *node, ms_val **in, ms_val **out)
{
	const pool *p = (const pool *)node->list;
	memset(out[0]->f, 0, (size_t)out[0]->n * 4);
	EACH(p, n, c, y, x) {
		seen s = window(p, in[1]->f, n, c, y, x);
		float g = in[0]->f[at(p, p->oh, p->ow, n, c, y, x)];
		if (p->max) {
			if (s.best >= 0)
				out[0]->f[at(p, p->h, p->w, n, c, s.best / p->w, s.best % p->w)] += g;
			continue;
		}
		for (int64_t t = 0; t < p->kh * p->kw; t++) {
			int64_t yy = y * p->sy - p->top + t / p->kw * p->dy, xx = x * p->sx - p->left + t % p->kw * p->dx;
			if (yy >= 0 && yy < p->h && xx >= 0 && xx < p->w)
				out[0]->f[at(p, p->h, p->w, n, c, yy, xx)] += (float)(g / divisor(p, &s));
		}
	}
}
static void forward(ms_call *c, bool max, bool indices)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	uint32_t t = x->dtype;
	pool p = {0};
	ms_need_float(&b, x);
	read_pool(&b, c->a[1].o, &x->shape, max, &p);
	if (indices && p.indices != 2) // GlobalFlatten2D: y * width + x
		ms_reject(&b, "not-implemented", "returnIndicesMode %lld", (long long)p.indices);
	ms_shape s = result(&p);
	ms_output(&b, &s, t);
	if (indices) {
		ms_output(&b, &s, (uint32_t)ms_property(c->a[1].o, "returnIndicesDataType"));
		ms_finish_array(&b, eval_pool);
	} else {
		ms_finish(&b, eval_pool);
	}
}
static void gradient(ms_call *c, bool max)
{
	ms_builder b = ms_begin(c);
	const ms_value *g = ms_input(&b, c->a[0].o), *x = ms_input(&b, c->a[1].o);
	pool p = {0};
	ms_need_float(&b, x);
	ms_same_dtype(&b, g, x);
	if (read_pool(&b, c->a[2].o, &x->shape, max, &p)) {
		ms_shape want = result(&p);
		if (!ms_same_shape(&want, &g->shape))
			ms_reject(&b, "mpsgraph-shape", "gradient %s, want %s", ms_shape_text(&g->shape), ms_shape_text(&want));
	}
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_pool_grad);
}
IMP(g_max) { forward(c, true, false); }
IMP(g_avg) { forward(c, false, false); }
IMP(g_max_indices) { forward(c, true, true); }
IMP(g_max_grad) { gradient(c, true); }
IMP(g_avg_grad) { gradient(c, false); }

static const ms_impl impls[] = {
	{"-maxPooling2DWithSourceTensor:descriptor:name:", g_max}, {"-avgPooling2DWithSourceTensor:descriptor:name:", g_avg},
	{"-maxPooling2DReturnIndicesWithSourceTensor:descriptor:name:", g_max_indices},
	{"-maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", g_max_grad},
	{"-avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", g_avg_grad},
};
void ms_init_pool(void) { MS_IMPLEMENT("MPSGraph", impls); }
