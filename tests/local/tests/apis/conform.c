/*
 * Says what the library answers: to what is right, to what is wrong, and to what is stale. On the
 * host and in a VM it must say the same.
 */
#include <gdma.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY(call) printf("%s = %d\n", #call, call)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int ends, wrong;

/* The program's own argument and a status that is right: counted. */
static void ended(gdma_context *context, gdma_id id, int status, void *user) {
    gdma_transfer *transfer = NULL;
    struct gdma_progress progress;
    int fits = gdma_transfer_by_id(context, id, &transfer) == GDMA_OK &&
               gdma_transfer_query(transfer, &progress) == GDMA_OK && progress.status == status;
    if (gdma_exit(context) != GDMA_BUSY) fits = 0;
    pthread_mutex_lock(&lock);
    if (user != &ends || status != GDMA_OK || !fits) wrong++;
    ends++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

static void await(int count) {
    pthread_mutex_lock(&lock);
    while (ends < count) pthread_cond_wait(&told, &lock);
    printf("%d transfers ended, %d wrongly\n", ends, wrong);
    pthread_mutex_unlock(&lock);
}

static int status_of(gdma_transfer *transfer) {
    struct gdma_progress progress;
    int status;
    do {
        status = gdma_transfer_query(transfer, &progress);
    } while (status == GDMA_OK && progress.status == GDMA_BUSY);
    return status == GDMA_OK ? progress.status : status;
}

static void nodes(gdma_context *context) {
    gdma_node *local = NULL, *same = NULL, *none = NULL;
    uint32_t count = 0;
    gdma_id id = 0;
    SAY(gdma_node_count(context, &count));
    SAY(gdma_node_local(context, &local));
    SAY(gdma_node_id(local, &id));
    SAY(gdma_node_by_id(context, id, &same));
    printf("%u nodes, this is %u, the same object: %d\n", count, id, local == same);
    SAY(gdma_node_by_id(context, count + 1, &none));
    SAY(gdma_node_by_id(context, 0, &none));
    SAY(gdma_node_id((gdma_node *)context, &id));
}

static void buffers(gdma_node *local, gdma_node *other, gdma_context *context) {
    gdma_buffer *here = NULL, *there = NULL, *same = NULL;
    void *at = NULL;
    uint64_t bytes = 0;
    gdma_id id = 0;
    SAY(gdma_buffer_alloc(local, 10000, &here));
    SAY(gdma_buffer_alloc(other, 10000, &there));
    SAY(gdma_buffer_map(here, &at, &bytes));
    printf("%llu bytes, aligned: %d\n", (unsigned long long)bytes, (uintptr_t)at % 64 == 0);
    memset(at, 7, 10000);
    SAY(gdma_buffer_map(there, &at, &bytes));
    SAY(gdma_buffer_id(here, &id));
    SAY(gdma_buffer_by_id(context, id, &same));
    printf("the same object: %d\n", here == same);
    SAY(gdma_buffer_alloc(local, 0, &same));
    SAY(gdma_buffer_alloc(local, 1ull << 50, &same));
    SAY(gdma_buffer_alloc((gdma_node *)here, 64, &same));
    SAY(gdma_buffer_free(here));
    SAY(gdma_buffer_free(here));
    SAY(gdma_buffer_id(here, &id));
    SAY(gdma_buffer_by_id(context, id, &same));
    SAY(gdma_buffer_free(there));
    SAY(gdma_buffer_free(NULL));
}

/* More releases in a row than one message to the host holds. */
static void releases(gdma_buffer *there, gdma_buffer *here) {
    static gdma_transfer *all[600];
    gdma_transfer *next = NULL;
    int bad = 0;
    for (int i = 0; i < 600; i++) bad += gdma_transfer_start(there, 0, here, 0, 8, NULL, NULL, &all[i]) != GDMA_OK;
    for (int i = 0; i < 600; i++) bad += status_of(all[i]) != GDMA_OK;
    for (int i = 0; i < 600; i++) bad += gdma_transfer_release(all[i]) != GDMA_OK;
    for (int i = 0; i < 600; i++) bad += gdma_transfer_release(all[i]) != GDMA_ERR_ARGUMENT;
    /* Those are gone: as many exist as may, and no more. */
    for (int i = 0; i < 600; i++) bad += gdma_transfer_start(there, 0, here, 0, 8, NULL, NULL, &all[i]) != GDMA_OK;
    for (int i = 0; i < 600; i++) bad += status_of(all[i]) != GDMA_OK;
    for (int i = 0; i < 600; i++) bad += gdma_transfer_release(all[i]) != GDMA_OK;
    SAY(gdma_transfer_start(there, 0, here, 0, 8, NULL, NULL, &next));
    SAY(status_of(next));
    SAY(gdma_transfer_release(next));
    printf("releases in a row: %d wrong\n", bad);
}

static void transfers(gdma_node *local, gdma_node *other) {
    gdma_buffer *here, *there, *far;
    gdma_transfer *transfer = NULL;
    struct gdma_progress progress;
    SAY(gdma_buffer_alloc(local, 100000, &here));
    SAY(gdma_buffer_alloc(other, 100000, &there));
    SAY(gdma_buffer_alloc(other, 100000, &far));
    unsigned char *bytes;
    uint64_t length;
    SAY(gdma_buffer_map(here, (void **)&bytes, &length));
    for (int i = 0; i < 100000; i++) bytes[i] = (unsigned char)(i * 31);
    SAY(gdma_transfer_start(there, 5, here, 3, 99000, NULL, NULL, &transfer));
    SAY(status_of(transfer));
    SAY(gdma_transfer_query(transfer, &progress));
    printf("%llu bytes moved\n", (unsigned long long)progress.moved);
    SAY(gdma_transfer_release(transfer));
    SAY(gdma_transfer_release(transfer));
    SAY(gdma_transfer_query(transfer, &progress));
    memset(bytes, 0, 100000);
    SAY(gdma_transfer_start(here, 3, there, 5, 99000, NULL, NULL, &transfer));
    SAY(status_of(transfer));
    SAY(gdma_transfer_release(transfer));
    int bad = 0;
    for (int i = 0; i < 100000; i++) bad += bytes[i] != (i < 3 || i >= 99003 ? 0 : (unsigned char)(i * 31));
    printf("%d bytes are wrong\n", bad);
    SAY(gdma_transfer_start(there, 0, here, 99999, 2, NULL, NULL, &transfer));
    SAY(gdma_transfer_start(there, ~0ull, here, 0, 2, NULL, NULL, &transfer));
    SAY(gdma_transfer_start(there, 0, far, 0, 10, NULL, NULL, &transfer));
    SAY(gdma_transfer_start(here, 0, here, 10, 100, NULL, NULL, &transfer));
    SAY(gdma_transfer_start(there, 0, here, 0, 0, NULL, NULL, &transfer));
    SAY(status_of(transfer));
    for (int i = 0; i < 100; i++) {
        if (gdma_transfer_start(there, i, here, i, 500, ended, &ends, &transfer) != GDMA_OK) printf("no\n");
    }
    await(100);
    releases(there, here);
    SAY(gdma_buffer_free(there));
}

int main(void) {
    gdma_context *context = NULL, *second = NULL;
    gdma_node *local = NULL, *other = NULL;
    struct gdma_info info;
    SAY(gdma_init(GDMA_VERSION + 1, &context));
    SAY(gdma_init(GDMA_VERSION, &context));
    SAY(gdma_device_info(context, &info));
    printf("%s: version %u, %u nodes, %u, simulated %u, aligned to %u, %u buffers, %u transfers\n", info.name,
           info.version, info.nodes, info.local, info.simulated, info.alignment, info.buffers, info.transfers);
    nodes(context);
    SAY(gdma_node_local(context, &local));
    SAY(gdma_node_by_id(context, info.local == 1 ? 2 : 1, &other));
    buffers(local, other, context);
    transfers(local, other);
    SAY(gdma_init(GDMA_VERSION, &second));
    SAY(gdma_exit(second));
    SAY(gdma_exit(context));
    SAY(gdma_exit(context));
    SAY(gdma_node_id(local, &(gdma_id){0}));
    for (int status = -10; status < 4; status++) printf("%d: %s\n", status, gdma_status_text(status));
    return 0;
}
