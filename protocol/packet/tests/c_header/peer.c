/* Both ends of a ring in C: does what it is told, line by line, and says what came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "vfun_packet.h"

static unsigned char *side(uint64_t ring)
{
	void *at = 0;

	if (posix_memalign(&at, 4096, VFUN_PACKET_RING_OFF + ring))
		exit(1);
	memset(at, 0, VFUN_PACKET_RING_OFF + ring);
	return (unsigned char *)at;
}

static void put(struct vfun_packet_tx *tx, uint32_t bytes, uint32_t seed, int noted)
{
	unsigned char *to = (unsigned char *)(noted ? vfun_packet_put_noted(tx, bytes) :
					      vfun_packet_put(tx, bytes));
	uint32_t i;

	for (i = 0; to && noted && i < VFUN_PACKET_NOTE_BYTES; i++)
		to[i] = (unsigned char)(i < 10 ? (seed >> i % 4 * 8 & 255) ^ i : 0);
	if (to && noted)
		to += VFUN_PACKET_NOTE_BYTES;
	for (i = 0; to && i < bytes; i++)
		to[i] = (unsigned char)(seed + i);
	/* The Rust end writes whole words. */
	for (; to && i % 8; i++)
		to[i] = 0;
	printf("%s\n", to ? "put" : "no");
}

static void get(struct vfun_packet_rx *rx, uint32_t room, int takes_notes)
{
	const unsigned char *from;
	uint32_t bytes, i, sum = 0, of_note = 0;

	rx->takes_notes = takes_notes;
	from = (const unsigned char *)vfun_packet_next(rx, &bytes);
	for (i = 0; i < 10; i++)
		of_note = of_note * 31 + (from && rx->noted ? from[i] : 0);
	if (from && rx->noted) {
		from += VFUN_PACKET_NOTE_BYTES;
		bytes -= VFUN_PACKET_NOTE_BYTES;
	}
	rx->noted = 0;
	if (!from) {
		printf("none\n");
		return;
	}
	if (bytes > room) {
		vfun_packet_refuse(rx, bytes);
		printf(takes_notes ? "got 0 0 note %u\n" : "got 0 0\n", of_note);
		return;
	}
	for (i = 0; i < bytes; i++)
		sum = sum * 31 + from[i];
	printf(takes_notes ? "got %u %u note %u\n" : "got %u %u\n", bytes, sum, of_note);
}

int main(void)
{
	unsigned long long a, b, ring = 4096;
	unsigned char *s = side(ring), *r = side(ring);
	struct vfun_packet_tx tx;
	struct vfun_packet_rx rx;
	char op;

	vfun_packet_tx_init(&tx, s, r, ring);
	vfun_packet_rx_init(&rx, r, s, ring);
	while (scanf(" %c %llu %llu", &op, &a, &b) == 3) {
		switch (op) {
		case 'p': put(&tx, (uint32_t)a, (uint32_t)b, 0); break;
		case 'P': put(&tx, (uint32_t)a, (uint32_t)b, 1); break;
		case 'u': printf("%d\n", vfun_packet_publish(&tx)); break;
		case 'r': printf("%d\n", vfun_packet_must_ring(&tx)); break;
		case 'g': get(&rx, (uint32_t)a, 0); break;
		case 'G': get(&rx, (uint32_t)a, 1); break;
		case 't': vfun_packet_take(&rx); printf("-\n"); break;
		case 's': vfun_packet_declare_sleep(&rx); printf("%d\n", vfun_packet_is_there(&rx)); break;
		case 'S': memcpy(s + a % (4096 + ring) / 8 * 8, &b, 8); printf("-\n"); break;
		case 'R': memcpy(r + a % 4096 / 8 * 8, &b, 8); printf("-\n"); break;
		case 'T': printf("%d\n", vfun_packet_tx_init(&tx, s, r, ring)); break;
		case 'U': printf("%d\n", vfun_packet_rx_init(&rx, r, s, ring)); break;
		}
	}
	fwrite(s, 1, 4096 + ring, stdout);
	fwrite(r, 1, 4096, stdout);
	return 0;
}
