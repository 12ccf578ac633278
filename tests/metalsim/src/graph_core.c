// SPDX-License-Identifier: Apache-2.0
// Types, shapes, storage and the builder that every MPSGraph op goes through.
#include "graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

// ---- types ----
// MPSDataType: bit 28 float, bit 29 signed, low byte the bits; Float64 does not exist.
bool ms_is_float(uint32_t t) { return t == MS_F32 || t == MS_F16 || t == MS_BF16; }
int ms_dtype_size(uint32_t t)
{
	switch (t) {
	case MS_F32: case MS_F16: case MS_BF16: case MS_I8: case MS_I16: case MS_I32: case MS_I64: case MS_U8: case MS_U16:
	case MS_U32: case MS_U64: case MS_BOOL:
		return (int)(t & 0xff) / 8;
	}
	return 0;
}
const char *ms_dtype_name(uint32_t t)
{
	switch (t) {
	case MS_F32: return "Float32";
	case MS_F16: return "Float16";
	case MS_BF16: return "BFloat16";
	case MS_I8: return "Int8";
	case MS_I16: return "Int16";
	case MS_I32: return "Int32";
	case MS_I64: return "Int64";
	case MS_U8: return "UInt8";
	case MS_U16: return "UInt16";
	case MS_U32: return "UInt32";
	case MS_U64: return "UInt64";
	case MS_BOOL: return "Bool";
	}
	return "unknown type";
}

// ---- shapes ----
int64_t ms_count_of(const ms_shape *s)
{
	int64_t n = 1;
	for (int i = 0; i < s->rank; i++)
		n *= s->d[i];
	return n;
}
bool ms_same_shape(const ms_shape *a, const ms_shape *b)
{
	return a->rank == b->rank && !memcmp(a->d, b->d, (size_t)a->rank * sizeof a->d[0]);
}
const char *ms_shape_text(const ms_shape *s)
{
	static __thread char bufs[4][160];
	static __thread int next;
	char *b = bufs[next++ % 4];
	int at = snprintf(b, 160, "[");
	for (int i = 0; i < s->rank && at < 140; i++)
		at += snprintf(b + at, (size_t)(160 - at), i ? ",%lld" : "%lld", (long long)s->d[i]);
	snprintf(b + at, (size_t)(160 - at), "]");
	return b;
}
bool ms_shape_from(id array, ms_shape *s)
{
	s->rank = (int)ms_length(array);
	if (s->rank > MS_RANK)
		return false;
	for (int i = 0; i < s->rank; i++) {
		id n = ms_element(array, i, 0);
		if (!ms_number_is_integer(n))
			return false;
		s->d[i] = ms_number_int(n);
	}
	return true;
}
id ms_shape_array(const ms_shape *s)
{
	id v[MS_RANK];
	for (int i = 0; i < s->rank; i++)
		v[i] = ms_number_i(s->d[i]);
	return ms_array_owned(v, s->rank);
}
// Right-aligned; a dimension of 1 repeats.
bool ms_broadcast(const ms_shape *a, const ms_shape *b, ms_shape *out)
{
	out->rank = a->rank > b->rank ? a->rank : b->rank;
	for (int i = 1; i <= out->rank; i++) {
		int64_t x = i <= a->rank ? a->d[a->rank - i] : 1, y = i <= b->rank ? b->d[b->rank - i] : 1;
		if (x != y && x != 1 && y != 1)
			return false;
		out->d[out->rank - i] = x == 1 ? y : x;
	}
	return true;
}
void ms_strides(const ms_shape *s, int64_t *st)
{
	int64_t n = 1;
	for (int i = s->rank - 1; i >= 0; i--) {
		st[i] = n;
		n *= s->d[i];
	}
}

// ---- storage and conversion ----
ms_buf *ms_buf_new(int64_t n, bool is_float)
{
	ms_buf *b = calloc(1, sizeof *b);
	b->refs = 1;
	b->n = n;
	b->p = aligned_alloc(64, ((size_t)(n ? n : 1) * (is_float ? 4 : 8) + 63) / 64 * 64);
	return b;
}
ms_buf *ms_buf_retain(ms_buf *b)
{
	if (b)
		atomic_fetch_add(&b->refs, 1);
	return b;
}
void ms_buf_release(ms_buf *b)
{
	if (b && atomic_fetch_sub(&b->refs, 1) == 1) {
		free(b->p);
		free(b);
	}
}

#if defined(__F16C__) || defined(__aarch64__)
float ms_half(float x) { return (float)(_Float16)x; } // round to nearest even, overflow to infinity
#else
#error "half precision conversion needs F16C or arm64"
#endif
// BFloat16 is the upper half of a float32, rounded to nearest even.
static float bfloat(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	if (isnan(x))
		return x;
	u += 0x7fff + (u >> 16 & 1);
	u &= 0xffff0000;
	memcpy(&x, &u, 4);
	return x;
}
void ms_round_to(uint32_t t, float *p, int64_t n)
{
	int64_t i = 0;
	if (t == MS_F16) {
#ifdef __F16C__
		for (; i + 8 <= n; i += 8)
			_mm256_storeu_ps(p + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(p + i), 0)));
#endif
		for (; i < n; i++)
			p[i] = ms_half(p[i]);
	} else if (t == MS_BF16) {
		for (; i < n; i++)
			p[i] = bfloat(p[i]);
	}
}
static void load_half(const uint16_t *s, int64_t n, float *d)
{
	int64_t i = 0;
#ifdef __F16C__
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
#endif
	for (; i < n; i++) {
		_Float16 h;
		memcpy(&h, s + i, 2);
		d[i] = (float)h;
	}
}
void ms_load(const void *src, uint32_t t, int64_t n, void *dst)
{
#define EACH(T) do { const T *s = src; for (int64_t k = 0; k < n; k++) ((int64_t *)dst)[k] = (int64_t)s[k]; } while (0)
	switch (t) {
	case MS_F32: memcpy(dst, src, (size_t)n * 4); break;
	case MS_F16: load_half(src, n, dst); break;
	case MS_BF16:
		for (int64_t k = 0; k < n; k++)
			((uint32_t *)dst)[k] = (uint32_t)((const uint16_t *)src)[k] << 16;
		break;
	case MS_I8: EACH(int8_t); break;
	case MS_I16: EACH(int16_t); break;
	case MS_I32: EACH(int32_t); break;
	case MS_I64: case MS_U64: memcpy(dst, src, (size_t)n * 8); break;
	case MS_U8: EACH(uint8_t); break;
	case MS_U16: EACH(uint16_t); break;
	case MS_U32: EACH(uint32_t); break;
	case MS_BOOL:
		for (int64_t k = 0; k < n; k++)
			((int64_t *)dst)[k] = ((const uint8_t *)src)[k] != 0;
	}
#undef EACH
}
void ms_store(const void *src, uint32_t t, int64_t n, void *dst)
{
#define EACH(T) do { T *d = dst; for (int64_t k = 0; k < n; k++) d[k] = (T)((const int64_t *)src)[k]; } while (0)
	switch (t) {
	case MS_F32: memcpy(dst, src, (size_t)n * 4); break;
	case MS_F16:
		for (int64_t k = 0; k < n; k++) {
			_Float16 h = (_Float16)((const float *)src)[k];
			memcpy((uint16_t *)dst + k, &h, 2);
		}
		break;
	case MS_BF16:
		for (int64_t k = 0; k < n; k++) {
			float f = bfloat(((const float *)src)[k]);
			uint32_t u;
			memcpy(&u, &f, 4);
			((uint16_t *)dst)[k] = (uint16_t)(u >> 16);
		}
		break;
	case MS_I8: case MS_U8: case MS_BOOL: EACH(uint8_t); break;
	case MS_I16: case MS_U16: EACH(uint16_t); break;
	case MS_I32: case MS_U32: EACH(uint32_t); break;
	case MS_I64: case MS_U64: memcpy(dst, src, (size_t)n * 8); break;
	}
#undef EACH
}
bool ms_half_sums(uint32_t t) { return ms_cfg.fp16_accumulate && t == MS_F16; }

// ---- cores ----
void ms_core_release(ms_core *k)
{
	if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	for (int i = 0; i < k->nnodes; i++) {
		ms_node *n = k->nodes[i];
		free(n->in);
		free(n->out);
		free(n->list);
		free(n);
	}
	for (int i = 0; i < k->nvalues; i++) {
		ms_buf_release(k->values[i]->data);
		free(k->values[i]);
	}
	free(k->nodes);
	free(k->values);
	free(k);
}

// ---- building ----
// A builder collects complaints instead of returning at the first: one place decides that a
// refused op gives nil.
ms_builder ms_begin(ms_call *c)
{
	ms_builder b = {.c = c, .g = (MPSGraphObj *)c->self, .core = ((MPSGraphObj *)c->self)->core};
	b.n = calloc(1, sizeof *b.n);
	b.n->op = c->decl->sel + 1;
	b.n->assigns = -1;
	return b;
}

void ms_reject(ms_builder *b, const char *code, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!b->bad)
		ms_violation(code, "-[MPSGraph %s]: %s", b->n->op, text);
	b->bad = true;
}

const ms_value *ms_tensor_value(id tensor)
{
	MPSGraphTensorObj *t = (MPSGraphTensorObj *)tensor;
	return t->core->values[t->value];
}

// Tensors belong to one graph; mixing graphs is an assertion in MPSGraph.
const ms_value *ms_input(ms_builder *b, id tensor)
{
	MPSGraphTensorObj *t = (MPSGraphTensorObj *)tensor;
	if (t->core != b->core)
		ms_reject(b, "wrong-graph", "input %d is a tensor of another graph", b->n->nin);
	b->n->in = realloc(b->n->in, (size_t)(b->n->nin + 1) * sizeof(int));
	b->n->in[b->n->nin++] = t->value;
	return ms_tensor_value(tensor);
}

int ms_output(ms_builder *b, const ms_shape *s, uint32_t dtype)
{
	if (b->bad)
		return -1;
	for (int i = 0; i < s->rank; i++)
		if (s->d[i] <= 0) {
			ms_reject(b, "mpsgraph-shape", "result shape %s", ms_shape_text(s));
			return -1;
		}
	if (!ms_dtype_size(dtype)) {
		ms_reject(b, "mpsgraph-dtype", "data type %#x is not supported", dtype);
		return -1;
	}
	// "Any single NDArray > 2^32 bytes aborts" on macOS 15.
	// 2^32 bytes aborted on older systems; the product of the dimensions must be below 2^31.
	if (ms_count_of(s) * ms_dtype_size(dtype) >= (int64_t)1 << 32 || ms_count_of(s) >= (int64_t)1 << 31) {
		ms_reject(b, "mpsgraph-limit", "result of shape %s has 2^31 elements or 2^32 bytes, or more", ms_shape_text(s));
		return -1;
	}
	ms_core *k = b->core;
	if (k->nvalues == k->cap_values) {
		k->cap_values = k->cap_values * 2 + 64;
		k->values = realloc(k->values, (size_t)k->cap_values * sizeof *k->values);
	}
	b->n->out = realloc(b->n->out, (size_t)(b->n->nout + 1) * sizeof(int));
	b->n->out[b->n->nout++] = k->nvalues;
	k->values[k->nvalues] = malloc(sizeof(ms_value));
	*k->values[k->nvalues] = (ms_value){.shape = *s, .dtype = dtype, .node = k->nnodes};
	return k->nvalues++;
}

static bool commit(ms_builder *b, ms_eval eval)
{
	if (b->bad) {
		free(b->n->in);
		free(b->n->out);
		free(b->n->list);
		free(b->n);
		return false;
	}
	ms_core *k = b->core;
	if (k->nnodes == k->cap_nodes) {
		k->cap_nodes = k->cap_nodes * 2 + 64;
		k->nodes = realloc(k->nodes, (size_t)k->cap_nodes * sizeof *k->nodes);
	}
	b->n->eval = eval;
	k->nodes[k->nnodes++] = b->n;
	ms_count("nodes", 1);
	return true;
}

// Tensors belong to the graph and are returned autoreleased: building without a pool leaks.
void ms_finish(ms_builder *b, ms_eval eval)
{
	if (commit(b, eval))
		ms_return_new(b->c, ms_retain(ms_tensor_object(b->g, b->n->out[0])));
}
id ms_finish_array(ms_builder *b, ms_eval eval)
{
	if (!commit(b, eval))
		return NULL;
	id v[256];
	for (int i = 0; i < b->n->nout; i++)
		v[i] = ms_tensor_object(b->g, b->n->out[i]);
	ms_return_new(b->c, ms_array(v, b->n->nout));
	return b->c->ret.o;
}
void ms_finish_operation(ms_builder *b, ms_eval eval)
{
	if (commit(b, eval))
		ms_return_new(b->c, ms_retain(ms_operation(b->g, b->core->nnodes - 1)));
}

id ms_tensor_object(MPSGraphObj *g, int value)
{
	ms_value *v = g->core->values[value];
	if (!v->object) {
		MPSGraphTensorObj *t = (MPSGraphTensorObj *)ms_new("MPSGraphTensor");
		t->core = g->core;
		atomic_fetch_add(&g->core->refs, 1);
		t->value = value;
		v->object = (id)t;
	}
	return v->object;
}
id ms_operation(MPSGraphObj *g, int node)
{
	ms_node *n = g->core->nodes[node];
	if (!n->object) {
		MPSGraphOperationObj *o = (MPSGraphOperationObj *)ms_new("MPSGraphOperation");
		o->core = g->core;
		atomic_fetch_add(&g->core->refs, 1);
		o->node = node;
		o->graph = (id)g;
		n->object = (id)o;
	}
	return n->object;
}

// ---- checks ----
// Axis 0 is the slowest; negative axes count from the end, also where the header declares an
// unsigned argument.
bool ms_axis(ms_builder *b, int64_t axis, int rank, int *out)
{
	int64_t a = axis < 0 ? axis + rank : axis;
	if (a < 0 || a >= rank) {
		ms_reject(b, "mpsgraph-shape", "axis %lld of a tensor of rank %d", (long long)axis, rank);
		return false;
	}
	*out = (int)a;
	return true;
}
bool ms_ints(ms_builder *b, id array, int64_t *v, int n, const char *what)
{
	if (ms_length(array) != n) {
		ms_reject(b, "mpsgraph-shape", "%s has %lld numbers, want %d", what, (long long)ms_length(array), n);
		return false;
	}
	for (int i = 0; i < n; i++) {
		id e = ms_element(array, i, 0);
		if (!ms_number_is_integer(e)) {
			ms_reject(b, "mpsgraph-shape", "%s: element %d is not an integer", what, i);
			return false;
		}
		v[i] = ms_number_int(e);
	}
	return true;
}
bool ms_same_dtype(ms_builder *b, const ms_value *x, const ms_value *y)
{
	if (x->dtype == y->dtype)
		return true;
	ms_reject(b, "mpsgraph-dtype", "operands are %s and %s; there is no implicit promotion", ms_dtype_name(x->dtype), ms_dtype_name(y->dtype));
	return false;
}
bool ms_need_float(ms_builder *b, const ms_value *x)
{
	if (ms_is_float(x->dtype))
		return true;
	ms_reject(b, "mpsgraph-dtype", "a float type is needed, got %s", ms_dtype_name(x->dtype));
	return false;
}
const int64_t *ms_constant_ints(ms_builder *b, id tensor, int *n)
{
	const ms_value *v = ms_tensor_value(tensor);
	if (v->kind != 'c' || ms_is_float(v->dtype)) {
		ms_reject(b, "not-implemented", "the simulator takes this tensor argument as an integer constant only");
		return NULL;
	}
	*n = (int)ms_count_of(&v->shape);
	return v->data->p;
}
