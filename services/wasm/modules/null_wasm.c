/* The vFunction `null_wasm`: nothing, to measure what a call costs. */
#include "vfun_driver.h"

const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "null_wasm",
    .version_major = 1,
    .max_args = 48,
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

int vfun_driver_function(void *state, struct vfun_call *call)
{
    (void)state;
    (void)call;
    return VFUN_DRIVER_OK;
}
