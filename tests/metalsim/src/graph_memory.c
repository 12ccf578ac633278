// SPDX-License-Identifier: Apache-2.0
// MPSGraph itself, placeholders, constants, variables, MPSGraphTensor, MPSGraphOperation.
#include "graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void graph_dealloc(id o)
{
	MPSGraphObj *g = (MPSGraphObj *)o;
	for (int i = 0; i < g->core->nvalues; i++) {
		ms_release(g->core->values[i]->object);
		g->core->values[i]->object = NULL;
	}
	for (int i = 0; i < g->core->nnodes; i++) {
		ms_release(g->core->nodes[i]->object);
		g->core->nodes[i]->object = NULL;
	}
	ms_core_release(g->core);
}
static void tensor_dealloc(id o) { ms_core_release(((MPSGraphTensorObj *)o)->core); }
static void operation_dealloc(id o) { ms_core_release(((MPSGraphOperationObj *)o)->core); }

IMP(graph_init)
{
	MPSGraphObj *g = (MPSGraphObj *)ms_init_self(c);
	g->core = calloc(1, sizeof *g->core);
	g->core->refs = 1;
	g->options = 1;
	ms_count("graphs", 1);
}
IMP(graph_options) { c->ret.q = ((MPSGraphObj *)c->self)->options; }
IMP(graph_set_options) { ((MPSGraphObj *)c->self)->options = c->a[0].q; }
IMP(graph_placeholders)
{
	MPSGraphObj *g = (MPSGraphObj *)c->self;
	id a = ms_array(NULL, 0), all[4096];
	int n = 0;
	for (int i = 0; i < g->core->nvalues && n < 4096; i++)
		if (g->core->values[i]->kind == 'p')
			all[n++] = ms_tensor_object(g, i);
	ms_release(a);
	ms_return_new(c, ms_array(all, n));
}

// ---- placeholders ----
// The engine compiles one executable per shape: -1 dimensions are not needed.
static void placeholder(ms_call *c, id shape, uint32_t dtype)
{
	ms_builder b = ms_begin(c);
	ms_shape s;
	if (!shape || !ms_shape_from(shape, &s)) {
		ms_reject(&b, "not-implemented", "the simulator wants a static shape for a placeholder");
	} else {
		int v = ms_output(&b, &s, dtype);
		if (v >= 0)
			b.core->values[v]->kind = 'p';
	}
	ms_finish(&b, NULL);
}
IMP(g_placeholder) { placeholder(c, c->a[0].o, (uint32_t)c->a[1].q); }
IMP(g_placeholder_f32) { placeholder(c, c->a[0].o, MS_F32); }

// ---- constants ----
static void keep(ms_builder *b, int v, char kind, ms_buf *data)
{
	if (v >= 0) {
		b->core->values[v]->kind = kind;
		b->core->values[v]->data = data;
	} else {
		ms_buf_release(data);
	}
}
static void from_data(ms_call *c, char kind)
{
	ms_builder b = ms_begin(c);
	uint32_t t = (uint32_t)c->a[2].q;
	ms_shape s;
	if (!ms_shape_from(c->a[1].o, &s))
		ms_reject(&b, "mpsgraph-shape", "shape must be integers");
	int v = ms_output(&b, &s, t);
	int64_t want = v < 0 ? 0 : ms_count_of(&s) * ms_dtype_size(t), got = ms_data_length(c->a[0].o);
	// The length "should be sizeof(type) * count": MPSGraph asserts.
	if (v >= 0 && want != got)
		ms_reject(&b, "byte-count", "NSData of %lld bytes for %s of %s, want %lld", (long long)got, ms_dtype_name(t), ms_shape_text(&s), (long long)want);
	if (!b.bad) {
		ms_buf *data = ms_buf_new(ms_count_of(&s), ms_is_float(t));
		ms_load(ms_data_bytes(c->a[0].o), t, data->n, data->p);
		keep(&b, v, kind, data);
		ms_count(kind == 'c' ? "bytes_constant" : "bytes_variable", got); // MPSGraph copies them
	}
	ms_finish(&b, NULL);
}
IMP(g_constant) { from_data(c, 'c'); }
IMP(g_variable) { from_data(c, 'v'); }

// The scalar is a double whatever the type; it is rounded like any value of that type.
static void scalar(ms_call *c, id shape, uint32_t t)
{
	ms_builder b = ms_begin(c);
	ms_shape s = {0};
	if (shape && !ms_shape_from(shape, &s))
		ms_reject(&b, "mpsgraph-shape", "shape must be integers");
	int v = ms_output(&b, &s, t);
	if (v >= 0) {
		ms_buf *data = ms_buf_new(ms_count_of(&s), ms_is_float(t));
		double x = c->a[0].d;
		for (int64_t i = 0; i < data->n; i++)
			if (ms_is_float(t))
				((float *)data->p)[i] = (float)x;
			else
				((int64_t *)data->p)[i] = t == MS_BOOL ? x != 0 : (int64_t)x;
		if (ms_is_float(t))
			ms_round_to(t, data->p, data->n);
		keep(&b, v, 'c', data);
	}
	ms_finish(&b, NULL);
}
IMP(g_scalar) { scalar(c, NULL, (uint32_t)c->a[1].q); }
IMP(g_scalar_shape) { scalar(c, c->a[1].o, (uint32_t)c->a[2].q); }

// ---- variables ----
static void eval_identity(const ms_node *n, ms_val **in, ms_val **out)
{
	(void)n;
	out[0]->buf = ms_buf_retain(in[0]->buf);
	out[0]->p = in[0]->p;
}
IMP(g_read)
{
	ms_builder b = ms_begin(c);
	const ms_value *v = ms_input(&b, c->a[0].o);
	if (v->kind != 'v')
		ms_reject(&b, "mpsgraph-type", "the tensor is not a variable");
	b.n->view = true;
	ms_output(&b, &v->shape, v->dtype);
	ms_finish(&b, eval_identity);
}
IMP(g_identity)
{
	ms_builder b = ms_begin(c);
	const ms_value *v = ms_input(&b, c->a[0].o);
	b.n->view = true;
	ms_output(&b, &v->shape, v->dtype);
	ms_finish(&b, eval_identity);
}
static void eval_assign(const ms_node *n, ms_val **in, ms_val **out) { (void)n, (void)in, (void)out; }
// Assigning is an operation without a result; it happens only as a targetOperation.
IMP(g_assign)
{
	ms_builder b = ms_begin(c);
	const ms_value *var = ms_tensor_value(c->a[0].o), *v = ms_input(&b, c->a[1].o);
	if (var->kind != 'v')
		ms_reject(&b, "mpsgraph-type", "the tensor is not a variable");
	else if (!ms_same_shape(&var->shape, &v->shape) || var->dtype != v->dtype)
		ms_reject(&b, "mpsgraph-shape", "assign %s %s to a variable of %s %s", ms_dtype_name(v->dtype), ms_shape_text(&v->shape),
			  ms_dtype_name(var->dtype), ms_shape_text(&var->shape));
	b.n->assigns = ((MPSGraphTensorObj *)c->a[0].o)->value;
	ms_finish_operation(&b, eval_assign);
}

// ---- tensors and operations ----
static MPSGraphTensorObj *tensor(ms_call *c) { return (MPSGraphTensorObj *)c->self; }
IMP(t_shape) { ms_return_new(c, ms_shape_array(&ms_tensor_value(c->self)->shape)); }
IMP(t_dtype) { c->ret.q = ms_tensor_value(c->self)->dtype; }
// Operations are made when asked for: most graphs never are.
IMP(t_operation)
{
	MPSGraphTensorObj *t = tensor(c);
	ms_node *n = t->core->nodes[t->core->values[t->value]->node];
	if (!n->object && t->core->values[t->value]->object) { // the graph is alive
		MPSGraphObj tmp = {.core = t->core};
		ms_operation(&tmp, t->core->values[t->value]->node);
		((MPSGraphOperationObj *)n->object)->graph = NULL;
	}
	ms_return(c, n->object);
}
static void values_of(ms_call *c, bool inputs)
{
	MPSGraphOperationObj *o = (MPSGraphOperationObj *)c->self;
	ms_node *n = o->core->nodes[o->node];
	MPSGraphObj tmp = {.core = o->core};
	id v[256];
	int count = inputs ? n->nin : n->nout;
	for (int i = 0; i < count; i++)
		v[i] = ms_tensor_object(&tmp, inputs ? n->in[i] : n->out[i]);
	ms_return_new(c, ms_array(v, count));
}
IMP(o_inputs) { values_of(c, true); }
IMP(o_outputs) { values_of(c, false); }
IMP(o_graph) { ms_return(c, ((MPSGraphOperationObj *)c->self)->graph); }
IMP(o_name) { ms_return_new(c, ms_string(((MPSGraphOperationObj *)c->self)->core->nodes[((MPSGraphOperationObj *)c->self)->node]->op)); }

static const ms_impl graph_impls[] = {
	{"-init", graph_init}, {"-options", graph_options}, {"-setOptions:", graph_set_options},
	{"-placeholderTensors", graph_placeholders}, {"-placeholderWithShape:dataType:name:", g_placeholder},
	{"-placeholderWithShape:name:", g_placeholder_f32}, {"-constantWithData:shape:dataType:", g_constant},
	{"-constantWithScalar:dataType:", g_scalar}, {"-constantWithScalar:shape:dataType:", g_scalar_shape},
	{"-variableWithData:shape:dataType:name:", g_variable}, {"-readVariable:name:", g_read},
	{"-assignVariable:withValueOfTensor:name:", g_assign}, {"-identityWithTensor:name:", g_identity},
};
static const ms_impl tensor_impls[] = {{"-shape", t_shape}, {"-dataType", t_dtype}, {"-operation", t_operation}};
static const ms_impl operation_impls[] = {
	{"-inputTensors", o_inputs}, {"-outputTensors", o_outputs}, {"-graph", o_graph}, {"-name", o_name},
};

void ms_init_graph_memory(void)
{
	ms_define("MPSGraph", "MPSGraphObject", "", sizeof(MPSGraphObj), graph_dealloc);
	ms_define("MPSGraphTensor", "MPSGraphObject", "", sizeof(MPSGraphTensorObj), tensor_dealloc);
	ms_define("MPSGraphOperation", "MPSGraphObject", "", sizeof(MPSGraphOperationObj), operation_dealloc);
	ms_exclusive("MPSGraph");
	ms_unavailable("MPSGraphTensor");
	ms_unavailable("MPSGraphOperation");
	MS_IMPLEMENT("MPSGraph", graph_impls);
	MS_IMPLEMENT("MPSGraphTensor", tensor_impls);
	MS_IMPLEMENT("MPSGraphOperation", operation_impls);
}

void ms_init_graph(void)
{
	ms_init_graph_memory();
	ms_init_descriptors();
	ms_init_tensor_data();
	ms_init_executable();
	ms_init_elementwise();
	ms_init_reduce();
	ms_init_shape_ops();
	ms_init_slice_ops();
	ms_init_index_ops();
	ms_init_sort_ops();
	ms_init_matmul();
	ms_init_conv();
	ms_init_pool();
	ms_init_resize();
	ms_init_norm();
}
