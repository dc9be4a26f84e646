/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a driver and the host say to each other over a UNIX socket of the kind
 * SOCK_SEQPACKET: one message a packet, numbers little-endian.
 */
#ifndef VFUN_LINK_H
#define VFUN_LINK_H

#include <stdint.h>

#include "vfun_port.h"

/* From the driver, without descriptors: 88 bytes. */
struct vfun_port_ask {
	uint64_t magic;
	uint32_t kind;
	uint32_t zero;
	uint64_t handle;
	char name[64];                  /* of ASK: the port, padded with zeros */
};

#define VFUN_PORT_ASK 0x324b534154524f50ull     /* "PORTASK2" */
/* The first message, and only that; the handle of memory that is still mapped, or 0. */
#define VFUN_PORT_KIND_ASK 1
/* The memory of this handle is unmapped, and will not be touched again. */
#define VFUN_PORT_KIND_LETGO 2
/* All is unmapped, and memory that is on its way will not be taken: the driver hangs up. */
#define VFUN_PORT_KIND_GOODBYE 3

/* From the host: 240 bytes. */
struct vfun_port_word {
	uint64_t magic;
	uint32_t kind;
	uint32_t code;                  /* of REFUSED: not 0 */
	uint64_t handle;                /* of MEMORY and DROP */
	uint64_t mine, theirs;          /* of MEMORY: the bytes at which the sides begin */
	uint64_t ring;                  /* of WELCOME and MEMORY: bytes of each ring */
	uint64_t news;                  /* of MEMORY: where the word lies that is counted up */
	char sentence[184];             /* of REFUSED: why; it ends with a zero */
};

#define VFUN_PORT_WORD 0x3244525754524f50ull    /* "PORTWRD2" */
#define VFUN_PORT_WELCOME 1
#define VFUN_PORT_REFUSED 2
/* With the memory's descriptor, and maybe an eventfd that rings the peer. */
#define VFUN_PORT_MEMORY 3
#define VFUN_PORT_DROP 4

/* What vfun_link_connect and vfun_link_hear found. */
#define VFUN_LINK_DONE 0
#define VFUN_LINK_NOTHING 1             /* no message is there */
#define VFUN_LINK_ABSENT 2              /* nobody is at the other end, or no more */
#define VFUN_LINK_WRONG 3               /* the sentence says what; the other end is a stranger */

/* A message, and the descriptors that came with it, which are the taker's to close. */
struct vfun_link_heard {
	struct vfun_port_word word;
	int memory, bell;               /* of MEMORY; -1: none */
};

/*
 * Connects without waiting; the socket's owner must be root, this user, or the one of
 * the place. DONE, ABSENT or WRONG, the last two with a sentence.
 */
int vfun_link_connect(int *fd, const struct vfun_port_place *place, struct vfun_error *e);
/* Take no time, either. 0, or -1: the connection is of no more use. */
int vfun_link_ask(int fd, const char *port, uint64_t handle);
int vfun_link_let_go(int fd, uint64_t handle);
int vfun_link_goodbye(int fd);
/* Takes one message that is as it must be. DONE, NOTHING, ABSENT or WRONG. */
int vfun_link_hear(int fd, struct vfun_link_heard *heard, struct vfun_error *e);
void vfun_link_close(struct vfun_link_heard *heard);

#endif
