// SPDX-License-Identifier: Apache-2.0
// MPSGraphTensorData, MPSNDArray and their descriptors, MPSGraphDevice, MPSGraphShapedType.
#include "graph.h"
#include <stdlib.h>
#include <string.h>

typedef struct { struct ms_obj h; ms_shape shape; uint32_t dtype; bool packed; } MPSNDArrayDescriptorObj;
typedef struct { struct ms_obj h; ms_store_at at; id buffer; } MPSNDArrayObj; // buffer: the user's, or NULL
typedef struct { struct ms_obj h; id device; } MPSGraphDeviceObj;
typedef struct { struct ms_obj h; ms_shape shape; bool ranked; uint32_t dtype; } MPSGraphShapedTypeObj;

// ---- rows: an array may pad its last dimension (preferPackedRows is NO by default) ----
int64_t ms_row_bytes(const ms_shape *s, uint32_t t, bool padded)
{
	int64_t n = (s->rank ? s->d[s->rank - 1] : 1) * ms_dtype_size(t);
	return padded && ms_cfg.pad_rows && s->rank > 1 ? (n + 63) / 64 * 64 : n;
}
static int64_t rows(const ms_shape *s) { return s->rank ? ms_count_of(s) / s->d[s->rank - 1] : 1; }
static int64_t span(const ms_shape *s, uint32_t t, int64_t row)
{
	return (rows(s) - 1) * row + ms_row_bytes(s, t, false);
}
void ms_read_rows(const ms_store_at *a, const uint8_t *base, void *dst)
{
	int64_t n = ms_row_bytes(&a->shape, a->dtype, false);
	for (int64_t r = 0; r < rows(&a->shape); r++)
		memcpy((char *)dst + r * n, base + a->offset + r * a->row, (size_t)n);
}
void ms_write_rows(const ms_store_at *a, uint8_t *base, const void *src)
{
	int64_t n = ms_row_bytes(&a->shape, a->dtype, false);
	for (int64_t r = 0; r < rows(&a->shape); r++)
		memcpy(base + a->offset + r * a->row, (const char *)src + r * n, (size_t)n);
}

// place checks shape, type and size of a store over mem.
static bool place(ms_call *c, ms_store_at *at, ms_mem *mem, id shape, uint32_t t, int64_t offset, int64_t row)
{
	*at = (ms_store_at){.mem = mem, .offset = offset, .dtype = t};
	const char *s = c->decl->sel + 1;
	if (shape && !ms_shape_from(shape, &at->shape)) {
		ms_violation("mpsgraph-shape", "-[%s %s]: shape must be integers", c->cls->name, s);
		return false;
	}
	for (int i = 0; i < at->shape.rank; i++)
		if (at->shape.d[i] <= 0) {
			ms_violation("mpsgraph-shape", "-[%s %s]: shape %s", c->cls->name, s, ms_shape_text(&at->shape));
			return false;
		}
	if (!ms_dtype_size(t)) {
		ms_violation("mpsgraph-dtype", "-[%s %s]: data type %#x", c->cls->name, s, t);
		return false;
	}
	int64_t least = ms_row_bytes(&at->shape, t, false);
	at->row = row < 0 ? least : row;
	if (at->row < least || at->row % ms_dtype_size(t)) {
		ms_violation("row-bytes", "-[%s %s]: rowBytes %lld, want a multiple of %d, at least %lld", c->cls->name, s, (long long)row, ms_dtype_size(t), (long long)least);
		return false;
	}
	if (mem && offset + span(&at->shape, t, at->row) > mem->len) {
		ms_violation("byte-count", "-[%s %s]: %s of %s needs %lld bytes at %lld, the buffer has %lld", c->cls->name, s, ms_dtype_name(t),
			     ms_shape_text(&at->shape), (long long)span(&at->shape, t, at->row), (long long)offset, (long long)mem->len);
		return false;
	}
	return true;
}
// What MPS allocates itself, counted: the engine means to give its own buffers always.
static ms_mem *fresh(const ms_shape *s, uint32_t t, int64_t row)
{
	ms_count("arrays_allocated", 1);
	return ms_mem_new(span(s, t, row));
}

// ---- MPSNDArrayDescriptor ----
static void describe(ms_call *c, const ms_shape *s, uint32_t t)
{
	MPSNDArrayDescriptorObj *d = (MPSNDArrayDescriptorObj *)ms_instance(c, "MPSNDArrayDescriptor");
	d->shape = *s;
	d->dtype = t;
}
IMP(nd_desc_shape)
{
	ms_shape s;
	if (!ms_shape_from(c->a[1].o, &s))
		ms_violation("mpsgraph-shape", "MPSNDArrayDescriptor: shape must be integers");
	else
		describe(c, &s, (uint32_t)c->a[0].q);
}
// dimensionSizes are the reverse of a shape: dimension 0 is the fastest.
IMP(nd_desc_sizes)
{
	ms_shape s = {.rank = (int)c->a[1].q};
	const uint64_t *sizes = c->a[2].p;
	if (s.rank < 1 || s.rank > MS_RANK || !sizes) {
		ms_violation("mpsgraph-shape", "MPSNDArrayDescriptor: %d dimensions", s.rank);
		return;
	}
	for (int i = 0; i < s.rank; i++)
		s.d[s.rank - 1 - i] = (int64_t)sizes[i];
	describe(c, &s, (uint32_t)c->a[0].q);
}
static MPSNDArrayDescriptorObj *nd_desc(ms_call *c) { return (MPSNDArrayDescriptorObj *)c->self; }
IMP(nd_desc_dtype) { c->ret.q = nd_desc(c)->dtype; }
IMP(nd_desc_rank) { c->ret.q = (uint64_t)nd_desc(c)->shape.rank; }
IMP(nd_desc_get_shape) { ms_return_new(c, ms_shape_array(&nd_desc(c)->shape)); }
IMP(nd_desc_packed) { c->ret.q = nd_desc(c)->packed; }
IMP(nd_desc_set_packed) { nd_desc(c)->packed = c->a[0].q; }
IMP(nd_desc_length)
{
	uint64_t i = c->a[0].q;
	c->ret.i = i < (uint64_t)nd_desc(c)->shape.rank ? nd_desc(c)->shape.d[nd_desc(c)->shape.rank - 1 - (int)i] : 1;
}
static const ms_impl nd_desc_impls[] = {
	{"+descriptorWithDataType:shape:", nd_desc_shape}, {"+descriptorWithDataType:dimensionCount:dimensionSizes:", nd_desc_sizes},
	{"-dataType", nd_desc_dtype}, {"-numberOfDimensions", nd_desc_rank}, {"-getShape", nd_desc_get_shape},
	{"-preferPackedRows", nd_desc_packed}, {"-setPreferPackedRows:", nd_desc_set_packed}, {"-lengthOfDimension:", nd_desc_length},
};

// ---- MPSNDArray ----
static void array_dealloc(id o)
{
	MPSNDArrayObj *a = (MPSNDArrayObj *)o;
	if (a->at.mem)
		ms_mem_release(a->at.mem);
	ms_release(a->at.device);
	ms_release(a->buffer);
}
IMP(nd_init_device)
{
	MPSNDArrayDescriptorObj *d = (MPSNDArrayDescriptorObj *)c->a[1].o;
	MPSNDArrayObj *a = (MPSNDArrayObj *)ms_init_self(c);
	a->at = (ms_store_at){.shape = d->shape, .dtype = d->dtype, .row = ms_row_bytes(&d->shape, d->dtype, !d->packed), .device = ms_retain(c->a[0].o)};
	a->at.mem = fresh(&d->shape, d->dtype, a->at.row);
}
// A user's buffer is taken as the descriptor says: without preferPackedRows its rows are padded.
IMP(nd_init_buffer)
{
	MPSNDArrayDescriptorObj *d = (MPSNDArrayDescriptorObj *)c->a[2].o;
	ms_mem *m = ms_buffer_mem(c->a[0].o);
	id shape = ms_shape_array(&d->shape), buffer = c->a[0].o;
	ms_store_at at;
	bool ok = place(c, &at, m, shape, d->dtype, c->a[1].i, ms_row_bytes(&d->shape, d->dtype, !d->packed));
	ms_release(shape);
	if (!ok) {
		ms_init_fail(c);
		return;
	}
	MPSNDArrayObj *a = (MPSNDArrayObj *)ms_init_self(c);
	a->at = at;
	a->at.device = ms_retain(((MTLBufferObj *)buffer)->device);
	ms_mem_retain(m);
	a->buffer = ms_retain(buffer);
}
static MPSNDArrayObj *nd(ms_call *c) { return (MPSNDArrayObj *)c->self; }
IMP(nd_dtype) { c->ret.q = nd(c)->at.dtype; }
IMP(nd_rank) { c->ret.q = (uint64_t)nd(c)->at.shape.rank; }
IMP(nd_length)
{
	uint64_t i = c->a[0].q;
	c->ret.i = i < (uint64_t)nd(c)->at.shape.rank ? nd(c)->at.shape.d[nd(c)->at.shape.rank - 1 - (int)i] : 1;
}
// resourceSize includes padding: it is not the size of the packed tensor.
IMP(nd_size) { c->ret.i = nd(c)->at.mem->len; }
IMP(nd_user_buffer) { ms_return(c, nd(c)->buffer); }
IMP(nd_device) { ms_return(c, nd(c)->at.device); }
IMP(nd_descriptor)
{
	MPSNDArrayDescriptorObj *d = (MPSNDArrayDescriptorObj *)ms_new("MPSNDArrayDescriptor");
	d->shape = nd(c)->at.shape;
	d->dtype = nd(c)->at.dtype;
	ms_return_new(c, (id)d);
}
// The CPU's view is read, so that a read before completion is noticed.
IMP(nd_read)
{
	if (c->a[1].p)
		ms_violation("not-implemented", "readBytes:strideBytes: with strides");
	else
		ms_read_rows(&nd(c)->at, nd(c)->at.mem->cpu, c->a[0].p);
}
IMP(nd_write)
{
	if (c->a[1].p)
		ms_violation("not-implemented", "writeBytes:strideBytes: with strides");
	else
		ms_write_rows(&nd(c)->at, nd(c)->at.mem->cpu, c->a[0].p);
}
static const ms_impl nd_impls[] = {
	{"-initWithDevice:descriptor:", nd_init_device}, {"-initWithBuffer:offset:descriptor:", nd_init_buffer}, {"-dataType", nd_dtype},
	{"-numberOfDimensions", nd_rank}, {"-lengthOfDimension:", nd_length}, {"-resourceSize", nd_size}, {"-userBuffer", nd_user_buffer},
	{"-device", nd_device}, {"-descriptor", nd_descriptor}, {"-readBytes:strideBytes:", nd_read}, {"-writeBytes:strideBytes:", nd_write},
};

// ---- MPSGraphDevice ----
static void device_dealloc(id o) { ms_release(((MPSGraphDeviceObj *)o)->device); }
IMP(gd_make) { ((MPSGraphDeviceObj *)ms_instance(c, "MPSGraphDevice"))->device = ms_retain(c->a[0].o); }
IMP(gd_metal) { ms_return(c, ((MPSGraphDeviceObj *)c->self)->device); }
IMP(gd_type) { c->ret.q = 0; }
static const ms_impl device_impls[] = {{"+deviceWithMTLDevice:", gd_make}, {"-metalDevice", gd_metal}, {"-type", gd_type}};

// ---- MPSGraphShapedType ----
// A nil shape means any rank; a feed needs a known one here.
IMP(st_init)
{
	ms_shape s = {0};
	if (c->a[0].o && !ms_shape_from(c->a[0].o, &s)) {
		ms_violation("mpsgraph-shape", "MPSGraphShapedType: shape must be integers");
		ms_init_fail(c);
		return;
	}
	MPSGraphShapedTypeObj *t = (MPSGraphShapedTypeObj *)ms_init_self(c);
	t->ranked = c->a[0].o != NULL;
	t->shape = s;
	t->dtype = (uint32_t)c->a[1].q;
}
static MPSGraphShapedTypeObj *shaped(ms_call *c) { return (MPSGraphShapedTypeObj *)c->self; }
IMP(st_shape)
{
	if (shaped(c)->ranked)
		ms_return_new(c, ms_shape_array(&shaped(c)->shape));
}
IMP(st_dtype) { c->ret.q = shaped(c)->dtype; }
IMP(st_equal)
{
	MPSGraphShapedTypeObj *x = (MPSGraphShapedTypeObj *)c->a[0].o;
	c->ret.q = x && x->ranked == shaped(c)->ranked && x->dtype == shaped(c)->dtype && ms_same_shape(&x->shape, &shaped(c)->shape);
}
static const ms_impl shaped_impls[] = {
	{"-initWithShape:dataType:", st_init}, {"-shape", st_shape}, {"-dataType", st_dtype}, {"-isEqualTo:", st_equal},
};
bool ms_shaped_type(id o, ms_shape *s, uint32_t *t)
{
	*s = ((MPSGraphShapedTypeObj *)o)->shape;
	*t = ((MPSGraphShapedTypeObj *)o)->dtype;
	return ((MPSGraphShapedTypeObj *)o)->ranked;
}

// ---- MPSGraphTensorData ----
static void data_dealloc(id o)
{
	MPSGraphTensorDataObj *d = (MPSGraphTensorDataObj *)o;
	ms_mem_release(d->at.mem);
	ms_release(d->at.device);
	ms_release(d->array);
	ms_release(d->buffer);
}
// buffer is what keeps the memory: the MTLBuffer, which Metal retains while it is used.
// Data keeps memory and buffer alive until it is released, whatever the pool does.
static void adopt(ms_call *c, const ms_store_at *at, id array, id buffer)
{
	MPSGraphTensorDataObj *d = (MPSGraphTensorDataObj *)ms_init_self(c);
	d->at = *at;
	ms_mem_retain(at->mem);
	d->at.device = ms_retain(at->device);
	d->array = ms_retain(array);
	d->buffer = ms_retain(buffer);
}
static void from_buffer(ms_call *c, int64_t row)
{
	ms_store_at at;
	id buffer = c->a[0].o;
	if (!place(c, &at, ms_buffer_mem(buffer), c->a[1].o, (uint32_t)c->a[2].q, 0, row)) {
		ms_init_fail(c);
		return;
	}
	at.device = ((MTLBufferObj *)buffer)->device;
	adopt(c, &at, NULL, buffer);
}
IMP(td_buffer) { from_buffer(c, -1); } // packed
IMP(td_buffer_rows) { from_buffer(c, c->a[3].i); }
IMP(td_array)
{
	MPSNDArrayObj *a = (MPSNDArrayObj *)c->a[0].o;
	adopt(c, &a->at, (id)a, a->buffer);
}
IMP(td_data)
{
	ms_store_at at;
	uint32_t t = (uint32_t)c->a[3].q;
	bool ok = place(c, &at, NULL, c->a[2].o, t, 0, -1);
	int64_t got = ms_data_length(c->a[1].o), want = ok ? ms_count_of(&at.shape) * ms_dtype_size(t) : got;
	if (got != want)
		ms_violation("byte-count", "-[MPSGraphTensorData %s]: NSData of %lld bytes, want %lld", c->decl->sel + 1, (long long)got, (long long)want);
	if (!ok || got != want) {
		ms_init_fail(c);
		return;
	}
	at.mem = ms_mem_new(want);
	at.device = ((MPSGraphDeviceObj *)c->a[0].o)->device;
	memcpy(at.mem->gpu, ms_data_bytes(c->a[1].o), (size_t)want);
	ms_count("bytes_tensor_data", want);
	adopt(c, &at, NULL, NULL);
	ms_mem_release(at.mem);
}
id ms_tensor_data_new(id device, const ms_shape *s, uint32_t t)
{
	MPSGraphTensorDataObj *d = (MPSGraphTensorDataObj *)ms_new("MPSGraphTensorData");
	d->at = (ms_store_at){.shape = *s, .dtype = t, .row = ms_row_bytes(s, t, true), .device = ms_retain(device)};
	d->at.mem = fresh(s, t, d->at.row);
	return (id)d;
}
static MPSGraphTensorDataObj *td(ms_call *c) { return (MPSGraphTensorDataObj *)c->self; }
IMP(td_shape) { ms_return_new(c, ms_shape_array(&td(c)->at.shape)); }
IMP(td_dtype) { c->ret.q = td(c)->at.dtype; }
IMP(td_device)
{
	MPSGraphDeviceObj *g = (MPSGraphDeviceObj *)ms_new("MPSGraphDevice");
	g->device = ms_retain(td(c)->at.device);
	ms_return_new(c, (id)g);
}
// "-mpsndarray copies if the contents are not an MPSNDArray already": a result that MPS
// allocated is one, a buffer is not.
IMP(td_ndarray)
{
	MPSGraphTensorDataObj *d = td(c);
	if (!d->array) {
		MPSNDArrayObj *a = (MPSNDArrayObj *)ms_new("MPSNDArray");
		a->at = d->at;
		a->at.device = ms_retain(d->at.device);
		if (d->buffer) {
			ms_count("ndarray_copies", 1);
			a->at.offset = 0;
			a->at.row = ms_row_bytes(&a->at.shape, a->at.dtype, true);
			a->at.mem = fresh(&a->at.shape, a->at.dtype, a->at.row);
			void *tmp = malloc((size_t)(ms_count_of(&a->at.shape) * ms_dtype_size(a->at.dtype)));
			ms_read_rows(&d->at, d->at.mem->cpu, tmp);
			ms_write_rows(&a->at, a->at.mem->gpu, tmp);
			free(tmp);
		} else {
			ms_mem_retain(d->at.mem);
		}
		d->array = (id)a;
	}
	ms_return(c, d->array);
}
static const ms_impl td_impls[] = {
	{"-initWithMTLBuffer:shape:dataType:", td_buffer}, {"-initWithMTLBuffer:shape:dataType:rowBytes:", td_buffer_rows},
	{"-initWithMPSNDArray:", td_array}, {"-initWithDevice:data:shape:dataType:", td_data}, {"-shape", td_shape}, {"-dataType", td_dtype},
	{"-device", td_device}, {"-mpsndarray", td_ndarray},
};

void ms_init_tensor_data(void)
{
	ms_define("MPSNDArrayDescriptor", "NSObject", "", sizeof(MPSNDArrayDescriptorObj), NULL);
	ms_define("MPSNDArray", "NSObject", "", sizeof(MPSNDArrayObj), array_dealloc);
	ms_define("MPSGraphDevice", "NSObject", "", sizeof(MPSGraphDeviceObj), device_dealloc);
	ms_define("MPSGraphShapedType", "NSObject", "", sizeof(MPSGraphShapedTypeObj), NULL);
	ms_define("MPSGraphTensorData", "NSObject", "", sizeof(MPSGraphTensorDataObj), data_dealloc);
	ms_unavailable("MPSNDArrayDescriptor");
	ms_unavailable("MPSGraphDevice");
	MS_IMPLEMENT("MPSNDArrayDescriptor", nd_desc_impls);
	MS_IMPLEMENT("MPSNDArray", nd_impls);
	MS_IMPLEMENT("MPSGraphDevice", device_impls);
	MS_IMPLEMENT("MPSGraphShapedType", shaped_impls);
	MS_IMPLEMENT("MPSGraphTensorData", td_impls);
}
