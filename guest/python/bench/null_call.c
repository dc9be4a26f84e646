/* The C library's side of overhead.py: null calls, and a large array to
 * sum_f64 in place and copied. One line of numbers, ns, the median.
 *
 *   null_call ENDPOINT null CALLS | place BYTES CALLS | copy BYTES CALLS
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vfun.h>

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(enum vfun_status status)
{
	if (status == VFUN_STATUS_OK)
		return;
	fprintf(stderr, "%s\n", vfun_last_error());
	exit(1);
}

static int order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct vfun_connect_options c = { .size = sizeof(c), .app = "c-overhead", .endpoint = argv[1] };
	struct vfun_function_options o = { .size = sizeof(o) };
	struct vfun_session *session;
	struct vfun_function *f;
	size_t bytes = 0, calls, len;
	uint64_t *times;
	double *array = NULL;

	if (argc < 4)
		return 2;
	calls = strtoul(argv[argc - 1], NULL, 10);
	times = calloc(calls, sizeof(*times));
	must(vfun_connect(&c, &session));
	if (strcmp(argv[2], "null") != 0) {
		bytes = strtoul(argv[3], NULL, 10);
		o.cell_bytes = (uint32_t)bytes;
		o.depth = 1;
		array = malloc(bytes);
		for (size_t i = 0; i < bytes / 8; i++)
			array[i] = 0.5;
	}
	must(vfun_open(session, bytes ? "sum_f64" : "null", &o, &f));
	for (size_t i = 0; i < calls; i++) {
		double sum = 0;
		uint64_t start;

		if (strcmp(argv[2], "place") == 0) {
			struct vfun_slot *slot;
			struct vfun_pending *pending;
			void *to;

			must(vfun_borrow(f, &slot, &to, &len));
			if (i == 0)
				memcpy(to, array, bytes);
			start = now();
			must(vfun_submit_borrowed(slot, bytes, &pending));
			must(vfun_wait(pending, &sum, sizeof(sum), &len));
		} else {
			start = now();
			must(vfun_call(f, array, bytes, &sum, sizeof(sum), &len));
		}
		times[i] = now() - start;
		if (bytes && sum != 0.5 * (double)(bytes / 8))
			return 3;
	}
	qsort(times, calls, sizeof(*times), order);
	printf("%llu\n", (unsigned long long)times[calls / 2]);
	must(vfun_release(f, NULL));
	must(vfun_close(session));
	return 0;
}
