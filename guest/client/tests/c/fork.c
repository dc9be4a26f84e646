// What a child of fork has of its parent's handles: an error, and memory to free.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#define FORKED(x) CHECK((x) == VFUN_STATUS_FORKED)

static vfun_connect_options options = {.size = sizeof options, .app = "fork"};

int main(int argc, char **argv) {
  CHECK(argc == 2);
  options.endpoint = argv[1];
  vfun_session *s;
  vfun_function *f;
  vfun_pending *p, *q, *r;
  vfun_slot *slot, *other;
  void *bytes;
  unsigned char room[4096], args[1000] = {1};
  size_t len, lent;
  OK(vfun_connect(&options, &s));
  OK(vfun_open(s, "echo", NULL, &f));
  OK(vfun_submit(f, "!hold", 5, &p));
  OK(vfun_submit(f, args, sizeof args, &q));
  OK(vfun_submit(f, "small", 5, &r));
  OK(vfun_ready_within(q, 10000));
  OK(vfun_borrow(f, &slot, &bytes, &lent));
  OK(vfun_borrow(f, &other, &bytes, &lent));

  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    bool done;
    vfun_function *g;
    vfun_pending *none;
    vfun_slot *more;
    vfun_stats_info stats;
    FORKED(vfun_call(f, "x", 1, room, sizeof room, &len));
    CHECK(strstr(vfun_last_error(), "parent") && strstr(vfun_last_advice(), "onnect"));
    FORKED(vfun_call(f, args, sizeof args, room, sizeof room, &len));
    FORKED(vfun_submit(f, "x", 1, &none));
    FORKED(vfun_rst(f));
    FORKED(vfun_borrow(f, &more, &bytes, &lent));
    FORKED(vfun_stats(f, &stats));
    FORKED(vfun_poll(p, &done));
    FORKED(vfun_ready_within(p, 10));
    FORKED(vfun_wait(q, room, sizeof room, &len));
    FORKED(vfun_abandon(p));
    FORKED(vfun_submit_borrowed(slot, 100, &none));
    FORKED(vfun_give_back(other));
    FORKED(vfun_list(s, NULL, 0, &len));
    FORKED(vfun_open(s, "echo", NULL, &g));
    // A session of its own, while it has its parent's, and after.
    vfun_session *own;
    OK(vfun_connect(&options, &own));
    OK(vfun_open(own, "echo", NULL, &g));
    OK(vfun_call(g, "own", 3, room, sizeof room, &len));
    FORKED(vfun_release(f, &stats));
    FORKED(vfun_close(s));
    FORKED(vfun_wait(r, room, sizeof room, &len));
    OK(vfun_call(g, args, sizeof args, room, sizeof room, &len));
    CHECK(len == sizeof args && room[0] == 1);
    OK(vfun_release(g, NULL));
    OK(vfun_close(own));
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  // The parent has lost nothing.
  OK(vfun_call(f, "still", 5, room, sizeof room, &len));
  CHECK(len == 5 && memcmp(room, "still", 5) == 0);
  OK(vfun_wait(q, room, sizeof room, &len));
  CHECK(len == sizeof args);
  OK(vfun_wait(r, room, sizeof room, &len));
  memset(bytes, 3, 100);
  OK(vfun_submit_borrowed(other, 100, &q));
  OK(vfun_wait(q, room, sizeof room, &len));
  CHECK(len == 100 && room[99] == 3);
  OK(vfun_give_back(slot));
  OK(vfun_call(f, "!let-go", 7, NULL, 0, NULL));
  OK(vfun_wait(p, room, sizeof room, &len));
  OK(vfun_list(s, NULL, 0, &len));
  OK(vfun_release(f, NULL));
  OK(vfun_close(s));
  return 0;
}
