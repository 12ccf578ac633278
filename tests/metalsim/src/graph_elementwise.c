// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: unary, binary with broadcasting, select, clamp, cast, activations.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- unary, by selector stem ----
static float f_square(float x) { return x * x; }
static float f_rsqrt(float x) { return 1 / sqrtf(x); }
static float f_recip(float x) { return 1 / x; }
static float f_neg(float x) { return -x; }
static float f_sign(float x) { return x > 0 ? 1.f : x < 0 ? -1.f : x; }
static float f_relu(float x) { return x < 0 ? 0 : x; } // NaN stays
static float f_sigmoid(float x) { return 1 / (1 + expf(-x)); }
static float f_exp10(float x) { return powf(10, x); }
static int64_t i_neg(int64_t x) { return -x; }
static int64_t i_abs(int64_t x) { return x < 0 ? -x : x; }
static int64_t i_square(int64_t x) { return x * x; }
static int64_t i_sign(int64_t x) { return (x > 0) - (x < 0); }
static int64_t i_same(int64_t x) { return x; }
static int64_t i_relu(int64_t x) { return x < 0 ? 0 : x; }
static int64_t i_not(int64_t x) { return !x; }
static int64_t i_bitnot(int64_t x) { return ~x; }
static int p_nan(float x) { return isnan(x); }
static int p_inf(float x) { return isinf(x) != 0; }
static int p_finite(float x) { return isfinite(x) != 0; }
static int p_signbit(float x) { return signbit(x) != 0; }

static const struct {
	const char *sel;
	float (*f)(float);
	int64_t (*i)(int64_t);
	int (*p)(float); // predicate: result is Bool
} unary[] = {
	{"absoluteWithTensor:name:", fabsf, i_abs, NULL}, {"ceilWithTensor:name:", ceilf, i_same, NULL},
	{"floorWithTensor:name:", floorf, i_same, NULL}, {"roundWithTensor:name:", roundf, i_same, NULL},
	{"rintWithTensor:name:", rintf, i_same, NULL}, {"truncateWithTensor:name:", truncf, i_same, NULL},
	{"cosWithTensor:name:", cosf, NULL, NULL}, {"sinWithTensor:name:", sinf, NULL, NULL}, {"tanWithTensor:name:", tanf, NULL, NULL},
	{"coshWithTensor:name:", coshf, NULL, NULL}, {"sinhWithTensor:name:", sinhf, NULL, NULL}, {"tanhWithTensor:name:", tanhf, NULL, NULL},
	{"acosWithTensor:name:", acosf, NULL, NULL}, {"asinWithTensor:name:", asinf, NULL, NULL}, {"atanWithTensor:name:", atanf, NULL, NULL},
	{"erfWithTensor:name:", erff, NULL, NULL}, {"exponentWithTensor:name:", expf, NULL, NULL},
	{"exponentBase2WithTensor:name:", exp2f, NULL, NULL}, {"exponentBase10WithTensor:name:", f_exp10, NULL, NULL},
	{"logarithmWithTensor:name:", logf, NULL, NULL}, {"logarithmBase2WithTensor:name:", log2f, NULL, NULL},
	{"logarithmBase10WithTensor:name:", log10f, NULL, NULL}, {"negativeWithTensor:name:", f_neg, i_neg, NULL},
	{"reciprocalWithTensor:name:", f_recip, NULL, NULL}, {"squareWithTensor:name:", f_square, i_square, NULL},
	{"squareRootWithTensor:name:", sqrtf, NULL, NULL}, {"reverseSquareRootWithTensor:name:", f_rsqrt, NULL, NULL},
	{"reciprocalSquareRootWithTensor:name:", f_rsqrt, NULL, NULL}, {"signWithTensor:name:", f_sign, i_sign, NULL},
	{"reLUWithTensor:name:", f_relu, i_relu, NULL}, {"sigmoidWithTensor:name:", f_sigmoid, NULL, NULL},
	{"notWithTensor:name:", NULL, i_not, NULL}, {"bitwiseNOTWithTensor:name:", NULL, i_bitnot, NULL},
	{"isNaNWithTensor:name:", NULL, NULL, p_nan}, {"isInfiniteWithTensor:name:", NULL, NULL, p_inf},
	{"isFiniteWithTensor:name:", NULL, NULL, p_finite}, {"signbitWithTensor:name:", NULL, NULL, p_signbit},
};

static void eval_unary(const ms_node *n, ms_val **in, ms_val **out)
{
	int64_t k = n->i[0], m = out[0]->n;
	if (unary[k].p)
		for (int64_t j = 0; j < m; j++)
			out[0]->i[j] = unary[k].p(in[0]->f[j]);
	else if (ms_is_float(in[0]->dtype))
		for (int64_t j = 0; j < m; j++)
			out[0]->f[j] = (unary[k].f == erff && ms_faulty("erf") ? tanhf : unary[k].f)(in[0]->f[j]);
	else
		for (int64_t j = 0; j < m; j++)
			out[0]->i[j] = unary[k].i(in[0]->i[j]);
}
static int find(const char *sel, const void *table, size_t stride, int n)
{
	for (int k = 0; k < n; k++)
		if (!strcmp(*(const char *const *)((const char *)table + (size_t)k * stride), sel))
			return k;
	abort(); // registered below from the same table
}
IMP(g_unary)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	int k = find(b.n->op, unary, sizeof unary[0], ARRAY_LEN(unary));
	bool fl = ms_is_float(x->dtype), is_not = unary[k].i == i_not;
	if (fl ? !unary[k].f && !unary[k].p : !unary[k].i)
		ms_reject(&b, "mpsgraph-dtype", "not defined for %s", ms_dtype_name(x->dtype));
	if (is_not && x->dtype != MS_BOOL)
		ms_reject(&b, "mpsgraph-dtype", "logical not needs Bool, got %s", ms_dtype_name(x->dtype));
	b.n->i[0] = k;
	b.n->flops = (double)ms_count_of(&x->shape);
	ms_output(&b, &x->shape, unary[k].p ? MS_BOOL : x->dtype);
	ms_finish(&b, eval_unary);
}

// ---- binary ----
// maximum and minimum do not promise to keep NaN, the ...NaNPropagation... forms do; integers
// divide toward zero, floorModulo takes the sign of the divisor.
enum { ADD, SUB, MUL, DIV, DIV0, MOD, FMOD, POW, MIN, MAX, MINN, MAXN, ATAN2, EQ, NE, LT, LE, GT, GE, AND, OR, NAND, NOR, XOR, XNOR, BAND, BOR, BXOR };
static const struct { const char *sel; int op; } binary[] = {
	{"additionWithPrimaryTensor:secondaryTensor:name:", ADD}, {"subtractionWithPrimaryTensor:secondaryTensor:name:", SUB},
	{"multiplicationWithPrimaryTensor:secondaryTensor:name:", MUL}, {"divisionWithPrimaryTensor:secondaryTensor:name:", DIV},
	{"divisionNoNaNWithPrimaryTensor:secondaryTensor:name:", DIV0}, {"moduloWithPrimaryTensor:secondaryTensor:name:", MOD},
	{"floorModuloWithPrimaryTensor:secondaryTensor:name:", FMOD}, {"powerWithPrimaryTensor:secondaryTensor:name:", POW},
	{"minimumWithPrimaryTensor:secondaryTensor:name:", MIN}, {"maximumWithPrimaryTensor:secondaryTensor:name:", MAX},
	{"minimumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:", MINN},
	{"maximumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:", MAXN},
	{"atan2WithPrimaryTensor:secondaryTensor:name:", ATAN2}, {"equalWithPrimaryTensor:secondaryTensor:name:", EQ},
	{"notEqualWithPrimaryTensor:secondaryTensor:name:", NE}, {"lessThanWithPrimaryTensor:secondaryTensor:name:", LT},
	{"lessThanOrEqualToWithPrimaryTensor:secondaryTensor:name:", LE}, {"greaterThanWithPrimaryTensor:secondaryTensor:name:", GT},
	{"greaterThanOrEqualToWithPrimaryTensor:secondaryTensor:name:", GE}, {"logicalANDWithPrimaryTensor:secondaryTensor:name:", AND},
	{"logicalORWithPrimaryTensor:secondaryTensor:name:", OR}, {"logicalNANDWithPrimaryTensor:secondaryTensor:name:", NAND},
	{"logicalNORWithPrimaryTensor:secondaryTensor:name:", NOR}, {"logicalXORWithPrimaryTensor:secondaryTensor:name:", XOR},
	{"logicalXNORWithPrimaryTensor:secondaryTensor:name:", XNOR}, {"bitwiseANDWithPrimaryTensor:secondaryTensor:name:", BAND},
	{"bitwiseORWithPrimaryTensor:secondaryTensor:name:", BOR}, {"bitwiseXORWithPrimaryTensor:secondaryTensor:name:", BXOR},
};
static bool compares(int op) { return op >= EQ && op <= GE; }
static bool logical(int op) { return op >= AND && op <= XNOR; }

// One row: strides are 0 (repeated) or 1.
#define ROW(T, O, expr) do { for (int64_t j = 0; j < n; j++) { const T x = a[j * sa], y = b[j * sb]; o[j] = (O)(expr); } } while (0)
static void row_ff(int op, const float *a, int64_t sa, const float *b, int64_t sb, float *o, int64_t n)
{
	switch (op) {
	case ADD:
		if (sa == 1 && sb == 1)
			for (int64_t j = 0; j < n; j++)
				o[j] = a[j] + b[j];
		else
			ROW(float, float, x + y);
		return;
	case SUB: ROW(float, float, x - y); return;
	case MUL:
		if (sa == 1 && sb == 1)
			for (int64_t j = 0; j < n; j++)
				o[j] = a[j] * b[j];
		else
			ROW(float, float, x * y);
		return;
	case DIV: ROW(float, float, x / y); return;
	case DIV0: ROW(float, float, y == 0 ? 0 : x / y); return;
	case MOD: ROW(float, float, fmodf(x, y)); return;
	case FMOD: ROW(float, float, x - floorf(x / y) * y); return;
	case POW: ROW(float, float, powf(x, y)); return;
	case MIN: ROW(float, float, fminf(x, y)); return;
	case MAX: ROW(float, float, fmaxf(x, y)); return;
	case MINN: ROW(float, float, isnan(x) ? x : isnan(y) || y < x ? y : x); return;
	case MAXN: ROW(float, float, isnan(x) ? x : isnan(y) || y > x ? y : x); return;
	case ATAN2: ROW(float, float, atan2f(x, y)); return;
	}
}
static void row_fi(int op, const float *a, int64_t sa, const float *b, int64_t sb, int64_t *o, int64_t n)
{
	switch (op) {
	case EQ: ROW(float, int64_t, x == y); return;
	case NE: ROW(float, int64_t, x != y); return;
	case LT: ROW(float, int64_t, x < y); return;
	case LE: ROW(float, int64_t, x <= y); return;
	case GT: ROW(float, int64_t, x > y); return;
	case GE: ROW(float, int64_t, x >= y); return;
	}
}
static int64_t ipow(int64_t x, int64_t y)
{
	int64_t r = 1;
	for (; y > 0; y--)
		r *= x;
	return r;
}
static void row_ii(int op, const int64_t *a, int64_t sa, const int64_t *b, int64_t sb, int64_t *o, int64_t n)
{
	switch (op) {
	case ADD: ROW(int64_t, int64_t, x + y); return;
	case SUB: ROW(int64_t, int64_t, x - y); return;
	case MUL: ROW(int64_t, int64_t, x * y); return;
	case DIV: case DIV0: ROW(int64_t, int64_t, y ? x / y : 0); return;
	case MOD: ROW(int64_t, int64_t, y ? x % y : 0); return;
	case FMOD: ROW(int64_t, int64_t, y ? ((x % y) + y) % y : 0); return;
	case POW: ROW(int64_t, int64_t, ipow(x, y)); return;
	case MIN: case MINN: ROW(int64_t, int64_t, x < y ? x : y); return;
	case MAX: case MAXN: ROW(int64_t, int64_t, x > y ? x : y); return;
	case EQ: ROW(int64_t, int64_t, x == y); return;
	case NE: ROW(int64_t, int64_t, x != y); return;
	case LT: ROW(int64_t, int64_t, x < y); return;
	case LE: ROW(int64_t, int64_t, x <= y); return;
	case GT: ROW(int64_t, int64_t, x > y); return;
	case GE: ROW(int64_t, int64_t, x >= y); return;
	case AND: ROW(int64_t, int64_t, x && y); return;
	case OR: ROW(int64_t, int64_t, x || y); return;
	case NAND: ROW(int64_t, int64_t, !(x && y)); return;
	case NOR: ROW(int64_t, int64_t, !(x || y)); return;
	case XOR: ROW(int64_t, int64_t, !x != !y); return;
	case XNOR: ROW(int64_t, int64_t, !x == !y); return;
	case BAND: ROW(int64_t, int64_t, x & y); return;
	case BOR: ROW(int64_t, int64_t, x | y); return;
	case BXOR: ROW(int64_t, int64_t, x ^ y); return;
	}
}

// Broadcast walk over the result: strides of an operand are 0 where it repeats; trailing
// dimensions that run on in all operands are merged into one row.
typedef struct { int rank; int64_t d[MS_RANK], st[3][MS_RANK]; } walk;
static walk make_walk(const ms_shape *out, ms_val *const *in, int nin)
{
	walk w = {.rank = out->rank};
	for (int k = 0; k < nin; k++) {
		int64_t st[MS_RANK];
		ms_strides(&in[k]->shape, st);
		for (int i = 0; i < out->rank; i++) {
			int j = i - (out->rank - in[k]->shape.rank);
			w.st[k][i] = j < 0 || in[k]->shape.d[j] == 1 ? 0 : st[j];
		}
	}
	memcpy(w.d, out->d, sizeof w.d);
	if (w.rank == 0) {
		w.rank = 1;
		w.d[0] = 1;
	}
	while (w.rank > 1) {
		int l = w.rank - 1;
		bool merge = true;
		for (int k = 0; k < nin; k++)
			merge = merge && w.st[k][l - 1] == w.st[k][l] * w.d[l];
		if (!merge)
			break;
		w.d[l - 1] *= w.d[l];
		for (int k = 0; k < nin; k++)
			w.st[k][l - 1] = w.st[k][l];
		w.rank--;
	}
	return w;
}
// next_row moves the offsets to the next row; false at the end.
static bool next_row(const walk *w, int64_t *at, int64_t *off, int nin)
{
	for (int i = w->rank - 2; i >= 0; i--) {
		at[i]++;
		for (int k = 0; k < nin; k++)
			off[k] += w->st[k][i];
		if (at[i] < w->d[i])
			return true;
		for (int k = 0; k < nin; k++)
			off[k] -= w->st[k][i] * w->d[i];
		at[i] = 0;
	}
	return false;
}

static void eval_binary(const ms_node *n, ms_val **in, ms_val **out)
{
	walk w = make_walk(&out[0]->shape, in, 2);
	int64_t at[MS_RANK] = {0}, off[2] = {0}, row = w.d[w.rank - 1], o = 0;
	int64_t sa = w.st[0][w.rank - 1], sb = w.st[1][w.rank - 1];
	int op = (int)n->i[0];
	bool fl = ms_is_float(in[0]->dtype);
	do {
		if (fl && compares(op))
			row_fi(op, in[0]->f + off[0], sa, in[1]->f + off[1], sb, out[0]->i + o, row);
		else if (fl)
			row_ff(op, in[0]->f + off[0], sa, in[1]->f + off[1], sb, out[0]->f + o, row);
		else
			row_ii(op, in[0]->i + off[0], sa, in[1]->i + off[1], sb, out[0]->i + o, row);
		o += row;
	} while (next_row(&w, at, off, 2));
}
// No promotion: a Float16 and a Float32 operand is an assertion, even for a scalar constant.
IMP(g_binary)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *y = ms_input(&b, c->a[1].o);
	int op = binary[find(b.n->op, binary, sizeof binary[0], ARRAY_LEN(binary))].op;
	ms_shape s;
	ms_same_dtype(&b, x, y);
	if (!ms_broadcast(&x->shape, &y->shape, &s))
		ms_reject(&b, "mpsgraph-shape", "shapes %s and %s do not broadcast", ms_shape_text(&x->shape), ms_shape_text(&y->shape));
	if (logical(op) && x->dtype != MS_BOOL)
		ms_reject(&b, "mpsgraph-dtype", "logical operation on %s", ms_dtype_name(x->dtype));
	if (op >= BAND && ms_is_float(x->dtype))
		ms_reject(&b, "mpsgraph-dtype", "bitwise operation on %s", ms_dtype_name(x->dtype));
	if (!compares(op) && !logical(op) && x->dtype == MS_BOOL)
		ms_reject(&b, "mpsgraph-dtype", "arithmetic on Bool");
	b.n->i[0] = op;
	b.n->flops = b.bad ? 0 : (double)ms_count_of(&s);
	ms_output(&b, &s, compares(op) || logical(op) ? MS_BOOL : x->dtype);
	ms_finish(&b, eval_binary);
}

// ---- select, clamp ----
static void eval_select(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	walk w = make_walk(&out[0]->shape, in, 3);
	int64_t at[MS_RANK] = {0}, off[3] = {0}, row = w.d[w.rank - 1], o = 0;
	const int64_t *st[3] = {w.st[0], w.st[1], w.st[2]};
	int l = w.rank - 1;
	bool fl = ms_is_float(out[0]->dtype);
	do {
		for (int64_t j = 0; j < row; j++) {
			int pick = in[0]->i[off[0] + j * st[0][l]] ? 1 : 2;
			int64_t from = off[pick] + j * st[pick][l];
			if (fl)
				out[0]->f[o + j] = in[pick]->f[from];
			else
				out[0]->i[o + j] = in[pick]->i[from];
		}
		o += row;
	} while (next_row(&w, at, off, 3));
}
static void eval_clamp(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	walk w = make_walk(&out[0]->shape, in, 3);
	int64_t at[MS_RANK] = {0}, off[3] = {0}, row = w.d[w.rank - 1], o = 0;
	int l = w.rank - 1;
	bool fl = ms_is_float(out[0]->dtype);
	do {
		for (int64_t j = 0; j < row; j++) {
			int64_t x = off[0] + j * w.st[0][l], lo = off[1] + j * w.st[1][l], hi = off[2] + j * w.st[2][l];
			if (fl)
				out[0]->f[o + j] = fminf(fmaxf(in[0]->f[x], in[1]->f[lo]), in[2]->f[hi]);
			else
				out[0]->i[o + j] = in[0]->i[x] < in[1]->i[lo] ? in[1]->i[lo] : in[0]->i[x] > in[2]->i[hi] ? in[2]->i[hi] : in[0]->i[x];
		}
		o += row;
	} while (next_row(&w, at, off, 3));
}
// All three operands broadcast against each other.
static void ternary(ms_call *c, bool select)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o), *y = ms_input(&b, c->a[1].o), *z = ms_input(&b, c->a[2].o);
	ms_shape s, t;
	ms_same_dtype(&b, y, z);
	if (select ? x->dtype != MS_BOOL : x->dtype != y->dtype)
		ms_reject(&b, "mpsgraph-dtype", "first operand is %s, want %s", ms_dtype_name(x->dtype), select ? "Bool" : ms_dtype_name(y->dtype));
	if (!ms_broadcast(&x->shape, &y->shape, &t) || !ms_broadcast(&t, &z->shape, &s))
		ms_reject(&b, "mpsgraph-shape", "shapes %s, %s and %s do not broadcast", ms_shape_text(&x->shape), ms_shape_text(&y->shape), ms_shape_text(&z->shape));
	ms_output(&b, &s, y->dtype);
	ms_finish(&b, select ? eval_select : eval_clamp);
}
IMP(g_select) { ternary(c, true); }
IMP(g_clamp) { ternary(c, false); }

// ---- cast ----
// Float to integer truncates, any number to Bool compares with zero.
static void eval_cast(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	bool from = ms_is_float(in[0]->dtype), to = ms_is_float(out[0]->dtype);
	int64_t m = out[0]->n;
	if (from && to)
		memcpy(out[0]->f, in[0]->f, (size_t)m * 4);
	else if (to)
		for (int64_t j = 0; j < m; j++)
			out[0]->f[j] = (float)in[0]->i[j];
	else {
		for (int64_t j = 0; j < m; j++) {
			int64_t v = from ? out[0]->dtype == MS_BOOL ? in[0]->f[j] != 0 : (int64_t)in[0]->f[j] : in[0]->i[j];
			out[0]->i[j] = out[0]->dtype == MS_BOOL ? v != 0 : v;
		}
		int64_t narrow = ms_dtype_size(out[0]->dtype);
		if (narrow < 8) { // keep the low bits, as a store and load of that type does
			uint8_t *tmp = malloc((size_t)(m * narrow));
			ms_store(out[0]->i, out[0]->dtype, m, tmp);
			ms_load(tmp, out[0]->dtype, m, out[0]->i);
			free(tmp);
		}
	}
}
IMP(g_cast)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = ms_input(&b, c->a[0].o);
	ms_output(&b, &x->shape, (uint32_t)c->a[1].q);
	ms_finish(&b, eval_cast);
}

// ---- activations with a parameter, gradients ----
enum { LEAKY, RELU_GRAD, SIGMOID_GRAD };
static void eval_activation(const ms_node *n, ms_val **in, ms_val **out)
{
	for (int64_t j = 0; j < out[0]->n; j++) {
		float x = in[0]->f[j], y = n->nin > 1 ? in[1]->f[j] : 0, s = f_sigmoid(y);
		out[0]->f[j] = n->i[0] == LEAKY ? (x < 0 ? (float)n->f[0] * x : x) : n->i[0] == RELU_GRAD ? (y > 0 ? x : 0) : x * s * (1 - s);
	}
}
static void activation(ms_call *c, int kind, int inputs)
{
	ms_builder b = ms_begin(c);
	const ms_value *x = NULL;
	for (int k = 0; k < inputs; k++) {
		const ms_value *v = ms_input(&b, c->a[k].o);
		ms_need_float(&b, v);
		if (x && (!ms_same_shape(&x->shape, &v->shape) || x->dtype != v->dtype))
			ms_reject(&b, "mpsgraph-shape", "gradient %s %s of a source %s %s", ms_dtype_name(x->dtype), ms_shape_text(&x->shape), ms_dtype_name(v->dtype), ms_shape_text(&v->shape));
		x = v;
	}
	b.n->i[0] = kind;
	b.n->f[0] = kind == LEAKY ? c->a[1].d : 0;
	ms_output(&b, &x->shape, x->dtype);
	ms_finish(&b, eval_activation);
}
IMP(g_leaky) { activation(c, LEAKY, 1); }
IMP(g_relu_grad) { activation(c, RELU_GRAD, 2); }
IMP(g_sigmoid_grad) { activation(c, SIGMOID_GRAD, 2); }

static const ms_impl impls[] = {
	{"-selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:", g_select},
	{"-clampWithTensor:minValueTensor:maxValueTensor:name:", g_clamp}, {"-castTensor:toType:name:", g_cast},
	{"-leakyReLUWithTensor:alpha:name:", g_leaky}, {"-reLUGradientWithIncomingGradient:sourceTensor:name:", g_relu_grad},
	{"-sigmoidGradientWithIncomingGradient:sourceTensor:name:", g_sigmoid_grad},
};

void ms_init_elementwise(void)
{
	MS_IMPLEMENT("MPSGraph", impls);
	for (int k = 0; k < ARRAY_LEN(unary) + ARRAY_LEN(binary); k++) {
		char *sel = calloc(1, 160);
		const char *stem = k < ARRAY_LEN(unary) ? unary[k].sel : binary[k - ARRAY_LEN(unary)].sel;
		sel[0] = '-';
		memcpy(sel + 1, stem, strlen(stem));
		ms_impl one = {sel, k < ARRAY_LEN(unary) ? g_unary : g_binary};
		ms_implement("MPSGraph", &one, 1);
		free(sel);
	}
}
