/* What the programs of the tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <gdma.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS(expected, call)                                                                     \
    do {                                                                                       \
        int got_ = (call);                                                                     \
        if (got_ != (expected)) {                                                              \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, got_, #expected); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)
#define OK(call) IS(GDMA_OK, call)
#define TRUE(condition)                                                              \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);  \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Asks until the transfer has ended: how. */
static inline int ended(gdma_transfer *transfer) {
    struct gdma_progress progress;
    for (;;) {
        OK(gdma_transfer_query(transfer, &progress));
        if (progress.status != GDMA_BUSY) return progress.status;
        usleep(100);
    }
}

#endif
