// SPDX-License-Identifier: Apache-2.0
// MTLComputeCommandEncoder and MTLBlitCommandEncoder. Arguments are resolved when a command
// is encoded, as Metal does; the commands run on the queue's worker.
#include "gpu.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
	struct ms_obj h;
	MTLCommandBufferObj *cb;
	id label;
	bool ended;
	ms_function *f; // compute only, from here
	ms_mem *mem[MS_MAX_BUFFERS];
	int64_t offset[MS_MAX_BUFFERS];
	void *bytes[MS_MAX_BUFFERS];
	int64_t nbytes[MS_MAX_BUFFERS];
} Encoder;

// A slot holds a buffer or bytes; setting one replaces the other.
static void clear_slot(Encoder *e, int i)
{
	if (e->mem[i])
		ms_mem_release(e->mem[i]);
	free(e->bytes[i]);
	e->mem[i] = NULL;
	e->bytes[i] = NULL;
	e->offset[i] = e->nbytes[i] = 0;
}

static void end(Encoder *e)
{
	e->ended = true;
	if (e->cb->encoder == (id)e)
		e->cb->encoder = NULL;
}

static void encoder_dealloc(id o)
{
	Encoder *e = (Encoder *)o;
	if (!e->ended) {
		ms_violation("encoder-open", "an encoder was deallocated without endEncoding");
		end(e);
	}
	for (int i = 0; i < MS_MAX_BUFFERS; i++)
		clear_slot(e, i);
	free(e->f);
	ms_release(e->label);
	ms_release((id)e->cb);
}

static id make(MTLCommandBufferObj *cb, const char *cls)
{
	Encoder *e = (Encoder *)ms_new(cls);
	e->cb = (MTLCommandBufferObj *)ms_retain((id)cb);
	cb->encoder = (id)e;
	ms_count("encoders", 1);
	return (id)e;
}
id ms_compute_encoder(MTLCommandBufferObj *cb) { return make(cb, "MTLSimComputeCommandEncoder"); }
id ms_blit_encoder(MTLCommandBufferObj *cb) { return make(cb, "MTLSimBlitCommandEncoder"); }

// open gives the encoder when it still accepts commands.
static Encoder *open(ms_call *c)
{
	Encoder *e = (Encoder *)c->self;
	if (!e->ended)
		return e;
	ms_violation("encode-after-end", "%s after endEncoding", c->decl->sel + 1);
	return NULL;
}

IMP(cb_compute)
{
	MTLCommandBufferObj *cb = ms_encodable(c->self, "computeCommandEncoder");
	if (cb)
		ms_return_new(c, ms_compute_encoder(cb));
}
IMP(cb_blit)
{
	MTLCommandBufferObj *cb = ms_encodable(c->self, "blitCommandEncoder");
	if (cb)
		ms_return_new(c, ms_blit_encoder(cb));
}
IMP(enc_end)
{
	if (open(c))
		end((Encoder *)c->self);
}
IMP(enc_label) { ms_return(c, ((Encoder *)c->self)->label); }
IMP(enc_set_label)
{
	ms_retain(c->a[0].o);
	ms_release(((Encoder *)c->self)->label);
	((Encoder *)c->self)->label = c->a[0].o;
}
IMP(enc_device) { ms_return(c, ((Encoder *)c->self)->cb->queue->device); }
IMP(enc_nothing) { open(c); }

// ---- compute ----
static bool slot_ok(ms_call *c, uint64_t i)
{
	if (i < MS_MAX_BUFFERS)
		return true;
	ms_violation("range", "%s: index %llu, at most %d buffers", c->decl->sel + 1, (unsigned long long)i, MS_MAX_BUFFERS);
	return false;
}
IMP(enc_pipeline)
{
	Encoder *e = open(c);
	if (!e)
		return;
	if (!e->f)
		e->f = malloc(sizeof *e->f);
	*e->f = ((MTLPipelineObj *)c->a[0].o)->f;
}
IMP(enc_buffer)
{
	Encoder *e = open(c);
	if (!e || !slot_ok(c, c->a[2].q))
		return;
	int i = (int)c->a[2].q;
	clear_slot(e, i);
	if (!c->a[0].o)
		return;
	ms_mem *m = ms_buffer_mem(c->a[0].o);
	if (c->a[1].q >= (uint64_t)m->len) {
		ms_violation("range", "setBuffer: offset %llu of a buffer of %lld bytes", (unsigned long long)c->a[1].q, (long long)m->len);
		return;
	}
	e->mem[i] = ms_mem_retain(m);
	e->offset[i] = c->a[1].i;
}
IMP(enc_offset)
{
	Encoder *e = open(c);
	if (!e || !slot_ok(c, c->a[1].q))
		return;
	if (!e->mem[c->a[1].q] || c->a[0].q >= (uint64_t)e->mem[c->a[1].q]->len)
		ms_violation("range", "setBufferOffset: no buffer at %llu or beyond it", (unsigned long long)c->a[1].q);
	else
		e->offset[c->a[1].q] = c->a[0].i;
}
// setBytes copies at once; at most 4 KiB.
IMP(enc_bytes)
{
	Encoder *e = open(c);
	if (!e || !slot_ok(c, c->a[2].q))
		return;
	if (!c->a[1].q || c->a[1].q > 4096) {
		ms_violation("range", "setBytes: length %llu, want 1 to 4096", (unsigned long long)c->a[1].q);
		return;
	}
	int i = (int)c->a[2].q;
	clear_slot(e, i);
	e->bytes[i] = malloc(c->a[1].q);
	memcpy(e->bytes[i], c->a[0].p, c->a[1].q);
	e->nbytes[i] = c->a[1].i;
}

typedef struct {
	ms_op op;
	ms_kernel run;
	ms_kernel_args args;
	void *owned[MS_MAX_BUFFERS];
} dispatch_op;

static void dispatch_run(ms_op *op, ms_submit *s)
{
	(void)s;
	((dispatch_op *)op)->run(&((dispatch_op *)op)->args);
}
static void dispatch_destroy(ms_op *op)
{
	for (int i = 0; i < MS_MAX_BUFFERS; i++)
		free(((dispatch_op *)op)->owned[i]);
	free(op);
}

static bool dispatch_ok(Encoder *e, const uint64_t *grid, const uint64_t *group)
{
	if (!e->f) {
		ms_violation("dispatch", "dispatch without setComputePipelineState:");
		return false;
	}
	uint64_t n = group[0] * group[1] * group[2];
	if (!n || n > 1024 || grid[0] * grid[1] * grid[2] == 0) {
		ms_violation("dispatch", "kernel %s: %llu threads a group (1 to 1024), grid %llux%llux%llu", e->f->name,
			     (unsigned long long)n, (unsigned long long)grid[0], (unsigned long long)grid[1], (unsigned long long)grid[2]);
		return false;
	}
	for (int i = 0; i < MS_MAX_BUFFERS; i++)
		if (e->f->buffers >> i & 1 && !e->mem[i] && !e->bytes[i]) {
			ms_violation("dispatch", "kernel %s: nothing is bound at [[buffer(%d)]]", e->f->name, i);
			return false;
		}
	return true;
}

// dispatchThreadgroups: counts groups, dispatchThreads: counts threads; the kernel sees the
// same grid either way.
static void dispatch(ms_call *c, bool groups)
{
	Encoder *e = open(c);
	const uint64_t *grid = c->a[0].s, *group = c->a[1].s;
	if (!e || !dispatch_ok(e, grid, group))
		return;
	dispatch_op *d = calloc(1, sizeof *d);
	d->op.run = dispatch_run;
	d->op.destroy = dispatch_destroy;
	d->run = e->f->run;
	for (int i = 0; i < 3; i++) {
		d->args.grid[i] = groups ? grid[i] * group[i] : grid[i];
		d->args.group[i] = group[i];
	}
	ms_submit_op(e->cb->sub, &d->op);
	for (int i = 0; i < MS_MAX_BUFFERS; i++) {
		if (!(e->f->buffers >> i & 1))
			continue;
		if (e->mem[i]) {
			ms_submit_use(e->cb->sub, e->mem[i], !(e->f->read_only >> i & 1));
			d->args.buf[i] = e->mem[i]->gpu + e->offset[i];
			d->args.len[i] = e->mem[i]->len - e->offset[i];
		} else {
			d->args.buf[i] = d->owned[i] = memcpy(malloc((size_t)e->nbytes[i]), e->bytes[i], (size_t)e->nbytes[i]);
			d->args.len[i] = e->nbytes[i];
		}
	}
	ms_count("dispatches", 1);
}
IMP(enc_dispatch_groups) { dispatch(c, true); }
IMP(enc_dispatch_threads) { dispatch(c, false); }

static const ms_impl compute_impls[] = {
	{"-setComputePipelineState:", enc_pipeline}, {"-setBuffer:offset:atIndex:", enc_buffer},
	{"-setBufferOffset:atIndex:", enc_offset}, {"-setBytes:length:atIndex:", enc_bytes},
	{"-dispatchThreadgroups:threadsPerThreadgroup:", enc_dispatch_groups},
	{"-dispatchThreads:threadsPerThreadgroup:", enc_dispatch_threads}, {"-memoryBarrierWithScope:", enc_nothing},
	{"-useResource:usage:", enc_nothing}, {"-setThreadgroupMemoryLength:atIndex:", enc_nothing},
};

// ---- blit ----
typedef struct { ms_op op; uint8_t *dst; const uint8_t *src; int64_t n; int value; } blit_op; // src NULL: fill
static void blit_run(ms_op *op, ms_submit *s)
{
	blit_op *b = (blit_op *)op;
	(void)s;
	if (b->src)
		memmove(b->dst, b->src, (size_t)b->n);
	else
		memset(b->dst, b->value, (size_t)b->n);
}
static void blit_destroy(ms_op *op) { free(op); }

static bool in_range(ms_mem *m, uint64_t at, uint64_t n, const char *what)
{
	if (n && at <= (uint64_t)m->len && n <= (uint64_t)m->len - at)
		return true;
	ms_violation("range", "%s: %llu bytes at %llu of a buffer of %lld", what, (unsigned long long)n, (unsigned long long)at, (long long)m->len);
	return false;
}
// Copies and fills are checked against the buffers when they are encoded, as Metal asserts.
IMP(blit_copy)
{
	Encoder *e = open(c);
	ms_mem *src = ms_buffer_mem(c->a[0].o), *dst = ms_buffer_mem(c->a[2].o);
	uint64_t from = c->a[1].q, to = c->a[3].q, n = c->a[4].q;
	if (!e || !in_range(src, from, n, "blit source") || !in_range(dst, to, n, "blit destination"))
		return;
	blit_op *b = calloc(1, sizeof *b);
	*b = (blit_op){{.run = blit_run, .destroy = blit_destroy}, dst->gpu + to, src->gpu + from, (int64_t)n, 0};
	ms_submit_op(e->cb->sub, &b->op);
	ms_submit_use(e->cb->sub, src, false);
	ms_submit_use(e->cb->sub, dst, true);
	ms_count("blits", 1);
	ms_count("bytes_blit", (int64_t)n);
}
IMP(blit_fill)
{
	Encoder *e = open(c);
	ms_mem *dst = ms_buffer_mem(c->a[0].o);
	uint64_t at = c->a[1].s[0], n = c->a[1].s[1];
	if (!e || !in_range(dst, at, n, "fillBuffer"))
		return;
	blit_op *b = calloc(1, sizeof *b);
	*b = (blit_op){{.run = blit_run, .destroy = blit_destroy}, dst->gpu + at, NULL, (int64_t)n, (int)c->a[2].q};
	ms_submit_op(e->cb->sub, &b->op);
	ms_submit_use(e->cb->sub, dst, true);
	ms_count("blits", 1);
}
static const ms_impl blit_impls[] = {
	{"-copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", blit_copy}, {"-fillBuffer:range:value:", blit_fill},
	{"-synchronizeResource:", enc_nothing},
};
static const ms_impl encoder_impls[] = {
	{"-endEncoding", enc_end}, {"-label", enc_label}, {"-setLabel:", enc_set_label}, {"-device", enc_device},
	{"-pushDebugGroup:", enc_nothing}, {"-popDebugGroup", enc_nothing}, {"-insertDebugSignpost:", enc_nothing},
};
static const ms_impl cb_encoders[] = {{"-computeCommandEncoder", cb_compute}, {"-blitCommandEncoder", cb_blit}};

void ms_init_encoders(void)
{
	ms_define("MTLSimComputeCommandEncoder", "NSObject", "MTLComputeCommandEncoder", sizeof(Encoder), encoder_dealloc);
	ms_define("MTLSimBlitCommandEncoder", "NSObject", "MTLBlitCommandEncoder", sizeof(Encoder), encoder_dealloc);
	ms_exclusive("MTLSimComputeCommandEncoder");
	ms_exclusive("MTLSimBlitCommandEncoder");
	MS_IMPLEMENT("MTLCommandEncoder", encoder_impls);
	MS_IMPLEMENT("MTLComputeCommandEncoder", compute_impls);
	MS_IMPLEMENT("MTLBlitCommandEncoder", blit_impls);
	MS_IMPLEMENT("MTLCommandBuffer", cb_encoders);
}
