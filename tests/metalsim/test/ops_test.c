// SPDX-License-Identifier: Apache-2.0
// Ops against values worked out by hand from Apple's descriptions, and the shapes and types
// that MPSGraph rejects.
#include "graph.h"
#define T(sel, types, ...) M(id, types, g.graph, sel, ##__VA_ARGS__, NULL)

static void unary_ops(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(4), -1.5f, 0.25f, 0.5f, 2.5f);
	struct { const char *sel; float want[4]; } t[] = {
		{"absoluteWithTensor:name:", {1.5f, 0.25f, 0.5f, 2.5f}}, {"floorWithTensor:name:", {-2, 0, 0, 2}}, {"ceilWithTensor:name:", {-1, 1, 1, 3}},
		{"roundWithTensor:name:", {-2, 0, 1, 3}}, {"rintWithTensor:name:", {-2, 0, 0, 2}}, {"truncateWithTensor:name:", {-1, 0, 0, 2}},
		{"negativeWithTensor:name:", {1.5f, -0.25f, -0.5f, -2.5f}}, {"squareWithTensor:name:", {2.25f, 0.0625f, 0.25f, 6.25f}},
		{"reLUWithTensor:name:", {0, 0.25f, 0.5f, 2.5f}}, {"signWithTensor:name:", {-1, 1, 1, 1}},
		{"exponentWithTensor:name:", {0.22313016f, 1.2840254f, 1.6487213f, 12.182494f}}, {"tanhWithTensor:name:", {-0.90514825f, 0.24491866f, 0.46211716f, 0.98661430f}},
		{"erfWithTensor:name:", {-0.96610515f, 0.27632639f, 0.52049988f, 0.99959305f}}, {"sigmoidWithTensor:name:", {0.18242552f, 0.56217650f, 0.62245933f, 0.92414182f}},
		{"sinWithTensor:name:", {-0.99749499f, 0.24740396f, 0.47942554f, 0.59847214f}}, {"cosWithTensor:name:", {0.07073720f, 0.96891242f, 0.87758256f, -0.80114362f}},
		{"squareRootWithTensor:name:", {NAN, 0.5f, 0.70710678f, 1.58113883f}}, {"reciprocalSquareRootWithTensor:name:", {NAN, 2, 1.41421356f, 0.63245553f}},
		{"reciprocalWithTensor:name:", {-0.66666667f, 4, 2, 0.4f}}, {"logarithmWithTensor:name:", {NAN, -1.38629436f, -0.69314718f, 0.91629073f}},
		{"exponentBase2WithTensor:name:", {0.35355339f, 1.18920712f, 1.41421356f, 5.65685425f}}, {"identityWithTensor:name:", {-1.5f, 0.25f, 0.5f, 2.5f}},
	};
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
		near_all(__FILE__, __LINE__, EVALF(&g, unary(&g, t[i].sel, x)), t[i].want, 4, 2e-7);
	const uint8_t *b = eval(&g, unary(&g, "isNaNWithTensor:name:", unary(&g, "squareRootWithTensor:name:", x)));
	CHECK(b[0] == 1 && b[1] == 0);
	WANT(EVALF(&g, T("leakyReLUWithTensor:alpha:name:", (id, SEL, id, double, id), x, 0.5)), 0, -0.75f, 0.25f, 0.5f, 2.5f);
	graph_end(&g);
}

static void binary_ops(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 2), 7, -7, 2, 0), y = FEED(&g, INTS(2, 1), 3, 0.5f);
	WANT(EVALF(&g, binary(&g, "addition", x, y)), 0, 10, -4, 2.5f, 0.5f);
	WANT(EVALF(&g, binary(&g, "subtraction", y, x)), 0, -4, 10, -1.5f, 0.5f);
	WANT(EVALF(&g, binary(&g, "division", x, y)), 1e-7, 7.f / 3, -7.f / 3, 4, 0);
	WANT(EVALF(&g, binary(&g, "modulo", x, y)), 1e-6, 1, -1, 0, 0);
	WANT(EVALF(&g, binary(&g, "floorModulo", x, y)), 1e-6, 1, 2, 0, 0);
	WANT(EVALF(&g, binary(&g, "power", y, FEED(&g, INTS(1), 2))), 0, 9, 0.25f);
	WANT(EVALF(&g, binary(&g, "maximum", x, y)), 0, 7, 3, 2, 0.5f);
	id less = binary(&g, "lessThan", x, y);
	CHECK(type_of(less) == BOOL8);
	const uint8_t *b = eval(&g, less);
	CHECK(b[0] == 0 && b[1] == 1 && b[2] == 0 && b[3] == 1);
	WANT(EVALF(&g, T("selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:", (id, SEL, id, id, id, id), less, y, x)), 0, 7, 3, 2, 0.5f);
	id lo = constant(&g, INTS(1), (float[]){-1}, 1), hi = constant(&g, INTS(1), (float[]){1}, 1);
	WANT(EVALF(&g, T("clampWithTensor:minValueTensor:maxValueTensor:name:", (id, SEL, id, id, id, id), x, lo, hi)), 0, 1, -1, 1, 0);
	CHECK(!binary(&g, "addition", x, FEED(&g, INTS(3), 1, 2, 3)));
	EXPECT("mpsgraph-shape");
	CHECK(!binary(&g, "addition", x, less));
	EXPECT("mpsgraph-dtype");
	CHECK(!binary(&g, "logicalAND", x, x));
	EXPECT("mpsgraph-dtype");
	CHECK(!binary(&g, "addition", x, NULL));
	EXPECT("nil-arg");
	id i = T("castTensor:toType:name:", (id, SEL, id, uint32_t, id), FEED(&g, INTS(3), 1.9f, -1.9f, 300), (uint32_t)I32);
	CHECK(EVALI(&g, i)[0] == 1 && EVALI(&g, i)[1] == -1 && EVALI(&g, i)[2] == 300);
	CHECK(!unary(&g, "exponentWithTensor:name:", i));
	EXPECT("mpsgraph-dtype");
	graph_end(&g);
}

static void reductions(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 3), 1, 5, 3, -2, 0, 8);
	id s = T("reductionSumWithTensor:axis:name:", (id, SEL, id, int64_t, id), x, (int64_t)-1);
	SHAPE(s, 2, 1); // the dimension stays
	WANT(EVALF(&g, s), 0, 9, 6);
	WANT(EVALF(&g, T("reductionMaximumWithTensor:axes:name:", (id, SEL, id, id, id), x, INTS(0))), 0, 1, 5, 8);
	WANT(EVALF(&g, T("reductionMinimumWithTensor:axes:name:", (id, SEL, id, id, id), x, NULL)), 0, -2);
	id m = T("meanOfTensor:axes:name:", (id, SEL, id, id, id), x, INTS(1)), v = T("varianceOfTensor:meanTensor:axes:name:", (id, SEL, id, id, id, id), x, m, INTS(1));
	WANT(EVALF(&g, m), 1e-7, 3, 2);
	WANT(EVALF(&g, v), 1e-6, 8.f / 3, 56.f / 3); // biased
	const int32_t *a = EVALI(&g, T("reductionArgMaximumWithTensor:axis:name:", (id, SEL, id, int64_t, id), x, (int64_t)1));
	CHECK(a[0] == 1 && a[1] == 2);
	id sm = T("softMaxWithTensor:axis:name:", (id, SEL, id, int64_t, id), x, (int64_t)1);
	WANT(EVALF(&g, sm), 1e-6, 0.015876240f, 0.86681333f, 0.11731043f, 4.5382e-5f, 3.3533e-4f, 0.99961932f);
	WANT(EVALF(&g, T("cumulativeSumWithTensor:axis:exclusive:reverse:name:", (id, SEL, id, int64_t, bool, bool, id), x, (int64_t)1, true, true)), 0, 8, 3, 0, 8, 8, 0);
	id ga = FEED(&g, INTS(3), 1, 2, 3), be = FEED(&g, INTS(3), 0, 0, 10);
	id n = T("normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:", (id, SEL, id, id, id, id, id, float, id), x, m, v, ga, be, 1e-6f);
	WANT(EVALF(&g, n), 1e-5, -1.2247447f, 2.4494894f, 10, -0.92582f, -0.92582f, 14.16619f);
	CHECK(!T("normalizationWithTensor:meanTensor:varianceTensor:gammaTensor:betaTensor:epsilon:name:", (id, SEL, id, id, id, id, id, double, id), x, m, v, ga, be, 1e-6) || 1);
	VIOLATED("arg-width"); // epsilon is a float
	CHECK(!T("reductionSumWithTensor:axis:name:", (id, SEL, id, int64_t, id), x, (int64_t)2));
	EXPECT("mpsgraph-shape");
	CHECK(!T("softMaxWithTensor:axis:name:", (id, SEL, id, int64_t, id), binary(&g, "equal", x, x), (int64_t)0));
	EXPECT("mpsgraph-dtype");
	graph_end(&g);
}

static void shape_ops(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 3), 0, 1, 2, 3, 4, 5);
	id r = T("reshapeTensor:withShape:name:", (id, SEL, id, id, id), x, INTS(3, -1));
	SHAPE(r, 3, 2);
	CHECK(!T("reshapeTensor:withShape:name:", (id, SEL, id, id, id), x, INTS(4, 2)));
	EXPECT("mpsgraph-shape");
	WANT(EVALF(&g, T("transposeTensor:permutation:name:", (id, SEL, id, id, id), x, INTS(1, 0))), 0, 0, 3, 1, 4, 2, 5);
	WANT(EVALF(&g, T("transposeTensor:dimension:withDimension:name:", (id, SEL, id, uint64_t, uint64_t, id), x, (uint64_t)-1, (uint64_t)-2)), 0, 0, 3, 1, 4, 2, 5);
	CHECK(!T("transposeTensor:permutation:name:", (id, SEL, id, id, id), x, INTS(1, 1)));
	EXPECT("mpsgraph-shape");
	id col = T("expandDimsOfTensor:axis:name:", (id, SEL, id, int64_t, id), FEED(&g, INTS(2), 8, 9), (int64_t)1);
	WANT(EVALF(&g, T("broadcastTensor:toShape:name:", (id, SEL, id, id, id), col, INTS(2, 2, 2))), 0, 8, 8, 9, 9, 8, 8, 9, 9);
	WANT(EVALF(&g, T("sliceTensor:dimension:start:length:name:", (id, SEL, id, uint64_t, int64_t, int64_t, id), x, (uint64_t)1, (int64_t)-2, (int64_t)2)), 0, 1, 2, 4, 5);
	CHECK(!T("sliceTensor:dimension:start:length:name:", (id, SEL, id, uint64_t, int64_t, int64_t, id), x, (uint64_t)1, (int64_t)2, (int64_t)2));
	EXPECT("mpsgraph-shape");
	WANT(EVALF(&g, T("sliceTensor:starts:ends:strides:name:", (id, SEL, id, id, id, id, id), x, INTS(0, 0), INTS(2, 3), INTS(1, 2))), 0, 0, 2, 3, 5);
	WANT(EVALF(&g, T("sliceTensor:starts:ends:strides:name:", (id, SEL, id, id, id, id, id), x, INTS(-1, 0), INTS(2, -1), INTS(1, 1))), 0, 3, 4);
	WANT(EVALF(&g, T("concatTensors:dimension:name:", (id, SEL, id, int64_t, id), array(2, x, x), (int64_t)1)), 0, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
	id st = T("stackTensors:axis:name:", (id, SEL, id, int64_t, id), array(2, x, x), (int64_t)-1);
	SHAPE(st, 2, 3, 2);
	id parts = T("splitTensor:splitSizes:axis:name:", (id, SEL, id, id, int64_t, id), x, INTS(1, 2), (int64_t)1);
	WANT(EVALF(&g, M(id, (id, SEL, uint64_t), parts, "objectAtIndex:", (uint64_t)1)), 0, 1, 2, 4, 5);
	CHECK(!T("splitTensor:splitSizes:axis:name:", (id, SEL, id, id, int64_t, id), x, INTS(1, 1), (int64_t)1));
	EXPECT("mpsgraph-shape");
	CHECK(!T("squeezeTensor:axis:name:", (id, SEL, id, int64_t, id), x, (int64_t)0));
	EXPECT("mpsgraph-shape");
	id p = FEED(&g, INTS(3), 1, 2, 3);
	struct { int64_t mode; float want[7]; } pads[] = {{0, {9, 9, 1, 2, 3, 9, 9}}, {1, {3, 2, 1, 2, 3, 2, 1}}, {2, {2, 1, 1, 2, 3, 3, 2}}, {3, {1, 1, 1, 2, 3, 3, 3}}};
	for (int i = 0; i < 4; i++)
		near_all(__FILE__, __LINE__, EVALF(&g, T("padTensor:withPaddingMode:leftPadding:rightPadding:constantValue:name:", (id, SEL, id, int64_t, id, id, double, id), p, pads[i].mode, INTS(2), INTS(2), 9.0)), pads[i].want, 7, 0);
	WANT(EVALF(&g, T("tileTensor:withMultiplier:name:", (id, SEL, id, id, id), p, INTS(2))), 0, 1, 2, 3, 1, 2, 3);
	WANT(EVALF(&g, T("reverseTensor:axes:name:", (id, SEL, id, id, id), x, INTS(1))), 0, 2, 1, 0, 5, 4, 3);
	graph_end(&g);
}

static void depth_to_space(void)
{
	Graph g = graph_begin();
	float v[8];
	for (int i = 0; i < 8; i++)
		v[i] = (float)i;
	id x = feed(&g, F32, INTS(1, 8, 1, 1), v, sizeof v); // NCHW, 8 channels, block 2
	id y = T("depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", (id, SEL, id, uint64_t, uint64_t, uint64_t, uint64_t, bool, id), x, (uint64_t)3, (uint64_t)2, (uint64_t)1, (uint64_t)2, true);
	SHAPE(y, 1, 2, 2, 2);
	WANT(EVALF(&g, y), 0, 0, 1, 2, 3, 4, 5, 6, 7); // nn.PixelShuffle: depth = c r^2 + dy r + dx
	y = T("depthToSpace2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", (id, SEL, id, uint64_t, uint64_t, uint64_t, uint64_t, bool, id), x, (uint64_t)3, (uint64_t)2, (uint64_t)1, (uint64_t)2, false);
	WANT(EVALF(&g, y), 0, 0, 2, 4, 6, 1, 3, 5, 7);
	id back = T("spaceToDepth2DTensor:widthAxis:heightAxis:depthAxis:blockSize:usePixelShuffleOrder:name:", (id, SEL, id, uint64_t, uint64_t, uint64_t, uint64_t, bool, id), y, (uint64_t)3, (uint64_t)2, (uint64_t)1, (uint64_t)2, false);
	near_all(__FILE__, __LINE__, EVALF(&g, back), v, 8, 0);
	graph_end(&g);
}

static void index_ops(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(3, 2), 1, 2, 3, 4, 5, 6);
	int32_t iv[] = {2, 0};
	id ix = feed(&g, I32, INTS(2), iv, sizeof iv);
	WANT(EVALF(&g, T("gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:", (id, SEL, id, id, uint64_t, uint64_t, id), x, ix, (uint64_t)0, (uint64_t)0)), 0, 5, 6, 1, 2);
	id u = FEED(&g, INTS(2, 2), 10, 20, 30, 40);
	WANT(EVALF(&g, T("scatterWithDataTensor:updatesTensor:indicesTensor:axis:mode:name:", (id, SEL, id, id, id, int64_t, int64_t, id), x, u, ix, (int64_t)0, (int64_t)0)), 0, 31, 42, 3, 4, 15, 26);
	WANT(EVALF(&g, T("scatterWithUpdatesTensor:indicesTensor:shape:axis:mode:name:", (id, SEL, id, id, id, int64_t, int64_t, id), u, ix, INTS(3, 2), (int64_t)0, (int64_t)6)), 0, 30, 40, 0, 0, 10, 20);
	int32_t av[] = {1, 0, 0, 1, 1, 1};
	id al = feed(&g, I32, INTS(3, 2), av, sizeof av);
	WANT(EVALF(&g, T("gatherAlongAxis:withUpdatesTensor:indicesTensor:name:", (id, SEL, int64_t, id, id, id), (int64_t)1, x, al)), 0, 2, 1, 3, 4, 6, 6);
	id top = T("topKWithSourceTensor:axis:k:name:", (id, SEL, id, int64_t, uint64_t, id), x, (int64_t)0, (uint64_t)2);
	WANT(EVALF(&g, M(id, (id, SEL, uint64_t), top, "objectAtIndex:", (uint64_t)0)), 0, 5, 6, 3, 4);
	id ti = M(id, (id, SEL, uint64_t), top, "objectAtIndex:", (uint64_t)1);
	CHECK(type_of(ti) == I32 && EVALI(&g, ti)[0] == 2 && EVALI(&g, ti)[2] == 1);
	WANT(EVALF(&g, T("sortWithTensor:axis:descending:name:", (id, SEL, id, int64_t, bool, id), x, (int64_t)0, true)), 0, 5, 6, 3, 4, 1, 2);
	id mixed = T("sortWithTensor:axis:descending:name:", (id, SEL, id, int64_t, bool, id), FEED(&g, INTS(5), 2, 9, -1, 9, 4), (int64_t)0, true);
	WANT(EVALF(&g, mixed), 0, 9, 9, 4, 2, -1);
	id oh = T("oneHotWithIndicesTensor:depth:dataType:name:", (id, SEL, id, uint64_t, uint32_t, id), ix, (uint64_t)3, F32);
	WANT(EVALF(&g, oh), 0, 0, 0, 1, 1, 0, 0);
	int32_t bad[] = {3, 0};
	id b = feed(&g, I32, INTS(2), bad, sizeof bad);
	eval(&g, T("gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:", (id, SEL, id, id, uint64_t, uint64_t, id), x, b, (uint64_t)0, (uint64_t)0));
	EXPECT("index-range");
	CHECK(!T("gatherWithUpdatesTensor:indicesTensor:axis:batchDimensions:name:", (id, SEL, id, id, uint64_t, uint64_t, id), x, x, (uint64_t)0, (uint64_t)0));
	EXPECT("mpsgraph-dtype");
	graph_end(&g);
}

static float rnd(unsigned *s)
{
	*s = *s * 1664525u + 1013904223u;
	return (float)(*s >> 8) / (1 << 23) - 1;
}
static void fill(float *p, int n, unsigned seed)
{
	for (int i = 0; i < n; i++)
		p[i] = rnd(&seed);
}

static void products(void)
{
	Graph g = graph_begin();
	float a[2 * 5 * 37], b[37 * 21], want[2 * 5 * 21];
	fill(a, 370, 1);
	fill(b, 777, 2);
	for (int i = 0; i < 10; i++)
		for (int j = 0; j < 21; j++) {
			double s = 0;
			for (int k = 0; k < 37; k++)
				s += (double)a[i * 37 + k] * b[k * 21 + j];
			want[i * 21 + j] = (float)s;
		}
	id x = feed(&g, F32, INTS(2, 5, 37), a, sizeof a), y = feed(&g, F32, INTS(37, 21), b, sizeof b), m = binary(&g, "matrixMultiplication", x, y);
	SHAPE(m, 2, 5, 21);
	near_all(__FILE__, __LINE__, EVALF(&g, m), want, 210, 2e-6);
	CHECK(!binary(&g, "matrixMultiplication", y, x));
	EXPECT("mpsgraph-shape");
	CHECK(!binary(&g, "matrixMultiplication", x, FEED(&g, INTS(1), 1)));
	EXPECT("mpsgraph-shape");
	graph_end(&g);
}

#define SDPA "scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:maskTensor:scale:name:"
static void attention(void)
{
	enum { H = 2, N = 3, K = 4, F = 5 };
	Graph g = graph_begin();
	float q[H * N * F], k[H * K * F], v[H * K * F], mask[N * K] = {0, -1, 0, 2, 0, 0, 0, 0, -3, 0, 1, 0}, want[H * N * F];
	fill(q, H * N * F, 3);
	fill(k, H * K * F, 4);
	fill(v, H * K * F, 5);
	for (int h = 0; h < H; h++)
		for (int i = 0; i < N; i++) {
			double s[K], sum = 0;
			for (int j = 0; j < K; j++) {
				double d = 0;
				for (int f = 0; f < F; f++)
					d += (double)q[(h * N + i) * F + f] * k[(h * K + j) * F + f];
				sum += s[j] = exp(d * 0.5 + mask[i * K + j]);
			}
			for (int f = 0; f < F; f++) {
				double o = 0;
				for (int j = 0; j < K; j++)
					o += s[j] / sum * v[(h * K + j) * F + f];
				want[(h * N + i) * F + f] = (float)o;
			}
		}
	id tq = feed(&g, F32, INTS(1, H, N, F), q, sizeof q), tk = feed(&g, F32, INTS(1, H, K, F), k, sizeof k), tv = feed(&g, F32, INTS(1, H, K, F), v, sizeof v);
	id tm = feed(&g, F32, INTS(N, K), mask, sizeof mask), o = T(SDPA, (id, SEL, id, id, id, id, float, id), tq, tk, tv, tm, 0.5f);
	SHAPE(o, 1, H, N, F);
	near_all(__FILE__, __LINE__, EVALF(&g, o), want, H * N * F, 1e-6);
	CHECK(T(SDPA, (id, SEL, id, id, id, id, float, id), tq, tk, tv, NULL, 0.5f) != NULL); // the mask may be nil
	// [B,N,H,hd] instead of [B,H,N,hd]: the heads do not agree
	id mixed = T("reshapeTensor:withShape:name:", (id, SEL, id, id, id), tq, INTS(1, N, H, F));
	CHECK(!T(SDPA, (id, SEL, id, id, id, id, float, id), mixed, tk, tv, tm, 0.5f));
	EXPECT("mpsgraph-shape");
	id deep = T("reshapeTensor:withShape:name:", (id, SEL, id, id, id), tq, INTS(1, 1, H, N, F));
	CHECK(!T(SDPA, (id, SEL, id, id, id, id, float, id), deep, tk, tv, tm, 0.5f));
	EXPECT("mpsgraph-shape");
	T(SDPA, (id, SEL, id, id, id, id, double, id), tq, tk, tv, tm, 0.1);
	VIOLATED("arg-width"); // scale is a float
	metalsim_set("os", "14.5");
	CHECK(!T(SDPA, (id, SEL, id, id, id, id, float, id), tq, tk, tv, tm, 0.5f));
	EXPECT("unknown-selector");
	graph_end(&g);
}

// ---- convolutions against the direct sum ----
typedef struct { int c, h, w, o, k, s, p, d, groups; } Conv;
static id conv_desc(const Conv *v, uint64_t data, uint64_t weights)
{
	uint64_t s = (uint64_t)v->s, d = (uint64_t)v->d, p = (uint64_t)v->p;
	return M(id, (id, SEL, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t), CLS("MPSGraphConvolution2DOpDescriptor"),
		 "descriptorWithStrideInX:strideInY:dilationRateInX:dilationRateInY:groups:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:weightsLayout:",
		 s, s, d, d, (uint64_t)v->groups, p, p, p, p, (uint64_t)0, data, weights);
}
static int out(int n, const Conv *v) { return (n + 2 * v->p - v->d * (v->k - 1) - 1) / v->s + 1; }
// each term of the sum: y[o][oy][ox] += x[c][iy][ix] * w[o][c/g][ky][kx]
static void terms(const Conv *v, float *y, float *x, float *w, int what)
{
	int oh = out(v->h, v), ow = out(v->w, v), cg = v->c / v->groups, og = v->o / v->groups;
	for (int o = 0; o < v->o; o++)
		for (int i = 0; i < cg; i++)
			for (int t = 0; t < v->k * v->k; t++)
				for (int r = 0; r < oh * ow; r++) {
					int iy = r / ow * v->s - v->p + t / v->k * v->d, ix = r % ow * v->s - v->p + t % v->k * v->d;
					if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w)
						continue;
					float *yy = &y[o * oh * ow + r], *xx = &x[((o / og * cg + i) * v->h + iy) * v->w + ix], *ww = &w[(o * cg + i) * v->k * v->k + t];
					*(what == 0 ? yy : what == 1 ? xx : ww) += what == 0 ? *xx * *ww : what == 1 ? *yy * *ww : *yy * *xx;
				}
}
static void convolutions(void)
{
	Conv cases[] = {{4, 7, 6, 6, 3, 1, 1, 1, 1}, {4, 7, 6, 6, 3, 2, 1, 1, 2}, {2, 9, 9, 3, 3, 1, 0, 2, 1}, {3, 4, 5, 2, 1, 1, 0, 1, 1}, {3, 8, 8, 5, 2, 2, 0, 1, 1}};
	for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
		Conv *v = &cases[n];
		Graph g = graph_begin();
		int nx = v->c * v->h * v->w, nw = v->o * (v->c / v->groups) * v->k * v->k, oh = out(v->h, v), ow = out(v->w, v), ny = v->o * oh * ow;
		float x[512], w[512], y[512], got[512] = {0};
		fill(x, nx, 7);
		fill(w, nw, 8);
		fill(y, ny, 9);
		id tx = feed(&g, F32, INTS(1, v->c, v->h, v->w), x, nx * 4), tw = feed(&g, F32, INTS(v->o, v->c / v->groups, v->k, v->k), w, nw * 4);
		id ty = feed(&g, F32, INTS(1, v->o, oh, ow), y, ny * 4), d = conv_desc(v, 0, 2);
		id c = T("convolution2DWithSourceTensor:weightsTensor:descriptor:name:", (id, SEL, id, id, id, id), tx, tw, d);
		SHAPE(c, 1, v->o, oh, ow);
		terms(v, got, x, w, 0);
		near_all(__FILE__, __LINE__, EVALF(&g, c), got, ny, 3e-6);
		// NHWC and HWIO of the same data
		id nhwc = T("transposeTensor:permutation:name:", (id, SEL, id, id, id), tx, INTS(0, 2, 3, 1)), hwio = T("transposeTensor:permutation:name:", (id, SEL, id, id, id), tw, INTS(2, 3, 1, 0));
		id c2 = T("convolution2DWithSourceTensor:weightsTensor:descriptor:name:", (id, SEL, id, id, id, id), nhwc, hwio, conv_desc(v, 1, 3));
		near_all(__FILE__, __LINE__, EVALF(&g, T("transposeTensor:permutation:name:", (id, SEL, id, id, id), c2, INTS(0, 3, 1, 2))), got, ny, 3e-6);
		memset(got, 0, sizeof got);
		terms(v, y, got, w, 1);
		id dg = T("convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name:", (id, SEL, id, id, id, id, id), ty, tw, INTS(1, v->c, v->h, v->w), d);
		near_all(__FILE__, __LINE__, EVALF(&g, dg), got, nx, 3e-6);
		memset(got, 0, sizeof got);
		terms(v, y, x, got, 2);
		id wg = T("convolution2DWeightsGradientWithIncomingGradientTensor:sourceTensor:outputShape:forwardConvolutionDescriptor:name:", (id, SEL, id, id, id, id, id), ty, tx, INTS(v->o, v->c / v->groups, v->k, v->k), d);
		near_all(__FILE__, __LINE__, EVALF(&g, wg), got, nw, 3e-6);
		CHECK(!T("convolution2DWithSourceTensor:weightsTensor:descriptor:name:", (id, SEL, id, id, id, id), tx, tw, conv_desc(v, 1, 2)));
		EXPECT("mpsgraph-shape"); // NHWC declared, NCHW given
		CHECK(!T("convolutionTranspose2DWithSourceTensor:weightsTensor:outputShape:descriptor:name:", (id, SEL, id, id, id, id, id), ty, tw, INTS(1, v->c, v->h + 9, v->w), d));
		EXPECT("mpsgraph-shape");
		graph_end(&g);
	}
}

static void pooling(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(1, 1, 3, 3), 1, 2, 3, 4, 9, 6, 7, 8, 5);
	id d = M(id, (id, SEL, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t), CLS("MPSGraphPooling2DOpDescriptor"), "descriptorWithKernelWidth:kernelHeight:strideInX:strideInY:paddingStyle:dataLayout:",
		 (uint64_t)2, (uint64_t)2, (uint64_t)1, (uint64_t)1, (uint64_t)1, (uint64_t)0);
	WANT(EVALF(&g, T("maxPooling2DWithSourceTensor:descriptor:name:", (id, SEL, id, id, id), x, d)), 0, 9, 9, 9, 9);
	WANT(EVALF(&g, T("avgPooling2DWithSourceTensor:descriptor:name:", (id, SEL, id, id, id), x, d)), 0, 4, 5, 7, 7);
	id padded = M(id, (id, SEL), d, "copy");
	M(void, (id, SEL, uint64_t), padded, "setPaddingStyle:", (uint64_t)0);
	M(void, (id, SEL, uint64_t, uint64_t, uint64_t, uint64_t), padded, "setExplicitPaddingWithPaddingLeft:paddingRight:paddingTop:paddingBottom:", (uint64_t)1, (uint64_t)0, (uint64_t)1, (uint64_t)0);
	WANT(EVALF(&g, T("avgPooling2DWithSourceTensor:descriptor:name:", (id, SEL, id, id, id), x, padded)), 1e-6, 1, 1.5f, 2.5f, 2.5f, 4, 5, 5.5f, 7, 7);
	M(void, (id, SEL, bool), padded, "setIncludeZeroPadToAverage:", true);
	WANT(EVALF(&g, T("avgPooling2DWithSourceTensor:descriptor:name:", (id, SEL, id, id, id), x, padded)), 1e-6, 0.25f, 0.75f, 1.25f, 1.25f, 4, 5, 2.75f, 7, 7);
	CHECK(M(uint64_t, (id, SEL), d, "paddingStyle") == 1); // copy is a copy
	objc_release(padded);
	id gr = FEED(&g, INTS(1, 1, 2, 2), 1, 2, 3, 4);
	WANT(EVALF(&g, T("maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", (id, SEL, id, id, id, id), gr, x, d)), 0, 0, 0, 0, 0, 10, 0, 0, 0, 0);
	WANT(EVALF(&g, T("avgPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", (id, SEL, id, id, id, id), gr, x, d)), 0, 0.25f, 0.75f, 0.5f, 1, 2.5f, 1.5f, 0.75f, 1.75f, 1);
	CHECK(!T("maxPooling2DGradientWithGradientTensor:sourceTensor:descriptor:name:", (id, SEL, id, id, id, id), x, x, d));
	EXPECT("mpsgraph-shape");
	graph_end(&g);
}

#define RESIZE "resizeTensor:size:mode:centerResult:alignCorners:layout:name:"
static void resizing(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(1, 1, 1, 3), 0, 10, 20);
	id ac = T(RESIZE, (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, INTS(1, 5), (uint64_t)1, true, true, (uint64_t)0);
	WANT(EVALF(&g, ac), 1e-6, 0, 5, 10, 15, 20); // corners aligned: centerResult does nothing
	id c = T(RESIZE, (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, INTS(1, 6), (uint64_t)1, true, false, (uint64_t)0);
	WANT(EVALF(&g, c), 1e-5, 0, 2.5f, 7.5f, 12.5f, 17.5f, 20); // pixel centres, as PyTorch without align_corners
	id n = T(RESIZE, (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, INTS(1, 6), (uint64_t)1, false, false, (uint64_t)0);
	WANT(EVALF(&g, n), 1e-5, 0, 5, 10, 15, 20, 20); // direct scaling
	int32_t size[] = {1, 6};
	id d = M(id, (id, SEL, const void *, uint64_t), CLS("NSData"), "dataWithBytes:length:", size, (uint64_t)8);
	id ts = M(id, (id, SEL, id, id, uint32_t), g.graph, "constantWithData:shape:dataType:", d, INTS(2), I32);
	id nf = T("resizeNearestWithTensor:sizeTensor:nearestRoundingMode:centerResult:alignCorners:layout:name:", (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, ts, (uint64_t)3, false, false, (uint64_t)0);
	WANT(EVALF(&g, nf), 0, 0, 0, 10, 10, 20, 20); // PyTorch's nearest: floor, not centred
	id nd = T(RESIZE, (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, INTS(1, 6), (uint64_t)0, false, false, (uint64_t)0);
	WANT(EVALF(&g, nd), 0, 0, 10, 10, 20, 20, 20); // without a rounding argument: RoundPreferCeil
	id gr = FEED(&g, INTS(1, 1, 1, 5), 1, 1, 1, 1, 1);
	WANT(EVALF(&g, T("resizeWithGradientTensor:input:mode:centerResult:alignCorners:layout:name:", (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), gr, x, (uint64_t)1, false, true, (uint64_t)0)), 1e-6, 1.5f, 2, 1.5f);
	CHECK(!T(RESIZE, (id, SEL, id, id, uint64_t, bool, bool, uint64_t, id), x, INTS(1, 1, 1, 6), (uint64_t)1, false, false, (uint64_t)0));
	EXPECT("mpsgraph-shape");
	graph_end(&g);
}

static void half_sums(void)
{
	Graph g = graph_begin();
	static uint16_t ones[4096];
	for (int i = 0; i < 4096; i++)
		ones[i] = 0x3c00;
	id a = feed(&g, F16, INTS(1, 4096), ones, sizeof ones), b = feed(&g, F16, INTS(4096, 1), ones, sizeof ones), m = binary(&g, "matrixMultiplication", a, b);
	CHECK(*(const uint16_t *)eval(&g, m) == 0x6c00); // 4096
	metalsim_set("fp16_accumulate", "1");
	CHECK(*(const uint16_t *)eval(&g, m) == 0x6800); // 2048 + 1 rounds to 2048
	graph_end(&g);
}

const test ops_tests[] = {
	{"unary_ops", unary_ops}, {"binary_ops", binary_ops}, {"reductions", reductions}, {"shape_ops", shape_ops}, {"depth_to_space", depth_to_space},
	{"index_ops", index_ops}, {"products", products}, {"attention", attention}, {"convolutions", convolutions}, {"pooling", pooling},
	{"resizing", resizing}, {"half_sums", half_sums}, {NULL, NULL},
};
