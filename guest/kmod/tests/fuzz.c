// SPDX-License-Identifier: GPL-2.0
/*
 * Calls /dev/vfunN at random, from several threads, some of it right, most of
 * it wrong. What comes back is not looked at: the kernel is, by whoever runs
 * this.
 *
 *   fuzz NODE SECONDS [SEED]
 *
 * Prints its seed at the beginning and the number of calls at the end.
 */
#include "vt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#define THREADS 4
#define FDS 6
#define KINDS (VFUN_KIND_BUFFER_PUT + 1)

static int fds[FDS];
static uint64_t handles[16];
static unsigned int next_handle;
static volatile int stop;

struct rng {
	uint64_t s;
};

static uint64_t any(struct rng *r)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	r->s ^= r->s << 17;
	return r->s * 0x2545f4914f6cdd1dULL;
}

static unsigned int below(struct rng *r, unsigned int n)
{
	return (unsigned int)(any(r) >> 33) % n;
}

/* A number that is likely to be at some edge. */
static uint64_t edge(struct rng *r)
{
	static const uint64_t edges[] = {
		0, 1, 2, 7, 8, 64, 520, 960, 4031, 4032, 4096, 24576, 90112,
		0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};

	switch (below(r, 4)) {
	case 0:
		return edges[below(r, sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return any(r) >> below(r, 64);
	default:
		return handles[below(r, 16)];
	}
}

static int some_fd(struct rng *r)
{
	return fds[below(r, FDS)];
}

static void remember(uint64_t handle)
{
	handles[__atomic_fetch_add(&next_handle, 1, __ATOMIC_RELAXED) % 16] =
		handle;
}

static void random_request(struct rng *r)
{
	static const uint16_t sizes[KINDS] = {
		0, sizeof(struct vfun_hello), sizeof(struct vfun_negotiate), 8,
		8, 8, 8, 8, 8, 8, sizeof(struct vfun_describe),
		sizeof(struct vfun_codes), 0, 0, 0, 0,
		sizeof(struct vfun_buffer_get), sizeof(struct vfun_buffer_put),
	};
	uint8_t body[VFUN_REQUEST_BODY], answer[VFUN_ANSWER_BODY];
	struct vfun_calls_shape shape = { 0 };
	struct vfun_ioc_request q = { 0 };
	unsigned int i, fd = some_fd(r);

	q.kind = below(r, 20) ? below(r, KINDS) : edge(r);
	for (i = 0; i < sizeof(body) / 8; i++)
		((uint64_t *)body)[i] = below(r, 8) ? 0 : edge(r);
	if (q.kind == VFUN_KIND_HELLO && below(r, 4)) {
		struct vfun_hello *h = (void *)body;

		memset(h, 0, sizeof(*h));
		h->version_min = h->version_max = VFUN_VERSION;
		h->features = any(r);
		/* A host that plays gives ports to this one. */
		strcpy((char *)h->app, below(r, 2) ? "fuzz" : "proglink");
	} else if (q.kind == VFUN_KIND_NEGOTIATE && below(r, 4)) {
		struct vfun_negotiate *n = (void *)body;

		memset(n, 0, sizeof(*n));
		strcpy((char *)n->function, below(r, 3) ? "null" : "ports");
		n->kind = n->function[0] == 'p' ? VFUN_CHANNEL_KIND_PACKETS : 1 + below(r, 2);
		if (n->kind == VFUN_CHANNEL_KIND_PACKETS) {
			struct vfun_packets_shape ports = { 0 };

			ports.ring_bytes = 4096u << below(r, 9);
			ports.port = (uint16_t)below(r, 5);
			memcpy(n->shape, &ports, sizeof(ports));
		}
		shape.depth = 1 << below(r, 8);
		shape.cell_bytes = 64 * below(r, 100);
		if (n->kind != VFUN_CHANNEL_KIND_PACKETS)
			memcpy(n->shape, &shape, sizeof(shape));
	} else if (q.kind == VFUN_KIND_BUFFER_GET && below(r, 4)) {
		struct vfun_buffer_get *g = (void *)body;

		memset(g, 0, sizeof(*g));
		g->grant = below(r, 2) ? 0 : handles[below(r, 16)];
		g->bytes = PAGE * (1 + below(r, 20));
		g->align = PAGE;
	} else if (below(r, 4)) {
		*(uint64_t *)body = handles[below(r, 16)];
	}
	q.body_len = q.kind < KINDS && below(r, 8) ? sizes[q.kind] : edge(r);
	q.timeout_ms = below(r, 3) ? 1 + below(r, 50) : edge(r) % 2000;
	q.body = below(r, 20) ? (uintptr_t)body : edge(r);
	q.answer = below(r, 20) ? (uintptr_t)answer : edge(r);
	q.answer_room = below(r, 20) ? sizeof(answer) : edge(r);
	q.reserved = below(r, 20) ? 0 : edge(r);
	if (ioctl(fd, VFUN_IOC_REQUEST, &q) == 0 && q.acked &&
	    q.answer == (uintptr_t)answer) {
		if (q.kind == VFUN_KIND_NEGOTIATE)
			remember(((struct vfun_negotiate_ack *)answer)->grant);
		if (q.kind == VFUN_KIND_ACTIVATE) {
			struct vt_active *a = (void *)answer;

			remember(a->ack.channel);
			for (i = 0; i < a->ack.count && i < VFUN_RANGES_MAX; i++)
				remember(vt_at(&a->range[i]));
		}
		if (q.kind == VFUN_KIND_BUFFER_GET) {
			struct vfun_buffer_ack *b = (void *)answer;

			remember(b->buffer);
			remember(vt_at(&b->range));
		}
	}
}

/* Maps something, reads and writes at its ends, and perhaps cuts it. */
static void random_map(struct rng *r)
{
	uint64_t off = edge(r) & ~(PAGE - 1);
	size_t len = PAGE * (1 + below(r, 20));
	int prot = below(r, 8), flags = below(r, 8) ? MAP_SHARED : MAP_PRIVATE;
	volatile char *p = mmap(NULL, len, prot, flags, some_fd(r), (off_t)off);
	unsigned int i;

	if (p == MAP_FAILED)
		return;
	for (i = 0; i < 4; i++) {
		if (prot & PROT_READ)
			(void)p[below(r, len)];
		/* The cells' own lines are spared, the rest is anybody's. */
		if (prot & PROT_WRITE)
			p[below(r, len)] = (char)any(r);
	}
	if (!below(r, 4))
		munmap((char *)p + PAGE * below(r, len / PAGE), PAGE);
	if (!below(r, 4))
		mprotect((void *)p, PAGE, below(r, 8));
	if (!below(r, 8))
		madvise((void *)p, len, below(r, 20));
	munmap((void *)p, len);
}

static void random_call(struct rng *r)
{
	struct vfun_ioc_info info;
	struct vfun_ioc_wait w = { edge(r), edge(r), below(r, 4) ? below(r, 100000) : 0 };
	struct vfun_ioc_ring ring = { edge(r) };
	struct vfun_ioc_window win = { .window = (uint16_t)edge(r) };
	struct vfun_ioc_eventfd ev = { edge(r), (int)edge(r), below(r, 8) ? 0 : 1 };
	struct vfun_ioc_link link = {
		.channel = edge(r),
		.way = below(r, 8) ? below(r, 2) : (uint32_t)edge(r),
		.word = below(r, 8) ? below(r, 4) : (uint32_t)edge(r),
	};
	struct pollfd p;
	unsigned int n;
	int old, fresh;

	switch (below(r, 21)) {
	case 0:
		ioctl(some_fd(r), VFUN_IOC_INFO, &info);
		ioctl(some_fd(r), VFUN_IOC_WINDOW, &win);
		break;
	case 1 ... 8:
		random_request(r);
		break;
	case 9 ... 10:
		ioctl(some_fd(r), VFUN_IOC_WAIT, &w);
		break;
	case 11:
		ioctl(some_fd(r), VFUN_IOC_RING, &ring);
		break;
	case 12:
		ev.fd = eventfd(0, EFD_CLOEXEC);
		ioctl(some_fd(r), VFUN_IOC_EVENTFD, &ev);
		close(ev.fd);
		break;
	case 13 ... 16:
		random_map(r);
		break;
	case 17:
		p = (struct pollfd){ .fd = some_fd(r), .events = (short)any(r) };
		poll(&p, 1, (int)below(r, 2));
		break;
	case 18:
		/* A number that stays, an open file that comes and goes. */
		n = below(r, FDS);
		fresh = open(node, O_RDWR | O_CLOEXEC);
		if (fresh >= 0) {
			dup3(fresh, fds[n], O_CLOEXEC);
			close(fresh);
		}
		break;
	case 19:
		if (ioctl(some_fd(r), VFUN_IOC_LINK, &link) == 0 && link.word == VFUN_LINK_TAKE) {
			remember(link.mine);
			remember(link.theirs);
		}
		break;
	default:
		/* An ioctl of any number with any argument. */
		old = below(r, 2) ? 'V' << 8 : 0;
		ioctl(some_fd(r), (old | below(r, 10)) | (any(r) & 0xffff0000),
		      edge(r));
	}
}

static void *thread(void *arg)
{
	struct rng r = { *(uint64_t *)arg };
	uint64_t calls = 0;

	while (!stop) {
		random_call(&r);
		calls++;
	}
	*(uint64_t *)arg = calls;
	return NULL;
}

static void on_fault(int sig)
{
	(void)sig;
	/* Another thread cut the mapping's file away: nothing to learn. */
	_exit(7);
}

int main(int argc, char **argv)
{
	uint64_t seed, state[THREADS], sum = 0;
	pthread_t t[THREADS];
	unsigned int seconds;
	int i;

	if (argc < 3) {
		fprintf(stderr, "usage: fuzz NODE SECONDS [SEED]\n");
		return 2;
	}
	node = argv[1];
	seconds = atoi(argv[2]);
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) :
			  (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	printf("fuzz: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	signal(SIGSEGV, on_fault);
	for (i = 0; i < FDS; i++)
		fds[i] = vt_open();
	for (i = 0; i < THREADS; i++) {
		state[i] = (seed + i) * 0x9e3779b97f4a7c15ULL | 1;
		pthread_create(&t[i], NULL, thread, &state[i]);
	}
	sleep(seconds);
	stop = 1;
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += state[i];
	}
	printf("fuzz: %llu calls\n", (unsigned long long)sum);
	return 0;
}
