// Calls the vFunction factorial: factorial [N [ENDPOINT]]
//
//   cc factorial.c $(pkg-config --cflags --libs vfun) -o factorial
//
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <vfun.h>

// Arguments and results are little-endian, whatever this machine is.
static void put64(unsigned char *to, uint64_t n) {
  for (int i = 0; i < 8; i++) to[i] = (unsigned char)(n >> (8 * i));
}
static uint64_t get64(const unsigned char *from) {
  uint64_t n = 0;
  for (int i = 0; i < 8; i++) n |= (uint64_t)from[i] << (8 * i);
  return n;
}

static void check(vfun_status status, const char *doing) {
  if (status == VFUN_STATUS_OK) return;
  fprintf(stderr, "%s: %s. %s\n", doing, vfun_last_error(), vfun_last_advice());
  exit(1);
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
  vfun_connect_options options = {.size = sizeof options, .app = "factorial-c"};
  options.endpoint = argc > 2 ? argv[2] : NULL;

  vfun_session *session;
  check(vfun_connect(&options, &session), "connect");
  char line[256];
  check(vfun_describe(session, line, sizeof line, NULL), "describe");
  fprintf(stderr, "%s\n", line);

  vfun_function *factorial;
  check(vfun_open(session, "factorial", NULL, &factorial), "open factorial");

  unsigned char args[16], result[8];
  size_t len;
  put64(args, n);
  put64(args + 8, 1); // repetitions
  check(vfun_call(factorial, args, sizeof args, result, sizeof result, &len), "call");
  if (len != sizeof result) {
    fprintf(stderr, "the result has %zu bytes where 8 were due\n", len);
    return 1;
  }
  printf("%" PRIu64 "! = %" PRIu64 "\n", n, get64(result));

  check(vfun_release(factorial, NULL), "release");
  check(vfun_close(session), "close");
  return 0;
}
