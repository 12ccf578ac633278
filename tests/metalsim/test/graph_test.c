// SPDX-License-Identifier: Apache-2.0
// Executables, tensor data and their misuse.
#include "graph.h"
#include <unistd.h>

static void add_and_run(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 3), 1, 2, 3, 4, 5, 6), y = FEED(&g, INTS(3), 10, 20, 30);
	id s = binary(&g, "addition", x, y), k = constant(&g, INTS(1), (float[]){2}, 1);
	WANT(EVALF(&g, binary(&g, "multiplication", s, k)), 0, 22, 44, 66, 28, 50, 72);
	CHECK(metalsim_counter("bytes_constant") == 4 && metalsim_counter("compiles_level0") == 1 && metalsim_counter("encodes") == 1);
	graph_end(&g);
}

static id encode(id e, id cb, id in, id out)
{
	return M(id, (id, SEL, id, id, id, id), e, "encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:", cb, in, out, NULL);
}
static id mps(Graph *g) { return M(id, (id, SEL, id), CLS("MPSCommandBuffer"), "commandBufferFromCommandQueue:", g->queue); }

static void feeds_in_order(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2), 1, 2), y = FEED(&g, INTS(3), 1, 2, 3), z = M(id, (id, SEL, id, id, int64_t, id), g.graph, "concatTensor:withTensor:dimension:name:", x, y, (int64_t)0, NULL);
	id e = compile(&g, 1, &z), order = M(id, (id, SEL), e, "feedTensors");
	CHECK(M(id, (id, SEL, uint64_t), order, "objectAtIndex:", (uint64_t)0) == y); // not the order of creation
	id dx = tensor_data(buffer_of(&g, g.data[0], 8), INTS(2), F32), dy = tensor_data(buffer_of(&g, g.data[1], 12), INTS(3), F32);
	id out = tensor_data(buffer_of(&g, NULL, 20), INTS(5), F32);
	CHECK(!encode(e, mps(&g), array(2, dx, dy), array(1, out)));
	EXPECT("feed-mismatch");
	CHECK(!encode(e, mps(&g), array(1, dy), array(1, out)));
	EXPECT("feed-mismatch");
	CHECK(!encode(e, mps(&g), array(2, dy, dx), array(1, dx)));
	EXPECT("feed-mismatch");
	CHECK(!encode(e, M(id, (id, SEL), g.queue, "commandBuffer"), array(2, dy, dx), array(1, out)));
	EXPECT("arg-class"); // a plain MTLCommandBuffer
	id cb = mps(&g);
	CHECK(encode(e, cb, array(2, dy, dx), array(1, out)) != NULL);
	M(void, (id, SEL), cb, "commit");
	CHECK(!encode(e, cb, array(2, dy, dx), array(1, out)));
	EXPECT("encode-after-commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	metalsim_set("shuffle_feeds", "0");
	e = compile(&g, 1, &z);
	CHECK(M(id, (id, SEL, uint64_t), M(id, (id, SEL), e, "feedTensors"), "objectAtIndex:", (uint64_t)0) == x);
	graph_end(&g);
}

static void byte_counts(void)
{
	Graph g = graph_begin();
	CHECK(!tensor_data(buffer_of(&g, NULL, 20), INTS(2, 3), F32));
	EXPECT("byte-count");
	id d = M(id, (id, SEL, const void *, uint64_t), CLS("NSData"), "dataWithBytes:length:", "12345678", (uint64_t)8);
	CHECK(!M(id, (id, SEL, id, id, uint32_t), g.graph, "constantWithData:shape:dataType:", d, INTS(3), F32));
	EXPECT("byte-count");
	CHECK(!M(id, (id, SEL, id, id, uint32_t), g.graph, "constantWithData:shape:dataType:", d, INTS(2), 0x12345));
	EXPECT("mpsgraph-dtype");
	id b = buffer_of(&g, NULL, 64), a = M(id, (id, SEL), CLS("MPSGraphTensorData"), "alloc");
	CHECK(!M(id, (id, SEL, id, id, uint32_t, uint64_t), a, "initWithMTLBuffer:shape:dataType:rowBytes:", b, INTS(2, 3), F32, (uint64_t)10));
	EXPECT("row-bytes");
	graph_end(&g);
}

static void half_precision(void)
{
	Graph g = graph_begin();
	uint16_t h[2] = {0x3c00, 0x1000}; // 1, 2^-11
	id x = feed(&g, F16, INTS(2), h, 4), one = M(id, (id, SEL, double, uint32_t), g.graph, "constantWithScalar:dataType:", 1.0, F16);
	const uint16_t *r = eval(&g, binary(&g, "addition", x, one));
	CHECK(r[0] == 0x4000 && r[1] == 0x3c00); // 1 + 2^-11 rounds to even
	r = eval(&g, binary(&g, "subtraction", binary(&g, "addition", x, one), one));
	CHECK(r[0] == 0x3c00 && r[1] == 0); // the sum was rounded before the difference
	id y = FEED(&g, INTS(2), 1, 1);
	CHECK(!binary(&g, "addition", x, y));
	EXPECT("mpsgraph-dtype");
	id f = M(id, (id, SEL, id, uint32_t, id), g.graph, "castTensor:toType:name:", x, F32, NULL);
	WANT(EVALF(&g, binary(&g, "addition", f, y)), 0, 2, 1.00048828125f);
	graph_end(&g);
}

static void results_of_mps(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 3), 1, 2, 3, 4, 5, 6), y = unary(&g, "squareWithTensor:name:", x), e = compile(&g, 1, &y);
	id in = array(1, tensor_data(buffer_of(&g, g.data[0], 24), INTS(2, 3), F32)), cb = mps(&g), res = encode(e, cb, in, NULL);
	M(void, (id, SEL), cb, "commit");
	id nd = M(id, (id, SEL), M(id, (id, SEL, uint64_t), res, "objectAtIndex:", (uint64_t)0), "mpsndarray");
	float v[6];
	usleep(10000);
	M(void, (id, SEL, void *, void *), nd, "readBytes:strideBytes:", v, NULL);
	EXPECT("read-before-completion");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	M(void, (id, SEL, void *, void *), nd, "readBytes:strideBytes:", v, NULL);
	WANT(v, 0, 1, 4, 9, 16, 25, 36);
	CHECK(M(uint64_t, (id, SEL), nd, "resourceSize") == 64 + 12); // rows are padded: not a packed tensor
	CHECK(M(uint64_t, (id, SEL, uint64_t), nd, "lengthOfDimension:", (uint64_t)0) == 3); // the fastest
	graph_end(&g);
}

static void life_of_executables(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2), 1, 2), y = unary(&g, "negativeWithTensor:name:", x);
	void *p = objc_autoreleasePoolPush();
	id e = objc_retain(compile(&g, 1, &y)), out = objc_retain(buffer_of(&g, NULL, 8));
	id cb = objc_retain(mps(&g)), in = array(1, tensor_data(buffer_of(&g, g.data[0], 8), INTS(2), F32));
	encode(e, cb, in, array(1, tensor_data(out, INTS(2), F32)));
	objc_autoreleasePoolPop(p); // tensor data and input buffers go: the command buffer keeps them
	M(void, (id, SEL), cb, "commit");
	objc_release(e);
	EXPECT("freed-in-flight");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	WANT(M(float *, (id, SEL), out, "contents"), 0, -1, -2);
	objc_release(cb);
	objc_release(out);
	e = objc_retain(compile(&g, 1, &y));
	CHECK(!M(id, (id, SEL), CLS("MPSGraphTensor"), "alloc"));
	EXPECT("unavailable");
	objc_release(g.graph); // the executable lives on
	g.graph = NEW("MPSGraph");
	id d = tensor_data(buffer_of(&g, (float[]){3, 4}, 8), INTS(2), F32);
	id r = M(id, (id, SEL, id, id, id, id), e, "runWithMTLCommandQueue:inputsArray:resultsArray:executionDescriptor:", g.queue, array(1, d), NULL, NULL);
	float v[2];
	M(void, (id, SEL, void *, void *), M(id, (id, SEL), M(id, (id, SEL, uint64_t), r, "objectAtIndex:", (uint64_t)0), "mpsndarray"), "readBytes:strideBytes:", v, NULL);
	WANT(v, 0, -3, -4);
	CHECK(!binary(&g, "addition", x, x));
	VIOLATED("wrong-graph");
	objc_release(e);
	graph_end(&g);
}

static void aliases(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2), 1, 2), y = unary(&g, "negativeWithTensor:name:", x), e = compile(&g, 1, &y);
	id b = buffer_of(&g, g.data[0], 8), d = tensor_data(b, INTS(2), F32);
	CHECK(!encode(e, mps(&g), array(1, d), array(1, tensor_data(b, INTS(2), F32))));
	EXPECT("alias");
	id z = binary(&g, "addition", FEED(&g, INTS(2), 5, 6), x);
	g.n = 1;
	CHECK(!compile(&g, 1, &z));
	EXPECT("feed-missing");
	graph_end(&g);
}

static void watchdog(void)
{
	Graph g = graph_begin();
	metalsim_set("tflops", "0.000000001");
	metalsim_set("watchdog", "0.001");
	id x = FEED(&g, INTS(64, 64), 0), y;
	g.bytes[0] = 64 * 64 * 4;
	g.data[0] = calloc(1, (size_t)g.bytes[0]);
	y = binary(&g, "matrixMultiplication", x, x);
	eval(&g, y);
	EXPECT("watchdog");
	graph_end(&g);
}

static void variables(void)
{
	Graph g = graph_begin();
	id d = M(id, (id, SEL, const void *, uint64_t), CLS("NSData"), "dataWithBytes:length:", (float[]){1, 2}, (uint64_t)8);
	id v = M(id, (id, SEL, id, id, uint32_t, id), g.graph, "variableWithData:shape:dataType:name:", d, INTS(2), F32, NULL);
	id r = unary(&g, "readVariable:name:", v), x = FEED(&g, INTS(2), 10, 10);
	WANT(EVALF(&g, binary(&g, "addition", r, x)), 0, 11, 12);
	graph_end(&g);
}

static void commits_underneath(void)
{
	Graph g = graph_begin();
	metalsim_set("commit_continue", "1");
	id x = FEED(&g, INTS(2), 1, 2), y = unary(&g, "squareWithTensor:name:", unary(&g, "negativeWithTensor:name:", x)), e = compile(&g, 1, &y);
	id cb = mps(&g), root = objc_retain(M(id, (id, SEL), cb, "rootCommandBuffer"));
	id out = buffer_of(&g, NULL, 8);
	encode(e, cb, array(1, tensor_data(buffer_of(&g, g.data[0], 8), INTS(2), F32)), array(1, tensor_data(out, INTS(2), F32)));
	CHECK(M(id, (id, SEL), cb, "rootCommandBuffer") != root);
	M(void, (id, SEL), root, "commit"); // the old root was committed by MPSGraph
	EXPECT("commit-twice");
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	WANT(M(float *, (id, SEL), out, "contents"), 0, 1, 4);
	objc_release(root);
	graph_end(&g);
}

static void arrays_at_offsets(void)
{
	Graph g = graph_begin();
	id x = FEED(&g, INTS(2, 3), 1, 2, 3, 4, 5, 6), y = unary(&g, "negativeWithTensor:name:", x), e = compile(&g, 1, &y);
	float raw[16] = {0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
	id b = buffer_of(&g, raw, sizeof raw), desc = M(id, (id, SEL, uint32_t, id), CLS("MPSNDArrayDescriptor"), "descriptorWithDataType:shape:", F32, INTS(2, 3));
	// Without preferPackedRows the rows of a user's buffer are taken as padded: it is too small.
	CHECK(!M(id, (id, SEL, id, uint64_t, id), M(id, (id, SEL), CLS("MPSNDArray"), "alloc"), "initWithBuffer:offset:descriptor:", b, (uint64_t)16, desc));
	EXPECT("byte-count");
	M(void, (id, SEL, bool), desc, "setPreferPackedRows:", true);
	id nd = M(id, (id, SEL, id, uint64_t, id), M(id, (id, SEL), CLS("MPSNDArray"), "alloc"), "initWithBuffer:offset:descriptor:", b, (uint64_t)16, desc);
	id td = M(id, (id, SEL, id), M(id, (id, SEL), CLS("MPSGraphTensorData"), "alloc"), "initWithMPSNDArray:", nd), out = buffer_of(&g, NULL, 24);
	objc_release(nd);
	id cb = mps(&g);
	encode(e, cb, array(1, td), array(1, tensor_data(out, INTS(2, 3), F32)));
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	WANT(M(float *, (id, SEL), out, "contents"), 0, -1, -2, -3, -4, -5, -6);
	objc_release(td);
	graph_end(&g);
}

const test graph_tests[] = {
	{"add_and_run", add_and_run}, {"feeds_in_order", feeds_in_order}, {"byte_counts", byte_counts}, {"half_precision", half_precision},
	{"results_of_mps", results_of_mps}, {"life_of_executables", life_of_executables}, {"aliases", aliases}, {"watchdog", watchdog},
	{"variables", variables}, {"commits_underneath", commits_underneath}, {"arrays_at_offsets", arrays_at_offsets}, {NULL, NULL},
};
