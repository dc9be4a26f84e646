/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What bursts of all kinds have in common: the gate of their queue, and frames that are copied. */
#ifndef VFUN_GATE_H
#define VFUN_GATE_H

#include <rte_branch_prediction.h>
#include <rte_memcpy.h>

#include "vfun_eth.h"

static inline void vfun_gate_leave(struct vfun_gate *g)
{
	__atomic_store_n(&g->busy, 0, __ATOMIC_RELEASE);
}

/*
 * One side says "busy" and then looks at "shut", the other one the other way round, and
 * both in one order for all: so one of the two sees what the other one said.
 */
static inline int vfun_gate_enter(struct vfun_gate *g)
{
	/* Two threads in one queue: a mistake of the application, which is bounded here. */
	if (unlikely(__atomic_exchange_n(&g->busy, 1, __ATOMIC_SEQ_CST)))
		return 0;
	if (likely(!__atomic_load_n(&g->shut, __ATOMIC_SEQ_CST)))
		return 1;
	vfun_gate_leave(g);
	return 0;
}

/* The gate to send has two who enter. Who is inside already; 0: this one is. */
static inline uint32_t vfun_gate_enter_as(struct vfun_gate *g, uint32_t who)
{
	uint32_t inside = 0;

	__atomic_compare_exchange_n(&g->busy, &inside, who, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return inside;
}

/* As that with a burst, which must not give up for a closer: its frames would be lost. */
uint32_t vfun_gate_enter_after_closer(struct vfun_gate *g);

static inline int vfun_gate_enter_to_send(struct vfun_gate *g)
{
	uint32_t inside = vfun_gate_enter_as(g, VFUN_INSIDE_BURST);

	if (unlikely(inside == VFUN_INSIDE_CLOSER))
		inside = vfun_gate_enter_after_closer(g);
	if (unlikely(inside))
		return 0;
	if (likely(!__atomic_load_n(&g->shut, __ATOMIC_SEQ_CST)))
		return 1;
	vfun_gate_leave(g);
	return 0;
}

static __rte_always_inline void vfun_copy_out(unsigned char *to, const struct rte_mbuf *m)
{
	for (; m; m = m->next) {
		rte_memcpy(to, rte_pktmbuf_mtod(m, const void *), m->data_len);
		to += m->data_len;
	}
}

/* A frame that came, into an mbuf of its own; 0: it is shorter or longer than any that is taken. */
static __rte_always_inline int vfun_copy_in(const struct vfun_rx_queue *q, struct rte_mbuf *m,
					    const void *from, uint32_t bytes)
{
	if (bytes < RTE_ETHER_HDR_LEN || bytes > q->longest || bytes > rte_pktmbuf_tailroom(m))
		return 0;
	rte_memcpy(rte_pktmbuf_mtod(m, void *), from, bytes);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	m->port = q->port_id;
	return 1;
}

#endif
