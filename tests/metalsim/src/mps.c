// SPDX-License-Identifier: Apache-2.0
// MPSCommandBuffer: the kind of command buffer that MPSGraph encodes into.
#include "gpu.h"

typedef struct { struct ms_obj h; id root; } MPSCommandBuffer;

id ms_root(id o) { return ms_is_kind(o, "MPSCommandBuffer") ? ((MPSCommandBuffer *)o)->root : o; }

static void mps_dealloc(id o) { ms_release(((MPSCommandBuffer *)o)->root); }

static void set_root(id o, id root)
{
	((MPSCommandBuffer *)o)->root = root;
	((MTLCommandBufferObj *)root)->inside_mps = true;
}

IMP(mps_from_queue)
{
	id root = ms_queue_command_buffer(c->a[0].o, false);
	if (root)
		set_root(ms_instance(c, "MPSCommandBuffer"), root);
}
IMP(mps_with) { set_root(ms_instance(c, "MPSCommandBuffer"), ms_retain(ms_root(c->a[0].o))); }
IMP(mps_init_with)
{
	id root = ms_retain(ms_root(c->a[0].o));
	set_root(ms_init_self(c), root);
}
IMP(mps_root) { ms_return(c, ms_root(c->self)); }

// commitAndContinue commits the root and goes on in a fresh buffer of the same queue.
void ms_commit_and_continue(id o)
{
	MTLCommandBufferObj *old = (MTLCommandBufferObj *)ms_root(o);
	id next = ms_queue_command_buffer((id)old->queue, false);
	if (!next)
		return;
	ms_commit(old);
	set_root(o, next);
	ms_release((id)old);
}
IMP(mps_commit_continue)
{
	if (ms_encodable(c->self, "commitAndContinue"))
		ms_commit_and_continue(c->self);
}
IMP(mps_prefetch) { (void)c; }
static const ms_impl mps_impls[] = {
	{"+commandBufferFromCommandQueue:", mps_from_queue}, {"+commandBufferWithCommandBuffer:", mps_with},
	{"-initWithCommandBuffer:", mps_init_with}, {"-rootCommandBuffer", mps_root}, {"-commandBuffer", mps_root},
	{"-commitAndContinue", mps_commit_continue}, {"-prefetchHeapForWorkloadSize:", mps_prefetch},
};

void ms_init_mps(void)
{
	ms_define("MPSCommandBuffer", "NSObject", "MTLCommandBuffer", sizeof(MPSCommandBuffer), mps_dealloc);
	MS_IMPLEMENT("MPSCommandBuffer", mps_impls);
}
