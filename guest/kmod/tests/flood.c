// SPDX-License-Identifier: GPL-2.0
/*
 * Sends datagrams to an address, as fast as they are taken: COUNT, or for ever.
 *
 *   flood ADDRESS BYTES [COUNT]
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[65507];

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	unsigned long count, sent = 0;
	size_t length;
	int fd;

	if (argc < 3 || !inet_aton(argv[1], &to.sin_addr))
		return 2;
	length = strtoul(argv[2], NULL, 0);
	count = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;
	if (length > sizeof(bytes))
		return 2;
	memset(bytes, 0x5a, sizeof(bytes));
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	while (!count || sent < count) {
		if (sendto(fd, bytes, length, 0, (void *)&to, sizeof(to)) >= 0) {
			sent++;
			continue;
		}
		/* Its interface is down or gone: another comes, if it is to go on. */
		if (count) {
			perror("sendto");
			return 1;
		}
		usleep(10000);
	}
	return 0;
}
