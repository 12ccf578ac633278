// SPDX-License-Identifier: Apache-2.0
// GPU memory. Each allocation is mapped twice; while committed work may still use it, the
// CPU's view is taken away (PROT_NONE for results, PROT_READ for inputs). A read that comes
// before the CPU has *observed* completion (waitUntilCompleted, status, event value) faults
// even if the worker happens to be done: the race is caught every time, not sometimes.
#define _GNU_SOURCE
#include "gpu.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t ms_gpu_mu = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t ms_gpu_cond = PTHREAD_COND_INITIALIZER;

// ---- fault handler ----
#define REGIONS (1 << 15)
static struct { _Atomic uintptr_t lo, hi; } regions[REGIONS];
static _Atomic int region_top;
static int free_slots[REGIONS], nfree;
static pthread_mutex_t region_mu = PTHREAD_MUTEX_INITIALIZER; // taken inside ms_gpu_mu, never around it
static struct sigaction old_action;

static void chain(int sig, siginfo_t *info, void *ctx)
{
	if (old_action.sa_flags & SA_SIGINFO && old_action.sa_sigaction) {
		old_action.sa_sigaction(sig, info, ctx);
	} else if (old_action.sa_handler != SIG_DFL && old_action.sa_handler != SIG_IGN) {
		old_action.sa_handler(sig);
	} else {
		signal(sig, SIG_DFL); // fault again, with the default action
	}
}

static void on_fault(int sig, siginfo_t *info, void *ctx)
{
	uintptr_t a = (uintptr_t)info->si_addr;
	for (int i = 0, n = atomic_load(&region_top); i < n; i++) {
		uintptr_t lo = atomic_load(&regions[i].lo), hi = atomic_load(&regions[i].hi);
		if (a < lo || a >= hi)
			continue;
		// Give the memory back so that the program goes on, with the values of the moment.
		int saved = errno;
		mprotect((void *)lo, hi - lo, PROT_READ | PROT_WRITE);
		ms_violation("read-before-completion", "the CPU touched offset %zu of a buffer of %zu bytes that committed work uses "
			     "and whose completion was not observed", (size_t)(a - lo), (size_t)(hi - lo));
		errno = saved;
		return;
	}
	chain(sig, info, ctx);
}

static void install(void)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART; // Go needs the alternate stack
	sigfillset(&sa.sa_mask);
	sigaction(SIGSEGV, &sa, &old_action);
}

// The handler reads the table without a lock, so a slot's end is set before its start.
static int add_region(void *p, int64_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, install);
	pthread_mutex_lock(&region_mu);
	int i = nfree ? free_slots[--nfree] : atomic_load(&region_top) < REGIONS ? atomic_fetch_add(&region_top, 1) : -1;
	if (i >= 0) {
		atomic_store(&regions[i].hi, (uintptr_t)p + (uintptr_t)n);
		atomic_store(&regions[i].lo, (uintptr_t)p);
	}
	pthread_mutex_unlock(&region_mu);
	return i;
}

// ---- allocation ----
static _Atomic int64_t live_bytes;
int64_t ms_live_bytes(void) { return atomic_load(&live_bytes); }

static void add_live(int64_t n)
{
	ms_peak("buffer_bytes_peak", atomic_fetch_add(&live_bytes, n) + n);
	ms_count("buffer_bytes_live", n);
}

// Memory that Apple's own code has lost: no object, but it counts as allocated.
void ms_leak(int64_t n)
{
	static _Atomic int64_t lost;
	if (n < 0)
		n = -atomic_load(&lost);
	atomic_fetch_add(&lost, n);
	add_live(n);
}

// A memfd gives zeroed pages, as newBufferWithLength: promises, and may be mapped twice.
ms_mem *ms_mem_new(int64_t len)
{
	int64_t page = sysconf(_SC_PAGESIZE), n = (len + page - 1) / page * page;
	int fd = memfd_create("metalsim", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, n)) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	void *cpu = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *gpu = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (cpu == MAP_FAILED || gpu == MAP_FAILED)
		return NULL;
	ms_mem *m = calloc(1, sizeof *m);
	*m = (ms_mem){.refs = 1, .cpu = cpu, .gpu = gpu, .len = len, .mapped = n, .slot = add_region(cpu, n)};
	add_live(len);
	return m;
}

// Memory of the caller cannot be mapped a second time: early reads of it go unnoticed, its
// release does not (freed-in-flight).
ms_mem *ms_mem_foreign(void *p, int64_t len)
{
	ms_mem *m = calloc(1, sizeof *m);
	*m = (ms_mem){.refs = 1, .cpu = p, .gpu = p, .len = len, .foreign = true, .slot = -1};
	add_live(len);
	return m;
}

ms_mem *ms_mem_retain(ms_mem *m)
{
	atomic_fetch_add(&m->refs, 1);
	return m;
}

static void drop_region(int slot)
{
	pthread_mutex_lock(&region_mu);
	atomic_store(&regions[slot].lo, 0);
	atomic_store(&regions[slot].hi, 0);
	free_slots[nfree++] = slot;
	pthread_mutex_unlock(&region_mu);
}

static void finish(ms_mem *m)
{
	add_live(-m->len);
	if (!m->foreign) {
		munmap(m->cpu, (size_t)m->mapped);
		munmap(m->gpu, (size_t)m->mapped);
	}
	free(m);
}

void ms_mem_release(ms_mem *m)
{
	if (atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	if (m->slot >= 0)
		drop_region(m->slot);
	finish(m);
}

void ms_mem_protect(ms_mem *m)
{
	if (m->foreign || m->slot < 0 || !ms_cfg.protect)
		return;
	int p = m->writes ? PROT_NONE : m->reads ? PROT_READ : PROT_READ | PROT_WRITE;
	mprotect(m->cpu, (size_t)m->mapped, p);
}
