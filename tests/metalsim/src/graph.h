// SPDX-License-Identifier: Apache-2.0
// MPSGraph: typed values, nodes with an evaluation function, executables.
//
// Inside, every float type is held as float32 and every integer or bool as int64; after a
// node, values of a 16-bit float type are rounded to that type. So an op sees exactly the
// numbers that half storage allows and accumulates in float32 inside the op.
#pragma once
#include "gpu.h"

#define MS_RANK 16 // MPSGraph's limit
typedef struct { int rank; int64_t d[MS_RANK]; } ms_shape;

enum { // MPSDataType
	MS_F32 = 0x10000020, MS_F16 = 0x10000010, MS_I8 = 0x20000008, MS_I16 = 0x20000010, MS_I32 = 0x20000020,
	MS_I64 = 0x20000040, MS_U8 = 8, MS_U16 = 16, MS_U32 = 32, MS_U64 = 64,
};
#define MS_BF16 0x90000010u
#define MS_BOOL 0x80000008u

typedef struct { _Atomic int refs; void *p; int64_t n; } ms_buf; // n elements of float or int64

typedef struct {
	ms_shape shape;
	uint32_t dtype;
	int64_t n;
	ms_buf *buf; // NULL: p belongs to somebody else
	union { float *f; int64_t *i; void *p; };
} ms_val;

typedef struct ms_node ms_node;
typedef void (*ms_eval)(const ms_node *, ms_val **in, ms_val **out);
struct ms_node {
	const char *op; // for messages: the selector
	ms_eval eval;   // NULL: placeholder, constant, variable
	bool view;      // eval sets out->buf itself (same elements, another shape)
	int nin, nout;
	int *in, *out; // values
	double flops;
	int64_t i[24]; // attributes, meaning by op
	double f[4];
	ms_shape s[3];
	int64_t *list; // longer attributes
	int assigns;   // variable value that this node writes, -1 = none
	id object;     // MPSGraphOperation, made on demand, owned by the graph
};

typedef struct {
	ms_shape shape;
	uint32_t dtype;
	int node;
	ms_buf *data; // of constants and variables
	char kind;    // 'p'laceholder, 'c'onstant, 'v'ariable, 0
	id object;    // MPSGraphTensor, owned by the graph object
} ms_value;

typedef struct {
	_Atomic int refs;
	ms_node **nodes;
	ms_value **values; // stable addresses: an executable keeps them while the graph grows
	int nnodes, nvalues, cap_nodes, cap_values;
} ms_core;

typedef struct { struct ms_obj h; ms_core *core; uint64_t options; } MPSGraphObj;
typedef struct { struct ms_obj h; ms_core *core; int value; } MPSGraphTensorObj;
typedef struct { struct ms_obj h; ms_core *core; int node; id graph; } MPSGraphOperationObj; // graph not retained

// ---- types and shapes ----
bool ms_is_float(uint32_t t);
int ms_dtype_size(uint32_t t);       // 0 = unknown type
const char *ms_dtype_name(uint32_t t);
int64_t ms_count_of(const ms_shape *);
bool ms_same_shape(const ms_shape *, const ms_shape *);
const char *ms_shape_text(const ms_shape *); // one of a few static buffers
bool ms_shape_from(id array, ms_shape *s);   // of NSNumbers
id ms_shape_array(const ms_shape *);         // +1
bool ms_broadcast(const ms_shape *a, const ms_shape *b, ms_shape *out);

ms_buf *ms_buf_new(int64_t n, bool is_float);
ms_buf *ms_buf_retain(ms_buf *);
void ms_buf_release(ms_buf *);
void ms_load(const void *src, uint32_t t, int64_t n, void *dst);  // bytes of type t -> float or int64
void ms_store(const void *src, uint32_t t, int64_t n, void *dst); // and back
void ms_round_to(uint32_t t, float *p, int64_t n);
float ms_half(float);

// ---- building: a builder collects inputs and attributes, checks, and returns tensors ----
typedef struct {
	ms_call *c;
	MPSGraphObj *g;
	ms_core *core;
	bool bad;
	ms_node *n;
} ms_builder;
ms_builder ms_begin(ms_call *c);
const ms_value *ms_input(ms_builder *b, id tensor); // adds an input; checks its graph
void ms_reject(ms_builder *b, const char *code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int ms_output(ms_builder *b, const ms_shape *s, uint32_t dtype); // adds an output value
void ms_finish(ms_builder *b, ms_eval eval); // one output: its tensor becomes the result
id ms_finish_array(ms_builder *b, ms_eval eval); // several: an NSArray
void ms_finish_operation(ms_builder *b, ms_eval eval); // the MPSGraphOperation becomes the result
bool ms_axis(ms_builder *b, int64_t axis, int rank, int *out); // negative counts from the end
bool ms_ints(ms_builder *b, id array, int64_t *v, int n, const char *what);
bool ms_same_dtype(ms_builder *b, const ms_value *x, const ms_value *y);
bool ms_need_float(ms_builder *b, const ms_value *x);
const int64_t *ms_constant_ints(ms_builder *b, id tensor, int *n); // of a constant tensor
const ms_value *ms_tensor_value(id tensor);

void ms_core_release(ms_core *);
id ms_operation(MPSGraphObj *g, int node); // borrowed
id ms_tensor_object(MPSGraphObj *g, int value);

// ---- descriptors: properties by name ----
int64_t ms_property(id descriptor, const char *name);
typedef struct { id event; uint64_t value; bool signal; } ms_event_use;
int ms_descriptor_events(id descriptor, ms_event_use *v, int max);
void *ms_descriptor_block(id descriptor, const char *name);

// ---- tensor data ----
typedef struct { ms_mem *mem; int64_t offset, row; ms_shape shape; uint32_t dtype; id device; } ms_store_at; // row: bytes between rows
typedef struct { struct ms_obj h; ms_store_at at; id array, buffer; } MPSGraphTensorDataObj;
id ms_tensor_data_new(id device, const ms_shape *s, uint32_t t); // +1, allocated by MPS
int64_t ms_row_bytes(const ms_shape *s, uint32_t t, bool padded);
void ms_read_rows(const ms_store_at *a, const uint8_t *base, void *dst);  // -> packed bytes
void ms_write_rows(const ms_store_at *a, uint8_t *base, const void *src); // packed bytes ->

// ---- loops shared by ops ----
void ms_gemm(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, int64_t k, bool half);
void ms_softmax_rows(float *p, int64_t rows, int64_t n, int64_t stride, bool half);
void ms_strides(const ms_shape *s, int64_t *st);
bool ms_half_sums(uint32_t t); // accumulate in half: the pessimistic setting for a 16-bit type

void ms_init_tensor_data(void);
void ms_init_descriptors(void);
void ms_init_executable(void);
void ms_init_graph_memory(void);
void ms_init_elementwise(void);
void ms_init_reduce(void);
void ms_init_shape_ops(void);
void ms_init_slice_ops(void);
void ms_init_index_ops(void);
void ms_init_sort_ops(void);
void ms_init_matmul(void);
void ms_init_conv(void);
void ms_init_pool(void);
void ms_init_resize(void);
void ms_init_norm(void);
