/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Speaks with the owner of a socket about the memory of a port. It never waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vfun_link.h"
#include "vfun_packet.h"

/* Room for descriptors: two are due at most. What has no room is closed by the kernel. */
#define DESCRIPTORS 4

_Static_assert(sizeof(struct vfun_port_ask) == 96, "as the host reads it");
_Static_assert(sizeof(struct vfun_port_word) == 248, "as the host writes it");

/* ---- to the host ---------------------------------------------------- */

static int is_known(int fd, const struct vfun_port_place *place)
{
	socklen_t bytes = sizeof(struct ucred);
	struct ucred owner;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) &&
	       (owner.uid == 0 || owner.uid == geteuid() || owner.uid == place->owner);
}

/* What may be mended without a change of the arguments: the host may come yet. */
static int is_absence(int error)
{
	return error == ENOENT || error == ECONNREFUSED || error == EAGAIN;
}

int vfun_link_connect(int *fd, const struct vfun_port_place *place, struct vfun_error *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int found = VFUN_LINK_WRONG;

	if (strlen(place->socket) >= sizeof(at.sun_path)) {
		vfun_wrong(e, "the socket's path is longer than %zu bytes", sizeof(at.sun_path) - 1);
		return found;
	}
	strcpy(at.sun_path, place->socket);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0) {
		vfun_wrong(e, "no socket: %s", strerror(errno));
		return found;
	}
	if (connect(*fd, (struct sockaddr *)&at, sizeof(at))) {
		found = is_absence(errno) ? VFUN_LINK_ABSENT : VFUN_LINK_WRONG;
		if (errno == EPROTOTYPE)
			vfun_wrong(e, "%s is a socket of another kind: another program listens there, or VirtFun of another version", place->socket);
		else
			vfun_wrong(e, "%s cannot be reached: %s; check that the program that gives out ports runs, and that this user may connect", place->socket, strerror(errno));
	} else if (!is_known(*fd, place)) {
		vfun_wrong(e, "%s belongs neither to root nor to this user; if it is right so, give owner= with the number of its user", place->socket);
	} else {
		return VFUN_LINK_DONE;
	}
	close(*fd);
	*fd = -1;
	return found;
}

static int send_ask(int fd, const struct vfun_port_ask *ask)
{
	ssize_t done = send(fd, ask, sizeof(*ask), MSG_NOSIGNAL | MSG_DONTWAIT);

	return done == sizeof(*ask) ? 0 : -1;
}

int vfun_link_ask(int fd, const char *port, uint64_t handle, uint32_t knows)
{
	struct vfun_port_ask ask = { .magic = VFUN_HANDOVER_ASK_MAGIC, .kind = VFUN_PORT_ASK_WANT,
				     .knows = knows, .handle = handle };

	/* Without a zero at its end if it has all the bytes; its length was looked at. */
	memcpy(ask.name, port, strnlen(port, sizeof(ask.name)));
	return send_ask(fd, &ask);
}

int vfun_link_let_go(int fd, uint64_t handle)
{
	struct vfun_port_ask ask = { .magic = VFUN_HANDOVER_ASK_MAGIC, .kind = VFUN_PORT_ASK_LET_GO,
				     .handle = handle };

	return send_ask(fd, &ask);
}

int vfun_link_say(int fd, uint32_t kind, uint64_t link, uint64_t epoch)
{
	struct vfun_port_ask ask = { .magic = VFUN_HANDOVER_ASK_MAGIC, .kind = kind,
				     .handle = link, .epoch = epoch };

	return send_ask(fd, &ask);
}

int vfun_link_goodbye(int fd)
{
	struct vfun_port_ask ask = { .magic = VFUN_HANDOVER_ASK_MAGIC, .kind = VFUN_PORT_ASK_GOODBYE };

	return send_ask(fd, &ask);
}

/* ---- from the host -------------------------------------------------- */

/* Takes all descriptors that came; how many. */
static unsigned int descriptors(struct msghdr *msg, int fds[DESCRIPTORS])
{
	unsigned int count = 0, here;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		here = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds + count, CMSG_DATA(c), here * sizeof(int));
		count += here;
	}
	return count;
}

static int is_epoch(uint64_t epoch)
{
	return epoch && !(epoch >> 63);
}

/* Whether two sides of a link can be where it says, in a file that has the bytes. */
static int is_place(const struct vfun_port_word *w)
{
	uint64_t apart = w->mine < w->theirs ? w->theirs - w->mine : w->mine - w->theirs;

	return vfun_packet_ring_ok(w->ring) && (w->mine | w->theirs) % 4096 == 0 &&
	       apart >= VFUN_PACKET_RING_OFF + w->ring;
}

static int is_right(const struct vfun_port_word *w, unsigned int count)
{
	switch (w->kind) {
	case VFUN_PORT_WORD_WELCOME:
		return count == 0 && vfun_packet_ring_ok(w->ring);
	case VFUN_PORT_WORD_REFUSED:
		return count == 0 && w->code != 0;
	case VFUN_PORT_WORD_MEMORY:
		return (count == 1 || count == 2) && w->handle != 0;
	case VFUN_PORT_WORD_DROP:
		return count == 0;
	case VFUN_PORT_WORD_LINK:
		return count == 1 && w->handle != 0 && is_place(w) && w->sentence[0] &&
		       (!w->epoch || is_epoch(w->epoch));
	case VFUN_PORT_WORD_ALLOW:
	case VFUN_PORT_WORD_FORCE:
		return count == 0 && w->handle != 0 && is_epoch(w->epoch);
	case VFUN_PORT_WORD_UNLINK:
		return count == 0 && w->handle != 0;
	default:
		return 0;
	}
}

int vfun_link_hear(int fd, struct vfun_link_heard *heard, struct vfun_error *e)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct vfun_port_word *w = &heard->word;
	struct iovec iov = { .iov_base = w, .iov_len = sizeof(*w) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	unsigned int count, i;
	int fds[DESCRIPTORS];

	heard->memory = heard->bell = -1;
	/* An end that left words of ours unread shows first; what it said before is there still. */
	if (got < 0 && errno == ECONNRESET)
		got = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return VFUN_LINK_NOTHING;
	if (got <= 0)
		return VFUN_LINK_ABSENT;
	count = descriptors(&msg, fds);
	w->sentence[sizeof(w->sentence) - 1] = 0;
	if (got == sizeof(*w) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    w->magic == VFUN_HANDOVER_WORD_MAGIC && is_right(w, count)) {
		heard->memory = count > 0 ? fds[0] : -1;
		heard->bell = count > 1 ? fds[1] : -1;
		return VFUN_LINK_DONE;
	}
	for (i = 0; i < count; i++)
		close(fds[i]);
	vfun_wrong(e, "a message of %zd bytes with %u descriptors is not one of VirtFun's: another program listens there, or one of another version", got, count);
	return VFUN_LINK_WRONG;
}

void vfun_link_close(struct vfun_link_heard *heard)
{
	if (heard->memory >= 0)
		close(heard->memory);
	if (heard->bell >= 0)
		close(heard->bell);
	heard->memory = heard->bell = -1;
}
