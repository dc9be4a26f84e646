// SPDX-License-Identifier: GPL-2.0
/*
 * Uses /dev/vfunN in every wrong way that its author thought of, and in the
 * right way in between to see that nothing of it has done harm.
 *
 *   misuse [NODE [goodbyes]]
 *
 * goodbyes: only sessions that are ended and killed, over and over.
 *
 * Prints a line for each wrong outcome and, at the end, "misuse: N checks" with
 * status 0, or "misuse: M of N failed" with status 1.
 */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/wait.h>

static void no_op(int sig)
{
	(void)sig;
}

/*
 * SIGALRM each second, or no more of them. One alone could come before the wait
 * that it is to end, where processors are taken away for so long.
 */
static void alarms(int on)
{
	struct itimerval each = { { on, 0 }, { on, 0 } };

	setitimer(ITIMER_REAL, &each, NULL);
}

static void arguments(void)
{
	struct vfun_ioc_request q = { 0 };
	struct vfun_empty e = { 0 };
	struct vfun_ioc_eventfd ev = { .fd = -1 };
	struct vfun_ioc_window w;
	struct vfun_ioc_info info;
	uint8_t answer[VFUN_ANSWER_BODY];
	int fd = vt_open(), ro, kind;

	memset(&info, 0xff, sizeof(info));
	IS(raw(fd, VFUN_IOC_INFO, &info), 0);
	/* Of every ABI, so that programs of another can refuse it. */
	IS(VFUN_IOC_INFO, 0x80285600);
	IS(offsetof(struct vfun_ioc_info, abi), 24);
	IS(info.abi, 2);
	IS(info.gone, 0);
	IS(info.vectors <= VFUN_VECTORS && info.vectors > 0, 1);
	IS(raw(fd, VFUN_IOC_INFO, NULL), EFAULT);
	IS(raw(fd, VFUN_IOC_REQUEST, NULL), EFAULT);
	IS(raw(fd, VFUN_IOC_WAIT, (void *)-4096L), EFAULT);
	IS(raw(fd, VFUN_IOC_RING, (void *)1), EFAULT);
	IS(raw(fd, VFUN_IOC_EVENTFD, NULL), EFAULT);
	IS(raw(fd, VFUN_IOC_WINDOW, NULL), EFAULT);
	w.window = 0;
	IS(raw(fd, VFUN_IOC_WINDOW, &w), 0);
	IS(w.role, VFUN_ROLE_CONTROL);
	IS(w.bytes == info.window_bytes && w.generation == info.generation &&
	   w.pci == info.pci, 1);
	w.window = 1;
	IS(raw(fd, VFUN_IOC_WINDOW, &w), ENOENT);
	w.window = 0xffff;
	IS(raw(fd, VFUN_IOC_WINDOW, &w), ENOENT);
	IS(raw(fd, _IO('V', 99), NULL), ENOTTY);
	IS(raw(fd, TCGETS, &info), ENOTTY);
	IS(raw(fd, _IOWR('V', 1, struct vfun_ioc_ring), &info), ENOTTY);

	q = (struct vfun_ioc_request){
		.kind = VFUN_KIND_KEEP_ALIVE, .body_len = sizeof(e),
		.body = (uintptr_t)&e, .answer = (uintptr_t)answer,
		.answer_room = sizeof(answer),
	};
	IS(raw(fd, VFUN_IOC_REQUEST, &q), ENOTCONN);
	for (kind = 0; kind < 0x10000; kind++) {
		q.kind = kind;
		/* The right size for none of them, nor for the largest body. */
		q.body_len = VFUN_REQUEST_BODY;
		if ((kind >= VFUN_KIND_HELLO && kind <= VFUN_KIND_CODES &&
		     kind != VFUN_KIND_RESET) || kind == VFUN_KIND_BUFFER_GET ||
		    kind == VFUN_KIND_BUFFER_PUT) {
			IS(raw(fd, VFUN_IOC_REQUEST, &q), EINVAL);
			q.body_len = 0;
			IS(raw(fd, VFUN_IOC_REQUEST, &q), EINVAL);
			q.body_len = 0xffff;
			IS(raw(fd, VFUN_IOC_REQUEST, &q), EINVAL);
		} else if (raw(fd, VFUN_IOC_REQUEST, &q) != EOPNOTSUPP) {
			IS(kind, -1);
		}
	}
	q.kind = VFUN_KIND_RESET;
	q.body_len = sizeof(e);
	IS(raw(fd, VFUN_IOC_REQUEST, &q), EOPNOTSUPP);
	q.kind = VFUN_KIND_KEEP_ALIVE;
	q.reserved = 1;
	IS(raw(fd, VFUN_IOC_REQUEST, &q), EINVAL);
	q.reserved = 0;
	q.answer_room = sizeof(struct vfun_nack_body) - 1;
	IS(raw(fd, VFUN_IOC_REQUEST, &q), ENOSPC);
	q.answer_room = sizeof(answer);
	q.body = 8;
	IS(raw(fd, VFUN_IOC_REQUEST, &q), EFAULT);
	q.body = ~0ULL;
	IS(raw(fd, VFUN_IOC_REQUEST, &q), EFAULT);

	IS(vt_ring(fd, 12345), -ENOENT);
	IS(vt_ring(fd, ~0ULL), -ENOENT);
	IS(vt_ring(fd, 0), 0);
	ev.channel = 0;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), EINVAL);
	ev.channel = 9;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), ENOENT);
	ev.reserved = 1;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), EINVAL);
	ev.reserved = 0;
	ev.fd = -2;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), EINVAL);

	IS(read(fd, answer, 1) < 0 && errno == EINVAL, 1);
	IS(write(fd, answer, 1) < 0 && errno == EINVAL, 1);
	IS(lseek(fd, 0, SEEK_SET) < 0 && errno == ESPIPE, 1);

	ro = open(node, O_RDONLY | O_CLOEXEC);
	IS(raw(ro, VFUN_IOC_INFO, &info), 0);
	IS(raw(ro, VFUN_IOC_REQUEST, &q), EBADF);
	IS(vt_ring(ro, 0), -EBADF);
	close(ro);
	ro = open(node, O_WRONLY | O_CLOEXEC);
	IS(raw(ro, VFUN_IOC_INFO, &info), EBADF);
	IS(map_errno(ro, 0, PAGE, PROT_READ), EACCES);
	close(ro);
	close(fd);
}

static void session(void)
{
	struct vfun_negotiate_ack n, m;
	struct vt_active a;
	struct vfun_hello_ack h;
	int fd = vt_open(), other = vt_open();

	IS(vt_negotiate(fd, "null", 4, 4096, &n), -ENOTCONN);
	IS(vt_hello(fd, "-no-good-name", NULL), 1);
	IS(vt_hello(fd, "misuse", &h), 0);
	IS(h.session != 0, 1);
	IS(!!(h.features & VFUN_FEATURE_MODULE), 1);
	IS(!!(h.features & VFUN_FEATURE_DOORBELL), 1);
	IS(vt_hello(fd, "misuse", &h), -EBUSY);
	IS(vt_hello(other, "misuse", &h), 0);
	IS(vt_negotiate(fd, "nothing-of-the-kind", 4, 4096, &n), 1);
	IS(vt_negotiate(fd, "null", 4, 4096, &n), 0);
	IS(vt_activate(fd, n.grant + 1, &a), -ENOENT);
	IS(vt_activate(other, n.grant, &a), -ENOENT);
	IS(vt_release(other, n.grant), -ENOENT);
	IS(vt_activate(fd, n.grant, &a), 0);
	IS(vt_activate(fd, n.grant, &a), -EBUSY);
	IS(vt_release(fd, n.grant), 0);
	IS(vt_release(fd, n.grant), -ENOENT);
	IS(vt_negotiate(fd, "null", 4, 4096, &m), 0);
	IS(vt_goodbye(fd), 0);
	IS(vt_goodbye(fd), -ENOTCONN);
	IS(vt_activate(fd, m.grant, &a), -ENOTCONN);
	IS(vt_hello(fd, "misuse", &h), 0);
	IS(vt_activate(fd, m.grant, &a), -ENOENT);
	close(fd);
	close(other);
}

static void mappings(void)
{
	volatile uint64_t *header, *half;
	struct vt_channel c, d;
	int fd = vt_open(), other = vt_open(), status;
	pid_t child;
	uint64_t out, in, side, page;
	void *moved;

	IS(map_errno(fd, 0, PAGE, PROT_READ | PROT_WRITE), EACCES);
	IS(map_errno(fd, 0, PAGE, PROT_READ | PROT_EXEC), EACCES);
	IS(map_errno(fd, 0, 2 * PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, PAGE, PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, VFUN_MAP(1, 0), PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, VFUN_MAP(0xffff, 0), PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, VFUN_MAP(0x10000, 0), PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, VFUN_MAP(1, 0) - PAGE, 2 * PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, 1ULL << 62, PAGE, PROT_READ) != 0, 1);
	header = vt_map(fd, 0, PAGE, PROT_READ);
	IS(header != MAP_FAILED, 1);
	IS(header[0] == VFUN_MAGIC, 1);
	IS(mprotect((void *)header, PAGE, PROT_READ | PROT_WRITE) ? errno : 0,
	   EACCES);
	IS(mprotect((void *)header, PAGE, PROT_READ | PROT_EXEC) ? errno : 0,
	   EACCES);
	IS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED, 1);
	IS(errno, EINVAL);

	IS(vt_hello(fd, "maps", NULL), 0);
	IS(vt_hello(other, "maps", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	IS(vt_channel_open(other, "null", &d), 0);
	out = c.out_at;
	in = c.in_at;
	side = c.side;
	IS(vt_call(&c, 7), 0);
	IS(vt_call(&d, 7), 0);

	/* All pages of the window: only ours may be had. */
	for (page = 0; page < 4096; page++) {
		uint64_t off = page * PAGE;
		int ours = page == 0 || (off >= out && off < out + side) ||
			   (off >= in && off < in + side);
		int got = map_errno(fd, off, PAGE, PROT_READ);

		if (got != (ours ? 0 : EACCES)) {
			IS(page, -1);
			IS(got, ours ? 0 : EACCES);
			break;
		}
		ours = off >= out && off < out + side;
		got = map_errno(fd, off, PAGE, PROT_READ | PROT_WRITE);
		if (got != (ours ? 0 : EACCES)) {
			IS(page, -2);
			IS(got, ours ? 0 : EACCES);
			break;
		}
	}
	IS(map_errno(fd, out, side + PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, out + PAGE, side, PROT_READ), EACCES);
	IS(map_errno(fd, out - PAGE, side, PROT_READ), EACCES);
	IS(map_errno(fd, in, side, PROT_READ | PROT_WRITE), EACCES);
	IS(map_errno(fd, VFUN_MAP(1, out), PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, d.out_at, d.side, PROT_READ), EACCES);
	IS(map_errno(fd, d.in_at, d.side, PROT_READ), EACCES);
	IS(mprotect((void *)c.in, PAGE, PROT_WRITE) ? errno : 0, EACCES);
	IS(mprotect((void *)c.out, PAGE, PROT_READ), 0);
	IS(mprotect((void *)c.out, PAGE, PROT_READ | PROT_WRITE), 0);
	IS(madvise((void *)c.out, side, MADV_DOFORK) ? errno : 0, EINVAL);
	IS(mremap((void *)c.out, side, side + PAGE, MREMAP_MAYMOVE) == MAP_FAILED, 1);

	/* Twice at once, cut in the middle, moved. */
	half = vt_map(fd, out, side, PROT_READ | PROT_WRITE);
	IS(half != MAP_FAILED, 1);
	half[1] = 0x1234;
	IS(c.out[1] == 0x1234, 1);
	c.out[1] = 0;
	IS(munmap((char *)half + PAGE, PAGE), 0);
	IS(touch(half), 0);
	IS(touch((volatile uint64_t *)((char *)half + PAGE)), SIGSEGV);
	IS(touch((volatile uint64_t *)((char *)half + 2 * PAGE)), 0);
	moved = mremap((void *)half, PAGE, PAGE, MREMAP_MAYMOVE);
	IS(moved == (void *)half, 1);
	munmap((void *)half, side);
	IS(vt_call(&c, 7), 0);

	child = fork();
	if (!child)
		_exit(touch(c.out) == SIGSEGV && touch(c.in) == SIGSEGV &&
		      touch(header) == SIGSEGV &&
		      map_errno(fd, out, PAGE, PROT_READ) == 0 ? 0 : 1);
	waitpid(child, &status, 0);
	IS(status, 0);

	/* The file is closed, the mapping is not: all goes on. */
	{
		int again = dup(fd);

		close(fd);
		fd = again;
		c.fd = fd;
		IS(vt_call(&c, 7), 0);
	}
	IS(vt_release(fd, c.grant), 0);
	IS(c.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	IS(touch(c.in + side / 8 - 1), 0);
	IS(c.in[side / 8 - 1], 0);
	c.out[0] = 5;
	c.out[side / 8 - 1] = 6;
	IS(header[0] == VFUN_MAGIC, 1);
	IS(map_errno(fd, out, PAGE, PROT_READ), EACCES);
	IS(vt_ring(fd, c.channel), -ENOENT);
	IS(vt_call(&d, 7), 0);
	IS(vt_goodbye(other), 0);
	IS(d.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	d.out[0] = 1;
	IS(c.out[0], 5);	/* another file's page */
	vt_channel_unmap(&c);
	vt_channel_unmap(&d);
	munmap((void *)header, PAGE);
	close(fd);
	close(other);
}

static void waits(void)
{
	struct sigaction sa = { .sa_handler = no_op };
	struct vfun_ioc_eventfd ev = { 0 };
	uint64_t seen = 0, n = 0;
	struct vt_channel c;
	struct pollfd p;
	int fd = vt_open(), efd, status;
	pid_t child;

	IS(vt_hello(fd, "waits", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	IS(vt_wait(fd, 999, &seen, 0), -ENOENT);
	IS(vt_wait(fd, c.channel, &seen, 0), 0);
	IS(vt_wait(fd, c.channel, &seen, 1), -ETIMEDOUT);
	IS(vt_wait(fd, c.channel, &seen, 3000000), -ETIMEDOUT);
	seen--;
	IS(vt_wait(fd, c.channel, &seen, ~0ULL), 0);
	alarms(1);
	IS(vt_wait(fd, c.channel, &seen, 0x7fffffffffffffffULL - 1), -EINTR);
	alarms(0);

	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	IS(poll(&p, 1, 0), 0);
	efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ev.channel = c.channel;
	ev.fd = 4000;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), EBADF);
	ev.fd = fd;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), EINVAL);
	ev.fd = efd;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), 0);
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), 0);
	/* Declared asleep from the beginning, so that the service must ring. */
	__atomic_fetch_add(&c.out[VFUN_OUT_SLEEPERS], 1, __ATOMIC_SEQ_CST);
	IS(vt_post(&c, 1), 0);
	p = (struct pollfd){ .fd = efd, .events = POLLIN };
	IS(poll(&p, 1, 100000), 1);
	IS(read(efd, &n, 8) == 8 && n > 0, 1);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	IS(poll(&p, 1, 100000), 1);
	IS(p.revents, POLLIN);
	IS(vt_wait(fd, c.channel, &seen, 0), 0);
	IS(poll(&p, 1, 0), 0);
	__atomic_fetch_sub(&c.out[VFUN_OUT_SLEEPERS], 1, __ATOMIC_SEQ_CST);
	ev.fd = -1;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), 0);
	ev.fd = efd;
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), 0);

	/* A signal with a handler ends the wait, and it can go on. */
	sigaction(SIGALRM, &sa, NULL);
	vt_wait(fd, c.channel, &seen, 0);
	alarms(1);
	IS(vt_wait(fd, c.channel, &seen, ~0ULL), -EINTR);
	{
		struct vfun_ioc_wait w = { c.channel, seen, 100000000000ULL };

		IS(raw(fd, VFUN_IOC_WAIT, &w), EINTR);
		alarms(0);
		IS(w.timeout_ns > 0 && w.timeout_ns < 100000000000ULL, 1);
		IS(w.seen == seen, 1);
	}
	/* Stopped and continued: it goes on. */
	child = fork();
	if (!child) {
		usleep(100000);
		kill(getppid(), SIGSTOP);
		usleep(100000);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	IS(vt_wait(fd, c.channel, &seen, 1000000000ULL), -ETIMEDOUT);
	waitpid(child, &status, 0);
	alarms(1);
	n = 0;
	/* The ring for an earlier answer may come late. */
	do
		status = vt_wait(fd, 0, &n, ~0ULL);
	while (!status);
	IS(status, -EINTR);
	alarms(0);

	/* A release by another process wakes who waits for ever. */
	child = fork();
	if (!child) {
		usleep(100000);
		_exit(vt_release(fd, c.grant));
	}
	/* Or it is released before this process gets to wait. */
	status = vt_wait(fd, c.channel, &seen, ~0ULL);
	IS(status == 0 || status == -ENOENT, 1);
	waitpid(child, &status, 0);
	IS(status, 0);
	read(efd, &n, 8);
	IS(raw(fd, VFUN_IOC_EVENTFD, &ev), ENOENT);
	vt_channel_unmap(&c);
	close(efd);
	close(fd);
}

struct pair {
	int fd;
	struct vt_channel *c;
};

static void *busy_caller(void *arg)
{
	struct pair *p = arg;
	uint64_t seen = 0;
	int i;

	for (i = 0; i < 200; i++) {
		vt_wait(p->fd, p->c->channel, &seen, i % 3 ? 0 : 100000);
		vt_ring(p->fd, p->c->channel);
		map_errno(p->fd, p->c->out_at, PAGE, PROT_READ);
	}
	return NULL;
}

static void *one_close(void *arg)
{
	close(*(int *)arg);
	return NULL;
}

static void *one_goodbye(void *arg)
{
	struct pair *p = arg;
	int ret = vt_goodbye(p->fd);

	return (void *)(long)(ret == 0 ? 1 : 0);
}

static void *one_session(void *arg)
{
	struct vt_channel c;
	long good = 0;
	int i;

	(void)arg;
	for (i = 0; i < 5; i++) {
		int fd = vt_open();

		if (vt_hello(fd, "thread", NULL) == 0 &&
		    vt_channel_open(fd, "null", &c) == 0) {
			good += vt_call(&c, i) == 0;
			vt_channel_unmap(&c);
		}
		close(fd);
	}
	return (void *)good;
}

static void threads(void)
{
	struct vt_channel c;
	struct pair p;
	pthread_t t[8];
	void *ret;
	long sum;
	int i, k, fd;

	/* Close while others are inside. */
	for (k = 0; k < 10; k++) {
		int same;

		fd = vt_open();
		IS(vt_hello(fd, "closing", NULL), 0);
		IS(vt_channel_open(fd, "null", &c), 0);
		p = (struct pair){ fd, &c };
		for (i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, busy_caller, &p);
		usleep(1000 * k);
		same = fd;
		pthread_create(&t[4], NULL, one_close, &same);
		pthread_create(&t[5], NULL, one_close, &same);
		for (i = 0; i < 6; i++)
			pthread_join(t[i], NULL);
		IS(touch(c.in), 0);
		vt_channel_unmap(&c);
	}

	/* One GOODBYE of eight succeeds; the channel is over for all. */
	fd = vt_open();
	IS(vt_hello(fd, "goodbye", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	p = (struct pair){ fd, &c };
	for (i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, one_goodbye, &p);
	for (sum = i = 0; i < 8; i++) {
		pthread_join(t[i], &ret);
		sum += (long)ret;
	}
	IS(sum, 1);
	IS(c.in[VFUN_IN_BROKEN], VFUN_BREAK_REASON_RELEASED);
	vt_channel_unmap(&c);
	close(fd);

	for (i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, one_session, NULL);
	for (sum = i = 0; i < 8; i++) {
		pthread_join(t[i], &ret);
		sum += (long)ret;
	}
	IS(sum, 40);
}

/* A process that goes `step` steps and then on until it is killed. */
static void victim(int step)
{
	struct vt_channel c = { 0 };
	uint64_t seen = 0;
	int fd = vt_open();

	signal(SIGSEGV, SIG_DFL);
	if (step > 0)
		vt_hello(fd, "victim", NULL);
	/* One that has no channel is killed as it waits for that. */
	if (step > 1 && step < 10 && vt_channel_open(fd, "null", &c))
		step = 0;
	if (step > 2 && step < 10)
		vt_call(&c, 1);
	for (;;) {
		struct vfun_empty e = { 0 };
		struct vfun_negotiate_ack n;

		switch (step) {
		case 3:
			vt_wait(fd, c.channel, &seen, ~0ULL);
			break;
		case 4:
			vt_wait(fd, 0, &seen, 1000000);
			break;
		case 5:
			vt_call(&c, 1);
			break;
		case 6:
			vt_request(fd, VFUN_KIND_KEEP_ALIVE, &e, sizeof(e), NULL,
				   NULL);
			break;
		case 7:
			if (vt_negotiate(fd, "null", 4, 4096, &n) == 0)
				vt_release(fd, n.grant);
			break;
		case 8:
		case 10:
			vt_goodbye(fd);
			vt_hello(fd, "victim", NULL);
			break;
		case 9:
			vt_channel_unmap(&c);
			vt_release(fd, c.grant);
			vt_channel_open(fd, "null", &c);
			break;
		default:
			pause();
		}
	}
}

static void kills(void)
{
	int step, n, status;
	pid_t child;

	for (step = 0; step < 10; step++) {
		for (n = 0; n < 3; n++) {
			child = fork();
			if (!child)
				victim(step);
			usleep(20000 + 17000 * n);
			kill(child, SIGKILL);
			IS(waitpid(child, &status, 0), child);
			IS(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, 1);
		}
	}
}

/*
 * Processes that end their session and begin the next, more of them than the
 * window has control cells, killed in the middle of it: some as they wait for a
 * cell to say GOODBYE in. The host is to hear of the end of each.
 */
static void goodbyes(void)
{
	pid_t child[VFUN_CONTROL_CELLS + 8];
	int round, n, status;

	for (round = 0; round < 20; round++) {
		for (n = 0; n < VFUN_CONTROL_CELLS + 8; n++) {
			child[n] = fork();
			if (!child[n])
				victim(10);
		}
		usleep(50000 + 1370 * round);
		for (n = 0; n < VFUN_CONTROL_CELLS + 8; n++)
			kill(child[n], SIGKILL);
		for (n = 0; n < VFUN_CONTROL_CELLS + 8; n++)
			IS(waitpid(child[n], &status, 0), child[n]);
	}
}

static void limits(void)
{
	int fds[400], n, k, last = 0;
	struct vfun_negotiate_ack ack;

	for (n = 0; n < 400; n++) {
		fds[n] = open(node, O_RDWR | O_CLOEXEC);
		if (fds[n] < 0)
			break;
	}
	IS(n, 256);
	IS(errno, EMFILE);
	for (k = 0; k < n; k++)
		close(fds[k]);

	fds[0] = vt_open();
	IS(vt_hello(fds[0], "limits", NULL), 0);
	for (n = 0; n < 100 && !last; n++)
		last = vt_negotiate(fds[0], "null", 1, 64, &ack);
	/* The host's own limit for a client may come before the file's. */
	IS(last == -EMFILE ? n == 65 : last == 1 && n <= 65, 1);
	close(fds[0]);

	/* More sessions than a window has: refused, and all is well again then. */
	for (n = 0; n < 70; n++) {
		fds[n] = vt_open();
		if (vt_hello(fds[n], "many", NULL))
			break;
	}
	IS(n <= VFUN_SESSIONS, 1);
	for (k = 0; k <= n; k++)
		close(fds[k]);
}

static void over_exec(char **argv)
{
	struct vt_channel c;
	int fd = vt_open(), status;
	char text[16];
	pid_t child;

	IS(vt_hello(fd, "exec", NULL), 0);
	IS(vt_channel_open(fd, "null", &c), 0);
	child = fork();
	if (!child) {
		int kept = dup(fd);	/* without close-on-exec */

		snprintf(text, sizeof(text), "%d", kept);
		execl("/proc/self/exe", argv[0], node, "inherited", text, NULL);
		_exit(3);
	}
	waitpid(child, &status, 0);
	IS(status, 0);
	IS(vt_call(&c, 2), 0);
	vt_channel_unmap(&c);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sigaction none = { .sa_handler = no_op };

	if (argc > 1)
		node = argv[1];
	if (argc > 3) {
		/* The other side of over_exec: the session goes on here. */
		struct vfun_empty e = { 0 };

		return vt_request(atoi(argv[3]), VFUN_KIND_KEEP_ALIVE, &e,
				  sizeof(e), NULL, NULL) != 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	catch_faults();
	sigaction(SIGALRM, &none, NULL);
	if (argc > 2) {
		goodbyes();
	} else {
		arguments();
		session();
		mappings();
		waits();
		threads();
		kills();
		over_exec(argv);
		limits();
	}
	return checked("misuse");
}
