/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A device's memory comes and goes: its link and its counts with it. */
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "vfun_eth.h"

/*
 * How long frames wait until the host has told a process that comes anew of a link: it does so once
 * the switch has both ports, which it adds one after the other.
 */
#define UNTOLD_SECONDS 2

static uint64_t *my_word(const struct vfun_eth *v, unsigned int word)
{
	return (uint64_t *)v->port.mine + word;
}

static const uint64_t *their_word(struct vfun_eth *v, unsigned int word)
{
	return (const uint64_t *)v->port.theirs + word;
}

/* ---- the link ------------------------------------------------------- */

uint32_t vfun_eth_longest(const struct vfun_eth *v)
{
	return v->ring ? vfun_packet_longest(v->ring) : VFUN_PACKET_FRAME_MAX;
}

static int is_up(const struct vfun_eth *v)
{
	return v->port.mine && v->is_started && !v->is_down;
}

void vfun_eth_say(struct vfun_eth *v)
{
	if (!v->port.mine)
		return;
	VFUN_PACKET_STORE(my_word(v, VFUN_PACKET_FRAME), (uint64_t)v->rxq.longest);
	VFUN_PACKET_STORE_RELEASE(my_word(v, VFUN_PACKET_STATE),
				  (uint64_t)(is_up(v) ? VFUN_PACKET_UP : VFUN_PACKET_DOWN));
	vfun_ring(&v->txq.bell);
}

/* What the peer does not take is not sent to it. */
static void bound_frames(struct vfun_eth *v)
{
	uint64_t frame = VFUN_PACKET_LOAD(their_word(v, VFUN_PACKET_FRAME));
	uint32_t longest = vfun_packet_longest(v->port.ring);

	if (frame && frame < longest)
		longest = (uint32_t)frame;
	if (vfun_eth_is_linked(v))
		vfun_linked_bound(v, longest);
	else
		__atomic_store_n(&v->txq.tx.longest, longest, __ATOMIC_RELAXED);
}

int vfun_eth_look(struct vfun_eth *v)
{
	struct rte_eth_link link = {
		.link_speed = RTE_ETH_SPEED_NUM_100G,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
	};
	int ret;

	pthread_mutex_lock(&v->lock);
	if (v->port.mine)
		bound_frames(v);
	link.link_status = is_up(v) &&
		VFUN_PACKET_LOAD_ACQUIRE(their_word(v, VFUN_PACKET_STATE)) == VFUN_PACKET_UP;
	ret = rte_eth_linkstatus_set(v->dev, &link);
	pthread_mutex_unlock(&v->lock);
	return ret;
}

/* ---- counts --------------------------------------------------------- */

/* As they stand in the memory that is there, or was there last. */
static void now(const struct vfun_eth *v, struct vfun_counts *c)
{
	const struct vfun_packet_rx *rx = &v->rxq.fence.port;

	*c = (struct vfun_counts){ .n = { 0 } };
	c->n[VFUN_NO_MBUF] = v->rxq.no_mbuf;
	if (vfun_eth_is_linked(v)) {
		vfun_linked_count(v, c);
		return;
	}
	c->n[VFUN_IPACKETS] = rx->taken;
	c->n[VFUN_IBYTES] = rx->taken_bytes;
	c->n[VFUN_IERRORS] = rx->bad + rx->refused;
	c->n[VFUN_OPACKETS] = v->txq.tx.sent;
	c->n[VFUN_OBYTES] = v->txq.tx.sent_bytes;
	c->n[VFUN_OERRORS] = v->txq.tx.too_long + v->txq.no_room;
}

/* With the lock. */
static void count(const struct vfun_eth *v, struct vfun_counts *all)
{
	unsigned int i;

	now(v, all);
	for (i = 0; i < VFUN_COUNTS; i++)
		all->n[i] += v->past.n[i] - v->begun.n[i];
}

void vfun_eth_count(struct vfun_eth *v, struct vfun_counts *all)
{
	pthread_mutex_lock(&v->lock);
	count(v, all);
	pthread_mutex_unlock(&v->lock);
}

/* ---- memory --------------------------------------------------------- */

/*
 * The fence goes on in other memory: what it had numbered, and what it had seen of a link.
 * Nothing more comes out of the memory before, so that an epoch is over. But the first memory
 * may be that of a process before this one, in which an epoch goes on.
 */
static void renew_fence(struct vfun_eth *v, const struct vfun_sides *port)
{
	struct vfun_fence *f = &v->rxq.fence;
	struct vfun_line *line = f->line;
	uint64_t link = f->link, allowed = f->allowed;

	if (!v->had_memory)
		vfun_fence_unline(f);
	/* It cannot fail: the ring's bytes were looked at. */
	vfun_fence_renew(f, port->mine, port->theirs, port->ring);
	if (!v->had_memory && line) {
		/* Nothing was said by it yet, and its closer is new: as a line of zeros. */
		memset(line->fence, 0, sizeof(line->fence));
		vfun_fence_line(f, line, link, allowed);
	}
}

/* Without memory the fence stands in a page of zeros, whose ring is empty and never read. */
static void renew_fence_nowhere(struct vfun_eth *v)
{
	const struct vfun_sides none = { .mine = v->nowhere, .theirs = v->nowhere,
					 .ring = VFUN_PACKET_RING_MIN };

	memset(v->nowhere, 0, sizeof(v->nowhere));
	renew_fence(v, &none);
}

void vfun_eth_init(struct vfun_eth *v)
{
	v->rxq.gate.shut = v->txq.gate.shut = VFUN_SHUT_EMPTY;
	v->rxq.out = &v->txq;
	v->rxq.stamp_at = v->txq.stamp_at = -1;
	pthread_mutex_init(&v->lock, NULL);
	renew_fence_nowhere(v);
}

int vfun_eth_names_link(const struct vfun_eth *v)
{
	return v->port.mine && VFUN_PACKET_LOAD(my_word(v, VFUN_LINKED_LINK_OUT)) != 0;
}

/*
 * A process before this one had the port, and an epoch of a link may go on: its records are in the
 * rings. Frames wait there until the host has told of the link. Both gates are shut.
 */
static void wait_to_be_told(struct vfun_eth *v)
{
	if (!v->talk.socket || v->rxq.fence.line || !vfun_eth_names_link(v))
		return;
	v->told_by = (rte_rdtsc() + UNTOLD_SECONDS * rte_get_tsc_hz()) | 1;
	vfun_gate_shut(&v->rxq.gate, VFUN_SHUT_UNTOLD);
}

void vfun_eth_attach(struct vfun_eth *v, const struct vfun_sides *port,
		     const struct vfun_bell *bell)
{
	pthread_mutex_lock(&v->lock);
	/* Both gates are shut as long as there is no memory. */
	v->port = *port;
	v->ring = port->ring;
	v->txq.bell = *bell;
	if (vfun_eth_is_linked(v)) {
		vfun_linked_take_up(v, port);
	} else {
		renew_fence(v, port);
		/* Nor can this. */
		vfun_packet_tx_init(&v->txq.tx, port->mine, port->theirs, port->ring);
	}
	if (v->had_memory && v->txq.in)
		vfun_closer_renew(&v->txq.in->closer);
	bound_frames(v);
	/*
	 * What stands in the first memory was counted by a process before this one, for the
	 * same port. Later the device has its own past, which has what was counted here.
	 */
	if (v->had_memory)
		now(v, &v->begun);
	else
		wait_to_be_told(v);
	v->had_memory = 1;
	vfun_eth_say(v);
	vfun_gate_open(&v->rxq.gate, VFUN_SHUT_EMPTY);
	vfun_gate_open(&v->txq.gate, VFUN_SHUT_EMPTY);
	pthread_mutex_unlock(&v->lock);
}

void vfun_eth_detach(struct vfun_eth *v)
{
	struct vfun_counts all;
	struct vfun_sides old;
	struct vfun_bell bell;

	pthread_mutex_lock(&v->lock);
	vfun_gate_shut(&v->rxq.gate, VFUN_SHUT_EMPTY);
	vfun_gate_shut(&v->txq.gate, VFUN_SHUT_EMPTY);
	if (vfun_eth_is_linked(v) && v->port.mine)
		vfun_linked_leave(v);
	count(v, &all);
	v->past = all;
	if (v->had_memory)
		renew_fence_nowhere(v);
	now(v, &v->begun);
	if (v->had_memory && v->txq.in)
		vfun_closer_renew(&v->txq.in->closer);
	if (v->port.mine) {
		VFUN_PACKET_STORE_RELEASE(my_word(v, VFUN_PACKET_STATE), (uint64_t)VFUN_PACKET_DOWN);
		vfun_ring(&v->txq.bell);
	}
	v->told_by = 0;
	vfun_gate_open(&v->rxq.gate, VFUN_SHUT_UNTOLD);
	old = v->port;
	bell = v->txq.bell;
	v->port = (struct vfun_sides){ .ring = 0 };
	v->txq.bell = (struct vfun_bell){ .ringer = NULL };
	pthread_mutex_unlock(&v->lock);
	vfun_sides_unmap(&old);
	vfun_bell_close(&bell);
}
