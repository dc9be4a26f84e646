/* SPDX-License-Identifier: GPL-2.0 */
/* What the test programs share: requests, channels and calls by hand. */
#ifndef VT_H
#define VT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../vfun_uapi.h"
#include "vfun_wire.h"

#define PAGE 4096UL

static const char *node = "/dev/vfun0";

static inline int vt_open(void)
{
	int fd = open(node, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror(node);
		exit(2);
	}
	return fd;
}

/* 0: ack, 1: nack, or -errno. */
static inline int vt_request(int fd, uint16_t kind, const void *body,
			     uint16_t len, void *answer, uint32_t *answer_len)
{
	static __thread uint8_t room[VFUN_ANSWER_BODY];
	struct vfun_ioc_request q = {
		.kind = kind, .body_len = len, .body = (uintptr_t)body,
		.answer = (uintptr_t)(answer ? answer : room),
		.answer_room = VFUN_ANSWER_BODY,
	};

	if (ioctl(fd, VFUN_IOC_REQUEST, &q))
		return -errno;
	if (answer_len)
		*answer_len = q.answer_len;
	return !q.acked;
}

static inline int vt_hello(int fd, const char *app, struct vfun_hello_ack *ack)
{
	uint8_t answer[VFUN_ANSWER_BODY];
	struct vfun_hello h = { .version_min = VFUN_VERSION,
				.version_max = VFUN_VERSION, .pid = 1,
				.features = ~0ULL };
	int ret;

	memcpy(h.app, app, strnlen(app, sizeof(h.app)));
	ret = vt_request(fd, VFUN_KIND_HELLO, &h, sizeof(h), answer, NULL);
	if (!ret && ack)
		memcpy(ack, answer, sizeof(*ack));
	return ret;
}

static inline int vt_negotiate(int fd, const char *function, uint16_t depth,
			       uint32_t cell_bytes,
			       struct vfun_negotiate_ack *ack)
{
	uint8_t answer[VFUN_ANSWER_BODY];
	struct vfun_negotiate n = { .kind = VFUN_CHANNEL_KIND_CALLS };
	struct vfun_calls_shape shape = { .depth = depth,
					  .cell_bytes = cell_bytes };
	int ret;

	memcpy(n.shape, &shape, sizeof(shape));
	memcpy(n.function, function, strnlen(function, sizeof(n.function)));
	ret = vt_request(fd, VFUN_KIND_NEGOTIATE, &n, sizeof(n), answer, NULL);
	if (!ret)
		memcpy(ack, answer, sizeof(*ack));
	return ret;
}

/* An activated grant: its ack with the ranges behind it. */
struct vt_active {
	struct vfun_activate_ack ack;
	struct vfun_range range[VFUN_RANGES_MAX];
};

static inline int vt_activate(int fd, uint64_t grant, struct vt_active *a)
{
	uint8_t answer[VFUN_ANSWER_BODY];
	struct vfun_of_grant g = { grant };
	uint32_t len = 0;
	int ret;

	ret = vt_request(fd, VFUN_KIND_ACTIVATE, &g, sizeof(g), answer, &len);
	if (!ret)
		memcpy(a, answer, len < sizeof(*a) ? len : sizeof(*a));
	return ret;
}

static inline int vt_release(int fd, uint64_t grant)
{
	struct vfun_of_grant g = { grant };

	return vt_request(fd, VFUN_KIND_RELEASE, &g, sizeof(g), NULL, NULL);
}

static inline int vt_goodbye(int fd)
{
	struct vfun_empty e = { 0 };

	return vt_request(fd, VFUN_KIND_GOODBYE, &e, sizeof(e), NULL, NULL);
}

/* bytes of both sides' for a grant (0: the session); 0 or -errno, or 1 for a nack. */
static inline int vt_buffer_get(int fd, uint64_t grant, uint64_t bytes,
				struct vfun_buffer_ack *ack)
{
	struct vfun_buffer_get g = { .grant = grant, .bytes = bytes,
				     .align = PAGE };
	uint8_t answer[VFUN_ANSWER_BODY];
	int ret;

	ret = vt_request(fd, VFUN_KIND_BUFFER_GET, &g, sizeof(g), answer, NULL);
	if (!ret)
		memcpy(ack, answer, sizeof(*ack));
	return ret;
}

static inline int vt_buffer_put(int fd, uint64_t buffer)
{
	struct vfun_buffer_put p = { buffer };

	return vt_request(fd, VFUN_KIND_BUFFER_PUT, &p, sizeof(p), NULL, NULL);
}

/* 0 or -errno: -EPIPE where it is over. */
static inline int vt_buffer_check(int fd, uint64_t buffer)
{
	struct vfun_ioc_buffer b = { buffer };

	return ioctl(fd, VFUN_IOC_BUFFER, &b) ? -errno : 0;
}

/* off: of window 0, or with VFUN_MAP. */
static inline void *vt_map(int fd, uint64_t off, uint64_t len, int prot)
{
	return mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)off);
}

static inline int vt_wait(int fd, uint64_t channel, uint64_t *seen,
			  uint64_t timeout_ns)
{
	struct vfun_ioc_wait w = { channel, *seen, timeout_ns };

	if (ioctl(fd, VFUN_IOC_WAIT, &w))
		return -errno;
	*seen = w.seen;
	return 0;
}

static inline int vt_ring(int fd, uint64_t channel)
{
	struct vfun_ioc_ring r = { channel };

	return ioctl(fd, VFUN_IOC_RING, &r) ? -errno : 0;
}

static inline uint64_t vt_at(const struct vfun_range *r)
{
	return VFUN_MAP(r->window, r->offset);
}

static inline void *vt_map_range(int fd, const struct vfun_range *r, int prot)
{
	return vt_map(fd, vt_at(r), r->bytes, prot);
}

/* A channel of calls in use; out_at and in_at are offsets for mmap. */
struct vt_channel {
	int fd;
	uint64_t grant, channel, side, seen, out_at, in_at;
	struct vt_active active;
	volatile uint64_t *out;
	const volatile uint64_t *in;
	uint32_t seq;
};

/* HELLO is said; 0 or -errno, or 1 for a nack. */
static inline int vt_channel_open(int fd, const char *function,
				  struct vt_channel *c)
{
	struct vt_active *a = &c->active;
	struct vfun_negotiate_ack n;
	int ret;

	memset(c, 0, sizeof(*c));
	c->fd = fd;
	ret = vt_negotiate(fd, function, 4, 4096, &n);
	if (ret)
		return ret;
	c->grant = n.grant;
	ret = vt_activate(fd, n.grant, a);
	if (ret)
		return ret;
	if (a->ack.count < 2 || a->range[0].access != VFUN_ACCESS_APP_WRITES ||
	    a->range[1].access != VFUN_ACCESS_HOST_WRITES ||
	    a->range[0].bytes != a->range[1].bytes)
		return -EBADMSG;
	c->channel = a->ack.channel;
	c->side = a->range[0].bytes;
	c->out_at = vt_at(&a->range[0]);
	c->in_at = vt_at(&a->range[1]);
	c->out = vt_map_range(fd, &a->range[0], PROT_READ | PROT_WRITE);
	if (c->out == MAP_FAILED)
		return -errno;
	c->in = vt_map_range(fd, &a->range[1], PROT_READ);
	if (c->in == MAP_FAILED)
		return -errno;
	return 0;
}

static inline void vt_channel_unmap(struct vt_channel *c)
{
	munmap((void *)c->out, c->side);
	munmap((void *)c->in, c->side);
}

/* Posts a call with 8 bytes of arguments in cell 0 and rings. */
static inline int vt_post(struct vt_channel *c, uint64_t argument)
{
	volatile uint64_t *line = c->out + vfun_line_off(0) / 8;

	line[1] = vfun_word1(8, 0);
	line[2] = argument;
	c->seq++;
	__atomic_store_n(&line[0], vfun_word0(c->seq, VFUN_WIRE_COMMAND_SET, 0),
			 __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return vt_ring(c->fd, c->channel);
}

/* One call, asleep; -errno, or its status. */
static inline int vt_call(struct vt_channel *c, uint64_t argument)
{
	const volatile uint64_t *answer = c->in + vfun_line_off(0) / 8;
	int ret, tries;

	ret = vt_wait(c->fd, c->channel, &c->seen, 0);
	if (!ret)
		ret = vt_post(c, argument);
	if (ret)
		return ret;
	__atomic_fetch_add(&c->out[VFUN_OUT_SLEEPERS], 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (tries = 0; tries < 100; tries++) {
		uint64_t word = __atomic_load_n(&answer[0], __ATOMIC_ACQUIRE);

		if (vfun_word0_seq(word) == c->seq) {
			ret = vfun_word1_status(answer[1]);
			break;
		}
		if (c->in[VFUN_IN_BROKEN]) {
			ret = -EPIPE;
			break;
		}
		ret = vt_wait(c->fd, c->channel, &c->seen, 200000000);
		if (ret && ret != -ETIMEDOUT)
			break;
		ret = -ETIMEDOUT;
	}
	__atomic_fetch_sub(&c->out[VFUN_OUT_SLEEPERS], 1, __ATOMIC_SEQ_CST);
	return ret;
}

#endif
