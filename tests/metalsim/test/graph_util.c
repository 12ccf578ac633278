// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

Graph graph_begin(void)
{
	Graph g = {.dev = MTLCreateSystemDefaultDevice()};
	g.queue = M(id, (id, SEL), g.dev, "newCommandQueue");
	g.graph = NEW("MPSGraph");
	return g;
}
void graph_end(Graph *g)
{
	objc_release(g->graph);
	objc_release(g->queue);
	objc_release(g->dev);
}
id feed(Graph *g, uint32_t type, id shape, const void *data, int64_t bytes)
{
	id t = M(id, (id, SEL, id, uint32_t, id), g->graph, "placeholderWithShape:dataType:name:", shape, type, NULL);
	g->feeds[g->n] = t;
	g->data[g->n] = malloc((size_t)bytes);
	memcpy((void *)g->data[g->n], data, (size_t)bytes);
	g->bytes[g->n++] = bytes;
	return t;
}
id constant(Graph *g, id shape, const float *v, int64_t n)
{
	id d = M(id, (id, SEL, const void *, uint64_t), CLS("NSData"), "dataWithBytes:length:", v, (uint64_t)n * 4);
	return M(id, (id, SEL, id, id, uint32_t), g->graph, "constantWithData:shape:dataType:", d, shape, F32);
}
id shape_of(id t) { return M(id, (id, SEL), t, "shape"); }
uint32_t type_of(id t) { return M(uint32_t, (id, SEL), t, "dataType"); }

id compile(Graph *g, int n, id *targets)
{
	id types[8], arr = M(id, (id, SEL, const id *, uint64_t), CLS("NSArray"), "arrayWithObjects:count:", targets, (uint64_t)n);
	for (int i = 0; i < g->n; i++)
		types[i] = M(id, (id, SEL, id, uint32_t), M(id, (id, SEL), CLS("MPSGraphShapedType"), "alloc"), "initWithShape:dataType:", shape_of(g->feeds[i]), type_of(g->feeds[i]));
	id feeds = M(id, (id, SEL, const id *, const id *, uint64_t), CLS("NSDictionary"), "dictionaryWithObjects:forKeys:count:", types, g->feeds, (uint64_t)g->n);
	id desc = NEW("MPSGraphCompilationDescriptor");
	M(void, (id, SEL, uint64_t), desc, "setOptimizationLevel:", (uint64_t)0);
	id dev = M(id, (id, SEL, id), CLS("MPSGraphDevice"), "deviceWithMTLDevice:", g->dev);
	id e = M(id, (id, SEL, id, id, id, id, id), g->graph, "compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:", dev, feeds, arr, NULL, desc);
	for (int i = 0; i < g->n; i++)
		objc_release(types[i]);
	objc_release(desc);
	return e;
}
id buffer_of(Graph *g, const void *data, int64_t bytes)
{
	id b = M(id, (id, SEL, uint64_t, uint64_t), g->dev, "newBufferWithLength:options:", (uint64_t)bytes, (uint64_t)0);
	if (data)
		memcpy(M(void *, (id, SEL), b, "contents"), data, (size_t)bytes);
	return M(id, (id, SEL), b, "autorelease");
}
id tensor_data(id buffer, id shape, uint32_t type)
{
	id d = M(id, (id, SEL, id, id, uint32_t), M(id, (id, SEL), CLS("MPSGraphTensorData"), "alloc"), "initWithMTLBuffer:shape:dataType:", buffer, shape, type);
	return M(id, (id, SEL), d, "autorelease");
}
static int64_t count(id shape)
{
	int64_t n = 1;
	for (uint64_t i = 0; i < M(uint64_t, (id, SEL), shape, "count"); i++)
		n *= M(int64_t, (id, SEL), M(id, (id, SEL, uint64_t), shape, "objectAtIndex:", i), "integerValue");
	return n;
}
const void *eval(Graph *g, id target)
{
	static char store[1 << 20];
	memset(store, 0xff, sizeof store);
	if (!target)
		return store;
	id e = compile(g, 1, &target);
	if (!e)
		return store;
	id in[8], order = M(id, (id, SEL), e, "feedTensors");
	uint64_t n = M(uint64_t, (id, SEL), order, "count");
	for (uint64_t i = 0; i < n; i++)
		for (int j = 0; j < g->n; j++)
			if (M(id, (id, SEL, uint64_t), order, "objectAtIndex:", i) == g->feeds[j])
				in[i] = tensor_data(buffer_of(g, g->data[j], g->bytes[j]), shape_of(g->feeds[j]), type_of(g->feeds[j]));
	int64_t bytes = count(shape_of(target)) * (type_of(target) & 0xff) / 8;
	id out = buffer_of(g, NULL, bytes), res = array(1, tensor_data(out, shape_of(target), type_of(target)));
	id inputs = M(id, (id, SEL, const id *, uint64_t), CLS("NSArray"), "arrayWithObjects:count:", in, n);
	id cb = M(id, (id, SEL, id), CLS("MPSCommandBuffer"), "commandBufferFromCommandQueue:", g->queue);
	M(id, (id, SEL, id, id, id, id), e, "encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:", cb, inputs, res, NULL);
	M(void, (id, SEL), cb, "commit");
	M(void, (id, SEL), cb, "waitUntilCompleted");
	memcpy(store, M(void *, (id, SEL), out, "contents"), (size_t)bytes);
	return store;
}
id unary(Graph *g, const char *sel, id x) { return M(id, (id, SEL, id, id), g->graph, sel, x, NULL); }
id binary(Graph *g, const char *sel, id x, id y)
{
	char s[160];
	snprintf(s, sizeof s, "%sWithPrimaryTensor:secondaryTensor:name:", sel);
	return M(id, (id, SEL, id, id, id), g->graph, s, x, y, NULL);
}
void near_all(const char *file, int line, const float *got, const float *want, int n, double tol)
{
	for (int i = 0; i < n; i++)
		if (!(fabs(got[i] - want[i]) <= tol + tol * fabs(want[i])) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i]) {
			fail_(file, line, "element %d is %.9g, want %.9g", i, got[i], want[i]);
			return;
		}
}
void same_shape(const char *file, int line, id t, int n, const int64_t *v)
{
	if (!t || !M(bool, (id, SEL, id), shape_of(t), "isEqualToArray:", ints(n, v)))
		fail_(file, line, "wrong shape");
}
