/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Checks the memory of a port, and maps it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vfun_packet.h"
#include "vfun_port.h"

/* Bytes of a page of the port's memory. */
#define PAGE 4096ull

int vfun_wrong(struct vfun_error *e, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
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

/* Whether the sides are where they may be, in memory that is known to be firm. */
static int check(int fd, uint64_t mine, uint64_t theirs, uint64_t ring, struct vfun_error *e)
{
	uint64_t side = VFUN_PACKET_RING_OFF + ring;
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return vfun_wrong(e, "the port's memory cannot be looked at: %s", strerror(errno));
	if (fs.f_type == HUGETLBFS_MAGIC)
		return vfun_wrong(e, "the port's memory has huge pages, which this driver cannot map; use memory with pages of 4 KiB");
	if ((mine | theirs) % 4096 || (mine < theirs ? theirs - mine : mine - theirs) < side ||
	    (!S_ISCHR(st.st_mode) && ((uint64_t)st.st_size < side ||
				      mine > (uint64_t)st.st_size - side ||
				      theirs > (uint64_t)st.st_size - side)))
		return vfun_wrong(e, "the sides of %llu bytes at %llu and %llu overlap, do not begin at a page, or lie outside of the memory's %llu bytes",
				  (unsigned long long)side, (unsigned long long)mine,
				  (unsigned long long)theirs, (unsigned long long)st.st_size);
	return 0;
}

int vfun_port_map(struct vfun_port *port, int fd, uint64_t mine, uint64_t theirs,
		  uint64_t ring, struct vfun_error *e)
{
	int wrong;

	*port = (struct vfun_port){ .ring = ring };
	if (!vfun_packet_ring_ok(ring))
		return vfun_wrong(e, "a ring has a power of two from %d to %d bytes, and not %llu",
				  VFUN_PACKET_RING_MIN, VFUN_PACKET_RING_MAX,
				  (unsigned long long)ring);
	/* First of all: before it is known to be sealed, the size can change. */
	if (!is_firm(fd))
		return vfun_wrong(e, "the port's memory is not sealed against shrinking: its owner could end this process by truncating it; seal it with F_SEAL_SHRINK");
	if (check(fd, mine, theirs, ring, e))
		return -1;
	port->mine = map_side(fd, mine, ring, PROT_READ | PROT_WRITE);
	/* Read-only: a mistake here shall not write what the peer writes. */
	port->theirs = port->mine ? map_side(fd, theirs, ring, PROT_READ) : NULL;
	if (port->theirs)
		return 0;
	wrong = vfun_wrong(e, "the port's memory cannot be mapped: %s", strerror(errno));
	vfun_port_unmap(port);
	return wrong;
}

int vfun_port_open(struct vfun_port *port, const struct vfun_port_place *place,
		   struct vfun_error *e)
{
	int fd = open(place->path, O_RDWR | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return vfun_wrong(e, "%s cannot be opened: %s", place->path, strerror(errno));
	ret = vfun_port_map(port, fd, place->mine, place->theirs, place->ring, e);
	close(fd);
	return ret;
}

void vfun_port_unmap(struct vfun_port *port)
{
	if (port->mine)
		munmap(port->mine, VFUN_PACKET_RING_OFF + port->ring);
	if (port->theirs)
		munmap((void *)(uintptr_t)port->theirs, VFUN_PACKET_RING_OFF + port->ring);
	*port = (struct vfun_port){ .ring = 0 };
}

static int is_eventfd(int fd, struct vfun_error *e)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char at[64], is[sizeof(eventfd)];
	ssize_t bytes;

	snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	bytes = readlink(at, is, sizeof(is));
	if (bytes < 0)
		return vfun_wrong(e, "what rings the peer cannot be looked at: %s: %s", at, strerror(errno));
	if (bytes != sizeof(eventfd) - 1 || memcmp(is, eventfd, (size_t)bytes))
		return vfun_wrong(e, "what rings the peer is no eventfd");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return vfun_wrong(e, "what rings the peer cannot be made nonblocking: %s", strerror(errno));
	return 0;
}

int vfun_bell_open(struct vfun_bell *bell, int fd, int memory, uint64_t news,
		   struct vfun_error *e)
{
	uint64_t page = news / PAGE * PAGE;
	struct stat st;

	*bell = (struct vfun_bell){ .fd = -1 };
	if (is_eventfd(fd, e))
		return -1;
	if (news) {
		if (!is_firm(memory) || fstat(memory, &st) || news % 8 ||
		    (!S_ISCHR(st.st_mode) && page + PAGE > (uint64_t)st.st_size))
			return vfun_wrong(e, "the word at byte %llu that is counted up for the peer does not lie in the port's memory",
					  (unsigned long long)news);
		bell->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, (off_t)page);
		if (bell->page == MAP_FAILED) {
			bell->page = NULL;
			return vfun_wrong(e, "the word that is counted up for the peer cannot be mapped: %s", strerror(errno));
		}
		bell->news = (uint64_t *)bell->page + news % PAGE / 8;
	}
	bell->fd = fd;
	return 0;
}

void vfun_bell_close(struct vfun_bell *bell)
{
	if (bell->page)
		munmap(bell->page, PAGE);
	if (bell->fd >= 0)
		close(bell->fd);
	*bell = (struct vfun_bell){ .fd = -1 };
}
