// SPDX-License-Identifier: GPL-2.0
/*
 * Sends each datagram back to where it came from.
 *
 *   sendback PORT
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for all that a test has under way, so that the socket drops nothing. */
static const int room = 8 << 20;

static char bytes[65507];

int main(int argc, char **argv)
{
	struct sockaddr_in from, at = { .sin_family = AF_INET };
	socklen_t length;
	ssize_t got;
	int fd;

	if (argc < 2)
		return 2;
	at.sin_port = htons(atoi(argv[1]));
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    bind(fd, (void *)&at, sizeof(at))) {
		perror("sendback");
		return 1;
	}
	for (;;) {
		length = sizeof(from);
		got = recvfrom(fd, bytes, sizeof(bytes), 0, (void *)&from, &length);
		/* Its interface may be down or gone: another comes. */
		if (got < 0 || sendto(fd, bytes, got, 0, (void *)&from, length) < 0)
			usleep(1000);
	}
}
