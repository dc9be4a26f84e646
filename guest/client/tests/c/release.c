// Cells and calls that outlive their function or their session: nothing of them
// reaches the next function, which has the same pages of the window.
#include "check.h"

#include <pthread.h>

#define CELLS 64
#define CELL 4096

static vfun_slot *slots[CELLS];
static unsigned char *bytes[CELLS];

static vfun_session *connected(const char *endpoint) {
  vfun_connect_options o = {.size = sizeof o, .app = "release", .endpoint = endpoint};
  vfun_session *s;
  OK(vfun_connect(&o, &s));
  return s;
}

static vfun_function *opened(vfun_session *s) {
  vfun_function_options want = {.size = sizeof want, .depth = CELLS, .cell_bytes = CELL};
  vfun_function *f;
  OK(vfun_open(s, "echo", &want, &f));
  return f;
}

static void borrow_all(vfun_function *f) {
  for (int i = 0; i < CELLS; i++) {
    void *at;
    size_t room;
    OK(vfun_borrow(f, &slots[i], &at, &room));
    CHECK(room == CELL);
    bytes[i] = at;
    memset(at, i + 1, room);
  }
}

// Through the old pointers, while the next function holds the same cells.
static void scribble(vfun_function *next) {
  vfun_slot *own[CELLS];
  unsigned char *theirs[CELLS];
  unsigned char room[CELL];
  for (int i = 0; i < CELLS; i++) {
    void *at;
    size_t len;
    OK(vfun_borrow(next, &own[i], &at, &len));
    theirs[i] = at;
    memset(at, 0x55, len);
  }
  for (int i = 0; i < CELLS; i++) CHECK(bytes[i][0] == i + 1 && bytes[i][CELL - 1] == i + 1);
  for (int i = 0; i < CELLS; i++) memset(bytes[i], 0xee, CELL);
  for (int i = 0; i < CELLS; i++) {
    vfun_pending *p;
    size_t len = 0;
    CHECK(theirs[i][0] == 0x55 && theirs[i][CELL - 1] == 0x55);
    OK(vfun_submit_borrowed(own[i], CELL, &p));
    OK(vfun_wait(p, room, sizeof room, &len));
    CHECK(len == CELL && room[0] == 0x55 && room[CELL - 1] == 0x55);
  }
}

static void all_are_released(void) {
  for (int i = 0; i < CELLS; i++) {
    vfun_pending *p = NULL;
    if (i % 4 == 0) {
      OK(vfun_give_back(slots[i]));
      continue;
    }
    CHECK(vfun_submit_borrowed(slots[i], i % 2 ? CELL : 8, &p) == VFUN_STATUS_RELEASED && !p);
  }
}

// Cells that are lent.
static void slots_end_with_their_function(vfun_session *s) {
  vfun_function *f = opened(s), *next;
  borrow_all(f);
  OK(vfun_release(f, NULL));
  next = opened(s);
  scribble(next);
  all_are_released();
  OK(vfun_release(next, NULL));
}

// Calls under way: the answered one is there, the other one ends, also in a
// thread that waits for it.
static void *waits(void *pending) {
  unsigned char room[CELL];
  return (void *)(size_t)vfun_wait(pending, room, sizeof room, NULL);
}

static void calls_end_with_their_function(vfun_session *s) {
  vfun_function *f = opened(s), *next;
  unsigned char args[1000], room[CELL];
  vfun_pending *answered, *small, *open_call, *waited;
  size_t len = 0;
  memset(args, 9, sizeof args);
  OK(vfun_submit(f, args, sizeof args, &answered));
  OK(vfun_submit(f, "small", 5, &small));
  OK(vfun_submit(f, "!hold", 5, &open_call));
  OK(vfun_submit(f, "!hold", 5, &waited));
  OK(vfun_ready_within(answered, 10000));
  OK(vfun_ready_within(small, 10000));
  pthread_t thread;
  void *status;
  CHECK(pthread_create(&thread, NULL, waits, waited) == 0);
  OK(vfun_release(f, NULL));
  CHECK(pthread_join(thread, &status) == 0 && (size_t)status == VFUN_STATUS_RELEASED);
  next = opened(s);
  for (int i = 0; i < 2 * CELLS; i++) OK(vfun_call(next, room, 500, room, sizeof room, NULL));
  OK(vfun_wait(answered, room, sizeof room, &len));
  CHECK(len == sizeof args && memcmp(room, args, len) == 0);
  OK(vfun_wait(small, room, sizeof room, &len));
  CHECK(len == 5 && memcmp(room, "small", 5) == 0);
  CHECK(vfun_wait(open_call, room, sizeof room, &len) == VFUN_STATUS_RELEASED);
  OK(vfun_release(next, NULL));
}

// The same by the end of the session, which gives back what it was granted.
static void slots_end_with_their_session(const char *endpoint) {
  vfun_session *s = connected(endpoint), *t = connected(endpoint);
  vfun_function *f = opened(s), *next;
  borrow_all(f);
  OK(vfun_close(s));
  next = opened(t);
  scribble(next);
  vfun_slot *more;
  void *at;
  size_t room;
  CHECK(vfun_borrow(f, &more, &at, &room) == VFUN_STATUS_RELEASED && !more);
  all_are_released();
  vfun_release(f, NULL);
  OK(vfun_release(next, NULL));
  OK(vfun_close(t));
}

// A thread that fills and submits cells until the function is released under it.
static void *submits(void *unused) {
  (void)unused;
  for (int i = 0; i < CELLS; i++) {
    vfun_pending *p;
    memset(bytes[i], 0xee, CELL);
    vfun_status done = vfun_submit_borrowed(slots[i], CELL, &p);
    if (done == VFUN_STATUS_OK) {
      static unsigned char room[CELL];
      size_t len = 0;
      done = vfun_wait(p, room, sizeof room, &len);
      CHECK(done == VFUN_STATUS_RELEASED || (done == VFUN_STATUS_OK && len == CELL && room[0] == 0xee));
    }
    CHECK(done == VFUN_STATUS_OK || done == VFUN_STATUS_RELEASED);
  }
  return NULL;
}

static void one_thread_releases_while_another_submits(vfun_session *s) {
  for (int round = 0; round < 20; round++) {
    vfun_function *f = opened(s), *next;
    pthread_t thread;
    borrow_all(f);
    CHECK(pthread_create(&thread, NULL, submits, NULL) == 0);
    OK(vfun_release(f, NULL));
    next = opened(s);
    for (int i = 0; i < CELLS; i++) {
      unsigned char args[CELL], room[CELL];
      memset(args, i, sizeof args);
      OK(vfun_call(next, args, sizeof args, room, sizeof room, NULL));
      CHECK(memcmp(args, room, sizeof args) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(vfun_release(next, NULL));
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  vfun_session *s = connected(argv[1]);
  slots_end_with_their_function(s);
  calls_end_with_their_function(s);
  one_thread_releases_while_another_submits(s);
  OK(vfun_close(s));
  slots_end_with_their_session(argv[1]);
  return 0;
}
