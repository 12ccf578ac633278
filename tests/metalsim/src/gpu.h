// SPDX-License-Identifier: Apache-2.0
// The simulated GPU: memory, queues, command buffers and what they hold.
#pragma once
#include "foundation.h"

// One lock and one condition guard the state that CPU and workers share: status of command
// buffers, event values, uses of memory.
extern pthread_mutex_t ms_gpu_mu;
extern pthread_cond_t ms_gpu_cond;

// ---- vector clocks: what each queue knows to be done, see race.c ----
#define MS_SLOTS 32
typedef struct { int64_t c[MS_SLOTS]; } ms_clock;

// ---- memory: two views of the same pages, so that the CPU's can be taken away ----
typedef struct ms_mem {
	_Atomic int refs;
	uint8_t *cpu, *gpu; // equal for memory that the caller owns (no copy)
	int64_t len, mapped;
	bool foreign;
	int reads, writes; // committed uses whose completion the CPU has not observed yet
	int unretained;    // of these, by command buffers that do not retain
	int slot;          // in the fault handler's table, -1 = none
	int write_slot;    // queue that wrote last, with its number
	int64_t write_seq;
	ms_clock read_seq; // last read of each queue
} ms_mem;
ms_mem *ms_mem_new(int64_t len);
ms_mem *ms_mem_foreign(void *p, int64_t len);
ms_mem *ms_mem_retain(ms_mem *);
void ms_mem_release(ms_mem *);
void ms_mem_protect(ms_mem *); // after a change of reads/writes, ms_gpu_mu held

// ---- buffers and events ----
typedef struct { struct ms_obj h; ms_mem *mem; id device, label; uint64_t options; void *deallocator; } MTLBufferObj;
typedef struct ms_signal { struct ms_signal *next; uint64_t value; struct ms_submit *sub; int op; } ms_signal;
typedef struct { struct ms_obj h; id label; bool shared; uint64_t value; ms_signal *signals; ms_clock clock; } MTLEventObj;
ms_mem *ms_buffer_mem(id buffer);
int64_t ms_live_bytes(void);

// ---- commands ----
struct ms_submit;
typedef struct ms_op {
	struct ms_op *next;
	void (*run)(struct ms_op *, struct ms_submit *); // on the worker
	void (*destroy)(struct ms_op *);
	int index;
} ms_op;

typedef struct { ms_mem *mem; bool write; int op; bool done; } ms_use;

// What a command buffer holds; outlives the MTLCommandBuffer object until its completion
// has been observed by the CPU.
typedef struct ms_submit {
	int refs;
	ms_op *first, *last;
	int nops;
	ms_use *uses;
	int nuses, cap;
	double flops, bytes; // estimate, for the watchdog
	bool unretained, observed, fails, failed; // fails: decided when it is committed
	char error[256];
	int64_t error_code;
	struct ms_submit *prev_in_queue; // committed before this one on the same queue
	int slot;                        // of its queue
	int64_t seq;
	ms_clock clock;
} ms_submit;

int ms_race_slot(void);
void ms_race_commit(ms_submit *, int slot);           // ms_gpu_mu held
void ms_race_begin(ms_submit *, ms_clock *queue);
void ms_race_uses(ms_submit *, int op);
void ms_race_observe(const ms_submit *);              // ms_gpu_mu held
void ms_clock_merge(ms_clock *to, const ms_clock *from);
const ms_clock *ms_race_cpu(void);

void ms_submit_op(ms_submit *, ms_op *);
void ms_submit_use(ms_submit *, ms_mem *, bool write); // by the last op
void ms_submit_fail(ms_submit *, int64_t code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void ms_submit_unref(ms_submit *);                 // ms_gpu_mu held
void ms_observe(ms_submit *, int upto_op);         // ms_gpu_mu held: completion is known to the CPU
void ms_event_observe(MTLEventObj *, uint64_t value); // ms_gpu_mu held

typedef struct {
	struct ms_obj h;
	id device, label;
	int64_t max, open; // command buffers that exist and are not completed
	int64_t committed; // of these
	struct cb *head, *tail;
	ms_submit *last_submit;
	pthread_t worker;
	bool started, quit;
	int slot;
	ms_clock clock;
} MTLQueueObj;

typedef struct cb {
	struct ms_obj h;
	MTLQueueObj *queue;
	id label, encoder, error; // encoder: the open one, not retained
	ms_submit *sub;
	_Atomic uint64_t status;
	double start, end;
	void *handlers[16];
	int nhandlers, nscheduled; // scheduled handlers first
	struct cb *next;
	bool counted, finished;
	bool inside_mps; // the root of an MPSCommandBuffer: may be committed underneath
} MTLCommandBufferObj;

// ms_encodable: NULL unless commands may be added now (not committed, no open encoder).
MTLCommandBufferObj *ms_encodable(id command_buffer, const char *what);
id ms_queue_command_buffer(id queue, bool unretained); // +1
void ms_commit(MTLCommandBufferObj *);
void ms_wait(MTLCommandBufferObj *);
id ms_root(id command_buffer); // of an MPSCommandBuffer, else itself
double ms_now(void);
void ms_encode_wait(MTLCommandBufferObj *, id event, uint64_t value);
void ms_encode_signal(MTLCommandBufferObj *, id event, uint64_t value);

void ms_init_command(void);
void ms_init_events(void);
id ms_device(void); // borrowed
id ms_compute_encoder(MTLCommandBufferObj *);
id ms_blit_encoder(MTLCommandBufferObj *);

// ---- kernels ----
#define MS_MAX_BUFFERS 31
typedef struct { void *buf[MS_MAX_BUFFERS]; int64_t len[MS_MAX_BUFFERS]; uint64_t grid[3], group[3]; } ms_kernel_args;
typedef void (*ms_kernel)(const ms_kernel_args *);
typedef struct { char name[64]; uint32_t buffers, read_only; ms_kernel run; } ms_function; // bit masks of indices
ms_kernel ms_twin(const char *name);
typedef struct { struct ms_obj h; ms_function f; id label; } MTLPipelineObj;
typedef struct { struct ms_obj h; ms_function f; } MTLFunctionObj;
bool ms_parse_kernels(const char *source, ms_function *f, int *n, int max, char *err, size_t errn);
