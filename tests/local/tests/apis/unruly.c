/*
 * What programs may do and other tests do not: releases before callbacks, ends in callbacks, many
 * transfers at once, contexts opened and closed meanwhile, transfers that the host does not begin,
 * and a service that dies under a waiting program.
 */
#include <gdma.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAY(call) printf("%s = %d\n", #call, call)
#define LONG (4u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int ends, last, exits, exits_other, slow;

static gdma_context *context, *aside;
static gdma_node *local, *other;
static gdma_buffer *here, *there;

static void ended(gdma_context *of, gdma_id id, int status, void *user) {
    (void)id;
    if (slow) usleep(2000);
    pthread_mutex_lock(&lock);
    if (user) exits = gdma_exit(of);
    if (user) exits_other = gdma_exit(aside);
    ends++;
    last = status;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

static void await(int count) {
    pthread_mutex_lock(&lock);
    while (ends < count) pthread_cond_wait(&told, &lock);
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

static void open_all(void) {
    SAY(gdma_init(GDMA_VERSION, &context));
    SAY(gdma_node_local(context, &local));
    SAY(gdma_node_by_id(context, 2, &other));
    SAY(gdma_buffer_alloc(local, LONG, &here));
    SAY(gdma_buffer_alloc(other, LONG, &there));
}

/* The functions of transfers that were released before they were called. */
static void early(void) {
    gdma_transfer *transfer;
    int bad = 0;
    ends = 0;
    slow = 1; /* so that events lag behind */
    for (int i = 0; i < 50; i++) {
        bad += gdma_transfer_start(there, 0, here, 0, 64, ended, NULL, &transfer) != GDMA_OK;
        bad += status_of(transfer) != GDMA_OK;
        bad += gdma_transfer_release(transfer) != GDMA_OK;
    }
    await(50);
    slow = 0;
    printf("%d functions called, %d wrong\n", ends, bad);
}

/* A function that ends its own context, and one that has nothing to do with it. */
static void itself(void) {
    gdma_transfer *transfer;
    ends = 0;
    SAY(gdma_init(GDMA_VERSION, &aside));
    SAY(gdma_transfer_start(there, 0, here, 0, 64, ended, &ends, &transfer));
    await(1);
    printf("gdma_exit in a function: %d, and of another context: %d\n", exits, exits_other);
    SAY(gdma_exit(aside));
    SAY(gdma_transfer_release(transfer));
}

/* More transfers than the connection has cells. */
static void many(void) {
    static gdma_transfer *all[900];
    int bad = 0;
    ends = 0;
    for (int i = 0; i < 900; i++) bad += gdma_transfer_start(there, 0, here, 0, 64, ended, NULL, &all[i]) != GDMA_OK;
    await(900);
    for (int i = 0; i < 900; i++) bad += gdma_transfer_release(all[i]) != GDMA_OK;
    printf("%d functions called, %d wrong\n", ends, bad);
}

/* Contexts that are opened while transfers are under way. */
static void contexts(void) {
    gdma_context *second = NULL;
    gdma_transfer *transfer;
    int bad = 0;
    for (int i = 0; i < 20; i++) {
        bad += gdma_transfer_start(there, 0, here, 0, 64, NULL, NULL, &transfer) != GDMA_OK;
        bad += gdma_init(GDMA_VERSION, &second) != GDMA_OK;
        bad += gdma_exit(second) != GDMA_OK;
        bad += status_of(transfer) != GDMA_OK;
        bad += gdma_transfer_release(transfer) != GDMA_OK;
    }
    printf("contexts meanwhile: %d wrong\n", bad);
}

/* Pointers that were given back, and what failed calls leave alone. */
static void stale(void) {
    gdma_buffer *old, *new;
    void *at = NULL;
    SAY(gdma_buffer_alloc(local, 4096, &old));
    SAY(gdma_buffer_free(old));
    SAY(gdma_buffer_alloc(local, 4096, &new));
    SAY(gdma_buffer_free(old));
    SAY(gdma_buffer_map(new, &at, NULL));
    SAY(gdma_buffer_free(new));
}

/* A buffer of each of two contexts. */
static void strangers(void) {
    gdma_context *second = NULL;
    gdma_node *node;
    gdma_buffer *far;
    gdma_transfer *transfer = NULL;
    SAY(gdma_init(GDMA_VERSION, &second));
    SAY(gdma_node_by_id(second, 2, &node));
    SAY(gdma_buffer_alloc(node, 4096, &far));
    SAY(gdma_transfer_start(far, 0, here, 0, 64, NULL, NULL, &transfer));
    printf("left alone: %d\n", transfer == NULL);
    SAY(gdma_exit(second));
}

/* A function that starts the next transfer, until its context is being closed. */
static void again(gdma_context *of, gdma_id id, int status, void *user) {
    gdma_transfer *transfer = NULL, *next;
    gdma_buffer **ends = user;
    (void)status;
    gdma_transfer_by_id(of, id, &transfer);
    gdma_transfer_release(transfer);
    gdma_transfer_start(ends[1], 0, ends[0], 0, 64, again, user, &next);
}

static void chain(void) {
    gdma_context *second = NULL;
    gdma_node *node;
    gdma_buffer *both[2];
    gdma_transfer *transfer = NULL;
    SAY(gdma_init(GDMA_VERSION, &second));
    SAY(gdma_node_local(second, &node));
    SAY(gdma_buffer_alloc(node, 4096, &both[0]));
    SAY(gdma_node_by_id(second, 2, &node));
    SAY(gdma_buffer_alloc(node, 4096, &both[1]));
    SAY(gdma_transfer_start(both[1], 0, both[0], 0, 64, again, both, &transfer));
    usleep(20000);
    SAY(gdma_exit(second));
}

static _Atomic int leaves;

static void *leave_aside(void *unused) {
    (void)unused;
    leaves = 1;
    SAY(gdma_exit(aside));
    leaves = 2;
    return NULL;
}

/* Calls while another thread waits in gdma_exit, for transfers that have no function. */
static void meanwhile(void) {
    gdma_node *node;
    gdma_buffer *both[2];
    gdma_transfer *transfer;
    pthread_t thread;
    SAY(gdma_init(GDMA_VERSION, &aside));
    SAY(gdma_node_local(aside, &node));
    SAY(gdma_buffer_alloc(node, LONG / 2, &both[0]));
    SAY(gdma_node_by_id(aside, 2, &node));
    SAY(gdma_buffer_alloc(node, LONG / 2, &both[1]));
    int bad = 0;
    for (int i = 0; i < 100; i++) bad += gdma_transfer_start(both[1], 0, both[0], 0, LONG / 2, NULL, NULL, &transfer) != GDMA_OK;
    pthread_create(&thread, NULL, leave_aside, NULL);
    while (!leaves) usleep(100);
    usleep(20000);
    bad += gdma_node_local(context, &node) != GDMA_OK;
    printf("a call while another waits: %d wrong, %s\n", bad, leaves == 1 ? "meanwhile" : "only then");
    fflush(stdout);
    pthread_join(thread, NULL);
}

static _Atomic(gdma_transfer *) second;

/* What a function learns of a transfer that the host did not begin, and whose end comes behind its own. */
static void look(gdma_context *of, gdma_id id, int status, void *user) {
    struct gdma_progress progress = {0};
    struct timespec from, to;
    gdma_transfer *next;
    (void)of, (void)id, (void)status, (void)user;
    while (!(next = second)) usleep(100);
    clock_gettime(CLOCK_MONOTONIC, &from);
    int asked = gdma_transfer_query(next, &progress);
    clock_gettime(CLOCK_MONOTONIC, &to);
    long ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
    printf("asked: %d, it ended with %d, %s\n", asked, progress.status, ms < 800 ? "at once" : "late");
    asked = gdma_transfer_release(next);
    printf("released: %d, and again: %d\n", asked, gdma_transfer_release(next));
    pthread_mutex_lock(&lock);
    ends++;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
}

/* More transfers than may exist: the host says so of those that are too many. */
static void too_many(void) {
    static gdma_transfer *all[1024];
    gdma_transfer *first, *behind;
    int bad = 0;
    ends = 0;
    for (int i = 0; i < 1024; i++) bad += gdma_transfer_start(there, 0, here, 0, 8, NULL, NULL, &all[i]) != GDMA_OK;
    for (int i = 0; i < 1024; i++) bad += status_of(all[i]) != GDMA_OK;
    bad += gdma_transfer_start(there, 0, here, 0, 8, look, NULL, &first) != GDMA_OK;
    bad += gdma_transfer_start(there, 0, here, 0, 8, NULL, NULL, &behind) != GDMA_OK;
    second = behind;
    await(1);
    bad += status_of(first) != GDMA_ERR_LIMIT;
    bad += gdma_transfer_release(first) != GDMA_OK;
    for (int i = 0; i < 1024; i++) bad += gdma_transfer_release(all[i]) != GDMA_OK;
    printf("too many transfers: %d wrong\n", bad);
    SAY(gdma_exit(context));
}

static void *leave(void *unused) {
    (void)unused;
    SAY(gdma_exit(context));
    return NULL;
}

/* A service that dies under a program that waits for all its functions. */
static void dies(void) {
    gdma_transfer *transfer;
    pthread_t thread;
    int bad = 0;
    ends = 0;
    for (int i = 0; i < 300; i++) bad += gdma_transfer_start(there, 0, here, 0, LONG, ended, NULL, &transfer) != GDMA_OK;
    pthread_create(&thread, NULL, leave, NULL);
    printf("ready\n");
    fflush(stdout);
    pthread_join(thread, NULL);
    await(300);
    printf("%d functions called, %d wrong, the last with %d\n", ends, bad, last);
    open_all();
    printf("again\n");
    fflush(stdout);
    getchar();
}

int main(int argc, char **argv) {
    open_all();
    if (argc > 1 && !strcmp(argv[1], "dies")) {
        dies();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "too-many")) {
        too_many();
        return 0;
    }
    early();
    itself();
    many();
    contexts();
    stale();
    strangers();
    chain();
    meanwhile();
    SAY(gdma_exit(context));
    return 0;
}
