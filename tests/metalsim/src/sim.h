// SPDX-License-Identifier: Apache-2.0
// Internal interface of the simulator: objects, messages, checks, configuration.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS_EXPORT __attribute__((visibility("default")))

// ---- objects ---------------------------------------------------------------
typedef struct ms_class *Class;
typedef struct ms_obj *id;
typedef const char *SEL; // interned: equality is pointer equality, as in libobjc

enum { MS_UNINIT = 1, MS_LIVE = 2, MS_DEAD = 3 };

// Every object starts with this header. isa comes first, as in Apple's runtime.
struct ms_obj {
	Class isa;
	_Atomic int32_t rc;
	uint8_t state;    // MS_UNINIT between alloc and init, MS_DEAD = zombie
	uint8_t immortal; // singletons: retain and release do nothing
	_Atomic uint8_t busy; // a message is being answered, for classes that are not thread safe
};

struct ms_class {
	Class isa;  // the metaclass; NULL in a metaclass
	Class super;
	const char *name;
	const char *protocols; // comma separated
	Class instance;        // of a metaclass: its class
	size_t size;
	void (*dealloc)(id);
	int since;
	bool cluster;      // alloc gives a placeholder that init replaces (NSString, NSArray ...)
	bool exclusive;    // not thread safe: one message at a time
	bool unavailable;  // alloc raises: objects come from a factory (MPSGraphTensor ...)
	_Atomic long live;
};

// ---- the table generated from Apple's data -----------------------------------
typedef struct {
	const char *name, *super, *protocols;
	int since, protocol;
} ms_class_decl;

enum { MS_OWN_NONE, MS_OWN_ZERO, MS_OWN_ONE, MS_OWN_ALLOC, MS_OWN_INIT, MS_OWN_SELF, MS_PRIVATE = 16 };

typedef struct {
	const char *cls, *sel; // sel with its sign: "-commit", "+array"
	const char *enc;       // arm64 type encoding
	const char *args;      // expected classes, '|' between arguments
	unsigned nullable;     // bit i: argument i may be nil
	int own, since;        // own may have MS_PRIVATE: outside the headers; since = 130200 for macOS 13.2, 0 = always there
} ms_decl;

extern const ms_class_decl ms_class_table[];
extern const int ms_class_table_n;
extern const ms_decl ms_method_table[];
extern const int ms_method_table_n;

// ---- messages ------------------------------------------------------------------
#define MS_MAX_ARGS 16
typedef union {
	id o;
	uint64_t q;
	int64_t i;
	double d;
	float f;
	void *p;
	const char *str;
	uint64_t s[6]; // a struct by value: MTLSize {w,h,d}, NSRange {location,length}, MTLRegion
} ms_arg;

typedef struct {
	id self;   // the receiver; a class for '+' methods
	Class cls; // its class, or the class itself
	const ms_decl *decl;
	int argc;
	ms_arg a[MS_MAX_ARGS];
	ms_arg ret;
	bool ret_owned; // ret.o carries a reference that the caller of the imp owns
} ms_call;

typedef void (*ms_imp)(ms_call *);
typedef struct {
	const char *sel; // with sign
	ms_imp imp;
} ms_impl;

// Registers of the caller, as saved by msgsend_*.S, which also restores the results from it.
typedef struct {
	uint64_t gp[9]; // arguments; results in gp[0], gp[1]; arm64: gp[8] = x8
	uint64_t fp[8]; // low halves of the vector registers; result in fp[0]
	uint64_t *stack;
} ms_regs;
void ms_dispatch(ms_regs *, int stret);

// ---- classes ---------------------------------------------------------------------
void ms_define(const char *cls, const char *super, const char *protocols, size_t size, void (*dealloc)(id));
void ms_cluster(const char *cls);
void ms_unavailable(const char *cls);
void ms_exclusive(const char *cls);
void ms_implement(const char *cls, const ms_impl *list, int n);
#define MS_IMPLEMENT(cls, list) ms_implement(cls, list, (int)(sizeof(list) / sizeof(list[0])))
Class ms_class(const char *name); // must exist
bool ms_is_class(const void *p);
bool ms_is_kind(id o, const char *name); // class or "<Protocol>"
bool ms_class_conforms(Class c, const char *protocol);
bool ms_find(Class c, SEL s, const ms_decl **decl, ms_imp *imp, int *newer);
void ms_flush_cache(void);
SEL ms_intern(const char *);
bool ms_sel_known(const void *);

// ---- life times --------------------------------------------------------------------
id ms_new(const char *cls);        // +1, initialised, zeroed
id ms_alloc(Class c, int state);   // +1
id ms_retain(id);
void ms_release(id);
id ms_send0(id o, const char *sel); // a message without arguments
id ms_autorelease(id);
enum { MS_PTR_NONE, MS_PTR_LIVE, MS_PTR_DEAD };
int ms_pointer_kind(const void *p); // is it one of our objects?
void *ms_block_copy(void *);
void ms_block_release(void *);
void *ms_block_invoke(void *b); // function pointer, NULL when b is not a block

// ---- violations, counters, configuration ---------------------------------------------
void ms_violation(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ms_count(const char *name, int64_t add);
void ms_peak(const char *name, int64_t value);

typedef struct {
	int os;                 // 150000 = macOS 15.0
	uint64_t working_set;   // recommendedMaxWorkingSetSize
	uint64_t max_buffer;    // maxBufferLength
	uint64_t page;          // alignment of newBufferWithBytesNoCopy
	uint64_t memory;        // NSProcessInfo.physicalMemory
	int no_device;          // MTLCreateSystemDefaultDevice returns nil
	int unified;            // hasUnifiedMemory
	int family;             // newest Apple GPU family, 7 = M1
	int64_t fail_alloc;     // the nth buffer allocation from now returns nil (0 = never)
	int64_t fail_command;   // the nth committed command buffer ends with an error
	int64_t fail_compile;   // the nth newLibraryWithSource fails
	int64_t fail_contents;  // the nth buffer is asked for its memory and has none
	int64_t fail_queue;     // the nth newCommandQueue returns nil
	int64_t fail_event;     // the nth newSharedEvent returns nil
	int64_t fail_graph;     // the nth compileWithDevice: returns nil
	int shuffle_feeds;      // feedTensors in another order than created
	int pad_rows;           // rows of arrays that MPS allocates are padded
	int fp16_accumulate;    // matmul, conv, softmax, sums accumulate in half
	int protect;            // buffers of running work are mprotected against the CPU
	int commit_continue;    // an encode commits its root after so many nodes, unless told not to (0 = never)
	int commit_anyway;      // and does not listen: neither to the descriptor nor to the environment
	int private_methods;    // methods outside Apple's headers exist
	double tflops;          // speed that the watchdog assumes
	double watchdog;        // longest command buffer in seconds
	double latency;         // seconds added to every command buffer
	int hold;               // committed command buffers wait until it is 0
	char name[64];
	char fault[64];         // what this GPU computes wrongly: see ms_faulty
	char crash[64];         // where Apple's code ends the process: see ms_crash_at
	int64_t stack;          // least stack in bytes of a thread that compiles
	int sdk;                // that the program was linked with, as os
} ms_config;
extern ms_config ms_cfg;
bool ms_fail(int64_t *countdown); // true when this is the nth call
void ms_crash_at(const char *where); // "device", "compile", "package", "encode"
float ms_noise(void); // -1 to 1, never the same twice
void ms_leak(int64_t n); // a framework loses n bytes for good; below 0 the test is over and it has them back
bool ms_faulty(const char *what);  // the configured device computes this wrongly

// Constructors, called once in order by runtime.c.
void ms_init_foundation(void);
void ms_init_metal(void);
void ms_init_encoders(void);
void ms_init_mps(void);
void ms_init_graph(void);
