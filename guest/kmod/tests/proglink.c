// SPDX-License-Identifier: GPL-2.0
/*
 * A program that has port 0, and takes the memory of each link that the host names for it
 * (VFUN_IOC_LINK). What it could not do is a line:
 *
 *   has                    it has the port
 *   NUMBER out ERRNO       TAKE of the way out; 0: it has the memory, and only that
 *   none                   it let go, and touched the memory after that
 *   proglink: N checks     at the end of standard input
 */
#include <poll.h>

#include "check.h"

/* A word of a header page that nobody else uses. */
#define SCRATCH 60

static uint64_t channel;
static volatile uint64_t *mine, *theirs;
static uint64_t bytes, has;

static int ask(int fd, uint32_t way, uint32_t word, struct vfun_ioc_link *l)
{
	*l = (struct vfun_ioc_link){ .channel = channel, .way = way, .word = word };
	return raw(fd, VFUN_IOC_LINK, l);
}

static void take_port(int fd)
{
	struct vfun_packets_shape shape = { .ring_bytes = 1 << 16, .port = 0 };
	struct vfun_negotiate n = { .kind = VFUN_CHANNEL_KIND_PACKETS };
	uint8_t answer[VFUN_ANSWER_BODY];
	struct vfun_negotiate_ack ack;
	struct vfun_ioc_link l;
	struct vt_active a;

	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_ASK, &l), ENOENT);
	IS(vt_hello(fd, "proglink", NULL), 0);
	memcpy(n.shape, &shape, sizeof(shape));
	strcpy((char *)n.function, "ports");
	IS(vt_request(fd, VFUN_KIND_NEGOTIATE, &n, sizeof(n), answer, NULL), 0);
	memcpy(&ack, answer, sizeof(ack));
	IS(vt_activate(fd, ack.grant, &a), 0);
	channel = a.ack.channel;
	/* Before the host names any. */
	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_ASK, &l), 0);
	IS(l.number, 0);
	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_TAKE, &l), ENODATA);
	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_RING, &l), ENODATA);
	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_LEAVE, &l), 0);
	IS(ask(fd, VFUN_LINK_WAYS, VFUN_LINK_ASK, &l), EINVAL);
	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_RING + 1, &l), EINVAL);
	IS(raw(fd, VFUN_IOC_LINK, NULL), EFAULT);
}

/* Both sides can be mapped as they may be, and nothing else of the window. */
static void look_at_sides(int fd, const struct vfun_ioc_link *l)
{
	uint64_t window = l->mine & ~((1ULL << VFUN_MAP_SHIFT) - 1);
	uint64_t side = PAGE + l->ring_bytes;
	int other = vt_open();

	IS(map_errno(fd, window, PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, l->mine, side + PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, l->mine < l->theirs ? l->mine : l->theirs, 2 * side, PROT_READ), EACCES);
	IS(map_errno(fd, window + PAGE + 2 * side, PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, l->theirs, side, PROT_READ | PROT_WRITE), EACCES);
	IS(map_errno(fd, l->theirs, side, PROT_READ), 0);
	IS(map_errno(fd, l->mine, side, PROT_READ | PROT_WRITE), 0);
	/* Another file has no part of it. */
	IS(map_errno(other, l->mine, side, PROT_READ), EACCES);
	close(other);
}

static void leave(int fd)
{
	struct vfun_ioc_link l;

	IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_LEAVE, &l), 0);
	IS(ask(fd, VFUN_LINK_IN, VFUN_LINK_LEAVE, &l), 0);
	/* Harmless, and it reaches nobody. */
	IS(touch(mine), 0);
	IS(touch(theirs), 0);
	mine[SCRATCH] = 0xdead;
	munmap((void *)mine, bytes);
	munmap((void *)theirs, bytes);
	mine = NULL;
	puts("none");
}

/* Says what came of it, once; without the window it is tried again. */
static void take(int fd, uint64_t number)
{
	static uint64_t said;
	static int last;
	struct vfun_ioc_link out, in;
	int ret = ask(fd, VFUN_LINK_OUT, VFUN_LINK_TAKE, &out);

	if (said == number && last == ret)
		return;
	said = number;
	last = ret;
	if (!ret) {
		IS(out.number, number);
		look_at_sides(fd, &out);
		/* Both ways have the same memory, and one of them may leave it. */
		IS(ask(fd, VFUN_LINK_IN, VFUN_LINK_TAKE, &in), 0);
		IS(in.mine, out.mine);
		IS(in.theirs, out.theirs);
		bytes = PAGE + out.ring_bytes;
		mine = vt_map(fd, out.mine, bytes, PROT_READ | PROT_WRITE);
		theirs = vt_map(fd, out.theirs, bytes, PROT_READ);
		IS(ask(fd, VFUN_LINK_IN, VFUN_LINK_LEAVE, &in), 0);
		mine[SCRATCH] = has = number;
		IS(ask(fd, VFUN_LINK_OUT, VFUN_LINK_RING, &in), 0);
	}
	printf("%llu out %d\n", (unsigned long long)number, ret);
}

int main(void)
{
	struct pollfd over = { .fd = 0, .events = POLLIN };
	int fd = vt_open();

	setbuf(stdout, NULL);
	catch_faults();
	take_port(fd);
	puts("has");
	while (!poll(&over, 1, 20)) {
		struct vfun_ioc_link l;

		if (ask(fd, VFUN_LINK_OUT, VFUN_LINK_ASK, &l))
			break;
		if (mine && l.number != has)
			leave(fd);
		else if (!mine && l.number)
			take(fd, l.number);
	}
	return checked("proglink");
}
