/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a driver and the host say to each other over a UNIX socket of the kind
 * SOCK_SEQPACKET: one message a packet, numbers little-endian.
 */
#ifndef VFUN_LINK_H
#define VFUN_LINK_H

#include <stdint.h>

#include "vfun_sides.h"
#include "vfun_wire.h"

/*
 * struct vfun_port_ask and struct vfun_port_word of vfun_wire.h; section 17 of
 * docs/protocol.md has the rules.
 */

/* What vfun_link_connect and vfun_link_hear found. */
#define VFUN_LINK_DONE 0
#define VFUN_LINK_NOTHING 1             /* no message is there */
#define VFUN_LINK_ABSENT 2              /* nobody is at the other end, or no more */
#define VFUN_LINK_WRONG 3               /* the sentence says what; the other end is a stranger */

/* A message, and the descriptors that came with it, which are the taker's to close. */
struct vfun_link_heard {
	struct vfun_port_word word;
	int memory, bell;               /* of MEMORY, and the file of LINK; -1: none */
};

/*
 * Connects without waiting; the socket's owner must be root, this user, or the one of
 * the place. DONE, ABSENT or WRONG, the last two with a sentence.
 */
int vfun_link_connect(int *fd, const struct vfun_port_place *place, struct vfun_error *e);
/* Take no time, either. 0, or -1: the connection is of no more use. */
int vfun_link_ask(int fd, const char *port, uint64_t handle, uint32_t knows);
/* ALLOWED, FORCED or UNLINKED. */
int vfun_link_say(int fd, uint32_t kind, uint64_t link, uint64_t epoch);
int vfun_link_let_go(int fd, uint64_t handle);
int vfun_link_goodbye(int fd);
/* Takes one message that is as it must be. DONE, NOTHING, ABSENT or WRONG. */
int vfun_link_hear(int fd, struct vfun_link_heard *heard, struct vfun_error *e);
void vfun_link_close(struct vfun_link_heard *heard);

#endif
