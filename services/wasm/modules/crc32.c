/* The vFunction `crc32`: the checksum of IEEE 802.3, gzip and PNG.
 * Arguments: bytes. Result: their checksum, a little-endian u32. */
#include "vfun_driver.h"

const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "crc32",
    .version_major = 1,
    .max_args = 1 << 20,
    .max_result = 4,
};

/* The same for every channel, so that it may be made by each. */
static uint32_t table[256];

int vfun_driver_init(const struct vfun_driver_config *config, void **state)
{
    (void)config;
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    return VFUN_DRIVER_OK;
}

void vfun_driver_exit(void *state)
{
    (void)state;
}

int vfun_driver_function(void *state, struct vfun_call *call)
{
    (void)state;
    if (call->command == VFUN_COMMAND_RST)
        return VFUN_DRIVER_OK;
    const uint8_t *byte = call->args;
    uint32_t c = ~0u;
    for (uint64_t i = 0; i < call->args_len; i++)
        c = table[(c ^ byte[i]) & 0xff] ^ c >> 8;
    *(uint32_t *)call->out = ~c;
    call->out_len = 4;
    return VFUN_DRIVER_OK;
}
