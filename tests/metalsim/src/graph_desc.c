// SPDX-License-Identifier: Apache-2.0
// Descriptors: objects that only carry properties. One getter and one setter serve all of
// them: the property is the selector's name, its storage the table below.
#include "graph.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROPS 24
typedef struct { struct ms_obj h; const struct kind *k; ms_arg v[MAX_PROPS]; ms_event_use ev[16]; int nev; } Desc;

// "name=default": order is storage order. Objects are marked with '@', blocks with '?'.
static const struct kind { const char *cls; const char *props[MAX_PROPS]; } kinds[] = {
	{"MPSGraphConvolution2DOpDescriptor", {"strideInX=1", "strideInY=1", "dilationRateInX=1", "dilationRateInY=1", "groups=1",
		"paddingLeft", "paddingRight", "paddingTop", "paddingBottom", "paddingStyle", "dataLayout", "weightsLayout=2"}},
	{"MPSGraphDepthwiseConvolution2DOpDescriptor", {"strideInX=1", "strideInY=1", "dilationRateInX=1", "dilationRateInY=1",
		"paddingLeft", "paddingRight", "paddingTop", "paddingBottom", "paddingStyle", "dataLayout", "weightsLayout=2"}},
	{"MPSGraphPooling2DOpDescriptor", {"kernelWidth=1", "kernelHeight=1", "strideInX=1", "strideInY=1", "dilationRateInX=1",
		"dilationRateInY=1", "paddingLeft", "paddingRight", "paddingTop", "paddingBottom", "paddingStyle", "dataLayout",
		"returnIndicesMode", "returnIndicesDataType=536870944", "ceilMode", "includeZeroPadToAverage"}},
	// Level1 is the default: it may place work on the neural engine and the CPU.
	{"MPSGraphCompilationDescriptor", {"optimizationLevel=1", "optimizationProfile", "waitForCompilationCompletion",
		"reducedPrecisionFastMath", "@callables", "@dispatchQueue", "?compilationCompletionHandler"}},
	// commitAndContinue is what a nil descriptor has too.
	{"MPSGraphExecutableExecutionDescriptor", {"waitUntilCompleted", "?scheduledHandler", "?completionHandler", "enableCommitAndContinue=1"}},
	{"MPSGraphExecutionDescriptor", {"waitUntilCompleted", "?scheduledHandler", "?completionHandler", "@compilationDescriptor",
		"enableCommitAndContinue=1"}},
	{"MPSGraphExecutableSerializationDescriptor", {"append", "deploymentPlatform", "@minimumDeploymentTarget"}},
	{"MTLCommandBufferDescriptor", {"retainedReferences=1", "errorOptions"}},
};

static const char *bare(const char *p) { return *p == '@' || *p == '?' ? p + 1 : p; }

static int prop(const struct kind *k, const char *name, size_t n)
{
	for (int i = 0; i < MAX_PROPS && k->props[i]; i++) {
		const char *p = bare(k->props[i]);
		if (strcspn(p, "=") == n && !strncmp(p, name, n))
			return i;
	}
	abort(); // registered from the same table
}

static const struct kind *kind_of(const char *cls)
{
	for (int i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kinds[i].cls, cls))
			return &kinds[i];
	abort();
}

// Descriptors are plain values: copying one copies every property.
static void defaults(Desc *d)
{
	d->k = kind_of(d->h.isa->name);
	for (int i = 0; i < MAX_PROPS && d->k->props[i]; i++) {
		const char *eq = strchr(d->k->props[i], '=');
		d->v[i].i = eq ? atoll(eq + 1) : 0;
	}
}
static void desc_dealloc(id o)
{
	Desc *d = (Desc *)o;
	for (int i = 0; i < MAX_PROPS && d->k->props[i]; i++)
		if (*d->k->props[i] == '@')
			ms_release(d->v[i].o);
		else if (*d->k->props[i] == '?')
			ms_block_release(d->v[i].p);
	for (int i = 0; i < d->nev; i++)
		ms_release(d->ev[i].event);
}

IMP(desc_init) { defaults((Desc *)ms_init_self(c)); }
IMP(desc_get)
{
	Desc *d = (Desc *)c->self;
	c->ret = d->v[prop(d->k, c->decl->sel + 1, strlen(c->decl->sel + 1))];
}
IMP(desc_set)
{
	Desc *d = (Desc *)c->self;
	char name[80]; // "-setStrideInX:" -> "strideInX"
	size_t n = strlen(c->decl->sel) - 5;
	memcpy(name, c->decl->sel + 4, n);
	name[0] = (char)tolower(name[0]);
	int i = prop(d->k, name, n);
	if (*d->k->props[i] == '@') {
		ms_retain(c->a[0].o);
		ms_release(d->v[i].o);
	} else if (*d->k->props[i] == '?') {
		ms_block_release(d->v[i].p);
		c->a[0].p = ms_block_copy(c->a[0].p);
	}
	d->v[i] = c->a[0];
}
IMP(desc_padding)
{
	Desc *d = (Desc *)c->self;
	int i = prop(d->k, "paddingLeft", 11);
	for (int k = 0; k < 4; k++)
		d->v[i + k] = c->a[k];
}
IMP(desc_nothing) { (void)c; }
IMP(desc_copy)
{
	Desc *d = (Desc *)c->self, *n = (Desc *)ms_alloc(c->cls, MS_LIVE);
	n->k = d->k;
	for (int i = 0; i < MAX_PROPS && d->k->props[i]; i++) {
		n->v[i] = d->v[i];
		if (*d->k->props[i] == '@')
			ms_retain(n->v[i].o);
		else if (*d->k->props[i] == '?')
			n->v[i].p = ms_block_copy(n->v[i].p);
	}
	ms_return_new(c, (id)n);
}

// Factories set the properties in the order of their arguments; an unusable layout is nil.
static Desc *made(ms_call *c)
{
	Desc *d = (Desc *)ms_instance(c, c->cls->name);
	defaults(d);
	return d;
}
IMP(conv_full)
{
	Desc *d = made(c);
	for (int i = 0; i < 12; i++)
		d->v[i] = c->a[i];
}
IMP(conv_short)
{
	Desc *d = made(c);
	for (int i = 0; i < 5; i++)
		d->v[i] = c->a[i];
	for (int i = 5; i < 8; i++)
		d->v[i + 4] = c->a[i];
}
IMP(pool_full)
{
	Desc *d = made(c);
	for (int i = 0; i < 12; i++)
		d->v[i] = c->a[i];
}
IMP(pool_short)
{
	Desc *d = made(c);
	for (int i = 0; i < 4; i++)
		d->v[i] = c->a[i];
	d->v[10] = c->a[4];
	d->v[11] = c->a[5];
}

int64_t ms_property(id o, const char *name)
{
	Desc *d = (Desc *)o;
	return d->v[prop(d->k, name, strlen(name))].i;
}
void *ms_descriptor_block(id o, const char *name) { return o ? (void *)ms_property(o, name) : NULL; }

// ---- events of execution descriptors ----
static void add_event(ms_call *c, uint64_t value, bool signal)
{
	Desc *d = (Desc *)c->self;
	if (d->nev == ARRAY_LEN(d->ev)) {
		ms_violation("not-implemented", "more than %d events on a descriptor", ARRAY_LEN(d->ev));
		return;
	}
	d->ev[d->nev++] = (ms_event_use){ms_retain(c->a[0].o), value, signal};
}
IMP(desc_wait) { add_event(c, c->a[1].q, false); }
IMP(desc_signal)
{
	if (c->a[1].q != 0) // MPSGraphExecutionStageCompleted is the only stage
		ms_violation("mpsgraph-type", "signalEvent:atExecutionEvent:value: stage %llu", (unsigned long long)c->a[1].q);
	else
		add_event(c, c->a[2].q, true);
}
int ms_descriptor_events(id o, ms_event_use *v, int max)
{
	Desc *d = (Desc *)o;
	int n = d ? d->nev : 0;
	for (int i = 0; i < n && i < max; i++)
		v[i] = d->ev[i];
	return n;
}

static const ms_impl conv_impls[] = {
	{"+descriptorWithStrideInX:strideInY:dilationRateInX:dilationRateInY:groups:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:weightsLayout:", conv_full},
	{"+descriptorWithStrideInX:strideInY:dilationRateInX:dilationRateInY:groups:paddingStyle:dataLayout:weightsLayout:", conv_short},
	{"-setExplicitPaddingWithPaddingLeft:paddingRight:paddingTop:paddingBottom:", desc_padding},
};
static const ms_impl pool_impls[] = {
	{"+descriptorWithKernelWidth:kernelHeight:strideInX:strideInY:dilationRateInX:dilationRateInY:paddingLeft:paddingRight:paddingTop:paddingBottom:paddingStyle:dataLayout:", pool_full},
	{"+descriptorWithKernelWidth:kernelHeight:strideInX:strideInY:paddingStyle:dataLayout:", pool_short},
	{"-setExplicitPaddingWithPaddingLeft:paddingRight:paddingTop:paddingBottom:", desc_padding},
};
static const ms_impl event_impls[] = {{"-waitForEvent:value:", desc_wait}, {"-signalEvent:atExecutionEvent:value:", desc_signal}};
static const ms_impl compilation_impls[] = {{"-disableTypeInference", desc_nothing}, {"-convertLayoutToNHWC", desc_nothing}};

void ms_init_descriptors(void)
{
	for (int k = 0; k < ARRAY_LEN(kinds); k++) {
		const char *cls = kinds[k].cls;
		ms_define(cls, "NSObject", "", sizeof(Desc), desc_dealloc);
		ms_impl common[] = {{"-init", desc_init}, {"-copy", desc_copy}};
		MS_IMPLEMENT(cls, common);
		for (int i = 0; i < MAX_PROPS && kinds[k].props[i]; i++) {
			const char *p = bare(kinds[k].props[i]);
			int n = (int)strcspn(p, "=");
			char get[80], set[80];
			snprintf(get, sizeof get, "-%.*s", n, p);
			snprintf(set, sizeof set, "-set%c%.*s:", toupper(*p), n - 1, p + 1);
			ms_impl pair[] = {{get, desc_get}, {set, desc_set}};
			MS_IMPLEMENT(cls, pair);
		}
	}
	MS_IMPLEMENT("MPSGraphConvolution2DOpDescriptor", conv_impls);
	MS_IMPLEMENT("MPSGraphPooling2DOpDescriptor", pool_impls);
	MS_IMPLEMENT("MPSGraphExecutableExecutionDescriptor", event_impls);
	MS_IMPLEMENT("MPSGraphExecutionDescriptor", event_impls);
	MS_IMPLEMENT("MPSGraphCompilationDescriptor", compilation_impls);
}
