// SPDX-License-Identifier: GPL-2.0
/*
 * Holds a session with a channel and its mappings, and says what becomes of
 * them.
 *
 *   hold NODE FUNCTION
 *
 * Prints "ready" when a call was answered. Then it waits for the end of the
 * channel, without limit, and prints what it finds, a line each:
 *   wait ERRNO, broken REASON, magic 0 or 1 (the header page), generation 0 or
 *   1, dataout written, ring ERRNO, request ERRNO, map ERRNO, poll EVENTS,
 *   eventfd COUNT, info GONE
 * and then "held", writes all of dataout and of what other ranges it may write
 * each 10 ms, and ends with SIGTERM.
 */
#include "vt.h"

#include <poll.h>
#include <sys/eventfd.h>

static volatile uint64_t *more[VFUN_RANGES_MAX];

/* Maps the ranges behind a call's two sides. 0 or -errno. */
static int map_more(const struct vt_channel *c)
{
	int i;

	for (i = 2; i < c->active.ack.count; i++) {
		more[i] = vt_map_range(c->fd, &c->active.range[i],
				       PROT_READ | PROT_WRITE);
		if (more[i] == MAP_FAILED)
			return -errno;
	}
	return 0;
}

static void write_all(volatile uint64_t *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; p && i < bytes / 8; i++)
		p[i] = 0x5a5a5a5a5a5a5a5aULL;
}

int main(int argc, char **argv)
{
	struct vfun_ioc_eventfd ev = { 0 };
	struct vfun_empty e = { 0 };
	const volatile uint64_t *header;
	struct vfun_ioc_info info;
	struct vt_channel c = { 0 };
	struct pollfd p;
	uint64_t n = 0, i;
	int fd, ret;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		node = argv[1];
	fd = vt_open();
	header = vt_map(fd, 0, PAGE, PROT_READ);
	ret = vt_hello(fd, "hold", NULL);
	if (!ret)
		ret = vt_channel_open(fd, argc > 2 ? argv[2] : "null", &c);
	if (!ret)
		ret = vt_call(&c, 1);
	if (!ret)
		ret = map_more(&c);
	ev.channel = c.channel;
	ev.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!ret && ioctl(fd, VFUN_IOC_EVENTFD, &ev))
		ret = -errno;
	if (ret) {
		printf("failed %d\n", ret);
		return 1;
	}
	printf("ready\n");

	ret = 0;
	while (!ret && !c.in[VFUN_IN_BROKEN])
		ret = vt_wait(fd, c.channel, &c.seen, ~0ULL);
	printf("wait %d\n", -ret);
	printf("broken %d\n", (int)c.in[VFUN_IN_BROKEN]);
	printf("magic %d\n", header[0] == VFUN_MAGIC);
	printf("generation %d\n", header[3] != 0);
	c.out[0] = 0x5a5a5a5a5a5a5a5aULL;
	c.out[c.side / 8 - 1] = 0x5a5a5a5a5a5a5a5aULL;
	printf("dataout written\n");
	printf("ring %d\n", -vt_ring(fd, c.channel));
	ret = vt_request(fd, VFUN_KIND_KEEP_ALIVE, &e, sizeof(e), NULL, NULL);
	printf("request %d\n", -ret);
	printf("map %d\n", vt_map(fd, 0, PAGE, PROT_READ) == MAP_FAILED ? errno : 0);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	poll(&p, 1, 0);
	printf("poll %#x\n", (unsigned int)p.revents);
	ret = read(ev.fd, &n, 8);
	printf("eventfd %d\n", ret == 8);
	memset(&info, 0, sizeof(info));
	ret = ioctl(fd, VFUN_IOC_INFO, &info);
	printf("info %d\n", ret ? -errno : (int)info.gone);
	printf("held\n");
	for (;;) {
		write_all(c.out, c.side);
		for (i = 2; i < VFUN_RANGES_MAX; i++)
			write_all(more[i], c.active.range[i].bytes);
		usleep(10000);
	}
}
