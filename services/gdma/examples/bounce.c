/*
 * Sends a buffer to another node and back, and checks what comes back.
 *
 *     cc -o bounce bounce.c -lgdma && ./bounce [BYTES]
 *
 * It knows of gdma.h and nothing else: the same program runs wherever there is
 * a libgdma.so.
 */
#include <gdma.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trip {
    gdma_buffer *home, *away, *back;
    uint64_t bytes;
    pthread_mutex_t lock;
    pthread_cond_t over;
    int status; /* of the way back; GDMA_BUSY until then */
};

static void must(int status, const char *what) {
    if (status == GDMA_OK) return;
    fprintf(stderr, "bounce: %s: %s\n", what, gdma_status_text(status));
    exit(1);
}

static void end(struct trip *trip, int status) {
    pthread_mutex_lock(&trip->lock);
    trip->status = status;
    pthread_cond_signal(&trip->over);
    pthread_mutex_unlock(&trip->lock);
}

static void forget(gdma_context *context, gdma_id id) {
    gdma_transfer *transfer;
    must(gdma_transfer_by_id(context, id, &transfer), "find the transfer");
    must(gdma_transfer_release(transfer), "release the transfer");
}

static void came_back(gdma_context *context, gdma_id id, int status, void *user) {
    forget(context, id);
    end(user, status);
}

/* On the other node: send it back from here. */
static void went_out(gdma_context *context, gdma_id id, int status, void *user) {
    struct trip *trip = user;
    gdma_transfer *transfer;
    forget(context, id);
    if (status == GDMA_OK)
        status = gdma_transfer_start(trip->back, 0, trip->away, 0, trip->bytes, came_back, trip, &transfer);
    if (status != GDMA_OK) end(trip, status);
}

static unsigned char *map(gdma_buffer *buffer) {
    void *address;
    uint64_t bytes;
    must(gdma_buffer_map(buffer, &address, &bytes), "map a buffer");
    return address;
}

int main(int argc, char **argv) {
    struct trip trip = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER, .status = GDMA_BUSY};
    gdma_context *context;
    gdma_node *here, *there;
    gdma_transfer *transfer;
    struct gdma_info info;

    trip.bytes = argc > 1 ? strtoull(argv[1], NULL, 0) : 1 << 20;
    must(gdma_init(GDMA_VERSION, &context), "open the library");
    must(gdma_device_info(context, &info), "ask about the device");
    must(gdma_node_local(context, &here), "find this node");
    must(gdma_node_by_id(context, info.local % info.nodes + 1, &there), "find another node");
    must(gdma_buffer_alloc(here, trip.bytes, &trip.home), "allocate what is sent");
    must(gdma_buffer_alloc(there, trip.bytes, &trip.away), "allocate on the other node");
    must(gdma_buffer_alloc(here, trip.bytes, &trip.back), "allocate what comes back");

    unsigned char *sent = map(trip.home), *got = map(trip.back);
    for (uint64_t i = 0; i < trip.bytes; i++) sent[i] = (unsigned char)(i * 31 + i / 256);
    memset(got, 0, trip.bytes);
    must(gdma_transfer_start(trip.away, 0, trip.home, 0, trip.bytes, went_out, &trip, &transfer), "send");

    pthread_mutex_lock(&trip.lock);
    while (trip.status == GDMA_BUSY) pthread_cond_wait(&trip.over, &trip.lock);
    pthread_mutex_unlock(&trip.lock);
    must(trip.status, "send and receive");
    if (memcmp(sent, got, trip.bytes) != 0) {
        fprintf(stderr, "bounce: what came back is not what was sent\n");
        return 1;
    }

    must(gdma_buffer_free(trip.home), "free what was sent");
    must(gdma_buffer_free(trip.away), "free on the other node");
    must(gdma_buffer_free(trip.back), "free what came back");
    must(gdma_exit(context), "close the library");
    printf("%llu bytes went from node %u to another and came back, by a %s\n", (unsigned long long)trip.bytes,
           info.local, info.name);
    return 0;
}
