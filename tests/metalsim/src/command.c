// SPDX-License-Identifier: Apache-2.0
// MTLCommandQueue, MTLCommandBuffer and MTLEvent: what they hold, when they run, and when
// the CPU may believe that they ran. Each queue has one worker, since command buffers of one
// queue execute in the order of their commits.
#include "gpu.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOT_ENQUEUED, ENQUEUED, COMMITTED, SCHEDULED, COMPLETED, ERROR }; // MTLCommandBufferStatus
#define EVENT_TIMEOUT 5.0 // seconds that a GPU wait lasts before the buffer fails
#define MAX_CB(o) ((MTLCommandBufferObj *)(o))

double ms_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// wait_cond waits at most s seconds (forever when negative); false on timeout.
static bool wait_cond(double s)
{
	if (s < 0) {
		pthread_cond_wait(&ms_gpu_cond, &ms_gpu_mu);
		return true;
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int64_t ns = t.tv_nsec + (int64_t)(s * 1e9);
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	return pthread_cond_timedwait(&ms_gpu_cond, &ms_gpu_mu, &t) != ETIMEDOUT;
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
		for (ms_op *op = s->first, *next; op; op = next) {
			next = op->next;
			op->destroy(op);
		}
		for (int i = 0; i < s->nuses; i++)
			ms_mem_release(s->uses[i].mem);
		free(s->uses);
		free(s);
		s = prev; // its reference was ours
	}
}

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

// Completion of one command buffer tells the CPU that all earlier ones of its queue are done.
void ms_observe(ms_submit *s, int upto)
{
	count_uses(s, -1, upto);
	ms_submit *p = s->prev_in_queue;
	s->observed = s->observed || upto >= s->nops - 1;
	while (p && !p->observed) {
		count_uses(p, -1, p->nops);
		p->observed = true;
		p = p->prev_in_queue;
	}
	p = s->prev_in_queue;
	s->prev_in_queue = NULL;
	if (p)
		ms_submit_unref(p);
}

// ---- events ----
static void event_dealloc(id o)
{
	MTLEventObj *e = (MTLEventObj *)o;
	ms_release(e->label);
	pthread_mutex_lock(&ms_gpu_mu);
	for (ms_signal *s = e->signals, *next; s; s = next) {
		next = s->next;
		ms_submit_unref(s->sub);
		free(s);
	}
	pthread_mutex_unlock(&ms_gpu_mu);
}

void ms_event_observe(MTLEventObj *e, uint64_t value)
{
	for (ms_signal **at = &e->signals; *at;) {
		ms_signal *s = *at;
		if (s->value > value) {
			at = &s->next;
			continue;
		}
		ms_observe(s->sub, s->op);
		ms_submit_unref(s->sub);
		*at = s->next;
		free(s);
	}
}

typedef struct { ms_op op; id event; uint64_t value; } event_op;

static void event_destroy(ms_op *op) { free(op); } // the event was released when the buffer ended

static void run_wait(ms_op *op, ms_submit *s)
{
	event_op *w = (event_op *)op;
	MTLEventObj *e = (MTLEventObj *)w->event;
	double end = ms_now() + EVENT_TIMEOUT;
	pthread_mutex_lock(&ms_gpu_mu);
	while (e->value < w->value && ms_now() < end)
		wait_cond(end - ms_now());
	bool ok = e->value >= w->value;
	pthread_mutex_unlock(&ms_gpu_mu);
	if (!ok)
		ms_submit_fail(s, 2, "Caused GPU Timeout Error: event never reached %llu (00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
			       (unsigned long long)w->value);
}

static void run_signal(ms_op *op, ms_submit *s)
{
	event_op *w = (event_op *)op;
	MTLEventObj *e = (MTLEventObj *)w->event;
	pthread_mutex_lock(&ms_gpu_mu);
	if (w->value <= e->value)
		ms_violation("event-order", "an event at %llu was signaled with %llu: values must grow",
			     (unsigned long long)e->value, (unsigned long long)w->value);
	ms_signal *sig = calloc(1, sizeof *sig);
	*sig = (ms_signal){e->signals, w->value, s, op->index};
	s->refs++;
	e->signals = sig;
	if (w->value > e->value)
		e->value = w->value;
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
}

static void encode_event(MTLCommandBufferObj *cb, id event, uint64_t value, void (*run)(ms_op *, ms_submit *))
{
	event_op *w = calloc(1, sizeof *w);
	*w = (event_op){{.run = run, .destroy = event_destroy}, ms_retain(event), value};
	ms_submit_op(cb->sub, &w->op);
}
void ms_encode_wait(MTLCommandBufferObj *cb, id event, uint64_t value) { encode_event(cb, event, value, run_wait); }
void ms_encode_signal(MTLCommandBufferObj *cb, id event, uint64_t value) { encode_event(cb, event, value, run_signal); }

// ---- the worker ----
static void run_handlers(MTLCommandBufferObj *cb, int from, int to)
{
	for (int i = from; i < to; i++) {
		void (*f)(void *, id) = (void (*)(void *, id))ms_block_invoke(cb->handlers[i]);
		f(cb->handlers[i], (id)cb);
		ms_block_release(cb->handlers[i]);
	}
}

static void drop_events(ms_submit *s)
{
	for (ms_op *op = s->first; op; op = op->next)
		if (op->destroy == event_destroy)
			ms_release(((event_op *)op)->event);
}

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
	if (ms_fail(&ms_cfg.fail_command))
		ms_submit_fail(s, 8, "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)");
	for (ms_op *op = s->first; op && !s->failed; op = op->next)
		op->run(op, s);
	if (s->failed) // results of an errored buffer are garbage: make them so
		for (int i = 0; i < s->nuses; i++)
			if (s->uses[i].write && !s->uses[i].mem->foreign)
				memset(s->uses[i].mem->gpu, 0xff, (size_t)s->uses[i].mem->len);
	cb->end = ms_now() + 1e-9;
	drop_events(s);
}

static void finish(MTLCommandBufferObj *cb)
{
	MTLQueueObj *q = cb->queue;
	if (cb->sub->failed)
		cb->error = ms_error("MTLCommandBufferErrorDomain", cb->sub->error_code, cb->sub->error);
	pthread_mutex_lock(&ms_gpu_mu);
	cb->status = cb->sub->failed ? ERROR : COMPLETED;
	if (cb->nhandlers > cb->nscheduled) // the handler's call tells the CPU
		ms_observe(cb->sub, cb->sub->nops);
	q->open--;
	q->committed--;
	cb->counted = false;
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
	run_handlers(cb, cb->nscheduled, cb->nhandlers);
	cb->nhandlers = cb->nscheduled = 0;
	ms_release((id)cb);
}

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
		// The buffer's reference may be the queue's last but one: keep q alive for the loop.
		ms_retain((id)q);
		finish(cb);
		ms_release((id)q);
		pthread_mutex_lock(&ms_gpu_mu);
	}
	pthread_mutex_unlock(&ms_gpu_mu);
	free(q->h.state == MS_DEAD ? NULL : NULL);
	return NULL;
}
