/*
 * Uses the engine until its service dies, says what the library answers then, and begins again.
 * Before that a child of fork opens the library for itself.
 */
#include <gdma.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(call) printf("%s = %d\n", #call, call)

static int once(gdma_context *context, gdma_buffer *here, gdma_buffer *there) {
    gdma_transfer *transfer;
    struct gdma_progress progress;
    int status = gdma_transfer_start(there, 0, here, 0, 4096, NULL, NULL, &transfer);
    if (status) return status;
    do {
        status = gdma_transfer_query(transfer, &progress);
    } while (status == GDMA_OK && progress.status == GDMA_BUSY);
    if (status == GDMA_OK) status = gdma_transfer_release(transfer);
    (void)context;
    return status;
}

static void child(gdma_context *parents) {
    gdma_context *own = NULL;
    gdma_node *node = NULL;
    SAY(gdma_node_local(parents, &node));
    SAY(gdma_init(GDMA_VERSION, &own));
    SAY(gdma_node_local(own, &node));
    SAY(gdma_exit(own));
    fflush(stdout);
    _exit(0);
}

int main(void) {
    gdma_context *context = NULL;
    gdma_node *local = NULL, *other = NULL;
    gdma_buffer *here = NULL, *there = NULL;
    SAY(gdma_init(GDMA_VERSION, &context));
    SAY(gdma_node_local(context, &local));
    SAY(gdma_node_by_id(context, 2, &other));
    SAY(gdma_buffer_alloc(local, 4096, &here));
    SAY(gdma_buffer_alloc(other, 4096, &there));
    fflush(stdout);
    if (fork() == 0) child(context);
    wait(NULL);
    SAY(once(context, here, there));
    printf("ready\n");
    fflush(stdout);
    int status;
    while ((status = once(context, here, there)) == GDMA_OK) usleep(1000);
    printf("the service is gone: %d\n", status);
    SAY(gdma_buffer_alloc(local, 4096, &here));
    SAY(gdma_exit(context));
    SAY(gdma_init(GDMA_VERSION, &context));
    SAY(gdma_node_local(context, &local));
    SAY(gdma_buffer_alloc(local, 4096, &here));
    SAY(gdma_exit(context));
    return 0;
}
