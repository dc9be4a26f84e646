// Sums an array of doubles on the host without copying it: sum [COUNT [ENDPOINT]]
//
//   cc sum.c $(pkg-config --cflags --libs vfun) -o sum
//
// The same task as sum.rs beside it. A borrowed cell is memory that the host's
// service reads: the array is made in it, so that there is nothing to copy.
// 8 Mi doubles are 64 MiB, and a channel has as much again for results, so that
// the client's window must be larger than 128 MiB (`vfun client add NAME
// --window 256MiB`); a smaller COUNT fits a smaller one.
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vfun.h>

static void check(vfun_status status, const char *doing) {
  if (status == VFUN_STATUS_OK) return;
  fprintf(stderr, "%s: %s. %s\n", doing, vfun_last_error(), vfun_last_advice());
  exit(1);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 8u << 20;
  vfun_connect_options options = {.size = sizeof options, .app = "sum-c"};
  options.endpoint = argc > 2 ? argv[2] : NULL;

  vfun_session *session;
  check(vfun_connect(&options, &session), "connect");
  char line[256];
  check(vfun_describe(session, line, sizeof line, NULL), "describe");
  fprintf(stderr, "%s\n", line);

  // One call at a time, with a data space for the kind of number (8 bytes) and
  // the array.
  uint64_t bytes = 8 + 8 * count;
  if (bytes > UINT32_MAX) {
    fprintf(stderr, "%" PRIu64 " numbers are too many for one call\n", count);
    return 1;
  }
  vfun_function_options wanted = {.size = sizeof wanted, .depth = 1};
  wanted.cell_bytes = (uint32_t)bytes;
  vfun_function *sum;
  check(vfun_open(session, "sum", &wanted, &sum), "open sum");

  // Its bytes are written where the service reads them.
  vfun_slot *slot;
  void *cell;
  size_t room;
  check(vfun_borrow(sum, &slot, &cell, &room), "borrow a cell");
  if (room < bytes) {
    fprintf(stderr, "the cell has %zu bytes\n", room);
    return 1;
  }
  memset(cell, 0, 8);
  *(unsigned char *)cell = 3; // doubles
  double *array = (double *)cell + 1; // a cell begins at a multiple of 64
  for (uint64_t i = 0; i < count; i++) array[i] = (double)(i % 1000);

  // The slot is gone with this; `array` must not be touched any more.
  double start = seconds(), result;
  vfun_pending *pending;
  check(vfun_submit_borrowed(slot, bytes, &pending), "submit");
  // There would be time for other work here.
  size_t len;
  check(vfun_wait(pending, &result, sizeof result, &len), "wait");
  if (len != sizeof result) {
    fprintf(stderr, "the result has %zu bytes where 8 were due\n", len);
    return 1;
  }
  double took = seconds() - start;
  printf("%.0f\n", result);
  fprintf(stderr, "%" PRIu64 " numbers in %.2f ms, %.1f GB/s\n", count, took * 1e3,
          (double)(8 * count) / took / 1e9);

  check(vfun_release(sum, NULL), "release");
  check(vfun_close(session), "close");
  return 0;
}
