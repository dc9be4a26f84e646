// SPDX-License-Identifier: GPL-2.0
/*
 * What a ring costs: by the module's call, or by a store to BAR 0 that this
 * program has mapped itself (only where no driver holds the device).
 *
 *   ringcost NODE            /dev/vfunN
 *   ringcost RESOURCE0       /sys/bus/pci/devices/.../resource0
 */
#include "vt.h"

#include <time.h>

#define ROUNDS 20000

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	volatile uint32_t *bar = NULL;
	struct vfun_ioc_ring ring = { 0 };
	struct vfun_ioc_wait w = { 0 };
	double from, best = 1e18, sum = 0;
	int fd, round, n;

	if (argc < 2)
		return 2;
	node = argv[1];
	fd = vt_open();
	if (strstr(node, "resource")) {
		bar = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (bar == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
	}
	for (round = 0; round < 10; round++) {
		from = now();
		for (n = 0; n < ROUNDS / 10; n++) {
			if (bar)
				bar[VFUN_REG_DOORBELL / 4] = 0;
			else if (ioctl(fd, VFUN_IOC_RING, &ring))
				return 1;
		}
		from = (now() - from) / (ROUNDS / 10);
		sum += from / 10;
		best = from < best ? from : best;
	}
	printf("ring %s: %.0f ns (best %.0f)\n", bar ? "by a store" : "by ioctl",
	       sum, best);
	if (!bar) {
		from = now();
		for (n = 0; n < ROUNDS; n++)
			ioctl(fd, VFUN_IOC_WAIT, &w);
		printf("an ioctl that does nothing: %.0f ns\n",
		       (now() - from) / ROUNDS);
	}
	return 0;
}
