/* The vFunction `factorial_wasm`: what functions/factorial computes, for
 * comparison. Arguments: n and repetitions, each a little-endian u64. Result:
 * n! modulo 2^64, a little-endian u64. 0 repetitions count as 1. */
#include "vfun_driver.h"

const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "factorial_wasm",
    .version_major = 1,
    .max_args = 16,
    .max_result = 8,
};

int vfun_driver_init(const struct vfun_driver_config *config, void **state)
{
    (void)config;
    (void)state;
    return VFUN_DRIVER_OK;
}

void vfun_driver_exit(void *state)
{
    (void)state;
}

static uint64_t once(uint64_t n)
{
    uint64_t product = 1;
/* Four products side by side, as natively. Pairs of them (what -msimd128 makes
 * of it by itself) take up to 4 times as long where the processor has no fast product
 * of two 64-bit numbers at once: AVX-512's takes 15 cycles on Intel's, one
 * number's takes 3. */
#pragma clang loop vectorize_width(1) interleave_count(4)
    for (uint64_t k = 2; k <= n; k++)
        product *= k;
    return product;
}

int vfun_driver_function(void *state, struct vfun_call *call)
{
    (void)state;
    if (call->command == VFUN_COMMAND_RST)
        return VFUN_DRIVER_OK;
    if (call->args_len != 16)
        return VFUN_DRIVER_BAD_ARGS;
    const uint64_t *args = call->args;
    uint64_t repetitions = args[1] ? args[1] : 1;
    /* Volatile: every repetition is computed. */
    volatile uint64_t n = args[0], product = 1;
    while (repetitions--)
        product = once(n);
    *(uint64_t *)call->out = product;
    call->out_len = 8;
    return VFUN_DRIVER_OK;
}
