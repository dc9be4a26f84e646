/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Direct links, for C (C99) and C++: the flow of frames from one VM's port to another
 * one's goes past the switch and back, and none is lost, repeated or out of order. The
 * rules are R-LNK of docs/protocol.md; protocol/packet is the same in Rust, and its tests
 * hold the two against each other.
 *
 *   linked_tx --- port's ring --> fence --> switch --> closer --- port's ring --> linked_rx
 *       '-------------------------- link's ring ------------------------------------'
 *
 * The first and the last are for a VM, the fence and the closer for the switch's driver.
 * As vfun_packet.h: nothing here calls a library, sleeps, rings or allocates, and each end
 * belongs to one thread at a time. The line between fence and closer may have two threads.
 */
#ifndef VFUN_LINK_RING_H
#define VFUN_LINK_RING_H

#include "vfun_packet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layout --------------------------------------------------------- */

/* Words of a header page that the ends in a VM write, beside those of vfun_packet.h. */
#define VFUN_LINKED_OUT 33      /* a link, and the last turn that its sender has made */
#define VFUN_LINKED_ACK 34
#define VFUN_LINKED_MAKING 36   /* the last turn that the sender has begun to make */
#define VFUN_LINKED_IN 40       /* a link, and the last turn that its receiver has made */
#define VFUN_LINKED_OPEN 41
/* In a link's memory: how often this end has taken it up. */
#define VFUN_LINKED_STARTS 44
/* The manager writes these on the host's page. */
#define VFUN_LINKED_LINK_OUT 48 /* the link to send over, and the turn to make */
#define VFUN_LINKED_TURN 49
#define VFUN_LINKED_LINK_IN 50  /* the link to receive from */
#define VFUN_LINKED_OUT_PLACE 51 /* where LINK_OUT's memory is, what rings its receiver, */
#define VFUN_LINKED_OUT_BELL 52
#define VFUN_LINKED_IN_PLACE 53 /* and where LINK_IN's memory is */
/* And the driver these. */
#define VFUN_LINKED_FENCED_LINK 56
#define VFUN_LINKED_FENCED 57

/* Words of a line: those of the fence, and the closer's one. */
#define VFUN_LINKED_STAMP 0
#define VFUN_LINKED_LAST 1
#define VFUN_LINKED_ROUND 2     /* how many fences have had this line */
#define VFUN_LINKED_PASSED 0
#define VFUN_LINKED_WORDS 8

/*
 * Bits of the number that a fence gives to a frame. Those above say the how manieth fence of
 * this line it is, so no number comes twice.
 */
#define VFUN_LINKED_STAMP_BITS 48

/* How many milliseconds a switch keeps a frame at most, as drivers reckon. */
#define VFUN_LINKED_SWITCH_KEEPS_MS 50

/* How many frames a switch may let out before an earlier one: more than it takes at a time. */
#define VFUN_LINKED_OVERTAKES 64

/* In VFUN_LINKED_OPEN: no turn of this link is made any more. In _PASSED: none is told. */
#define VFUN_LINKED_NO_MORE (~(uint64_t)0)

/*
 * A turn is a word: twice its epoch, and one more for the way back to the switch. A later
 * one is larger; 0 and 1 are none.
 */
static inline int vfun_linked_is_turn_(uint64_t word)
{
	return word >= 2;
}

/* Whether it is one to the link. */
static inline int vfun_linked_is_out_(uint64_t word)
{
	return vfun_linked_is_turn_(word) && !(word & 1);
}

/* Puts the record of a turn in; 0: there is no room. */
static inline int vfun_linked_put_(struct vfun_packet_tx *tx, uint64_t kind, uint64_t turn,
				   uint64_t link)
{
	uint64_t *at;

	if (!vfun_packet_fits_(tx, VFUN_PACKET_ALIGN))
		return 0;
	at = (uint64_t *)(void *)vfun_packet_at_(tx, tx->head);
	VFUN_PACKET_STORE(at, kind << 32 | VFUN_PACKET_CONTROL_BYTES);
	VFUN_PACKET_STORE(at + 1, turn >> 1);
	VFUN_PACKET_STORE(at + 2, link);
	tx->head += VFUN_PACKET_ALIGN;
	return 1;
}

/*
 * The turn of a link's record that was taken last, if its kind is one of two; 0: it is
 * none. Gives the room before the record back: who takes the ring up finds it again.
 */
static inline uint64_t vfun_linked_turn_(struct vfun_packet_rx *rx, uint64_t kind, uint64_t out,
					 uint64_t link)
{
	uint64_t at = rx->tail - VFUN_PACKET_ALIGN, epoch, number;
	const uint64_t *words;

	words = (const uint64_t *)(const void *)((const unsigned char *)rx->theirs +
						 VFUN_PACKET_RING_OFF + (at & (rx->ring - 1)));
	epoch = VFUN_PACKET_LOAD(words + 1);
	number = VFUN_PACKET_LOAD(words + 2);
	vfun_packet_take_to_(rx, at);
	if (number != link || !epoch || epoch >> 63 || (kind != out && kind != out + 1))
		return 0;
	return epoch << 1 | (kind - out);
}

/* Whether all that was there when the sender's position was `until` is taken. */
static inline int vfun_linked_has_passed_(const struct vfun_packet_rx *rx, uint64_t until)
{
	return !((rx->tail - until) >> 63);
}

/* Reads once more what the sender has published, also if not all of it is taken. */
static inline uint64_t vfun_linked_look_again_(struct vfun_packet_rx *rx)
{
	uint64_t found = VFUN_PACKET_LOAD_ACQUIRE(rx->theirs + VFUN_PACKET_HEAD);

	if (!(found & (VFUN_PACKET_ALIGN - 1)) && found - rx->tail <= rx->ring &&
	    rx->head - rx->tail <= found - rx->tail)
		rx->head = found;
	else
		rx->bad++;
	return rx->head;
}

/* ---- where a link's memory is --------------------------------------- */

/*
 * A party's two sides of a link lie in a further window of its VM, which another VM shares:
 * the first one behind the window's header page, the second one behind that.
 */
struct vfun_link_place {
	uint16_t window;        /* its number in this VM */
	uint64_t ring;          /* bytes of each ring */
	uint64_t mine, theirs;  /* bytes of the window at which the sides begin */
	uint64_t end;           /* bytes that the window has at least */
};

/* Reads a word of VFUN_LINKED_OUT_PLACE or VFUN_LINKED_IN_PLACE; 0: it says nothing that can be. */
static inline int vfun_link_place_read(struct vfun_link_place *p, uint64_t word)
{
	unsigned int power = (unsigned int)(word >> 40) & 0xff;
	uint64_t side;

	p->window = (uint16_t)(word >> 48);
	p->ring = power < 64 ? (uint64_t)1 << power : 0;
	if (!p->window || !vfun_packet_ring_ok(p->ring) || (word & (((uint64_t)1 << 40) - 1)) >> 1)
		return 0;
	side = VFUN_PACKET_RING_OFF + p->ring;
	p->mine = 4096 + (word & 1 ? side : 0);
	p->theirs = 4096 + (word & 1 ? 0 : side);
	p->end = 4096 + 2 * side;
	return 1;
}

/* An end takes a link's memory up (R-LNK-8). */
static inline void vfun_linked_start_(uint64_t *mine)
{
	uint64_t starts = VFUN_PACKET_LOAD(mine + VFUN_LINKED_STARTS);

	VFUN_PACKET_STORE_RELEASE(mine + VFUN_LINKED_STARTS, starts + 1);
}

/* ---- the sender in a VM --------------------------------------------- */

/* Where frames go. */
enum vfun_linked_path {
	VFUN_LINKED_PORT,
	VFUN_LINKED_LINK,
	VFUN_LINKED_DUE         /* nowhere before the record of a turn has room */
};

struct vfun_linked_tx {
	struct vfun_packet_tx port;
	struct vfun_packet_tx link;     /* if has_link */
	enum vfun_linked_path path;
	int has_link;
	uint64_t due;                   /* the turn, with VFUN_LINKED_DUE */
	uint64_t number;                /* the link's, and the last turn that was made */
	uint64_t made;
	uint64_t seen;                  /* the word TURN that was looked at last */
	int has_turned;                 /* a frame found a turn due: who sleeps was not rung for it */
};

/* Makes the turn that is due; 0: its record has no room. */
static inline int vfun_linked_tx_turn_(struct vfun_linked_tx *l)
{
	int is_out = vfun_linked_is_out_(l->due);

	if (l->path != VFUN_LINKED_DUE)
		return 1;
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_MAKING, l->due);
	/* Who reads the record finds all that went over the link before it. */
	if (!is_out && l->has_link)
		vfun_packet_publish(&l->link);
	if (!vfun_linked_put_(&l->port, is_out ? VFUN_PACKET_KIND_SWITCH : VFUN_PACKET_KIND_RETURN,
			      l->due, l->number))
		return 0;
	vfun_packet_publish(&l->port);
	/* Before the first frame of the new way: who takes this port up goes on from here. */
	l->made = l->due;
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_ACK, l->made);
	l->path = is_out && l->has_link ? VFUN_LINKED_LINK : VFUN_LINKED_PORT;
	return 1;
}

/*
 * Takes a port up. If an earlier sender was on a link, vfun_linked_tx_attach goes on there;
 * without it the way back is due before the first frame. 0, or -1: there are no rings of so
 * many bytes.
 */
static inline int vfun_linked_tx_init(struct vfun_linked_tx *l, void *mine, const void *theirs,
				      uint64_t ring)
{
	uint64_t last;

	if (vfun_packet_tx_init(&l->port, mine, theirs, ring))
		return -1;
	l->number = VFUN_PACKET_LOAD(l->port.mine + VFUN_LINKED_OUT);
	l->made = VFUN_PACKET_LOAD(l->port.mine + VFUN_LINKED_ACK);
	last = VFUN_PACKET_LOAD(l->port.mine + VFUN_LINKED_MAKING);
	if (last < l->made)
		last = l->made;
	l->path = VFUN_LINKED_PORT;
	l->has_link = 0;
	l->due = 0;
	l->seen = 0;
	l->has_turned = 0;
	/* An earlier sender may have died before it said that it made the last one. */
	if (vfun_linked_is_turn_(last) && (vfun_linked_is_out_(last) || last > l->made)) {
		l->due = last | 1;
		l->path = VFUN_LINKED_DUE;
	}
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_KNOWS, (uint64_t)1);
	return 0;
}

/* Takes the host's word up, and makes the turn if there is room; whether it did. */
static inline int vfun_linked_tx_obey_(struct vfun_linked_tx *l, uint64_t word)
{
	uint64_t link = VFUN_PACKET_LOAD_ACQUIRE(l->port.theirs + VFUN_LINKED_LINK_OUT);
	uint64_t turn = 0;
	int is_new;

	/*
	 * The host changes TURN first when it goes on to another link. What changes now is
	 * looked at next time.
	 */
	if (VFUN_PACKET_LOAD_ACQUIRE(l->port.theirs + VFUN_LINKED_TURN) != word)
		word = l->seen;
	is_new = word != l->seen;
	l->seen = word;
	if (vfun_linked_is_turn_(word) && link == l->number)
		turn = word;
	/* Whoever takes the link away without a turn means the way back. */
	else if (vfun_linked_is_turn_(l->made))
		turn = l->made | 1;
	if (is_new && l->number && turn > l->made) {
		if (!vfun_linked_is_out_(turn) || (l->path == VFUN_LINKED_PORT && l->has_link)) {
			l->due = turn;
			l->path = VFUN_LINKED_DUE;
		}
	}
	return l->path == VFUN_LINKED_DUE && vfun_linked_tx_turn_(l);
}

/*
 * Looks whether to turn: call it now and then while there is nothing to send. Whether to
 * look for ringing.
 */
static inline int vfun_linked_tx_look(struct vfun_linked_tx *l)
{
	uint64_t word = VFUN_PACKET_LOAD_ACQUIRE(l->port.theirs + VFUN_LINKED_TURN);

	if (word == l->seen && l->path != VFUN_LINKED_DUE)
		return 0;
	return vfun_linked_tx_obey_(l, word);
}

/* Whether a ring's receiver must be rung for what was not looked at. */
static inline int vfun_linked_must_ring_(struct vfun_packet_tx *tx)
{
	return tx->rung != tx->told && vfun_packet_must_ring(tx);
}

/* Which receivers must be rung: bits. */
#define VFUN_LINKED_RING_PORT 1
#define VFUN_LINKED_RING_LINK 2
static inline int vfun_linked_tx_must_ring(struct vfun_linked_tx *l)
{
	int found = 0;

	if (l->has_link && vfun_linked_must_ring_(&l->link))
		found = VFUN_LINKED_RING_LINK;
	if (vfun_linked_must_ring_(&l->port))
		found |= VFUN_LINKED_RING_PORT;
	return found;
}

/* Goes on without the link's memory, if it was there. */
static inline void vfun_linked_tx_leave_(struct vfun_linked_tx *l)
{
	if (l->path == VFUN_LINKED_LINK) {
		vfun_packet_publish(&l->link);
		l->due = l->made | 1;
		l->path = VFUN_LINKED_DUE;
	} else if (l->path == VFUN_LINKED_DUE && vfun_linked_is_out_(l->due)) {
		l->path = VFUN_LINKED_PORT;
	}
	l->has_link = 0;
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_HAS_OUT, (uint64_t)0);
	vfun_linked_tx_turn_(l);
}

/*
 * The link's memory goes away: its ring is not touched after this. Whom to ring, as
 * vfun_linked_tx_must_ring says it, while the link's bell is still there.
 */
static inline int vfun_linked_tx_detach(struct vfun_linked_tx *l)
{
	int found = 0, had_link = l->has_link;

	vfun_linked_tx_leave_(l);
	if (had_link && vfun_linked_must_ring_(&l->link))
		found = VFUN_LINKED_RING_LINK;
	if (vfun_linked_must_ring_(&l->port))
		found |= VFUN_LINKED_RING_PORT;
	return found;
}

/*
 * The memory of a link is there. Whom to ring, as vfun_linked_tx_must_ring says it; or -1:
 * there are no rings of so many bytes, or the way back from the link before this one has no
 * room yet; try again.
 */
static inline int vfun_linked_tx_attach(struct vfun_linked_tx *l, uint64_t number, void *mine,
					const void *theirs, uint64_t ring)
{
	uint64_t *own = l->port.mine, begun;

	if (!vfun_packet_ring_ok(ring))
		return -1;
	if (l->has_link)
		vfun_linked_tx_leave_(l);
	if (l->number != number) {
		if (!vfun_linked_tx_turn_(l))
			return -1;
		VFUN_PACKET_STORE(own + VFUN_LINKED_MAKING, (uint64_t)0);
		VFUN_PACKET_STORE(own + VFUN_LINKED_ACK, (uint64_t)0);
		l->number = number;
		l->made = 0;
	}
	VFUN_PACKET_STORE(own + VFUN_LINKED_OUT, number);
	VFUN_PACKET_STORE_RELEASE(own + VFUN_LINKED_HAS_OUT, number);
	vfun_packet_tx_init(&l->link, mine, theirs, ring);
	vfun_linked_start_(l->link.mine);
	l->has_link = 1;
	l->path = vfun_linked_is_out_(l->made) ? VFUN_LINKED_LINK : VFUN_LINKED_PORT;
	/* What was begun is made again: nobody knows whether its record was seen. */
	begun = VFUN_PACKET_LOAD(own + VFUN_LINKED_MAKING);
	if (vfun_linked_is_turn_(begun) && begun > l->made) {
		l->due = begun;
		l->path = VFUN_LINKED_DUE;
	}
	l->seen = 0;
	vfun_linked_tx_look(l);
	return vfun_linked_tx_must_ring(l);
}

/* As vfun_packet_put, into the ring of the way that holds now. */
static inline void *vfun_linked_tx_put(struct vfun_linked_tx *l, uint32_t bytes)
{
	if (l->path == VFUN_LINKED_DUE) {
		if (!vfun_linked_tx_turn_(l)) {
			l->port.full++;
			return (void *)0;
		}
		l->has_turned = 1;
	}
	return vfun_packet_put(l->path == VFUN_LINKED_LINK ? &l->link : &l->port, bytes);
}

/* As vfun_packet_put_noted; NULL, too, while frames go over a link, which has none with notes. */
static inline void *vfun_linked_tx_put_noted(struct vfun_linked_tx *l, uint32_t bytes)
{
	if (l->path != VFUN_LINKED_PORT) {
		l->port.full++;
		return (void *)0;
	}
	return vfun_packet_put_noted(&l->port, bytes);
}

/*
 * Shows the receiver of this way all that was put, and looks whether to turn. Whether to
 * look for ringing.
 */
static inline int vfun_linked_tx_publish(struct vfun_linked_tx *l)
{
	int is_new = vfun_packet_publish(l->path == VFUN_LINKED_LINK ? &l->link : &l->port);
	int has_turned = l->has_turned;

	l->has_turned = 0;
	return vfun_linked_tx_look(l) | is_new | has_turned;
}

/* ---- the receiver in a VM ------------------------------------------- */

/* Which rings are read. */
enum vfun_linked_reading {
	VFUN_LINKED_READS_PORT,
	VFUN_LINKED_READS_BOTH,
	VFUN_LINKED_READS_REST  /* the link's alone, up to `until`; then the turn is made */
};

struct vfun_linked_rx {
	struct vfun_packet_rx port;
	struct vfun_packet_rx link;     /* if has_link */
	struct vfun_packet_rx *last;    /* where the last frame came from */
	enum vfun_linked_reading reading;
	int has_link;
	int link_was_first;
	uint64_t turn, until;           /* with VFUN_LINKED_READS_REST */
	uint64_t number;                /* the link's, and the last turn that was made */
	uint64_t open;
};

/* A turn is made, and said. */
static inline void vfun_linked_rx_turn_(struct vfun_linked_rx *l, uint64_t turn)
{
	l->open = turn;
	l->reading = vfun_linked_is_out_(turn) ? VFUN_LINKED_READS_BOTH : VFUN_LINKED_READS_PORT;
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_OPEN, turn);
}

/* Takes a port up. 0, or -1: there are no rings of so many bytes. */
static inline int vfun_linked_rx_init(struct vfun_linked_rx *l, void *mine, const void *theirs,
				      uint64_t ring)
{
	if (vfun_packet_rx_init(&l->port, mine, theirs, ring))
		return -1;
	l->last = &l->port;
	l->number = VFUN_PACKET_LOAD(l->port.mine + VFUN_LINKED_IN);
	l->open = VFUN_PACKET_LOAD(l->port.mine + VFUN_LINKED_OPEN);
	l->reading = vfun_linked_is_out_(l->open) ? VFUN_LINKED_READS_BOTH : VFUN_LINKED_READS_PORT;
	l->has_link = 0;
	l->link_was_first = 0;
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_KNOWS, (uint64_t)1);
	return 0;
}

/*
 * The rest of an epoch was not read and never will be: it would come after what is behind
 * it. So this link has no turn any more.
 */
static inline void vfun_linked_rx_forget_(struct vfun_linked_rx *l)
{
	if (l->has_link)
		vfun_packet_take(&l->link);
	vfun_linked_rx_turn_(l, VFUN_LINKED_NO_MORE);
}

/*
 * Gives the link up for good if the host does not want it to be read any more. Whether it
 * goes on.
 */
static inline int vfun_linked_rx_obey_(struct vfun_linked_rx *l)
{
	if (VFUN_PACKET_LOAD_ACQUIRE(l->port.theirs + VFUN_LINKED_LINK_IN) == l->number)
		return 1;
	vfun_linked_rx_forget_(l);
	return 0;
}

/* The link's memory goes away: its ring is not touched after this. */
static inline void vfun_linked_rx_detach(struct vfun_linked_rx *l)
{
	VFUN_PACKET_STORE_RELEASE(l->port.mine + VFUN_LINKED_HAS_IN, (uint64_t)0);
	if (l->has_link)
		vfun_packet_take(&l->link);
	l->has_link = 0;
	l->last = &l->port;
	if (l->reading == VFUN_LINKED_READS_REST)
		vfun_linked_rx_forget_(l);
}

/* The memory of a link is there. 0, or -1: there are no rings of so many bytes. */
static inline int vfun_linked_rx_attach(struct vfun_linked_rx *l, uint64_t number, void *mine,
					const void *theirs, uint64_t ring)
{
	uint64_t *own = l->port.mine;

	if (!vfun_packet_ring_ok(ring))
		return -1;
	vfun_linked_rx_detach(l);
	if (l->number != number) {
		VFUN_PACKET_STORE(own + VFUN_LINKED_OPEN, (uint64_t)0);
		VFUN_PACKET_STORE(own + VFUN_LINKED_IN, number);
		l->number = number;
		l->open = 0;
		l->reading = VFUN_LINKED_READS_PORT;
	}
	VFUN_PACKET_STORE_RELEASE(own + VFUN_LINKED_HAS_IN, number);
	vfun_packet_rx_init(&l->link, mine, theirs, ring);
	vfun_linked_start_(l->link.mine);
	l->has_link = 1;
	return 0;
}

/* A record of a link came by the port (R-LNK-6). */
static inline void vfun_linked_rx_control_(struct vfun_linked_rx *l, uint64_t kind)
{
	uint64_t turn = vfun_linked_turn_(&l->port, kind, VFUN_PACKET_KIND_END, l->number);

	/* A driver that was started again says its last one once more. */
	if (turn && turn == l->open)
		return;
	if (turn && turn > l->open) {
		if (vfun_linked_is_out_(turn) && l->reading == VFUN_LINKED_READS_PORT) {
			vfun_linked_rx_turn_(l, turn);
			return;
		}
		if (!vfun_linked_is_out_(turn) && l->has_link) {
			l->turn = turn;
			l->until = vfun_linked_look_again_(&l->link);
			l->reading = VFUN_LINKED_READS_REST;
			return;
		}
		if (!vfun_linked_is_out_(turn)) {
			l->port.bad++;
			vfun_linked_rx_forget_(l);
			return;
		}
	}
	l->port.bad++;
}

/* The next frame of the port; with *more: it is NULL, and more may be there. */
static inline const void *vfun_linked_rx_port_(struct vfun_linked_rx *l, uint32_t *bytes, int *more)
{
	uint64_t kind = 0;
	const void *found = vfun_packet_next_or_(&l->port, bytes, &kind);

	l->last = &l->port;
	if (kind) {
		vfun_linked_rx_control_(l, kind);
		*more = 1;
	}
	return found;
}

static inline const void *vfun_linked_rx_link_(struct vfun_linked_rx *l, uint32_t *bytes)
{
	if (!vfun_linked_rx_obey_(l) || !l->has_link)
		return (void *)0;
	l->last = &l->link;
	return vfun_packet_next(&l->link, bytes);
}

/* In turns, so that neither sender can keep the other one out. */
static inline const void *vfun_linked_rx_both_(struct vfun_linked_rx *l, uint32_t *bytes, int *more)
{
	const void *found = (void *)0;

	l->link_was_first = !l->link_was_first;
	if (!l->link_was_first)
		found = vfun_linked_rx_port_(l, bytes, more);
	if (found || *more)
		return found;
	found = vfun_linked_rx_link_(l, bytes);
	if (!found && l->link_was_first)
		found = vfun_linked_rx_port_(l, bytes, more);
	return found;
}

static inline const void *vfun_linked_rx_rest_(struct vfun_linked_rx *l, uint32_t *bytes, int *more)
{
	const void *found;

	if (!vfun_linked_rx_obey_(l)) {
		*more = 1;
		return (void *)0;
	}
	if (l->has_link) {
		if (!vfun_linked_has_passed_(&l->link, l->until)) {
			l->last = &l->link;
			found = vfun_packet_next(&l->link, bytes);
			if (found)
				return found;
		}
		vfun_packet_take(&l->link);
	}
	vfun_linked_rx_turn_(l, l->turn);
	*more = 1;
	return (void *)0;
}

/*
 * The next frame and its bytes. NULL with *more: what came was no frame, and more may be
 * there, so that a loop bounds its calls and not its frames. NULL without: there is nothing.
 * Copy a frame before the next call: it stays no longer.
 */
static inline const void *vfun_linked_rx_next(struct vfun_linked_rx *l, uint32_t *bytes, int *more)
{
	*more = 0;
	switch (l->reading) {
	case VFUN_LINKED_READS_BOTH:
		return vfun_linked_rx_both_(l, bytes, more);
	case VFUN_LINKED_READS_REST:
		return vfun_linked_rx_rest_(l, bytes, more);
	default:
		return vfun_linked_rx_port_(l, bytes, more);
	}
}

/* The frame that came last was not used. */
static inline void vfun_linked_rx_refuse(struct vfun_linked_rx *l, uint32_t bytes)
{
	vfun_packet_refuse(l->last, bytes);
}

/* Gives both senders the room of all that came, and shows the counts. */
static inline void vfun_linked_rx_take(struct vfun_linked_rx *l)
{
	/* As long as the rest is read, the turn's record stays: who takes the port up finds it. */
	if (l->reading != VFUN_LINKED_READS_REST)
		vfun_packet_take(&l->port);
	if (l->reading != VFUN_LINKED_READS_PORT && l->has_link)
		vfun_packet_take(&l->link);
}

/* Whether there is anything, as far as is known, or as the senders say now. */
static inline int vfun_linked_rx_is_there(struct vfun_linked_rx *l)
{
	if (vfun_packet_is_there(&l->port))
		return 1;
	if (l->reading != VFUN_LINKED_READS_PORT && l->has_link && vfun_packet_is_there(&l->link))
		return 1;
	return l->reading == VFUN_LINKED_READS_REST;
}

/* Asks to be rung for the next frame. Look once more after it, then sleep. */
static inline void vfun_linked_rx_declare_sleep(const struct vfun_linked_rx *l)
{
	vfun_packet_declare_sleep(&l->port);
	if (l->reading != VFUN_LINKED_READS_PORT && l->has_link)
		vfun_packet_declare_sleep(&l->link);
}

/* ---- the switch's driver, at the sender's port ---------------------- */

/* What the two halves of a driver say to each other: one writer each. */
struct vfun_line {
	uint64_t fence[VFUN_LINKED_WORDS];
	uint64_t closer[VFUN_LINKED_WORDS];
};

struct vfun_fence {
	struct vfun_packet_rx port;
	uint64_t stamp;         /* the number of the frame that came last */
	struct vfun_line *line; /* NULL: no link begins here */
	uint64_t link;
	uint64_t allowed;       /* the epoch that the manager allows */
	uint64_t last;          /* the last turn that was seen, or is over for sure */
	uint64_t said;          /* and the one that was said */
	uint64_t until;         /* with is_forced: the turn is made when all before it is read */
	int is_forced;
};

/* Takes a port up. 0, or -1: there are no rings of so many bytes. */
static inline int vfun_fence_init(struct vfun_fence *f, void *mine, const void *theirs,
				  uint64_t ring)
{
	f->stamp = 0;
	f->line = (struct vfun_line *)0;
	f->link = f->allowed = f->last = f->said = f->until = 0;
	f->is_forced = 0;
	return vfun_packet_rx_init(&f->port, mine, theirs, ring);
}

/*
 * Says a turn: to the other half, and to the driver after this one. The record that says it
 * is given back later, so that one of the two is always there.
 */
static inline void vfun_fence_see_(struct vfun_fence *f, uint64_t turn)
{
	f->last = turn > f->last ? turn : f->last;
	f->said = turn;
	VFUN_PACKET_STORE_RELEASE(f->port.mine + VFUN_LINKED_FENCED, turn);
	VFUN_PACKET_STORE(f->line->fence + VFUN_LINKED_STAMP, f->stamp);
	VFUN_PACKET_STORE_RELEASE(f->line->fence + VFUN_LINKED_LAST, turn);
}

/* The way back of the allowed epoch, if it was not seen; or 0. */
static inline uint64_t vfun_fence_open_(const struct vfun_fence *f)
{
	uint64_t back = f->allowed << 1 | 1;

	return f->allowed << 1 && back > f->last ? back : 0;
}

/* The last turn that an earlier driver has seen; 0: none. */
static inline uint64_t vfun_fence_fenced_(const struct vfun_fence *f)
{
	uint64_t known = VFUN_PACKET_LOAD(f->port.mine + VFUN_LINKED_FENCED_LINK);
	uint64_t fenced = VFUN_PACKET_LOAD(f->port.mine + VFUN_LINKED_FENCED);

	/* The VM may have written there: only a turn of the allowed epoch counts. */
	return known == f->link && fenced >> 1 == f->allowed && fenced > 1 ? fenced : 0;
}

/* What was said, on a page that may be another one than before. */
static inline void vfun_fence_show_(struct vfun_fence *f)
{
	VFUN_PACKET_STORE(f->port.mine + VFUN_LINKED_FENCED, f->said);
	VFUN_PACKET_STORE_RELEASE(f->port.mine + VFUN_LINKED_FENCED_LINK, f->link);
}

/*
 * A link begins here, of which the manager allows this epoch (0: none yet). The line is
 * zeros, with a closer that is new as well; or it is what an earlier fence of this link had,
 * and the closer may go on: frames have larger numbers than those before. A turn that an
 * earlier driver has seen is said once more, as nobody knows how far it came.
 */
static inline void vfun_fence_line(struct vfun_fence *f, struct vfun_line *line, uint64_t link,
				   uint64_t allowed)
{
	uint64_t round = VFUN_PACKET_LOAD(line->fence + VFUN_LINKED_ROUND);

	f->line = line;
	f->link = link;
	f->allowed = allowed;
	f->last = allowed << 1 ? (allowed << 1) - 1 : 0;
	f->is_forced = 0;
	VFUN_PACKET_STORE(line->fence + VFUN_LINKED_ROUND, round + 1);
	if (!round) {
		vfun_fence_see_(f, vfun_fence_fenced_(f));
	} else {
		/*
		 * The switch may still have frames that an earlier fence has numbered, and
		 * some of them may be behind the turn that stands in the line.
		 */
		if (f->stamp < round << VFUN_LINKED_STAMP_BITS)
			f->stamp = round << VFUN_LINKED_STAMP_BITS;
		f->said = VFUN_PACKET_LOAD(line->fence + VFUN_LINKED_LAST);
		if (f->last < f->said)
			f->last = f->said;
	}
	vfun_fence_show_(f);
}

/* No link begins here any more. */
static inline void vfun_fence_unline(struct vfun_fence *f)
{
	f->line = (struct vfun_line *)0;
	f->is_forced = 0;
}

/*
 * The port has other memory, of a VM that was started anew. Nothing more comes out of the
 * old one, so an epoch that was not over is over now. 0, or -1.
 */
static inline int vfun_fence_renew(struct vfun_fence *f, void *mine, const void *theirs,
				   uint64_t ring)
{
	uint64_t open;

	if (vfun_packet_rx_init(&f->port, mine, theirs, ring))
		return -1;
	if (!f->line)
		return 0;
	f->is_forced = 0;
	open = vfun_fence_open_(f);
	if (open)
		vfun_fence_see_(f, open);
	vfun_fence_show_(f);
	return 0;
}

/*
 * The sender is silent or dead: the switch makes the turn back in its place. What it has
 * published in its port's ring comes before it.
 */
static inline void vfun_fence_force(struct vfun_fence *f, uint64_t epoch)
{
	if (!f->line)
		return;
	/* An epoch that this driver has not heard of is over before it begins. */
	if (epoch > f->allowed)
		f->allowed = epoch >> 63 ? ~(uint64_t)0 >> 1 : epoch;
	if (f->allowed == epoch && vfun_fence_open_(f) && !f->is_forced) {
		f->until = vfun_linked_look_again_(&f->port);
		f->is_forced = 1;
	}
}

/*
 * The manager allows an epoch, before it lets the sender begin it. 0: there is no link, or the
 * epoch is an old one.
 */
static inline int vfun_fence_allow(struct vfun_fence *f, uint64_t epoch)
{
	if (!f->line)
		return 0;
	if (epoch > f->allowed && !(epoch >> 63)) {
		f->allowed = epoch;
		f->is_forced = 0;
	}
	return f->allowed == epoch;
}

/* Whether the turn back of an epoch is in the receiver's ring. */
static inline int vfun_fence_is_over(const struct vfun_fence *f, uint64_t epoch)
{
	uint64_t back = epoch << 1 | 1;

	return f->line && f->said >= back &&
	       VFUN_PACKET_LOAD_ACQUIRE(f->line->closer + VFUN_LINKED_PASSED) >= back;
}

static inline void vfun_fence_look_at_force_(struct vfun_fence *f)
{
	uint64_t open;

	if (!vfun_linked_has_passed_(&f->port, f->until) && vfun_packet_is_there(&f->port))
		return;
	f->is_forced = 0;
	open = vfun_fence_open_(f);
	if (open)
		vfun_fence_see_(f, open);
}

static inline void vfun_fence_control_(struct vfun_fence *f, uint64_t kind)
{
	uint64_t turn = vfun_linked_turn_(&f->port, kind, VFUN_PACKET_KIND_SWITCH, f->link);

	if (!f->line || !turn || turn >> 1 != f->allowed || turn < f->last)
		f->port.bad++;
	else if (turn > f->last)
		vfun_fence_see_(f, turn);
	/* A sender that was started again says its last one once more. */
}

/*
 * The next frame and its bytes; its number is f->stamp. NULL with *more: what came was no
 * frame, and more may be there. Refuse (vfun_fence_refuse) what the switch is not given, at
 * once. Copy a frame before the next call.
 */
static inline const void *vfun_fence_next(struct vfun_fence *f, uint32_t *bytes, int *more)
{
	const void *found;
	uint64_t kind = 0;

	*more = 0;
	if (f->is_forced)
		vfun_fence_look_at_force_(f);
	found = vfun_packet_next_or_(&f->port, bytes, &kind);
	if (found)
		f->stamp++;
	if (kind) {
		vfun_fence_control_(f, kind);
		*more = 1;
	}
	return found;
}

/* The frame that came last is not given to the switch. */
static inline void vfun_fence_refuse(struct vfun_fence *f, uint32_t bytes)
{
	vfun_packet_refuse(&f->port, bytes);
	f->stamp--;
}

/* ---- the switch's driver, at the receiver's port -------------------- */

struct vfun_closer {
	struct vfun_line *line;
	uint64_t link;
	uint64_t out;           /* the number of the last frame that came out of the switch */
	uint64_t all;           /* all up to this one came out, as far as frames overtake each other */
	uint64_t beyond;        /* which of the next ones did: bit n for the one n + 1 later */
	uint64_t gone;          /* up to this one nothing is awaited any more */
	uint64_t passed;        /* the last turn that was told; VFUN_LINKED_NO_MORE: none is */
	uint64_t late;          /* how often the time was up before the last frame came out */
	uint64_t behind;        /* frames that came out after all when it was */
};

static inline void vfun_closer_init(struct vfun_closer *c, struct vfun_line *line, uint64_t link)
{
	c->line = line;
	c->link = link;
	c->out = c->all = c->beyond = c->gone = 0;
	c->passed = VFUN_PACKET_LOAD(line->closer + VFUN_LINKED_PASSED);
	c->late = 0;
	c->behind = 0;
}

/*
 * A frame came out. A switch may change the order of frames of a burst: so the last one that
 * came out may have a smaller number than the fence although all up to that came.
 */
static inline void vfun_closer_saw_(struct vfun_closer *c, uint64_t stamp)
{
	uint64_t ahead = stamp - c->all - 1;

	c->out = stamp;
	c->behind += stamp <= c->gone;
	if (stamp <= c->all)
		return;
	if (ahead >= VFUN_LINKED_OVERTAKES) {
		/* Nothing is overtaken by so many: what is missing was dropped. */
		uint64_t slides = ahead - (VFUN_LINKED_OVERTAKES - 1);

		c->all += slides;
		c->beyond = slides < VFUN_LINKED_OVERTAKES ? c->beyond >> slides : 0;
		ahead = VFUN_LINKED_OVERTAKES - 1;
	}
	c->beyond |= (uint64_t)1 << ahead;
	while (c->beyond & 1) {
		c->beyond >>= 1;
		c->all++;
	}
}

/* Up to which number nothing is awaited. */
static inline uint64_t vfun_closer_reached(const struct vfun_closer *c)
{
	return c->out > c->all ? c->out : c->all;
}

/* The switch has dropped what it still had of the frames up to this one. */
static inline void vfun_closer_give_up(struct vfun_closer *c, uint64_t gone)
{
	c->out = gone;
	c->gone = gone;
}

/*
 * The turn that is to be told, and the number of the last frame before it; or 0. If the other
 * half turns on meanwhile, the number is the later one.
 */
static inline uint64_t vfun_closer_due(const struct vfun_closer *c, uint64_t *fence)
{
	uint64_t last = VFUN_PACKET_LOAD_ACQUIRE(c->line->fence + VFUN_LINKED_LAST);

	*fence = 0;
	if (last == c->passed || c->passed == VFUN_LINKED_NO_MORE || !vfun_linked_is_turn_(last))
		return 0;
	*fence = VFUN_PACKET_LOAD(c->line->fence + VFUN_LINKED_STAMP);
	return last;
}

/* Whether something is to be told. */
static inline int vfun_closer_is_due(const struct vfun_closer *c)
{
	uint64_t fence;

	return vfun_closer_due(c, &fence) != 0;
}

static inline void vfun_closer_passes_(struct vfun_closer *c, uint64_t turn)
{
	c->passed = turn;
	VFUN_PACKET_STORE_RELEASE(c->line->closer + VFUN_LINKED_PASSED, turn);
}

static inline int vfun_closer_tell_(struct vfun_closer *c, struct vfun_packet_tx *tx, uint64_t turn)
{
	uint64_t kind = vfun_linked_is_out_(turn) ? VFUN_PACKET_KIND_END : VFUN_PACKET_KIND_BEGIN;

	if (!vfun_linked_put_(tx, kind, turn, c->link))
		return 0;
	vfun_closer_passes_(c, turn);
	return 1;
}

/*
 * Where to write a frame of the link's sender that comes out of the switch, with the number
 * that the fence gave it; or NULL, which is counted.
 */
static inline void *vfun_closer_put(struct vfun_closer *c, struct vfun_packet_tx *tx,
				    uint32_t bytes, uint64_t stamp)
{
	uint64_t fence, turn = vfun_closer_due(c, &fence);

	vfun_closer_saw_(c, stamp);
	if (turn && fence < stamp && !vfun_closer_tell_(c, tx, turn)) {
		tx->full++;
		return (void *)0;
	}
	return vfun_packet_put(tx, bytes);
}

/*
 * Tells what is due, if the frames before it are out and there is room. Call it before other
 * frames are put into this ring, and now and then. Whether it put anything.
 */
static inline int vfun_closer_run(struct vfun_closer *c, struct vfun_packet_tx *tx)
{
	uint64_t fence, turn = vfun_closer_due(c, &fence);

	return turn && fence <= vfun_closer_reached(c) && vfun_closer_tell_(c, tx, turn);
}

/*
 * The longest time has passed that the switch keeps a frame: those that are awaited were
 * dropped.
 */
static inline int vfun_closer_expire(struct vfun_closer *c, struct vfun_packet_tx *tx)
{
	uint64_t fence, turn = vfun_closer_due(c, &fence);

	if (turn && fence > vfun_closer_reached(c)) {
		c->late++;
		vfun_closer_give_up(c, fence);
	}
	return vfun_closer_run(c, tx);
}

/*
 * The receiver's port has other memory, of a VM that was started anew. It knows nothing of
 * this link: it is told nothing, now or later, and each turn counts as passed on.
 */
static inline void vfun_closer_renew(struct vfun_closer *c)
{
	vfun_closer_passes_(c, VFUN_LINKED_NO_MORE);
}

#ifdef __cplusplus
}
#endif

#endif
