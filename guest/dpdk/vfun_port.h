/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The memory of one port: two sides, of which this process writes one. */
#ifndef VFUN_PORT_H
#define VFUN_PORT_H

#include <stdint.h>

/*
 * Where a port's memory comes from, as the user wrote it. Either a socket, whose
 * owner hands the descriptor out and says where the sides are; or a file.
 */
struct vfun_port_place {
	char *socket, *port;            /* a UNIX socket, and the name to ask it for */
	char *path;                     /* a file */
	uint64_t mine, theirs, ring;    /* with a file: where the sides are, and bytes of a ring */
};

/* What is asked over the socket: 72 bytes. */
struct vfun_port_ask {
	uint64_t magic;
	char name[64];                  /* padded with zeros */
};

/* What comes back, with the memory's descriptor if code is 0: 232 bytes. */
struct vfun_port_answer {
	uint64_t magic;
	uint32_t code;                  /* 0: here it is; else the sentence says why not */
	uint32_t flags;                 /* zero */
	uint64_t mine, theirs, ring;    /* bytes: where the sides begin, and of a ring */
	char sentence[192];             /* padded with zeros */
};

#define VFUN_PORT_ASK 0x314b534154524f50ull    /* "PORTASK1" */
#define VFUN_PORT_ANSWER 0x31534e4154524f50ull /* "PORTANS1" */

struct vfun_port {
	void *mine;                     /* the side that this process writes */
	const void *theirs;
	uint64_t ring;
	int socket;                     /* held open as long as the port is used; -1: none */
};

/*
 * Maps a port's memory. 0, or -1, and `error` says in one sentence what is wrong. Memory
 * that somebody could cut short is refused: touching what is gone ends the process.
 */
int vfun_port_open(struct vfun_port *port, const struct vfun_port_place *place,
		   char *error, unsigned int error_bytes);
void vfun_port_close(struct vfun_port *port);

#endif
