// SPDX-License-Identifier: Apache-2.0
// NSArray, NSDictionary, NSData and their mutable forms.
#include "foundation.h"
#include <stdlib.h>
#include <string.h>

typedef struct { struct ms_obj h; id *v; int64_t n, cap; } NSArray;
typedef struct { struct ms_obj h; id *k, *v; int64_t n, cap; } NSDictionary;
typedef struct { struct ms_obj h; void *p; int64_t n; int owned; void *deallocator; } NSData;

// acceptable: nil or a dead object in a collection is an exception or a later crash.
static bool acceptable(ms_call *c, id o)
{
	if (!o) {
		ms_violation("nil-arg", "-[%s %s]: attempt to insert nil", c->cls->name, c->decl->sel + 1);
		return false;
	}
	if (ms_is_class(o) || ms_pointer_kind(o) == MS_PTR_LIVE)
		return true;
	ms_violation("bad-object", "-[%s %s]: element %p is not a live object", c->cls->name, c->decl->sel + 1, (void *)o);
	return false;
}

// ---- NSArray ----
static void array_dealloc(id o)
{
	NSArray *a = (NSArray *)o;
	for (int64_t i = 0; i < a->n; i++)
		ms_release(a->v[i]);
	free(a->v);
}
static void array_push(NSArray *a, id o)
{
	if (a->n == a->cap) {
		a->cap = a->cap * 2 + 8;
		a->v = realloc(a->v, (size_t)a->cap * sizeof(id));
	}
	a->v[a->n++] = o;
}
id ms_array_owned(id *v, int64_t n)
{
	NSArray *a = (NSArray *)ms_new("NSArray");
	for (int64_t i = 0; i < n; i++)
		array_push(a, v[i]);
	return (id)a;
}
id ms_array(const id *v, int64_t n)
{
	NSArray *a = (NSArray *)ms_new("NSArray");
	for (int64_t i = 0; i < n; i++)
		array_push(a, ms_retain(v[i]));
	return (id)a;
}
static void fill_array(ms_call *c, NSArray *a, const id *v, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (acceptable(c, v[i]))
			array_push(a, ms_retain(v[i]));
}
IMP(arr_empty) { ms_instance(c, "NSArray"); }
IMP(arr_one) { fill_array(c, (NSArray *)ms_instance(c, "NSArray"), &c->a[0].o, 1); }
IMP(arr_many) { fill_array(c, (NSArray *)ms_instance(c, "NSArray"), c->a[0].p, c->a[1].q); }
IMP(arr_init) { ms_init_self(c); }
IMP(arr_init_many)
{
	const id *v = c->a[0].p;
	fill_array(c, (NSArray *)ms_init_self(c), v, c->a[1].q);
}
IMP(arr_from) { fill_array(c, (NSArray *)ms_instance(c, "NSArray"), ((NSArray *)c->a[0].o)->v, (uint64_t)((NSArray *)c->a[0].o)->n); }
IMP(arr_count) { c->ret.i = ((NSArray *)c->self)->n; }
IMP(arr_at)
{
	NSArray *a = (NSArray *)c->self;
	if (c->a[0].q >= (uint64_t)a->n)
		ms_violation("range", "-[%s %s]: index %llu beyond bounds of %lld", c->cls->name, c->decl->sel + 1,
			     (unsigned long long)c->a[0].q, (long long)a->n);
	else
		ms_return(c, a->v[c->a[0].q]);
}
IMP(arr_first) { ms_return(c, ((NSArray *)c->self)->n ? ((NSArray *)c->self)->v[0] : NULL); }
IMP(arr_last) { ms_return(c, ((NSArray *)c->self)->n ? ((NSArray *)c->self)->v[((NSArray *)c->self)->n - 1] : NULL); }
static uint64_t index_of(NSArray *a, id o, bool identical)
{
	for (int64_t i = 0; i < a->n; i++)
		if (a->v[i] == o || (!identical && ms_equal(a->v[i], o)))
			return (uint64_t)i;
	return 0x7fffffffffffffff; // NSNotFound
}
IMP(arr_index) { c->ret.q = index_of((NSArray *)c->self, c->a[0].o, false); }
IMP(arr_index_id) { c->ret.q = index_of((NSArray *)c->self, c->a[0].o, true); }
IMP(arr_contains) { c->ret.q = index_of((NSArray *)c->self, c->a[0].o, false) != 0x7fffffffffffffff; }
IMP(arr_equal) { c->ret.q = ms_equal(c->self, c->a[0].o); }
IMP(arr_get)
{
	NSArray *a = (NSArray *)c->self;
	uint64_t at = c->a[1].s[0], n = c->a[1].s[1];
	if (at + n > (uint64_t)a->n)
		ms_violation("range", "-[NSArray getObjects:range:] beyond bounds of %lld", (long long)a->n);
	else
		memcpy(c->a[0].p, a->v + at, n * sizeof(id));
}
static const ms_impl array_impls[] = {
	{"+array", arr_empty}, {"+arrayWithObject:", arr_one}, {"+arrayWithObjects:count:", arr_many}, {"-init", arr_init},
	{"-initWithObjects:count:", arr_init_many}, {"+arrayWithArray:", arr_from}, {"-count", arr_count},
	{"-objectAtIndex:", arr_at}, {"-objectAtIndexedSubscript:", arr_at}, {"-firstObject", arr_first},
	{"-lastObject", arr_last}, {"-indexOfObject:", arr_index}, {"-indexOfObjectIdenticalTo:", arr_index_id},
	{"-containsObject:", arr_contains}, {"-isEqualToArray:", arr_equal}, {"-getObjects:range:", arr_get},
};

IMP(marr_capacity) { ms_instance(c, "NSMutableArray"); }
IMP(marr_add)
{
	if (acceptable(c, c->a[0].o))
		array_push((NSArray *)c->self, ms_retain(c->a[0].o));
}
IMP(marr_clear)
{
	array_dealloc(c->self);
	NSArray *a = (NSArray *)c->self;
	a->v = NULL;
	a->n = a->cap = 0;
}
IMP(marr_replace)
{
	NSArray *a = (NSArray *)c->self;
	if (c->a[0].q >= (uint64_t)a->n) {
		ms_violation("range", "-[NSMutableArray replaceObjectAtIndex:withObject:] beyond bounds");
	} else if (acceptable(c, c->a[1].o)) {
		ms_retain(c->a[1].o);
		ms_release(a->v[c->a[0].q]);
		a->v[c->a[0].q] = c->a[1].o;
	}
}
IMP(marr_copy) { ms_return_new(c, ms_array(((NSArray *)c->self)->v, ((NSArray *)c->self)->n)); }
static const ms_impl marray_impls[] = {
	{"-copy", marr_copy},
	{"+arrayWithCapacity:", marr_capacity}, {"-initWithCapacity:", arr_init}, {"-init", arr_init}, {"-addObject:", marr_add},
	{"-removeAllObjects", marr_clear}, {"-replaceObjectAtIndex:withObject:", marr_replace},
};

// ---- NSDictionary: keys are copied; every key of this API is its own copy ----
static void dict_dealloc(id o)
{
	NSDictionary *d = (NSDictionary *)o;
	for (int64_t i = 0; i < d->n; i++) {
		ms_release(d->k[i]);
		ms_release(d->v[i]);
	}
	free(d->k);
	free(d->v);
}
// Keys are compared by value (isEqual:), but tensors and other objects only by identity; a
// linear search is quick for the few hundred feeds of a graph.
static int64_t dict_find(NSDictionary *d, id k)
{
	for (int64_t i = 0; i < d->n; i++)
		if (d->k[i] == k || ms_equal(d->k[i], k))
			return i;
	return -1;
}
// Retain before release: the old and the new value may be the same object.
void ms_dictionary_set(id o, id k, id v)
{
	NSDictionary *d = (NSDictionary *)o;
	int64_t i = dict_find(d, k);
	ms_retain(v);
	if (i >= 0) {
		ms_release(d->v[i]);
		d->v[i] = v;
		return;
	}
	if (d->n == d->cap) {
		d->cap = d->cap * 2 + 8;
		d->k = realloc(d->k, (size_t)d->cap * sizeof(id));
		d->v = realloc(d->v, (size_t)d->cap * sizeof(id));
	}
	d->k[d->n] = ms_retain(k);
	d->v[d->n++] = v;
}
id ms_dictionary_get(id o, id k)
{
	int64_t i = dict_find((NSDictionary *)o, k);
	return i < 0 ? NULL : ((NSDictionary *)o)->v[i];
}
id ms_dictionary(const id *k, const id *v, int64_t n)
{
	id d = ms_new("NSDictionary");
	for (int64_t i = 0; i < n; i++)
		ms_dictionary_set(d, k[i], v[i]);
	return d;
}
static void fill_dict(ms_call *c, id d, const id *v, const id *k, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (acceptable(c, k[i]) && acceptable(c, v[i]))
			ms_dictionary_set(d, k[i], v[i]);
}
IMP(dic_empty) { ms_instance(c, "NSDictionary"); }
IMP(dic_one) { fill_dict(c, ms_instance(c, "NSDictionary"), &c->a[0].o, &c->a[1].o, 1); }
IMP(dic_many) { fill_dict(c, ms_instance(c, "NSDictionary"), c->a[0].p, c->a[1].p, c->a[2].q); }
IMP(dic_arrays)
{
	NSArray *v = (NSArray *)c->a[0].o, *k = (NSArray *)c->a[1].o;
	if (v->n != k->n)
		ms_violation("range", "+[NSDictionary dictionaryWithObjects:forKeys:]: %lld objects, %lld keys",
			     (long long)v->n, (long long)k->n);
	else
		fill_dict(c, ms_instance(c, "NSDictionary"), v->v, k->v, (uint64_t)v->n);
}
IMP(dic_count) { c->ret.i = ((NSDictionary *)c->self)->n; }
IMP(dic_get) { ms_return(c, ms_dictionary_get(c->self, c->a[0].o)); }
IMP(dic_keys) { ms_return_new(c, ms_array(((NSDictionary *)c->self)->k, ((NSDictionary *)c->self)->n)); }
IMP(dic_values) { ms_return_new(c, ms_array(((NSDictionary *)c->self)->v, ((NSDictionary *)c->self)->n)); }
static const ms_impl dict_impls[] = {
	{"+dictionary", dic_empty}, {"-init", arr_init}, {"+dictionaryWithObject:forKey:", dic_one},
	{"+dictionaryWithObjects:forKeys:count:", dic_many}, {"+dictionaryWithObjects:forKeys:", dic_arrays},
	{"-count", dic_count}, {"-objectForKey:", dic_get}, {"-objectForKeyedSubscript:", dic_get}, {"-allKeys", dic_keys},
	{"-allValues", dic_values},
};
IMP(mdic_set)
{
	if (acceptable(c, c->a[0].o) && acceptable(c, c->a[1].o))
		ms_dictionary_set(c->self, c->a[1].o, c->a[0].o);
}
IMP(mdic_clear)
{
	dict_dealloc(c->self);
	NSDictionary *d = (NSDictionary *)c->self;
	d->k = d->v = NULL;
	d->n = d->cap = 0;
}
IMP(mdic_copy) { ms_return_new(c, ms_dictionary(((NSDictionary *)c->self)->k, ((NSDictionary *)c->self)->v, ((NSDictionary *)c->self)->n)); }
static const ms_impl mdict_impls[] = {
	{"-copy", mdic_copy},
	{"+dictionaryWithCapacity:", dic_empty}, {"-initWithCapacity:", arr_init}, {"-init", arr_init},
	{"-setObject:forKey:", mdic_set}, {"-removeAllObjects", mdic_clear},
};

int64_t ms_length(id o)
{
	return ms_is_kind(o, "NSDictionary") ? ((NSDictionary *)o)->n : ((NSArray *)o)->n;
}
id ms_element(id o, int64_t i, int want_key)
{
	if (!ms_is_kind(o, "NSDictionary"))
		return ((NSArray *)o)->v[i];
	return want_key ? ((NSDictionary *)o)->k[i] : ((NSDictionary *)o)->v[i];
}

// ---- NSData ----
enum { BORROWED, OWNED };
static void data_dealloc(id o)
{
	NSData *d = (NSData *)o;
	if (d->deallocator) {
		void (*f)(void *, void *, uint64_t) = (void (*)(void *, void *, uint64_t))ms_block_invoke(d->deallocator);
		f(d->deallocator, d->p, (uint64_t)d->n);
		ms_block_release(d->deallocator);
	} else if (d->owned) {
		free(d->p);
	}
}
const void *ms_data_bytes(id o) { return ((NSData *)o)->p; }
int64_t ms_data_length(id o) { return ((NSData *)o)->n; }
// Counted, because loading a model may not copy a weight.
static void data_copy(id o, const void *p, int64_t n)
{
	NSData *d = (NSData *)o;
	d->p = malloc((size_t)n + 1);
	memcpy(d->p, p, (size_t)n);
	d->n = n;
	d->owned = OWNED;
	ms_count("bytes_data", n);
}
// NoCopy: the bytes must outlive the object unless it is told to free them.
static void data_wrap(id o, void *p, int64_t n, bool take)
{
	NSData *d = (NSData *)o;
	d->p = p;
	d->n = n;
	d->owned = take;
}
IMP(dat_empty) { ms_instance(c, "NSData"); }
IMP(dat_copy) { data_copy(ms_instance(c, "NSData"), c->a[0].p, c->a[1].i); }
IMP(dat_wrap_take) { data_wrap(ms_instance(c, "NSData"), c->a[0].p, c->a[1].i, true); }
IMP(dat_wrap) { data_wrap(ms_instance(c, "NSData"), c->a[0].p, c->a[1].i, c->a[2].q); }
IMP(dat_init) { ms_init_self(c); }
IMP(dat_init_copy) { data_copy(ms_init_self(c), c->a[0].p, c->a[1].i); }
IMP(dat_init_wrap) { data_wrap(ms_init_self(c), c->a[0].p, c->a[1].i, c->a[2].q); }
IMP(dat_init_block)
{
	id o = ms_init_self(c);
	data_wrap(o, c->a[0].p, c->a[1].i, false);
	((NSData *)o)->deallocator = ms_block_copy(c->a[2].p);
}
IMP(dat_bytes) { c->ret.p = ((NSData *)c->self)->p; }
IMP(dat_length) { c->ret.i = ((NSData *)c->self)->n; }
IMP(dat_get)
{
	NSData *d = (NSData *)c->self;
	memcpy(c->a[0].p, d->p, (size_t)(c->a[1].i < d->n ? c->a[1].i : d->n));
}
static const ms_impl data_impls[] = {
	{"+data", dat_empty}, {"+dataWithBytes:length:", dat_copy}, {"+dataWithBytesNoCopy:length:", dat_wrap_take},
	{"+dataWithBytesNoCopy:length:freeWhenDone:", dat_wrap}, {"-init", dat_init}, {"-initWithBytes:length:", dat_init_copy},
	{"-initWithBytesNoCopy:length:freeWhenDone:", dat_init_wrap},
	{"-initWithBytesNoCopy:length:deallocator:", dat_init_block}, {"-bytes", dat_bytes}, {"-length", dat_length},
	{"-getBytes:length:", dat_get},
};

void ms_init_collections(void)
{
	ms_define("NSArray", "NSObject", "", sizeof(NSArray), array_dealloc);
	ms_define("NSMutableArray", "NSArray", "", sizeof(NSArray), array_dealloc);
	ms_define("NSDictionary", "NSObject", "", sizeof(NSDictionary), dict_dealloc);
	ms_define("NSMutableDictionary", "NSDictionary", "", sizeof(NSDictionary), dict_dealloc);
	ms_define("NSData", "NSObject", "", sizeof(NSData), data_dealloc);
	const char *clusters[] = {"NSArray", "NSMutableArray", "NSDictionary", "NSMutableDictionary", "NSData"};
	for (int i = 0; i < ARRAY_LEN(clusters); i++)
		ms_cluster(clusters[i]);
	MS_IMPLEMENT("NSArray", array_impls);
	MS_IMPLEMENT("NSMutableArray", marray_impls);
	MS_IMPLEMENT("NSDictionary", dict_impls);
	MS_IMPLEMENT("NSMutableDictionary", mdict_impls);
	MS_IMPLEMENT("NSData", data_impls);
}
