// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include <stdarg.h>

void (*volatile send_)(void) = objc_msgSend;
#ifdef __x86_64__
void (*volatile send_stret)(void) = objc_msgSend_stret;
#else
void (*volatile send_stret)(void) = objc_msgSend;
#endif
static int failures;
static const char *current;

void fail_(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "FAIL %s: %s:%d: ", current, file, line);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	failures++;
}

static char texts[1 << 16];

void expect_(const char *file, int line, const char *code)
{
	int64_t n = metalsim_violations(texts, sizeof texts);
	size_t len = code ? strlen(code) : 0;
	if (!code ? n != 0 : n != 1 || strncmp(texts, code, len) || texts[len] != ':')
		fail_(file, line, "want %s%s, got %lld:\n%s", code ? "one violation " : "no violation", code ? code : "", (long long)n, texts);
	metalsim_clear_violations();
}

void violated_(const char *file, int line, const char *code)
{
	int64_t n = metalsim_violations(texts, sizeof texts);
	char want[80];
	snprintf(want, sizeof want, "\n%s: ", code);
	bool first = !strncmp(texts, want + 1, strlen(want + 1));
	if (!n || (!first && !strstr(texts, want)))
		fail_(file, line, "want a violation %s, got %lld:\n%s", code, (long long)n, texts);
	metalsim_clear_violations();
}

id str(const char *s) { return M(id, (id, SEL, const char *), CLS("NSString"), "stringWithUTF8String:", s); }
id num(int64_t v) { return M(id, (id, SEL, int64_t), CLS("NSNumber"), "numberWithInteger:", v); }
id array(int n, ...)
{
	id v[64];
	va_list ap;
	va_start(ap, n);
	for (int i = 0; i < n; i++)
		v[i] = va_arg(ap, id);
	return M(id, (id, SEL, const id *, uint64_t), CLS("NSArray"), "arrayWithObjects:count:", v, (uint64_t)n);
}
id ints(int n, const int64_t *x)
{
	id v[64];
	for (int i = 0; i < n; i++)
		v[i] = num(x[i]);
	return M(id, (id, SEL, const id *, uint64_t), CLS("NSArray"), "arrayWithObjects:count:", v, (uint64_t)n);
}

static int run(const test *t, const char *only)
{
	int n = 0;
	for (; t->name; t++) {
		if (only && !strstr(t->name, only))
			continue;
		current = t->name;
		metalsim_defaults();
		metalsim_clear_violations();
		metalsim_clear_counters();
		void *pool = objc_autoreleasePoolPush();
		t->run();
		objc_autoreleasePoolPop(pool);
		expect_(t->name, 0, NULL);
		char left[4096];
		if (metalsim_live_objects(left, sizeof left))
			fail_(t->name, 0, "objects left: %s", left);
		if (metalsim_counter("buffer_bytes_live"))
			fail_(t->name, 0, "%lld buffer bytes left", (long long)metalsim_counter("buffer_bytes_live"));
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	const test *all[] = {runtime_tests, metal_tests, graph_tests, ops_tests, misuse_tests};
	int n = 0;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		n += run(all[i], argc > 1 ? argv[1] : NULL);
	fprintf(stderr, "metalsim: %d tests, %d failures\n", n, failures);
	return failures != 0 || n == 0;
}
