// SPDX-License-Identifier: Apache-2.0
// NSObject, NSString, NSNumber, NSURL, NSError, NSNull, NSProcessInfo.
#include "foundation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { struct ms_obj h; char *utf8; size_t bytes, length; } NSString;
typedef struct { struct ms_obj h; char kind; union { int64_t i; double d; }; } NSNumber; // kind: 'q' 'Q' 'd' 'f' 'B'
typedef struct { struct ms_obj h; id path; } NSURL;
typedef struct { struct ms_obj h; id domain, info; int64_t code; } NSError;

void ms_return(ms_call *c, id o) { c->ret.o = o; }
void ms_return_new(ms_call *c, id o)
{
	c->ret.o = o;
	c->ret_owned = true;
}

// A class cluster's alloc gives a placeholder and init another object; code that ignores
// the result of init then holds a zombie.
id ms_init_self(ms_call *c)
{
	id o = c->self;
	if (c->cls->cluster) {
		o = ms_alloc(c->cls, MS_LIVE);
		ms_release(c->self);
	}
	o->state = MS_LIVE;
	ms_return_new(c, o);
	return o;
}

void ms_init_fail(ms_call *c)
{
	ms_release(c->self);
	c->ret.o = NULL;
}

id ms_instance(ms_call *c, const char *base)
{
	(void)base;
	id o = ms_alloc(c->cls, MS_LIVE);
	ms_return_new(c, o);
	return o;
}

// ---- NSObject ----
IMP(obj_alloc)
{
	if (c->cls->unavailable) {
		ms_violation("unavailable", "+[%s alloc]: objects of this class come from a factory", c->cls->name);
		return;
	}
	ms_return_new(c, ms_alloc(c->cls, MS_UNINIT));
}
IMP(obj_new)
{
	if (c->cls->unavailable) {
		ms_violation("unavailable", "+[%s new]: objects of this class come from a factory", c->cls->name);
		return;
	}
	ms_return_new(c, ms_send0(ms_alloc(c->cls, MS_UNINIT), "init"));
}
IMP(obj_init) { ms_init_self(c); }
IMP(obj_retain) { c->ret.o = ms_retain(c->self); }
IMP(obj_release) { ms_release(c->self); }
IMP(obj_autorelease) { c->ret.o = ms_autorelease(c->self); }
IMP(obj_retain_count) { c->ret.q = ms_is_class(c->self) ? ~0ull >> 1 : (uint64_t)c->self->rc; }
IMP(obj_self) { c->ret.o = c->self; }
IMP(obj_class) { c->ret.p = c->cls; }
IMP(obj_superclass) { c->ret.p = c->cls->super; }
IMP(obj_hash) { c->ret.q = (uintptr_t)c->self >> 4; }
IMP(obj_equal) { c->ret.q = ms_equal(c->self, c->a[0].o); }
IMP(obj_copy) { ms_return(c, c->self); } // immutable: copy is retain, which the +1 rule does
IMP(obj_responds)
{
	Class k = ms_is_class(c->self) ? c->cls->isa : c->cls;
	c->ret.q = ms_find(k, c->a[0].str, NULL, NULL, NULL);
}
IMP(obj_instances_respond) { c->ret.q = ms_find(c->cls, c->a[0].str, NULL, NULL, NULL); }
static bool kind_of(Class k, Class want, bool exact)
{
	for (; k; k = exact ? NULL : k->super)
		if (k == want)
			return true;
	return false;
}
IMP(obj_kind) { c->ret.q = kind_of(c->cls, c->a[0].p, false); }
IMP(obj_member) { c->ret.q = kind_of(c->cls, c->a[0].p, true); }
IMP(obj_description)
{
	char b[160];
	snprintf(b, sizeof b, "<%s: %p>", c->cls->name, (void *)c->self);
	ms_return_new(c, ms_string(b));
}
IMP(cls_description) { ms_return_new(c, ms_string(c->cls->name)); }

static const ms_impl object_impls[] = {
	{"+alloc", obj_alloc}, {"+new", obj_new}, {"-init", obj_init}, {"-retain", obj_retain}, {"-release", obj_release},
	{"-autorelease", obj_autorelease}, {"-retainCount", obj_retain_count}, {"-self", obj_self}, {"-class", obj_class},
	{"+class", obj_class}, {"-superclass", obj_superclass}, {"+superclass", obj_superclass}, {"-hash", obj_hash},
	{"-isEqual:", obj_equal}, {"-copy", obj_copy}, {"-respondsToSelector:", obj_responds},
	{"+instancesRespondToSelector:", obj_instances_respond}, {"-isKindOfClass:", obj_kind},
	{"-isMemberOfClass:", obj_member}, {"-description", obj_description}, {"+description", cls_description},
	{"-debugDescription", obj_description},
};

// ---- NSString: UTF-8 inside; length counts UTF-16 units as NSString does ----
// Strict UTF-8 (no overlong forms, nothing above U+10FFFF): stringWithUTF8String: gives nil
// for anything else.
static bool utf16_length(const char *s, size_t n, size_t *units)
{
	const uint8_t *p = (const uint8_t *)s, *end = p + n;
	for (*units = 0; p < end;) {
		int more = *p < 0x80 ? 0 : *p >= 0xf0 && *p < 0xf5 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc2 && *p < 0xe0 ? 1 : -1;
		if (more < 0 || *p >= 0xf5 || end - p <= more)
			return false;
		for (int i = 1; i <= more; i++)
			if ((p[i] & 0xc0) != 0x80)
				return false;
		*units += more == 3 ? 2 : 1;
		p += more + 1;
	}
	return true;
}
static bool fill_string(id o, const char *p, size_t n)
{
	NSString *s = (NSString *)o;
	if (!utf16_length(p, n, &s->length))
		return false;
	s->utf8 = malloc(n + 1);
	memcpy(s->utf8, p, n);
	s->utf8[n] = 0;
	s->bytes = n;
	return true;
}
id ms_string_n(const char *p, size_t n)
{
	id o = ms_new("NSString");
	if (fill_string(o, p, n))
		return o;
	ms_release(o);
	return NULL;
}
id ms_string(const char *s) { return ms_string_n(s, strlen(s)); }
const char *ms_utf8(id o) { return ((NSString *)o)->utf8; }
static void string_dealloc(id o) { free(((NSString *)o)->utf8); }

IMP(str_from_utf8) { ms_return_new(c, ms_string(c->a[0].str)); }
IMP(str_init) { fill_string(ms_init_self(c), "", 0); }
IMP(str_empty) { ms_return_new(c, ms_string("")); }
static void init_string(ms_call *c, const char *p, size_t n)
{
	size_t units;
	if (!utf16_length(p, n, &units))
		ms_init_fail(c);
	else
		fill_string(ms_init_self(c), p, n);
}
IMP(str_init_utf8) { init_string(c, c->a[0].str, strlen(c->a[0].str)); }
IMP(str_init_bytes)
{
	if (c->a[2].q != 4 && c->a[2].q != 1) {
		ms_violation("not-implemented", "-[NSString initWithBytes:length:encoding:] with encoding %llu",
			     (unsigned long long)c->a[2].q);
		ms_init_fail(c);
		return;
	}
	init_string(c, c->a[0].p, c->a[1].q);
}
IMP(str_utf8) { c->ret.p = ((NSString *)c->self)->utf8; }
IMP(str_length) { c->ret.q = ((NSString *)c->self)->length; }
IMP(str_bytes) { c->ret.q = c->a[0].q == 4 || ((NSString *)c->self)->bytes == ((NSString *)c->self)->length ? ((NSString *)c->self)->bytes : 0; }
IMP(str_equal) { c->ret.q = ms_equal(c->self, c->a[0].o); }
static const ms_impl string_impls[] = {
	{"+stringWithUTF8String:", str_from_utf8}, {"+string", str_empty}, {"-init", str_init},
	{"-initWithUTF8String:", str_init_utf8}, {"-initWithBytes:length:encoding:", str_init_bytes},
	{"-UTF8String", str_utf8}, {"-length", str_length}, {"-lengthOfBytesUsingEncoding:", str_bytes},
	{"-isEqualToString:", str_equal}, {"-description", obj_self},
};

// ---- NSNumber ----
// The kind is remembered because a shape must be made of integers: a double in a shape is a
// mistake that MPSGraph would truncate.
static id number(char kind, int64_t i, double d)
{
	NSNumber *n = (NSNumber *)ms_new("NSNumber");
	n->kind = kind;
	if (kind == 'd' || kind == 'f')
		n->d = d;
	else
		n->i = i;
	return (id)n;
}
id ms_number_i(int64_t v) { return number('q', v, 0); }
id ms_number_d(double v) { return number('d', 0, v); }
bool ms_number_is_integer(id o) { return strchr("qQB", ((NSNumber *)o)->kind) != NULL; }
double ms_number_double(id o)
{
	NSNumber *n = (NSNumber *)o;
	return n->kind == 'd' || n->kind == 'f' ? n->d : n->kind == 'Q' ? (double)(uint64_t)n->i : (double)n->i;
}
int64_t ms_number_int(id o)
{
	NSNumber *n = (NSNumber *)o;
	return n->kind == 'd' || n->kind == 'f' ? (int64_t)n->d : n->i;
}
IMP(num_signed) { ms_return_new(c, number('q', c->a[0].i, 0)); }
IMP(num_int) { ms_return_new(c, number('q', (int32_t)c->a[0].i, 0)); }
IMP(num_unsigned) { ms_return_new(c, number('Q', c->a[0].i, 0)); }
IMP(num_bool) { ms_return_new(c, number('B', c->a[0].i & 1, 0)); }
IMP(num_double) { ms_return_new(c, number('d', 0, c->a[0].d)); }
IMP(num_float) { ms_return_new(c, number('f', 0, c->a[0].f)); }
static void init_number(ms_call *c, char kind)
{
	ms_arg a = c->a[0];
	NSNumber *n = (NSNumber *)ms_init_self(c);
	n->kind = kind;
	if (kind == 'd' || kind == 'f')
		n->d = kind == 'd' ? a.d : (double)a.f;
	else
		n->i = a.i;
}
IMP(num_init_q) { init_number(c, 'q'); }
IMP(num_init_Q) { init_number(c, 'Q'); }
IMP(num_init_d) { init_number(c, 'd'); }
IMP(num_init_f) { init_number(c, 'f'); }
IMP(num_init_b) { init_number(c, 'B'); }
IMP(num_get_int) { c->ret.i = ms_number_int(c->self); }
IMP(num_get_double) { c->ret.d = ms_number_double(c->self); }
IMP(num_get_float) { c->ret.f = (float)ms_number_double(c->self); }
IMP(num_get_bool) { c->ret.q = ms_number_double(c->self) != 0; }
IMP(num_compare)
{
	double a = ms_number_double(c->self), b = ms_number_double(c->a[0].o);
	c->ret.i = a < b ? -1 : a > b;
}
IMP(num_string)
{
	char b[64];
	if (ms_number_is_integer(c->self))
		snprintf(b, sizeof b, "%lld", (long long)ms_number_int(c->self));
	else
		snprintf(b, sizeof b, "%.17g", ms_number_double(c->self));
	ms_return_new(c, ms_string(b));
}
static const ms_impl number_impls[] = {
	{"+numberWithInteger:", num_signed}, {"+numberWithLong:", num_signed}, {"+numberWithLongLong:", num_signed},
	{"+numberWithInt:", num_int}, {"+numberWithUnsignedInteger:", num_unsigned}, {"+numberWithUnsignedLong:", num_unsigned},
	{"+numberWithUnsignedLongLong:", num_unsigned}, {"+numberWithUnsignedInt:", num_unsigned},
	{"+numberWithBool:", num_bool}, {"+numberWithDouble:", num_double}, {"+numberWithFloat:", num_float},
	{"-initWithInteger:", num_init_q}, {"-initWithLong:", num_init_q}, {"-initWithLongLong:", num_init_q},
	{"-initWithInt:", num_init_q}, {"-initWithUnsignedInteger:", num_init_Q}, {"-initWithUnsignedLong:", num_init_Q},
	{"-initWithUnsignedLongLong:", num_init_Q}, {"-initWithUnsignedInt:", num_init_Q}, {"-initWithDouble:", num_init_d},
	{"-initWithFloat:", num_init_f}, {"-initWithBool:", num_init_b},
	{"-integerValue", num_get_int}, {"-longValue", num_get_int}, {"-longLongValue", num_get_int}, {"-intValue", num_get_int},
	{"-unsignedIntegerValue", num_get_int}, {"-unsignedLongValue", num_get_int}, {"-unsignedLongLongValue", num_get_int},
	{"-unsignedIntValue", num_get_int}, {"-doubleValue", num_get_double}, {"-floatValue", num_get_float},
	{"-boolValue", num_get_bool}, {"-compare:", num_compare}, {"-isEqualToNumber:", obj_equal},
	{"-stringValue", num_string}, {"-description", num_string},
};

// ---- NSURL: file URLs only ----
static void url_dealloc(id o) { ms_release(((NSURL *)o)->path); }
const char *ms_url_path(id o) { return ms_utf8(((NSURL *)o)->path); }
// Only what a path needs: the engine gives paths to packages.
IMP(url_file) { ((NSURL *)ms_instance(c, "NSURL"))->path = ms_retain(c->a[0].o); }
IMP(url_path) { ms_return(c, ((NSURL *)c->self)->path); }
static const ms_impl url_impls[] = {
	{"+fileURLWithPath:", url_file}, {"+fileURLWithPath:isDirectory:", url_file}, {"-path", url_path},
};

// ---- NSError ----
static void error_dealloc(id o)
{
	ms_release(((NSError *)o)->domain);
	ms_release(((NSError *)o)->info);
}
id ms_error(const char *domain, int64_t code, const char *text)
{
	NSError *e = (NSError *)ms_new("NSError");
	e->domain = ms_string(domain);
	e->code = code;
	id k = ms_string("NSLocalizedDescription"), v = ms_string(text);
	e->info = ms_dictionary(&k, &v, 1);
	ms_release(k);
	ms_release(v);
	return (id)e;
}
// Out-parameters are autoreleased, and untouched on success: an error may be looked at only
// when the result says that there is one.
void ms_set_error(void *out, const char *domain, int64_t code, const char *text)
{
	if (out)
		*(id *)out = ms_autorelease(ms_error(domain, code, text));
}
IMP(err_code) { c->ret.i = ((NSError *)c->self)->code; }
IMP(err_domain) { ms_return(c, ((NSError *)c->self)->domain); }
IMP(err_info) { ms_return(c, ((NSError *)c->self)->info); }
static id error_text(id e, const char *key)
{
	id k = ms_string(key), v = ((NSError *)e)->info ? ms_dictionary_get(((NSError *)e)->info, k) : NULL;
	ms_release(k);
	return v;
}
IMP(err_description)
{
	id t = error_text(c->self, "NSLocalizedDescription");
	if (t)
		ms_return(c, t);
	else
		ms_return_new(c, ms_string("The operation couldn't be completed."));
}
IMP(err_reason) { ms_return(c, error_text(c->self, "NSLocalizedFailureReason")); }
IMP(err_make)
{
	NSError *e = (NSError *)ms_instance(c, "NSError");
	e->domain = ms_retain(c->a[0].o);
	e->code = c->a[1].i;
	e->info = ms_retain(c->a[2].o);
}
static const ms_impl error_impls[] = {
	{"-code", err_code}, {"-domain", err_domain}, {"-userInfo", err_info}, {"-localizedDescription", err_description},
	{"-localizedFailureReason", err_reason}, {"+errorWithDomain:code:userInfo:", err_make},
};

// ---- NSNull, NSProcessInfo: singletons ----
// Singletons are made once and outlive every pool.
static id singleton(id *at, const char *cls)
{
	static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&mu);
	if (!*at) {
		*at = ms_new(cls);
		(*at)->immortal = 1;
		atomic_fetch_sub(&(*at)->isa->live, 1); // not a leak
	}
	pthread_mutex_unlock(&mu);
	return *at;
}
IMP(null_null) { static id o; ms_return(c, singleton(&o, "NSNull")); }
IMP(proc_info) { static id o; ms_return(c, singleton(&o, "NSProcessInfo")); }
IMP(proc_version)
{
	c->ret.s[0] = (uint64_t)ms_cfg.os / 10000;
	c->ret.s[1] = (uint64_t)ms_cfg.os / 100 % 100;
	c->ret.s[2] = (uint64_t)ms_cfg.os % 100;
}
IMP(proc_at_least)
{
	const uint64_t *v = c->a[0].s;
	c->ret.q = (uint64_t)ms_cfg.os >= v[0] * 10000 + v[1] * 100 + v[2];
}
IMP(proc_memory) { c->ret.q = ms_cfg.memory; }
IMP(proc_version_string)
{
	char b[64];
	snprintf(b, sizeof b, "Version %d.%d (Build 24A335)", ms_cfg.os / 10000, ms_cfg.os / 100 % 100);
	ms_return_new(c, ms_string(b));
}
static const ms_impl null_impls[] = {{"+null", null_null}};
static const ms_impl process_impls[] = {
	{"+processInfo", proc_info}, {"-operatingSystemVersion", proc_version}, {"-physicalMemory", proc_memory},
	{"-isOperatingSystemAtLeastVersion:", proc_at_least}, {"-operatingSystemVersionString", proc_version_string},
};

// ---- equality by value for what is used as keys and dimensions ----
bool ms_equal(id a, id b)
{
	if (a == b || !a || !b)
		return a == b;
	if (ms_is_class(a) || ms_is_class(b))
		return false;
	if (ms_is_kind(a, "NSString") && ms_is_kind(b, "NSString"))
		return !strcmp(ms_utf8(a), ms_utf8(b));
	if (ms_is_kind(a, "NSNumber") && ms_is_kind(b, "NSNumber"))
		return ms_number_double(a) == ms_number_double(b) && ms_number_int(a) == ms_number_int(b);
	if (ms_is_kind(a, "NSArray") && ms_is_kind(b, "NSArray")) {
		bool same = ms_length(a) == ms_length(b);
		for (int64_t i = 0; same && i < ms_length(a); i++)
			same = ms_equal(ms_element(a, i, 0), ms_element(b, i, 0));
		return same;
	}
	return false;
}

void ms_init_foundation(void)
{
	ms_define("NSString", "NSObject", "", sizeof(NSString), string_dealloc);
	ms_define("NSNumber", "NSValue", "", sizeof(NSNumber), NULL);
	ms_define("NSURL", "NSObject", "", sizeof(NSURL), url_dealloc);
	ms_define("NSError", "NSObject", "", sizeof(NSError), error_dealloc);
	ms_cluster("NSString");
	ms_cluster("NSNumber");
	MS_IMPLEMENT("NSObject", object_impls);
	MS_IMPLEMENT("NSString", string_impls);
	MS_IMPLEMENT("NSNumber", number_impls);
	MS_IMPLEMENT("NSURL", url_impls);
	MS_IMPLEMENT("NSError", error_impls);
	MS_IMPLEMENT("NSNull", null_impls);
	MS_IMPLEMENT("NSProcessInfo", process_impls);
	ms_init_collections();
}
