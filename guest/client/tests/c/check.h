// What the test programs share: a check that says where it failed, and why.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vfun.h>

#define CHECK(x)                                                              \
  do {                                                                        \
    if (!(x)) {                                                               \
      fprintf(stderr, "line %d: %s [last error: %s]\n", __LINE__, #x,         \
              vfun_last_error());                                             \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define OK(x) CHECK((x) == VFUN_STATUS_OK)

#endif
