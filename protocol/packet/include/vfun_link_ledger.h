/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What two VMs say of the frames of a direct link, and whether it can be true (R-LNK-8 of
 * docs/protocol.md), for C (C99) and C++. protocol/packet is the same in Rust, and its tests
 * hold the two against each other.
 */
#ifndef VFUN_LINK_LEDGER_H
#define VFUN_LINK_LEDGER_H

#include "vfun_link_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More frames than any link carries between two looks: a count that grows by so many lies. */
#define VFUN_CLAIMS_TOO_MANY ((uint64_t)1 << 40)
/* How often an end may die and leave counts that are wrong by a ring's frames. */
#define VFUN_CLAIMS_STARTS 16

/* The counts of a link's ring, of which one VM writes half and the other VM half. */
struct vfun_claims {
	uint64_t sent, sent_bytes;      /* what the sender put in */
	uint64_t full, too_long;        /* its frames that had no room, and those that were too long */
	uint64_t taken, taken_bytes;    /* what the receiver took out */
	uint64_t refused;               /* frames for which it had no place */
};

/* Claims, as they were read while both VMs went on. */
struct vfun_reading {
	struct vfun_claims claims;      /* first what was taken, then what was sent */
	/* The same counts, looked at once more after all others: SENT, then what was taken. */
	uint64_t sent_later, taken_later, refused_later;
	uint64_t starts;                /* of both ends, read last */
};

static inline uint64_t vfun_claims_sum_(uint64_t a, uint64_t b)
{
	return a + b < a ? ~(uint64_t)0 : a + b;
}

/* A count that is looked at again: whether it can be. */
static inline int vfun_claims_follow_(uint64_t later, uint64_t first)
{
	return later >= first && later - first < VFUN_CLAIMS_TOO_MANY;
}

/* Whether bytes and frames belong together, give or take some frames. */
static inline int vfun_claims_pair_(uint64_t bytes, uint64_t frames, uint64_t later, uint64_t near,
				    uint32_t longest)
{
	uint64_t least = bytes / longest + (bytes % longest != 0);

	return bytes >= (frames > near ? frames - near : 0) &&
	       least <= vfun_claims_sum_(later, near);
}

static inline int vfun_claims_have_grown_(const struct vfun_claims *c, const struct vfun_claims *b)
{
	return vfun_claims_follow_(c->sent, b->sent) && vfun_claims_follow_(c->full, b->full) &&
	       vfun_claims_follow_(c->too_long, b->too_long) &&
	       vfun_claims_follow_(c->taken, b->taken) &&
	       vfun_claims_follow_(c->refused, b->refused) &&
	       c->sent_bytes >= b->sent_bytes && c->taken_bytes >= b->taken_bytes;
}

/*
 * Whether claims can be true that follow those which were believed last, of a link whose rings
 * have so many bytes. If not, one of the two VMs lies: look once more; if it is so again, end the
 * link.
 */
static inline int vfun_claims_are_credible(const struct vfun_claims *believed, uint64_t ring,
					   const struct vfun_reading *r)
{
	const struct vfun_claims *c = &r->claims;
	uint32_t longest = vfun_packet_longest(ring);
	uint64_t most = ring / VFUN_PACKET_ALIGN, starts = r->starts > 2 ? r->starts - 2 : 0;
	uint64_t slack, near, gone, gone_later;

	/*
	 * An end that died between two of its counts, or before it showed what it had counted,
	 * left them wrong by what the ring holds at most. The first two starts followed nobody.
	 */
	slack = most * (starts < VFUN_CLAIMS_STARTS ? starts : VFUN_CLAIMS_STARTS);
	near = most + slack;
	/* A second look is trusted no more than the first one. */
	if (!vfun_claims_follow_(r->sent_later, c->sent) ||
	    !vfun_claims_follow_(r->taken_later, c->taken) ||
	    !vfun_claims_follow_(r->refused_later, c->refused) ||
	    !vfun_claims_have_grown_(c, believed) ||
	    !vfun_claims_pair_(c->sent_bytes, c->sent, r->sent_later, near, longest) ||
	    !vfun_claims_pair_(c->taken_bytes, c->taken, r->taken_later, near, longest))
		return 0;
	gone = vfun_claims_sum_(c->taken, c->refused);
	gone_later = vfun_claims_sum_(r->taken_later, r->refused_later);
	return gone <= vfun_claims_sum_(c->sent, slack) &&
	       c->sent <= vfun_claims_sum_(gone_later, near);
}

#ifdef __cplusplus
}
#endif

#endif
