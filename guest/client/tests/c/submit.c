// A module of one's own from C, against a real host: submit ENDPOINT CLIENT FILE.
#include "check.h"

#include <stdint.h>

static char bytes[1 << 20];

int main(int argc, char **argv) {
  CHECK(argc == 4);
  FILE *file = fopen(argv[3], "rb");
  CHECK(file);
  size_t len = fread(bytes, 1, sizeof bytes, file);
  fclose(file);

  vfun_connect_options o = {.size = sizeof o, .app = "c", .client = argv[2], .endpoint = argv[1]};
  vfun_session *s;
  OK(vfun_connect(&o, &s));
  vfun_module module = {.size = sizeof module, .module = bytes, .module_len = len,
                        .signature = "(n: u64) -> u64", .memory_bytes = 1 << 20,
                        .deadline_ms = 500};
  vfun_own_function mine, all[2];
  vfun_status status = vfun_submit_module(s, &module, &mine);
  if (status == VFUN_STATUS_REFUSED) {
    printf("refused: %s\n", vfun_last_error());
    OK(vfun_close(s));
    return 0;
  }
  OK(status);
  CHECK(strcmp(mine.name, "my.double") == 0 && mine.version == 1 << 16);
  CHECK(mine.module_bytes == len && mine.memory_bytes == 1 << 20 && mine.deadline_ms == 500);
  CHECK(mine.signature != 0 && mine.max_args == 8 && mine.max_result == 8);

  // Once more: it is there, and nobody needs to hear which.
  OK(vfun_submit_module(s, &module, NULL));
  size_t count = 9;
  OK(vfun_submitted_modules(s, NULL, 0, &count));
  CHECK(count == 1);
  OK(vfun_submitted_modules(s, all, 2, &count));
  CHECK(count == 1 && strcmp(all[0].name, mine.name) == 0);
  CHECK(memcmp(all[0].sha256, mine.sha256, sizeof mine.sha256) == 0);

  vfun_function *f;
  OK(vfun_open(s, "my.double", NULL, &f));
  uint64_t n = 21, doubled = 0;
  OK(vfun_call(f, &n, sizeof n, &doubled, sizeof doubled, &len));
  CHECK(len == sizeof doubled);
  printf("%s(%llu) = %llu\n", mine.name, (unsigned long long)n, (unsigned long long)doubled);
  OK(vfun_release(f, NULL));

  // On other terms it is another one; cut it is none.
  module.deadline_ms = 600;
  CHECK(vfun_submit_module(s, &module, NULL) == VFUN_STATUS_NOT_ACCEPTED);
  CHECK(vfun_last_code() == VFUN_SUBMIT_CODE_NAME_TAKEN);
  module.replace = 1;
  OK(vfun_submit_module(s, &module, &mine));
  CHECK(mine.deadline_ms == 600);
  module.module_len /= 2;
  CHECK(vfun_submit_module(s, &module, NULL) == VFUN_STATUS_NOT_ACCEPTED);
  CHECK(vfun_last_code() == VFUN_SUBMIT_CODE_BAD_MODULE && strstr(vfun_last_error(), "not valid"));

  OK(vfun_withdraw_module(s, "my.double"));
  CHECK(vfun_withdraw_module(s, "my.double") == VFUN_STATUS_NOT_ACCEPTED);
  CHECK(vfun_last_code() == VFUN_SUBMIT_CODE_UNKNOWN);
  OK(vfun_close(s));
  return 0;
}
