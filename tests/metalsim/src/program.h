// SPDX-License-Identifier: Apache-2.0
// A compiled graph: what an executable runs.
#pragma once
#include "graph.h"

typedef struct {
	_Atomic int refs;
	ms_core *core;
	ms_node **nodes; // in order
	int nnodes;
	int *feeds, *targets; // values
	int nfeeds, ntargets;
	ms_value **values; // copies of the core's pointers, which may move while the graph grows
	int nvalues;
	int *last_use; // node index after which a value is dead
	double flops;
	ms_mem *token; // stands for the program among the uses of a command buffer
	int level;     // optimizationLevel
	bool portable; // of a package, and not yet compiled for the device
} ms_program;

ms_program *ms_compile(const char *what, ms_core *core, int *feeds, int nfeeds, int *targets, int ntargets, const int *ops, int nops, int level);
void ms_program_release(ms_program *);
void ms_record(const ms_program *); // what metalsim_program tells
void ms_package_write(ms_program *, id url);
ms_program *ms_package_read(id url); // NULL after a violation
bool ms_specialize(ms_program *, bool encoding); // false when compiling fails

// One run. MPSGraph may spread it over several command buffers: a section is what one of them
// holds, and they share the values.
typedef struct {
	_Atomic int refs;
	ms_program *p;
	ms_store_at *in, *out; // mems are kept by the submissions
	ms_val *vals;
	int done; // nodes evaluated
} ms_graph_state;
typedef struct { ms_op op; ms_graph_state *state; int from, to; } ms_graph_op;
ms_graph_state *ms_graph_state_new(ms_program *);
void ms_graph_state_release(ms_graph_state *);
ms_op *ms_graph_section(ms_graph_state *, int from, int to);
void ms_graph_run(ms_op *, ms_submit *);
