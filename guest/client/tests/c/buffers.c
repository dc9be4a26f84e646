// Memory that both sides write, from its beginning to each of its ends.
#include "check.h"

#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static vfun_session *connected(const char *endpoint) {
  vfun_connect_options o = {.size = sizeof o, .app = "buffers", .endpoint = endpoint};
  vfun_session *s;
  OK(vfun_connect(&o, &s));
  return s;
}

// The host sums the words that this program wrote where they lie, and fills them with the sum.
static void both_sides_write(vfun_session *s, vfun_function *f) {
  vfun_buffer *b;
  vfun_buffer_place p;
  uint64_t sum = 0, got;
  size_t len;
  OK(vfun_buffer_get(s, BYTES, NULL, &b, &p));
  CHECK(p.handle && p.bytes == BYTES && (uintptr_t)p.at % 4096 == 0);
  volatile uint64_t *words = p.at;
  for (size_t i = 0; i < BYTES / 8; i++) {
    CHECK(words[i] == 0);
    words[i] = i;
    sum += i;
  }
  unsigned char ask[12] = "!sum";
  memcpy(ask + 4, &p.handle, 8);
  OK(vfun_call(f, ask, sizeof ask, &got, sizeof got, &len));
  CHECK(got == sum && words[0] == sum && words[BYTES / 8 - 1] == sum);
  OK(vfun_buffer_write(b, BYTES - 3, "end", 3));
  char end[3];
  OK(vfun_buffer_read(b, BYTES - 3, end, 3));
  CHECK(memcmp(end, "end", 3) == 0);
  OK(vfun_buffer_check(b));
  OK(vfun_buffer_put(b));
  CHECK(vfun_call(f, ask, sizeof ask, &got, sizeof got, &len) == VFUN_STATUS_DRIVER);
}

static void wrong_uses(vfun_session *s, vfun_session *other, vfun_function *f) {
  vfun_buffer *b, *none = (vfun_buffer *)8;
  vfun_buffer_options o = {0};
  CHECK(vfun_buffer_get(s, 1, &o, &none, NULL) == VFUN_STATUS_BAD_ARGUMENT && none == NULL);
  CHECK(strstr(vfun_last_error(), "size"));
  o.size = sizeof o;
  o.contiguous = 2;
  CHECK(vfun_buffer_get(s, 1, &o, &none, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  o.contiguous = 0;
  o.reserved = 1;
  CHECK(vfun_buffer_get(s, 1, &o, &none, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  o.reserved = 0;
  o.align = 4097;
  CHECK(vfun_buffer_get(s, 1, &o, &none, NULL) == VFUN_STATUS_BAD_OPTION && strstr(vfun_last_error(), "2097152"));
  o.align = 0;
  o.function = f;
  CHECK(vfun_buffer_get(other, 1, &o, &none, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_buffer_get(s, 0, NULL, &none, NULL) == VFUN_STATUS_BAD_OPTION);
  CHECK(vfun_buffer_get(NULL, 1, NULL, &none, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_buffer_get(s, 1, NULL, NULL, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_buffer_get(s, (size_t)1 << 40, NULL, &none, NULL) == VFUN_STATUS_REFUSED);
  o.contiguous = 1;
  CHECK(vfun_buffer_get(s, 3 << 20, &o, &none, NULL) == VFUN_STATUS_REFUSED && strstr(vfun_last_error(), "2 MiB"));
  OK(vfun_buffer_get(s, 100, NULL, &b, NULL));
  CHECK(vfun_buffer_write(b, 99, "ab", 2) == VFUN_STATUS_BAD_OPTION);
  CHECK(vfun_buffer_write(b, SIZE_MAX, "ab", 2) == VFUN_STATUS_BAD_OPTION);
  CHECK(vfun_buffer_write(b, 0, NULL, 2) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_buffer_read(b, 0, NULL, 2) == VFUN_STATUS_BAD_ARGUMENT);
  OK(vfun_buffer_write(b, 100, NULL, 0));
  CHECK(vfun_buffer_read(NULL, 0, NULL, 0) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_buffer_check(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  OK(vfun_buffer_put(b));
  CHECK(vfun_buffer_put(NULL) == VFUN_STATUS_BAD_ARGUMENT);
}

// Its function's end, its session's, a child's.
static void ends(vfun_session *s, vfun_function *f) {
  vfun_buffer_options o = {.size = sizeof o, .function = f, .align = 2 << 20};
  vfun_buffer *of_f, *of_s;
  vfun_buffer_place p, q;
  OK(vfun_buffer_get(s, 5000, &o, &of_f, &p));
  OK(vfun_buffer_get(s, 5000, NULL, &of_s, &q));
  volatile unsigned char *one = p.at, *two = q.at;
  one[0] = two[0] = 7;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    char c;
    bool told = vfun_buffer_read(of_s, 0, &c, 1) == VFUN_STATUS_FORKED && vfun_buffer_check(of_f) == VFUN_STATUS_FORKED &&
                vfun_buffer_get(s, 1, NULL, &of_s, NULL) == VFUN_STATUS_FORKED && vfun_buffer_put(of_f) == VFUN_STATUS_FORKED;
    _exit(told ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(one[0] == 7 && two[0] == 7);
  OK(vfun_release(f, NULL));
  CHECK(vfun_buffer_check(of_f) == VFUN_STATUS_RELEASED && one[0] == 0);
  one[0] = 9; // nowhere
  CHECK(vfun_buffer_check(of_s) == VFUN_STATUS_OK && two[0] == 7);
  OK(vfun_close(s));
  CHECK(vfun_buffer_write(of_s, 0, "x", 1) == VFUN_STATUS_CLOSED && two[0] == 0);
  two[0] = 9;
  OK(vfun_buffer_put(of_f));
  OK(vfun_buffer_put(of_s));
}

// Only a program in a VM has ports.
static void no_ports(vfun_session *s) {
  vfun_port_info ports[2];
  vfun_port_sides sides;
  vfun_port *port = (vfun_port *)s;
  size_t count = 7;
  OK(vfun_ports(s, ports, 2, &count));
  CHECK(count == 0);
  CHECK(vfun_ports(s, NULL, 1, &count) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_port_open(s, "eth1", &port, ports, &sides) == VFUN_STATUS_UNSUPPORTED && port == NULL);
  CHECK(strstr(vfun_last_error(), "only a program in a VM has ports"));
  CHECK(vfun_port_open(NULL, NULL, &port, ports, &sides) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_port_ring(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_port_check(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_port_close(NULL) == VFUN_STATUS_BAD_ARGUMENT);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  vfun_session *s = connected(argv[1]), *other = connected(argv[1]), *tcp = connected(argv[2]);
  vfun_function *f;
  vfun_buffer *none;
  OK(vfun_open(s, "echo", NULL, &f));
  both_sides_write(s, f);
  wrong_uses(s, other, f);
  no_ports(s);
  no_ports(tcp);
  ends(s, f);
  CHECK(vfun_buffer_get(tcp, 1, NULL, &none, NULL) == VFUN_STATUS_UNSUPPORTED && strstr(vfun_last_error(), "TCP"));
  OK(vfun_close(tcp));
  OK(vfun_close(other));
  return 0;
}
