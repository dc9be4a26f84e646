/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The data path: frames between mbufs and the two rings, each copied once. */
#include <unistd.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_mbuf_dyn.h>
#include <rte_pause.h>

#include "vfun_gate.h"

/* Looks at a gate before who waits at it gives its processor away: some microseconds. */
#define PAUSES 1000
#define NAP_US 20
/*
 * Naps of a burst that sends, before it gives up: who tells of a link in its place takes less
 * than a microsecond, unless it lost its processor meanwhile, on a machine with too much to do.
 */
#define NAPS 1000

/* ---- gates ---------------------------------------------------------- */

/* Waits a little, and longer where the other thread may need this very processor. */
static void look_again(unsigned int looks)
{
	if (looks % PAUSES)
		rte_pause();
	else
		usleep(NAP_US);
}

uint32_t vfun_gate_enter_after_closer(struct vfun_gate *g)
{
	uint32_t inside = VFUN_INSIDE_CLOSER;
	unsigned int looks;

	for (looks = 1; looks <= NAPS * PAUSES && inside == VFUN_INSIDE_CLOSER; looks++) {
		look_again(looks);
		inside = vfun_gate_enter_as(g, VFUN_INSIDE_BURST);
	}
	return inside;
}

void vfun_gate_hold(struct vfun_gate *g)
{
	unsigned int looks = 0;

	while (vfun_gate_enter_as(g, VFUN_INSIDE_CLOSER))
		look_again(++looks);
}

void vfun_gate_wait(struct vfun_gate *g)
{
	unsigned int looks = 0;

	while (__atomic_load_n(&g->busy, __ATOMIC_SEQ_CST))
		look_again(++looks);
}

void vfun_gate_shut(struct vfun_gate *g, uint32_t why)
{
	__atomic_fetch_or(&g->shut, why, __ATOMIC_SEQ_CST);
	vfun_gate_wait(g);
}

void vfun_gate_open(struct vfun_gate *g, uint32_t why)
{
	__atomic_fetch_and(&g->shut, ~why, __ATOMIC_SEQ_CST);
}

/* ---- the end of a direct link --------------------------------------- */

static inline void publish(struct vfun_tx_queue *q)
{
	if (vfun_packet_publish(&q->tx) && vfun_bell_is_there(&q->bell) && vfun_packet_must_ring(&q->tx))
		vfun_ring(&q->bell);
}

/*
 * Whether the switch has had its time for the frames before a turn: since the turn is known,
 * and for those that were there before the link since the link is.
 */
static int is_time_up(struct vfun_direct *l, uint64_t turn, uint64_t fence)
{
	uint64_t now = rte_rdtsc(), since;

	if (turn != l->due) {
		l->due = turn;
		l->due_at = now;
	}
	since = fence <= l->before ? l->made_at : l->due_at;
	return now - since > rte_get_tsc_hz() / 1000 * VFUN_LINKED_SWITCH_KEEPS_MS;
}

/*
 * Tells the receiver of a turn; `gone`: the switch has dropped the frames up to this one. Not
 * by vfun_closer_expire: a later turn may be there meanwhile, whose frames are under way. Inside the gate.
 */
static void close_inside(struct vfun_direct *l, struct vfun_tx_queue *q, uint64_t gone)
{
	if (gone > vfun_closer_reached(&l->closer)) {
		/* Of those before the link nobody saw whether they came out: it may be that all did. */
		l->closer.late += gone > l->before;
		vfun_closer_give_up(&l->closer, gone);
	}
	if (vfun_closer_run(&l->closer, &q->tx))
		publish(q);
}

/*
 * Nobody may send anything to this port, so that its thread that receives looks. The link
 * stays as long as the gate to receive is entered. The other gate is entered only if there is
 * something to tell: a burst that is sent waits meanwhile.
 */
static inline void close_link(struct vfun_direct *l, struct vfun_tx_queue *q)
{
	uint64_t turn = VFUN_PACKET_LOAD_ACQUIRE(l->line.fence + VFUN_LINKED_LAST), fence, gone = 0;
	uint64_t passed = VFUN_PACKET_LOAD(l->line.closer + VFUN_LINKED_PASSED);

	if (likely(turn == passed || passed == VFUN_LINKED_NO_MORE))
		return;
	fence = VFUN_PACKET_LOAD(l->line.fence + VFUN_LINKED_STAMP);
	if (fence > VFUN_PACKET_LOAD(&l->out)) {
		if (!is_time_up(l, turn, fence))
			return;
		gone = fence;
	}
	if (vfun_gate_enter_as(&q->gate, VFUN_INSIDE_CLOSER))
		return;
	if (likely(!__atomic_load_n(&q->gate.shut, __ATOMIC_SEQ_CST)))
		close_inside(l, q, gone);
	VFUN_PACKET_STORE(&l->out, vfun_closer_reached(&l->closer));
	vfun_gate_leave(&q->gate);
}

/* ---- receiving ------------------------------------------------------ */

static inline uint64_t *stamp_of(struct rte_mbuf *m, int stamp_at)
{
	return RTE_MBUF_DYNFIELD(m, stamp_at, uint64_t *);
}

/*
 * Mbufs for the next frames, if there is one, or a forced turn is awaited. Whether to look: without
 * a place a frame stays where it is.
 */
static int refill(struct vfun_rx_queue *q)
{
	if (!vfun_packet_is_there(&q->fence.port) && !q->fence.is_forced)
		return 0;
	if (rte_pktmbuf_alloc_bulk(q->pool, q->spare, VFUN_SPARE)) {
		q->no_mbuf++;
		return 0;
	}
	q->spares = VFUN_SPARE;
	return 1;
}

static uint16_t receive(struct vfun_rx_queue *q, struct rte_mbuf **bufs, uint16_t count)
{
	int stamp_at = q->stamp_at;
	uint16_t done = 0, looks;

	/* Looks are bounded, and not what comes of them: a peer may send nonsense without end. */
	for (looks = 0; looks < count; looks++) {
		const void *from;
		struct rte_mbuf *m;
		uint32_t bytes;
		int more;

		if (!q->spares && !refill(q))
			break;
		from = vfun_fence_next(&q->fence, &bytes, &more);
		if (!from && more)
			continue;
		if (!from)
			break;
		m = q->spare[q->spares - 1];
		if (!vfun_copy_in(q, m, from, bytes)) {
			vfun_fence_refuse(&q->fence, bytes);
			continue;
		}
		/* Also without a link: one may be made while the frame is in the switch. */
		if (stamp_at >= 0)
			*stamp_of(m, stamp_at) = q->fence.stamp;
		bufs[done++] = m;
		q->spares--;
	}
	/* Nobody is rung: a sender never waits for room (R-PKT-6). */
	if (q->fence.port.tail != q->fence.port.told)
		vfun_packet_take(&q->fence.port);
	return done;
}

uint16_t vfun_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_rx_queue *q = queue;
	struct vfun_direct *in;
	uint16_t done;

	if (!vfun_gate_enter(&q->gate))
		return 0;
	done = receive(q, bufs, count);
	in = __atomic_load_n(&q->in, __ATOMIC_ACQUIRE);
	if (unlikely(in != NULL))
		close_link(in, q->out);
	vfun_gate_leave(&q->gate);
	return done;
}

/* ---- sending -------------------------------------------------------- */

static uint16_t put(struct vfun_tx_queue *q, struct rte_mbuf **bufs, uint16_t count)
{
	uint64_t too_long = q->tx.too_long;
	uint16_t done;

	for (done = 0; done < count; done++) {
		unsigned char *to = vfun_packet_put(&q->tx, bufs[done]->pkt_len);

		if (to)
			vfun_copy_out(to, bufs[done]);
		else if (q->tx.too_long != too_long)
			too_long = q->tx.too_long;      /* it would never fit: dropped, counted */
		else
			break;                          /* no room: the caller's to drop */
	}
	return done;
}

/* The same with the link's sender among those who send. */
static __rte_noinline uint16_t put_closing(struct vfun_tx_queue *q, struct vfun_direct *l,
					   struct rte_mbuf **bufs, uint16_t count)
{
	uint64_t too_long = q->tx.too_long;
	uint16_t done;

	for (done = 0; done < count; done++) {
		struct rte_mbuf *m = bufs[done];
		int is_sender = m->port == l->sender;
		unsigned char *to;

		if (is_sender) {
			to = vfun_closer_put(&l->closer, &q->tx, m->pkt_len, *stamp_of(m, q->stamp_at));
		} else {
			vfun_closer_run(&l->closer, &q->tx);
			to = vfun_packet_put(&q->tx, m->pkt_len);
		}
		if (to)
			vfun_copy_out(to, m);
		else if (q->tx.too_long != too_long)
			too_long = q->tx.too_long;
		else if (is_sender)
			/* A caller could try again, when what is behind this frame was told. */
			q->no_room++;
		else
			break;
	}
	vfun_closer_run(&l->closer, &q->tx);
	VFUN_PACKET_STORE(&l->out, vfun_closer_reached(&l->closer));
	return done;
}

uint16_t vfun_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_tx_queue *q = queue;
	struct vfun_direct *in;
	uint16_t done;

	if (!count || !vfun_gate_enter_to_send(&q->gate))
		return 0;
	in = __atomic_load_n(&q->in, __ATOMIC_SEQ_CST);
	done = likely(!in) ? put(q, bufs, count) : put_closing(q, in, bufs, count);
	publish(q);
	vfun_gate_leave(&q->gate);
	rte_pktmbuf_free_bulk(bufs, done);
	return done;
}
