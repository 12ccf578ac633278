// SPDX-License-Identifier: Apache-2.0
// Ops that move elements: reshape, transpose, broadcast, concat, stack, pad, tile, reverse,
// depth to space. Elements are moved as 4-byte floats or 8-byte integers.
#include "graph.h"
#include <stdlib.h>
#include <string.h>

// gather_strided fills out in order from in, whose dimension i of out has stride st[i].
static void gather_strided(const ms_val *in, const int64_t *st, int64_t start, ms_val *out)
{
	int rank = out->shape.rank;
	int64_t at[MS_RANK] = {0}, row = rank ? out->shape.d[rank - 1] : 1, s = rank ? st[rank - 1] : 0, from = start;
	bool fl = ms_is_float(out->dtype);
	for (int64_t base = 0; base < out->n; base += row) {
		if (fl && s == 1)
			memcpy(out->f + base, in->f + from, (size_t)row * 4);
		else if (fl)
			for (int64_t j = 0; j < row; j++)
				out->f[base + j] = in->f[from + j * s];
		else
			for (int64_t j = 0; j < row; j++)
				out->i[base + j] = in->i[from + j * s];
		for (int i = rank - 2; i >= 0; i--) {
			from += st[i];
			if (++at[i] < out->shape.d[i])
				break;
			from -= st[i] * out->shape.d[i];
			at[i] = 0;
		}
	}
}

// ---- reshape, expandDims, squeeze, flatten: the same elements ----
static void eval_view(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	out[0]->buf = ms_buf_retain(in[0]->buf);
	out[0]->p = in[0]->p;
}
static void view(ms_builder *b, const ms_value *x, const ms_shape *s)
{
	b->n->view = true;
	ms_output(b, s, x->dtype);
	ms_finish(b, eval_view);
}
// One -1 stands for what is left over.
static void reshape(ms_builder *b, const ms_value *x, ms_shape s)
{
	int unknown = -1;
	int64_t known = 1, n = ms_count_of(&x->shape);
	for (int i = 0; i < s.rank; i++) {
		if (s.d[i] == -1 && unknown < 0)
			unknown = i;
		else if (s.d[i] <= 0)
			ms_reject(b, "mpsgraph-shape", "reshape to %s: one -1 is allowed", ms_shape_text(&s));
		else
			known *= s.d[i];
	}
	if (unknown >= 0)
		s.d[unknown] = n / known;
	if (!b->bad && ms_count_of(&s) != n)
		ms_reject(b, "mpsgraph-shape", "reshape %s to %s", ms_shape_text(&x->shape), ms_shape_text(&s));
	view(b, x, &s);
}
IMP(g_reshape)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = {0};
	if (!ms_shape_from(c->a[1].o, &s))
		ms_reject(&b, "mpsgraph-shape", "shape must be integers, at most 16");
	reshape(&b, x, s);
}
IMP(g_flatten)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = {2, {1, 1}};
	int64_t a = c->a[1].i < 0 ? c->a[1].i + x->shape.rank : c->a[1].i;
	if (a < 0 || a > x->shape.rank)
		ms_reject(&b, "mpsgraph-shape", "flatten2D at axis %lld", (long long)a);
	for (int i = 0; i < x->shape.rank; i++)
		s.d[i >= a] *= x->shape.d[i];
	view(&b, x, &s);
}
static void expand(ms_builder *b, const ms_value *x, const int64_t *axes, int n)
{
	ms_shape s = {.rank = x->shape.rank + n};
	if (s.rank > MS_RANK) {
		ms_reject(b, "mpsgraph-shape", "rank %d", s.rank);
		s.rank = 0;
	}
	for (int k = 0; k < n; k++) {
		int a;
		if (!ms_axis(b, axes[k], s.rank, &a))
			break;
		if (s.d[a])
			ms_reject(b, "mpsgraph-shape", "axis %d twice", a);
		s.d[a] = 1;
	}
	for (int i = 0, j = 0; i < s.rank && !b->bad; i++)
		if (!s.d[i])
			s.d[i] = x->shape.d[j++];
	view(b, x, &s);
}
IMP(g_expand)
{
	ms_builder b = ms_begin(c);
	expand(&b, ms_input(&b, c->a[0].o), &c->a[1].i, 1);
}
IMP(g_expand_axes)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t v[MS_RANK];
	int n = (int)ms_length(c->a[1].o);
	if (n > MS_RANK || !ms_ints(&b, c->a[1].o, v, n, "axes"))
		n = 0;
	expand(&b, x, v, n);
}
// Only dimensions of size 1 may go; without axes all of them do.
static void squeeze(ms_builder *b, const ms_value *x, const int64_t *axes, int n)
{
	ms_shape s = {0};
	bool drop[MS_RANK] = {false};
	for (int k = 0; k < n; k++) {
		int a;
		if (!ms_axis(b, axes[k], x->shape.rank, &a))
			break;
		if (x->shape.d[a] != 1)
			ms_reject(b, "mpsgraph-shape", "squeeze of axis %d of %s: size 1 is required", a, ms_shape_text(&x->shape));
		drop[a] = true;
	}
	for (int i = 0; i < x->shape.rank; i++)
		if (!(n < 0 ? x->shape.d[i] == 1 : drop[i]))
			s.d[s.rank++] = x->shape.d[i];
	view(b, x, &s);
}
IMP(g_squeeze)
{
	ms_builder b = ms_begin(c);
	squeeze(&b, ms_input(&b, c->a[0].o), &c->a[1].i, 1);
}
IMP(g_squeeze_all)
{
	ms_builder b = ms_begin(c);
	squeeze(&b, ms_input(&b, c->a[0].o), NULL, -1);
}
IMP(g_squeeze_axes)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t v[MS_RANK];
	int n = (int)ms_length(c->a[1].o);
	if (n > MS_RANK || !ms_ints(&b, c->a[1].o, v, n, "axes"))
		n = 0;
	squeeze(&b, x, v, n);
}

// ---- transpose ----
static void eval_permute(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t st[MS_RANK], perm[MS_RANK];
	ms_strides(&in[0]->shape, st);
	for (int i = 0; i < out[0]->shape.rank; i++)
		perm[i] = st[n->i[i]];
	gather_strided(in[0], perm, 0, out[0]);
}
static void permute(ms_builder *b, const ms_value *x, const int64_t *p)
{
	ms_shape s = x->shape;
	for (int i = 0; i < s.rank && !b->bad; i++) {
		b->n->i[i] = p[i];
		s.d[i] = x->shape.d[p[i]];
	}
	ms_output(b, &s, x->dtype);
	ms_finish(b, eval_permute);
}
IMP(g_permute)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t p[MS_RANK];
	int seen = 0, a;
	if (ms_ints(&b, c->a[1].o, p, x->shape.rank, "permutation"))
		for (int i = 0; i < x->shape.rank; i++)
			if (ms_axis(&b, p[i], x->shape.rank, &a)) {
				seen |= 1 << a;
				p[i] = a;
			}
	if (!b.bad && seen != (1 << x->shape.rank) - 1)
		ms_reject(&b, "mpsgraph-shape", "not a permutation of %d axes", x->shape.rank);
	permute(&b, x, p);
}
// The header says NSUInteger, the runtime takes negative numbers (PyTorch passes -3, -4).
IMP(g_transpose)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t p[MS_RANK];
	int d, e;
	for (int i = 0; i < x->shape.rank; i++)
		p[i] = i;
	if (ms_axis(&b, c->a[1].i, x->shape.rank, &d) && ms_axis(&b, c->a[2].i, x->shape.rank, &e)) {
		p[d] = e;
		p[e] = d;
	}
	permute(&b, x, p);
}

// ---- broadcast, tile, reverse ----
static void eval_broadcast(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	int64_t st[MS_RANK], to[MS_RANK];
	ms_strides(&in[0]->shape, st);
	int pad = out[0]->shape.rank - in[0]->shape.rank;
	for (int i = 0; i < out[0]->shape.rank; i++)
		to[i] = i < pad || in[0]->shape.d[i - pad] == 1 ? 0 : st[i - pad];
	gather_strided(in[0], to, 0, out[0]);
}
IMP(g_broadcast)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s, t;
	if (!ms_shape_from(c->a[1].o, &s) || !ms_broadcast(&x->shape, &s, &t) || !ms_same_shape(&s, &t))
		ms_reject(&b, "mpsgraph-shape", "%s does not broadcast to %s", ms_shape_text(&x->shape), ms_shape_text(&s));
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_broadcast);
}
// modular_copy: out[i] = in[i mod dims] (tile) or in[dims-1-i] where reversed
static void eval_tile(const ms_node *n, ms_val **in, ms_val **out)
{
	int rank = out[0]->shape.rank;
	int64_t st[MS_RANK], at[MS_RANK] = {0};
	ms_strides(&in[0]->shape, st);
	for (int64_t o = 0; o < out[0]->n; o++) {
		int64_t from = 0;
		for (int i = 0; i < rank; i++) {
			int64_t d = in[0]->shape.d[i], j = at[i] % d;
			from += (n->i[i] ? d - 1 - j : j) * st[i];
		}
		if (ms_is_float(out[0]->dtype))
			out[0]->f[o] = in[0]->f[from];
		else
			out[0]->i[o] = in[0]->i[from];
		for (int i = rank - 1; i >= 0 && ++at[i] == out[0]->shape.d[i]; i--)
			at[i] = 0;
	}
}
IMP(g_tile)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int64_t m[MS_RANK];
	if (ms_ints(&b, c->a[1].o, m, s.rank, "multiplier"))
		for (int i = 0; i < s.rank; i++)
			s.d[i] *= m[i];
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_tile);
}
static void reverse(ms_call *c, id axes)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int64_t v[MS_RANK];
	int n = axes ? (int)ms_length(axes) : x->shape.rank, a;
	for (int i = 0; i < n && i < MS_RANK; i++)
		v[i] = i;
	if (n > MS_RANK || (axes && !ms_ints(&b, axes, v, n, "axes")))
		n = 0;
	for (int k = 0; k < n; k++)
		if (ms_axis(&b, v[k], x->shape.rank, &a))
			b.n->i[a] = 1;
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_tile);
}
IMP(g_reverse_axes) { reverse(c, c->a[1].o); }
IMP(g_reverse) { reverse(c, NULL); }

// ---- concat, stack ----
// Whole blocks behind the axis are copied; earlier dimensions repeat that.
static void eval_concat(const ms_node *n, ms_val **in, ms_val **out)
{
	int axis = (int)n->i[0];
	int64_t size = ms_is_float(out[0]->dtype) ? 4 : 8, inner = size, outer = 1, at = 0;
	for (int i = 0; i < axis; i++)
		outer *= out[0]->shape.d[i];
	for (int i = axis + 1; i < out[0]->shape.rank; i++)
		inner *= out[0]->shape.d[i];
	int64_t row = out[0]->shape.d[axis] * inner;
	for (int k = 0; k < n->nin; k++) {
		int64_t part = in[k]->n * size / outer;
		for (int64_t o = 0; o < outer; o++)
			memcpy((char *)out[0]->p + o * row + at, (char *)in[k]->p + o * part, (size_t)part);
		at += part;
	}
}
static void concat(ms_builder *b, const id *t, int n, int64_t axis, bool stack)
{
	const ms_value *x = n ? ms_input(b, t[0]) : NULL;
	if (!x) {
		ms_reject(b, "mpsgraph-shape", "concat of nothing");
		ms_finish(b, NULL);
		return;
	}
	ms_shape s = x->shape;
	int a;
	if (stack ? ms_axis(b, axis, s.rank + 1, &a) : ms_axis(b, axis, s.rank, &a)) {
		for (int k = 1; k < n; k++) {
			const ms_value *y = ms_input(b, t[k]);
			ms_shape other = y->shape;
			if (!stack && other.rank == s.rank)
				other.d[a] = x->shape.d[a];
			ms_same_dtype(b, x, y);
			if (!ms_same_shape(&other, &x->shape))
				ms_reject(b, "mpsgraph-shape", "concat of %s and %s along %d", ms_shape_text(&x->shape), ms_shape_text(&y->shape), a);
			if (!stack)
				s.d[a] += y->shape.d[a];
		}
		if (stack) {
			memmove(s.d + a + 1, s.d + a, (size_t)(s.rank - a) * sizeof s.d[0]);
			s.d[a] = n;
			s.rank++;
		}
		b->n->i[0] = a;
	}
	ms_output(b, &s, x->dtype);
	ms_finish(b, eval_concat);
}
static void concat_array(ms_call *c, id array, int64_t axis, bool stack)
{
	ms_builder b = ms_begin(c);
	id t[256];
	int n = (int)ms_length(array);
	for (int k = 0; k < n && k < 256; k++)
		t[k] = ms_element(array, k, 0);
	concat(&b, t, n > 256 ? 0 : n, axis, stack);
}
IMP(g_concat2)
{
	ms_builder b = ms_begin(c);
	concat(&b, (id[]){c->a[0].o, c->a[1].o}, 2, c->a[2].i, false);
}
IMP(g_concat) { concat_array(c, c->a[0].o, c->a[1].i, false); }
IMP(g_stack) { concat_array(c, c->a[0].o, c->a[1].i, true); }

// ---- pad ----
enum { PAD_CONSTANT, PAD_REFLECT, PAD_SYMMETRIC, PAD_CLAMP, PAD_ZERO };
static int64_t padded_index(int mode, int64_t i, int64_t n)
{
	if (i >= 0 && i < n)
		return i;
	switch (mode) {
	case PAD_REFLECT: return i < 0 ? -i : 2 * n - 2 - i; // the edge is not repeated
	case PAD_SYMMETRIC: return i < 0 ? -1 - i : 2 * n - 1 - i;
	case PAD_CLAMP: return i < 0 ? 0 : n - 1;
	}
	return -1;
}
static void eval_pad(const ms_node *n, ms_val **in, ms_val **out)
{
	int rank = out[0]->shape.rank;
	int64_t st[MS_RANK], at[MS_RANK] = {0};
	ms_strides(&in[0]->shape, st);
	for (int64_t o = 0; o < out[0]->n; o++) {
		int64_t from = 0;
		for (int i = 0; i < rank && from >= 0; i++) {
			int64_t j = padded_index((int)n->i[0], at[i] - n->list[i], in[0]->shape.d[i]);
			from = j < 0 ? -1 : from + j * st[i];
		}
		if (ms_is_float(out[0]->dtype))
			out[0]->f[o] = from < 0 ? (float)n->f[0] : in[0]->f[from];
		else
			out[0]->i[o] = from < 0 ? (int64_t)n->f[0] : in[0]->i[from];
		for (int i = rank - 1; i >= 0 && ++at[i] == out[0]->shape.d[i]; i--)
			at[i] = 0;
	}
}
// Reflect does not repeat the edge and so reaches one element less far than symmetric.
IMP(g_pad)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int64_t l[MS_RANK], r[MS_RANK];
	int mode = (int)c->a[1].i;
	b.n->list = calloc(MS_RANK, sizeof *b.n->list);
	if (mode < 0 || mode > PAD_ZERO)
		ms_reject(&b, "not-implemented", "padding mode %d", mode);
	if (ms_ints(&b, c->a[2].o, l, s.rank, "leftPadding") && ms_ints(&b, c->a[3].o, r, s.rank, "rightPadding"))
		for (int i = 0; i < s.rank; i++) {
			int64_t most = l[i] > r[i] ? l[i] : r[i], limit = mode == PAD_REFLECT ? s.d[i] - 1 : s.d[i];
			if (l[i] < 0 || r[i] < 0 || ((mode == PAD_REFLECT || mode == PAD_SYMMETRIC) && most > limit))
				ms_reject(&b, "mpsgraph-shape", "padding %lld, %lld of axis %d of %s", (long long)l[i], (long long)r[i], i, ms_shape_text(&s));
			b.n->list[i] = l[i];
			s.d[i] += l[i] + r[i];
		}
	b.n->i[0] = mode;
	b.n->f[0] = mode == PAD_ZERO ? 0 : c->a[4].d;
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_pad);
}

// ---- depth to space, space to depth ----
// Pixel-shuffle order keeps a block contiguous inside depth: depth = c r^2 + dy r + dx
// (nn.PixelShuffle); the other order is depth = (dy r + dx) C + c (TF, ONNX DCR).
static void eval_d2s(const ms_node *n, ms_val **in, ms_val **out)
{
	int wa = (int)n->i[0], ha = (int)n->i[1], da = (int)n->i[2], rank = in[0]->shape.rank;
	int64_t r = n->i[3], st[MS_RANK], so[MS_RANK], at[MS_RANK] = {0};
	bool to_space = n->i[5];
	const ms_val *deep = to_space ? in[0] : out[0], *flat = to_space ? out[0] : in[0];
	ms_strides(&deep->shape, st);
	ms_strides(&flat->shape, so);
	int64_t channels = flat->shape.d[da];
	for (int64_t k = 0; k < deep->n; k++) {
		int64_t d = at[da], ch = n->i[4] ? d / (r * r) : d % channels, block = n->i[4] ? d % (r * r) : d / channels, to = 0;
		for (int i = 0; i < rank; i++)
			to += so[i] * (i == wa ? at[i] * r + block % r : i == ha ? at[i] * r + block / r : i == da ? ch : at[i]);
		int64_t o = to_space ? to : k, j = to_space ? k : to;
		if (ms_is_float(out[0]->dtype))
			out[0]->f[o] = in[0]->f[j];
		else
			out[0]->i[o] = in[0]->i[j];
		for (int i = rank - 1; i >= 0 && ++at[i] == deep->shape.d[i]; i--)
			at[i] = 0;
	}
}
static void depth_space(ms_call *c, bool to_space)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_shape s = x->shape;
	int ax[3];
	int64_t r = c->a[4].i;
	for (int k = 0; k < 3; k++)
		if (ms_axis(&b, c->a[1 + k].i, s.rank, &ax[k]))
			b.n->i[k] = ax[k];
	if (!b.bad && (ax[0] == ax[1] || ax[0] == ax[2] || ax[1] == ax[2] || r < 1))
		ms_reject(&b, "mpsgraph-shape", "axes %d, %d, %d with block %lld", ax[0], ax[1], ax[2], (long long)r);
	if (!b.bad && (to_space ? s.d[ax[2]] % (r * r) != 0 : s.d[ax[0]] % r || s.d[ax[1]] % r))
		ms_reject(&b, "mpsgraph-shape", "shape %s with block %lld", ms_shape_text(&s), (long long)r);
	for (int k = 0; k < 3 && !b.bad; k++)
		s.d[ax[k]] = to_space == (k < 2) ? s.d[ax[k]] * (k < 2 ? r : r * r) : s.d[ax[k]] / (k < 2 ? r : r * r);
	b.n->i[3] = r;
	b.n->i[4] = (int64_t)c->a[5].q;
	b.n->i[5] = to_space;
	ms_output(&b, &s, x->dtype);
	ms_finish(&b, eval_d2s);
}
IMP(g_d2s) { depth_space(c, true); }
IMP(g_s2d) { depth_space(c, false); }

static const ms_impl impls[] = {
	{"-reshapeTensor:withShape:name:", g_reshape}, {"-flatten2DTensor:axis:name:", g_flatten},
	{"-expandDimsOfTensor:axis:name:", g_expand}, {"-expandDimsOfTensor:axes:name:", g_expand_axes},
	{"-squeezeTensor:axis:name:", g_squeeze}, {"-squeezeTensor:axes:name:", g_squeeze_axes}, {"-squeezeTensor:name:", g_squeeze_all},
	{"-transposeTensor:permutation:name:", g_permute}, {"-transposeTensor:dimension:withDimension:name:", g_transpose},
	{"-broadcastTensor:toShape:name:", g_broadcast}, {"-tileTensor:withMultiplier:name:", g_tile},
	{"-reverseTensor:axes:name:", g_reverse_axes}, {"-reverseTensor:name:", g_reverse},
	{"-concatTensor:withTensor:dimension:name:", g_concat2}, {"-concatTensors:dimension:name:", g_concat},
	{"-stackTensors:axis:name:", g_stack}, {"-padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:", g_pad},
	{"-depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", g_d2s},
	{"-spaceToDepth2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", g_s2d},
};
void ms_init_shape_ops(void) { MS_IMPLEMENT("MPSGraph", impls); }
