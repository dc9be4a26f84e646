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
#include "vfun_sides.h"

int vfun_wrong(struct vfun_error *e, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return -1;
}

int vfun_sides_is_firm(int fd)
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

int vfun_sides_map(struct vfun_sides *port, int fd, uint64_t mine, uint64_t theirs,
		  uint64_t ring, struct vfun_error *e)
{
	int wrong;

	*port = (struct vfun_sides){ .ring = ring };
	if (!vfun_packet_ring_ok(ring))
		return vfun_wrong(e, "a ring has a power of two from %d to %d bytes, and not %llu",
				  VFUN_PACKET_RING_MIN, VFUN_PACKET_RING_MAX,
				  (unsigned long long)ring);
	/* First of all: before it is known to be sealed, the size can change. */
	if (!vfun_sides_is_firm(fd))
		return vfun_wrong(e, "the port's memory is not sealed against shrinking: its owner could end this process by truncating it; seal it with F_SEAL_SHRINK");
	if (check(fd, mine, theirs, ring, e))
		return -1;
	port->mine = map_side(fd, mine, ring, PROT_READ | PROT_WRITE);
	/* Read-only: a mistake here shall not write what the peer writes. */
	port->theirs = port->mine ? map_side(fd, theirs, ring, PROT_READ) : NULL;
	if (port->theirs)
		return 0;
	wrong = vfun_wrong(e, "the port's memory cannot be mapped: %s", strerror(errno));
	vfun_sides_unmap(port);
	return wrong;
}

int vfun_sides_open(struct vfun_sides *port, const struct vfun_port_place *place,
		   struct vfun_error *e)
{
	int fd = open(place->path, O_RDWR | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return vfun_wrong(e, "%s cannot be opened: %s", place->path, strerror(errno));
	ret = vfun_sides_map(port, fd, place->mine, place->theirs, place->ring, e);
	close(fd);
	return ret;
}

void vfun_sides_unmap(struct vfun_sides *port)
{
	if (port->mine && !port->is_lent)
		munmap(port->mine, VFUN_PACKET_RING_OFF + port->ring);
	if (port->theirs && !port->is_lent)
		munmap((void *)(uintptr_t)port->theirs, VFUN_PACKET_RING_OFF + port->ring);
	*port = (struct vfun_sides){ .ring = 0 };
}
