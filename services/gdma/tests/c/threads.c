/* Threads that allocate, transfer and free at the same time, in one context. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define ROUNDS 60

static gdma_context *context;
static atomic_int called;

static void called_back(gdma_context *of, gdma_id id, int status, void *user) {
    (void)of, (void)id;
    atomic_fetch_add(&called, 1);
    atomic_store((atomic_int *)user, status);
}

static void *work(void *argument) {
    uint32_t random = 12345u * ((uint32_t)(uintptr_t)argument + 1);
    gdma_node *here, *there;
    OK(gdma_node_local(context, &here));
    OK(gdma_node_by_id(context, 2 + (uint32_t)(uintptr_t)argument % 3, &there));
    for (int round = 0; round < ROUNDS; round++) {
        gdma_buffer *home, *away;
        gdma_transfer *out, *back;
        void *address;
        uint64_t bytes, half;
        atomic_int status = GDMA_BUSY;
        random = random * 1103515245u + 12345u;
        half = 1 + (random >> 8) % 20000;
        OK(gdma_buffer_alloc(here, 2 * half, &home));
        OK(gdma_buffer_alloc(there, half + 3, &away));
        OK(gdma_buffer_map(home, &address, &bytes));
        unsigned char *mine = address;
        for (uint64_t i = 0; i < half; i++) mine[i] = (unsigned char)(random >> 24 ^ i);
        memset(mine + half, 0, half);
        OK(gdma_transfer_start(away, 3, home, 0, half, NULL, NULL, &out));
        OK(gdma_transfer_start(home, half, away, 3, half, called_back, &status, &back));
        while (atomic_load(&status) == GDMA_BUSY) usleep(50);
        OK(ended(out));
        OK(ended(back));
        TRUE(memcmp(mine, mine + half, half) == 0);
        OK(gdma_transfer_release(out));
        OK(gdma_transfer_release(back));
        OK(gdma_buffer_free(home));
        OK(gdma_buffer_free(away));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    OK(gdma_init(GDMA_VERSION, &context));
    for (uintptr_t i = 0; i < THREADS; i++) OK(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) OK(pthread_join(threads[i], NULL));
    TRUE(atomic_load(&called) == THREADS * ROUNDS);
    OK(gdma_exit(context));
    return 0;
}
