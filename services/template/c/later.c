/* A driver in C that answers later: a thread of its own answers calls by threes,
 * the last one first, each with the number that came with it and how many it
 * answered before. Arguments: a u64 in the machine's own order; result: two.
 *
 *     cc -O2 -shared -fPIC -pthread $(pkg-config --cflags vfun) -o libreverse.so later.c
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vfun_driver.h"

enum { TOGETHER = 3, NO_MEMORY = 1, NO_THREAD = 2 };

const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "reverse",
    .version_major = 1,
    .max_args = 8,
    .max_result = 16,
};

struct state {
    const struct vfun_driver_service *service;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ends;
    int count;
    struct vfun_open_call *calls[TOGETHER];
    uint64_t numbers[TOGETHER];
};

static void *answer(void *state)
{
    struct state *s = state;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        if (s->count < TOGETHER) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        for (uint64_t before = 0; s->count > 0; before++) {
            s->count--;
            uint64_t results[2] = {s->numbers[s->count], before};
            /* An answer to a call that was cancelled goes nowhere. */
            vfun_driver_answer(s->calls[s->count], results, sizeof results);
        }
        pthread_cond_broadcast(&s->changed);
    }
    /* Each handle is to be answered once, also when nobody waits any more. */
    while (s->count > 0)
        vfun_driver_fail(s->calls[--s->count], VFUN_DRIVER_PANIC, "the channel closes");
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int vfun_driver_init(const struct vfun_driver_config *config, void **state)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return NO_MEMORY;
    s->service = config->service; /* good until exit returns */
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, answer, s)) {
        free(s);
        return NO_THREAD;
    }
    *state = s;
    return VFUN_DRIVER_OK;
}

int vfun_driver_function(void *state, struct vfun_call *call)
{
    struct state *s = state;
    uint64_t number;
    if (call->command == VFUN_COMMAND_RST)
        return VFUN_DRIVER_OK;
    if (call->args_len != sizeof number)
        return VFUN_DRIVER_BAD_ARGS;
    memcpy(&number, call->args, sizeof number); /* gone when this returns */
    struct vfun_open_call *open = vfun_driver_later(s->service, 0);
    if (!open)
        return VFUN_DRIVER_PANIC;
    pthread_mutex_lock(&s->lock);
    while (s->count == TOGETHER)
        pthread_cond_wait(&s->changed, &s->lock);
    s->calls[s->count] = open;
    s->numbers[s->count++] = number;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return VFUN_DRIVER_LATER;
}

void vfun_driver_exit(void *state)
{
    struct state *s = state;
    pthread_mutex_lock(&s->lock);
    s->ends = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
