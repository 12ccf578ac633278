// SPDX-License-Identifier: Apache-2.0
// Nearest and bilinear resize and their gradients. The map from a result index to a source
// position: scale = in / out, or (in-1) / (out-1) with alignCorners; centerResult uses pixel
// centres ((i + 0.5) scale - 0.5) and does nothing when corners are aligned.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NCHW, NHWC, CHW = 4, HWC = 5, HW = 6 };
enum { NEAREST, BILINEAR };
enum { PREFER_CEIL, PREFER_FLOOR, CEIL, FLOOR, TO_EVEN, TO_ODD };
// i: 0 outer, 1 h, 2 w, 3 inner (channels behind), 4 oh, 5 ow, 6 mode, 7 rounding, 8 center, 9 align

static double position(const ms_node *n, int64_t i, int64_t in, int64_t out)
{
	if (n->i[9] && !ms_faulty("align_corners"))
		return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
	double scale = (double)in / (double)out;
	return n->i[8] ? ((double)i + 0.5) * scale - 0.5 : (double)i * scale;
}
static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
static int64_t nearest(const ms_node *n, double p)
{
	switch (n->i[7]) {
	case PREFER_FLOOR: return (int64_t)ceil(p - 0.5);
	case CEIL: return (int64_t)ceil(p);
	case FLOOR: return (int64_t)floor(p);
	case TO_EVEN: return (int64_t)rint(p);
	case TO_ODD: {
		double f = floor(p);
		return p - f == 0.5 ? (int64_t)(fmod(f, 2) != 0 ? f : f + 1) : (int64_t)rint(p);
	}
	}
	return (int64_t)floor(p + 0.5);
}

// taps of one axis: two source indices and the weight of the second.
typedef struct { int64_t a, b; float w; } tap;
static tap *taps(const ms_node *n, int64_t in, int64_t out)
{
	tap *t = malloc((size_t)out * sizeof *t);
	for (int64_t i = 0; i < out; i++) {
		double p = position(n, i, in, out);
		if (n->i[6] == NEAREST) {
			t[i].a = t[i].b = clamp(nearest(n, p), in);
			t[i].w = 0;
		} else {
			p = p < 0 ? 0 : p > (double)(in - 1) ? (double)(in - 1) : p;
			t[i].a = (int64_t)p;
			t[i].b = clamp(t[i].a + 1, in);
			t[i].w = (float)(p - (double)t[i].a);
		}
	}
	return t;
}
static void eval_resize(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t h = n->i[1], w = n->i[2], c = n->i[3], oh = n->i[4], ow = n->i[5];
	tap *ty = taps(n, h, oh), *tx = taps(n, w, ow);
	float *o = out[0]->f;
	for (int64_t b = 0; b < n->i[0]; b++)
		for (int64_t y = 0; y < oh; y++)
			for (int64_t x = 0; x < ow; x++, o += c) {
				const float *r0 = in[0]->f + (b * h + ty[y].a) * w * c, *r1 = in[0]->f + (b * h + ty[y].b) * w * c;
				const float *p00 = r0 + tx[x].a * c, *p01 = r0 + tx[x].b * c, *p10 = r1 + tx[x].a * c, *p11 = r1 + tx[x].b * c;
				float wx = tx[x].w, wy = ty[y].w;
				for (int64_t k = 0; k < c; k++) {
					float top = p00[k] * (1 - wx) + p01[k] * wx, bottom = p10[k] * (1 - wx) + p11[k] * wx;
					o[k] = top * (1 - wy) + bottom * wy;
				}
			}
	free(ty);
	free(tx);
}
static void eval_nearest(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t h = n->i[1], w = n->i[2], size = n->i[3] * (ms_is_float(out[0]->dtype) ? 4 : 8), oh = n->i[4], ow = n->i[5];
	tap *ty = taps(n, h, oh), *tx = taps(n, w, ow);
	char *o = out[0]->p;
	for (int64_t b = 0; b < n->i[0]; b++)
		for (int64_t y = 0; y < oh; y++)
			for (int64_t x = 0; x < ow; x++, o += size)
				memcpy(o, (char *)in[0]->p + ((b * h + ty[y].a) * w + tx[x].a) * size, (size_t)size);
	free(ty);
	free(tx);
}
// gradient: every result pixel gives its share back to its taps.
static void eval_resize_grad(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t h = n->i[1], w = n->i[2], c = n->i[3], oh = n->i[4], ow = n->i[5];
	tap *ty = taps(n, h, oh), *tx = taps(n, w, ow);
	const float *g = in[0]->f;
	memset(out[0]->f, 0, (size_t)out[0]->n * 4);
	for (int64_t b = 0; b < n->i[0]; b++)
		for (int64_t y = 0; y < oh; y++)
			for (int64_t x = 0; x < ow; x++, g += c)
				for (int64_t k = 0; k < c; k++)
					for (int q = 0; q < 4; q++) {
						int64_t yy = q & 2 ? ty[y].b : ty[y].a, xx = q & 1 ? tx[x].b : tx[x].a;
						float wy = q & 2 ? ty[y].w : 1 - ty[y].w, wx = q & 1 ? tx[x].w : 1 - tx[x].w;
						out[0]->f[((b * h + yy) * w + xx) * c + k] += g[k] * wy * wx;
					}
	free(ty);
	free(tx);
}

// axes finds height and width; layout -1: the last but two and last but one (NHWC).
static bool axes(ms_builder *b, int64_t layout, const ms_shape *s, int *h)
{
	int want = layout == NCHW || layout == NHWC ? 4 : layout == HW ? 2 : 3;
	*h = layout == NCHW ? 2 : layout == NHWC ? 1 : layout == CHW ? 1 : 0;
	if (layout != NCHW && layout != NHWC && layout != CHW && layout != HWC && layout != HW)
		ms_reject(b, "mpsgraph-type", "resize of layout %lld", (long long)layout);
	else if (s->rank != want)
		ms_reject(b, "mpsgraph-shape", "resize of %s in layout %lld", ms_shape_text(s), (long long)layout);
	return !b->bad;
}
static void geometry(ms_node *n, const ms_shape *big, int h, int64_t oh, int64_t ow, int64_t mode, int64_t rounding, uint64_t center, uint64_t align)
{
	int64_t outer = 1, inner = 1;
	for (int i = 0; i < big->rank; i++)
		*(i < h ? &outer : i > h + 1 ? &inner : &(int64_t){0}) *= big->d[i];
	int64_t v[] = {outer, big->d[h], big->d[h + 1], inner, oh, ow, mode, rounding, (int64_t)center, (int64_t)align};
	memcpy(n->i, v, sizeof v);
}
static void resize(ms_builder *b, const ms_value *x, const int64_t *size, int n, int64_t mode, int64_t rounding, uint64_t center, uint64_t align, int64_t layout)
{
	ms_shape s = x->shape;
	int h;
	if (mode != NEAREST && mode != BILINEAR)
		ms_reject(b, "mpsgraph-type", "resize mode %lld", (long long)mode);
	if (mode == BILINEAR)
		ms_need_float(b, x);
	if (n != 2)
		ms_reject(b, "mpsgraph-shape", "size of %d numbers, want [height, width]", n);
	if (!b->bad && axes(b, layout, &s, &h)) {
		s.d[h] = size[0];
		s.d[h + 1] = size[1];
		geometry(b->n, &x->shape, h, size[0], size[1], mode, rounding, center, align);
		b->n->flops = 8 * (double)ms_count_of(&s);
	}
	ms_output(b, &s, x->dtype);
	ms_finish(b, mode == BILINEAR ? eval_resize : eval_nearest);
}
IMP(g_resize)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t size[2] = {0};
	int n = ms_ints(&b, c->a[1].o, size, 2, "size") ? 2 : 0;
	resize(&b, x, size, n, c->a[2].i, PREFER_CEIL, c->a[3].q, c->a[4].q, c->a[5].i);
}
static void resize_tensor(ms_call *c, int64_t mode, int64_t rounding, int at)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int n = 0;
	const int64_t *size = ms_constant_ints(&b, c->a[1].o, &n);
	resize(&b, x, size, n, mode, rounding, c->a[at].q, c->a[at + 1].q, c->a[at + 2].i);
}
IMP(g_resize_tensor) { resize_tensor(c, c->a[2].i, PREFER_CEIL, 3); }
IMP(g_nearest) { resize_tensor(c, NEAREST, c->a[2].i, 3); }
IMP(g_bilinear) { resize_tensor(c, BILINEAR, 0, 2); }

static void resize_grad(ms_call *c, int64_t mode, int64_t rounding, int at)
{
	ms_builder b = ms_begin(c);
	const ms_value *g = ms_input(&b, c->a[0].o), *x = ms_input(&b, c->a[1].o);
	int h;
	ms_need_float(&b, x);
	ms_same_dtype(&b, g, x);
	if (axes(&b, c->a[at + 2].i, &x->shape, &h)) {
		ms_shape s = x->shape;
		s.d[h] = g->shape.d[h];
		s.d[h + 1] = g->shape.d[h + 1];
		if (!ms_same_shape(&s, &g->shape))
			ms_reject(&b, "mpsgraph-shape", "gradient %s of %s", ms_shape_text(&g->shape), ms_shape_text(&x->shape));
		geometry(b.n, &x->shape, h, s.d[h], s.d[h + 1], mode, rounding, c->a[at].q, c->a[at + 1].q);
	}
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_resize_grad);
}
IMP(g_resize_grad) { resize_grad(c, c->a[2].i, PREFER_CEIL, 3); }
IMP(g_nearest_grad) { resize_grad(c, NEAREST, c->a[2].i, 3); }
IMP(g_bilinear_grad) { resize_grad(c, BILINEAR, 0, 2); }

static const ms_impl impls[] = {
	{"-resizeTensor:size:mode:centerResult:alignCorners:layout:name:", g_resize},
	{"-resizeTensor:sizeTensor:mode:centerResult:alignCorners:layout:name:", g_resize_tensor},
	{"-resizeNearestWithTensor:sizeTensor:nearestRoundingMode:centerResult:alignCorners:layout:name:", g_nearest},
	{"-resizeBilinearWithTensor:sizeTensor:centerResult:alignCorners:layout:name:", g_bilinear},
	{"-resizeWithGradientTensor:input:mode:centerResult:alignCorners:layout:name:", g_resize_grad},
	{"-resizeNearestWithGradientTensor:input:nearestRoundingMode:centerResult:alignCorners:layout:name:", g_nearest_grad},
	{"-resizeBilinearWithGradientTensor:input:centerResult:alignCorners:layout:name:", g_bilinear_grad},
};
void ms_init_resize(void) { MS_IMPLEMENT("MPSGraph", impls); }
