// SPDX-License-Identifier: Apache-2.0
// Classes, selectors and method lookup: the part of libobjc that describes.
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES 256
static struct ms_class classes[2 * MAX_CLASSES]; // class, metaclass, class, metaclass ...
static int nclasses;

// ---- string hash used by selectors and implementations ----
// FNV-1a: the tables are small and built once.
static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3u;
	return h;
}

// ---- selectors ----
// All texts lie in one arena and begin[] marks where one starts, so that any pointer can be
// recognised as a selector at once.
#define SELS (1 << 13)
#define ARENA (1 << 20)
static char *sels[SELS], arena[ARENA];
static _Atomic uint8_t begin[ARENA];
static int nsels, arena_at;
static pthread_mutex_t sel_mu = PTHREAD_MUTEX_INITIALIZER;

SEL ms_intern(const char *name)
{
	pthread_mutex_lock(&sel_mu);
	unsigned i = (unsigned)hash(name) % SELS;
	while (sels[i] && strcmp(sels[i], name))
		i = (i + 1) % SELS;
	int n = (int)strlen(name) + 1;
	if (!sels[i] && nsels < SELS / 2 && arena_at + n <= ARENA) {
		sels[i] = memcpy(arena + arena_at, name, (size_t)n);
		begin[arena_at] = 1;
		arena_at += n;
		nsels++;
	}
	SEL r = sels[i];
	pthread_mutex_unlock(&sel_mu);
	return r;
}

// A selector is only what sel_registerName returned: libobjc compares addresses.
bool ms_sel_known(const void *p)
{
	const char *s = p;
	return s >= arena && s < arena + ARENA && begin[s - arena];
}

MS_EXPORT SEL sel_registerName(const char *name) { return name ? ms_intern(name) : NULL; }
MS_EXPORT SEL sel_getUid(const char *name) { return sel_registerName(name); }
MS_EXPORT const char *sel_getName(SEL s) { return s ? s : "<null selector>"; }

// ---- implementations: "Class|-selector" -> function ----
#define IMPLS (1 << 12)
static struct { char *key; ms_imp imp; } impls[IMPLS];
static int nimpls;

static unsigned impl_slot(const char *key)
{
	unsigned i = (unsigned)hash(key) % IMPLS;
	while (impls[i].key && strcmp(impls[i].key, key))
		i = (i + 1) % IMPLS;
	return i;
}

static const ms_decl *table_find(const char *cls, const char *sel);

void ms_implement(const char *cls, const ms_impl *list, int n)
{
	for (int i = 0; i < n; i++) {
		char key[256];
		snprintf(key, sizeof key, "%s|%s", cls, list[i].sel);
		unsigned s = impl_slot(key);
		if (impls[s].key || ++nimpls > IMPLS / 2) {
			fprintf(stderr, "metalsim: %s implemented twice or too many\n", key);
			abort();
		}
		impls[s].key = strdup(key);
		impls[s].imp = list[i].imp;
	}
}

// ---- the generated table is sorted by class, then by "+sel" / "-sel" ----
static const ms_decl *table_find(const char *cls, const char *sel)
{
	int lo = 0, hi = ms_method_table_n;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		const ms_decl *d = &ms_method_table[mid];
		int c = strcmp(d->cls, cls);
		if (!c)
			c = strcmp(d->sel, sel);
		if (!c)
			return d;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

// Protocols adopt protocols (MTLBuffer adopts MTLResource adopts MTLAllocation), so a search
// climbs them as it climbs superclasses.
static const char *protocols_of(const char *protocol)
{
	for (int i = 0; i < ms_class_table_n; i++)
		if (ms_class_table[i].protocol && !strcmp(ms_class_table[i].name, protocol))
			return ms_class_table[i].protocols;
	return "";
}

typedef struct {
	const char *sel; // with sign
	const ms_decl *decl;
	ms_imp imp;
	int newer; // a declaration exists, but only since this version
} search;

// look finds declaration and implementation under one name (class or protocol) and its
// protocols; what was found earlier (nearer the object's own class) stays.
static void look(search *s, const char *name, const char *protocols)
{
	const ms_decl *d = s->decl ? NULL : table_find(name, s->sel);
	if (d && d->since > ms_cfg.os)
		s->newer = d->since;
	else if (d && (!(d->own & MS_PRIVATE) || ms_cfg.private_methods))
		s->decl = d;
	if (!s->imp) {
		char key[256];
		snprintf(key, sizeof key, "%s|%s", name, s->sel);
		s->imp = impls[impl_slot(key)].imp;
	}
	while (*protocols) {
		size_t n = strcspn(protocols, ",");
		char p[128];
		snprintf(p, sizeof p, "%.*s", (int)n, protocols);
		look(s, p, protocols_of(p));
		protocols += n + (protocols[n] == ',');
	}
}

// ---- lookup with a cache over (class, selector) ----
// A message is looked up once per class and selector; changing the configured macOS changes
// what exists and empties the cache.
#define CACHE (1 << 13)
static struct entry { Class c; SEL s; const ms_decl *decl; ms_imp imp; int newer; } cache[CACHE];
static pthread_mutex_t cache_mu = PTHREAD_MUTEX_INITIALIZER;

void ms_flush_cache(void)
{
	pthread_mutex_lock(&cache_mu);
	memset(cache, 0, sizeof cache);
	pthread_mutex_unlock(&cache_mu);
}

static void search_all(Class c, SEL sel, struct entry *e)
{
	bool meta = c->instance != NULL;
	char signed_sel[200];
	snprintf(signed_sel, sizeof signed_sel, "%c%s", meta ? '+' : '-', sel);
	search s = {.sel = signed_sel};
	for (Class k = meta ? c->instance : c; k; k = k->super)
		look(&s, k->name, k->protocols);
	if (meta && !s.decl) { // a class is an instance of the root class too
		signed_sel[0] = '-';
		s.imp = NULL;
		look(&s, "NSObject", "");
	}
	*e = (struct entry){c, sel, s.decl, s.decl ? s.imp : NULL, s.newer};
}

bool ms_find(Class c, SEL sel, const ms_decl **decl, ms_imp *imp, int *newer)
{
	unsigned h = (unsigned)((((uintptr_t)c >> 5) * 31 + ((uintptr_t)sel >> 4)) % CACHE);
	pthread_mutex_lock(&cache_mu);
	if (cache[h].c != c || cache[h].s != sel)
		search_all(c, sel, &cache[h]);
	struct entry e = cache[h];
	pthread_mutex_unlock(&cache_mu);
	if (decl)
		*decl = e.decl;
	if (imp)
		*imp = e.imp;
	if (newer)
		*newer = e.newer;
	return e.decl != NULL;
}

// ---- classes ----
static Class find_class(const char *name)
{
	for (int i = 0; i < nclasses; i++)
		if (!strcmp(classes[2 * i].name, name))
			return &classes[2 * i];
	return NULL;
}

Class ms_class(const char *name)
{
	Class c = find_class(name);
	if (!c) {
		fprintf(stderr, "metalsim: class %s is not defined\n", name);
		abort();
	}
	return c;
}

bool ms_is_class(const void *p)
{
	const char *q = p, *lo = (const char *)classes;
	return q >= lo && q < lo + sizeof(struct ms_class) * (size_t)(2 * nclasses) &&
	       (size_t)(q - lo) % sizeof(struct ms_class) == 0;
}

// Class and metaclass are neighbours in one array, so that a pointer can be recognised as
// either by its address alone.
static Class add_class(const char *name, Class super, const char *protocols, int since)
{
	if (nclasses == MAX_CLASSES)
		abort();
	Class c = &classes[2 * nclasses], m = c + 1;
	nclasses++;
	*c = (struct ms_class){.isa = m, .super = super, .name = name, .protocols = protocols, .since = since,
			       .size = super ? super->size : sizeof(struct ms_obj), .cluster = super && super->cluster,
			       .dealloc = NULL};
	*m = (struct ms_class){.name = name, .protocols = "", .instance = c, .super = super ? super->isa : NULL};
	return c;
}

// declare makes the classes of the table, superclasses first.
static Class declare(const char *name)
{
	Class c = find_class(name);
	for (int i = 0; !c && i < ms_class_table_n; i++) {
		const ms_class_decl *d = &ms_class_table[i];
		if (!d->protocol && !strcmp(d->name, name))
			c = add_class(d->name, *d->super ? declare(d->super) : NULL, d->protocols, d->since);
	}
	return c;
}

void ms_define(const char *cls, const char *super, const char *protocols, size_t size, void (*dealloc)(id))
{
	Class c = find_class(cls);
	if (!c)
		c = add_class(cls, ms_class(super), protocols, 0);
	c->size = size;
	c->dealloc = dealloc;
}

void ms_cluster(const char *cls) { ms_class(cls)->cluster = true; }
void ms_unavailable(const char *cls) { ms_class(cls)->unavailable = true; }

void ms_exclusive(const char *cls) { ms_class(cls)->exclusive = true; }

static bool conforms(const char *protocols, const char *want)
{
	while (*protocols) {
		size_t n = strcspn(protocols, ",");
		char p[128];
		snprintf(p, sizeof p, "%.*s", (int)n, protocols);
		if (!strcmp(p, want) || conforms(protocols_of(p), want))
			return true;
		protocols += n + (protocols[n] == ',');
	}
	return false;
}

bool ms_class_conforms(Class c, const char *protocol)
{
	for (; c; c = c->super)
		if (conforms(c->protocols, protocol))
			return true;
	return false;
}

// "<MTLBuffer>" asks for a protocol, as id<MTLBuffer> does in the headers.
bool ms_is_kind(id o, const char *name)
{
	if (!o)
		return false;
	Class c = o->isa;
	if (*name == '<') {
		char p[128];
		snprintf(p, sizeof p, "%.*s", (int)strlen(name) - 2, name + 1);
		return ms_class_conforms(c, p);
	}
	for (; c; c = c->super)
		if (!strcmp(c->name, name))
			return true;
	return false;
}

// ---- exported: what purego binds ----
// A class newer than the configured macOS does not exist (MPSGraphObject is only a base).
MS_EXPORT id objc_getClass(const char *name)
{
	Class c = name ? find_class(name) : NULL;
	return c && c->since <= ms_cfg.os ? (id)c : NULL;
}
MS_EXPORT id objc_lookUpClass(const char *name) { return objc_getClass(name); }
MS_EXPORT Class object_getClass(id o)
{
	if (!o || ms_is_class(o))
		return o ? ((Class)o)->isa : NULL;
	if (ms_pointer_kind(o) != MS_PTR_LIVE) {
		ms_violation("bad-object", "object_getClass(%p): not a live object", (void *)o);
		return NULL;
	}
	return o->isa;
}
MS_EXPORT const char *class_getName(Class c) { return c ? c->name : "nil"; }
MS_EXPORT const char *object_getClassName(id o) { return class_getName(object_getClass(o)); }
MS_EXPORT Class class_getSuperclass(Class c) { return c ? c->super : NULL; }
MS_EXPORT size_t class_getInstanceSize(Class c) { return c ? c->size : 0; }

// A Method is the table's row: its encoding is Apple's, not ours.
MS_EXPORT const ms_decl *class_getInstanceMethod(Class c, SEL s)
{
	const ms_decl *d = NULL;
	if (c && s)
		ms_find(c, ms_intern(s), &d, NULL, NULL);
	return d;
}
MS_EXPORT const ms_decl *class_getClassMethod(Class c, SEL s) { return c ? class_getInstanceMethod(c->isa, s) : NULL; }
MS_EXPORT const char *method_getTypeEncoding(const ms_decl *m) { return m ? m->enc : NULL; }
MS_EXPORT SEL method_getName(const ms_decl *m) { return m ? ms_intern(m->sel + 1) : NULL; }
MS_EXPORT bool class_respondsToSelector(Class c, SEL s) { return class_getInstanceMethod(c, s) != NULL; }

// ---- protocols: Metal's interfaces are protocols, whose encodings libobjc knows as well ----
MS_EXPORT const ms_class_decl *objc_getProtocol(const char *name)
{
	for (int i = 0; name && i < ms_class_table_n; i++)
		if (ms_class_table[i].protocol && !strcmp(ms_class_table[i].name, name))
			return &ms_class_table[i];
	return NULL;
}
typedef struct { SEL name; const char *types; } objc_method_description;
// The table does not tell required from optional methods: all count as required.
MS_EXPORT objc_method_description protocol_getMethodDescription(const ms_class_decl *p, SEL sel, bool required, bool instance)
{
	char signed_sel[200];
	if (!p || !sel || !required)
		return (objc_method_description){0};
	snprintf(signed_sel, sizeof signed_sel, "%c%s", instance ? '-' : '+', sel);
	search s = {.sel = signed_sel};
	look(&s, p->name, p->protocols);
	return s.decl ? (objc_method_description){ms_intern(sel), s.decl->enc} : (objc_method_description){0};
}
MS_EXPORT bool class_conformsToProtocol(Class c, const ms_class_decl *p) { return c && p && ms_class_conforms(c, p->name); }

// metalsim_unimplemented lists implementations whose selector the table does not have: the
// simulator may not answer what Apple does not declare. Used by its own tests.
MS_EXPORT int metalsim_unimplemented(char *buf, int n)
{
	int bad = 0, at = 0;
	for (int i = 0; i < IMPLS; i++) {
		if (!impls[i].key)
			continue;
		char cls[128];
		const char *bar = strchr(impls[i].key, '|');
		snprintf(cls, sizeof cls, "%.*s", (int)(bar - impls[i].key), impls[i].key);
		search s = {.sel = bar + 1};
		int os = ms_cfg.os;
		ms_cfg.os = 999999;
		Class c = find_class(cls);
		if (!c)
			look(&s, cls, protocols_of(cls));
		for (; c; c = c->super)
			look(&s, c->name, c->protocols);
		ms_cfg.os = os;
		if (!s.decl) {
			bad++;
			at += snprintf(buf + at, (size_t)(n - at > 0 ? n - at : 0), "%s\n", impls[i].key);
		}
	}
	return bad;
}

// Singletons (NSNull, NSProcessInfo) are not counted: they are never meant to go.
MS_EXPORT long metalsim_live_objects(char *buf, int n)
{
	long total = 0;
	int at = 0;
	for (int i = 0; i < nclasses; i++) {
		long v = atomic_load(&classes[2 * i].live);
		total += v;
		if (buf && v && at < n)
			at += snprintf(buf + at, (size_t)(n - at), "%s %ld\n", classes[2 * i].name, v);
	}
	if (buf && at == 0 && n > 0)
		buf[0] = 0;
	return total;
}

// METALSIM_REPORT=1 prints at exit what was misused and what is left: for processes that
// cannot ask, such as a Python test of the whole engine.
int64_t metalsim_violations(char *, int64_t);
static void report(void)
{
	static char text[1 << 16];
	int64_t bad = metalsim_violations(text, sizeof text);
	fprintf(stderr, "metalsim: %lld violations\n%s", (long long)bad, text);
	long left = metalsim_live_objects(text, sizeof text);
	fprintf(stderr, "metalsim: %ld objects left\n%s", left, text);
}

void metalsim_defaults(void);
__attribute__((constructor)) static void init(void)
{
	for (int i = 0; i < ms_class_table_n; i++)
		if (!ms_class_table[i].protocol)
			declare(ms_class_table[i].name);
	ms_init_foundation();
	ms_init_metal();
	ms_init_encoders();
	ms_init_mps();
	ms_init_graph();
	metalsim_defaults();
	const char *e = getenv("METALSIM_REPORT");
	if (e && *e == '1')
		atexit(report);
}
