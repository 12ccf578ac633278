// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin that is another one except that calls fail or
// take long when a test says so. Positions in the table are those of package pjrt.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_DESTROY = 0, ERROR_MESSAGE = 1, ERROR_CODE = 2, EVENT_AWAIT = 8, COMPILE = 20, UPLOAD = 22, EXECUTE = 55, DOWNLOAD = 70, MOST = 1024 };

struct api {
	size_t size;
	void *extension;
	struct { size_t size; void *extension; int major, minor; } version;
	void *(*f[MOST])(void *);
};

// What stands at the beginning of the arguments of the three functions for errors.
struct error_args {
	size_t size;
	void *extension;
	void *error;
	union { struct { const char *text; size_t length; } message; int code; } out;
};

static const struct api *real;
static struct api own;
static atomic_int failing = -1, code, after, held, waiting, compiling, together;
static int mine; // its address is the error

// faulty_fail has call number n from now of a function fail, once.
void faulty_fail(int function, int with, int n) { code = with; after = n; failing = function; }

// faulty_hold has everybody who waits for an event wait on until it is called with 0;
// it returns how many wait.
int faulty_hold(int on) { held = on; return waiting; }

// faulty_together is how many compiled at once, at most.
int faulty_together(void) { return together; }

static void *call(int function, void *args) {
	void *error = real->f[function](args);
	if (error || failing != function || atomic_fetch_sub(&after, 1) > 0) return error;
	failing = -1;
	return &mine;
}

static void *await(void *args) {
	waiting++;
	while (held) usleep(1000);
	waiting--;
	return call(EVENT_AWAIT, args);
}
static void *compile(void *args) {
	int n = ++compiling;
	if (n > together) together = n;
	usleep(2000); // others come
	void *error = call(COMPILE, args);
	compiling--;
	return error;
}
static void *upload(void *args) { return call(UPLOAD, args); }
static void *execute(void *args) { return call(EXECUTE, args); }
static void *download(void *args) { return call(DOWNLOAD, args); }

static void *message(void *args) {
	struct error_args *a = args;
	if (a->error != &mine) return real->f[ERROR_MESSAGE](args);
	a->out.message.text = "the test said so";
	a->out.message.length = strlen(a->out.message.text);
	return NULL;
}
static void *get_code(void *args) {
	struct error_args *a = args;
	if (a->error != &mine) return real->f[ERROR_CODE](args);
	a->out.code = code;
	return NULL;
}
static void *destroy(void *args) {
	struct error_args *a = args;
	return a->error == &mine ? NULL : real->f[ERROR_DESTROY](args);
}

// faulty_real has the plugin at path do the work; it returns 0 where that is none.
int faulty_real(const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct api *(*get)(void) = lib ? (const struct api *(*)(void))dlsym(lib, "GetPjrtApi") : NULL;
	if (!get) return 0;
	real = get();
	memcpy(&own, real, real->size < sizeof own ? real->size : sizeof own);
	own.f[ERROR_DESTROY] = destroy, own.f[ERROR_MESSAGE] = message, own.f[ERROR_CODE] = get_code;
	own.f[EVENT_AWAIT] = await, own.f[COMPILE] = compile, own.f[UPLOAD] = upload, own.f[EXECUTE] = execute, own.f[DOWNLOAD] = download;
	return 1;
}

const struct api *GetPjrtApi(void) { return real ? &own : NULL; }
