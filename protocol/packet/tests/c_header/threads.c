/*
 * The parties of a direct link in C, as real threads on real memory: numbered frames, a
 * software switch with a queue in the middle, and handovers under them. Says what was sent,
 * what came, what of it over the link, and what the switch dropped; ends with 1 at a frame
 * that is out of order.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "vfun_link_ring.h"

#define RING 4096
#define LINK 3
#define QUEUE 32
#define OVER_LINK 8     /* frames over a link before it is taken back */

static unsigned char *sides[6];
static struct vfun_line line;
static uint64_t flips;
static uint64_t sent = ~(uint64_t)0;    /* when A has stopped */
static uint64_t lost, got;
static int is_over, is_done;

static void *sender(void *arg)
{
	struct vfun_linked_tx tx;
	uint64_t number = 0, *to;
	unsigned int i;

	vfun_linked_tx_init(&tx, sides[0], sides[1], RING);
	vfun_linked_tx_attach(&tx, LINK, sides[4], sides[5], RING);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		for (i = 0; i <= number % 7; i++) {
			to = (uint64_t *)vfun_linked_tx_put(&tx, sizeof(number));
			if (!to) {
				sched_yield();
				break;
			}
			VFUN_PACKET_STORE(to, ++number);
		}
		vfun_linked_tx_publish(&tx);
	}
	__atomic_store_n(&sent, number, __ATOMIC_RELEASE);
	return arg;
}

/* C's frames are longer. */
static void take(const void *from, uint32_t bytes)
{
	static uint64_t last;
	uint64_t number;

	if (bytes != sizeof(number))
		return;
	number = VFUN_PACKET_LOAD((const uint64_t *)from);
	if (number <= last) {
		printf("%llu came after %llu\n", (unsigned long long)number, (unsigned long long)last);
		exit(1);
	}
	last = number;
	got++;
}

static void *receiver(void *arg)
{
	struct vfun_linked_rx rx;
	const void *from;
	uint32_t bytes;
	int i, more;

	vfun_linked_rx_init(&rx, sides[2], sides[3], RING);
	vfun_linked_rx_attach(&rx, LINK, sides[5], sides[4], RING);
	while (got + __atomic_load_n(&lost, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&sent, __ATOMIC_ACQUIRE)) {
		more = 1;
		for (i = 0; i < 16; i++) {
			from = vfun_linked_rx_next(&rx, &bytes, &more);
			if (from)
				take(from, bytes);
			else if (!more)
				break;
		}
		vfun_linked_rx_take(&rx);
		if (!i)
			sched_yield();
	}
	__atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
	return arg;
}

static struct vfun_fence fence;
static struct vfun_closer closer;
static struct vfun_packet_tx out;
static struct { uint64_t stamp, number; } queue[QUEUE];
static unsigned int first, count;

static void turn_of_switch(unsigned int n)
{
	uint32_t bytes;
	const void *from;
	uint64_t *to;
	int more = 1;

	while (count < QUEUE && more) {
		from = vfun_fence_next(&fence, &bytes, &more);
		if (!from)
			continue;
		more = 1;
		queue[(first + count) % QUEUE].stamp = fence.stamp;
		queue[(first + count++) % QUEUE].number = VFUN_PACKET_LOAD((const uint64_t *)from);
	}
	vfun_packet_take(&fence.port);
	vfun_closer_run(&closer, &out);
	/* It keeps some of them now and then. */
	while (count > n % 5) {
		to = (uint64_t *)vfun_closer_put(&closer, &out, 8, queue[first].stamp);
		if (to)
			VFUN_PACKET_STORE(to, queue[first].number);
		else
			__atomic_fetch_add(&lost, 1, __ATOMIC_RELEASE);
		first = (first + 1) % QUEUE;
		count--;
	}
	vfun_closer_run(&closer, &out);
	if (n % 3 == 0) {
		to = (uint64_t *)vfun_packet_put(&out, 40);
		if (to)
			memset(to, 3, 40);
	}
	vfun_packet_publish(&out);
}

/* What an honest manager does where nobody is ever silent. */
static void turn_of_manager(void)
{
	static uint64_t turn = 1, since;        /* the last turn that is made */
	static int is_told;
	uint64_t made, open, over_link, *words = (uint64_t *)(void *)sides[1];

	made = VFUN_PACKET_LOAD_ACQUIRE((uint64_t *)(void *)sides[0] + VFUN_LINKED_ACK);
	open = VFUN_PACKET_LOAD_ACQUIRE((uint64_t *)(void *)sides[2] + VFUN_LINKED_OPEN);
	over_link = VFUN_PACKET_LOAD((uint64_t *)(void *)sides[5] + VFUN_PACKET_TAKEN);
	if (is_told) {
		if (made != turn + 1 || open != turn + 1)
			return;
		is_told = 0;
		turn++;
	}
	if (turn >> 1 == flips && turn & 1) {
		__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
		return;
	}
	if (turn & 1 ? !vfun_fence_allow(&fence, (turn + 1) >> 1) : over_link - since < OVER_LINK)
		return;
	since = over_link;
	is_told = 1;
	VFUN_PACKET_STORE_RELEASE(words + VFUN_LINKED_TURN, turn + 1);
}

int main(int argc, char **argv)
{
	pthread_t a, b;
	unsigned int i;
	void *at;

	/* Only so that a test that fails ends. */
	alarm(120);
	flips = argc > 1 ? strtoull(argv[1], 0, 10) : 10000;
	for (i = 0; i < 6; i++) {
		if (posix_memalign(&at, 4096, 4096 + RING))
			return 2;
		memset(at, 0, 4096 + RING);
		sides[i] = (unsigned char *)at;
	}
	((uint64_t *)(void *)sides[1])[VFUN_LINKED_LINK_OUT] = LINK;
	((uint64_t *)(void *)sides[3])[VFUN_LINKED_LINK_IN] = LINK;
	vfun_fence_init(&fence, sides[1], sides[0], RING);
	vfun_packet_tx_init(&out, sides[3], sides[2], RING);
	vfun_fence_line(&fence, &line, LINK, 0);
	vfun_closer_init(&closer, &line, LINK);
	if (pthread_create(&a, 0, sender, 0) || pthread_create(&b, 0, receiver, 0))
		return 2;
	for (i = 1; !__atomic_load_n(&is_done, __ATOMIC_ACQUIRE); i++) {
		turn_of_switch(i);
		turn_of_manager();
		if (!count)
			sched_yield();
	}
	pthread_join(a, 0);
	pthread_join(b, 0);
	printf("%llu %llu %llu %llu\n", (unsigned long long)sent, (unsigned long long)got,
	       (unsigned long long)((uint64_t *)(void *)sides[5])[VFUN_PACKET_TAKEN],
	       (unsigned long long)lost);
	return 0;
}
