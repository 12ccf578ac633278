// SPDX-License-Identifier: Apache-2.0
// MTLCommandQueue, MTLCommandBuffer and MTLEvent: what they hold, when they run, and when
// the CPU may believe that they ran. Each queue has one worker, since command buffers of one
// queue execute in the order of their commits.
#include "gpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOT_ENQUEUED, ENQUEUED, COMMITTED, SCHEDULED, COMPLETED, ERROR }; // MTLCommandBufferStatus

double ms_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- submissions ----
void ms_submit_op(ms_submit *s, ms_op *op)
{
	op->index = s->nops++;
	if (s->last)
		s->last->next = op;
	else
		s->first = op;
	s->last = op;
}

// Every buffer that a command names is kept until completion is observed, as an ordinary
// MTLCommandBuffer retains what it references.
void ms_submit_use(ms_submit *s, ms_mem *m, bool write)
{
	if (s->nuses == s->cap) {
		s->cap = s->cap * 2 + 16;
		s->uses = realloc(s->uses, (size_t)s->cap * sizeof *s->uses);
	}
	s->uses[s->nuses++] = (ms_use){ms_mem_retain(m), write, s->nops - 1, false};
}

void ms_submit_fail(ms_submit *s, int64_t code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->error, sizeof s->error, fmt, ap);
	va_end(ap);
	s->error_code = code;
	s->failed = true;
}

void ms_submit_unref(ms_submit *s)
{
	while (s && --s->refs == 0) {
		ms_submit *prev = s->prev_in_queue;
		for (int i = 0; i < s->nuses; i++)
			ms_mem_release(s->uses[i].mem);
		free(s->uses);
		free(s);
		s = prev; // its reference was ours
	}
}

// Counts rise at commit and fall when the CPU learns of completion; memory is protected
// while either is above zero.
static void count_uses(ms_submit *s, int add, int upto)
{
	for (int i = 0; i < s->nuses; i++) {
		ms_use *u = &s->uses[i];
		if (u->op > upto || u->done)
			continue;
		*(u->write ? &u->mem->writes : &u->mem->reads) += add;
		u->mem->unretained += s->unretained ? add : 0;
		u->done = add < 0;
		ms_mem_protect(u->mem);
	}
}

static void drop_uses(ms_submit *s)
{
	for (int i = 0; i < s->nuses; i++)
		ms_mem_release(s->uses[i].mem);
	s->nuses = 0;
}

// Completion of one command buffer tells the CPU that all earlier ones of its queue are done.
void ms_observe(ms_submit *s, int upto)
{
	count_uses(s, -1, upto);
	ms_race_observe(s);
	ms_submit *p = s->prev_in_queue;
	s->observed = s->observed || upto >= s->nops - 1;
	if (s->observed)
		drop_uses(s);
	while (p && !p->observed) {
		count_uses(p, -1, p->nops);
		p->observed = true;
		drop_uses(p);
		p = p->prev_in_queue;
	}
	p = s->prev_in_queue;
	s->prev_in_queue = NULL;
	if (p)
		ms_submit_unref(p);
}

// ---- the worker ----
static void run_handlers(MTLCommandBufferObj *cb, int from, int to)
{
	for (int i = from; i < to; i++) {
		void (*f)(void *, id) = (void (*)(void *, id))ms_block_invoke(cb->handlers[i]);
		f(cb->handlers[i], (id)cb);
		ms_block_release(cb->handlers[i]);
	}
}

// drop_ops runs outside ms_gpu_mu: an op may hold the last reference to an object.
static void drop_ops(ms_submit *s)
{
	for (ms_op *op = s->first, *next; op; op = next) {
		next = op->next;
		op->destroy(op);
	}
	s->first = s->last = NULL;
}

// The estimate counts multiplications only: it is the products that make a buffer long.
static void check_watchdog(ms_submit *s)
{
	double est = s->flops / (ms_cfg.tflops * 1e12);
	if (est > ms_cfg.watchdog)
		ms_violation("watchdog", "one command buffer of %.3g GFLOP: about %.2f s at %.1f TFLOPS, limit %.2f s",
			     s->flops / 1e9, est, ms_cfg.tflops, ms_cfg.watchdog);
}

static void execute(MTLCommandBufferObj *cb)
{
	ms_submit *s = cb->sub;
	pthread_mutex_lock(&ms_gpu_mu);
	cb->status = SCHEDULED;
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
	run_handlers(cb, 0, cb->nscheduled);
	check_watchdog(s);
	cb->start = ms_now();
	if (ms_cfg.latency > 0)
		usleep((useconds_t)(ms_cfg.latency * 1e6));
	while (__atomic_load_n(&ms_cfg.hold, __ATOMIC_ACQUIRE))
		usleep(500);
	if (s->fails)
		ms_submit_fail(s, 8, "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)");
	ms_race_begin(s, &cb->queue->clock);
	for (ms_op *op = s->first; op && !s->failed; op = op->next) {
		ms_race_uses(s, op->index);
		op->run(op, s);
	}
	if (s->failed) // results of an errored buffer are garbage: make them so
		for (int i = 0; i < s->nuses; i++)
			if (s->uses[i].write && !s->uses[i].mem->foreign)
				memset(s->uses[i].mem->gpu, 0xff, (size_t)s->uses[i].mem->len);
	cb->end = ms_now() + 1e-9;
	drop_ops(s);
}

// finish publishes the result. The queue's own reference goes in the same step, so that a
// program which waited finds no object left; waitUntilCompleted returns after the handlers.
static void finish(MTLCommandBufferObj *cb)
{
	MTLQueueObj *q = cb->queue;
	if (cb->sub->failed)
		cb->error = ms_error("MTLCommandBufferErrorDomain", cb->sub->error_code, cb->sub->error);
	pthread_mutex_lock(&ms_gpu_mu);
	cb->status = cb->sub->failed ? ERROR : COMPLETED;
	ms_clock_merge(&q->clock, &cb->sub->clock);
	q->open--;
	q->committed--;
	cb->counted = false;
	if (cb->nhandlers > cb->nscheduled) {
		ms_observe(cb->sub, cb->sub->nops); // the handler's call tells the CPU
		pthread_mutex_unlock(&ms_gpu_mu);
		run_handlers(cb, cb->nscheduled, cb->nhandlers);
		pthread_mutex_lock(&ms_gpu_mu);
	}
	cb->nhandlers = cb->nscheduled = 0;
	cb->finished = true;
	int32_t rc = atomic_load(&cb->h.rc);
	while (rc > 1 && !atomic_compare_exchange_weak(&cb->h.rc, &rc, rc - 1))
		;
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
	if (rc <= 1) // nobody else holds it
		ms_release((id)cb);
}

// One worker a queue: its command buffers run one after another, in the order of commits.
static void *worker(void *arg)
{
	MTLQueueObj *q = arg;
	pthread_mutex_lock(&ms_gpu_mu);
	for (;;) {
		while (!q->head && !q->quit)
			pthread_cond_wait(&ms_gpu_cond, &ms_gpu_mu);
		if (!q->head)
			break;
		MTLCommandBufferObj *cb = q->head;
		q->head = cb->next;
		if (!q->head)
			q->tail = NULL;
		pthread_mutex_unlock(&ms_gpu_mu);
		execute(cb);
		finish(cb); // may deallocate q: its zombie is still there to read quit from
		pthread_mutex_lock(&ms_gpu_mu);
	}
	pthread_mutex_unlock(&ms_gpu_mu);
	return NULL;
}

// ---- queues and command buffers ----
// commandBuffer blocks while the queue is full; with nothing committed it would for ever.
id ms_queue_command_buffer(id queue, bool unretained)
{
	MTLQueueObj *q = (MTLQueueObj *)queue;
	pthread_mutex_lock(&ms_gpu_mu);
	while (q->open >= q->max && q->committed > 0)
		pthread_cond_wait(&ms_gpu_cond, &ms_gpu_mu);
	bool full = q->open >= q->max;
	q->open += !full;
	pthread_mutex_unlock(&ms_gpu_mu);
	if (full) {
		ms_violation("too-many-command-buffers", "%lld command buffers of one queue exist and none is committed: "
			     "commandBuffer would block for ever", (long long)q->max);
		return NULL;
	}
	MTLCommandBufferObj *cb = (MTLCommandBufferObj *)ms_new("MTLSimCommandBuffer");
	cb->queue = (MTLQueueObj *)ms_retain(queue);
	cb->sub = calloc(1, sizeof *cb->sub);
	cb->sub->refs = 1;
	cb->sub->unretained = unretained;
	cb->counted = true;
	ms_count("command_buffers", 1);
	return (id)cb;
}

static void cb_dealloc(id o)
{
	MTLCommandBufferObj *cb = (MTLCommandBufferObj *)o;
	if (cb->encoder)
		ms_violation("encoder-open", "a command buffer was deallocated while an encoder was open");
	drop_ops(cb->sub);
	for (int i = 0; i < cb->nhandlers; i++)
		ms_block_release(cb->handlers[i]);
	pthread_mutex_lock(&ms_gpu_mu);
	cb->queue->open -= cb->counted;
	pthread_cond_broadcast(&ms_gpu_cond);
	ms_submit_unref(cb->sub);
	pthread_mutex_unlock(&ms_gpu_mu);
	ms_release(cb->label);
	ms_release(cb->error);
	ms_release((id)cb->queue);
}

// The last reference may be dropped by the worker itself, which cannot join its own thread.
static void queue_dealloc(id o)
{
	MTLQueueObj *q = (MTLQueueObj *)o;
	pthread_mutex_lock(&ms_gpu_mu);
	q->quit = true;
	if (q->last_submit)
		ms_submit_unref(q->last_submit);
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
	if (q->started && pthread_equal(q->worker, pthread_self()))
		pthread_detach(q->worker);
	else if (q->started)
		pthread_join(q->worker, NULL);
	ms_release(q->label);
	ms_release(q->device);
}

MTLCommandBufferObj *ms_encodable(id o, const char *what)
{
	MTLCommandBufferObj *cb = (MTLCommandBufferObj *)ms_root(o);
	if (cb->status >= COMMITTED) {
		ms_violation("encode-after-commit", "%s on a command buffer that is committed", what);
		return NULL;
	}
	if (cb->encoder) {
		ms_violation("two-encoders", "%s while an encoder is open: A command encoder is already encoding to this "
			     "command buffer", what);
		return NULL;
	}
	return cb;
}

void ms_commit(MTLCommandBufferObj *cb)
{
	MTLQueueObj *q = cb->queue;
	if (cb->status >= COMMITTED) {
		ms_violation("commit-twice", "commit on a command buffer that is committed");
		return;
	}
	if (cb->encoder) {
		ms_violation("encoder-open", "commit while an encoder is open: endEncoding is missing");
		cb->encoder = NULL;
	}
	ms_retain((id)cb);
	ms_count("commits", 1);
	cb->sub->fails = ms_fail(&ms_cfg.fail_command);
	pthread_mutex_lock(&ms_gpu_mu);
	count_uses(cb->sub, 1, cb->sub->nops);
	ms_race_commit(cb->sub, q->slot);
	cb->status = COMMITTED;
	q->committed++;
	cb->sub->prev_in_queue = q->last_submit; // takes over the queue's reference
	if (q->last_submit && q->last_submit->observed) {
		ms_submit_unref(q->last_submit);
		cb->sub->prev_in_queue = NULL;
	}
	q->last_submit = cb->sub;
	cb->sub->refs++;
	cb->next = NULL;
	if (q->tail)
		q->tail->next = cb;
	else
		q->head = cb;
	q->tail = cb;
	if (!q->started)
		q->started = !pthread_create(&q->worker, NULL, worker, q);
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
}

void ms_wait(MTLCommandBufferObj *cb)
{
	if (cb->status < COMMITTED) {
		ms_violation("wait-before-commit", "waitUntilCompleted on a command buffer that was not committed blocks for ever");
		return;
	}
	pthread_mutex_lock(&ms_gpu_mu);
	while (!cb->finished)
		pthread_cond_wait(&ms_gpu_cond, &ms_gpu_mu);
	ms_observe(cb->sub, cb->sub->nops);
	pthread_mutex_unlock(&ms_gpu_mu);
}

// ---- messages ----
static MTLCommandBufferObj *root(ms_call *c) { return (MTLCommandBufferObj *)ms_root(c->self); }
IMP(cb_commit) { ms_commit(root(c)); }
IMP(cb_enqueue)
{
	if (root(c)->status < ENQUEUED)
		root(c)->status = ENQUEUED;
}
IMP(cb_wait) { ms_wait(root(c)); }
IMP(cb_wait_scheduled)
{
	MTLCommandBufferObj *cb = root(c);
	if (cb->status < COMMITTED) {
		ms_violation("wait-before-commit", "waitUntilScheduled on a command buffer that was not committed blocks for ever");
		return;
	}
	pthread_mutex_lock(&ms_gpu_mu);
	while (cb->status < SCHEDULED)
		pthread_cond_wait(&ms_gpu_cond, &ms_gpu_mu);
	pthread_mutex_unlock(&ms_gpu_mu);
}
// Reading a final status is how a polling CPU learns of completion.
IMP(cb_status)
{
	MTLCommandBufferObj *cb = root(c);
	pthread_mutex_lock(&ms_gpu_mu);
	c->ret.q = cb->status;
	if (cb->status >= COMPLETED)
		ms_observe(cb->sub, cb->sub->nops);
	pthread_mutex_unlock(&ms_gpu_mu);
}
IMP(cb_error)
{
	pthread_mutex_lock(&ms_gpu_mu);
	ms_return(c, root(c)->status == ERROR ? root(c)->error : NULL);
	pthread_mutex_unlock(&ms_gpu_mu);
}
IMP(cb_start) { c->ret.d = root(c)->status >= COMPLETED ? root(c)->start : 0; }
IMP(cb_end) { c->ret.d = root(c)->status >= COMPLETED ? root(c)->end : 0; }
IMP(cb_queue) { ms_return(c, (id)root(c)->queue); }
IMP(cb_device) { ms_return(c, root(c)->queue->device); }
IMP(cb_retained) { c->ret.q = !root(c)->sub->unretained; }
IMP(cb_label) { ms_return(c, root(c)->label); }
IMP(cb_set_label)
{
	ms_retain(c->a[0].o);
	ms_release(root(c)->label);
	root(c)->label = c->a[0].o;
}
IMP(cb_nothing) { (void)c; }
// Metal copies the block; handlers run on its own thread, here the worker.
static void add_handler(ms_call *c, bool scheduled)
{
	MTLCommandBufferObj *cb = root(c);
	if (cb->status >= COMMITTED || cb->nhandlers == ARRAY_LEN(cb->handlers)) {
		ms_violation("encode-after-commit", "%s after commit", c->decl->sel + 1);
		return;
	}
	void *b = ms_block_copy(c->a[0].p);
	if (scheduled) {
		memmove(cb->handlers + 1, cb->handlers, (size_t)cb->nhandlers * sizeof(void *));
		cb->handlers[0] = b;
		cb->nscheduled++;
		cb->nhandlers++;
	} else {
		cb->handlers[cb->nhandlers++] = b;
	}
}
IMP(cb_on_completed) { add_handler(c, false); }
IMP(cb_on_scheduled) { add_handler(c, true); }
IMP(cb_encode_wait)
{
	MTLCommandBufferObj *cb = ms_encodable(c->self, "encodeWaitForEvent:value:");
	if (cb)
		ms_encode_wait(cb, c->a[0].o, c->a[1].q);
}
IMP(cb_encode_signal)
{
	MTLCommandBufferObj *cb = ms_encodable(c->self, "encodeSignalEvent:value:");
	if (cb)
		ms_encode_signal(cb, c->a[0].o, c->a[1].q);
}
static const ms_impl cb_impls[] = {
	{"-commit", cb_commit}, {"-enqueue", cb_enqueue}, {"-waitUntilCompleted", cb_wait},
	{"-waitUntilScheduled", cb_wait_scheduled}, {"-status", cb_status}, {"-error", cb_error}, {"-GPUStartTime", cb_start},
	{"-GPUEndTime", cb_end}, {"-kernelStartTime", cb_start}, {"-kernelEndTime", cb_end}, {"-commandQueue", cb_queue},
	{"-device", cb_device}, {"-retainedReferences", cb_retained}, {"-label", cb_label}, {"-setLabel:", cb_set_label},
	{"-addCompletedHandler:", cb_on_completed}, {"-addScheduledHandler:", cb_on_scheduled},
	{"-encodeWaitForEvent:value:", cb_encode_wait}, {"-encodeSignalEvent:value:", cb_encode_signal},
	{"-pushDebugGroup:", cb_nothing}, {"-popDebugGroup", cb_nothing},
};

IMP(q_command_buffer) { ms_return_new(c, ms_queue_command_buffer(c->self, false)); }
IMP(q_unretained) { ms_return_new(c, ms_queue_command_buffer(c->self, true)); }
IMP(q_device) { ms_return(c, ((MTLQueueObj *)c->self)->device); }
IMP(q_label) { ms_return(c, ((MTLQueueObj *)c->self)->label); }
IMP(q_set_label)
{
	ms_retain(c->a[0].o);
	ms_release(((MTLQueueObj *)c->self)->label);
	((MTLQueueObj *)c->self)->label = c->a[0].o;
}
static const ms_impl queue_impls[] = {
	{"-commandBuffer", q_command_buffer}, {"-commandBufferWithUnretainedReferences", q_unretained}, {"-device", q_device},
	{"-label", q_label}, {"-setLabel:", q_set_label},
};

void ms_init_command(void)
{
	ms_define("MTLSimCommandQueue", "NSObject", "MTLCommandQueue", sizeof(MTLQueueObj), queue_dealloc);
	ms_define("MTLSimCommandBuffer", "NSObject", "MTLCommandBuffer", sizeof(MTLCommandBufferObj), cb_dealloc);
	MS_IMPLEMENT("MTLCommandBuffer", cb_impls);
	MS_IMPLEMENT("MTLCommandQueue", queue_impls);
	ms_init_events();
}
