/* Every function, and every wrong use that the library can notice. */
#include "check.h"

#define MIB ((uint64_t)1 << 20)

static gdma_context *context;
static gdma_node *here, *there, *other;
static volatile int held, exit_in_call, abort_in_call, calls;

/* Keeps the library's thread until it is let go. */
static void hold(gdma_context *of, gdma_id id, int status, void *user) {
    (void)of, (void)id, (void)status, (void)user;
    exit_in_call = gdma_exit(of);
    abort_in_call = gdma_abort(of);
    held = 1;
    while (held == 1) usleep(100);
    calls++;
}

static void count(gdma_context *of, gdma_id id, int status, void *user) {
    gdma_transfer *transfer;
    struct gdma_progress progress;
    TRUE(of == context && user == (void *)&calls);
    OK(gdma_transfer_by_id(of, id, &transfer));
    OK(gdma_transfer_query(transfer, &progress));
    TRUE(progress.status == status);
    OK(gdma_transfer_release(transfer));
    calls++;
}

static void opening(void) {
    gdma_context *none = (gdma_context *)&calls;
    struct gdma_info info;
    uint32_t nodes;
    gdma_id id;
    IS(GDMA_ERR_ARGUMENT, gdma_init(GDMA_VERSION, NULL));
    IS(GDMA_ERR_UNSUPPORTED, gdma_init(GDMA_VERSION + 1, &none));
    TRUE(none == (gdma_context *)&calls);
    OK(gdma_init(GDMA_VERSION, &context));
    IS(GDMA_ERR_ARGUMENT, gdma_device_info(none, &info));
    IS(GDMA_ERR_ARGUMENT, gdma_device_info(NULL, &info));
    IS(GDMA_ERR_ARGUMENT, gdma_device_info(context, NULL));
    OK(gdma_device_info(context, &info));
    TRUE(strstr(info.name, "simulated") && info.simulated == 1 && info.version == GDMA_VERSION);
    TRUE(info.pool_bytes == 64 * MIB && info.local == 1 && info.nodes == 4);
    OK(gdma_node_count(context, &nodes));
    TRUE(nodes == info.nodes);
    OK(gdma_node_local(context, &here));
    OK(gdma_node_id(here, &id));
    TRUE(id == info.local);
    IS(GDMA_ERR_NODE, gdma_node_by_id(context, 0, &there));
    IS(GDMA_ERR_NODE, gdma_node_by_id(context, nodes + 1, &there));
    OK(gdma_node_by_id(context, 2, &there));
    OK(gdma_node_by_id(context, 3, &other));
    IS(GDMA_ERR_ARGUMENT, gdma_node_id((gdma_node *)context, &id));
    for (int status = -9; status < 3; status++) TRUE(strlen(gdma_status_text(status)) > 3);
}

static void buffers(void) {
    gdma_buffer *a, *b, *found, *many[256];
    void *address;
    uint64_t bytes, count = 0;
    gdma_id id;
    struct gdma_info info;
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_alloc(here, 0, &a));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_alloc(NULL, 1, &a));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_alloc((gdma_node *)&info, 1, &a));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_alloc(here, 1, NULL));
    OK(gdma_device_info(context, &info));
    IS(GDMA_ERR_LIMIT, gdma_buffer_alloc(here, info.longest + 1, &a));
    IS(GDMA_ERR_MEMORY, gdma_buffer_alloc(here, info.pool_bytes + 1, &a));
    OK(gdma_buffer_alloc(here, info.pool_bytes, &a));
    IS(GDMA_ERR_MEMORY, gdma_buffer_alloc(here, 1, &b));
    OK(gdma_buffer_alloc(there, 1, &b));
    OK(gdma_buffer_map(a, &address, &bytes));
    TRUE(bytes == info.pool_bytes && (uintptr_t)address % info.alignment == 0);
    memset(address, 7, 100);
    IS(GDMA_ERR_NODE, gdma_buffer_map(b, &address, &bytes));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_map(a, NULL, &bytes));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_map(a, &address, NULL));
    OK(gdma_buffer_id(a, &id));
    TRUE(id != 0);
    OK(gdma_buffer_by_id(context, id, &found));
    TRUE(found == a);
    OK(gdma_buffer_free(a));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_free(a));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_map(a, &address, &bytes));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_id(a, &id));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_by_id(context, id, &found));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_free(NULL));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_free((gdma_buffer *)here));
    OK(gdma_buffer_free(b));
    while (gdma_buffer_alloc(count % 2 ? here : there, 5000, &many[count]) == GDMA_OK) count++;
    TRUE(count == info.buffers);
    IS(GDMA_ERR_LIMIT, gdma_buffer_alloc(here, 1, &a));
    while (count > 0) OK(gdma_buffer_free(many[--count]));
}

static void transfers(void) {
    gdma_buffer *a, *b, *c, *d;
    gdma_transfer *t, *found, *waits;
    struct gdma_progress progress;
    gdma_id id;
    OK(gdma_buffer_alloc(here, MIB, &a));
    OK(gdma_buffer_alloc(there, MIB, &b));
    OK(gdma_buffer_alloc(other, MIB, &c));
    OK(gdma_buffer_alloc(here, 100, &d));
    IS(GDMA_ERR_NODE, gdma_transfer_start(b, 0, c, 0, 1, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(b, 0, a, 0, MIB + 1, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(b, MIB, a, 0, 1, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(b, 0, a, UINT64_MAX, 1, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(b, 0, d, 1, 100, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(a, 10, a, 0, 11, NULL, NULL, &t));
    IS(GDMA_ERR_RANGE, gdma_transfer_start(a, 0, a, 0, 1, NULL, NULL, &t));
    IS(GDMA_ERR_LIMIT, gdma_transfer_start(b, 0, a, 0, UINT64_MAX, NULL, NULL, &t));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_start(b, 0, a, 0, 1, NULL, NULL, NULL));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_start(NULL, 0, a, 0, 1, NULL, NULL, &t));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_start(b, 0, (gdma_buffer *)here, 0, 1, NULL, NULL, &t));
    OK(gdma_transfer_start(a, 10, a, 0, 10, NULL, NULL, &t));
    OK(ended(t));
    OK(gdma_transfer_release(t));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_release(t));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_query(t, &progress));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_id(t, &id));
    OK(gdma_transfer_start(b, MIB, a, MIB, 0, NULL, NULL, &t));
    OK(ended(t));

    /* The library's thread is in a call: only who asks moves what is started now. */
    OK(gdma_transfer_start(b, 0, a, 0, 1, hold, NULL, &t));
    while (!held) usleep(100);
    IS(GDMA_BUSY, exit_in_call);
    IS(GDMA_BUSY, abort_in_call);
    OK(gdma_transfer_query(t, &progress));
    TRUE(progress.status == GDMA_OK && progress.moved == 1 && progress.cycles > 0);
    OK(gdma_transfer_start(c, 0, a, 0, MIB, count, (void *)&calls, &waits));
    OK(gdma_transfer_query(waits, &progress));
    TRUE(progress.status == GDMA_BUSY && progress.moved < MIB / 2);
    OK(gdma_transfer_id(waits, &id));
    OK(gdma_transfer_by_id(context, id, &found));
    TRUE(found == waits);
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_by_id(context, id + 1, &found));
    IS(GDMA_BUSY, gdma_transfer_release(waits));
    IS(GDMA_BUSY, gdma_buffer_free(c));
    IS(GDMA_BUSY, gdma_buffer_free(a));
    IS(GDMA_BUSY, gdma_pool_use(context, (void *)4096, 4096));
    OK(ended(waits));
    OK(gdma_buffer_free(c));
    IS(0, calls);
    held = 2;
    while (calls < 2) usleep(100);
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_query(waits, &progress));
    OK(gdma_buffer_free(d));
    OK(gdma_buffer_free(b));
    OK(gdma_buffer_free(a));
}

static void two_contexts_and_the_end(void) {
    gdma_context *second;
    gdma_node *of_second;
    gdma_buffer *a, *b, *foreign;
    gdma_transfer *t, *all[1024];
    struct gdma_info info;
    uint32_t started = 0;
    OK(gdma_init(GDMA_VERSION, &second));
    OK(gdma_node_local(second, &of_second));
    OK(gdma_buffer_alloc(of_second, 10, &foreign));
    OK(gdma_buffer_alloc(here, MIB, &a));
    OK(gdma_buffer_alloc(there, MIB, &b));
    IS(GDMA_ERR_ARGUMENT, gdma_transfer_start(b, 0, foreign, 0, 1, NULL, NULL, &t));
    OK(gdma_abort(second));
    IS(GDMA_ERR_ARGUMENT, gdma_abort(second));
    IS(GDMA_ERR_ARGUMENT, gdma_exit(second));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_free(foreign));

    /* Transfers that are not released have a limit. */
    OK(gdma_device_info(context, &info));
    TRUE(info.transfers <= 1024);
    calls = 0;
    while (started < info.transfers && gdma_transfer_start(b, 0, a, 0, 1, NULL, NULL, &all[started]) == GDMA_OK) started++;
    /* One exists since before: it was not released. */
    TRUE(started < info.transfers && started > info.transfers - 4);
    IS(GDMA_ERR_LIMIT, gdma_transfer_start(b, 0, a, 0, 1, NULL, NULL, &t));
    for (uint32_t i = 0; i < started; i++) {
        OK(ended(all[i]));
        OK(gdma_transfer_release(all[i]));
    }
    /* The end waits for what is under way, and its function is called. */
    for (int i = 0; i < 20; i++) OK(gdma_transfer_start(b, 0, a, 0, MIB, count, (void *)&calls, &t));
    OK(gdma_exit(context));
    TRUE(calls == 20);
    IS(GDMA_ERR_ARGUMENT, gdma_exit(context));
    IS(GDMA_ERR_ARGUMENT, gdma_buffer_free(a));
    IS(GDMA_ERR_ARGUMENT, gdma_node_local(context, &here));
}

int main(void) {
    opening();
    buffers();
    transfers();
    two_contexts_and_the_end();
    return 0;
}
