// SPDX-License-Identifier: GPL-2.0
/*
 * What ethtool says of an interface (guests of tests have no ethtool): its driver,
 * speed and link, and each counter.
 *
 *   portstats INTERFACE
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int fd;
static struct ifreq request;

static void ask(void *data, const char *what)
{
	request.ifr_data = data;
	if (ioctl(fd, SIOCETHTOOL, &request)) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_value link = { .cmd = ETHTOOL_GLINK };
	struct ethtool_gstrings *names;
	struct ethtool_stats *stats;
	unsigned int n;

	if (argc < 2)
		return 2;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	strncpy(request.ifr_name, argv[1], IFNAMSIZ - 1);
	ask(&info, "driver");
	ask(&link, "link");
	printf("driver %s\nbus %s\nlink %u\n", info.driver, info.bus_info, link.data);
	names = calloc(1, sizeof(*names) + info.n_stats * ETH_GSTRING_LEN);
	stats = calloc(1, sizeof(*stats) + info.n_stats * sizeof(__u64));
	if (!names || !stats)
		return 1;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	names->len = info.n_stats;
	ask(names, "names");
	stats->cmd = ETHTOOL_GSTATS;
	stats->n_stats = info.n_stats;
	ask(stats, "counters");
	for (n = 0; n < info.n_stats; n++)
		printf("%.32s %llu\n", (char *)names->data + n * ETH_GSTRING_LEN,
		       (unsigned long long)stats->data[n]);
	return 0;
}
