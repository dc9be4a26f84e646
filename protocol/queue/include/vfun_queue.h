/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Queues over a window, for C (C99) and C++: entries of a fixed size that go
 * one way, from one producer to one consumer, in batches. The rules are R-QUE
 * of docs/protocol.md; protocol/queue is the same in Rust, and its tests hold
 * the two against each other.
 *
 * For user space, DPDK and the kernel. Nothing here calls a library (copies of
 * a constant size are the compiler's), sleeps, rings or allocates: doorbells
 * are the caller's. Each end belongs to one thread at a time.
 *
 *	n = vfun_queue_produce(&p, entries, count);
 *	if (n && vfun_queue_must_ring(&p.end))
 *		ring();
 *
 * The first 4 bytes of each entry are the queue's. What comes out of a queue
 * was written by the peer: it was copied once, is private from then on, and is
 * to be checked like any such bytes.
 *
 * How memory is reached may be set before this file is included:
 * VFUN_QUEUE_LOAD, _LOAD_ACQUIRE, _STORE, _STORE_RELEASE, _FENCE, _COPY.
 */
#ifndef VFUN_QUEUE_H
#define VFUN_QUEUE_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>
#else
#include <stdint.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vfun_queue.h: words are stored as they are on little-endian machines"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VFUN_QUEUE_LOAD
#ifdef __KERNEL__
/* virt_: the peer runs on another processor even where this guest has one. */
#define VFUN_QUEUE_LOAD(p) READ_ONCE(*(p))
#define VFUN_QUEUE_LOAD_ACQUIRE(p) virt_load_acquire((p))
#define VFUN_QUEUE_STORE(p, v) WRITE_ONCE(*(p), v)
#define VFUN_QUEUE_STORE_RELEASE(p, v) virt_store_release((p), v)
#define VFUN_QUEUE_FENCE() virt_mb()
#else
#define VFUN_QUEUE_LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define VFUN_QUEUE_LOAD_ACQUIRE(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define VFUN_QUEUE_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define VFUN_QUEUE_STORE_RELEASE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define VFUN_QUEUE_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#endif

#ifndef VFUN_QUEUE_COPY
#define VFUN_QUEUE_COPY(to, from, bytes) __builtin_memcpy(to, from, bytes)
#endif

/* ---- layout --------------------------------------------------------- */

#define VFUN_QUEUE_STAMP_BYTES 4
#define VFUN_QUEUE_ENTRIES_OFF 4096
#define VFUN_QUEUE_CONSUMER_BYTES 4096
/* Words of either header page. */
#define VFUN_QUEUE_SLEEPS 0
#define VFUN_QUEUE_BROKEN 1
#define VFUN_QUEUE_POSITION 8

/* ---- limits --------------------------------------------------------- */

#define VFUN_QUEUE_ENTRY_BYTES_MIN 16
#define VFUN_QUEUE_ENTRY_BYTES_MAX 128
#define VFUN_QUEUE_DEPTH_MIN 2
#define VFUN_QUEUE_DEPTH_MAX 65536

/* Values of the word VFUN_QUEUE_BROKEN; 0 is a queue that serves. */
enum vfun_queue_reason {
	VFUN_QUEUE_REASON_BAD_STAMP = 1,
	VFUN_QUEUE_REASON_BAD_COUNT = 2,
	VFUN_QUEUE_REASON_CLOSED = 3
};

/* The number that the entry at `position` (from 0) bears. */
static inline uint32_t vfun_queue_stamp(uint64_t position)
{
	return (uint32_t)(position + 1);
}

/* Whether there are queues of this shape. */
static inline int vfun_queue_shape_ok(uint32_t entry_bytes, uint32_t depth)
{
	return entry_bytes >= VFUN_QUEUE_ENTRY_BYTES_MIN &&
	       entry_bytes <= VFUN_QUEUE_ENTRY_BYTES_MAX &&
	       (entry_bytes & (entry_bytes - 1)) == 0 &&
	       depth >= VFUN_QUEUE_DEPTH_MIN && depth <= VFUN_QUEUE_DEPTH_MAX &&
	       (depth & (depth - 1)) == 0;
}

/* Bytes of the producer's side; 0 where there are no such queues. */
static inline uint64_t vfun_queue_producer_bytes(uint32_t entry_bytes, uint32_t depth)
{
	uint64_t entries = (uint64_t)entry_bytes * depth;

	if (!vfun_queue_shape_ok(entry_bytes, depth))
		return 0;
	return VFUN_QUEUE_ENTRIES_OFF + ((entries + 4095) & ~(uint64_t)4095);
}

/* Whether two sides of these lengths in bytes hold a queue of this shape. */
static inline int vfun_queue_fits(uint64_t producer_bytes, uint64_t consumer_bytes,
				  uint32_t entry_bytes, uint32_t depth)
{
	return vfun_queue_shape_ok(entry_bytes, depth) &&
	       producer_bytes >= vfun_queue_producer_bytes(entry_bytes, depth) &&
	       consumer_bytes >= VFUN_QUEUE_CONSUMER_BYTES;
}

/* ---- both ends ------------------------------------------------------ */

struct vfun_queue_end {
	uint64_t *mine;         /* the header page that this end writes */
	const uint64_t *theirs; /* the header page that it reads */
	uint64_t mask;
	uint64_t position;      /* produced, or consumed: never read back */
	uint32_t entry_bytes;
	uint32_t broken;        /* why the queue no longer serves, or 0 */
};

static inline void vfun_queue_end_init_(struct vfun_queue_end *end, uint64_t *mine,
					const uint64_t *theirs, uint32_t entry_bytes,
					uint32_t depth)
{
	end->mine = mine;
	end->theirs = theirs;
	end->mask = (uint64_t)depth - 1;
	end->position = VFUN_QUEUE_LOAD(mine + VFUN_QUEUE_POSITION);
	end->entry_bytes = entry_bytes;
	end->broken = 0;
}

/* The word where an entry begins, from a side's start: inside, whatever `position` is. */
static inline uint64_t vfun_queue_word_(const struct vfun_queue_end *end, uint64_t position)
{
	return VFUN_QUEUE_ENTRIES_OFF / 8 + (position & end->mask) * (end->entry_bytes / 8);
}

/* The stamp that stands where the entry at `position` is to come. */
static inline uint32_t vfun_queue_stamp_before_(const struct vfun_queue_end *end, uint64_t position)
{
	return position <= end->mask ? 0 : vfun_queue_stamp(position - end->mask - 1);
}

/* Bytes 8 and up of an entry. The sizes are constants, so no function is called. */
static inline void vfun_queue_copy_(void *to, const void *from, uint32_t entry_bytes)
{
	switch (entry_bytes) {
	case 16:
		VFUN_QUEUE_COPY(to, from, 8);
		break;
	case 32:
		VFUN_QUEUE_COPY(to, from, 24);
		break;
	case 64:
		VFUN_QUEUE_COPY(to, from, 56);
		break;
	default:
		VFUN_QUEUE_COPY(to, from, 120);
		break;
	}
}

/* The queue is broken from now on, and the peer is told (R-QUE-6). */
static inline int vfun_queue_break_(struct vfun_queue_end *end, enum vfun_queue_reason reason)
{
	VFUN_QUEUE_STORE_RELEASE(end->mine + VFUN_QUEUE_BROKEN, (uint64_t)reason);
	end->broken = (uint32_t)reason;
	return -1;
}

/* This end will do no more. Ring the other one after it, if it sleeps. */
static inline void vfun_queue_close(struct vfun_queue_end *end)
{
	vfun_queue_break_(end, VFUN_QUEUE_REASON_CLOSED);
}

/* The reason why the other end has ended the queue, or 0. Looked at now and then. */
static inline uint64_t vfun_queue_ended(const struct vfun_queue_end *end)
{
	return VFUN_QUEUE_LOAD_ACQUIRE(end->theirs + VFUN_QUEUE_BROKEN);
}

/* As vfun_queue_must_ring, but may miss a declaration of this very moment (R-SLP-3). */
static inline int vfun_queue_seems_asleep(const struct vfun_queue_end *end)
{
	return VFUN_QUEUE_LOAD(end->theirs + VFUN_QUEUE_SLEEPS) != 0;
}

/* Whether the other end must be rung for all that was done so far (R-QUE-8). */
static inline int vfun_queue_must_ring(const struct vfun_queue_end *end)
{
	VFUN_QUEUE_FENCE();
	return vfun_queue_seems_asleep(end);
}

/* Declares sleep. Look once more after it, then sleep. */
static inline void vfun_queue_declare_sleep(const struct vfun_queue_end *end)
{
	VFUN_QUEUE_STORE(end->mine + VFUN_QUEUE_SLEEPS, (uint64_t)1);
	VFUN_QUEUE_FENCE();
}

static inline void vfun_queue_declare_awake(const struct vfun_queue_end *end)
{
	VFUN_QUEUE_STORE_RELEASE(end->mine + VFUN_QUEUE_SLEEPS, (uint64_t)0);
}

/* ---- the producer --------------------------------------------------- */

struct vfun_queue_producer {
	struct vfun_queue_end end;
	uint64_t consumed; /* what the consumer is known to have consumed */
};

/* A batch may be published and not noted, or written but for its first entry. */
static inline void vfun_queue_recover_(struct vfun_queue_end *end)
{
	uint64_t i, position, *at;

	for (i = 0; i <= end->mask; i++) {
		at = end->mine + vfun_queue_word_(end, end->position);
		if ((uint32_t)VFUN_QUEUE_LOAD(at) != vfun_queue_stamp(end->position))
			break;
		end->position++;
	}
	for (i = 1; i <= end->mask; i++) {
		position = end->position + i;
		at = end->mine + vfun_queue_word_(end, position);
		if ((uint32_t)VFUN_QUEUE_LOAD(at) == vfun_queue_stamp(position))
			VFUN_QUEUE_STORE(at, (uint64_t)vfun_queue_stamp_before_(end, position));
	}
}

/*
 * Takes a queue up: where an earlier producer left it, or at 0 where it is
 * freshly laid out (zeroed). `producer` and `consumer` are the two sides, page
 * aligned, with the bytes of memory that are mapped of each. 0, or -1 and nothing
 * was touched: there are no queues of this shape, or a side is too short for it.
 */
static inline int vfun_queue_producer_init(struct vfun_queue_producer *p, void *producer,
					   uint64_t producer_bytes, const void *consumer,
					   uint64_t consumer_bytes, uint32_t entry_bytes,
					   uint32_t depth)
{
	if (!vfun_queue_fits(producer_bytes, consumer_bytes, entry_bytes, depth))
		return -1;
	vfun_queue_end_init_(&p->end, (uint64_t *)producer, (const uint64_t *)consumer,
			     entry_bytes, depth);
	vfun_queue_recover_(&p->end);
	p->consumed = p->end.position > depth ? p->end.position - depth : 0;
	VFUN_QUEUE_STORE(p->end.mine + VFUN_QUEUE_POSITION, p->end.position);
	vfun_queue_declare_awake(&p->end);
	return 0;
}

/*
 * Entries that fit, or -1: the queue is broken. The consumer's count is only
 * loaded where fewer than `wanted` are known to fit.
 */
static inline int vfun_queue_room(struct vfun_queue_producer *p, uint32_t wanted)
{
	uint64_t room = p->end.mask + 1 - (p->end.position - p->consumed), found;

	if (p->end.broken)
		return -1;
	if (room >= wanted)
		return (int)room;
	found = VFUN_QUEUE_LOAD_ACQUIRE(p->end.theirs + VFUN_QUEUE_POSITION);
	if (found - p->consumed > p->end.position - p->consumed)
		return vfun_queue_break_(&p->end, VFUN_QUEUE_REASON_BAD_COUNT);
	p->consumed = found;
	return (int)(p->end.mask + 1 - (p->end.position - found));
}

/* `entry`'s first word with the queue's 4 bytes set. */
static inline uint64_t vfun_queue_first_(const unsigned char *entry, uint64_t position)
{
	uint64_t word;

	VFUN_QUEUE_COPY(&word, entry, 8);
	return (word & ~(uint64_t)0xffffffff) | vfun_queue_stamp(position);
}

/*
 * Puts as many of `count` entries as there is room for into the queue and
 * publishes all of them with one store. Says how many (0: full), or -1: the
 * queue is broken.
 */
static inline int vfun_queue_produce(struct vfun_queue_producer *p, const void *entries,
				     uint32_t count)
{
	const unsigned char *from = (const unsigned char *)entries;
	const uint32_t bytes = p->end.entry_bytes;
	const uint64_t first = p->end.position;
	const int room = vfun_queue_room(p, count);
	uint64_t i, *at;

	if (room <= 0 || count == 0)
		return room < 0 ? -1 : 0;
	if (count > (uint32_t)room)
		count = (uint32_t)room;
	for (i = 1; i < count; i++) {
		at = p->end.mine + vfun_queue_word_(&p->end, first + i);
		vfun_queue_copy_(at + 1, from + i * bytes + 8, bytes);
		VFUN_QUEUE_STORE(at, vfun_queue_first_(from + i * bytes, first + i));
	}
	/* R-QUE-3: the first word of the first entry is stored last, with release. */
	at = p->end.mine + vfun_queue_word_(&p->end, first);
	vfun_queue_copy_(at + 1, from + 8, bytes);
	VFUN_QUEUE_STORE_RELEASE(at, vfun_queue_first_(from, first));
	p->end.position = first + count;
	VFUN_QUEUE_STORE(p->end.mine + VFUN_QUEUE_POSITION, p->end.position);
	return (int)count;
}

/* ---- the consumer --------------------------------------------------- */

struct vfun_queue_consumer {
	struct vfun_queue_end end;
};

/* As vfun_queue_producer_init, for the other end. */
static inline int vfun_queue_consumer_init(struct vfun_queue_consumer *c, void *consumer,
					   uint64_t consumer_bytes, const void *producer,
					   uint64_t producer_bytes, uint32_t entry_bytes,
					   uint32_t depth)
{
	if (!vfun_queue_fits(producer_bytes, consumer_bytes, entry_bytes, depth))
		return -1;
	vfun_queue_end_init_(&c->end, (uint64_t *)consumer, (const uint64_t *)producer,
			     entry_bytes, depth);
	vfun_queue_declare_awake(&c->end);
	return 0;
}

/* Whether the first word `word` is that of an entry to come (0), or broken (-1). */
static inline int vfun_queue_nothing_(struct vfun_queue_consumer *c, uint64_t word)
{
	if ((uint32_t)word == vfun_queue_stamp_before_(&c->end, c->end.position))
		return 0;
	return vfun_queue_break_(&c->end, VFUN_QUEUE_REASON_BAD_STAMP);
}

/* Whether an entry is there: 1, 0, or -1: the queue is broken. */
static inline int vfun_queue_is_there(struct vfun_queue_consumer *c)
{
	const uint64_t *at = c->end.theirs + vfun_queue_word_(&c->end, c->end.position);
	uint64_t word;

	if (c->end.broken)
		return -1;
	word = VFUN_QUEUE_LOAD_ACQUIRE(at);
	if ((uint32_t)word == vfun_queue_stamp(c->end.position))
		return 1;
	return vfun_queue_nothing_(c, word);
}

/*
 * Copies the next entries, at most `count`, into private memory and makes room
 * for as many with one store. Says how many (0: none is there), or -1: the
 * queue is broken.
 */
static inline int vfun_queue_consume(struct vfun_queue_consumer *c, void *entries, uint32_t count)
{
	unsigned char *to = (unsigned char *)entries;
	const uint32_t bytes = c->end.entry_bytes;
	uint64_t position = c->end.position, word;
	const uint64_t *at;
	uint32_t n;

	if (c->end.broken)
		return -1;
	for (n = 0; n < count; n++, position++, to += bytes) {
		at = c->end.theirs + vfun_queue_word_(&c->end, position);
		/* R-QUE-4: what was stored before this word was stored is there. */
		word = VFUN_QUEUE_LOAD_ACQUIRE(at);
		if ((uint32_t)word != vfun_queue_stamp(position)) {
			/* What is wrong here is found at the next look, at the head. */
			if (n == 0)
				return vfun_queue_nothing_(c, word);
			break;
		}
		word &= ~(uint64_t)0xffffffff;
		VFUN_QUEUE_COPY(to, &word, 8);
		vfun_queue_copy_(to + 8, at + 1, bytes);
	}
	c->end.position = position;
	/* R-QUE-5: the count is stored after the entries were copied. */
	VFUN_QUEUE_STORE_RELEASE(c->end.mine + VFUN_QUEUE_POSITION, position);
	return (int)n;
}

#ifdef __cplusplus
}
#endif

#endif
