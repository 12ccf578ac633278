// SPDX-License-Identifier: Apache-2.0
// libobjc and Foundation: what is right passes, each misuse gives its violation.
#include "test.h"
#include <pthread.h>

static void strings_and_numbers(void)
{
	id s = str("pont d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80");
	CHECK(!strcmp(M(const char *, (id, SEL), s, "UTF8String"), "pont d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80"));
	CHECK(M(uint64_t, (id, SEL), s, "length") == 12); // UTF-16 units
	CHECK(M(bool, (id, SEL, id), s, "isEqual:", str("pont d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80")));
	CHECK(!str("\xff\xfe"));
	CHECK(M(int64_t, (id, SEL), num(-7), "integerValue") == -7);
	NEAR(M(double, (id, SEL), M(id, (id, SEL, double), CLS("NSNumber"), "numberWithDouble:", 2.5), "doubleValue"), 2.5, 0);
	NEAR(M(float, (id, SEL), M(id, (id, SEL, float), CLS("NSNumber"), "numberWithFloat:", 0.25f), "floatValue"), 0.25, 0);
	CHECK(M(bool, (id, SEL), M(id, (id, SEL, bool), CLS("NSNumber"), "numberWithBool:", true), "boolValue"));
	id owned = M(id, (id, SEL, const char *), M(id, (id, SEL), CLS("NSString"), "alloc"), "initWithUTF8String:", "x");
	CHECK(!strcmp(M(const char *, (id, SEL), owned, "UTF8String"), "x"));
	objc_release(owned);
}

static void collections(void)
{
	id a = array(3, num(1), str("b"), num(3));
	CHECK(M(uint64_t, (id, SEL), a, "count") == 3);
	CHECK(M(int64_t, (id, SEL), M(id, (id, SEL, uint64_t), a, "objectAtIndex:", (uint64_t)2), "integerValue") == 3);
	CHECK(M(uint64_t, (id, SEL, id), a, "indexOfObject:", num(3)) == 2);
	CHECK(M(uint64_t, (id, SEL, id), a, "indexOfObject:", num(9)) == 0x7fffffffffffffff);
	id m = NEW("NSMutableDictionary");
	M(void, (id, SEL, id, id), m, "setObject:forKey:", num(5), str("k"));
	M(void, (id, SEL, id, id), m, "setObject:forKey:", num(6), str("k"));
	CHECK(M(uint64_t, (id, SEL), m, "count") == 1);
	CHECK(M(int64_t, (id, SEL), M(id, (id, SEL, id), m, "objectForKey:", str("k")), "integerValue") == 6);
	CHECK(!M(id, (id, SEL, id), m, "objectForKey:", str("missing")));
	objc_release(m);
	char bytes[4] = {1, 2, 3, 4};
	id d = M(id, (id, SEL, void *, uint64_t, bool), CLS("NSData"), "dataWithBytesNoCopy:length:freeWhenDone:", bytes, (uint64_t)4, false);
	CHECK(M(void *, (id, SEL), d, "bytes") == bytes && metalsim_counter("bytes_data") == 0);
	id e = M(id, (id, SEL, const void *, uint64_t), CLS("NSData"), "dataWithBytes:length:", bytes, (uint64_t)4);
	CHECK(M(void *, (id, SEL), e, "bytes") != bytes && metalsim_counter("bytes_data") == 4);
}

typedef struct { int64_t major, minor, patch; } Version;
static void system_version(void)
{
	metalsim_set("os", "15.3.1");
	id p = M(id, (id, SEL), CLS("NSProcessInfo"), "processInfo");
	Version v = ((Version(*)(id, SEL))send_stret)(p, sel_registerName("operatingSystemVersion"));
	CHECK(v.major == 15 && v.minor == 3 && v.patch == 1);
	CHECK(M(bool, (id, SEL, Version), p, "isOperatingSystemAtLeastVersion:", (Version){15, 0, 0}));
	CHECK(!M(bool, (id, SEL, Version), p, "isOperatingSystemAtLeastVersion:", (Version){15, 4, 0}));
#ifdef __x86_64__
	M(uint64_t, (id, SEL), p, "operatingSystemVersion");
	EXPECT("stret");
#endif
}

static void table(void)
{
	char list[4096];
	CHECK(metalsim_unimplemented(list, sizeof list) == 0 || (fail_(__FILE__, __LINE__, "not in Apple's table:\n%s", list), 1));
	id g = CLS("MPSGraph");
	void *m = class_getInstanceMethod(g, sel_registerName("softMaxWithTensor:axis:name:"));
	CHECK(m && !strcmp(method_getTypeEncoding(m), "@40@0:8@16q24@32"));
	CHECK(!class_getClassMethod(g, sel_registerName("softMaxWithTensor:axis:name:")));
	CHECK(class_getClassMethod(CLS("MPSGraphDevice"), sel_registerName("deviceWithMTLDevice:")));
	CHECK(!CLS("NoSuchClass") && !CLS("MTLDevice")); // a protocol is not a class
	SEL sdpa = sel_registerName("scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:scale:name:");
	CHECK(M(bool, (id, SEL, SEL), g, "instancesRespondToSelector:", sdpa));
	metalsim_set("os", "14.5");
	CHECK(!M(bool, (id, SEL, SEL), g, "instancesRespondToSelector:", sdpa));
	CHECK(!class_getInstanceMethod(g, sdpa));
}

typedef struct { const char *name, *types; } Description;
void *objc_getProtocol(const char *);
Description protocol_getMethodDescription(void *, SEL, bool required, bool instance);
static void protocols(void)
{
	void *p = objc_getProtocol("MTLComputeCommandEncoder");
	CHECK(!objc_getProtocol("MPSGraph") && p);
	Description d = protocol_getMethodDescription(p, sel_registerName("dispatchThreadgroups:threadsPerThreadgroup:"), true, true);
	CHECK(d.types && !strcmp(d.types, "v64@0:8{?=QQQ}16{?=QQQ}40"));
	d = protocol_getMethodDescription(p, sel_registerName("endEncoding"), true, true); // inherited
	CHECK(d.types && !strcmp(d.types, "v16@0:8"));
	CHECK(!protocol_getMethodDescription(p, sel_registerName("endEncoding"), true, false).types);
}

static void bad_messages(void)
{
	M(void, (id, SEL), str("x"), "noSuchMethod");
	EXPECT("unknown-selector");
	M(id, (id, SEL), CLS("NSString"), "length"); // an instance method sent to the class
	EXPECT("unknown-selector");
	M(id, (id, SEL, id), CLS("NSArray"), "arrayWithContentsOfFile:", str("f"));
	VIOLATED("unknown-selector");
	M(id, (id, SEL), str("x"), "uppercaseString");
	violated_(__FILE__, __LINE__, class_getInstanceMethod(CLS("NSString"), sel_registerName("uppercaseString")) ? "not-implemented" : "unknown-selector");
	CHECK(M(id, (id, SEL), NULL, "anything") == NULL); // nil is legal
	id fake[4] = {0};
	M(void, (id, SEL), fake, "retain");
	EXPECT("bad-object");
	((void (*)(id, SEL))send_)(str("x"), "length"); // not interned
	EXPECT("bad-selector");
	id a = M(id, (id, SEL), CLS("NSMutableArray"), "array");
	M(void, (id, SEL, id), a, "addObject:", NULL);
	EXPECT("nil-arg");
	M(id, (id, SEL, uint64_t), a, "objectAtIndex:", (uint64_t)0);
	EXPECT("range");
	M(bool, (id, SEL, id), str("x"), "isEqualToString:", num(1));
	EXPECT("arg-class");
}

static void widths(void)
{
	M(id, (id, SEL, uint64_t), CLS("NSNumber"), "numberWithBool:", (uint64_t)7);
	EXPECT("arg-width");
	M(id, (id, SEL, uint64_t), CLS("NSNumber"), "numberWithUnsignedInt:", (uint64_t)1 << 40);
	EXPECT("arg-width");
	M(id, (id, SEL, double), CLS("NSNumber"), "numberWithFloat:", 0.1);
	EXPECT("arg-width");
	union { uint64_t q; double d; } u = {.q = 0x3f800000}; // 1.0f in a double register
	M(id, (id, SEL, double), CLS("NSNumber"), "numberWithDouble:", u.d);
	EXPECT("arg-width");
	M(id, (id, SEL, int32_t), CLS("NSNumber"), "numberWithInt:", -5);
	EXPECT(NULL);
}

static void life_times(void)
{
	id a = NEW("NSMutableArray");
	objc_release(a);
	M(uint64_t, (id, SEL), a, "count");
	EXPECT("use-after-free");
	objc_release(a);
	EXPECT("over-release");
	M(void, (id, SEL), a, "release");
	EXPECT("over-release");
	M(bool, (id, SEL, id), str("x"), "isEqual:", a);
	EXPECT("use-after-free");
	id b = M(id, (id, SEL), CLS("NSMutableArray"), "alloc");
	M(uint64_t, (id, SEL), b, "count");
	EXPECT("uninitialised");
	b = M(id, (id, SEL), b, "init");
	M(id, (id, SEL), b, "init");
	EXPECT("double-init");
	objc_release(b);
	id placeholder = M(id, (id, SEL), CLS("NSString"), "alloc");
	id s = M(id, (id, SEL, const char *), placeholder, "initWithUTF8String:", "x");
	CHECK(s != placeholder);
	M(uint64_t, (id, SEL), placeholder, "length"); // the result of init was ignored
	EXPECT("use-after-free");
	objc_release(s);
}

static void *no_pool(void *arg)
{
	*(id *)arg = num(123456);
	return NULL;
}
static void *pop_here(void *p)
{
	objc_autoreleasePoolPop(p);
	return NULL;
}
static void *leave_open(void *p)
{
	objc_autoreleasePoolPush();
	return p;
}
static void on_thread(void *(*f)(void *), void *arg)
{
	pthread_t t;
	pthread_create(&t, NULL, f, arg);
	pthread_join(t, NULL);
}

static void pools(void)
{
	id leaked = NULL;
	on_thread(no_pool, &leaked);
	EXPECT("no-pool");
	objc_release(leaked);
	void *p = objc_autoreleasePoolPush();
	on_thread(pop_here, p);
	EXPECT("pool-thread");
	void *q = objc_autoreleasePoolPush();
	objc_autoreleasePoolPop(p); // before the inner one
	EXPECT("pool-order");
	objc_autoreleasePoolPop(q);
	EXPECT("pool-order");
	on_thread(leave_open, NULL);
	EXPECT("pool-leak");
}

static void ownership(void)
{
	void *p = objc_autoreleasePoolPush();
	id a = array(1, num(1)); // +0: gone with its pool
	id b = objc_retain(array(1, num(2)));
	objc_autoreleasePoolPop(p);
	M(uint64_t, (id, SEL), a, "count");
	EXPECT("use-after-free");
	CHECK(M(uint64_t, (id, SEL), b, "count") == 1);
	objc_release(b);
}

const test runtime_tests[] = {
	{"strings_and_numbers", strings_and_numbers}, {"collections", collections}, {"system_version", system_version},
	{"table", table}, {"protocols", protocols}, {"bad_messages", bad_messages}, {"widths", widths}, {"life_times", life_times}, {"pools", pools},
	{"ownership", ownership}, {NULL, NULL},
};
