// SPDX-License-Identifier: Apache-2.0
// One message: decode the saved registers by the method's type encoding, check every
// argument, run the C implementation, apply the ownership rule of the result.
#include "sim.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- type encodings ----
static const char *skip_qualifiers(const char *t)
{
	while (*t && strchr("rnNoORV", *t))
		t++;
	return t;
}

// next_type returns the end of the type at t: one letter, ^type, @?, {name=...}.
static const char *next_type(const char *t)
{
	t = skip_qualifiers(t);
	if (*t == '^')
		return next_type(t + 1);
	if (*t == '@' && t[1] == '?')
		return t + 2;
	if (*t == '{') {
		int depth = 0;
		do
			depth += *t == '{' ? 1 : *t == '}' ? -1 : 0;
		while (*t++ && depth);
		return t;
	}
	return *t ? t + 1 : t;
}

static const char *skip_offset(const char *t)
{
	while (*t >= '0' && *t <= '9')
		t++;
	return t;
}

// struct_words counts 8-byte fields; every struct of this API is made of Q and q only.
static int struct_words(const char *t)
{
	const char *end = next_type(t);
	int n = 0;
	for (const char *p = t; p < end; p++)
		if (*p == '=')
			while (++p < end && *p != '{' && *p != '}')
				n += *p == 'Q' || *p == 'q';
	return n;
}

// ---- where arguments are ----
typedef struct {
	ms_regs *r;
	int gp, ngp, fp; // next general and vector register
	int stack;       // next 8-byte stack slot
} cursor;

// purego on Linux gives every stack argument 8 bytes, on both architectures; only Apple's
// arm64 packs small ones, which the Go lint forbids.
static uint64_t take_gp(cursor *c) { return c->gp < c->ngp ? c->r->gp[c->gp++] : c->r->stack[c->stack++]; }
static uint64_t take_fp(cursor *c) { return c->fp < 8 ? c->r->fp[c->fp++] : c->r->stack[c->stack++]; }

static void take_struct(cursor *c, int words, ms_arg *a)
{
#ifdef __aarch64__
	if (words > 2) { // AAPCS64 B.4: larger than 16 bytes is replaced by a pointer to a copy
		memcpy(a->s, (void *)take_gp(c), 8 * (size_t)words);
		return;
	}
	if (c->gp + words > c->ngp)
		c->gp = c->ngp; // C.13: no splitting between registers and stack
#else
	if (words > 2 || c->gp + words > c->ngp) { // SysV 3.2.3: class MEMORY, or not enough registers
		for (int i = 0; i < words; i++)
			a->s[i] = c->r->stack[c->stack++];
		return;
	}
#endif
	for (int i = 0; i < words; i++)
		a->s[i] = take_gp(c);
}

// ---- checks ----
typedef struct {
	ms_call *c;
	int i;       // argument index
	bool refuse; // the implementation must not see this
} checker;

static void bad(checker *k, const char *code, const char *fmt, ...)
{
	char b[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(b, sizeof b, fmt, ap);
	va_end(ap);
	ms_violation(code, "%c[%s %s] argument %d: %s", k->c->decl->sel[0], k->c->cls->name, k->c->decl->sel + 1, k->i, b);
}

// Class objects are objects too; they are never deallocated.
static bool live_object(checker *k, const void *p, const char *what)
{
	if (ms_is_class(p))
		return true;
	int kind = ms_pointer_kind(p);
	if (kind == MS_PTR_LIVE)
		return true;
	bad(k, kind == MS_PTR_DEAD ? "use-after-free" : "bad-object", "%s%p is %s", what, p,
	    kind == MS_PTR_DEAD ? "a deallocated object" : "not an object");
	k->refuse = true;
	return false;
}

id ms_element(id collection, int64_t i, int want_key); // foundation.c
int64_t ms_length(id collection);

// members checks "NSArray/X" and "NSDictionary/Key/Value" one level down.
static void members(checker *k, id o, const char *want)
{
	char key[64], val[64] = "";
	const char *slash = strchr(want, '/');
	snprintf(key, sizeof key, "%.*s", (int)(slash ? slash - want : (long)strlen(want)), want);
	if (slash)
		snprintf(val, sizeof val, "%s", slash + 1);
	for (int64_t i = 0, n = ms_length(o); i < n && !k->refuse; i++) {
		for (int w = 0; w < 2; w++) {
			const char *cls = w ? val : key;
			id e = *cls ? ms_element(o, i, !w) : NULL;
			if (!e || ms_is_kind(e, cls))
				continue;
			bad(k, "arg-class", "element %lld is a %s, want %s", (long long)i, e->isa->name, cls);
			k->refuse = true;
		}
	}
}

static void check_object(checker *k, id o, const char *want)
{
	if (!o) {
		if (k->c->decl->nullable & 1u << k->i)
			return;
		bad(k, "nil-arg", "nil where the header says nonnull");
		k->refuse = true;
		return;
	}
	if (!live_object(k, o, ""))
		return;
	if (!ms_is_class(o) && o->state == MS_UNINIT) {
		bad(k, "uninitialised", "%s was allocated but never initialised", o->isa->name);
		k->refuse = true;
		return;
	}
	if (!*want)
		return;
	char cls[64];
	size_t n = strcspn(want, "/");
	snprintf(cls, sizeof cls, "%.*s", (int)n, want);
	if (ms_is_class(o) || !ms_is_kind(o, cls)) {
		bad(k, "arg-class", "a %s, want %s", ms_is_class(o) ? "class" : o->isa->name, cls);
		k->refuse = true;
	} else if (want[n] == '/') {
		members(k, o, want + n + 1);
	}
}

// Integers narrower than a register: purego and C callers extend them, so garbage above
// means that the declared width is wrong (a uint64 where the method has a uint32).
static void check_narrow(checker *k, uint64_t q, int bits, bool is_signed, char t)
{
	uint64_t low = q & (~0ull >> (64 - bits));
	int64_t ext = is_signed ? (int64_t)(low << (64 - bits)) >> (64 - bits) : (int64_t)low;
	if (t == 'B' && q > 1)
		bad(k, "arg-width", "BOOL has value %#llx", (unsigned long long)q);
	else if (q != low && q != (uint64_t)ext && q != (uint32_t)ext)
		bad(k, "arg-width", "'%c' has bits above its %d: %#llx (declared too wide?)", t, bits, (unsigned long long)q);
}

// A double read as float leaves the high half set; a float read as double is a denormal.
static void check_float(checker *k, uint64_t q, char t)
{
	double d;
	memcpy(&d, &q, 8);
	if (t == 'f' && q >> 32)
		bad(k, "arg-width", "float register holds 64 bits (%g as double): pass a float32", d);
	if (t == 'd' && d != 0 && fpclassify(d) == FP_SUBNORMAL)
		bad(k, "arg-width", "double %g is subnormal: was a float32 passed?", d);
}

static void decode_one(checker *k, cursor *cur, const char *type, const char *want)
{
	const char *t = skip_qualifiers(type);
	ms_arg *a = &k->c->a[k->i];
	switch (*t) {
	case '{':
		take_struct(cur, struct_words(t), a);
		return;
	case 'f':
	case 'd':
		a->q = take_fp(cur);
		check_float(k, a->q, *t);
		return;
	}
	a->q = take_gp(cur);
	switch (*t) {
	case '@':
		if (t[1] != '?') {
			check_object(k, a->o, want);
		} else if (a->p && !ms_block_invoke(a->p)) {
			bad(k, "bad-block", "%p is not a block", a->p);
			k->refuse = true;
		} else if (!a->p && !(k->c->decl->nullable & 1u << k->i)) {
			bad(k, "nil-arg", "nil block where the header says nonnull");
			k->refuse = true;
		}
		return;
	case '#':
		if (!ms_is_class(a->p)) {
			bad(k, "arg-class", "%p is not a class", a->p);
			k->refuse = true;
		}
		return;
	case ':':
		if (!ms_sel_known(a->p)) {
			bad(k, "bad-selector", "%p does not come from sel_registerName", a->p);
			k->refuse = true;
		}
		return;
	case 'B': check_narrow(k, a->q, 8, false, 'B'); a->q &= 1; return;
	case 'C': check_narrow(k, a->q, 8, false, 'C'); a->q &= 0xff; return;
	case 'S': check_narrow(k, a->q, 16, false, 'S'); a->q &= 0xffff; return;
	case 'I': check_narrow(k, a->q, 32, false, 'I'); a->q &= 0xffffffff; return;
	case 'c': check_narrow(k, a->q, 8, true, 'c'); a->i = (int8_t)a->q; return;
	case 's': check_narrow(k, a->q, 16, true, 's'); a->i = (int16_t)a->q; return;
	case 'i': check_narrow(k, a->q, 32, true, 'i'); a->i = (int32_t)a->q; return;
	case '^':
	case '*':
		// A pointer to bytes must be one; out-errors and stride lists may be NULL.
		if (!a->p && (*t == '*' || t[1] == 'v') && !(k->c->decl->nullable & 1u << k->i)) {
			bad(k, "nil-arg", "NULL pointer");
			k->refuse = true;
		}
		return;
	}
}

// decode fills c->a; false when an argument is unusable.
// Offsets in an encoding describe Apple's argument frame and are skipped; position and type
// alone decide the register.
static bool decode(ms_call *c, ms_regs *r, int stret)
{
	cursor cur = {r, stret ? 3 : 2,
#ifdef __aarch64__
		      8,
#else
		      6,
#endif
		      0, 0};
	const char *t = skip_offset(next_type(c->decl->enc)); // result, then '@0' and ':8'
	t = skip_offset(next_type(t));
	t = skip_offset(next_type(t));
	const char *want = c->decl->args;
	checker k = {.c = c};
	for (; *t && k.i < MS_MAX_ARGS; k.i++) {
		char w[160];
		size_t n = strcspn(want, "|");
		snprintf(w, sizeof w, "%.*s", (int)n, want);
		want += n + (want[n] == '|');
		decode_one(&k, &cur, t, w);
		t = skip_offset(next_type(t));
	}
	c->argc = k.i;
	return !k.refuse;
}

// ---- the receiver ----
static bool check_receiver(ms_call *c, SEL sel)
{
	if (ms_is_class(c->self)) {
		c->cls = (Class)c->self;
		return true;
	}
	int kind = ms_pointer_kind(c->self);
	if (kind == MS_PTR_LIVE) {
		c->cls = c->self->isa;
		return true;
	}
	const char *s = ms_sel_known(sel) ? sel : "?";
	if (kind == MS_PTR_DEAD)
		ms_violation(strcmp(s, "release") ? "use-after-free" : "over-release", "-[%s %s] sent to deallocated instance %p",
			     c->self->isa->name, s, (void *)c->self);
	else
		ms_violation("bad-object", "message %s sent to %p, which is not an object", s, (void *)c->self);
	return false;
}

static bool check_state(ms_call *c)
{
	if (ms_is_class(c->self))
		return true;
	bool init = c->decl->own == MS_OWN_INIT;
	const char *s = c->decl->sel + 1;
	if (c->self->state == MS_UNINIT && !init && strcmp(s, "release") && strcmp(s, "retain") && strcmp(s, "autorelease")) {
		ms_violation("uninitialised", "-[%s %s] before init", c->cls->name, s);
		return false;
	}
	if (c->self->state == MS_LIVE && init) {
		ms_violation("double-init", "-[%s %s] on an object that is initialised", c->cls->name, s);
		return false;
	}
	return true;
}

// check_entry: results above 16 bytes need objc_msgSend_stret on x86-64 and only they do.
static bool check_entry(ms_call *c, int stret)
{
#ifdef __x86_64__
	const char *t = skip_qualifiers(c->decl->enc);
	bool memory = *t == '{' && struct_words(t) > 2;
	if (memory != (stret != 0)) {
		ms_violation("stret", "-[%s %s] returns %s: wrong objc_msgSend entry", c->cls->name, c->decl->sel + 1, t);
		return false;
	}
#else
	(void)c, (void)stret;
#endif
	return true;
}

// own applies the naming rule of the table: alloc, init, new and copy give +1, the rest +0.
static void own(ms_call *c)
{
	const char *t = skip_qualifiers(c->decl->enc);
	if (*t != '@' || t[1] == '?' || !c->ret.o || ms_is_class(c->ret.o))
		return;
	bool plus1 = c->decl->own == MS_OWN_ONE || c->decl->own == MS_OWN_ALLOC || c->decl->own == MS_OWN_INIT;
	if (plus1 && !c->ret_owned)
		ms_retain(c->ret.o);
	else if (!plus1 && c->ret_owned)
		ms_autorelease(c->ret.o);
}

static void give_back(ms_call *c, ms_regs *r, int stret)
{
	const char *t = skip_qualifiers(c->decl->enc);
	r->fp[0] = r->fp[1] = 0;
	if (*t == '{') {
		int words = struct_words(t);
		void *memory = stret ? (void *)r->gp[0] : (void *)r->gp[8];
		if (words > 2) {
			memcpy(memory, c->ret.s, 8 * (size_t)words);
			r->gp[0] = (uint64_t)memory;
			return;
		}
		r->gp[0] = c->ret.s[0];
		r->gp[1] = words > 1 ? c->ret.s[1] : 0;
		return;
	}
	if (*t == 'f' || *t == 'd')
		r->fp[0] = *t == 'f' ? (uint32_t)c->ret.q : c->ret.q;
	// Only the low byte of a BOOL result is defined (both ABIs): fill the rest with junk.
	r->gp[0] = *t == 'B' ? 0xa5a5a500u | (c->ret.q & 1) : c->ret.q;
	r->gp[1] = 0xa5a5a5a5a5a5a5a5u;
	if (*t == 'v')
		r->gp[0] = 0xa5a5a5a5a5a5a5a5u;
}

// What a refused message returns: zero in every result register, as a message to nil.
static void zero(ms_regs *r)
{
	r->gp[0] = r->gp[1] = 0;
	r->fp[0] = r->fp[1] = 0;
}

static void unknown(ms_call *c, SEL sel, int newer)
{
	char sign = ms_is_class(c->self) ? '+' : '-';
	if (newer)
		ms_violation("unknown-selector", "%c[%s %s] needs macOS %d.%d, this is %d.%d", sign, c->cls->name, sel,
			     newer / 10000, newer / 100 % 100, ms_cfg.os / 10000, ms_cfg.os / 100 % 100);
	else
		ms_violation("unknown-selector", "%c[%s %s]: unrecognized selector", sign, c->cls->name, sel);
}

// Encoders and MPSGraph may be used by one thread at a time; what NSObject declares (retain,
// release) is safe everywhere.
static void call(ms_call *c, ms_imp imp)
{
	bool alone = !ms_is_class(c->self) && c->cls->exclusive && strcmp(c->decl->cls, "NSObject");
	if (alone && atomic_exchange(&c->self->busy, 1)) {
		ms_violation("thread-unsafe", "-[%s %s] while another thread uses the same object", c->cls->name, c->decl->sel + 1);
		return;
	}
	imp(c);
	if (alone)
		atomic_store(&c->self->busy, 0);
}

void ms_dispatch(ms_regs *r, int stret)
{
	ms_call c = {.self = (id)r->gp[stret ? 1 : 0]};
	SEL sel = (SEL)r->gp[stret ? 2 : 1];
	ms_imp imp;
	int newer = 0;
	ms_count("messages", 1);
	if (!c.self || !check_receiver(&c, sel)) { // a message to nil does nothing and gives zero
		zero(r);
		return;
	}
	if (!ms_sel_known(sel)) {
		ms_violation("bad-selector", "message to a %s: selector %p does not come from sel_registerName",
			     c.cls->name, (const void *)sel);
		zero(r);
		return;
	}
	if (!ms_find(ms_is_class(c.self) ? c.cls->isa : c.cls, sel, &c.decl, &imp, &newer)) {
		unknown(&c, sel, newer);
		zero(r);
		return;
	}
	if (!imp)
		ms_violation("not-implemented", "%c[%s %s] exists on macOS but not in this simulator", c.decl->sel[0],
			     c.cls->name, sel);
	if (!imp || !check_entry(&c, stret) || !check_state(&c) || !decode(&c, r, stret)) {
		zero(r);
		return;
	}
	call(&c, imp);
	own(&c);
	give_back(&c, r, stret);
}
