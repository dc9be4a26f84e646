/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rings the peer of a port, without waiting. */
#ifndef VFUN_RING_H
#define VFUN_RING_H

#include <stdint.h>

#include "vfun_sides.h"
#include "vfun_vm.h"

/* The threads of one device that ring. */
struct vfun_ringers;
struct vfun_ringer;

/* NULL: no memory. */
struct vfun_ringers *vfun_ringers_new(void);
/* The device ends. Threads that are stuck stay, until they are no more. */
void vfun_ringers_leave(struct vfun_ringers *all);

/* What rings the peer of one memory. */
struct vfun_bell {
	struct vfun_ringer *ringer;     /* of an eventfd; NULL: there is none */
	uint64_t *news;                 /* counted up before (R-CHN-8); NULL: no such word */
	void *page;                     /* in which it lies */
	const struct vfun_vm *vm;       /* what rings the host of this VM; NULL: another one rings */
};

/*
 * Makes a bell of an eventfd, which is its own then, and of the word at byte `news` of
 * the port's memory (0: none). 0, or -1 with a sentence, and the eventfd stays the caller's.
 */
int vfun_bell_open(struct vfun_bell *bell, struct vfun_ringers *all, int fd, int memory,
		   uint64_t news, struct vfun_error *e);
/* Whether anything rings. */
static inline int vfun_bell_is_there(const struct vfun_bell *bell)
{
	return bell->ringer || bell->vm;
}
void vfun_ring(const struct vfun_bell *bell);
void vfun_bell_close(struct vfun_bell *bell);

#endif
