/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Gets the memory of a port, by a socket or from a file, and checks it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vfun_packet.h"
#include "vfun_port.h"

/* How long the owner of a socket may take to answer: a restart of it, and some. */
#define ANSWER_SECONDS 5
/* Room for descriptors: one is due. What has no room is closed by the kernel. */
#define DESCRIPTORS 4

struct where {
	char *error;
	unsigned int bytes;
};

__attribute__((format(printf, 2, 3)))
static int wrong(const struct where *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->error, w->bytes, format, args);
	va_end(args);
	return -1;
}

/* Whether nobody can take pages of this file away. */
static int is_firm(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals >= 0)
		return (seals & F_SEAL_SHRINK) != 0;
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return 0;
	/* Memory of a PCI device in a VM: a file of sysfs, or the module's node. */
	return S_ISCHR(st.st_mode) || fs.f_type == SYSFS_MAGIC;
}

/* Maps one side; NULL: errno says why. */
static void *map_side(int fd, uint64_t at, uint64_t ring, int protection)
{
	void *side = mmap(NULL, VFUN_PACKET_RING_OFF + ring, protection, MAP_SHARED, fd, (off_t)at);

	return side == MAP_FAILED ? NULL : side;
}

static int map(struct vfun_port *port, int fd, uint64_t mine, uint64_t theirs,
	       const struct where *w)
{
	uint64_t side = VFUN_PACKET_RING_OFF + port->ring;
	struct statfs fs;
	struct stat st;

	if (!vfun_packet_ring_ok(port->ring))
		return wrong(w, "a ring has a power of two from %d to %d bytes, and not %llu",
			     VFUN_PACKET_RING_MIN, VFUN_PACKET_RING_MAX,
			     (unsigned long long)port->ring);
	if (!is_firm(fd))
		return wrong(w, "the port's memory is not sealed against shrinking: its owner could end this process by truncating it; seal it with F_SEAL_SHRINK");
	/* Only now: before it was known to be sealed, the size could change. */
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return wrong(w, "the port's memory cannot be looked at: %s", strerror(errno));
	if (fs.f_type == HUGETLBFS_MAGIC)
		return wrong(w, "the port's memory has huge pages, which this driver cannot map; use memory with pages of 4 KiB");
	if ((mine | theirs) % 4096 || (mine < theirs ? theirs - mine : mine - theirs) < side ||
	    (!S_ISCHR(st.st_mode) && ((uint64_t)st.st_size < side ||
				      mine > (uint64_t)st.st_size - side ||
				      theirs > (uint64_t)st.st_size - side)))
		return wrong(w, "the sides of %llu bytes at %llu and %llu overlap, do not begin at a page, or lie outside of the memory's %llu bytes",
			     (unsigned long long)side, (unsigned long long)mine,
			     (unsigned long long)theirs, (unsigned long long)st.st_size);
	port->mine = map_side(fd, mine, port->ring, PROT_READ | PROT_WRITE);
	/* Read-only: a mistake here shall not write what the peer writes. */
	port->theirs = port->mine ? map_side(fd, theirs, port->ring, PROT_READ) : NULL;
	if (!port->theirs)
		return wrong(w, "the port's memory cannot be mapped: %s", strerror(errno));
	return 0;
}

static int from_file(struct vfun_port *port, const struct vfun_port_place *place,
		     const struct where *w)
{
	int fd = open(place->path, O_RDWR | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return wrong(w, "%s cannot be opened: %s", place->path, strerror(errno));
	port->ring = place->ring;
	ret = map(port, fd, place->mine, place->theirs, w);
	close(fd);
	return ret;
}

/* Connects to the socket's owner, who must be root or this user: -1, or a descriptor. */
static int reach(const char *path, const struct where *w)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = ANSWER_SECONDS };
	socklen_t bytes = sizeof(struct ucred);
	struct ucred owner;
	int fd;

	if (strlen(path) >= sizeof(at.sun_path))
		return wrong(w, "the socket's path is longer than %zu bytes", sizeof(at.sun_path) - 1);
	strcpy(at.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return wrong(w, "no socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		wrong(w, "%s cannot be reached: %s; check that the program that gives out ports runs, and that this user may connect", path, strerror(errno));
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) ||
		 (owner.uid != 0 && owner.uid != geteuid()))
		wrong(w, "%s belongs neither to root nor to this user", path);
	else
		return fd;
	close(fd);
	return -1;
}

/* The one descriptor that came, or -1: none, or several, which are closed. */
static int descriptor(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fds[DESCRIPTORS];
	size_t count, i;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), count * sizeof(int));
	if (count == 1)
		return fds[0];
	for (i = 0; i < count; i++)
		close(fds[i]);
	return -1;
}

/* Takes the answer and the one descriptor that may come with it; -1: none came. */
static int answer(int socket, struct vfun_port_answer *a, const struct where *w)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = a, .iov_len = sizeof(*a) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	int fd = got < 0 ? -1 : descriptor(&msg);

	a->sentence[sizeof(a->sentence) - 1] = 0;
	if (got != sizeof(*a) || a->magic != VFUN_PORT_ANSWER)
		wrong(w, "the answer is not one of VirtFun's: another program listens there, or one of another version");
	else if (a->code)
		wrong(w, "the port was refused: %s", a->sentence);
	else if (fd < 0)
		wrong(w, "the answer came without exactly one descriptor of memory");
	else
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int from_socket(struct vfun_port *port, const struct vfun_port_place *place,
		       const struct where *w)
{
	struct vfun_port_ask ask = { .magic = VFUN_PORT_ASK };
	struct vfun_port_answer a;
	int fd, ret = -1;

	if (strlen(place->port) > sizeof(ask.name))
		return wrong(w, "a port's name has at most %zu bytes", sizeof(ask.name));
	memcpy(ask.name, place->port, strlen(place->port));
	port->socket = reach(place->socket, w);
	if (port->socket < 0)
		return -1;
	if (send(port->socket, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask))
		return wrong(w, "%s does not listen", place->socket);
	fd = answer(port->socket, &a, w);
	if (fd >= 0) {
		port->ring = a.ring;
		ret = map(port, fd, a.mine, a.theirs, w);
		close(fd);
	}
	return ret;
}

int vfun_port_open(struct vfun_port *port, const struct vfun_port_place *place,
		   char *error, unsigned int error_bytes)
{
	struct where w = { error, error_bytes };
	int ret;

	*port = (struct vfun_port){ .socket = -1 };
	if (!place->socket == !place->path || !place->socket != !place->port)
		ret = wrong(&w, "give either socket= and port=, or path=, mine=, theirs= and ring=");
	else
		ret = place->path ? from_file(port, place, &w) : from_socket(port, place, &w);
	if (ret)
		vfun_port_close(port);
	return ret;
}

void vfun_port_close(struct vfun_port *port)
{
	if (port->mine)
		munmap(port->mine, VFUN_PACKET_RING_OFF + port->ring);
	if (port->theirs)
		munmap((void *)(uintptr_t)port->theirs, VFUN_PACKET_RING_OFF + port->ring);
	if (port->socket >= 0)
		close(port->socket);
	*port = (struct vfun_port){ .socket = -1 };
}
