// Every function of vfun.h once, and every wrong use that it can tell.
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static vfun_function *shared;

static void *caller(void *arg) {
  unsigned char room[100], args[100];
  memset(args, (int)(size_t)arg, sizeof args);
  for (int i = 0; i < 500; i++) {
    size_t len = 0;
    OK(vfun_call(shared, args, sizeof args, room, sizeof room, &len));
    CHECK(len == sizeof args && memcmp(room, args, len) == 0);
  }
  return NULL;
}

static bool readable(int fd, int timeout_ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, timeout_ms) == 1;
}

// Results in place, their length, time limits, and waiting for any of several.
static void without_blocking(vfun_function *f, vfun_function *other) {
  unsigned char big[3000], room[3000];
  vfun_pending *p, *q;
  const void *at;
  size_t len, first;
  memset(big, 5, sizeof big);
  OK(vfun_submit(f, big, sizeof big, &p));
  OK(vfun_ready_within(p, 5000));
  OK(vfun_peek(p, &at, &len));
  CHECK(len == sizeof big && memcmp(at, big, len) == 0);
  const void *again;
  OK(vfun_peek(p, &again, &len));
  CHECK(again == at);
  OK(vfun_wait(p, room, sizeof room, &len)); // still there to be taken
  CHECK(len == sizeof big && memcmp(room, big, len) == 0);
  OK(vfun_submit(f, "in line", 7, &p));
  OK(vfun_ready_within(p, 5000));
  OK(vfun_peek(p, &at, &len));
  CHECK(len == 7 && memcmp(at, "in line", 7) == 0);
  OK(vfun_abandon(p));
  OK(vfun_submit(f, "!driver", 7, &p));
  OK(vfun_ready_within(p, 5000));
  CHECK(vfun_peek(p, &at, &len) == VFUN_STATUS_DRIVER && vfun_last_code() == 7 && at == NULL && len == 0);
  CHECK(vfun_wait(p, NULL, 0, NULL) == VFUN_STATUS_DRIVER);

  OK(vfun_submit(f, "!hold", 5, &p));
  CHECK(vfun_peek(p, &at, &len) == VFUN_STATUS_TIMED_OUT);
  CHECK(vfun_wait_for(p, 1000000, room, sizeof room, &len) == VFUN_STATUS_TIMED_OUT);
  CHECK(vfun_wait_for(p, 0, room, sizeof room, &len) == VFUN_STATUS_TIMED_OUT);
  CHECK(vfun_call_for(f, 1000000, "!hold", 5, room, sizeof room, &len) == VFUN_STATUS_TIMED_OUT);
  OK(vfun_call_for(f, 5000000000, "in time", 7, room, sizeof room, &len));
  CHECK(len == 7);
  // Every cell is in use: to wait for one is limited, too.
  vfun_pending *rest[4];
  int n = 0;
  while (n < 4 && vfun_submit(f, "!hold", 5, &rest[n]) == VFUN_STATUS_OK) n++;
  CHECK(n == 2);
  CHECK(vfun_call_for(f, 1000000, "x", 1, room, sizeof room, &len) == VFUN_STATUS_TIMED_OUT);

  vfun_waiter *w;
  int fd = -1;
  OK(vfun_waiter_open(&w));
  OK(vfun_fd(w, &fd));
  OK(vfun_submit(other, "!sleep 50", 9, &q));
  const vfun_pending *both[2] = {p, q};
  OK(vfun_arm(w, both, 2, &first));
  CHECK(first == 2);
  while (first == 2) {
    CHECK(readable(fd, 5000));
    OK(vfun_arm(w, both, 2, &first));
  }
  CHECK(first == 1 && !readable(fd, 0));
  CHECK(vfun_wait_any(w, both, 1, 1000000, &first) == VFUN_STATUS_TIMED_OUT && first == 1);
  OK(vfun_wait_any(w, both, 2, VFUN_NO_LIMIT, &first));
  CHECK(first == 1);
  OK(vfun_wait(q, room, sizeof room, &len));
  OK(vfun_arm(w, both, 1, &first));
  CHECK(first == 1);
  OK(vfun_arm(w, NULL, 0, &first));
  CHECK(!readable(fd, 20));
  CHECK(vfun_arm(w, NULL, 1, &first) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_arm(NULL, both, 1, &first) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_wait_any(w, NULL, 0, 0, &first) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_fd(NULL, &fd) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_waiter_open(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  OK(vfun_arm(w, both, 1, &first));
  pid_t child = fork();
  if (child == 0) {
    // A waiter of its own takes none of the parent's calls.
    vfun_waiter *mine = NULL;
    if (vfun_waiter_open(&mine) != VFUN_STATUS_OK || vfun_wait_any(mine, both, 1, 0, &first) != VFUN_STATUS_FORKED) _exit(2);
    // Ends its own copy; the parent's waiter stays armed.
    _exit(vfun_arm(w, both, 1, &first) == VFUN_STATUS_FORKED && vfun_fd(w, &fd) == VFUN_STATUS_FORKED && vfun_waiter_close(w) == VFUN_STATUS_FORKED ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(vfun_submit(other, "!sleep 20", 9, &q));
  both[1] = q;
  OK(vfun_wait_any(w, both, 2, VFUN_NO_LIMIT, &first));
  CHECK(first == 1);
  OK(vfun_wait(q, room, sizeof room, &len));
  OK(vfun_waiter_close(w));
  CHECK(vfun_waiter_close(NULL) == VFUN_STATUS_BAD_ARGUMENT);

  for (int i = 0; i < n; i++) OK(vfun_abandon(rest[i]));
  OK(vfun_abandon(p));
}

static void wrong_uses(vfun_session *s, vfun_function *f) {
  vfun_session *none = (vfun_session *)8;
  vfun_connect_options o = {0};
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_BAD_ARGUMENT && none == NULL);
  CHECK(strstr(vfun_last_error(), "size"));
  o.size = sizeof o;
  o.endpoint = "nowhere";
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_BAD_ENDPOINT);
  CHECK(strstr(vfun_last_error(), "'nowhere'") && *vfun_last_advice());
  o.endpoint = "\xff";
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_BAD_ARGUMENT);
  o.endpoint = "host:/nowhere/host.sock";
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_HOST_SOCKET);
  o.wait = 9;
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_connect(NULL, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  o.wait = 0;
  o.reserved = 1;
  CHECK(vfun_connect(&o, &none) == VFUN_STATUS_BAD_ARGUMENT && strstr(vfun_last_error(), "options->reserved"));

  vfun_function *g;
  vfun_pending *p;
  CHECK(vfun_open(NULL, "echo", NULL, &g) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_open(s, NULL, NULL, &g) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_open(s, "a/b", NULL, &g) == VFUN_STATUS_BAD_NAME);
  CHECK(vfun_open(s, "nothing", NULL, &g) == VFUN_STATUS_REFUSED && g == NULL);
  CHECK(vfun_last_code() == 4 && strstr(vfun_last_error(), "nothing"));
  vfun_function_options future = {.size = sizeof future, .reserved = 1};
  CHECK(vfun_open(s, "echo", &future, &g) == VFUN_STATUS_BAD_ARGUMENT && strstr(vfun_last_error(), "options->reserved"));
  CHECK(vfun_call(f, NULL, 1, NULL, 0, NULL) == VFUN_STATUS_BAD_ARGUMENT && strstr(vfun_last_error(), "null"));
  CHECK(vfun_call(f, "x", SIZE_MAX, NULL, 0, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(strstr(vfun_last_error(), "args_len") && !strstr(vfun_last_error(), "null"));
  CHECK(vfun_call(f, "x", 1, o.credential_len ? NULL : &o, SIZE_MAX, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(strstr(vfun_last_error(), "room") && !strstr(vfun_last_error(), "null"));
  CHECK(vfun_call(NULL, NULL, 0, NULL, 0, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_submit(f, "x", 1, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_submit(NULL, "x", 1, &p) == VFUN_STATUS_BAD_ARGUMENT && p == NULL);
  CHECK(vfun_poll(NULL, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_wait(NULL, NULL, 0, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_abandon(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_give_back(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_release(NULL, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_close(NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_info(s, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_list(s, NULL, 3, NULL) == VFUN_STATUS_BAD_ARGUMENT);

  vfun_module m = {0};
  vfun_own_function own;
  CHECK(vfun_submit_module(s, NULL, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_submit_module(s, &m, NULL) == VFUN_STATUS_BAD_ARGUMENT && strstr(vfun_last_error(), "size"));
  m.size = sizeof m;
  m.module_len = 1;
  CHECK(vfun_submit_module(s, &m, &own) == VFUN_STATUS_BAD_ARGUMENT && strstr(vfun_last_error(), "null"));
  m.module = "\0asm";
  CHECK(vfun_submit_module(NULL, &m, &own) == VFUN_STATUS_BAD_ARGUMENT);
  m.signature = "\xff";
  CHECK(vfun_submit_module(s, &m, &own) == VFUN_STATUS_BAD_ARGUMENT);
  m.signature = NULL;
  m.name = "a/b";
  CHECK(vfun_submit_module(s, &m, &own) == VFUN_STATUS_BAD_OPTION);
  m.name = NULL;
  // This host has no such function.
  CHECK(vfun_submit_module(s, &m, &own) == VFUN_STATUS_REFUSED && vfun_last_code() == 4);
  CHECK(vfun_submitted_modules(NULL, NULL, 0, &(size_t){0}) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_submitted_modules(s, NULL, 0, NULL) == VFUN_STATUS_REFUSED);
  CHECK(vfun_withdraw_module(NULL, "x") == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_withdraw_module(s, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_withdraw_module(s, "x") == VFUN_STATUS_REFUSED);

  unsigned char big[5000] = {0};
  CHECK(vfun_call(f, big, sizeof big, NULL, 0, NULL) == VFUN_STATUS_ARGUMENTS_TOO_LONG);
  size_t len = 0;
  CHECK(vfun_call(f, "12345", 5, big, 4, &len) == VFUN_STATUS_BUFFER_TOO_SMALL && len == 5);
  CHECK(vfun_call(f, "!driver", 7, big, sizeof big, NULL) == VFUN_STATUS_DRIVER);
  CHECK(vfun_last_code() == 7 && strstr(vfun_last_error(), "too large"));
  CHECK(vfun_call(f, "!bad-args", 9, big, sizeof big, NULL) == VFUN_STATUS_DRIVER);
  CHECK(vfun_last_code() == -3 && strstr(vfun_last_error(), "code -3") && strstr(vfun_last_advice(), "arguments"));
  CHECK(vfun_call(f, "!crash", 6, big, sizeof big, NULL) == VFUN_STATUS_DRIVER_CRASHED);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  CHECK(strcmp(vfun_version(), "0.1.0") == 0 && *vfun_last_error() == 0);

  vfun_connect_options o = {.size = sizeof o, .app = "exercise", .endpoint = argv[1]};
  vfun_session *s;
  OK(vfun_connect(&o, &s));
  vfun_session_info info;
  OK(vfun_info(s, &info));
  CHECK(strcmp(info.client, "vm1") == 0 && strcmp(info.transport, "host") == 0);
  CHECK(info.doorbell == 1 && info.client_id == 3 && info.window_bytes == 16 << 20);
  char line[8];
  size_t len;
  OK(vfun_describe(s, line, sizeof line, &len));
  CHECK(strcmp(line, "host (/") == 0 && len > 30);
  OK(vfun_describe(s, NULL, 0, &len));
  vfun_offer offer;
  OK(vfun_list(s, &offer, 1, &len));
  CHECK(len == 2 && strcmp(offer.name, "echo") == 0);
  OK(vfun_list(s, NULL, 0, &len));
  vfun_code codes[3] = {0};
  OK(vfun_function_codes(s, "echo", codes, 3, &len));
  CHECK(len == 2 && codes[0].code == -3 && strcmp(codes[0].meaning, "too short") == 0);
  CHECK(codes[1].code == 7 && strcmp(codes[1].meaning, "too late") == 0 && codes[2].code == 0);
  codes[1].code = 0;
  OK(vfun_function_codes(s, "echo", codes, 1, &len));
  CHECK(len == 2 && codes[1].code == 0);
  OK(vfun_function_codes(s, "echo", NULL, 0, &len));
  CHECK(vfun_function_codes(s, "echo", NULL, 1, &len) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_function_codes(s, NULL, codes, 1, &len) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_function_codes(s, "echo", codes, 1, NULL) == VFUN_STATUS_BAD_ARGUMENT);
  CHECK(vfun_function_codes(NULL, "echo", codes, 1, &len) == VFUN_STATUS_BAD_ARGUMENT);

  vfun_function_options want = {.size = sizeof want, .cell_bytes = 4096, .depth = 4, .deadline_ms = 5000};
  vfun_function *f;
  OK(vfun_open(s, "echo", &want, &f));
  vfun_grant_info grant;
  OK(vfun_granted(f, &grant));
  CHECK(grant.depth == 4 && grant.cell_bytes == 4096 && grant.deadline_ms == 5000 && grant.location == 1);
  want.depth = 3;
  vfun_function *g;
  CHECK(vfun_open(s, "echo", &want, &g) == VFUN_STATUS_BAD_OPTION);
  want.depth = 4;
  want.preference = 1;
  CHECK(vfun_open(s, "echo", &want, &g) == VFUN_STATUS_REFUSED && vfun_last_code() == 10);

  unsigned char room[4096];
  OK(vfun_call(f, "hello", 5, room, sizeof room, &len));
  CHECK(len == 5 && memcmp(room, "hello", 5) == 0);
  OK(vfun_call(f, NULL, 0, NULL, 0, NULL));
  OK(vfun_rst(f));
  wrong_uses(s, f);

  vfun_pending *p, *q;
  bool done = true;
  OK(vfun_submit(f, "!hold", 5, &p));
  OK(vfun_poll(p, &done));
  CHECK(!done);
  CHECK(vfun_ready_within(p, 10) == VFUN_STATUS_TIMED_OUT);
  OK(vfun_submit(f, "!hold", 5, &q));
  OK(vfun_abandon(q));
  OK(vfun_call(f, "!let-go", 7, NULL, 0, NULL));
  OK(vfun_ready_within(p, 5000));
  OK(vfun_wait(p, room, sizeof room, &len));
  CHECK(len == 5 && memcmp(room, "event", 5) == 0);

  vfun_slot *slots[4], *more;
  void *bytes;
  size_t lent;
  for (int i = 0; i < 4; i++) OK(vfun_borrow(f, &slots[i], &bytes, &lent));
  CHECK(vfun_borrow(f, &more, &bytes, &lent) == VFUN_STATUS_FULL && more == NULL && bytes == NULL);
  for (int i = 0; i < 4; i++) OK(vfun_give_back(slots[i]));
  OK(vfun_borrow(f, &more, &bytes, &lent));
  CHECK(lent == 4096);
  memset(bytes, 7, lent);
  OK(vfun_submit_borrowed(more, lent, &p));
  OK(vfun_wait(p, room, sizeof room, &len));
  CHECK(len == 4096 && room[0] == 7 && room[4095] == 7);

  shared = f;
  pthread_t threads[8];
  for (size_t i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, caller, (void *)i) == 0);
  for (size_t i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);

  want.preference = 0;
  OK(vfun_open(s, "echo", &want, &g));
  without_blocking(f, g);
  OK(vfun_release(g, NULL));
  OK(vfun_open(s, "echo", &want, &g));
  OK(vfun_release(f, NULL));
  f = g;

  vfun_stats_info stats;
  OK(vfun_stats(f, &stats));
  CHECK(stats.calls == 42);
  OK(vfun_submit(f, "late", 4, &p));
  OK(vfun_ready_within(p, 5000));
  OK(vfun_release(f, &stats));
  CHECK(stats.age_ms == 1500);
  OK(vfun_wait(p, room, sizeof room, &len)); // outlives its function
  CHECK(len == 4);

  // What is left to the host, and a function without data spaces.
  want = (vfun_function_options){.size = sizeof want};
  OK(vfun_open(s, "echo", &want, &f));
  OK(vfun_granted(f, &grant));
  CHECK(grant.cell_bytes == 4096 && grant.depth == 64);
  want.cell_bytes = VFUN_CELL_BYTES_NONE;
  OK(vfun_open(s, "echo", &want, &g));
  OK(vfun_granted(g, &grant));
  CHECK(grant.cell_bytes == 0);
  OK(vfun_release(g, NULL));

  // The goodbye gives everything back: a release after it has nothing to do.
  OK(vfun_open(s, "echo", NULL, &g));
  OK(vfun_close(s));
  memset(&stats, 0xff, sizeof stats);
  CHECK(vfun_stats(g, &stats) == VFUN_STATUS_CLOSED && strstr(vfun_last_advice(), "onnect"));
  OK(vfun_release(f, NULL));
  OK(vfun_release(g, &stats));
  CHECK(stats.calls == 0 && stats.age_ms == 0);
  return 0;
}
