/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rings the peer. Others hold its eventfd, too (a VM's QEMU does), and may make a write to it
 * wait for ever. So a thread of its own writes there, and nobody waits for that thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfun_ring.h"

#define PAGE 4096ull
/* Threads of one device that may be stuck: with more of them it takes no bell. */
#define STUCK_MAX 4
/* What is written to a thread that shall end; less are rings. */
#define END (1ull << 32)
/* A thread that calls three functions. */
#define STACK_BYTES (64 << 10)

struct vfun_ringers {
	uint32_t users;                 /* the device, and its threads */
};

struct vfun_ringer {
	struct vfun_ringers *all;
	int bell;                       /* the peer's */
	int wake;                       /* this thread's own */
};

struct vfun_ringers *vfun_ringers_new(void)
{
	struct vfun_ringers *all = calloc(1, sizeof(*all));

	if (all)
		all->users = 1;
	return all;
}

void vfun_ringers_leave(struct vfun_ringers *all)
{
	if (all && __atomic_sub_fetch(&all->users, 1, __ATOMIC_ACQ_REL) == 0)
		free(all);
}

static void ringer_free(struct vfun_ringer *r)
{
	close(r->bell);
	close(r->wake);
	vfun_ringers_leave(r->all);
	free(r);
}

static void *run(void *ringer)
{
	struct vfun_ringer *r = ringer;
	uint64_t said = 0, rings;

	while (said < END) {
		if (read(r->wake, &said, sizeof(said)) != sizeof(said))
			continue;
		rings = said % END;
		/* If there is no room, so much was rung that the peer wakes up anyhow. */
		if (rings && write(r->bell, &rings, sizeof(rings)) < 0)
			continue;
	}
	ringer_free(r);
	return NULL;
}

/* Tells a thread; it takes no time: only that thread reads. */
static void tell(const struct vfun_ringer *r, uint64_t what)
{
	ssize_t done = write(r->wake, &what, sizeof(what));

	(void)done;
}

/* Signals are for the application's own threads. */
static int start(struct vfun_ringer *r)
{
	sigset_t all, before;
	pthread_attr_t how;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_attr_init(&how);
	pthread_attr_setstacksize(&how, STACK_BYTES);
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&thread, &how, run, r);
	if (!ret)
		pthread_setname_np(thread, "vfun-ring");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
	return ret;
}

/* A thread for this bell, which is its own then; NULL with a sentence. */
static struct vfun_ringer *ringer(struct vfun_ringers *all, int bell, struct vfun_error *e)
{
	struct vfun_ringer *r;

	if (__atomic_load_n(&all->users, __ATOMIC_ACQUIRE) > STUCK_MAX) {
		vfun_wrong(e, "%d threads that ring the peer are stuck, because another process holds its eventfd", STUCK_MAX);
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		vfun_wrong(e, "no memory for what rings the peer");
		return NULL;
	}
	*r = (struct vfun_ringer){ .all = all, .bell = bell, .wake = eventfd(0, EFD_CLOEXEC) };
	__atomic_add_fetch(&all->users, 1, __ATOMIC_ACQ_REL);
	if (r->wake >= 0 && !start(r))
		return r;
	vfun_wrong(e, "no thread that rings the peer: %s", strerror(errno));
	r->bell = -1;
	ringer_free(r);
	return NULL;
}

static int is_eventfd(int fd, struct vfun_error *e)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char at[64], is[sizeof(eventfd)];
	ssize_t bytes;

	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	bytes = readlink(at, is, sizeof(is));
	if (bytes < 0)
		vfun_wrong(e, "what rings the peer cannot be looked at: %s: %s", at, strerror(errno));
	else if (bytes != sizeof(eventfd) - 1 || memcmp(is, eventfd, (size_t)bytes))
		vfun_wrong(e, "what rings the peer is no eventfd");
	else
		return 1;
	return 0;
}

/* The page with the word that is counted up; 0, or -1 with a sentence. */
static int map_news(struct vfun_bell *bell, int memory, uint64_t news, struct vfun_error *e)
{
	uint64_t at = news / PAGE * PAGE;
	struct stat st;

	if (!vfun_sides_is_firm(memory) || fstat(memory, &st) || news % 8 ||
	    (!S_ISCHR(st.st_mode) && at + PAGE > (uint64_t)st.st_size))
		return vfun_wrong(e, "the word at byte %llu that is counted up for the peer does not lie in the port's memory",
				  (unsigned long long)news);
	bell->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, (off_t)at);
	if (bell->page == MAP_FAILED) {
		bell->page = NULL;
		return vfun_wrong(e, "the word that is counted up for the peer cannot be mapped: %s", strerror(errno));
	}
	bell->news = (uint64_t *)bell->page + news % PAGE / 8;
	return 0;
}

int vfun_bell_open(struct vfun_bell *bell, struct vfun_ringers *all, int fd, int memory,
		   uint64_t news, struct vfun_error *e)
{
	*bell = (struct vfun_bell){ .ringer = NULL };
	if (!is_eventfd(fd, e) || (news && map_news(bell, memory, news, e)))
		return -1;
	bell->ringer = ringer(all, fd, e);
	if (bell->ringer)
		return 0;
	vfun_bell_close(bell);
	return -1;
}

void vfun_ring(const struct vfun_bell *bell)
{
	if (bell->vm)
		vfun_vm_ring(bell->vm);
	if (!bell->ringer)
		return;
	/* Others of the host count it up, too. */
	if (bell->news)
		__atomic_fetch_add(bell->news, 1, __ATOMIC_RELEASE);
	tell(bell->ringer, 1);
}

void vfun_bell_close(struct vfun_bell *bell)
{
	if (bell->page)
		munmap(bell->page, PAGE);
	/* It rings what is due, and frees itself. */
	if (bell->ringer)
		tell(bell->ringer, END);
	*bell = (struct vfun_bell){ .ringer = NULL };
}
