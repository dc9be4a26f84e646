/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A port of the VM in which this program runs: its ends are those of a VM, which send and
 * receive over direct links as well (section 18 of docs/protocol.md). How frames go over is in
 * vfun_link_ring.h; here are the bursts, and links that come and go.
 */
#include "vfun.h"
#include "vfun_gate.h"

/* ---- bells ---------------------------------------------------------- */

/* Whom to ring, as vfun_linked_tx_must_ring says it. */
static void ring(const struct vfun_bell *bell, int who)
{
	if (who & VFUN_LINKED_RING_PORT)
		vfun_ring(bell);
	if (who & VFUN_LINKED_RING_LINK)
		vfun_vm_ring_link(bell->vm);
}

/* ---- receiving ------------------------------------------------------ */

/* As of a fence: whether to look. A turn may be due though there is no frame. */
static int refill(struct vfun_rx_queue *q)
{
	if (!vfun_linked_rx_is_there(&q->linked))
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
	struct vfun_linked_rx *l = &q->linked;
	uint16_t done = 0, looks;

	/* Looks are bounded, and not what comes of them: a peer may send nonsense without end. */
	for (looks = 0; looks < count; looks++) {
		const void *from;
		struct rte_mbuf *m;
		uint32_t bytes;
		int more;

		if (!q->spares && !refill(q))
			break;
		from = vfun_linked_rx_next(l, &bytes, &more);
		if (!from && more)
			continue;
		if (!from)
			break;
		m = q->spare[q->spares - 1];
		if (!vfun_copy_in(q, m, from, bytes)) {
			vfun_linked_rx_refuse(l, bytes);
			continue;
		}
		bufs[done++] = m;
		q->spares--;
	}
	if (l->port.tail != l->port.told || (l->has_link && l->link.tail != l->link.told))
		vfun_linked_rx_take(l);
	return done;
}

/* For who is not inside of the gate to send. */
static inline void note(struct vfun_tx_queue *q)
{
	VFUN_PACKET_STORE(&q->seen, q->linked.seen);
	VFUN_PACKET_STORE(&q->is_due, q->linked.path == VFUN_LINKED_DUE);
}

/*
 * Nobody may send anything, so that the thread that receives looks whether to turn. The rings
 * stay as long as the gate to receive is entered.
 */
static inline void look_at_turn(struct vfun_tx_queue *q)
{
	const uint64_t *theirs = q->linked.port.theirs;

	if (likely(VFUN_PACKET_LOAD(theirs + VFUN_LINKED_TURN) == VFUN_PACKET_LOAD(&q->seen) &&
		   !VFUN_PACKET_LOAD(&q->is_due)))
		return;
	if (vfun_gate_enter_as(&q->gate, VFUN_INSIDE_CLOSER))
		return;
	if (likely(!__atomic_load_n(&q->gate.shut, __ATOMIC_SEQ_CST)) && vfun_linked_tx_look(&q->linked))
		ring(&q->bell, vfun_linked_tx_must_ring(&q->linked));
	note(q);
	vfun_gate_leave(&q->gate);
}

uint16_t vfun_linked_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_rx_queue *q = queue;
	uint16_t done;

	if (!vfun_gate_enter(&q->gate))
		return 0;
	done = receive(q, bufs, count);
	look_at_turn(q->out);
	vfun_gate_leave(&q->gate);
	return done;
}

/* ---- sending -------------------------------------------------------- */

/* Frames that were too long, by either ring. */
static inline uint64_t too_long(const struct vfun_linked_tx *l)
{
	return l->port.too_long + (l->has_link ? l->link.too_long : 0);
}

uint16_t vfun_linked_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_tx_queue *q = queue;
	struct vfun_linked_tx *l = &q->linked;
	uint64_t before;
	uint16_t done;

	if (!count || !vfun_gate_enter_to_send(&q->gate))
		return 0;
	before = too_long(l);
	for (done = 0; done < count; done++) {
		unsigned char *to = vfun_linked_tx_put(l, bufs[done]->pkt_len);

		if (to)
			vfun_copy_out(to, bufs[done]);
		else if (too_long(l) != before)
			before = too_long(l);   /* it would never fit: dropped, counted */
		else
			break;                  /* no room: the caller's to drop */
	}
	if (vfun_linked_tx_publish(l))
		ring(&q->bell, vfun_linked_tx_must_ring(l));
	note(q);
	vfun_gate_leave(&q->gate);
	rte_pktmbuf_free_bulk(bufs, done);
	return done;
}

/* ---- counts --------------------------------------------------------- */

/* What stands in the links that are used. */
static void count_links(const struct vfun_eth *v, struct vfun_counts *c)
{
	const struct vfun_linked_rx *in = &v->rxq.linked;
	const struct vfun_linked_tx *out = &v->txq.linked;

	*c = (struct vfun_counts){ .n = { 0 } };
	if (in->has_link) {
		c->n[VFUN_IPACKETS] = c->n[VFUN_DIRECT_IPACKETS] = in->link.taken;
		c->n[VFUN_IBYTES] = c->n[VFUN_DIRECT_IBYTES] = in->link.taken_bytes;
		c->n[VFUN_IERRORS] = in->link.bad + in->link.refused;
	}
	if (out->has_link) {
		c->n[VFUN_OPACKETS] = c->n[VFUN_DIRECT_OPACKETS] = out->link.sent;
		c->n[VFUN_OBYTES] = c->n[VFUN_DIRECT_OBYTES] = out->link.sent_bytes;
		c->n[VFUN_OERRORS] = out->link.too_long;
	}
}

/* What this device did over links. */
static void count_linked(const struct vfun_eth *v, struct vfun_counts *c)
{
	unsigned int i;

	count_links(v, c);
	for (i = 0; i < VFUN_COUNTS; i++)
		c->n[i] += v->past_linked.n[i] - v->begun_linked.n[i];
}

void vfun_linked_count(const struct vfun_eth *v, struct vfun_counts *c)
{
	uint64_t no_mbuf = c->n[VFUN_NO_MBUF];

	count_linked(v, c);
	c->n[VFUN_IPACKETS] += v->rxq.linked.port.taken;
	c->n[VFUN_IBYTES] += v->rxq.linked.port.taken_bytes;
	c->n[VFUN_IERRORS] += v->rxq.linked.port.bad + v->rxq.linked.port.refused;
	c->n[VFUN_NO_MBUF] = no_mbuf;
	c->n[VFUN_OPACKETS] += v->txq.linked.port.sent;
	c->n[VFUN_OBYTES] += v->txq.linked.port.sent_bytes;
	c->n[VFUN_OERRORS] += v->txq.linked.port.too_long;
}

/* The counts of one way: those of the other one go on meanwhile, in another thread. */
#define OF_A_WAY 4
static const unsigned int COUNTS_OF[2][OF_A_WAY] = {
	[VFUN_LINK_WAY_OUT] = { VFUN_OPACKETS, VFUN_DIRECT_OPACKETS, VFUN_OBYTES, VFUN_OERRORS },
	[VFUN_LINK_WAY_IN] = { VFUN_IPACKETS, VFUN_DIRECT_IPACKETS, VFUN_IBYTES, VFUN_IERRORS },
};

static void put_counts(struct vfun_counts *to, const struct vfun_counts *from, uint32_t way)
{
	unsigned int i;

	for (i = 0; i < OF_A_WAY; i++)
		to->n[COUNTS_OF[way][i]] = from->n[COUNTS_OF[way][i]];
}

/* Before a link comes or goes: what was counted stays. */
static void keep_counts(struct vfun_eth *v, uint32_t way)
{
	struct vfun_counts c;

	count_linked(v, &c);
	put_counts(&v->past_linked, &c, way);
}

/* After it. */
static void begin_counts(struct vfun_eth *v, uint32_t way)
{
	struct vfun_counts c;

	count_links(v, &c);
	put_counts(&v->begun_linked, &c, way);
}

/* ---- links come and go ---------------------------------------------- */

/* Inside of the gate to send, or while it is shut. */
static void leave_out(struct vfun_eth *v)
{
	struct vfun_linked_tx *l = &v->txq.linked;
	int who;

	if (!l->has_link)
		return;
	keep_counts(v, VFUN_LINK_WAY_OUT);
	who = vfun_linked_tx_detach(l);
	begin_counts(v, VFUN_LINK_WAY_OUT);
	note(&v->txq);
	ring(&v->txq.bell, who);
}

/* While the gate to receive is shut. */
static void leave_in(struct vfun_eth *v)
{
	struct vfun_linked_rx *l = &v->rxq.linked;

	if (!l->has_link)
		return;
	keep_counts(v, VFUN_LINK_WAY_IN);
	vfun_linked_rx_detach(l);
	begin_counts(v, VFUN_LINK_WAY_IN);
}

static int is_wanted(struct vfun_eth *v, uint32_t way, int has_link, uint64_t number, uint64_t *wanted)
{
	unsigned int word = way == VFUN_LINK_WAY_OUT ? VFUN_LINKED_LINK_OUT : VFUN_LINKED_LINK_IN;

	/* The host's own word, so that nothing is asked where there are no links. */
	*wanted = VFUN_PACKET_LOAD((const uint64_t *)v->port.theirs + word);
	if (!has_link)
		return *wanted != 0;
	/* While nobody answers, nothing changes. */
	return !vfun_vm_link_wanted(v->talk.vm, way, wanted) && *wanted != number;
}

/* Takes the memory of the link that is wanted; 0, or -1: there is none now. */
static int take(struct vfun_eth *v, uint32_t way, struct vfun_vm_link *link)
{
	struct vfun_error e;
	int found = vfun_vm_link_take(v->talk.vm, way, link, &e);

	if (found < 0)
		vfun_talk_complain(v, &e);
	return found > 0 ? 0 : -1;
}

/* The link that the host wants to be sent over. */
static void follow_out(struct vfun_eth *v)
{
	struct vfun_linked_tx *l = &v->txq.linked;
	struct vfun_vm_link link;
	uint64_t wanted;
	int who;

	if (!is_wanted(v, VFUN_LINK_WAY_OUT, l->has_link, l->number, &wanted))
		return;
	if (l->has_link) {
		vfun_gate_hold(&v->txq.gate);
		leave_out(v);
		vfun_gate_leave(&v->txq.gate);
		vfun_vm_link_leave(v->talk.vm, VFUN_LINK_WAY_OUT);
	}
	if (!wanted || take(v, VFUN_LINK_WAY_OUT, &link))
		return;
	vfun_gate_hold(&v->txq.gate);
	keep_counts(v, VFUN_LINK_WAY_OUT);
	who = vfun_linked_tx_attach(l, link.number, link.sides.mine, link.sides.theirs, link.sides.ring);
	if (l->has_link && l->port.longest < l->link.longest)
		l->link.longest = l->port.longest;
	begin_counts(v, VFUN_LINK_WAY_OUT);
	note(&v->txq);
	vfun_gate_leave(&v->txq.gate);
	if (who >= 0)
		ring(&v->txq.bell, who);
	else
		/* The way back from another one has no room yet. */
		vfun_vm_link_leave(v->talk.vm, VFUN_LINK_WAY_OUT);
}

/* The link that the host wants to be received from. The gate to receive is shut. */
static void follow_in(struct vfun_eth *v)
{
	struct vfun_linked_rx *l = &v->rxq.linked;
	struct vfun_vm_link link;
	uint64_t wanted;

	/* Who reads a link that is not wanted any more stops, also if nothing comes. */
	if (l->reading != VFUN_LINKED_READS_PORT)
		vfun_linked_rx_obey_(l);
	if (!is_wanted(v, VFUN_LINK_WAY_IN, l->has_link, l->number, &wanted))
		return;
	if (l->has_link) {
		leave_in(v);
		vfun_vm_link_leave(v->talk.vm, VFUN_LINK_WAY_IN);
	}
	if (!wanted || take(v, VFUN_LINK_WAY_IN, &link))
		return;
	keep_counts(v, VFUN_LINK_WAY_IN);
	vfun_linked_rx_attach(l, link.number, link.sides.mine, link.sides.theirs, link.sides.ring);
	begin_counts(v, VFUN_LINK_WAY_IN);
}

void vfun_linked_follow(struct vfun_eth *v)
{
	follow_out(v);
	/* Frames wait in the rings meanwhile. */
	vfun_gate_shut(&v->rxq.gate, VFUN_SHUT_LINKS);
	follow_in(v);
	vfun_gate_open(&v->rxq.gate, VFUN_SHUT_LINKS);
}

void vfun_linked_take_up(struct vfun_eth *v, const struct vfun_sides *port)
{
	/* They cannot fail: the ring's bytes were looked at. */
	vfun_linked_tx_init(&v->txq.linked, port->mine, port->theirs, port->ring);
	vfun_linked_rx_init(&v->rxq.linked, port->mine, port->theirs, port->ring);
	note(&v->txq);
	begin_counts(v, VFUN_LINK_WAY_OUT);
	begin_counts(v, VFUN_LINK_WAY_IN);
	/* Before the first frame either way: what an earlier end began goes on (R-LNK-9). */
	vfun_linked_follow(v);
	/* Who had the ring before may have left without ringing. */
	ring(&v->txq.bell, vfun_linked_tx_must_ring(&v->txq.linked));
}

void vfun_linked_leave(struct vfun_eth *v)
{
	vfun_linked_tx_publish(&v->txq.linked);
	leave_out(v);
	leave_in(v);
	vfun_vm_link_leave(v->talk.vm, VFUN_LINK_WAY_OUT);
	vfun_vm_link_leave(v->talk.vm, VFUN_LINK_WAY_IN);
}

void vfun_linked_bound(struct vfun_eth *v, uint32_t longest)
{
	struct vfun_linked_tx *l = &v->txq.linked;

	__atomic_store_n(&l->port.longest, longest, __ATOMIC_RELAXED);
	/* What the switch does not take goes over no link either. */
	if (l->has_link)
		__atomic_store_n(&l->link.longest, longest, __ATOMIC_RELAXED);
}
