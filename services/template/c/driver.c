/* A driver in C to start from: answers the running total of the numbers it was
 * given. Arguments: a little-endian u64. Result: a little-endian u64.
 *
 *     cc -O2 -shared -fPIC $(pkg-config --cflags vfun) -o libmyfunction.so driver.c
 *     vfun function add function.toml
 *     vfun call mytotal 5
 *
 * pkg-config knows vfun once it is installed; for VirtFun's source tree instead,
 * set PKG_CONFIG_PATH to its folder guest/client.
 *
 * Change what is marked HERE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfun_driver.h"

/* HERE: the same name and version as in function.toml. */
const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "mytotal",
    .version_major = 1,
    .version_minor = 0,
    .max_args = 8,
    .max_result = 8,
};

/* HERE: your own errors, positive numbers; say in your documentation what they mean. */
enum { OVERFLOW_ERROR = 1, NO_MEMORY = 2 };

/* HERE: what a channel keeps between calls. */
struct state {
    uint64_t start;
    uint64_t total;
};

static uint64_t number(const unsigned char *bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)bytes[i] << 8 * i;
    return n;
}

int vfun_driver_init(const struct vfun_driver_config *config, void **state)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(config->sentence, config->sentence_capacity, "no memory for a channel's state");
        return NO_MEMORY;
    }
    for (uint64_t i = 0; i < config->settings_count; i++)
        if (!strcmp(config->settings[i].key, "start"))
            s->start = strtoull(config->settings[i].value, NULL, 10);
    s->total = s->start;
    *state = s;
    return VFUN_DRIVER_OK;
}

int vfun_driver_function(void *state, struct vfun_call *call)
{
    struct state *s = state;
    unsigned char bytes[8];
    uint64_t n;

    switch (call->command) {
    case VFUN_COMMAND_RST:
        s->total = s->start;
        return VFUN_DRIVER_OK;
    case VFUN_COMMAND_SET:
        break;
    default:
        return VFUN_DRIVER_BAD_ARGS;
    }
    if (call->args_len != sizeof bytes) {
        snprintf(call->sentence, call->sentence_capacity, "want 8 bytes, got %llu",
                 (unsigned long long)call->args_len);
        return VFUN_DRIVER_BAD_ARGS;
    }
    /* Once, into private memory; then check and use the copy. */
    memcpy(bytes, call->args, sizeof bytes);
    n = number(bytes);
    if (n > UINT64_MAX - s->total) {
        snprintf(call->sentence, call->sentence_capacity, "the total exceeds 64 bits: use rst");
        return OVERFLOW_ERROR;
    }
    s->total += n;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(s->total >> 8 * i);
    memcpy(call->out, bytes, sizeof bytes);
    call->out_len = sizeof bytes;
    return VFUN_DRIVER_OK;
}

void vfun_driver_exit(void *state)
{
    free(state);
}
