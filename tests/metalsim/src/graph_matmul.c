// SPDX-License-Identifier: Apache-2.0
// Matrix products and scaled dot product attention.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// c[m,n] += a[m,k] b[k,n]: four rows at a time so that a row of b is used four times, k in
// blocks so that partial sums stay short (less rounding error than one running sum).
#define KB 256
#define NB 512
typedef float v8 __attribute__((vector_size(32), aligned(4))); // two SSE/NEON or one AVX register
static void tile4x16(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t k)
{
	v8 acc[4][2] = {0};
	for (int64_t p = 0; p < k; p++) {
		v8 b0 = *(const v8 *)(b + p * ldb), b1 = *(const v8 *)(b + p * ldb + 8);
		for (int r = 0; r < 4; r++) {
			acc[r][0] += a[r * lda + p] * b0;
			acc[r][1] += a[r * lda + p] * b1;
		}
	}
	for (int r = 0; r < 4; r++) {
		*(v8 *)(c + r * ldc) += acc[r][0];
		*(v8 *)(c + r * ldc + 8) += acc[r][1];
	}
}
static void block4(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t n, int64_t k)
{
	int64_t j = 0;
	for (; j + 16 <= n; j += 16)
		tile4x16(a, lda, b + j, ldb, c + j, ldc, k);
	for (int r = 0; r < 4; r++)
		for (int64_t p = 0; p < k; p++)
			for (int64_t q = j; q < n; q++)
				c[r * ldc + q] += a[r * lda + p] * b[p * ldb + q];
}
static void block1(const float *a, const float *b, int64_t ldb, float *c, int64_t n, int64_t k)
{
	for (int64_t p = 0; p < k; p++)
		for (int64_t j = 0; j < n; j++)
			c[j] += a[p] * b[p * ldb + j];
}
void ms_gemm(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, int64_t k, bool half)
{
	for (int64_t i = 0; i < m; i++)
		memset(c + i * ldc, 0, (size_t)n * 4);
	if (half) { // every product and every sum rounded to half: the worst that hardware may do
		for (int64_t i = 0; i < m; i++)
			for (int64_t p = 0; p < k; p++)
				for (int64_t j = 0; j < n; j++)
					c[i * ldc + j] = ms_half(c[i * ldc + j] + ms_half(a[i * lda + p] * b[p * ldb + j]));
		return;
	}
	for (int64_t p = 0; p < k; p += KB) {
		int64_t kb = k - p < KB ? k - p : KB;
		for (int64_t j = 0; j < n; j += NB) {
			int64_t nb = n - j < NB ? n - j : NB, i = 0;
			for (; i + 4 <= m; i += 4)
				block4(a + i * lda + p, lda, b + p * ldb + j, ldb, c + i * ldc + j, ldc, nb, kb);
			for (; i < m; i++)
				block1(a + i * lda + p, b + p * ldb + j, ldb, c + i * ldc + j, nb, kb);
		}
	}
}

// batch_offset: which matrix of an operand belongs to batch k of the result.
// Leading dimensions broadcast like those of any binary op.
static int64_t batch_offset(const ms_shape *out, const ms_shape *x, int64_t k)
{
	int64_t off = 0, st = 1;
	for (int i = out->rank - 3; i >= 0; i--) {
		int j = i - (out->rank - x->rank);
		int64_t at = k % out->d[i];
		k /= out->d[i];
		if (j < 0)
			continue;
		off += (x->d[j] == 1 ? 0 : at) * st;
		st *= x->d[j];
	}
	return off;
}
static void eval_matmul(const ms_node *node, ms_val **in, ms_val **out)
{
	(void)node;
	const ms_shape *a = &in[0]->shape, *b = &in[1]->shape, *o = &out[0]->shape;
	int64_t m = a->d[a->rank - 2], k = a->d[a->rank - 1], n = b->d[b->rank - 1];
	for (int64_t i = 0; i < out[0]->n / (m * n); i++)
		ms_gemm(in[0]->f + batch_offset(o, a, i) * m * k, k, in[1]->f + batch_offset(o, b, i) * k * n, n, out[0]->f + i * m * n, n, m, n, k,
			ms_half_sums(out[0]->dtype));
	// Reported of the GPUs of the M5: right with two dimensions, with more in half precision
	// wrong and never the same (PyTorch issues 180776, 181466).
	if (o->rank > 2 && out[0]->dtype != MS_F32 && ms_faulty("batched_half"))
		for (int64_t i = 0; i < out[0]->n; i += 7)
			out[0]->f[i] *= 1 + ms_noise();
}
IMP(g_matmul)
{
	ms_builder bl = ms_begin(c);
	const ms_value *x = ms_input(&bl, c->a[0].o), *y = ms_input(&bl, c->a[1].o);
	const ms_shape *a = &x->shape, *b = &y->shape;
	ms_shape s = {0};
	ms_need_float(&bl, x);
	ms_same_dtype(&bl, x, y);
	if (a->rank > 4 || b->rank > 4) // "MLIR pass manager failed", SIGABRT (PyTorch issues 114942, 187201)
		ms_reject(&bl, "mpsgraph-limit", "product of %s and %s: more than 4 dimensions end the process", ms_shape_text(a), ms_shape_text(b));
	if (a->rank < 2 || b->rank < 2 || a->d[a->rank - 1] != b->d[b->rank - 2]) {
		ms_reject(&bl, "mpsgraph-shape", "product of %s and %s", ms_shape_text(a), ms_shape_text(b));
	} else {
		ms_shape p = *a, q = *b;
		p.rank -= 2;
		q.rank -= 2;
		// Unequal head counts are not broadcast: the process aborts.
		if (!ms_broadcast(&p, &q, &s))
			ms_reject(&bl, "mpsgraph-shape", "batches of %s and %s", ms_shape_text(a), ms_shape_text(b));
		s.d[s.rank++] = a->d[a->rank - 2];
		s.d[s.rank++] = b->d[b->rank - 1];
		int64_t k = a->d[a->rank - 1], m = s.d[s.rank - 2], n = s.d[s.rank - 1];
		if (k >= 32767 && m >= 16 && n >= 16) // M1 and M2 read past the operands
			ms_reject(&bl, "mpsgraph-limit", "inner dimension %lld with a %lldx%lld result is wrong on Apple7 and Apple8", (long long)k, (long long)m, (long long)n);
		bl.n->flops = 2.0 * (double)ms_count_of(&s) * (double)k;
	}
	ms_output(&bl, &s, x->dtype);
	ms_finish(&bl, eval_matmul);
}

// ---- attention: softmax(scale Q K^T + mask) V over [B,H,N,F] ----
// The mask is added to the scaled scores and broadcasts to [B,H,Nq,Nkv].
static void add_mask(float *s, const ms_val *mask, const ms_shape *full, int64_t b, int64_t h)
{
	const ms_shape *m = &mask->shape;
	int64_t st[MS_RANK], at[4] = {b, h, 0, 0};
	ms_strides(m, st);
	for (int64_t i = 0; i < full->d[2]; i++)
		for (int64_t j = 0; j < full->d[3]; j++) {
			int64_t off = 0;
			at[2] = i;
			at[3] = j;
			for (int d = 0; d < m->rank; d++)
				off += m->d[d] == 1 ? 0 : at[4 - m->rank + d] * st[d];
			s[i * full->d[3] + j] += mask->f[off];
		}
}
static void eval_sdpa(const ms_node *node, ms_val **in, ms_val **out)
{
	const ms_shape *q = &in[0]->shape, *k = &in[1]->shape, *v = &in[2]->shape;
	int64_t nq = q->d[2], nk = k->d[2], f = q->d[3], fv = v->d[3];
	ms_shape full = {4, {q->d[0], q->d[1], nq, nk}};
	bool half = ms_half_sums(out[0]->dtype);
	float *s = malloc((size_t)(nq * nk) * 4), *kt = malloc((size_t)(f * nk) * 4);
	for (int64_t b = 0; b < q->d[0]; b++)
		for (int64_t h = 0; h < q->d[1]; h++) {
			int64_t kb = (k->d[0] == 1 ? 0 : b) * k->d[1] + (k->d[1] == 1 ? 0 : h), vb = (v->d[0] == 1 ? 0 : b) * v->d[1] + (v->d[1] == 1 ? 0 : h);
			const float *key = in[1]->f + kb * nk * f;
			for (int64_t i = 0; i < nk; i++)
				for (int64_t j = 0; j < f; j++)
					kt[j * nk + i] = key[i * f + j];
			ms_gemm(in[0]->f + (b * q->d[1] + h) * nq * f, f, kt, nk, s, nk, nq, nk, f, half);
			for (int64_t i = 0; i < nq * nk; i++)
				s[i] *= (float)node->f[0] * (ms_faulty("attention") ? 2 : 1); // before the mask is added
			if (node->nin > 3)
				add_mask(s, in[3], &full, b, h);
			ms_softmax_rows(s, nq, nk, 1, half);
			ms_gemm(s, nk, in[2]->f + vb * nk * fv, fv, out[0]->f + (b * q->d[1] + h) * nq * fv, fv, nq, fv, nk, half);
		}
	free(s);
	free(kt);
	// macOS 15's fused kernel loses memory in float32 (PyTorch issue 152344).
	if (out[0]->dtype == MS_F32 && ms_faulty("sdpa_leak"))
		ms_leak(ms_count_of(&full) * 4);
	for (int64_t i = 0; i < out[0]->n && ms_faulty("sdpa_unsteady"); i++)
		out[0]->f[i] *= 1 + 2e-3f * ms_noise();
}
// Rank 4 only: a 5-D view aborts (PyTorch flattens first). Heads of key and value are 1 or
// equal to the query's.
static void sdpa(ms_call *c, id mask, float scale)
{
	ms_builder b = ms_begin(c);
	const ms_value *q = ms_input(&b, c->a[0].o), *k = ms_input(&b, c->a[1].o), *v = ms_input(&b, c->a[2].o);
	const ms_shape *qs = &q->shape, *ks = &k->shape, *vs = &v->shape;
	ms_shape s = *qs, full = *qs, t;
	ms_need_float(&b, q);
	ms_same_dtype(&b, q, k);
	ms_same_dtype(&b, q, v);
	if (qs->rank != 4 || ks->rank != 4 || vs->rank != 4)
		ms_reject(&b, "mpsgraph-shape", "query %s, key %s, value %s: rank 4 is wanted", ms_shape_text(qs), ms_shape_text(ks), ms_shape_text(vs));
	for (int i = 0; i < 2; i++)
		if ((ks->d[i] != qs->d[i] && ks->d[i] != 1) || (vs->d[i] != qs->d[i] && vs->d[i] != 1))
			ms_reject(&b, "mpsgraph-shape", "batches or heads of query %s, key %s, value %s", ms_shape_text(qs), ms_shape_text(ks), ms_shape_text(vs));
	if (ks->d[3] != qs->d[3] || vs->d[2] != ks->d[2])
		ms_reject(&b, "mpsgraph-shape", "query %s, key %s, value %s", ms_shape_text(qs), ms_shape_text(ks), ms_shape_text(vs));
	full.d[3] = ks->d[2];
	s.d[3] = vs->d[3];
	// Scores of 2^31 elements or more are silently wrong.
	if (!b.bad && ms_count_of(&full) >= (int64_t)1 << 31)
		ms_reject(&b, "mpsgraph-limit", "%s scores, 2^31 or more", ms_shape_text(&full));
	if (mask) {
		const ms_value *m = ms_input(&b, mask);
		ms_same_dtype(&b, q, m);
		if (!ms_broadcast(&m->shape, &full, &t) || !ms_same_shape(&t, &full))
			ms_reject(&b, "mpsgraph-shape", "mask %s for scores %s", ms_shape_text(&m->shape), ms_shape_text(&full));
	}
	b.n->f[0] = scale;
	b.n->flops = b.bad ? 0 : 2.0 * (double)ms_count_of(&full) * (double)(qs->d[3] + vs->d[3]);
	ms_output(&b, &s, q->dtype);
	ms_finish(&b, eval_sdpa);
}
IMP(g_sdpa) { sdpa(c, NULL, c->a[3].f); }
IMP(g_sdpa_mask) { sdpa(c, c->a[3].o, c->a[4].f); }

static const ms_impl impls[] = {
	{"-matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:", g_matmul},
	{"-scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:scale:name:", g_sdpa},
	{"-scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:maskTensor:scale:name:", g_sdpa_mask},
};
void ms_init_matmul(void) { MS_IMPLEMENT("MPSGraph", impls); }
