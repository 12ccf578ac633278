// SPDX-License-Identifier: Apache-2.0
// MTLDevice, MTLBuffer, MTLLibrary, MTLComputePipelineState, MTLCompileOptions.
#define _GNU_SOURCE
#include "gpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { struct ms_obj h; } MTLDeviceObj;
typedef struct { struct ms_obj h; ms_function f[64]; int n; id label; } MTLLibraryObj;
typedef struct { struct ms_obj h; uint64_t language; int64_t math, math_functions, level; bool fast, invariance; } MTLCompileOptions;

// ---- the device: one object for the process, as on a Mac with one GPU ----
static id device;
static pthread_mutex_t dev_mu = PTHREAD_MUTEX_INITIALIZER;

static void device_dealloc(id o)
{
	(void)o;
	pthread_mutex_lock(&dev_mu);
	device = NULL;
	pthread_mutex_unlock(&dev_mu);
}
id ms_device(void) { return device; }

// +1 for the caller (NS_RETURNS_RETAINED), but one object for all of them.
MS_EXPORT id MTLCreateSystemDefaultDevice(void)
{
	ms_crash_at("device");
	if (ms_cfg.no_device)
		return NULL;
	pthread_mutex_lock(&dev_mu);
	bool fresh = !device;
	if (fresh)
		device = ms_new("MTLSimDevice");
	pthread_mutex_unlock(&dev_mu);
	return fresh ? device : ms_retain(device);
}
MS_EXPORT id MTLCopyAllDevices(void)
{
	id d = MTLCreateSystemDefaultDevice();
	return d ? ms_array_owned(&d, 1) : ms_array(NULL, 0);
}
MS_EXPORT bool MPSSupportsMTLDevice(id d) { return d != NULL; }

IMP(dev_name) { ms_return_new(c, ms_string(ms_cfg.name)); }
IMP(dev_registry) { c->ret.q = 0x1000003a5; }
IMP(dev_max_buffer) { c->ret.q = ms_cfg.max_buffer; }
IMP(dev_working_set) { c->ret.q = ms_cfg.working_set; }
IMP(dev_allocated) { c->ret.i = ms_live_bytes(); }
IMP(dev_unified) { c->ret.q = ms_cfg.unified; }
IMP(dev_no) { c->ret.q = 0; }
IMP(dev_threadgroup_memory) { c->ret.q = 32768; }
IMP(dev_max_threads)
{
	c->ret.s[0] = c->ret.s[1] = c->ret.s[2] = 1024;
}
// Apple7 is M1; Mac2 and Common3 hold on every Apple silicon Mac, Metal3 from macOS 13.
IMP(dev_family)
{
	int64_t f = c->a[0].i;
	c->ret.q = (f > 1000 && f <= 1000 + ms_cfg.family) || f == 2002 || (f > 3000 && f <= 3003) ||
		   (f == 5001 && ms_cfg.family >= 7) || (f == 5002 && ms_cfg.family >= 7 && ms_cfg.os >= 260000);
}

// ---- buffers ----
static void buffer_dealloc(id o)
{
	MTLBufferObj *b = (MTLBufferObj *)o;
	pthread_mutex_lock(&ms_gpu_mu);
	bool used = b->mem->foreign && b->mem->reads + b->mem->writes > 0, unretained = b->mem->unretained > 0;
	pthread_mutex_unlock(&ms_gpu_mu);
	// Metal keeps the buffer for a command buffer, but not the caller's pages under it.
	if (used)
		ms_violation("freed-in-flight", "a no-copy buffer of %lld bytes was released while committed work uses the "
			     "caller's memory", (long long)b->mem->len);
	else if (unretained)
		ms_violation("freed-in-flight", "a buffer of %lld bytes was released while a command buffer with unretained "
			     "references uses it", (long long)b->mem->len);
	if (b->deallocator) {
		void (*f)(void *, void *, uint64_t) = (void (*)(void *, void *, uint64_t))ms_block_invoke(b->deallocator);
		f(b->deallocator, b->mem->cpu, (uint64_t)b->mem->len);
		ms_block_release(b->deallocator);
	}
	ms_count("buffers_live", -1);
	ms_mem_release(b->mem);
	ms_release(b->label);
	ms_release(b->device);
}

ms_mem *ms_buffer_mem(id o) { return ((MTLBufferObj *)o)->mem; }

// allowed applies the limits of the device and the injected failures.
static bool allowed(ms_call *c, uint64_t len, uint64_t options)
{
	uint64_t storage = options >> 4 & 15;
	if (len == 0) {
		ms_violation("buffer-size", "-[MTLDevice %s]: length must be > 0", c->decl->sel + 1);
		return false;
	}
	if (storage > 2 || (storage == 1 && ms_cfg.unified)) {
		ms_violation("buffer-options", "-[MTLDevice %s]: storage mode %llu is not for buffers of this device",
			     c->decl->sel + 1, (unsigned long long)storage);
		return false;
	}
	if (ms_fail(&ms_cfg.fail_alloc) || len > ms_cfg.max_buffer || (uint64_t)ms_live_bytes() + len > ms_cfg.memory)
		return false; // nil, as on a device that is out of memory
	if ((uint64_t)ms_live_bytes() + len > ms_cfg.working_set)
		ms_violation("working-set", "%llu bytes more than recommendedMaxWorkingSetSize %llu are allocated",
			     (unsigned long long)((uint64_t)ms_live_bytes() + len - ms_cfg.working_set),
			     (unsigned long long)ms_cfg.working_set);
	return true;
}

// The deallocator block, when there is one, is told when the last user is gone.
static void return_buffer(ms_call *c, ms_mem *m, uint64_t options, void *deallocator)
{
	if (!m)
		return;
	MTLBufferObj *b = (MTLBufferObj *)ms_new("MTLSimBuffer");
	b->mem = m;
	b->options = options;
	b->device = ms_retain(c->self);
	b->deallocator = ms_block_copy(deallocator);
	ms_count("buffers", 1);
	ms_count("buffers_live", 1);
	ms_return_new(c, (id)b);
}
// "Creates a buffer the method clears with zero values" (Apple): memfd pages are zero.
IMP(dev_buffer)
{
	if (allowed(c, c->a[0].q, c->a[1].q))
		return_buffer(c, ms_mem_new(c->a[0].i), c->a[1].q, NULL);
}
IMP(dev_buffer_bytes)
{
	if (!allowed(c, c->a[1].q, c->a[2].q))
		return;
	ms_mem *m = ms_mem_new(c->a[1].i);
	if (m)
		memcpy(m->gpu, c->a[0].p, c->a[1].q);
	ms_count("bytes_buffer", c->a[1].i);
	return_buffer(c, m, c->a[2].q, NULL);
}
// The pointer must be page aligned, the length a multiple of the page, all of it mapped.
IMP(dev_buffer_nocopy)
{
	uintptr_t p = (uintptr_t)c->a[0].p, page = ms_cfg.page, host = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint64_t n = c->a[1].q;
	if (p % page || n % page) {
		ms_violation("page-align", "newBufferWithBytesNoCopy: pointer %#lx and length %llu must be multiples of the "
			     "page size %lu", p, (unsigned long long)n, page);
		return;
	}
	if (!allowed(c, n, c->a[2].q))
		return;
	unsigned char vec[256];
	for (uintptr_t at = p / host * host; at < p + n; at += host * sizeof vec) {
		size_t len = p + n - at < host * sizeof vec ? p + n - at : host * sizeof vec;
		if (!mincore((void *)at, len, vec))
			continue;
		ms_violation("bad-memory", "newBufferWithBytesNoCopy: %#lx + %llu is not all mapped", p, (unsigned long long)n);
		return;
	}
	return_buffer(c, ms_mem_foreign(c->a[0].p, (int64_t)n), c->a[2].q, c->a[3].p);
}

IMP(buf_contents)
{
	MTLBufferObj *b = (MTLBufferObj *)c->self;
	bool private = (b->options >> 4 & 15) == 2;
	if (private)
		ms_violation("private-contents", "-[MTLBuffer contents] of a private buffer is NULL");
	c->ret.p = private || ms_fail(&ms_cfg.fail_contents) ? NULL : b->mem->cpu;
}
IMP(buf_length) { c->ret.i = ((MTLBufferObj *)c->self)->mem->len; }
IMP(buf_modified)
{
	if (c->a[0].s[0] + c->a[0].s[1] > (uint64_t)((MTLBufferObj *)c->self)->mem->len)
		ms_violation("range", "-[MTLBuffer didModifyRange:] beyond the buffer");
}
IMP(buf_device) { ms_return(c, ((MTLBufferObj *)c->self)->device); }
IMP(buf_label) { ms_return(c, ((MTLBufferObj *)c->self)->label); }
IMP(buf_set_label)
{
	ms_retain(c->a[0].o);
	ms_release(((MTLBufferObj *)c->self)->label);
	((MTLBufferObj *)c->self)->label = c->a[0].o;
}
IMP(buf_storage) { c->ret.q = ((MTLBufferObj *)c->self)->options >> 4 & 15; }
IMP(buf_options) { c->ret.q = ((MTLBufferObj *)c->self)->options; }
IMP(buf_cache) { c->ret.q = ((MTLBufferObj *)c->self)->options & 15; }
IMP(buf_hazard) { c->ret.q = 2; } // tracked
IMP(buf_address) { c->ret.p = ((MTLBufferObj *)c->self)->mem->gpu; }
static const ms_impl resource_impls[] = {
	{"-device", buf_device}, {"-label", buf_label}, {"-setLabel:", buf_set_label}, {"-storageMode", buf_storage},
	{"-resourceOptions", buf_options}, {"-cpuCacheMode", buf_cache}, {"-hazardTrackingMode", buf_hazard},
	{"-allocatedSize", buf_length},
};
static const ms_impl buffer_impls[] = {
	{"-contents", buf_contents}, {"-length", buf_length}, {"-didModifyRange:", buf_modified}, {"-gpuAddress", buf_address},
};

// ---- queues and events ----
static void make_queue(ms_call *c, int64_t max)
{
	if (ms_fail(&ms_cfg.fail_queue))
		return;
	MTLQueueObj *q = (MTLQueueObj *)ms_new("MTLSimCommandQueue");
	q->device = ms_retain(c->self);
	q->max = max;
	q->slot = ms_race_slot();
	ms_return_new(c, (id)q);
}
// "newCommandQueue allows 64 uncompleted command buffers" (MTLDevice.h).
IMP(dev_queue) { make_queue(c, 64); }
IMP(dev_queue_max) { make_queue(c, c->a[0].i); }
IMP(dev_event) { ms_return_new(c, ms_new("MTLSimEvent")); }
IMP(dev_shared_event)
{
	if (ms_fail(&ms_cfg.fail_event))
		return;
	MTLEventObj *e = (MTLEventObj *)ms_new("MTLSimSharedEvent");
	e->shared = true;
	ms_return_new(c, (id)e);
}

// ---- libraries ----
// Apple compiles in another process and reports through the error; a warning gives both a
// library and an error, which is why only nil means failure.
IMP(dev_library)
{
	MTLLibraryObj *l = (MTLLibraryObj *)ms_new("MTLSimLibrary");
	char err[512];
	bool fail = ms_fail(&ms_cfg.fail_compile);
	if (fail)
		snprintf(err, sizeof err, "program_source:1:1: error: injected compile failure");
	if (fail || !ms_parse_kernels(ms_utf8(c->a[0].o), l->f, &l->n, ARRAY_LEN(l->f), err, sizeof err)) {
		ms_set_error(c->a[2].p, "MTLLibraryErrorDomain", 3, err); // MTLLibraryErrorCompileFailure
		ms_release((id)l);
		return;
	}
	ms_return_new(c, (id)l);
}
// An unknown name is nil, not an error.
IMP(lib_function)
{
	MTLLibraryObj *l = (MTLLibraryObj *)c->self;
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->f[i].name, ms_utf8(c->a[0].o))) {
			MTLFunctionObj *f = (MTLFunctionObj *)ms_new("MTLSimFunction");
			f->f = l->f[i];
			ms_return_new(c, (id)f);
		}
}
IMP(lib_names)
{
	MTLLibraryObj *l = (MTLLibraryObj *)c->self;
	id names[64];
	for (int i = 0; i < l->n; i++)
		names[i] = ms_string(l->f[i].name);
	ms_return_new(c, ms_array_owned(names, l->n));
}
IMP(fn_name) { ms_return_new(c, ms_string(((MTLFunctionObj *)c->self)->f.name)); }
IMP(dev_pipeline)
{
	MTLPipelineObj *p = (MTLPipelineObj *)ms_new("MTLSimComputePipelineState");
	p->f = ((MTLFunctionObj *)c->a[0].o)->f;
	ms_return_new(c, (id)p);
}
IMP(pipe_max) { c->ret.q = 1024; }
IMP(pipe_width) { c->ret.q = 32; }
IMP(pipe_memory) { c->ret.q = 0; }
IMP(any_device) { ms_return(c, ms_device()); }

IMP(opt_init)
{
	MTLCompileOptions *o = (MTLCompileOptions *)ms_init_self(c);
	o->fast = true; // both fast by default
	o->math = 2;
	o->language = 0x30002;
}
IMP(opt_set_math) { ((MTLCompileOptions *)c->self)->math = c->a[0].i; }
IMP(opt_math) { c->ret.i = ((MTLCompileOptions *)c->self)->math; }
IMP(opt_set_functions) { ((MTLCompileOptions *)c->self)->math_functions = c->a[0].i; }
IMP(opt_functions) { c->ret.i = ((MTLCompileOptions *)c->self)->math_functions; }
IMP(opt_set_fast) { ((MTLCompileOptions *)c->self)->fast = c->a[0].q; }
IMP(opt_fast) { c->ret.q = ((MTLCompileOptions *)c->self)->fast; }
IMP(opt_set_language) { ((MTLCompileOptions *)c->self)->language = c->a[0].q; }
IMP(opt_language) { c->ret.q = ((MTLCompileOptions *)c->self)->language; }
IMP(opt_set_level) { ((MTLCompileOptions *)c->self)->level = c->a[0].i; }
IMP(opt_level) { c->ret.i = ((MTLCompileOptions *)c->self)->level; }

static const ms_impl device_impls[] = {
	{"-name", dev_name}, {"-registryID", dev_registry}, {"-maxBufferLength", dev_max_buffer},
	{"-recommendedMaxWorkingSetSize", dev_working_set}, {"-currentAllocatedSize", dev_allocated},
	{"-hasUnifiedMemory", dev_unified}, {"-isLowPower", dev_no}, {"-isRemovable", dev_no}, {"-isHeadless", dev_no},
	{"-location", dev_no}, {"-maxThreadgroupMemoryLength", dev_threadgroup_memory},
	{"-maxThreadsPerThreadgroup", dev_max_threads}, {"-supportsFamily:", dev_family},
	{"-newBufferWithLength:options:", dev_buffer}, {"-newBufferWithBytes:length:options:", dev_buffer_bytes},
	{"-newBufferWithBytesNoCopy:length:options:deallocator:", dev_buffer_nocopy}, {"-newCommandQueue", dev_queue},
	{"-newCommandQueueWithMaxCommandBufferCount:", dev_queue_max}, {"-newEvent", dev_event},
	{"-newSharedEvent", dev_shared_event}, {"-newLibraryWithSource:options:error:", dev_library},
	{"-newComputePipelineStateWithFunction:error:", dev_pipeline},
};
static const ms_impl library_impls[] = {{"-newFunctionWithName:", lib_function}, {"-functionNames", lib_names}, {"-device", any_device}};
static const ms_impl function_impls[] = {{"-name", fn_name}, {"-device", any_device}};
static const ms_impl pipeline_impls[] = {
	{"-maxTotalThreadsPerThreadgroup", pipe_max}, {"-threadExecutionWidth", pipe_width},
	{"-staticThreadgroupMemoryLength", pipe_memory}, {"-device", any_device},
};
static const ms_impl option_impls[] = {
	{"-init", opt_init}, {"-setMathMode:", opt_set_math}, {"-mathMode", opt_math}, {"-setFastMathEnabled:", opt_set_fast},
	{"-fastMathEnabled", opt_fast}, {"-setLanguageVersion:", opt_set_language}, {"-languageVersion", opt_language},
	{"-setMathFloatingPointFunctions:", opt_set_functions}, {"-mathFloatingPointFunctions", opt_functions},
	{"-setOptimizationLevel:", opt_set_level}, {"-optimizationLevel", opt_level},
};

void ms_init_metal(void)
{
	ms_define("MTLSimDevice", "NSObject", "MTLDevice", sizeof(MTLDeviceObj), device_dealloc);
	ms_define("MTLSimBuffer", "NSObject", "MTLBuffer", sizeof(MTLBufferObj), buffer_dealloc);
	ms_define("MTLSimLibrary", "NSObject", "MTLLibrary", sizeof(MTLLibraryObj), NULL);
	ms_define("MTLSimFunction", "NSObject", "MTLFunction", sizeof(MTLFunctionObj), NULL);
	ms_define("MTLSimComputePipelineState", "NSObject", "MTLComputePipelineState", sizeof(MTLPipelineObj), NULL);
	ms_define("MTLCompileOptions", "NSObject", "", sizeof(MTLCompileOptions), NULL);
	MS_IMPLEMENT("MTLDevice", device_impls);
	MS_IMPLEMENT("MTLResource", resource_impls);
	MS_IMPLEMENT("MTLBuffer", buffer_impls);
	MS_IMPLEMENT("MTLLibrary", library_impls);
	MS_IMPLEMENT("MTLFunction", function_impls);
	MS_IMPLEMENT("MTLComputePipelineState", pipeline_impls);
	MS_IMPLEMENT("MTLCompileOptions", option_impls);
	ms_init_command();
}
