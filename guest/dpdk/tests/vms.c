/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two VMs of a direct link, for tests of the driver: one sends numbered frames, the other one
 * looks whether all of them come, once and in order. A library that links.py loads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "vfun_link_ring.h"

#define SOURCES 4
#define BURST_MAX 29
#define BYTES_MIN 60
/* A frame's source and number stand behind its header. */
#define SOURCE_AT 14
#define NUMBER_AT 16
/* A sender waits no longer for frames that do not come. */
#define STALLED_MS 500

struct sender {
	struct vfun_linked_tx tx;
	pthread_mutex_t lock;
	uint64_t sent;                  /* the last number */
	uint64_t *came;                 /* the last number that its receiver has */
	uint64_t lost;                  /* up to here none is waited for */
	uint64_t window;                /* frames that may be under way */
	unsigned int nap_us, flows;     /* frames belong to so many flows in turn, each a source of its own */
	int source, stop, hold;
};

struct receiver {
	struct vfun_linked_rx rx;
	pthread_mutex_t lock;
	uint64_t last[SOURCES];         /* the last number of each source */
	uint64_t missing[SOURCES], early[SOURCES], strange;
	uint64_t by_port, by_link;
	int stop, hold;
};

/* Zeros that child processes share, with a lock among them. */
static void *shared(size_t bytes, size_t lock)
{
	unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;

	if (at == MAP_FAILED)
		abort();
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init((pthread_mutex_t *)(void *)(at + lock), &attributes);
	return at;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the sender ----------------------------------------------------- */

struct sender *sender_new(void *mine, const void *theirs, uint64_t ring, int source,
			  uint64_t *came, uint64_t window)
{
	struct sender *s = shared(sizeof(*s), offsetof(struct sender, lock));

	s->source = source;
	s->came = came;
	s->window = window;
	s->nap_us = 20;
	s->flows = 1;
	vfun_linked_tx_init(&s->tx, mine, theirs, ring);
	return s;
}

/* As a VM that is started anew, with other memory. */
void sender_renew(struct sender *s, void *mine, const void *theirs, uint64_t ring)
{
	pthread_mutex_lock(&s->lock);
	vfun_linked_tx_init(&s->tx, mine, theirs, ring);
	pthread_mutex_unlock(&s->lock);
}

int sender_attach(struct sender *s, uint64_t number, void *mine, const void *theirs, uint64_t ring)
{
	int ret;

	pthread_mutex_lock(&s->lock);
	ret = vfun_linked_tx_attach(&s->tx, number, mine, theirs, ring);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

void sender_detach(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	vfun_linked_tx_detach(&s->tx);
	pthread_mutex_unlock(&s->lock);
}

static int put(struct sender *s, uint64_t sent)
{
	unsigned char source = (unsigned char)(s->source + (int)((sent - 1) % s->flows));
	uint64_t number = (sent - 1) / s->flows + 1;
	uint32_t bytes = BYTES_MIN + (uint32_t)(number % 7) * 100;
	unsigned char *to = vfun_linked_tx_put(&s->tx, bytes);

	if (!to)
		return 0;
	memset(to, 0, bytes);
	to[0] = 2;
	to[6] = 2;
	to[11] = source;
	/* An EtherType of tests. */
	to[12] = 0x88;
	to[13] = 0xb5;
	to[SOURCE_AT] = source;
	memcpy(to + NUMBER_AT, &number, sizeof(number));
	return 1;
}

static void burst(struct sender *s)
{
	/* Of different sizes: a switch that sends by 32 keeps a rest. */
	unsigned int i, frames = 1 + (unsigned int)(s->sent % BURST_MAX);

	for (i = 0; i < frames && !s->hold; i++) {
		uint64_t came = __atomic_load_n(s->came, __ATOMIC_ACQUIRE);

		/* Of the first flow. */
		came = came ? (came - 1) * s->flows + 1 : 0;
		if (came < s->lost)
			came = s->lost;
		if (s->sent - came >= s->window || !put(s, s->sent + 1))
			break;
		s->sent++;
	}
	vfun_linked_tx_publish(&s->tx);
}

/* Sends until it is stopped. */
void sender_run(struct sender *s)
{
	uint64_t sent = 0, since = now_ms();

	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&s->lock);
		burst(s);
		if (s->sent != sent)
			since = now_ms();
		else if (now_ms() - since > STALLED_MS)
			s->lost = s->sent;
		sent = s->sent;
		pthread_mutex_unlock(&s->lock);
		usleep(s->nap_us);
	}
}

/* With hold it sends nothing, and makes turns; a stopped one does not even that. */
void sender_hold(struct sender *s, int hold)
{
	pthread_mutex_lock(&s->lock);
	s->hold = hold;
	pthread_mutex_unlock(&s->lock);
}

void sender_stop(struct sender *s, int stop)
{
	__atomic_store_n(&s->stop, stop, __ATOMIC_RELEASE);
}

void sender_nap(struct sender *s, unsigned int us)
{
	s->nap_us = us;
}

/* Before it runs. */
void sender_flows(struct sender *s, unsigned int flows)
{
	s->flows = flows;
}

uint64_t sender_sent(struct sender *s)
{
	return __atomic_load_n(&s->sent, __ATOMIC_ACQUIRE);
}

/* ---- the receiver --------------------------------------------------- */

struct receiver *receiver_new(void *mine, const void *theirs, uint64_t ring)
{
	struct receiver *r = shared(sizeof(*r), offsetof(struct receiver, lock));

	vfun_linked_rx_init(&r->rx, mine, theirs, ring);
	return r;
}

void receiver_renew(struct receiver *r, void *mine, const void *theirs, uint64_t ring)
{
	pthread_mutex_lock(&r->lock);
	vfun_linked_rx_init(&r->rx, mine, theirs, ring);
	pthread_mutex_unlock(&r->lock);
}

int receiver_attach(struct receiver *r, uint64_t number, void *mine, const void *theirs, uint64_t ring)
{
	int ret;

	pthread_mutex_lock(&r->lock);
	ret = vfun_linked_rx_attach(&r->rx, number, mine, theirs, ring);
	pthread_mutex_unlock(&r->lock);
	return ret;
}

void receiver_detach(struct receiver *r)
{
	pthread_mutex_lock(&r->lock);
	vfun_linked_rx_detach(&r->rx);
	pthread_mutex_unlock(&r->lock);
}

uint64_t *receiver_came(struct receiver *r, int source)
{
	return &r->last[source];
}

static void take(struct receiver *r, const unsigned char *from, uint32_t bytes)
{
	uint64_t number;
	unsigned int source;

	if (bytes < BYTES_MIN || from[12] != 0x88 || from[13] != 0xb5 || from[SOURCE_AT] >= SOURCES) {
		r->strange++;
		return;
	}
	source = from[SOURCE_AT];
	memcpy(&number, from + NUMBER_AT, sizeof(number));
	if (number <= r->last[source]) {
		r->early[source]++;
		return;
	}
	r->missing[source] += number - r->last[source] - 1;
	__atomic_store_n(&r->last[source], number, __ATOMIC_RELEASE);
	if (r->rx.last == &r->rx.port)
		r->by_port++;
	else
		r->by_link++;
}

/* Takes frames until it is stopped. */
void receiver_run(struct receiver *r)
{
	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		int looks, more = 0, none = 0;
		uint32_t bytes;

		pthread_mutex_lock(&r->lock);
		for (looks = 0; looks < 256 && !none && !r->hold; looks++) {
			const void *from = vfun_linked_rx_next(&r->rx, &bytes, &more);

			if (from)
				take(r, from, bytes);
			none = !from && !more;
		}
		vfun_linked_rx_take(&r->rx);
		pthread_mutex_unlock(&r->lock);
		usleep(20);
	}
}

void receiver_hold(struct receiver *r, int hold)
{
	pthread_mutex_lock(&r->lock);
	r->hold = hold;
	pthread_mutex_unlock(&r->lock);
}

void receiver_stop(struct receiver *r)
{
	__atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
}

/* 0 missing, 1 repeated or out of order, 2 no frames of ours, 3 by the port, 4 by the link. */
uint64_t receiver_count(struct receiver *r, int which, int source)
{
	uint64_t counts[] = { r->missing[source], r->early[source], r->strange, r->by_port, r->by_link };

	return counts[which];
}
