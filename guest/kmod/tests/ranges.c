// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges and buffers, against a host that a test can make lie.
 *
 *   ranges NODE activate   prints how ACTIVATE and then RELEASE ended
 *   ranges NODE get        prints how BUFFER_GET ended
 *   ranges NODE twice      prints how two BUFFER_GET ended, and whether the
 *                          first buffer is there still
 *   ranges NODE window N   prints role and bytes of a window, or the error
 *   ranges NODE buffers    right and wrong uses of buffers
 *   ranges NODE bulk       gets a buffer and prints where it lies; then, for each line
 *                          of its input, its first word, and writes the line's number
 *   ranges NODE ended      prints "ready", waits until the host has ended the
 *                          channel, and looks what became of its buffers
 *   ranges NODE unrung     prints "ready", waits for a line of input: the host
 *                          has ended the channel and rung nobody. Asks for a
 *                          buffer of it
 *
 * The last three print "ranges: N checks" with status 0, or what failed with 1.
 */
#include "check.h"

#include <sys/wait.h>

#define WORDS (PAGE / 8)

static volatile uint64_t *map_buffer(int fd, const struct vfun_buffer_ack *b)
{
	volatile uint64_t *p = vt_map_range(fd, &b->range,
					    PROT_READ | PROT_WRITE);

	IS(p != MAP_FAILED, 1);
	return p;
}

/* Whether another page, the same for all, stands in for a buffer of two pages. */
static int stands_in(volatile uint64_t *p)
{
	p[0] = 0x1111;
	p[WORDS] = 0x2222;
	return p[0] == 0x2222;
}

static void one_buffer(int fd, int other)
{
	struct vfun_buffer_ack b, c;
	volatile uint64_t *p, *q;
	uint64_t at, i, sum = 0;
	int status;
	pid_t child;

	IS(vt_buffer_get(fd, 0, 2 * PAGE, &b), 0);
	IS(b.range.access, VFUN_ACCESS_BOTH);
	at = vt_at(&b.range);
	p = map_buffer(fd, &b);
	for (i = 0; i < 2 * WORDS; i++)
		sum += p[i];
	IS(sum, 0);
	IS(stands_in(p), 0);
	q = vt_map(fd, at + PAGE, PAGE, PROT_READ);
	IS(q != MAP_FAILED && q[0] == 0x2222, 1);
	IS(mprotect((void *)q, PAGE, PROT_READ | PROT_EXEC) ? errno : 0, EACCES);
	munmap((void *)q, PAGE);
	IS(map_errno(fd, at, 3 * PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, at - PAGE, 2 * PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, at, PAGE, PROT_READ | PROT_EXEC), EACCES);
	IS(map_errno(other, at, PAGE, PROT_READ), EACCES);
	IS(map_errno(other, at, PAGE, PROT_READ | PROT_WRITE), EACCES);
	IS(vt_buffer_put(other, b.buffer), -ENOENT);
	/* It is no channel, and no grant. */
	IS(vt_ring(fd, b.buffer), -ENOENT);
	IS(vt_buffer_check(fd, b.buffer), 0);
	IS(vt_buffer_check(other, b.buffer), -ENOENT);
	IS(vt_buffer_check(fd, 0), -ENOENT);
	IS(vt_release(fd, b.buffer), -ENOENT);
	child = fork();
	if (!child)
		_exit(touch(p) == SIGSEGV ? 0 : 1);
	waitpid(child, &status, 0);
	IS(status, 0);

	/* The other's lies elsewhere, and stays as it is when this one goes. */
	IS(vt_buffer_get(other, 0, PAGE, &c), 0);
	IS(vt_at(&c.range) == at, 0);
	q = map_buffer(other, &c);
	q[0] = 7;
	IS(vt_buffer_put(fd, b.buffer), 0);
	IS(stands_in(p), 1);
	IS(q[0], 7);
	IS(vt_buffer_put(fd, b.buffer), -ENOENT);
	IS(map_errno(fd, at, PAGE, PROT_READ), EACCES);
	/* The host gives the place to the other file: the old mapping is not it. */
	IS(vt_buffer_get(other, 0, 2 * PAGE, &b), 0);
	IS(vt_at(&b.range), at);
	p[0] = 0x3333;
	munmap((void *)p, 2 * PAGE);
	p = map_buffer(other, &b);
	IS(p[0], 0);
	munmap((void *)p, 2 * PAGE);
	munmap((void *)q, PAGE);
	IS(vt_buffer_put(other, b.buffer), 0);
	IS(vt_buffer_put(other, c.buffer), 0);
}

static void of_a_grant(int fd, int other)
{
	struct vfun_buffer_ack b, s;
	struct vt_channel c;
	volatile uint64_t *p, *q;

	IS(vt_channel_open(fd, "null", &c), 0);
	IS(vt_buffer_get(other, c.grant, PAGE, &b), -ENOENT);
	IS(vt_buffer_get(fd, c.grant + 1, PAGE, &b), -ENOENT);
	IS(vt_buffer_get(fd, c.grant, 2 * PAGE, &b), 0);
	IS(vt_buffer_get(fd, 0, 2 * PAGE, &s), 0);
	p = map_buffer(fd, &b);
	q = map_buffer(fd, &s);
	IS(stands_in(p), 0);
	IS(vt_call(&c, 7), 0);
	IS(vt_release(fd, c.grant), 0);
	IS(c.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	IS(stands_in(p), 1);
	IS(stands_in(q), 0);
	IS(vt_buffer_get(fd, c.grant, PAGE, &b), -ENOENT);
	vt_channel_unmap(&c);
	/* The session's goes with the session. */
	IS(vt_goodbye(fd), 0);
	IS(stands_in(q), 1);
	munmap((void *)p, 2 * PAGE);
	munmap((void *)q, 2 * PAGE);
	IS(vt_hello(fd, "ranges", NULL), 0);
	IS(vt_buffer_put(fd, s.buffer), -ENOENT);
}

/* Grants that come and go take the places of their buffers along. */
static void many_grants(int fd)
{
	struct vfun_buffer_ack b, last = {};
	struct vt_channel c;
	int grants, n;

	for (grants = 0; grants < 3; grants++) {
		IS(vt_channel_open(fd, "null", &c), 0);
		for (n = 0; n < 100; n++, last = b)
			if (vt_buffer_get(fd, c.grant, PAGE, &b))
				break;
		IS(n, 100);
		IS(vt_release(fd, c.grant), 0);
		IS(vt_buffer_put(fd, last.buffer), -ENOENT);
		vt_channel_unmap(&c);
	}
}

static void too_many(int fd)
{
	struct vfun_buffer_ack b;
	int n;

	for (n = 0; n < 256; n++)
		if (vt_buffer_get(fd, 0, PAGE, &b))
			break;
	IS(n, 256);
	IS(vt_buffer_get(fd, 0, PAGE, &b), -EMFILE);
}

static int buffers(void)
{
	int fd = vt_open(), other = vt_open();
	struct vfun_hello_ack h;

	IS(vt_hello(fd, "ranges", &h), 0);
	IS(!!(h.features & VFUN_FEATURE_BUFFERS), 1);
	IS(vt_hello(other, "ranges", NULL), 0);
	one_buffer(fd, other);
	of_a_grant(fd, other);
	many_grants(fd);
	too_many(fd);
	close(fd);
	close(other);
	return checked("ranges");
}

static int ended(void)
{
	struct vfun_buffer_ack b, s;
	struct vt_channel c;
	volatile uint64_t *p, *q;
	int fd = vt_open(), ret = 0;

	IS(vt_hello(fd, "ranges", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	IS(vt_call(&c, 7), 0);
	IS(vt_buffer_get(fd, c.grant, 2 * PAGE, &b), 0);
	IS(vt_buffer_get(fd, 0, 2 * PAGE, &s), 0);
	p = map_buffer(fd, &b);
	q = map_buffer(fd, &s);
	IS(stands_in(p), 0);
	printf("ready\n");
	fflush(stdout);
	while (!ret)
		ret = vt_wait(fd, c.channel, &c.seen, ~0ULL);
	IS(ret, -EPIPE);
	IS(c.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	IS(stands_in(p), 1);
	IS(stands_in(q), 0);
	/* It went with the grant, which has no more to come. */
	IS(vt_buffer_put(fd, b.buffer), -ENOENT);
	IS(vt_buffer_get(fd, c.grant, PAGE, &b), -ENOENT);
	IS(vt_release(fd, c.grant), 0);
	IS(stands_in(q), 0);
	close(fd);
	return checked("ranges");
}

static int unrung(void)
{
	struct vfun_buffer_ack b;
	struct vt_channel c;
	int fd = vt_open();

	IS(vt_hello(fd, "ranges", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	printf("ready\n");
	fflush(stdout);
	getchar();
	IS(c.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	IS(vt_buffer_get(fd, c.grant, PAGE, &b), -ENOENT);
	/* The channel's own pages are still there: nobody has rung. */
	IS(vt_release(fd, c.grant), 0);
	close(fd);
	return checked("ranges");
}

static int activate(void)
{
	struct vfun_negotiate_ack n;
	struct vt_active a;
	int fd = vt_open(), ret;

	ret = vt_hello(fd, "ranges", NULL);
	if (!ret)
		ret = vt_negotiate(fd, "null", 4, 4096, &n);
	if (ret)
		return 1;
	ret = vt_activate(fd, n.grant, &a);
	printf("activate %d\n", -ret);
	printf("release %d\n", -vt_release(fd, n.grant));
	return 0;
}

static int get(void)
{
	struct vfun_buffer_ack b;
	int fd = vt_open();

	if (vt_hello(fd, "ranges", NULL))
		return 1;
	printf("get %d\n", -vt_buffer_get(fd, 0, PAGE, &b));
	fflush(stdout);
	/* Until the test has looked what the host has. */
	getchar();
	return 0;
}

static int twice(void)
{
	struct vfun_buffer_ack b = {}, again;
	volatile uint64_t *p;
	int fd = vt_open();

	if (vt_hello(fd, "ranges", NULL))
		return 1;
	printf("get %d\n", -vt_buffer_get(fd, 0, 2 * PAGE, &b));
	p = map_buffer(fd, &b);
	printf("get %d\n", -vt_buffer_get(fd, 0, 2 * PAGE, &again));
	printf("first %s\n", stands_in(p) ? "gone" : "there");
	fflush(stdout);
	getchar();
	return 0;
}

/*
 * A buffer of two pages that another side writes. Prints "window N offset N", then for
 * each line that comes: the first word, whether the buffer goes on (0, or the error).
 * The line's number, in hexadecimal, is written to the second page.
 */
static int bulk(void)
{
	struct vfun_buffer_ack b;
	int fd = vt_open(), ret;
	volatile uint64_t *p;
	char line[32];

	if (vt_hello(fd, "bulk", NULL))
		return 1;
	ret = vt_buffer_get(fd, 0, 2 * PAGE, &b);
	if (ret) {
		printf("get %d\n", -ret);
		return 1;
	}
	p = map_buffer(fd, &b);
	printf("window %u offset %llu\n", b.range.window,
	       (unsigned long long)b.range.offset);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		p[WORDS] = strtoull(line, NULL, 16);
		printf("word %llx check %d\n", (unsigned long long)p[0],
		       -vt_buffer_check(fd, b.buffer));
		fflush(stdout);
	}
	printf("put %d\n", -vt_buffer_put(fd, b.buffer));
	return 0;
}

static int window(unsigned int number)
{
	struct vfun_ioc_window w = { .window = number };
	int ret = raw(vt_open(), VFUN_IOC_WINDOW, &w);

	if (ret)
		printf("error %d\n", ret);
	else
		printf("role %u bytes %llu generation %d\n", w.role,
		       (unsigned long long)w.bytes, w.generation != 0);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";

	if (argc > 1)
		node = argv[1];
	catch_faults();
	if (!strcmp(what, "activate"))
		return activate();
	if (!strcmp(what, "get"))
		return get();
	if (!strcmp(what, "twice"))
		return twice();
	if (!strcmp(what, "window") && argc > 3)
		return window(strtoul(argv[3], NULL, 0));
	if (!strcmp(what, "bulk"))
		return bulk();
	if (!strcmp(what, "buffers"))
		return buffers();
	if (!strcmp(what, "ended"))
		return ended();
	if (!strcmp(what, "unrung"))
		return unrung();
	fprintf(stderr, "usage: ranges NODE activate|get|twice|bulk|window N|buffers|ended|unrung\n");
	return 2;
}
