// SPDX-License-Identifier: Apache-2.0
// Races between queues. Metal orders the command buffers of one queue; between queues only
// an MTLEvent or the CPU does (it waits for one, then commits the other). Every queue, event
// and the CPU carry a vector clock of what they know to be done; a use of memory that
// another queue wrote or reads without that knowledge is reported, whichever ran first.
#include "gpu.h"
#include <string.h>

static int64_t slot_seq[MS_SLOTS]; // of the last committed submission
static int next_slot;
static ms_clock cpu;

void ms_clock_merge(ms_clock *to, const ms_clock *from)
{
	for (int i = 0; i < MS_SLOTS; i++)
		if (from->c[i] > to->c[i])
			to->c[i] = from->c[i];
}

// Slots are given round and round; their numbers only grow, so a queue that is gone cannot
// be taken for its successor's past.
int ms_race_slot(void)
{
	pthread_mutex_lock(&ms_gpu_mu);
	int s = next_slot++ % MS_SLOTS;
	pthread_mutex_unlock(&ms_gpu_mu);
	return s;
}

void ms_race_commit(ms_submit *s, int slot)
{
	s->slot = slot;
	s->seq = ++slot_seq[slot];
	s->clock = cpu;
}

// A submission starts from what its queue knew and what the CPU knew when it committed.
void ms_race_begin(ms_submit *s, ms_clock *queue)
{
	pthread_mutex_lock(&ms_gpu_mu);
	ms_clock_merge(queue, &s->clock);
	queue->c[s->slot] = s->seq;
	s->clock = *queue;
	pthread_mutex_unlock(&ms_gpu_mu);
}

void ms_race_observe(const ms_submit *s) { ms_clock_merge(&cpu, &s->clock); }
const ms_clock *ms_race_cpu(void) { return &cpu; }

static void conflict(const ms_submit *s, const ms_use *u, int other, const char *what)
{
	ms_violation("gpu-race", "queue %d %s %lld bytes that queue %d %s, and no event or wait orders them", s->slot,
		     u->write ? "writes" : "reads", (long long)u->mem->len, other, what);
}

// ms_race_uses checks the uses of one op just before it runs.
void ms_race_uses(ms_submit *s, int op)
{
	pthread_mutex_lock(&ms_gpu_mu);
	for (int i = 0; i < s->nuses; i++) {
		ms_use *u = &s->uses[i];
		ms_mem *m = u->mem;
		if (u->op != op)
			continue;
		if (m->write_slot != s->slot && m->write_seq > s->clock.c[m->write_slot])
			conflict(s, u, m->write_slot, "writes");
		for (int q = 0; u->write && q < MS_SLOTS; q++)
			if (q != s->slot && m->read_seq.c[q] > s->clock.c[q])
				conflict(s, u, q, "reads");
		if (u->write) {
			m->write_slot = s->slot;
			m->write_seq = s->seq;
		} else {
			m->read_seq.c[s->slot] = s->seq;
		}
	}
	pthread_mutex_unlock(&ms_gpu_mu);
}
