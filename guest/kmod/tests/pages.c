// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of pages, in a VM whose memory the host has.
 *
 *   pages NODE        right and wrong uses: "pages: N checks" with status 0, or
 *                     what failed with 1
 *   pages NODE hold   pins 100 pages, prints "held" and waits to be killed
 *   pages NODE read   the same, and the program may only read them
 *   pages NODE put    gives a table back that a service has, and has the same pages in
 *                     another one at once
 *   pages NODE anew   the same after the window was made anew, in the same file
 *   pages NODE disk DISK   memory of a disk is refused
 *
 * The last ones print "done" and wait, too.
 */
#include "check.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define PLACES 64

static char *fresh(size_t pages)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	memset(at, 1, pages * PAGE);
	return at;
}

/* 0: ack, 1: nack, or -errno. */
static int get(int fd, uint64_t grant, uint64_t places, struct vfun_buffer_ack *ack)
{
	struct vfun_buffer_get g = {
		.grant = grant, .flags = VFUN_BUFFER_PAGES,
		.bytes = VFUN_PAGES_ENTRIES + places * VFUN_PAGES_ENTRY_BYTES,
	};
	uint8_t answer[VFUN_ANSWER_BODY];
	int ret = vt_request(fd, VFUN_KIND_BUFFER_GET, &g, sizeof(g), answer, NULL);

	if (!ret)
		memcpy(ack, answer, sizeof(*ack));
	return ret;
}

static struct vfun_ioc_pin last;

static int pin(int fd, uint64_t table, uint64_t index, const void *at, size_t pages, int write)
{
	last = (struct vfun_ioc_pin){ .buffer = table, .index = index, .addr = (uintptr_t)at,
				      .bytes = pages * PAGE, .write = write };
	return raw(fd, VFUN_IOC_PIN, &last);
}

/* Whether so many pages are named from this place on. */
static int is_at(uint64_t table, uint64_t index, size_t pages)
{
	return last.buffer == table && last.index == index && last.bytes == pages * PAGE;
}

static void nobody_else_writes_it(int fd, const struct vfun_buffer_ack *b)
{
	struct vfun_ioc_remap r = { .buffer = b->buffer, .addr = (uintptr_t)fresh(1), .bytes = PAGE };

	IS(map_errno(fd, vt_at(&b->range), b->range.bytes, PROT_READ | PROT_WRITE), EACCES);
	IS(map_errno(fd, vt_at(&b->range), PAGE, PROT_READ), EACCES);
	IS(map_errno(fd, vt_at(&b->range) + PAGE, PAGE, PROT_READ), EACCES);
	IS(raw(fd, VFUN_IOC_REMAP, &r), EINVAL);
}

static void a_page_is_known_by_itself(int fd, uint64_t table)
{
	char *at = fresh(4), *moved;

	IS(pin(fd, 0, 0, at, 4, 1), 0);
	IS(is_at(0, 0, 4), 1);
	IS(pin(fd, table, 0, at, 4, 1), 0);
	IS(is_at(table, 0, 4), 1);
	IS(pin(fd, 0, 0, at + 2 * PAGE, 2, 0), 0);
	IS(is_at(table, 2, 2), 1);
	/* Again, elsewhere: it stays. */
	IS(pin(fd, table, 20, at, 4, 1), 0);
	IS(is_at(table, 0, 4), 1);
	moved = mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(4));
	IS(moved != MAP_FAILED, 1);
	IS(pin(fd, 0, 0, moved, 4, 1), 0);
	IS(is_at(table, 0, 4), 1);
	/* Other memory at the same address is other memory. */
	munmap(moved, 4 * PAGE);
	IS(mmap(moved, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	   moved, 1);
	IS(pin(fd, 0, 0, moved, 4, 1), 0);
	IS(is_at(0, 0, 4), 1);
	IS(pin(fd, table, 0, moved, 4, 1), EINVAL);
	IS(pin(fd, table, 4, moved, 4, 1), 0);
	IS(is_at(table, 4, 4), 1);
	/* Part of it is there already. */
	at = fresh(3);
	IS(pin(fd, table, 10, at + PAGE, 1, 1), 0);
	IS(pin(fd, table, 30, at, 3, 1), 0);
	IS(is_at(table, 30, 1), 1);
}

static void rights(int fd, uint64_t table)
{
	char *at = fresh(2), *shared;

	mprotect(at, 2 * PAGE, PROT_READ);
	IS(pin(fd, table, 40, at, 2, 1), EROFS);
	IS(pin(fd, table, 40, at, 2, 0), 0);
	IS(is_at(table, 40, 2), 1);
	mprotect(at, 2 * PAGE, PROT_READ | PROT_WRITE);
	at[5] = 7;
	IS(pin(fd, table, 50, at, 2, 1), 0);
	/* A write did not make it another page. */
	IS(is_at(table, 40, 2), 1);
	mprotect(at, 2 * PAGE, PROT_NONE);
	IS(pin(fd, 0, 0, at, 2, 0), EFAULT);
	munmap(at, 2 * PAGE);
	IS(pin(fd, 0, 0, at, 2, 0), EFAULT);
	at = vt_map(fd, 0, PAGE, PROT_READ);
	IS(pin(fd, table, 50, at, 1, 0), EOPNOTSUPP);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	IS(pin(fd, table, 50, shared, 1, 1), 0);
	IS(is_at(table, 50, 1), 1);
}

static void what_cannot_be(int fd, int other, uint64_t table)
{
	struct vfun_ioc_pin p = { .addr = (uintptr_t)fresh(1), .bytes = PAGE, .reserved = 1 };
	char *at = fresh(2);
	int status;
	pid_t child;

	IS(raw(fd, VFUN_IOC_PIN, &p), EINVAL);
	IS(raw(fd, VFUN_IOC_PIN, NULL), EFAULT);
	IS(pin(fd, 0, 0, at, 1, 2), EINVAL);
	IS(pin(fd, 0, 0, at, 0, 0), EINVAL);
	IS(pin(fd, 0, 0, at + 1, 1, 0), EINVAL);
	IS(pin(fd, 0, 0, (void *)(-4 * PAGE), 8, 0), EINVAL);
	IS(pin(fd, 0, 0, (void *)~(PAGE - 1), 1, 0), EINVAL);
	IS(pin(fd, table, 1UL << 40, at, 1, 0), EINVAL);
	IS(pin(fd, table, ~0UL, at, 2, 0), EINVAL);
	IS(pin(fd, table + 1, 60, at, 1, 0), ENOENT);
	IS(pin(other, table, 60, at, 1, 0), ENOENT);
	child = fork();
	if (!child)
		_exit(pin(fd, table, 60, fresh(1), 1, 0) == EBADF ? 0 : 1);
	waitpid(child, &status, 0);
	IS(status, 0);
}

/* What was in a table that is over is in no other one. */
static void the_next_table_is_empty(int fd)
{
	struct vfun_buffer_ack a, b;
	char *at = fresh(3);

	IS(get(fd, 0, PLACES, &a), 0);
	IS(pin(fd, a.buffer, 0, at, 3, 1), 0);
	IS(is_at(a.buffer, 0, 3), 1);
	IS(vt_buffer_put(fd, a.buffer), 0);
	IS(get(fd, 0, PLACES, &b), 0);
	IS(pin(fd, 0, 0, at, 3, 1), 0);
	IS(is_at(0, 0, 3), 1);
	IS(vt_buffer_put(fd, b.buffer), 0);
}

static void no_more_than_the_limit(int fd, uint64_t table)
{
	struct rlimit few = { 4 * PAGE, 4 * PAGE };

	setrlimit(RLIMIT_MEMLOCK, &few);
	/* Who may lock memory has no limit. */
	IS(geteuid() || !setuid(65534), 1);
	IS(pin(fd, table, 52, fresh(8), 8, 1), EDQUOT);
	IS(pin(fd, 0, 0, fresh(8), 8, 1), 0);
}

static int say_and_wait(const char *what)
{
	printf("%s %d\n", what, failed);
	fflush(stdout);
	while (pause())
		;
	return 0;
}

static int holds(int fd, int read_only)
{
	char *at = fresh(100);
	struct vfun_buffer_ack b;

	if (read_only)
		mprotect(at, 100 * PAGE, PROT_READ);
	IS(get(fd, 0, 100, &b), 0);
	IS(pin(fd, b.buffer, 0, at, 100, !read_only), 0);
	IS(is_at(b.buffer, 0, 100), 1);
	return say_and_wait("held");
}

/* Pages of a table that is over, or asked back, can be in another one. */
static int moves_on(int fd, int anew)
{
	struct vfun_ioc_info was, is;
	struct vfun_buffer_ack a, b;
	char *at = fresh(100);
	int tries;

	IS(raw(fd, VFUN_IOC_INFO, &was), 0);
	IS(get(fd, 0, 100, &a), 0);
	IS(pin(fd, a.buffer, 0, at, 100, 1), 0);
	if (anew) {
		printf("held %d\n", failed);
		fflush(stdout);
		for (tries = 0; tries < 1000; tries++) {
			if (!raw(fd, VFUN_IOC_INFO, &is) && is.generation &&
			    is.generation != was.generation)
				break;
			usleep(10000);
		}
		IS(pin(fd, a.buffer, 0, fresh(1), 1, 1) != 0, 1);
		IS(vt_hello(fd, "anew", NULL), 0);
	} else {
		/* A service has it. */
		IS(vt_buffer_put(fd, a.buffer), 1);
		IS(vt_buffer_put(fd, a.buffer), -ENOENT);
	}
	IS(pin(fd, 0, 0, at, 100, 1), 0);
	IS(is_at(0, 0, 100), 1);
	IS(get(fd, 0, 200, &b), 0);
	IS(pin(fd, b.buffer, 50, at, 100, 1), 0);
	IS(is_at(b.buffer, 50, 100), 1);
	IS(pin(fd, 0, 0, at + PAGE, 10, 1), 0);
	IS(is_at(b.buffer, 51, 10), 1);
	return say_and_wait("done");
}

/* A disk's node lies in a devtmpfs; its pages are written back, as a file's. */
static int refuses(int fd, const char *disk)
{
	int of = open(disk, O_RDWR);
	struct vfun_buffer_ack b;
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, of, 0);

	IS(at != MAP_FAILED, 1);
	IS(get(fd, 0, PLACES, &b), 0);
	IS(pin(fd, b.buffer, 0, at, 1, 1), EOPNOTSUPP);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, of, 0);
	IS(pin(fd, b.buffer, 0, at, 1, 1), 0);
	return say_and_wait("done");
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	int fd, other;
	struct vfun_hello_ack hello;
	struct vfun_buffer_ack b;

	if (argc < 2)
		return 2;
	node = argv[1];
	fd = vt_open();
	other = vt_open();
	IS(vt_hello(fd, "pages", &hello), 0);
	IS(!!(hello.features & VFUN_FEATURE_PAGES), 1);
	if (!strcmp(what, "hold") || !strcmp(what, "read"))
		return holds(fd, *what == 'r');
	if (!strcmp(what, "put") || !strcmp(what, "anew"))
		return moves_on(fd, *what == 'a');
	if (!strcmp(what, "disk") && argc > 3)
		return refuses(fd, argv[3]);
	IS(get(fd, 0, 0, &b), -EINVAL);
	IS(get(fd, 77, PLACES, &b), -EINVAL);
	IS(get(fd, 0, PLACES, &b), 0);
	nobody_else_writes_it(fd, &b);
	a_page_is_known_by_itself(fd, b.buffer);
	rights(fd, b.buffer);
	what_cannot_be(fd, other, b.buffer);
	the_next_table_is_empty(fd);
	no_more_than_the_limit(fd, b.buffer);
	IS(vt_buffer_put(other, b.buffer), -ENOTCONN);
	IS(vt_buffer_put(fd, b.buffer), 0);
	IS(pin(fd, b.buffer, 60, fresh(1), 1, 0), ENOENT);
	IS(vt_buffer_put(fd, b.buffer), -ENOENT);
	return checked("pages");
}
