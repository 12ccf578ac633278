// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
// MPSGraphExecutable, and MPSGraph's own compile, run and encode messages.
#include "foundation.h"
#include "program.h"
#include <stdlib.h>
#include <string.h>

typedef struct { struct ms_obj h; ms_program *p; id feeds, targets; uint64_t options; } MPSGraphExecutableObj;

bool ms_shaped_type(id o, ms_shape *s, uint32_t *t);
void ms_commit_and_continue(id mps_command_buffer);

static void executable_dealloc(id o)
{
	MPSGraphExecutableObj *e = (MPSGraphExecutableObj *)o;
	if (!e->p) // its package could not be read
		return;
	pthread_mutex_lock(&ms_gpu_mu);
	bool used = e->p->token->reads > 0;
	pthread_mutex_unlock(&ms_gpu_mu);
	if (used) // a use after free on the GPU's side
		ms_violation("freed-in-flight", "an MPSGraphExecutable was deallocated while a run of it is not known to be complete");
	ms_program_release(e->p);
	ms_release(e->feeds);
	ms_release(e->targets);
}

// ---- compiling ----
// MPSGraph's compiler works on the stack of the thread that asks; macOS gives a thread 512 KiB
// unless told otherwise, on which compilers of this kind have overflowed.
static void need_stack(const char *what)
{
	pthread_attr_t a;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &a))
		return;
	pthread_attr_getstacksize(&a, &size);
	pthread_attr_destroy(&a);
	if (size < (size_t)ms_cfg.stack)
		ms_violation("small-stack", "%s on a thread with %zu KiB of stack", what, size >> 10);
}

// feed_values checks a dictionary {placeholder: MPSGraphShapedType or tensor data}.
static int *feed_values(const char *what, ms_core *k, id feeds, bool *ok)
{
	int64_t n = ms_length(feeds);
	int *v = malloc((size_t)(n + 1) * sizeof *v);
	*ok = true;
	for (int64_t i = 0; i < n; i++) {
		MPSGraphTensorObj *t = (MPSGraphTensorObj *)ms_element(feeds, i, 1);
		id type = ms_element(feeds, i, 0);
		const ms_value *val = ms_tensor_value((id)t);
		ms_shape s;
		uint32_t dt;
		v[i] = t->value;
		if (t->core != k || val->kind != 'p') {
			ms_violation("feed-mismatch", "%s: feed %lld is not a placeholder of this graph", what, (long long)i);
			*ok = false;
			continue;
		}
		if (ms_is_kind(type, "MPSGraphTensorData")) {
			s = ((MPSGraphTensorDataObj *)type)->at.shape;
			dt = ((MPSGraphTensorDataObj *)type)->at.dtype;
		} else if (!ms_shaped_type(type, &s, &dt)) {
			ms_violation("not-implemented", "%s: a feed without a shape", what);
			*ok = false;
			continue;
		}
		if (!ms_same_shape(&s, &val->shape) || dt != val->dtype) {
			ms_violation("feed-mismatch", "%s: feed %lld is %s %s, the placeholder %s %s", what, (long long)i, ms_dtype_name(dt), ms_shape_text(&s),
				     ms_dtype_name(val->dtype), ms_shape_text(&val->shape));
			*ok = false;
		}
	}
	return v;
}

// Errors of a graph are assertions in MPSGraph; here the compile gives nil after recording.
static ms_program *compile(const char *what, MPSGraphObj *g, id feeds, id targets, id operations, int level)
{
	bool ok;
	int *f = feed_values(what, g->core, feeds, &ok);
	int nt = targets ? (int)ms_length(targets) : 0, no = operations ? (int)ms_length(operations) : 0;
	int *t = malloc((size_t)(nt + 1) * sizeof *t), *o = malloc((size_t)(no + 1) * sizeof *o);
	for (int i = 0; i < nt; i++) {
		MPSGraphTensorObj *x = (MPSGraphTensorObj *)ms_element(targets, i, 0);
		t[i] = x->value;
		if (x->core != g->core) {
			ms_violation("wrong-graph", "%s: target %d is a tensor of another graph", what, i);
			ok = false;
		}
	}
	for (int i = 0; i < no; i++)
		o[i] = ((MPSGraphOperationObj *)ms_element(operations, i, 0))->node;
	if (nt + no == 0) {
		ms_violation("mpsgraph-type", "%s: nothing to compute", what);
		ok = false;
	}
	ms_program *p = ok ? ms_compile(what, g->core, f, (int)ms_length(feeds), t, nt, o, no, level) : NULL;
	free(f);
	free(t);
	free(o);
	return p;
}

static id tensors_of(MPSGraphObj *g, const int *v, int n)
{
	id *t = malloc((size_t)(n + 1) * sizeof *t);
	for (int i = 0; i < n; i++)
		t[i] = ms_tensor_object(g, v[i]);
	id a = ms_array(t, n);
	free(t);
	return a;
}
IMP(g_compile)
{
	if (ms_fail(&ms_cfg.fail_graph))
		return;
	ms_crash_at("compile");
	need_stack("compileWithDevice:");
	int level = c->a[4].o ? (int)ms_property(c->a[4].o, "optimizationLevel") : 1;
	MPSGraphObj *g = (MPSGraphObj *)c->self;
	ms_program *p = compile("compileWithDevice:", g, c->a[1].o, c->a[2].o, c->a[3].o, level);
	if (!p)
		return;
	MPSGraphExecutableObj *e = (MPSGraphExecutableObj *)ms_new("MPSGraphExecutable");
	e->p = p;
	e->options = 1;
	e->feeds = tensors_of(g, p->feeds, p->nfeeds);
	e->targets = tensors_of(g, p->targets, p->ntargets);
	ms_count("compiles", 1);
	ms_count(level == 0 ? "compiles_level0" : "compiles_level1", 1);
	ms_return_new(c, (id)e);
}

// ---- encoding ----
static bool overlap(const ms_store_at *a, const ms_store_at *b)
{
	int64_t an = a->offset + a->row * (ms_count_of(&a->shape) / (a->shape.rank ? a->shape.d[a->shape.rank - 1] : 1));
	int64_t bn = b->offset + b->row * (ms_count_of(&b->shape) / (b->shape.rank ? b->shape.d[b->shape.rank - 1] : 1));
	return a->mem->gpu + a->offset < b->mem->gpu + bn && b->mem->gpu + b->offset < a->mem->gpu + an;
}

// matches compares tensor data with what the program wants, in the program's order.
// Order is all that connects an array of data with the feeds, so a mistake shows only when
// shapes or types differ; equal ones give wrong numbers, on a Mac as here.
static bool matches(const ms_program *p, const char *what, id list, const int *values, int n, ms_store_at *at)
{
	if (ms_length(list) != n) {
		ms_violation("feed-mismatch", "%lld %ss, the executable has %d", (long long)ms_length(list), what, n);
		return false;
	}
	for (int i = 0; i < n; i++) {
		at[i] = ((MPSGraphTensorDataObj *)ms_element(list, i, 0))->at;
		const ms_value *v = p->values[values[i]];
		if (!ms_same_shape(&at[i].shape, &v->shape) || at[i].dtype != v->dtype) {
			ms_violation("feed-mismatch", "%s %d is %s %s, want %s %s (order of feedTensors and targetTensors?)", what, i, ms_dtype_name(at[i].dtype),
				     ms_shape_text(&at[i].shape), ms_dtype_name(v->dtype), ms_shape_text(&v->shape));
			return false;
		}
	}
	return true;
}
// MPSGraph may write a result before it has read all feeds.
static bool no_aliases(const ms_graph_state *g)
{
	for (int i = 0; i < g->p->ntargets; i++) {
		for (int j = 0; j < g->p->nfeeds; j++)
			if (overlap(&g->out[i], &g->in[j])) {
				ms_violation("alias", "result %d and feed %d share memory", i, j);
				return false;
			}
		for (int j = 0; j < i; j++)
			if (overlap(&g->out[i], &g->out[j])) {
				ms_violation("alias", "results %d and %d share memory", j, i);
				return false;
			}
	}
	return true;
}

// The engine polls and waits: a block per run would use up purego's 2,000 callbacks.
static void handlers_unsupported(id desc)
{
	if (desc && (ms_descriptor_block(desc, "completionHandler") || ms_descriptor_block(desc, "scheduledHandler")))
		ms_violation("not-implemented", "handlers on an execution descriptor: wait or poll instead");
}

// nodes_a_root is after how many nodes MPSGraph commits the root and goes on in another, in the
// middle of an encode: a nil descriptor allows it, a descriptor or the environment may forbid it.
static int nodes_a_root(id command_buffer, id desc)
{
	bool allowed = !desc || ms_property(desc, "enableCommitAndContinue");
	if (getenv("MPSGRAPH_DISABLE_CC")) // that it exists is enough
		allowed = false;
	if (!ms_cfg.commit_continue || !(allowed || ms_cfg.commit_anyway) || !ms_is_kind(command_buffer, "MPSCommandBuffer"))
		return INT32_MAX;
	return ms_cfg.commit_continue;
}

// section appends nodes from..to to the root of the moment.
static void section(MTLCommandBufferObj *cb, ms_graph_state *st, int from, int to)
{
	ms_program *p = st->p;
	ms_submit_op(cb->sub, ms_graph_section(st, from, to));
	ms_submit_use(cb->sub, p->token, false);
	for (int i = 0; i < p->nfeeds; i++)
		ms_submit_use(cb->sub, st->in[i].mem, false);
	for (int i = 0; to == p->nnodes && i < p->ntargets; i++)
		ms_submit_use(cb->sub, st->out[i].mem, true);
	for (int i = from; i < to; i++)
		cb->sub->flops += p->nodes[i]->flops;
}

// sections appends the whole program, over as many roots as MPSGraph likes.
static void sections(id command_buffer, ms_graph_state *st, int a_root)
{
	int n = st->p->nnodes, from = 0;
	while (n - from > a_root) {
		section((MTLCommandBufferObj *)ms_root(command_buffer), st, from, from + a_root);
		ms_commit_and_continue(command_buffer);
		from += a_root;
	}
	section((MTLCommandBufferObj *)ms_root(command_buffer), st, from, n);
}

// encode appends the program to a command buffer; the results are +1, NULL when refused.
static id encode(ms_program *p, id command_buffer, id inputs, id results, id desc)
{
	MTLCommandBufferObj *cb = ms_encodable(command_buffer, "encodeToCommandBuffer:");
	ms_graph_state *st = ms_graph_state_new(p);
	bool ok = cb && matches(p, "input", inputs, p->feeds, p->nfeeds, st->in);
	if (ok && results) {
		ms_retain(results);
	} else if (ok) {
		id *v = calloc((size_t)p->ntargets + 1, sizeof *v);
		for (int i = 0; i < p->ntargets; i++)
			v[i] = ms_tensor_data_new(cb->queue->device, &p->values[p->targets[i]]->shape, p->values[p->targets[i]]->dtype);
		results = ms_array_owned(v, p->ntargets);
		free(v);
	}
	if (!ok || !matches(p, "result", results, p->targets, p->ntargets, st->out) || !no_aliases(st)) {
		if (ok)
			ms_release(results);
		ms_graph_state_release(st);
		return NULL;
	}
	handlers_unsupported(desc);
	ms_event_use ev[16];
	int nev = ms_descriptor_events(desc, ev, ARRAY_LEN(ev));
	for (int i = 0; i < nev; i++)
		if (!ev[i].signal)
			ms_encode_wait(cb, ev[i].event, ev[i].value);
	sections(command_buffer, st, nodes_a_root(command_buffer, desc));
	ms_graph_state_release(st);
	for (int i = 0; i < nev; i++)
		if (ev[i].signal)
			ms_encode_signal((MTLCommandBufferObj *)ms_root(command_buffer), ev[i].event, ev[i].value);
	ms_count("encodes", 1);
	ms_count("mflops", (int64_t)(p->flops / 1e6));
	return results;
}

// program_of is NULL for an object that is neither compiled nor loaded: alloc and a bare init.
static ms_program *program_of(id executable)
{
	ms_program *p = ((MPSGraphExecutableObj *)executable)->p;
	if (!p)
		ms_violation("uninitialised", "an MPSGraphExecutable that was neither compiled nor loaded from a package");
	return p;
}
static void run(ms_call *c, bool async)
{
	MPSGraphExecutableObj *e = (MPSGraphExecutableObj *)c->self;
	if (!program_of(c->self))
		return;
	id cb = ms_queue_command_buffer(c->a[0].o, false), desc = c->a[3].o;
	id r = cb ? encode(e->p, cb, c->a[1].o, c->a[2].o, desc) : NULL;
	if (r) {
		ms_commit((MTLCommandBufferObj *)cb);
		if (!async || (desc && ms_property(desc, "waitUntilCompleted")))
			ms_wait((MTLCommandBufferObj *)cb);
		ms_return_new(c, r);
	}
	ms_release(cb);
}
IMP(ex_run) { run(c, false); }
IMP(ex_run_async) { run(c, true); }
IMP(ex_encode)
{
	ms_program *p = program_of(c->self);
	ms_crash_at("encode");
	if (p && !ms_specialize(p, true))
		return;
	id r = !p ? NULL : encode(p, c->a[0].o, c->a[1].o, c->a[2].o, c->a[3].o);
	if (r)
		ms_return_new(c, r);
}
IMP(ex_feeds) { ms_return(c, ((MPSGraphExecutableObj *)c->self)->feeds); }
IMP(ex_targets) { ms_return(c, ((MPSGraphExecutableObj *)c->self)->targets); }
IMP(ex_options) { c->ret.q = ((MPSGraphExecutableObj *)c->self)->options; }
IMP(ex_set_options) { ((MPSGraphExecutableObj *)c->self)->options = c->a[0].q; }
// A package holds a portable module: it is compiled when told to be, else in the first encode.
bool ms_specialize(ms_program *p, bool encoding)
{
	if (!p->portable)
		return true;
	ms_crash_at("package");
	need_stack("specializeWithDevice:");
	if (ms_fail(&ms_cfg.fail_graph))
		return false;
	p->portable = false;
	ms_count(encoding ? "compiles_in_encodes" : "specializations", 1);
	return true;
}
// The types are those of the feeds in their order; a wrong one compiles for something else.
IMP(ex_specialize)
{
	ms_program *p = program_of(c->self);
	id types = c->a[1].o;
	if (!p)
		return;
	if (ms_length(types) != p->nfeeds) {
		ms_violation("feed-mismatch", "specialised for %lld feeds, the executable has %d", (long long)ms_length(types), p->nfeeds);
		return;
	}
	for (int i = 0; i < p->nfeeds; i++) {
		const ms_value *v = p->values[p->feeds[i]];
		ms_shape s;
		uint32_t dt;
		if (!ms_shaped_type(ms_element(types, i, 0), &s, &dt) || !ms_same_shape(&s, &v->shape) || dt != v->dtype)
			ms_violation("feed-mismatch", "specialised for another feed %d, want %s %s", i, ms_dtype_name(v->dtype), ms_shape_text(&v->shape));
	}
	ms_specialize(p, false);
}
// A package-loaded executable has no tensors: its feeds and targets are nil.
IMP(ex_load)
{
	ms_program *p = ms_package_read(c->a[0].o);
	if (!p) {
		ms_init_fail(c);
		return;
	}
	MPSGraphExecutableObj *e = (MPSGraphExecutableObj *)ms_init_self(c);
	e->p = p;
	e->options = 1;
	p->level = c->a[1].o ? (int)ms_property(c->a[1].o, "optimizationLevel") : 1;
	ms_count(p->level == 0 ? "compiles_level0" : "compiles_level1", 1);
}
IMP(ex_save)
{
	ms_program *p = program_of(c->self);
	if (p)
		ms_package_write(p, c->a[0].o);
}
static const ms_impl executable_impls[] = {
	{"-initWithMPSGraphPackageAtURL:compilationDescriptor:", ex_load}, {"-serializeToMPSGraphPackageAtURL:descriptor:", ex_save},
	{"-runWithMTLCommandQueue:inputsArray:resultsArray:executionDescriptor:", ex_run},
	{"-runAsyncWithMTLCommandQueue:inputsArray:resultsArray:executionDescriptor:", ex_run_async},
	{"-encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:", ex_encode}, {"-feedTensors", ex_feeds},
	{"-targetTensors", ex_targets}, {"-options", ex_options}, {"-setOptions:", ex_set_options},
	{"-specializeWithDevice:inputTypes:compilationDescriptor:", ex_specialize},
};

// ---- MPSGraph's own runs: compile, encode, results by tensor ----
// Without an executable MPSGraph compiles (and caches) behind the call.
static id graph_encode(ms_call *c, id cb, id feeds, id targets, id operations, id desc)
{
	MPSGraphObj *g = (MPSGraphObj *)c->self;
	id compilation = desc ? (id)ms_property(desc, "compilationDescriptor") : NULL;
	ms_program *p = compile(c->decl->sel + 1, g, feeds, targets, operations, compilation ? (int)ms_property(compilation, "optimizationLevel") : 1);
	if (!p)
		return NULL;
	id *in = calloc((size_t)p->nfeeds + 1, sizeof *in);
	for (int i = 0; i < p->nfeeds; i++)
		in[i] = ms_dictionary_get(feeds, ms_tensor_object(g, p->feeds[i]));
	id inputs = ms_array(in, p->nfeeds), results = encode(p, cb, inputs, NULL, desc), dict = NULL;
	if (results) {
		dict = ms_new("NSDictionary");
		for (int i = 0; i < p->ntargets; i++)
			ms_dictionary_set(dict, ms_tensor_object(g, p->targets[i]), ms_element(results, i, 0));
	}
	ms_release(results);
	ms_release(inputs);
	free(in);
	ms_program_release(p);
	return dict;
}
static void graph_run(ms_call *c, id queue, id feeds, id targets, id operations)
{
	id cb = ms_queue_command_buffer(queue, false);
	id dict = cb ? graph_encode(c, cb, feeds, targets, operations, NULL) : NULL;
	if (dict) {
		ms_commit((MTLCommandBufferObj *)cb);
		ms_wait((MTLCommandBufferObj *)cb);
		ms_return_new(c, dict);
	}
	ms_release(cb);
}
IMP(g_run) { graph_run(c, c->a[0].o, c->a[1].o, c->a[2].o, c->a[3].o); }
IMP(g_encode)
{
	id dict = graph_encode(c, c->a[0].o, c->a[1].o, c->a[2].o, c->a[3].o, c->a[4].o);
	if (dict)
		ms_return_new(c, dict);
}
static const ms_impl graph_impls[] = {
	{"-compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:", g_compile},
	{"-runWithMTLCommandQueue:feeds:targetTensors:targetOperations:", g_run},
	{"-encodeToCommandBuffer:feeds:targetTensors:targetOperations:executionDescriptor:", g_encode},
};

void ms_init_executable(void)
{
	ms_define("MPSGraphExecutable", "NSObject", "", sizeof(MPSGraphExecutableObj), executable_dealloc);
	MS_IMPLEMENT("MPSGraphExecutable", executable_impls);
	MS_IMPLEMENT("MPSGraph", graph_impls);
}
