// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests that build graphs.
#pragma once
#include "test.h"

enum { F32 = 0x10000020, F16 = 0x10000010, I32 = 0x20000020 };
#define BOOL8 0x80000008u

typedef struct { id dev, queue, graph, feeds[8]; const void *data[8]; int64_t bytes[8]; int n; } Graph;
Graph graph_begin(void);
void graph_end(Graph *);
id feed(Graph *, uint32_t type, id shape, const void *data, int64_t bytes); // a placeholder and its data
#define FEED(g, shape, ...) feed(g, F32, shape, (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}))
id constant(Graph *, id shape, const float *v, int64_t n);
id compile(Graph *, int n, id *targets);
id buffer_of(Graph *, const void *data, int64_t bytes);
id tensor_data(id buffer, id shape, uint32_t type); // autoreleased
id shape_of(id tensor);
uint32_t type_of(id tensor);
// eval runs the graph for one target and returns its packed bytes (static storage).
const void *eval(Graph *, id target);
#define EVALF(g, t) ((const float *)eval(g, t))
#define EVALI(g, t) ((const int32_t *)eval(g, t))
id unary(Graph *, const char *sel, id x);
id binary(Graph *, const char *sel, id x, id y);
void near_all(const char *file, int line, const float *got, const float *want, int n, double tol);
#define WANT(got, tol, ...) near_all(__FILE__, __LINE__, got, (float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / 4), tol)
void same_shape(const char *file, int line, id tensor, int n, const int64_t *v);
#define SHAPE(t, ...) same_shape(__FILE__, __LINE__, t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
