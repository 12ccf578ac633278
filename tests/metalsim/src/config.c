// SPDX-License-Identifier: Apache-2.0
// Violations, counters and the configurable device: the metalsim_* interface.
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ms_config ms_cfg;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

// ---- violations: every misuse that Apple's frameworks would abort on, corrupt or leak ----
#define MAX_TEXTS 256
static char texts[MAX_TEXTS][512]; // no malloc here: the fault handler reports too
static long violations;

void ms_violation(const char *code, const char *fmt, ...)
{
	char b[512];
	int n = snprintf(b, sizeof b, "%s: ", code);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(b + n, sizeof b - (size_t)n, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&mu);
	if (violations < MAX_TEXTS)
		memcpy(texts[violations], b, sizeof texts[0] - 1);
	violations++;
	pthread_mutex_unlock(&mu);
	const char *e = getenv("METALSIM_ABORT");
	if (e && *e == '1') {
		fprintf(stderr, "metalsim: %s\n", b);
		abort();
	}
	e = getenv("METALSIM_VERBOSE");
	if (e && *e == '1')
		fprintf(stderr, "metalsim: %s\n", b);
}

// metalsim_violations copies the recorded texts, one a line, into buf and returns how many
// violations there were (also those beyond the 256 that are kept).
MS_EXPORT int64_t metalsim_violations(char *buf, int64_t n)
{
	pthread_mutex_lock(&mu);
	int64_t at = 0;
	for (long i = 0; buf && i < violations && i < MAX_TEXTS; i++) {
		int64_t len = (int64_t)strlen(texts[i]);
		if (at + len + 2 > n)
			break;
		memcpy(buf + at, texts[i], (size_t)len);
		at += len;
		buf[at++] = '\n';
	}
	if (buf && n > 0)
		buf[at] = 0;
	int64_t r = violations;
	pthread_mutex_unlock(&mu);
	return r;
}

MS_EXPORT void metalsim_clear_violations(void)
{
	pthread_mutex_lock(&mu);
	violations = 0;
	pthread_mutex_unlock(&mu);
}

// ---- counters ------------------------------------------------------------------------
static struct { char name[48]; int64_t v; } counters[64];
static int ncounters;

// The counter of a name, new ones 0; mu is held.
static int64_t *counter(const char *name)
{
	static int64_t none; // more names than room
	int i = 0;
	while (i < ncounters && strcmp(counters[i].name, name))
		i++;
	if (i == ncounters && ncounters < 64)
		snprintf(counters[ncounters++].name, sizeof counters[0].name, "%s", name);
	return i < 64 ? &counters[i].v : &none;
}

void ms_count(const char *name, int64_t add)
{
	pthread_mutex_lock(&mu);
	*counter(name) += add;
	pthread_mutex_unlock(&mu);
}

// The largest of all values.
void ms_peak(const char *name, int64_t value)
{
	pthread_mutex_lock(&mu);
	int64_t *v = counter(name);
	if (value > *v)
		*v = value;
	pthread_mutex_unlock(&mu);
}

// metalsim_counter: command_buffers, dispatches, encodes, commits, messages, bytes_constant,
// bytes_buffer, bytes_variable, buffer_bytes_live, buffer_bytes_peak, buffers_live ... ; an unknown name is 0.
MS_EXPORT int64_t metalsim_counter(const char *name)
{
	pthread_mutex_lock(&mu);
	int64_t v = 0;
	for (int i = 0; i < ncounters; i++)
		if (!strcmp(counters[i].name, name))
			v = counters[i].v;
	pthread_mutex_unlock(&mu);
	return v;
}

// metalsim_clear_counters leaves the *_live counters, which describe what exists.
MS_EXPORT void metalsim_clear_counters(void)
{
	pthread_mutex_lock(&mu);
	for (int i = 0; i < ncounters; i++)
		if (!strstr(counters[i].name, "_live"))
			counters[i].v = 0;
	pthread_mutex_unlock(&mu);
}

// ---- configuration -----------------------------------------------------------------------
enum { T_INT, T_I64, T_F64, T_OS, T_NAME };
static const struct { const char *key; int type; void *at; const char *def; } keys[] = {
	{"os", T_OS, &ms_cfg.os, "15.0"},
	{"working_set", T_I64, &ms_cfg.working_set, "11453251584"}, // a 16 GB M1 reports 10.67 GiB
	{"max_buffer", T_I64, &ms_cfg.max_buffer, "8589934592"},
	{"page", T_I64, &ms_cfg.page, "4096"}, // 16384 on Apple silicon; the host's mmap gives 4096
	{"memory", T_I64, &ms_cfg.memory, "17179869184"},
	{"no_device", T_INT, &ms_cfg.no_device, "0"},
	{"unified", T_INT, &ms_cfg.unified, "1"},
	{"family", T_INT, &ms_cfg.family, "7"},
	{"fail_alloc", T_I64, &ms_cfg.fail_alloc, "0"},
	{"fail_command", T_I64, &ms_cfg.fail_command, "0"},
	{"fail_compile", T_I64, &ms_cfg.fail_compile, "0"},
	{"fail_contents", T_I64, &ms_cfg.fail_contents, "0"},
	{"fail_queue", T_I64, &ms_cfg.fail_queue, "0"},
	{"fail_event", T_I64, &ms_cfg.fail_event, "0"},
	{"fail_graph", T_I64, &ms_cfg.fail_graph, "0"},
	{"shuffle_feeds", T_INT, &ms_cfg.shuffle_feeds, "1"},
	{"pad_rows", T_INT, &ms_cfg.pad_rows, "1"},
	{"fp16_accumulate", T_INT, &ms_cfg.fp16_accumulate, "0"},
	{"protect", T_INT, &ms_cfg.protect, "1"},
	{"commit_continue", T_INT, &ms_cfg.commit_continue, "0"},
	{"commit_anyway", T_INT, &ms_cfg.commit_anyway, "0"},
	{"private_methods", T_INT, &ms_cfg.private_methods, "1"},
	{"tflops", T_F64, &ms_cfg.tflops, "2.6"}, // M1, 8 cores
	{"watchdog", T_F64, &ms_cfg.watchdog, "2"},
	{"latency", T_F64, &ms_cfg.latency, "0"},
	{"hold", T_INT, &ms_cfg.hold, "0"},
	{"name", T_NAME, ms_cfg.name, "Apple Simulated GPU"},
	{"fault", T_NAME, ms_cfg.fault, "none"},
	{"crash", T_NAME, ms_cfg.crash, "none"},
	{"stack", T_I64, &ms_cfg.stack, "4194304"},
	{"sdk", T_OS, &ms_cfg.sdk, "15.0"},
};
#define NKEYS ((int)(sizeof keys / sizeof keys[0]))

// A GPU that is wrong without saying so, as some systems have been. The names are those that
// the evaluating functions ask for.
static bool known_fault(const char *v)
{
	static const char *const faults[] = {"none", "align_corners", "attention", "batched_half", "erf", "gemv_bias", "grouped", "identity", "norm", "sdpa_leak",
		"sdpa_unsteady", "ties"};
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		if (!strcmp(v, faults[i]))
			return true;
	return false;
}

static bool known_crash(const char *v)
{
	return !strcmp(v, "none") || !strcmp(v, "device") || !strcmp(v, "compile") || !strcmp(v, "package") || !strcmp(v, "encode");
}

static bool set_key(int k, const char *v)
{
	char *end;
	long long n;
	switch (keys[k].type) {
	case T_OS: {
		int maj = 0, min = 0, pat = 0;
		if (sscanf(v, "%d.%d.%d", &maj, &min, &pat) < 1)
			return false;
		*(int *)keys[k].at = maj * 10000 + min * 100 + pat;
		ms_flush_cache();
		return true;
	}
	case T_F64:
		*(double *)keys[k].at = strtod(v, &end);
		return end != v && !*end;
	case T_NAME:
		if (keys[k].at == ms_cfg.fault && !known_fault(v))
			return false;
		if (keys[k].at == ms_cfg.crash && !known_crash(v))
			return false;
		snprintf(keys[k].at, sizeof ms_cfg.name, "%s", v);
		return true;
	}
	n = strtoll(v, &end, 10);
	if (end == v || *end)
		return false;
	if (keys[k].at == &ms_cfg.private_methods)
		ms_flush_cache();
	if (keys[k].type == T_INT)
		*(int *)keys[k].at = (int)n;
	else
		*(int64_t *)keys[k].at = n;
	return true;
}

// metalsim_set changes one setting; false for an unknown key or a value that does not parse.
MS_EXPORT int metalsim_set(const char *key, const char *value)
{
	for (int k = 0; k < NKEYS; k++)
		if (!strcmp(keys[k].key, key))
			return set_key(k, value);
	return 0;
}

// metalsim_defaults puts every setting back: METALSIM_<KEY> of the environment, else built in.
MS_EXPORT void metalsim_defaults(void)
{
	ms_leak(-1);
	for (int k = 0; k < NKEYS; k++) {
		char env[64] = "METALSIM_";
		size_t at = strlen(env);
		for (const char *s = keys[k].key; *s; s++)
			env[at++] = *s >= 'a' && *s <= 'z' ? (char)(*s - 32) : *s;
		const char *e = getenv(env);
		if (!e || !set_key(k, e))
			set_key(k, keys[k].def);
	}
}

float ms_noise(void)
{
	static _Atomic uint32_t state = 1;
	uint32_t x = atomic_load(&state);
	atomic_store(&state, x * 1664525u + 1013904223u);
	return (float)(x >> 8) / (1 << 23) - 1;
}

bool ms_faulty(const char *what) { return !strcmp(ms_cfg.fault, what); }

void ms_crash_at(const char *where)
{
	if (strcmp(ms_cfg.crash, where))
		return;
	fprintf(stderr, "metalsim: MLIR pass manager failed (%s)\n", where);
	abort();
}

// The SDK that the program was linked with, as dyld tells it: 15.0 is 0x000f0000.
MS_EXPORT uint32_t dyld_get_program_sdk_version(void)
{
	return (uint32_t)(ms_cfg.sdk / 10000 << 16 | ms_cfg.sdk / 100 % 100 << 8 | ms_cfg.sdk % 100);
}

bool ms_fail(int64_t *countdown)
{
	pthread_mutex_lock(&mu);
	bool now = *countdown > 0 && --*countdown == 0;
	pthread_mutex_unlock(&mu);
	return now;
}
