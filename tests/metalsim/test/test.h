// SPDX-License-Identifier: Apache-2.0
// A test program that sends messages as a compiler would: objc_msgSend cast to the type of
// the method.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct objc_object *id;
typedef const char *SEL;
typedef struct { uint64_t w, h, d; } Size;
typedef struct { uint64_t at, n; } Range;

void objc_msgSend(void);
void objc_msgSend_stret(void);
id objc_getClass(const char *);
SEL sel_registerName(const char *);
id objc_retain(id);
void objc_release(id);
void *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void *);
id MTLCreateSystemDefaultDevice(void);
id object_getClass(id);
void *class_getInstanceMethod(id, SEL);
void *class_getClassMethod(id, SEL);
const char *method_getTypeEncoding(void *);
int64_t metalsim_violations(char *, int64_t);
void metalsim_clear_violations(void);
int64_t metalsim_counter(const char *);
void metalsim_clear_counters(void);
int metalsim_set(const char *, const char *);
void metalsim_defaults(void);
long metalsim_live_objects(char *, int);
int metalsim_open_pools(void);
int metalsim_unimplemented(char *, int);

extern void (*volatile send_)(void);
extern void (*volatile send_stret)(void);
// M(result, (argument types), receiver, "selector", arguments...)
#define M(R, types, o, s, ...) (((R(*) types)send_)((id)(o), sel_registerName(s), ##__VA_ARGS__))
#define CLS(name) objc_getClass(name)
#define NEW(name) M(id, (id, SEL), CLS(name), "new")

void fail_(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define CHECK(cond) do { if (!(cond)) fail_(__FILE__, __LINE__, "%s", #cond); } while (0)
#define NEAR(a, b, tol) do { double a_ = (a), b_ = (b); if (!(fabs(a_ - b_) <= (tol))) \
	fail_(__FILE__, __LINE__, "%s = %.9g, want %.9g", #a, a_, b_); } while (0)

// expect: exactly one violation with this code since the last call; none with code NULL.
void expect_(const char *file, int line, const char *code);
#define EXPECT(code) expect_(__FILE__, __LINE__, code)
// violated: at least one with this code (others may follow from it); clears the list.
void violated_(const char *file, int line, const char *code);
#define VIOLATED(code) violated_(__FILE__, __LINE__, code)

typedef struct { const char *name; void (*run)(void); } test;
extern const test runtime_tests[], metal_tests[], graph_tests[], ops_tests[], misuse_tests[];

id str(const char *);                        // autoreleased NSString
id num(int64_t);                             // autoreleased NSNumber
id array(int n, ...);                        // autoreleased, of ids
id ints(int n, const int64_t *v);            // autoreleased, of NSNumbers
#define INTS(...) ints((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
