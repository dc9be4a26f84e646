/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets over a window, for C (C99) and C++: frames of any length that go one
 * way, from one sender to one receiver, packed, in bursts. The rules are R-PKT
 * of docs/protocol.md; protocol/packet is the same in Rust, and its tests hold
 * the two against each other.
 *
 * For user space, DPDK and the kernel. Nothing here calls a library, sleeps,
 * rings or allocates: doorbells are the caller's. Each end belongs to one thread
 * at a time.
 *
 *	while ((to = vfun_packet_put(&tx, bytes)))      write the frame to `to`
 *	if (vfun_packet_publish(&tx) && vfun_packet_must_ring(&tx))
 *		ring();
 *
 * Look once whether to ring after a sender was taken up, too: an earlier one may have
 * died before it rang.
 *
 *	while ((from = vfun_packet_next(&rx, &bytes)))  copy it out, once
 *	vfun_packet_take(&rx);
 *
 * The peer may change a frame at any time: copy it once, and use the copy.
 *
 * How words are reached may be set before this file is included:
 * VFUN_PACKET_LOAD, _LOAD_ACQUIRE, _STORE, _STORE_RELEASE, _FENCE, _PREFETCH.
 */
#ifndef VFUN_PACKET_H
#define VFUN_PACKET_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>
#else
#include <stdint.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vfun_packet.h: words are stored as they are on little-endian machines"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VFUN_PACKET_LOAD
#ifdef __KERNEL__
/* virt_: the peer runs on another processor even where this guest has one. */
#define VFUN_PACKET_LOAD(p) READ_ONCE(*(p))
#define VFUN_PACKET_LOAD_ACQUIRE(p) virt_load_acquire((p))
#define VFUN_PACKET_STORE(p, v) WRITE_ONCE(*(p), v)
#define VFUN_PACKET_STORE_RELEASE(p, v) virt_store_release((p), v)
#define VFUN_PACKET_FENCE() virt_mb()
#else
#define VFUN_PACKET_LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define VFUN_PACKET_LOAD_ACQUIRE(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define VFUN_PACKET_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define VFUN_PACKET_STORE_RELEASE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define VFUN_PACKET_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#endif

#ifndef VFUN_PACKET_PREFETCH
#define VFUN_PACKET_PREFETCH(p) __builtin_prefetch(p)
#endif

/* ---- layout --------------------------------------------------------- */

/* A side is a header page, and from this byte on its ring. */
#define VFUN_PACKET_RING_OFF 4096

/* Words of a header page: what the sender of this side says. */
#define VFUN_PACKET_HEAD 0
#define VFUN_PACKET_SENT 1
#define VFUN_PACKET_SENT_BYTES 2
#define VFUN_PACKET_FULL 3
#define VFUN_PACKET_LONG 4
/* What its receiver says of the other side's ring. */
#define VFUN_PACKET_TAIL 8
#define VFUN_PACKET_TAKEN 9
#define VFUN_PACKET_TAKEN_BYTES 10
#define VFUN_PACKET_REFUSED 11
#define VFUN_PACKET_BAD 12
/* What changes seldom. */
#define VFUN_PACKET_STATE 16
#define VFUN_PACKET_FRAME 17
/* Which frames with a note this party takes (R-PKT-9): bits. */
#define VFUN_PACKET_TAKES 18
/* When the receiver is to be rung. */
#define VFUN_PACKET_WAKE 24

/* Of direct links (vfun_link_ring.h): 1: this party knows them; the link whose memory it has. */
#define VFUN_LINKED_KNOWS 32
#define VFUN_LINKED_HAS_OUT 35
#define VFUN_LINKED_HAS_IN 42

/* In VFUN_PACKET_STATE. */
#define VFUN_PACKET_DOWN 0
#define VFUN_PACKET_UP 1

/* In VFUN_PACKET_TAKES: checksums that are not complete, and TCP over IPv4 and IPv6 that is to be cut. */
#define VFUN_PACKET_TAKES_SUM 1
#define VFUN_PACKET_TAKES_TCP4 2
#define VFUN_PACKET_TAKES_TCP6 4

/* Records begin at multiples of this; the first 8 bytes are their head. */
#define VFUN_PACKET_ALIGN 64
#define VFUN_PACKET_RECORD_HEAD 8
/* In the upper half of a record's head; its lower half has the bytes. */
#define VFUN_PACKET_KIND_SKIP 0
#define VFUN_PACKET_KIND_FRAME 1
/* Records of direct links, which are for the ends of vfun_link_ring.h. */
#define VFUN_PACKET_KIND_SWITCH 2
#define VFUN_PACKET_KIND_RETURN 3
#define VFUN_PACKET_KIND_END 4
#define VFUN_PACKET_KIND_BEGIN 5
/* Bytes of such a record behind its head: the epoch, and the link's number. */
#define VFUN_PACKET_CONTROL_BYTES 16
/*
 * A note, and behind it a frame that it is about. The note is struct virtio_net_hdr of
 * linux/virtio_net.h, 10 bytes, and zeros.
 */
#define VFUN_PACKET_KIND_NOTED 6
#define VFUN_PACKET_NOTE_BYTES 16

/* How far ahead a receiver asks for memory: as many bytes as four small frames have. */
#define VFUN_PACKET_AHEAD 512

/* ---- limits --------------------------------------------------------- */

#define VFUN_PACKET_RING_MIN 4096
#define VFUN_PACKET_RING_MAX 67108864
#define VFUN_PACKET_FRAME_MAX 65600

/* Rings that are smaller have no room to spare for frames that are to be cut. */
#define VFUN_PACKET_NOTED_RING_MIN 524288

/* Whether there are rings of so many bytes. */
static inline int vfun_packet_ring_ok(uint64_t ring)
{
	return ring >= VFUN_PACKET_RING_MIN && ring <= VFUN_PACKET_RING_MAX &&
	       (ring & (ring - 1)) == 0;
}

/* The longest frame of a ring: with what is skipped before it, it must fit. */
static inline uint32_t vfun_packet_longest(uint64_t ring)
{
	uint64_t half = ring / 2 - VFUN_PACKET_RECORD_HEAD;

	return half < VFUN_PACKET_FRAME_MAX ? (uint32_t)half : VFUN_PACKET_FRAME_MAX;
}

/* Bytes of the record of a frame. */
static inline uint64_t vfun_packet_record(uint32_t bytes)
{
	return ((uint64_t)bytes + VFUN_PACKET_RECORD_HEAD + VFUN_PACKET_ALIGN - 1) &
	       ~(uint64_t)(VFUN_PACKET_ALIGN - 1);
}

/* ---- the sender ----------------------------------------------------- */

struct vfun_packet_tx {
	uint64_t *mine;         /* its side's header page; the ring is behind it */
	const uint64_t *theirs; /* the other side's */
	uint64_t ring;          /* bytes of its ring */
	uint64_t head;          /* where the next record begins: never read back */
	uint64_t told;          /* the head that was published last */
	uint64_t rung;          /* the head at the last look whether to ring */
	uint64_t tail;          /* what the receiver is known to have taken */
	uint64_t sent, sent_bytes, full, too_long;
	uint32_t longest;       /* bytes of the longest frame that it sends */
};

/*
 * Takes up the sending end of a side: where an earlier sender left it, or at 0 where
 * the side is zeros. 0, or -1: there are no rings of so many bytes. The first look
 * whether to ring concerns all that waits.
 */
static inline int vfun_packet_tx_init(struct vfun_packet_tx *tx, void *mine,
				      const void *theirs, uint64_t ring)
{
	if (!vfun_packet_ring_ok(ring))
		return -1;
	tx->mine = (uint64_t *)mine;
	tx->theirs = (const uint64_t *)theirs;
	tx->ring = ring;
	tx->head = VFUN_PACKET_LOAD(tx->mine + VFUN_PACKET_HEAD) &
		   ~(uint64_t)(VFUN_PACKET_ALIGN - 1);
	tx->told = tx->head;
	tx->rung = tx->head - ring;
	tx->tail = tx->head - ring;
	tx->sent = VFUN_PACKET_LOAD(tx->mine + VFUN_PACKET_SENT);
	tx->sent_bytes = VFUN_PACKET_LOAD(tx->mine + VFUN_PACKET_SENT_BYTES);
	tx->full = VFUN_PACKET_LOAD(tx->mine + VFUN_PACKET_FULL);
	tx->too_long = VFUN_PACKET_LOAD(tx->mine + VFUN_PACKET_LONG);
	tx->longest = vfun_packet_longest(ring);
	/* This end knows no links, though an earlier one may have (R-LNK-11). */
	VFUN_PACKET_STORE(tx->mine + VFUN_LINKED_HAS_OUT, (uint64_t)0);
	VFUN_PACKET_STORE_RELEASE(tx->mine + VFUN_LINKED_KNOWS, (uint64_t)0);
	return 0;
}

/* The place in the ring, from the header page on: inside, whatever `position` is. */
static inline unsigned char *vfun_packet_at_(const struct vfun_packet_tx *tx, uint64_t position)
{
	return (unsigned char *)tx->mine + VFUN_PACKET_RING_OFF + (position & (tx->ring - 1));
}

static inline void vfun_packet_head_(unsigned char *at, uint64_t kind, uint64_t bytes)
{
	VFUN_PACKET_STORE((uint64_t *)(void *)at, kind << 32 | bytes);
}

/* Whether `bytes` more fit, as far as is known, or as the receiver says now. */
static inline int vfun_packet_fits_(struct vfun_packet_tx *tx, uint64_t bytes)
{
	uint64_t found;

	if (tx->head + bytes - tx->tail <= tx->ring)
		return 1;
	found = VFUN_PACKET_LOAD_ACQUIRE(tx->theirs + VFUN_PACKET_TAIL);
	/* R-PKT-6: more than there is cannot have been taken, nor can less than before. */
	if (found - tx->tail > tx->head - tx->tail)
		return 0;
	tx->tail = found;
	return tx->head + bytes - tx->tail <= tx->ring;
}

/*
 * Where to write a frame of so many bytes, or NULL, which is counted: there is no
 * room, or it is too long or empty. Nobody sees it before it is published.
 */
static inline void *vfun_packet_put(struct vfun_packet_tx *tx, uint32_t bytes)
{
	uint64_t left = tx->ring - (tx->head & (tx->ring - 1));
	uint64_t record = vfun_packet_record(bytes);
	uint64_t skipped = record > left ? left : 0;
	unsigned char *at;

	if (bytes == 0 || bytes > tx->longest) {
		tx->too_long++;
		return (void *)0;
	}
	if (!vfun_packet_fits_(tx, skipped + record)) {
		tx->full++;
		return (void *)0;
	}
	if (skipped) {
		vfun_packet_head_(vfun_packet_at_(tx, tx->head), VFUN_PACKET_KIND_SKIP,
				  skipped - VFUN_PACKET_RECORD_HEAD);
		tx->head += skipped;
	}
	at = vfun_packet_at_(tx, tx->head);
	vfun_packet_head_(at, VFUN_PACKET_KIND_FRAME, bytes);
	tx->head += record;
	tx->sent++;
	tx->sent_bytes += bytes;
	return at + VFUN_PACKET_RECORD_HEAD;
}

/*
 * Where to write a note of VFUN_PACKET_NOTE_BYTES and, behind it, a frame of so many bytes; or
 * NULL, which is counted. For a receiver that takes it (VFUN_PACKET_TAKES). The frame may be
 * longer than `longest`, if what it is cut into is not.
 */
static inline void *vfun_packet_put_noted(struct vfun_packet_tx *tx, uint32_t bytes)
{
	uint32_t all = bytes ? bytes + VFUN_PACKET_NOTE_BYTES : 0;
	uint32_t longest = tx->longest;
	unsigned char *at;

	tx->longest = vfun_packet_longest(tx->ring);
	at = (unsigned char *)vfun_packet_put(tx, all > bytes ? all : 0);
	tx->longest = longest;
	if (at) {
		vfun_packet_head_(at - VFUN_PACKET_RECORD_HEAD, VFUN_PACKET_KIND_NOTED, all);
		tx->sent_bytes -= VFUN_PACKET_NOTE_BYTES;
	}
	return at;
}

/*
 * Shows the receiver all that was put, with one store, and the counts with it.
 * Whether there was anything new to see.
 */
static inline int vfun_packet_publish(struct vfun_packet_tx *tx)
{
	int is_new = tx->head != tx->told;

	VFUN_PACKET_STORE(tx->mine + VFUN_PACKET_SENT, tx->sent);
	VFUN_PACKET_STORE(tx->mine + VFUN_PACKET_SENT_BYTES, tx->sent_bytes);
	VFUN_PACKET_STORE(tx->mine + VFUN_PACKET_FULL, tx->full);
	VFUN_PACKET_STORE(tx->mine + VFUN_PACKET_LONG, tx->too_long);
	/* Also if it is not new: a receiver that lost its way finds it again. */
	VFUN_PACKET_STORE_RELEASE(tx->mine + VFUN_PACKET_HEAD, tx->head);
	tx->told = tx->head;
	return is_new;
}

/* Whether the receiver must be rung for all that was published since the last look. */
static inline int vfun_packet_must_ring(struct vfun_packet_tx *tx)
{
	uint64_t wake, before = tx->rung;

	VFUN_PACKET_FENCE();
	wake = VFUN_PACKET_LOAD(tx->theirs + VFUN_PACKET_WAKE);
	tx->rung = tx->told;
	return tx->told - wake - 1 < tx->told - before;
}

/* ---- the receiver --------------------------------------------------- */

struct vfun_packet_rx {
	uint64_t *mine;         /* its side's header page */
	const uint64_t *theirs; /* the sender's side, whose ring is behind it */
	uint64_t ring;          /* bytes of the sender's ring */
	uint64_t tail;          /* where the next record begins: never read back */
	uint64_t told;          /* the tail that was published last */
	uint64_t head;          /* what the sender is known to have published */
	uint64_t taken, taken_bytes, refused, bad;
	uint32_t longest;       /* bytes of the longest frame of such a ring */
	int takes_notes;        /* set it beside VFUN_PACKET_TAKES; else notes make no sense */
	int noted;              /* the frame that came last has a note before it; clear it */
};

/*
 * Takes up the receiving end of a side: where an earlier receiver left it. 0, or -1:
 * there are no rings of so many bytes.
 */
static inline int vfun_packet_rx_init(struct vfun_packet_rx *rx, void *mine,
				      const void *theirs, uint64_t ring)
{
	if (!vfun_packet_ring_ok(ring))
		return -1;
	rx->mine = (uint64_t *)mine;
	rx->theirs = (const uint64_t *)theirs;
	rx->ring = ring;
	rx->tail = VFUN_PACKET_LOAD(rx->mine + VFUN_PACKET_TAIL) &
		   ~(uint64_t)(VFUN_PACKET_ALIGN - 1);
	rx->told = rx->tail;
	rx->head = rx->tail;
	rx->taken = VFUN_PACKET_LOAD(rx->mine + VFUN_PACKET_TAKEN);
	rx->taken_bytes = VFUN_PACKET_LOAD(rx->mine + VFUN_PACKET_TAKEN_BYTES);
	rx->refused = VFUN_PACKET_LOAD(rx->mine + VFUN_PACKET_REFUSED);
	rx->bad = VFUN_PACKET_LOAD(rx->mine + VFUN_PACKET_BAD);
	rx->longest = vfun_packet_longest(ring);
	rx->takes_notes = 0;
	rx->noted = 0;
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_TAKES, (uint64_t)0);
	/* This end knows no links, though an earlier one may have (R-LNK-11). */
	VFUN_PACKET_STORE(rx->mine + VFUN_LINKED_HAS_IN, (uint64_t)0);
	VFUN_PACKET_STORE_RELEASE(rx->mine + VFUN_LINKED_KNOWS, (uint64_t)0);
	return 0;
}

/* What came makes no sense: all of it is passed over, and counted once (R-PKT-5). */
static inline const void *vfun_packet_bad_(struct vfun_packet_rx *rx)
{
	rx->bad++;
	rx->tail = rx->head;
	return (void *)0;
}

/* Whether there is anything, as far as is known, or as the sender says now. */
static inline int vfun_packet_is_there(struct vfun_packet_rx *rx)
{
	uint64_t found;

	if (rx->head != rx->tail)
		return 1;
	found = VFUN_PACKET_LOAD_ACQUIRE(rx->theirs + VFUN_PACKET_HEAD);
	if (found == rx->tail)
		return 0;
	rx->head = found & ~(uint64_t)(VFUN_PACKET_ALIGN - 1);
	if (found != rx->head || found - rx->tail > rx->ring) {
		vfun_packet_bad_(rx);
		return 0;
	}
	return 1;
}

/* Whether a record's head says that it is one of a direct link. */
static inline int vfun_packet_is_control_(uint64_t word)
{
	return (uint32_t)word == VFUN_PACKET_CONTROL_BYTES &&
	       word >> 32 >= VFUN_PACKET_KIND_SWITCH && word >> 32 <= VFUN_PACKET_KIND_BEGIN;
}

/* Whether a record's head says that it is a frame with a note, all of which is there. */
static inline int vfun_packet_is_noted_(const struct vfun_packet_rx *rx, uint64_t word,
					uint64_t there)
{
	uint32_t bytes = (uint32_t)word;

	return rx->takes_notes && word >> 32 == VFUN_PACKET_KIND_NOTED &&
	       bytes > VFUN_PACKET_NOTE_BYTES && bytes <= rx->longest &&
	       vfun_packet_record(bytes) <= there;
}

/* The next frame. Where `kind` is given, the record of a direct link is taken and its kind said. */
static inline const void *vfun_packet_next_or_(struct vfun_packet_rx *rx, uint32_t *bytes,
					       uint64_t *kind)
{
	const unsigned char *ring = (const unsigned char *)rx->theirs + VFUN_PACKET_RING_OFF;
	const unsigned char *at;
	uint64_t word, left, there;
	int skips;

	for (skips = 0; skips < 2 && vfun_packet_is_there(rx); skips++) {
		at = ring + (rx->tail & (rx->ring - 1));
		left = rx->ring - (rx->tail & (rx->ring - 1));
		there = rx->head - rx->tail < left ? rx->head - rx->tail : left;
		word = VFUN_PACKET_LOAD((const uint64_t *)(const void *)at);
		*bytes = (uint32_t)word;
		if (word >> 32 == VFUN_PACKET_KIND_SKIP) {
			if (skips || there != left || *bytes != left - VFUN_PACKET_RECORD_HEAD)
				return vfun_packet_bad_(rx);
			rx->tail += left;
			continue;
		}
		if (word >> 32 != VFUN_PACKET_KIND_FRAME || *bytes == 0 ||
		    *bytes > rx->longest || vfun_packet_record(*bytes) > there) {
			if (vfun_packet_is_noted_(rx, word, there)) {
				rx->noted = 1;
				rx->taken_bytes -= VFUN_PACKET_NOTE_BYTES;
			} else if (kind && vfun_packet_is_control_(word)) {
				*kind = word >> 32;
				rx->tail += VFUN_PACKET_ALIGN;
				return (void *)0;
			} else {
				return vfun_packet_bad_(rx);
			}
		}
		/*
		 * Where the next record begins is known from this one alone, so no
		 * processor reads ahead by itself. Only what is published: the sender
		 * needs the lines behind it.
		 */
		if (there > VFUN_PACKET_AHEAD + VFUN_PACKET_ALIGN) {
			VFUN_PACKET_PREFETCH(at + VFUN_PACKET_AHEAD);
			VFUN_PACKET_PREFETCH(at + VFUN_PACKET_AHEAD + VFUN_PACKET_ALIGN);
		}
		rx->tail += vfun_packet_record(*bytes);
		rx->taken++;
		rx->taken_bytes += *bytes;
		return at + VFUN_PACKET_RECORD_HEAD;
	}
	return (void *)0;
}

/*
 * The next frame and its bytes, or NULL: there is none. It stays where it is until
 * vfun_packet_take. With `noted`, which the caller clears, a note comes first, and its bytes
 * are among those.
 */
static inline const void *vfun_packet_next(struct vfun_packet_rx *rx, uint32_t *bytes)
{
	return vfun_packet_next_or_(rx, bytes, (uint64_t *)0);
}

/*
 * The frame that came last was not used: too long for here, or no memory for it. Its bytes are
 * those without a note.
 */
static inline void vfun_packet_refuse(struct vfun_packet_rx *rx, uint32_t bytes)
{
	rx->taken--;
	rx->taken_bytes -= bytes;
	rx->refused++;
}

/* Gives the sender the room of all that came before `tail`, and shows the counts. */
static inline void vfun_packet_take_to_(struct vfun_packet_rx *rx, uint64_t tail)
{
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_TAKEN, rx->taken);
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_TAKEN_BYTES, rx->taken_bytes);
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_REFUSED, rx->refused);
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_BAD, rx->bad);
	if (tail != rx->told)
		VFUN_PACKET_STORE_RELEASE(rx->mine + VFUN_PACKET_TAIL, tail);
	rx->told = tail;
}

/* Gives the sender the room of all that came, and shows the counts. */
static inline void vfun_packet_take(struct vfun_packet_rx *rx)
{
	vfun_packet_take_to_(rx, rx->tail);
}

/*
 * Asks to be rung for the next frame. Look once more after it (vfun_packet_is_there),
 * then sleep. It is asked once: awake, nobody rings.
 */
static inline void vfun_packet_declare_sleep(const struct vfun_packet_rx *rx)
{
	VFUN_PACKET_STORE(rx->mine + VFUN_PACKET_WAKE, rx->tail);
	VFUN_PACKET_FENCE();
}

#ifdef __cplusplus
}
#endif

#endif
