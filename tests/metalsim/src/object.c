// SPDX-License-Identifier: Apache-2.0
// Allocation, reference counts, zombies, autorelease pools and blocks: the part of libobjc
// that owns. Everything is checked: a real process would crash later, or leak silently.
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- registry of every object address, alive or zombie -------------------------------
static pthread_mutex_t reg_mu = PTHREAD_MUTEX_INITIALIZER;
static id *reg;
static size_t reg_cap, reg_used;
#define TOMB ((id)1)

// Allocations are 16-byte aligned: the low bits carry nothing.
static size_t slot_of(const void *p) { return ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 20; }

static void reg_insert(id o)
{
	size_t i = slot_of(o) % reg_cap;
	while (reg[i] && reg[i] != TOMB)
		i = (i + 1) % reg_cap;
	reg_used += !reg[i];
	reg[i] = o;
}

static void reg_add(id o)
{
	if (2 * (reg_used + 1) > reg_cap) {
		id *old = reg;
		size_t n = reg_cap, live = 0;
		for (size_t i = 0; i < n; i++)
			live += old[i] && old[i] != TOMB;
		reg_cap = 1 << 12;
		while (reg_cap < 4 * (live + 1))
			reg_cap *= 2;
		reg = calloc(reg_cap, sizeof *reg);
		reg_used = 0;
		for (size_t i = 0; i < n; i++)
			if (old[i] && old[i] != TOMB)
				reg_insert(old[i]);
		free(old);
	}
	reg_insert(o);
}

static id *reg_find(const void *p)
{
	if (!reg_cap)
		return NULL;
	size_t i = slot_of(p) % reg_cap;
	while (reg[i]) {
		if (reg[i] == p)
			return &reg[i];
		i = (i + 1) % reg_cap;
	}
	return NULL;
}

int ms_pointer_kind(const void *p)
{
	pthread_mutex_lock(&reg_mu);
	id *at = reg_find(p);
	int k = !at ? MS_PTR_NONE : (*at)->state == MS_DEAD ? MS_PTR_DEAD : MS_PTR_LIVE;
	pthread_mutex_unlock(&reg_mu);
	return k;
}

// ---- zombies: dead objects keep their header so that later messages are recognised ----
#define ZOMBIES (1 << 16)
static id zombies[ZOMBIES];
static size_t zombie_at;

// The oldest zombie is freed for the newest: memory stays bounded in a long run, and an
// object is recognised as dead for the next 65,536 deallocations.
static void bury(id o)
{
	pthread_mutex_lock(&reg_mu);
	id old = zombies[zombie_at];
	if (old) {
		*reg_find(old) = TOMB;
		free(old);
	}
	zombies[zombie_at] = o;
	zombie_at = (zombie_at + 1) % ZOMBIES;
	pthread_mutex_unlock(&reg_mu);
}

// ---- alloc, retain, release ----
// calloc: Apple zeroes instance variables, and ops rely on it for optional fields.
id ms_alloc(Class c, int state)
{
	id o = calloc(1, c->size);
	if (!o)
		abort();
	o->isa = c;
	o->rc = 1;
	o->state = (uint8_t)state;
	atomic_fetch_add(&c->live, 1);
	pthread_mutex_lock(&reg_mu);
	reg_add(o);
	pthread_mutex_unlock(&reg_mu);
	return o;
}

id ms_new(const char *cls) { return ms_alloc(ms_class(cls), MS_LIVE); }

// usable reports a bad pointer once, with what the caller wanted to do.
static bool usable(id o, const char *what)
{
	if (ms_is_class(o))
		return false;
	switch (ms_pointer_kind(o)) {
	case MS_PTR_LIVE:
		return true;
	case MS_PTR_DEAD:
		ms_violation(strcmp(what, "release") ? "use-after-free" : "over-release",
			     "%s of deallocated %s %p", what, o->isa->name, (void *)o);
		return false;
	}
	ms_violation("bad-object", "%s of %p, which is not an object", what, (void *)o);
	return false;
}

id ms_retain(id o)
{
	if (o && usable(o, "retain") && !o->immortal)
		atomic_fetch_add(&o->rc, 1);
	return o;
}

void ms_release(id o)
{
	if (!o || !usable(o, "release") || o->immortal)
		return;
	int32_t n = atomic_fetch_sub(&o->rc, 1);
	if (n > 1)
		return;
	if (n < 1) {
		ms_violation("over-release", "release of %s %p beyond its last reference", o->isa->name, (void *)o);
		return;
	}
	Class c = o->isa;
	if (o->state == MS_LIVE)
		for (Class k = c; k; k = k->super)
			if (k->dealloc) {
				k->dealloc(o);
				break; // a subclass of the simulator deallocates for its base
			}
	o->state = MS_DEAD;
	atomic_fetch_sub(&c->live, 1);
	bury(o);
}

// ---- autorelease pools: a stack per thread (objc4 NSObject.mm, AutoreleasePoolPage) ----
struct pool {
	struct pool *prev, *all_next, *all_prev;
	pthread_t owner;
	size_t n, cap;
	id *v;
};
static __thread struct pool *top;
static struct pool all = {.all_next = &all, .all_prev = &all};
static pthread_mutex_t pool_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;

// drain empties the pools from the innermost to p.
static void drain(struct pool *p)
{
	for (bool last = false; top && !last;) {
		struct pool *q = top;
		last = q == p;
		// Objects released here may autorelease others into this same pool.
		while (q->n)
			ms_release(q->v[--q->n]);
		top = q->prev;
		pthread_mutex_lock(&pool_mu);
		q->all_next->all_prev = q->all_prev;
		q->all_prev->all_next = q->all_next;
		pthread_mutex_unlock(&pool_mu);
		free(q->v);
		free(q);
	}
}

// A thread that ends drains its pools, as on macOS; here it means that a push had no pop.
static void at_thread_exit(void *p)
{
	(void)p;
	int n = 0;
	for (struct pool *q = top; q; q = q->prev)
		n++;
	if (n)
		ms_violation("pool-leak", "a thread ended with %d open autorelease pools", n);
	drain(NULL);
}

static void make_key(void) { pthread_key_create(&exit_key, at_thread_exit); }

MS_EXPORT void *objc_autoreleasePoolPush(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_key);
	struct pool *p = calloc(1, sizeof *p);
	p->prev = top;
	p->owner = pthread_self();
	top = p;
	pthread_setspecific(exit_key, p);
	pthread_mutex_lock(&pool_mu);
	p->all_next = all.all_next;
	p->all_prev = &all;
	all.all_next->all_prev = p;
	all.all_next = p;
	pthread_mutex_unlock(&pool_mu);
	return p;
}

static bool pool_exists(const struct pool *p, pthread_t *owner)
{
	bool found = false;
	pthread_mutex_lock(&pool_mu);
	for (struct pool *q = all.all_next; q != &all; q = q->all_next)
		if (q == p) {
			found = true;
			*owner = q->owner;
		}
	pthread_mutex_unlock(&pool_mu);
	return found;
}

MS_EXPORT void objc_autoreleasePoolPop(void *token)
{
	struct pool *p = token;
	pthread_t owner;
	if (!pool_exists(p, &owner)) {
		ms_violation("pool-order", "autoreleasePoolPop(%p): no such pool (popped twice?)", token);
		return;
	}
	if (!pthread_equal(owner, pthread_self())) {
		ms_violation("pool-thread", "autoreleasePoolPop(%p) on another thread than its push", token);
		return;
	}
	if (p != top)
		ms_violation("pool-order", "autoreleasePoolPop(%p) is not the innermost pool", token);
	drain(p);
	pthread_setspecific(exit_key, top);
}

// Without a pool Apple's runtime logs (OBJC_DEBUG_MISSING_POOLS) and leaks: so does this.
id ms_autorelease(id o)
{
	if (!o || ms_is_class(o) || !usable(o, "autorelease") || o->immortal)
		return o;
	if (!top) {
		ms_violation("no-pool", "%s %p autoreleased with no pool in place: it leaks", o->isa->name, (void *)o);
		return o;
	}
	if (top->n == top->cap) {
		top->cap = top->cap * 2 + 16;
		top->v = realloc(top->v, top->cap * sizeof(id));
	}
	top->v[top->n++] = o;
	return o;
}

MS_EXPORT int metalsim_open_pools(void)
{
	int n = 0;
	pthread_mutex_lock(&pool_mu);
	for (struct pool *q = all.all_next; q != &all; q = q->all_next)
		n++;
	pthread_mutex_unlock(&pool_mu);
	return n;
}

// ---- exported C entry points of libobjc ----
MS_EXPORT id objc_retain(id o) { return ms_retain(o); }
MS_EXPORT void objc_release(id o) { ms_release(o); }
MS_EXPORT id objc_autorelease(id o) { return ms_autorelease(o); }
MS_EXPORT id objc_autoreleaseReturnValue(id o) { return ms_autorelease(o); }
MS_EXPORT id objc_retainAutoreleasedReturnValue(id o) { return ms_retain(o); }
MS_EXPORT id objc_retainAutorelease(id o) { return ms_autorelease(ms_retain(o)); }
MS_EXPORT id objc_opt_self(id o) { return o; }
MS_EXPORT Class objc_opt_class(id o) { return o ? ms_is_class(o) ? (Class)o : o->isa : NULL; }
MS_EXPORT id CFRetain(id o) { return ms_retain(o); }
MS_EXPORT void CFRelease(id o) { ms_release(o); }

id ms_send0(id o, const char *sel)
{
	void objc_msgSend(void);
	id (*send)(id, SEL) = (id(*)(id, SEL))(void *)objc_msgSend;
	return send(o, ms_intern(sel));
}
MS_EXPORT id objc_alloc(Class c) { return ms_send0((id)c, "alloc"); }
MS_EXPORT id objc_alloc_init(Class c) { return ms_send0(objc_alloc(c), "init"); }

// An NSException that nobody catches calls this handler and then aborts; the simulator
// records violations instead, so the handler is only stored.
static void *exception_handler;
MS_EXPORT void NSSetUncaughtExceptionHandler(void *h) { exception_handler = h; }
MS_EXPORT void *NSGetUncaughtExceptionHandler(void) { return exception_handler; }

// ---- blocks (Block ABI: isa, flags, reserved, invoke, descriptor) ----
struct block_desc { uint64_t reserved, size; void (*copy)(void *, void *); void (*dispose)(void *); };
struct block { void *isa; int32_t flags, reserved; void *invoke; struct block_desc *d; };
enum { BLOCK_NEEDS_FREE = 1 << 24, BLOCK_HAS_COPY = 1 << 25, BLOCK_GLOBAL = 1 << 28 };
MS_EXPORT void *_NSConcreteGlobalBlock[32];
MS_EXPORT void *_NSConcreteMallocBlock[32];
MS_EXPORT void *_NSConcreteStackBlock[32];

void *ms_block_invoke(void *p)
{
	struct block *b = p;
	if (!b || (uintptr_t)b % 8)
		return NULL;
	bool known = b->isa == _NSConcreteGlobalBlock || b->isa == _NSConcreteMallocBlock || b->isa == _NSConcreteStackBlock;
	if (!known || !b->invoke || !b->d || (b->isa == _NSConcreteGlobalBlock) != !!(b->flags & BLOCK_GLOBAL))
		return NULL;
	return b->invoke;
}

// A global block is never copied, which is why the engine can keep one in pinned memory.
void *ms_block_copy(void *p)
{
	struct block *b = p;
	if (!b || b->flags & BLOCK_GLOBAL)
		return p;
	if (b->flags & BLOCK_NEEDS_FREE) { // on the heap already: count in steps of two, as in the ABI
		__atomic_add_fetch(&b->flags, 2, __ATOMIC_SEQ_CST);
		return p;
	}
	struct block *n = malloc(b->d->size);
	memcpy(n, b, b->d->size);
	n->isa = _NSConcreteMallocBlock;
	n->flags = (n->flags & ~0xffff) | BLOCK_NEEDS_FREE | 2;
	if (n->flags & BLOCK_HAS_COPY)
		n->d->copy(n, b);
	return n;
}

void ms_block_release(void *p)
{
	struct block *b = p;
	if (!b || !(b->flags & BLOCK_NEEDS_FREE))
		return;
	if ((__atomic_sub_fetch(&b->flags, 2, __ATOMIC_SEQ_CST) & 0xfffe) == 0) {
		if (b->flags & BLOCK_HAS_COPY)
			b->d->dispose(b);
		free(b);
	}
}
MS_EXPORT void *_Block_copy(void *b) { return ms_block_copy(b); }
MS_EXPORT void _Block_release(void *b) { ms_block_release(b); }
