/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An end of a queue that does what it is told: the other half of the test
 * c_header. Arguments: the window's file, its bytes, and where the consumer's
 * side begins. Reads a command a line, answers a line each. `o` and `i` say how
 * long the next end is told that the two sides are, bytes.
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "vfun_queue.h"

#define BATCH 64

static struct vfun_queue_producer producer;
static struct vfun_queue_consumer consumer;
static struct vfun_queue_end *end;
static uint64_t out_bytes, in_bytes;
static unsigned char entries[BATCH * VFUN_QUEUE_ENTRY_BYTES_MAX];

/* As tests/common/memory.rs makes them: 8 bytes a word, after the queue's 4. */
static void make_entry(unsigned char *entry, uint32_t bytes, uint64_t seed)
{
	uint64_t i, word;
	uint32_t at, left;

	memset(entry, 0xee, VFUN_QUEUE_STAMP_BYTES);
	for (i = 0, at = VFUN_QUEUE_STAMP_BYTES; at < bytes; i++, at += 8) {
		word = seed * UINT64_C(0x9e3779b97f4a7c15) + i;
		left = bytes - at < 8 ? bytes - at : 8;
		memcpy(entry + at, &word, left);
	}
}

static void produce(uint64_t seed, uint32_t count)
{
	uint32_t i, bytes = end->entry_bytes;

	for (i = 0; i < count; i++)
		make_entry(entries + i * bytes, bytes, seed ^ i);
	printf("%d", vfun_queue_produce(&producer, entries, count));
}

static void consume(uint32_t count)
{
	uint32_t i, bytes = end->entry_bytes;
	int got;

	memset(entries, 0xee, sizeof(entries));
	got = vfun_queue_consume(&consumer, entries, count);
	printf("%d ", got);
	for (i = 0; got > 0 && i < (uint32_t)got * bytes; i++)
		printf("%02x", entries[i]);
}

static void answer(char command, uint64_t a, uint32_t b, unsigned char *out, unsigned char *in)
{
	switch (command) {
	case 'P':
		end = &producer.end;
		printf("%d", vfun_queue_producer_init(&producer, out, out_bytes, in, in_bytes,
						      (uint32_t)a, b));
		break;
	case 'C':
		end = &consumer.end;
		printf("%d", vfun_queue_consumer_init(&consumer, in, in_bytes, out, out_bytes,
						      (uint32_t)a, b));
		break;
	case 'o':
		out_bytes = a;
		printf("0 0 0\n");
		fflush(stdout);
		return;
	case 'i':
		in_bytes = a;
		printf("0 0 0\n");
		fflush(stdout);
		return;
	case 'p':
		produce(a, b);
		break;
	case 'c':
		consume(b);
		break;
	case 'r':
		printf("%d", vfun_queue_room(&producer, b));
		break;
	case 't':
		printf("%d", vfun_queue_is_there(&consumer));
		break;
	case 's':
		vfun_queue_declare_sleep(end);
		printf("%d", vfun_queue_must_ring(end));
		break;
	case 'a':
		vfun_queue_declare_awake(end);
		printf("%d", vfun_queue_seems_asleep(end));
		break;
	case 'e':
		printf("%" PRIu64, vfun_queue_ended(end));
		break;
	case 'x':
		vfun_queue_close(end);
		printf("0");
		break;
	default:
		exit(2);
	}
	printf(" %" PRIu64 " %" PRIu32 "\n", end->position, end->broken);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[1], O_RDWR) : -1;
	size_t bytes = argc == 4 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
	unsigned char *window;
	uint64_t a;
	uint32_t b;
	char command;

	if (fd < 0)
		return 2;
	window = (unsigned char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (window == MAP_FAILED)
		return 2;
	out_bytes = strtoul(argv[3], NULL, 10);
	in_bytes = bytes - out_bytes;
	while (scanf(" %c %" SCNu64 " %" SCNu32, &command, &a, &b) == 3)
		answer(command, a, b, window, window + strtoul(argv[3], NULL, 10));
	return 0;
}
