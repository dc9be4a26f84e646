/* The parties of a direct link in C: do what they are told, line by line, and say what came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The host may go on to another link while the sender looks at its words. */
static void race(const void *at);
#define VFUN_PACKET_LOAD(p) (race(p), __atomic_load_n(p, __ATOMIC_RELAXED))
#define VFUN_PACKET_LOAD_ACQUIRE(p) (race(p), __atomic_load_n(p, __ATOMIC_ACQUIRE))
#define VFUN_PACKET_STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define VFUN_PACKET_STORE_RELEASE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define VFUN_PACKET_FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#include "vfun_link_ring.h"

#define RING 4096

static unsigned char *sides[6];
static struct vfun_line line;
static struct vfun_linked_tx tx;
static struct vfun_linked_rx rx;
static struct vfun_fence fence;
static struct vfun_closer closer;
static struct vfun_packet_tx out;

static int is_raced;
static uint64_t next_link;

static void race(const void *at)
{
	uint64_t *page = (uint64_t *)(void *)sides[1];

	if (!is_raced || at != page + VFUN_LINKED_LINK_OUT)
		return;
	is_raced = 0;
	page[VFUN_LINKED_TURN] = 0;
	page[VFUN_LINKED_LINK_OUT] = next_link;
}

static void *side(void)
{
	void *at = 0;

	if (posix_memalign(&at, 4096, VFUN_PACKET_RING_OFF + RING))
		exit(1);
	memset(at, 0, VFUN_PACKET_RING_OFF + RING);
	return at;
}

static void fill(void *to, uint32_t bytes, uint32_t seed)
{
	unsigned char *at = (unsigned char *)to;
	uint32_t i;

	for (i = 0; at && i < bytes; i++)
		at[i] = (unsigned char)(seed + i);
	/* The Rust end writes whole words. */
	for (; at && i % 8; i++)
		at[i] = 0;
	printf("%s\n", to ? "put" : "no");
}

static uint32_t sum(const void *from, uint32_t bytes)
{
	const unsigned char *at = (const unsigned char *)from;
	uint32_t i, sum = 0;

	for (i = 0; i < bytes; i++)
		sum = sum * 31 + at[i];
	return sum;
}

/* What came, as the Rust ends say it: what is no frame has 0 bytes. */
static void got(const void *from, uint32_t bytes, int more)
{
	if (from)
		printf("got %u %u\n", bytes, sum(from, bytes));
	else
		printf(more ? "got 0 0\n" : "none\n");
}

static void receive(uint32_t room)
{
	uint32_t bytes;
	int more;
	const void *from = vfun_linked_rx_next(&rx, &bytes, &more);

	if (from && bytes > room) {
		vfun_linked_rx_refuse(&rx, bytes);
		got(0, 0, 1);
		return;
	}
	got(from, bytes, more);
}

static void read_port(uint32_t room)
{
	uint32_t bytes;
	int more;
	const void *from = vfun_fence_next(&fence, &bytes, &more);

	printf("%llu ", (unsigned long long)fence.stamp - (from && bytes > room));
	if (from && bytes > room) {
		vfun_fence_refuse(&fence, bytes);
		got(0, 0, 1);
		return;
	}
	got(from, bytes, more);
}

static void new_line(uint64_t link, uint64_t allowed)
{
	memset(&line, 0, sizeof(line));
	vfun_fence_line(&fence, &line, link, allowed);
	vfun_closer_init(&closer, &line, link);
	printf("-\n");
}

static void take_up(unsigned long long who)
{
	struct vfun_packet_tx plain_tx;
	struct vfun_packet_rx plain_rx;

	switch (who % 6) {
	case 0: vfun_linked_tx_init(&tx, sides[0], sides[1], RING); break;
	case 1: vfun_linked_rx_init(&rx, sides[2], sides[3], RING); break;
	case 2: vfun_fence_init(&fence, sides[1], sides[0], RING); break;
	case 3: vfun_packet_tx_init(&out, sides[3], sides[2], RING); break;
	case 4: vfun_packet_tx_init(&plain_tx, sides[0], sides[1], RING); break;
	case 5: vfun_packet_rx_init(&plain_rx, sides[2], sides[3], RING); break;
	}
	printf("-\n");
}

static void vm(char op, unsigned long long a, unsigned long long b)
{
	switch (op) {
	case 's': fill(vfun_linked_tx_put(&tx, (uint32_t)a), (uint32_t)a, (uint32_t)b); break;
	case 'u': printf("%d\n", vfun_linked_tx_publish(&tx)); break;
	case 'r': printf("%d\n", vfun_linked_tx_must_ring(&tx)); break;
	case 'l': printf("%d\n", vfun_linked_tx_look(&tx)); break;
	case 'A': printf("%d\n", vfun_linked_tx_attach(&tx, a, sides[4], sides[5], RING)); break;
	case 'D': printf("%d\n", vfun_linked_tx_detach(&tx)); break;
	case 'H': is_raced = 1; next_link = a; printf("-\n"); break;
	case 'g': receive((uint32_t)a); break;
	case 't': vfun_linked_rx_take(&rx); printf("-\n"); break;
	case 'z': vfun_linked_rx_declare_sleep(&rx); printf("%d\n", vfun_linked_rx_is_there(&rx)); break;
	case 'B': vfun_linked_rx_attach(&rx, a, sides[5], sides[4], RING); printf("-\n"); break;
	case 'E': vfun_linked_rx_detach(&rx); printf("-\n"); break;
	}
}

static void driver(char op, unsigned long long a, unsigned long long b, unsigned long long c)
{
	switch (op) {
	case 'f': read_port((uint32_t)a); break;
	case 'k': vfun_packet_take(&fence.port); printf("-\n"); break;
	case 'L': new_line(a, b); break;
	case 'R':
		vfun_fence_init(&fence, sides[1], sides[0], RING);
		vfun_fence_line(&fence, &line, a, b);
		printf("-\n");
		break;
	case 'V': vfun_fence_unline(&fence); printf("-\n"); break;
	case 'N': vfun_fence_renew(&fence, sides[1], sides[0], RING); printf("-\n"); break;
	case 'W': printf("%d\n", vfun_fence_allow(&fence, a)); break;
	case 'F': vfun_fence_force(&fence, a); printf("-\n"); break;
	case 'O': printf("%d\n", vfun_fence_is_over(&fence, a)); break;
	case 'q': fill(vfun_closer_put(&closer, &out, (uint32_t)a, c), (uint32_t)a, (uint32_t)b); break;
	case 'c': fill(vfun_packet_put(&out, (uint32_t)a), (uint32_t)a, (uint32_t)b); break;
	case 'n': printf("%d\n", vfun_closer_run(&closer, &out)); break;
	case 'e': printf("%d\n", vfun_closer_expire(&closer, &out)); break;
	case 'i': printf("%d\n", vfun_closer_is_due(&closer)); break;
	case 'b': printf("%llu %llu\n", (unsigned long long)closer.late, (unsigned long long)closer.behind); break;
	case 'w': vfun_closer_renew(&closer); printf("-\n"); break;
	case 'p': printf("%d\n", vfun_packet_publish(&out)); break;
	case 'T': take_up(a); break;
	case 'P': memcpy(sides[a % 6] + b % (4096 + RING) / 8 * 8, &c, 8); printf("-\n"); break;
	}
}

int main(void)
{
	unsigned long long a, b, c;
	unsigned int i;
	char op;

	for (i = 0; i < 6; i++)
		sides[i] = (unsigned char *)side();
	vfun_linked_tx_init(&tx, sides[0], sides[1], RING);
	vfun_linked_rx_init(&rx, sides[2], sides[3], RING);
	vfun_fence_init(&fence, sides[1], sides[0], RING);
	vfun_packet_tx_init(&out, sides[3], sides[2], RING);
	vfun_fence_line(&fence, &line, 7, 0);
	vfun_closer_init(&closer, &line, 7);
	while (scanf(" %c %llu %llu %llu", &op, &a, &b, &c) == 4) {
		if (strchr("surlADgtzBEH", op))
			vm(op, a, b);
		else
			driver(op, a, b, c);
	}
	for (i = 0; i < 6; i++)
		fwrite(sides[i], 1, 4096 + RING, stdout);
	fwrite(&line, 1, sizeof(line), stdout);
	return 0;
}
