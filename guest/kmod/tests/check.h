/* SPDX-License-Identifier: GPL-2.0 */
/* Checks that go on when one fails, and what the programs that use them share. */
#ifndef CHECK_H
#define CHECK_H

#include "vt.h"

#include <setjmp.h>
#include <signal.h>

static int checks, failed;

static inline void check_is(long found, long right, const char *what,
			    const char *file, int line)
{
	checks++;
	if (found != right) {
		failed++;
		printf("%s:%d: %s gave %ld, not %ld\n", file, line, what, found,
		       right);
	}
}

#define IS(what, right) \
	check_is((long)(what), (long)(right), #what, __FILE__, __LINE__)

/* Prints "NAME: N checks" or "NAME: M of N failed"; the exit status. */
static inline int checked(const char *name)
{
	if (failed)
		printf("%s: %d of %d failed\n", name, failed, checks);
	else
		printf("%s: %d checks\n", name, checks);
	return failed != 0;
}

static inline int raw(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) ? errno : 0;
}

static inline int map_errno(int fd, uint64_t off, uint64_t len, int prot)
{
	void *p = vt_map(fd, off, len, prot);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, len);
	return 0;
}

static sigjmp_buf fault_jump;

static inline void on_fault(int sig)
{
	siglongjmp(fault_jump, sig);
}

static inline void catch_faults(void)
{
	struct sigaction sa = { .sa_handler = on_fault };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

/* The signal that touching an address brings; 0: none. */
static inline int touch(const volatile uint64_t *p)
{
	int sig = sigsetjmp(fault_jump, 1);

	if (!sig)
		(void)*p;
	return sig;
}

#endif
