// SPDX-License-Identifier: Apache-2.0
// MTLEvent and MTLSharedEvent: counters that the GPU's queues and the CPU wait for.
#include "gpu.h"
#include <stdlib.h>
#include <time.h>

#define EVENT_TIMEOUT 5.0 // seconds that a GPU wait lasts before the buffer fails

// wait_cond waits at most s seconds for any change.
static void wait_cond(double s)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int64_t ns = t.tv_nsec + (int64_t)(s * 1e9);
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	pthread_cond_timedwait(&ms_gpu_cond, &ms_gpu_mu, &t);
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

static void event_destroy(ms_op *op)
{
	ms_release(((event_op *)op)->event);
	free(op);
}

static void run_wait(ms_op *op, ms_submit *s)
{
	event_op *w = (event_op *)op;
	MTLEventObj *e = (MTLEventObj *)w->event;
	double end = ms_now() + EVENT_TIMEOUT;
	pthread_mutex_lock(&ms_gpu_mu);
	while (e->value < w->value && ms_now() < end)
		wait_cond(end - ms_now());
	bool ok = e->value >= w->value;
	ms_clock_merge(&s->clock, &e->clock);
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
	ms_clock_merge(&e->clock, &s->clock);
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

// ---- MTLSharedEvent ----
IMP(ev_value)
{
	MTLEventObj *e = (MTLEventObj *)c->self;
	pthread_mutex_lock(&ms_gpu_mu);
	c->ret.q = e->value;
	ms_event_observe(e, e->value);
	pthread_mutex_unlock(&ms_gpu_mu);
}
IMP(ev_set)
{
	MTLEventObj *e = (MTLEventObj *)c->self;
	pthread_mutex_lock(&ms_gpu_mu);
	e->value = c->a[0].q;
	ms_clock_merge(&e->clock, ms_race_cpu());
	pthread_cond_broadcast(&ms_gpu_cond);
	pthread_mutex_unlock(&ms_gpu_mu);
}
IMP(ev_wait)
{
	MTLEventObj *e = (MTLEventObj *)c->self;
	double end = ms_now() + (double)c->a[1].q * 1e-3;
	pthread_mutex_lock(&ms_gpu_mu);
	while (e->value < c->a[0].q && ms_now() < end)
		wait_cond(end - ms_now());
	c->ret.q = e->value >= c->a[0].q;
	if (c->ret.q)
		ms_event_observe(e, c->a[0].q);
	pthread_mutex_unlock(&ms_gpu_mu);
}
IMP(ev_label) { ms_return(c, ((MTLEventObj *)c->self)->label); }
IMP(ev_set_label)
{
	ms_retain(c->a[0].o);
	ms_release(((MTLEventObj *)c->self)->label);
	((MTLEventObj *)c->self)->label = c->a[0].o;
}
IMP(ev_device) { ms_return(c, ms_device()); }
static const ms_impl event_impls[] = {{"-label", ev_label}, {"-setLabel:", ev_set_label}, {"-device", ev_device}};
static const ms_impl shared_impls[] = {
	{"-signaledValue", ev_value}, {"-setSignaledValue:", ev_set}, {"-waitUntilSignaledValue:timeoutMS:", ev_wait},
};

void ms_init_events(void)
{
	ms_define("MTLSimEvent", "NSObject", "MTLEvent", sizeof(MTLEventObj), event_dealloc);
	ms_define("MTLSimSharedEvent", "NSObject", "MTLSharedEvent", sizeof(MTLEventObj), event_dealloc);
	MS_IMPLEMENT("MTLEvent", event_impls);
	MS_IMPLEMENT("MTLSharedEvent", shared_impls);
}
