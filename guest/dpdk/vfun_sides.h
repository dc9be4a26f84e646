/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The memory of one port: two sides, of which this process writes one. */
#ifndef VFUN_SIDES_H
#define VFUN_SIDES_H

#include <stdint.h>

/*
 * Where a port's memory comes from, as the user wrote it. A socket, whose owner hands the
 * memory out and takes it back (vfun_link.h); a file; or, with neither, the host of the VM
 * in which this runs (vfun_vm.h).
 */
struct vfun_port_place {
	char *socket, *port;            /* a UNIX socket, and the name to ask it for */
	char *path;                     /* a file */
	char *endpoint;                 /* in a VM: the way to its host; NULL: the usual one */
	uint64_t owner;                 /* the user who may own the socket, beside root and us */
	uint64_t mine, theirs, ring;    /* with a file: where the sides are, and bytes of a ring */
	int is_more_said;               /* one of these four, or more */
};

struct vfun_sides {
	void *mine;                     /* the side that this process writes; NULL: no memory */
	const void *theirs;
	uint64_t ring;
	int is_lent;                    /* another one unmaps it */
};

/* What is wrong, in one sentence for the user. */
struct vfun_error {
	char text[320];
};

/* Writes the sentence. -1, so that it can be returned. */
__attribute__((format(printf, 2, 3)))
int vfun_wrong(struct vfun_error *e, const char *format, ...);

/*
 * Maps a port's memory, whose descriptor stays the caller's. 0, or -1 with a sentence.
 * Memory that somebody could cut short is refused: touching what is gone ends the process.
 */
int vfun_sides_map(struct vfun_sides *port, int fd, uint64_t mine, uint64_t theirs,
		  uint64_t ring, struct vfun_error *e);
/* The same for a place that is a file. */
int vfun_sides_open(struct vfun_sides *port, const struct vfun_port_place *place,
		   struct vfun_error *e);
void vfun_sides_unmap(struct vfun_sides *port);

/* Whether nobody can take pages of this file away. */
int vfun_sides_is_firm(int fd);

#endif
