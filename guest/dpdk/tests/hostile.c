/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both ends of a port against a peer that writes while they read, under the address
 * sanitizer, with pages behind and before each side that nobody may touch. Prints how
 * much was written; ends by a signal if an end touches what it must not.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vfun_packet.h"

#define RING 65536
#define SIDE (VFUN_PACKET_RING_OFF + RING)

static unsigned char *sides[2];
static volatile int is_over;

static unsigned char *side(void)
{
	unsigned char *at = mmap(NULL, SIDE + 2 * 4096, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + 4096, SIDE, PROT_READ | PROT_WRITE))
		exit(2);
	return at + 4096;
}

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A word that an end may believe, or that is near to one. */
static uint64_t word(uint64_t *state)
{
	switch (draw(state) % 8) {
	case 0: return draw(state);
	case 1: return 0 - draw(state) % RING;
	case 2: return draw(state) % 8 * 64;
	default: return (draw(state) % 9 > 0 ? 1ull << 32 : 0) | draw(state) % (RING * 3 / 4);
	}
}

/*
 * Writes anything anywhere: mostly heads of records where records begin, and positions
 * that can be true, so that an end goes on to the lengths.
 */
static void *scribble(void *count)
{
	uint64_t state = 88172645463325252ull, n, *s, at;

	for (n = 0; n < *(uint64_t *)count; n++) {
		s = (uint64_t *)(void *)sides[draw(&state) & 1];
		at = draw(&state) % (SIDE / 8);
		switch (draw(&state) % 16) {
		case 0:
			VFUN_PACKET_STORE(s + draw(&state) % 32, word(&state));
			break;
		case 1:
			VFUN_PACKET_STORE(s + at, word(&state));
			break;
		case 2:
		case 3:
			/* Ours is the first one. */
			at = VFUN_PACKET_LOAD((uint64_t *)(void *)sides[0] + VFUN_PACKET_TAIL);
			at = (at & ~63ull) + draw(&state) % (RING / 64 + 2) * 64;
			VFUN_PACKET_STORE((uint64_t *)(void *)sides[1] + VFUN_PACKET_HEAD, at);
			break;
		default:
			VFUN_PACKET_STORE(s + at / 8 * 8, word(&state));
		}
	}
	is_over = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000, frames = 0, state = 5;
	unsigned char *copy;
	struct vfun_packet_tx tx;
	struct vfun_packet_rx rx;
	pthread_t scribbler;
	uint32_t bytes;

	sides[0] = side();
	sides[1] = side();
	vfun_packet_tx_init(&tx, sides[0], sides[1], RING);
	vfun_packet_rx_init(&rx, sides[0], sides[1], RING);
	if (pthread_create(&scribbler, NULL, scribble, &count))
		return 2;
	while (!is_over) {
		const void *from = vfun_packet_next(&rx, &bytes);
		void *to;

		if (from) {
			/* As long as the frame: one byte too many is found. */
			copy = malloc(bytes);
			if (!copy)
				return 2;
			memcpy(copy, from, bytes);
			/* The copy is used: a compiler must not leave it out. */
			__asm__ volatile("" : : "r"(copy) : "memory");
			free(copy);
			frames++;
		}
		vfun_packet_take(&rx);
		bytes = (uint32_t)(draw(&state) % 40000);
		to = vfun_packet_put(&tx, bytes);
		if (to)
			memset(to, 7, bytes);
		vfun_packet_publish(&tx);
		vfun_packet_must_ring(&tx);
	}
	pthread_join(scribbler, NULL);
	printf("%llu words written, %llu frames believed, %llu times nonsense\n",
	       (unsigned long long)count, (unsigned long long)frames, (unsigned long long)rx.bad);
	return rx.bad ? 0 : 1;
}
