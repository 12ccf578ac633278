// SPDX-License-Identifier: Apache-2.0
// 2-D convolution, its gradients, transposed convolution: patches (im2col) times weights.
#include "graph.h"
#include <stdlib.h>
#include <string.h>

enum { NCHW, NHWC, OIHW, HWIO };
enum { EXPLICIT, TF_VALID, TF_SAME, EXPLICIT_OFFSET, ONNX_SAME_LOWER };

// geometry of one forward convolution; every variant is expressed by it.
typedef struct {
	int64_t n, c, h, w;  // source: batch, channels, size
	int64_t o, oh, ow;   // result
	int64_t kh, kw, groups;
	int64_t sx, sy, dx, dy, left, right, top, bottom;
	int data, weights; // layouts
} conv;

static int64_t out_size(int64_t in, int64_t before, int64_t after, int64_t k, int64_t stride, int64_t dil)
{
	int64_t span = in + before + after - (dil * (k - 1) + 1);
	return span < 0 ? 0 : span / stride + 1;
}
// TF_SAME: as many results as ceil(in / stride), the odd padding element behind (or before,
// for ONNX_SAME_LOWER).
static void same(int64_t in, int64_t k, int64_t s, int64_t d, bool lower, int64_t *a, int64_t *b)
{
	int64_t out = (in + s - 1) / s, total = (out - 1) * s + d * (k - 1) + 1 - in;
	total = total < 0 ? 0 : total;
	*a = lower ? total - total / 2 : total / 2;
	*b = total - *a;
}

static void data_dims(int layout, const ms_shape *s, int64_t *n, int64_t *c, int64_t *h, int64_t *w)
{
	*n = s->d[0];
	*c = s->d[layout == NCHW ? 1 : 3];
	*h = s->d[layout == NCHW ? 2 : 1];
	*w = s->d[layout == NCHW ? 3 : 2];
}
static ms_shape data_shape(int layout, int64_t n, int64_t c, int64_t h, int64_t w)
{
	return layout == NCHW ? (ms_shape){4, {n, c, h, w}} : (ms_shape){4, {n, h, w, c}};
}

// read_conv takes the descriptor, the forward source's shape and the weights' shape.
static bool read_conv(ms_builder *b, id d, const ms_shape *src, const ms_shape *wt, conv *v)
{
	*v = (conv){.groups = ms_property(d, "groups"), .sx = ms_property(d, "strideInX"), .sy = ms_property(d, "strideInY"),
		    .dx = ms_property(d, "dilationRateInX"), .dy = ms_property(d, "dilationRateInY"), .data = (int)ms_property(d, "dataLayout"),
		    .weights = (int)ms_property(d, "weightsLayout"), .left = ms_property(d, "paddingLeft"), .right = ms_property(d, "paddingRight"),
		    .top = ms_property(d, "paddingTop"), .bottom = ms_property(d, "paddingBottom")};
	if (src->rank != 4 || wt->rank != 4) {
		ms_reject(b, "mpsgraph-shape", "source %s and weights %s: rank 4 is wanted", ms_shape_text(src), ms_shape_text(wt));
		return false;
	}
	if ((v->data != NCHW && v->data != NHWC) || (v->weights != OIHW && v->weights != HWIO)) {
		ms_reject(b, "mpsgraph-type", "data layout %d, weights layout %d", v->data, v->weights);
		return false;
	}
	if (v->groups < 1 || v->sx < 1 || v->sy < 1 || v->dx < 1 || v->dy < 1) {
		ms_reject(b, "mpsgraph-type", "groups, strides and dilation rates are at least 1");
		return false;
	}
	data_dims(v->data, src, &v->n, &v->c, &v->h, &v->w);
	bool oihw = v->weights == OIHW;
	int64_t in = wt->d[oihw ? 1 : 2];
	v->o = wt->d[oihw ? 0 : 3];
	v->kh = wt->d[oihw ? 2 : 0];
	v->kw = wt->d[oihw ? 3 : 1];
	if (in * v->groups != v->c || v->o % v->groups)
		ms_reject(b, "mpsgraph-shape", "source %s, weights %s, %lld groups", ms_shape_text(src), ms_shape_text(wt), (long long)v->groups);
	// descriptor paddings count with the explicit style only
	switch (ms_property(d, "paddingStyle")) {
	case EXPLICIT:
		break;
	case TF_VALID:
		v->left = v->right = v->top = v->bottom = 0;
		break;
	case TF_SAME:
	case ONNX_SAME_LOWER: {
		bool lower = ms_property(d, "paddingStyle") == ONNX_SAME_LOWER;
		same(v->w, v->kw, v->sx, v->dx, lower, &v->left, &v->right);
		same(v->h, v->kh, v->sy, v->dy, lower, &v->top, &v->bottom);
		break;
	}
	default:
		ms_reject(b, "not-implemented", "padding style %lld", (long long)ms_property(d, "paddingStyle"));
	}
	v->oh = out_size(v->h, v->top, v->bottom, v->kh, v->sy, v->dy);
	v->ow = out_size(v->w, v->left, v->right, v->kw, v->sx, v->dx);
	if (v->oh < 1 || v->ow < 1)
		ms_reject(b, "mpsgraph-shape", "kernel %lldx%lld is larger than the padded source %s", (long long)v->kh, (long long)v->kw, ms_shape_text(src));
	b->n->list = malloc(sizeof *v);
	memcpy(b->n->list, v, sizeof *v);
	b->n->flops = 2.0 * (double)(v->n * v->oh * v->ow * v->o) * (double)(v->kh * v->kw * (v->c / v->groups));
	return !b->bad;
}

// ---- loops ----
static int64_t at(const conv *v, int64_t c, int64_t h, int64_t w, int64_t n, int64_t ch, int64_t y, int64_t x)
{
	return v->data == NCHW ? ((n * c + ch) * h + y) * w + x : ((n * h + y) * w + x) * c + ch;
}
// weight_matrix: [groups][kh*kw*cg][og] in a fixed order, whatever the layout.
static int64_t weight_at(const conv *v, int64_t o, int64_t i, int64_t y, int64_t x)
{
	int64_t cg = v->c / v->groups;
	return v->weights == OIHW ? ((o * cg + i) * v->kh + y) * v->kw + x : ((y * v->kw + x) * cg + i) * v->o + o;
}
static float *weight_matrix(const conv *v, const float *w, int64_t g, bool transposed)
{
	int64_t cg = v->c / v->groups, og = v->o / v->groups, k = v->kh * v->kw * cg;
	float *m = malloc((size_t)(k * og) * 4);
	for (int64_t y = 0; y < v->kh; y++)
		for (int64_t x = 0; x < v->kw; x++)
			for (int64_t i = 0; i < cg; i++)
				for (int64_t o = 0; o < og; o++) {
					int64_t r = (y * v->kw + x) * cg + i;
					m[transposed ? o * k + r : r * og + o] = w[weight_at(v, g * og + o, i, y, x)];
				}
	return m;
}
// patches fills rows p0..p1 (pixels of the result) of [pixels][kh*kw*cg] for image n, group g.
// Outside the source lies zero.
static void patches(const conv *v, const float *src, int64_t n, int64_t g, int64_t p0, int64_t p1, float *m)
{
	int64_t cg = v->c / v->groups;
	for (int64_t p = p0; p < p1; p++)
		for (int64_t ky = 0; ky < v->kh; ky++)
			for (int64_t kx = 0; kx < v->kw; kx++, m += cg) {
				int64_t y = p / v->ow * v->sy - v->top + ky * v->dy, x = p % v->ow * v->sx - v->left + kx * v->dx;
				if (y < 0 || y >= v->h || x < 0 || x >= v->w)
					memset(m, 0, (size_t)cg * 4);
				else if (v->data == NHWC)
					memcpy(m, src + at(v, v->c, v->h, v->w, n, g * cg, y, x), (size_t)cg * 4);
				else
					for (int64_t i = 0; i < cg; i++)
						m[i] = src[at(v, v->c, v->h, v->w, n, g * cg + i, y, x)];
			}
}
#define CHUNK 256

static void eval_conv(const ms_node *node, ms_val **in, ms_val **out)
{
	const conv *v = (const conv *)node->list;
	int64_t cg = v->c / v->groups, og = v->o / v->groups, k = v->kh * v->kw * cg, pixels = v->oh * v->ow;
	float *m = malloc((size_t)(CHUNK * k) * 4), *r = malloc((size_t)(CHUNK * og) * 4);
	// Reported: in float32, one group a channel, pictures after the first (PyTorch issue 188335).
	bool first = ms_faulty("grouped") && cg == 1 && v->groups > 1 && out[0]->dtype == MS_F32;
	for (int64_t g = 0; g < v->groups; g++) {
		float *w = weight_matrix(v, in[1]->f, g, false);
		for (int64_t n = 0; n < v->n; n++)
			for (int64_t p = 0; p < pixels; p += CHUNK) {
				int64_t end = p + CHUNK < pixels ? p + CHUNK : pixels;
				patches(v, in[0]->f, first ? 0 : n, g, p, end, m);
				ms_gemm(m, k, w, og, r, og, end - p, og, k, ms_half_sums(out[0]->dtype));
				for (int64_t q = p; q < end; q++)
					for (int64_t o = 0; o < og; o++)
						out[0]->f[at(v, v->o, v->oh, v->ow, n, g * og + o, q / v->ow, q % v->ow)] = r[(q - p) * og + o];
			}
		free(w);
	}
	free(m);
	free(r);
}

// data gradient: spread each pixel of the incoming gradient through the weights.
static void eval_data_grad(const ms_node *node, ms_val **in, ms_val **out)
{
	const conv *v = (const conv *)node->list;
	int64_t cg = v->c / v->groups, og = v->o / v->groups, k = v->kh * v->kw * cg, pixels = v->oh * v->ow;
	float *dy = malloc((size_t)(CHUNK * og) * 4), *r = malloc((size_t)(CHUNK * k) * 4);
	memset(out[0]->f, 0, (size_t)out[0]->n * 4);
	for (int64_t g = 0; g < v->groups; g++) {
		float *w = weight_matrix(v, in[1]->f, g, true);
		for (int64_t n = 0; n < v->n; n++)
			for (int64_t p = 0; p < pixels; p += CHUNK) {
				int64_t end = p + CHUNK < pixels ? p + CHUNK : pixels;
				for (int64_t q = p; q < end; q++)
					for (int64_t o = 0; o < og; o++)
						dy[(q - p) * og + o] = in[0]->f[at(v, v->o, v->oh, v->ow, n, g * og + o, q / v->ow, q % v->ow)];
				ms_gemm(dy, og, w, k, r, k, end - p, k, og, ms_half_sums(out[0]->dtype));
				for (int64_t q = p; q < end; q++)
					for (int64_t t = 0; t < v->kh * v->kw; t++) {
						int64_t y = q / v->ow * v->sy - v->top + t / v->kw * v->dy, x = q % v->ow * v->sx - v->left + t % v->kw * v->dx;
						if (y < 0 || y >= v->h || x < 0 || x >= v->w)
							continue;
						for (int64_t i = 0; i < cg; i++)
							out[0]->f[at(v, v->c, v->h, v->w, n, g * cg + i, y, x)] += r[(q - p) * k + t * cg + i];
					}
			}
		free(w);
	}
	free(dy);
	free(r);
}

// weights gradient: patches transposed times the incoming gradient, summed in double.
static void eval_weights_grad(const ms_node *node, ms_val **in, ms_val **out)
{
	const conv *v = (const conv *)node->list;
	int64_t cg = v->c / v->groups, og = v->o / v->groups, k = v->kh * v->kw * cg, pixels = v->oh * v->ow;
	float *m = malloc((size_t)(CHUNK * k) * 4);
	for (int64_t g = 0; g < v->groups; g++) {
		double *acc = calloc((size_t)(k * og), 8);
		for (int64_t n = 0; n < v->n; n++)
			for (int64_t p = 0; p < pixels; p += CHUNK) {
				int64_t end = p + CHUNK < pixels ? p + CHUNK : pixels;
				patches(v, in[1]->f, n, g, p, end, m);
				for (int64_t q = p; q < end; q++)
					for (int64_t o = 0; o < og; o++) {
						float dy = in[0]->f[at(v, v->o, v->oh, v->ow, n, g * og + o, q / v->ow, q % v->ow)];
						for (int64_t j = 0; j < k; j++)
							acc[o * k + j] += (double)m[(q - p) * k + j] * dy;
					}
			}
		for (int64_t o = 0; o < og; o++)
			for (int64_t j = 0; j < k; j++)
				out[0]->f[weight_at(v, g * og + o, j % cg, j / cg / v->kw, j / cg % v->kw)] = (float)acc[o * k + j];
		free(acc);
	}
	free(m);
}

// ---- messages ----
IMP(g_conv)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *w = ms_input(&b, c->a[1].o);
	conv v = {0};
	ms_need_float(&b, x);
	ms_same_dtype(&b, x, w);
	read_conv(&b, c->a[2].o, &x->shape, &w->shape, &v);
	if (v.o > 65536 && ms_cfg.os < 150100)
		ms_reject(&b, "mpsgraph-limit", "%lld output channels are wrong before macOS 15.1", (long long)v.o);
	ms_shape s = data_shape(v.data, v.n, v.o, v.oh, v.ow);
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_conv);
}

// gradient: dy must have the shape that the forward convolution gives.
static void check_dy(ms_builder *b, const conv *v, const ms_value *dy)
{
	ms_shape want = data_shape(v->data, v->n, v->o, v->oh, v->ow);
	if (!b->bad && !ms_same_shape(&want, &dy->shape))
		ms_reject(b, "mpsgraph-shape", "%s where the convolution of outputShape gives %s", ms_shape_text(&dy->shape), ms_shape_text(&want));
}
// The transposed convolution is the data gradient of the forward one: its weights' O are the
// channels of its source. outputShape decides among the sizes that stride leaves open.
IMP(g_data_grad)
{
	ms_builder b = ms_begin(c);
	const ms_value *dy = ms_input(&b, c->a[0].o), *w = ms_input(&b, c->a[1].o);
	ms_shape s = {0};
	conv v = {0};
	ms_need_float(&b, dy);
	ms_same_dtype(&b, dy, w);
	if (!ms_shape_from(c->a[2].o, &s))
		ms_reject(&b, "mpsgraph-shape", "outputShape must be integers");
	else if (read_conv(&b, c->a[3].o, &s, &w->shape, &v))
		check_dy(&b, &v, dy);
	ms_output(&b, &s, dy->dtype);
	ms_finish(&b, eval_data_grad);
}
// outputShape is the shape of the weights, in the descriptor's weightsLayout.
IMP(g_weights_grad)
{
	ms_builder b = ms_begin(c);
	const ms_value *dy = ms_input(&b, c->a[0].o), *x = ms_input(&b, c->a[1].o);
	ms_shape s = {0};
	conv v = {0};
	ms_need_float(&b, x);
	ms_same_dtype(&b, dy, x);
	if (!ms_shape_from(c->a[2].o, &s))
		ms_reject(&b, "mpsgraph-shape", "outputShape must be integers");
	else if (read_conv(&b, c->a[3].o, &x->shape, &s, &v))
		check_dy(&b, &v, dy);
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_weights_grad);
}

static const ms_impl impls[] = {
	{"-convolution2DWithSourceTensor:weightsTensor:descriptor:name:", g_conv},
	{"-convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name:", g_data_grad},
	{"-convolution2DDataGradientWithIncomingGradientTensor:weightsTensor:outputShape:forwardConvolutionDescriptor:name:", g_data_grad},
	{"-convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:forwardConvolutionDescriptor:name:", g_weights_grad},
};
void ms_init_conv(void) { MS_IMPLEMENT("MPSGraph", impls); }
