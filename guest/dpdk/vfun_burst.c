/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The data path: frames between mbufs and the two rings, each copied once. */
#include <unistd.h>

#include <rte_branch_prediction.h>
#include <rte_memcpy.h>
#include <rte_pause.h>

#include "vfun_eth.h"

/* Looks at a gate before who waits at it gives its processor away: some microseconds. */
#define PAUSES 1000
#define NAP_US 20

/* ---- gates ---------------------------------------------------------- */

static inline void leave(struct vfun_gate *g)
{
	__atomic_store_n(&g->busy, 0, __ATOMIC_RELEASE);
}

/*
 * One side says "busy" and then looks at "shut", the other one the other way round, and
 * both in one order for all: so one of the two sees what the other one said.
 */
static inline int enter(struct vfun_gate *g)
{
	/* Two threads in one queue: a mistake of the application, which is bounded here. */
	if (unlikely(__atomic_exchange_n(&g->busy, 1, __ATOMIC_SEQ_CST)))
		return 0;
	if (likely(!__atomic_load_n(&g->shut, __ATOMIC_SEQ_CST)))
		return 1;
	leave(g);
	return 0;
}

void vfun_gate_shut(struct vfun_gate *g, uint32_t why)
{
	unsigned int looks = 0;

	__atomic_fetch_or(&g->shut, why, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&g->busy, __ATOMIC_SEQ_CST)) {
		/* The burst's thread may need this very processor. */
		if (++looks % PAUSES)
			rte_pause();
		else
			usleep(NAP_US);
	}
}

void vfun_gate_open(struct vfun_gate *g, uint32_t why)
{
	__atomic_fetch_and(&g->shut, ~why, __ATOMIC_SEQ_CST);
}

/* ---- receiving ------------------------------------------------------ */

static uint16_t receive(struct vfun_rx_queue *q, struct rte_mbuf **bufs, uint16_t count)
{
	uint16_t done = 0, looks;

	/* Looks are bounded, and not what comes of them: a peer may send nonsense without end. */
	for (looks = 0; looks < count && vfun_packet_is_there(&q->rx); looks++) {
		const void *from;
		struct rte_mbuf *m;
		uint32_t bytes;

		/* First the place: without one the frame stays where it is. */
		if (!q->spares) {
			if (rte_pktmbuf_alloc_bulk(q->pool, q->spare, VFUN_SPARE)) {
				q->no_mbuf++;
				break;
			}
			q->spares = VFUN_SPARE;
		}
		from = vfun_packet_next(&q->rx, &bytes);
		if (!from)
			break;
		m = q->spare[q->spares - 1];
		if (bytes < RTE_ETHER_HDR_LEN || bytes > q->longest || bytes > rte_pktmbuf_tailroom(m)) {
			vfun_packet_refuse(&q->rx, bytes);
			continue;
		}
		rte_memcpy(rte_pktmbuf_mtod(m, void *), from, bytes);
		m->data_len = (uint16_t)bytes;
		m->pkt_len = bytes;
		m->port = q->port_id;
		bufs[done++] = m;
		q->spares--;
	}
	/* Nobody is rung: a sender never waits for room (R-PKT-6). */
	if (q->rx.tail != q->rx.told)
		vfun_packet_take(&q->rx);
	return done;
}

uint16_t vfun_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_rx_queue *q = queue;
	uint16_t done;

	if (!enter(&q->gate))
		return 0;
	done = receive(q, bufs, count);
	leave(&q->gate);
	return done;
}

/* ---- sending -------------------------------------------------------- */

static void copy_out(unsigned char *to, const struct rte_mbuf *m)
{
	for (; m; m = m->next) {
		rte_memcpy(to, rte_pktmbuf_mtod(m, const void *), m->data_len);
		to += m->data_len;
	}
}

static uint16_t put(struct vfun_tx_queue *q, struct rte_mbuf **bufs, uint16_t count)
{
	uint64_t too_long = q->tx.too_long;
	uint16_t done;

	for (done = 0; done < count; done++) {
		unsigned char *to = vfun_packet_put(&q->tx, bufs[done]->pkt_len);

		if (to)
			copy_out(to, bufs[done]);
		else if (q->tx.too_long != too_long)
			too_long = q->tx.too_long;      /* it would never fit: dropped, counted */
		else
			break;                          /* no room: the caller's to drop */
	}
	return done;
}

uint16_t vfun_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_tx_queue *q = queue;
	uint16_t done;

	if (!count || !enter(&q->gate))
		return 0;
	done = put(q, bufs, count);
	if (vfun_packet_publish(&q->tx) && vfun_bell_is_there(&q->bell) && vfun_packet_must_ring(&q->tx))
		vfun_ring(&q->bell);
	leave(&q->gate);
	rte_pktmbuf_free_bulk(bufs, done);
	return done;
}
