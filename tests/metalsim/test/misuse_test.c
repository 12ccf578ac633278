// SPDX-License-Identifier: Apache-2.0
// Misuse that needs more than one message: memory that goes while the GPU works, blocks,
// limits, handlers.
#include "graph.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static id blit(id cb) { return M(id, (id, SEL), cb, "blitCommandEncoder"); }
static void copy(id enc, id a, id b, uint64_t n)
{
	M(void, (id, SEL, id, uint64_t, id, uint64_t, uint64_t), enc, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", a, (uint64_t)0, b, (uint64_t)0, n);
	M(void, (id, SEL), enc, "endEncoding");
}
static id buffer(Graph *g, uint64_t n, uint64_t options) { return M(id, (id, SEL, uint64_t, uint64_t), g->dev, "newBufferWithLength:options:", n, options); }
static void commit(id cb) { M(void, (id, SEL), cb, "commit"); }
static void wait(id cb) { M(void, (id, SEL), cb, "waitUntilCompleted"); }

static void storage(void)
{
	Graph g = graph_begin();
	CHECK(!buffer(&g, 64, 48)); // memoryless is for textures
	EXPECT("buffer-options");
	CHECK(!buffer(&g, 64, 16)); // managed means two copies
	EXPECT("buffer-options");
	id p = buffer(&g, 64, 32);
	CHECK(!M(void *, (id, SEL), p, "contents"));
	EXPECT("private-contents");
	objc_release(p);
	graph_end(&g);
}

static void memory_that_goes(void)
{
	Graph g = graph_begin();
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	id src = M(id, (id, SEL, void *, uint64_t, uint64_t, void *), g.dev, "newBufferWithBytesNoCopy:length:options:deallocator:", mem, (uint64_t)4096, (uint64_t)0, NULL);
	id dst = buffer(&g, 4096, 0), cb = M(id, (id, SEL), g.queue, "commandBuffer");
	copy(blit(cb), src, dst, 4096);
	commit(cb);
	objc_release(src); // before it is known that the GPU is done with the caller's pages
	EXPECT("freed-in-flight");
	wait(cb);
	cb = M(id, (id, SEL), g.queue, "commandBufferWithUnretainedReferences");
	id b = buffer(&g, 4096, 0);
	copy(blit(cb), dst, b, 4096);
	commit(cb);
	objc_release(b);
	EXPECT("freed-in-flight");
	wait(cb);
	cb = M(id, (id, SEL), g.queue, "commandBuffer"); // an ordinary one keeps its buffers
	b = buffer(&g, 4096, 0);
	copy(blit(cb), dst, b, 4096);
	commit(cb);
	objc_release(b);
	wait(cb);
	EXPECT(NULL);
	objc_release(dst);
	munmap(mem, 4096);
	graph_end(&g);
}

// ---- blocks, as purego makes them: global, with an invoke function ----
extern void *_NSConcreteGlobalBlock[];
struct desc { uint64_t reserved, size; };
struct block { void *isa; int32_t flags, reserved; void (*invoke)(struct block *, id); struct desc *d; };
static volatile uint64_t seen_status;
static float seen_value;
static id handler_buffer;
static void on_done(struct block *b, id cb)
{
	(void)b;
	seen_value = *M(float *, (id, SEL), handler_buffer, "contents"); // the call tells of completion
	seen_status = M(uint64_t, (id, SEL), cb, "status");
}
static void handlers(void)
{
	Graph g = graph_begin();
	struct desc d = {0, sizeof(struct block)};
	struct block b = {_NSConcreteGlobalBlock, 1 << 28, 0, on_done, &d}, bad = {NULL, 1 << 28, 0, on_done, &d};
	id src = buffer(&g, 64, 0), dst = handler_buffer = buffer(&g, 64, 0), cb = M(id, (id, SEL), g.queue, "commandBuffer");
	*M(float *, (id, SEL), src, "contents") = 3;
	copy(blit(cb), src, dst, 64);
	M(void, (id, SEL, void *), cb, "addCompletedHandler:", &bad);
	EXPECT("bad-block");
	M(void, (id, SEL, void *), cb, "addCompletedHandler:", NULL);
	EXPECT("nil-arg");
	M(void, (id, SEL, void *), cb, "addCompletedHandler:", &b);
	commit(cb);
	wait(cb); // returns after the handlers
	CHECK(seen_status == 4 && seen_value == 3);
	M(void, (id, SEL, void *), cb, "addCompletedHandler:", &b);
	EXPECT("encode-after-commit");
	objc_release(src);
	objc_release(dst);
	graph_end(&g);
}

static void event_values(void)
{
	Graph g = graph_begin();
	id ev = M(id, (id, SEL), g.dev, "newSharedEvent");
	for (uint64_t v = 2; v > 0; v--) { // 2, then back to 1
		id cb = M(id, (id, SEL), g.queue, "commandBuffer");
		M(void, (id, SEL, id, uint64_t), cb, "encodeSignalEvent:value:", ev, v);
		commit(cb);
		wait(cb);
	}
	EXPECT("event-order");
	objc_release(ev);
	graph_end(&g);
}

static void limits(void)
{
	Graph g = graph_begin();
	id a = M(id, (id, SEL, id, uint32_t, id), g.graph, "placeholderWithShape:dataType:name:", INTS(32, 32768), F32, NULL);
	id b = M(id, (id, SEL, id, uint32_t, id), g.graph, "placeholderWithShape:dataType:name:", INTS(32768, 32), F32, NULL);
	CHECK(!binary(&g, "matrixMultiplication", a, b)); // inner dimension >= 32767 reads past the operands on M1, M2
	EXPECT("mpsgraph-limit");
	CHECK(!M(id, (id, SEL, id, uint32_t, id), g.graph, "placeholderWithShape:dataType:name:", INTS(1 << 20, 1 << 11), F32, NULL));
	EXPECT("mpsgraph-limit"); // 8 GiB
	id q = M(id, (id, SEL, id, uint32_t, id), g.graph, "placeholderWithShape:dataType:name:", INTS(1, 56, 6193, 8), F16, NULL);
	CHECK(!M(id, (id, SEL, id, id, id, float, id), g.graph, "scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:scale:name:", q, q, q, 1.0f, NULL));
	EXPECT("mpsgraph-limit"); // 2^31 scores
	graph_end(&g);
}

static void small_buffers(void)
{
	Graph g = graph_begin();
	id err = NULL, src = str("kernel void normalize_u8(device const uchar *s [[buffer(0)]], device float *d [[buffer(1)]], constant float *t [[buffer(2)]], constant P &p [[buffer(3)]]) {}");
	id lib = M(id, (id, SEL, id, id, id *), g.dev, "newLibraryWithSource:options:error:", src, NULL, &err), f = M(id, (id, SEL, id), lib, "newFunctionWithName:", str("normalize_u8"));
	id pipe = M(id, (id, SEL, id, id *), g.dev, "newComputePipelineStateWithFunction:error:", f, &err), b = buffer(&g, 3072, 0);
	id cb = M(id, (id, SEL), g.queue, "commandBuffer"), enc = M(id, (id, SEL), cb, "computeCommandEncoder");
	uint32_t p[4] = {100, 100, 300, 0};
	M(void, (id, SEL, id), enc, "setComputePipelineState:", pipe);
	for (uint64_t i = 0; i < 3; i++)
		M(void, (id, SEL, id, uint64_t, uint64_t), enc, "setBuffer:offset:atIndex:", b, (uint64_t)0, i);
	M(void, (id, SEL, void *, uint64_t, uint64_t), enc, "setBytes:length:atIndex:", p, (uint64_t)sizeof p, (uint64_t)3);
	M(void, (id, SEL, Size, Size), enc, "dispatchThreads:threadsPerThreadgroup:", (Size){10000, 1, 1}, (Size){32, 1, 1});
	M(void, (id, SEL), enc, "endEncoding");
	commit(cb);
	wait(cb);
	EXPECT("kernel-range");
	id objs[] = {b, pipe, f, lib};
	for (int i = 0; i < 4; i++)
		objc_release(objs[i]);
	graph_end(&g);
}

// Many threads at once: each with its pool, its command buffers and its graph.
static void *one_thread(void *arg)
{
	Graph *shared = arg;
	for (int i = 0; i < 20; i++) {
		void *pool = objc_autoreleasePoolPush();
		Graph g = {.dev = shared->dev, .queue = shared->queue, .graph = NEW("MPSGraph")};
		float v[4] = {1, 2, 3, (float)i};
		id x = M(id, (id, SEL, id, uint32_t, id), g.graph, "placeholderWithShape:dataType:name:", INTS(4), F32, NULL), y = unary(&g, "squareWithTensor:name:", x);
		g.feeds[0] = x;
		g.n = 1;
		id e = compile(&g, 1, &y), out = buffer_of(&g, NULL, 16), cb = M(id, (id, SEL, id), CLS("MPSCommandBuffer"), "commandBufferFromCommandQueue:", g.queue);
		M(id, (id, SEL, id, id, id, id), e, "encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:", cb, array(1, tensor_data(buffer_of(&g, v, 16), INTS(4), F32)),
		  array(1, tensor_data(out, INTS(4), F32)), NULL);
		commit(cb);
		wait(cb);
		if (M(float *, (id, SEL), out, "contents")[3] != (float)(i * i))
			fail_(__FILE__, __LINE__, "wrong result in a thread");
		objc_release(g.graph);
		objc_autoreleasePoolPop(pool);
	}
	return NULL;
}
static void threads(void)
{
	Graph g = graph_begin();
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, one_thread, &g);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(metalsim_counter("compiles") == 80 && metalsim_open_pools() == 1);
	graph_end(&g);
}

// One thread runs a graph, which takes a while; another one adds to it meanwhile.
static volatile bool running;
static void *run_slowly(void *arg)
{
	void *pool = objc_autoreleasePoolPush();
	Graph *g = arg;
	id x = g->feeds[0], y = unary(g, "squareWithTensor:name:", x), d = tensor_data(buffer_of(g, g->data[0], 8), INTS(2), F32);
	id feeds = M(id, (id, SEL, id, id), CLS("NSDictionary"), "dictionaryWithObject:forKey:", d, x);
	running = true;
	M(id, (id, SEL, id, id, id, id), g->graph, "runWithMTLCommandQueue:feeds:targetTensors:targetOperations:", g->queue, feeds, array(1, y), NULL);
	objc_autoreleasePoolPop(pool);
	return NULL;
}
static void one_graph_two_threads(void)
{
	Graph g = graph_begin();
	pthread_t t;
	FEED(&g, INTS(2), 1, 2);
	metalsim_set("latency", "0.3");
	pthread_create(&t, NULL, run_slowly, &g);
	while (!running)
		usleep(1000);
	usleep(100000);
	CHECK(!constant(&g, INTS(1), (float[]){1}, 1));
	EXPECT("thread-unsafe");
	pthread_join(t, NULL);
	graph_end(&g);
}

const test misuse_tests[] = {
	{"storage", storage}, {"memory_that_goes", memory_that_goes}, {"handlers", handlers}, {"event_values", event_values},
	{"limits", limits}, {"small_buffers", small_buffers}, {"threads", threads}, {"one_graph_two_threads", one_graph_two_threads}, {NULL, NULL},
};
