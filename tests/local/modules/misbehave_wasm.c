/* Does wrong what its first argument byte says; for tests only. */
#include "vfun_driver.h"

const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI,
    .name = "misbehave_wasm",
    .version_major = 1,
    .max_args = 4096,
    .max_result = 4096,
};

static uint32_t calls;

static uint64_t deep(uint64_t n)
{
    if (n == ~0ull)
        return 0;
    uint64_t rest = deep(n + 1);
    /* Nothing that a loop could do. */
    __asm__ volatile("" : "+r"(rest));
    return n + rest;
}

int vfun_driver_function(void *state, struct vfun_call *call)
{
    (void)state;
    if (call->command != VFUN_COMMAND_SET || call->args_len == 0)
        return VFUN_DRIVER_BAD_ARGS;
    const uint8_t *args = call->args;
    calls++;
    switch (args[0]) {
    case 0: /* what follows, back */
        __builtin_memcpy(call->out, args + 1, call->args_len - 1);
        call->out_len = call->args_len - 1;
        return VFUN_DRIVER_OK;
    case 1:
        __builtin_trap();
    case 2:
        for (;;)
            __asm__ volatile("");
    case 3: /* all the memory that there is: how many pages */
        while (__builtin_wasm_memory_grow(0, 1) != (unsigned long)-1)
            ;
        *(uint32_t *)call->out = __builtin_wasm_memory_size(0);
        call->out_len = 4;
        return VFUN_DRIVER_OK;
    case 4:
        *(uint64_t *)call->out = deep(0);
        return VFUN_DRIVER_OK;
    case 5: /* memory that is not there */
        return *(volatile int *)0xfffffff0;
    case 6: /* how many calls this instance has had */
        *(uint32_t *)call->out = calls;
        call->out_len = 4;
        return VFUN_DRIVER_OK;
    case 7: /* more than fits */
        call->out_len = ~0ull;
        return VFUN_DRIVER_OK;
    case 8:
        __builtin_memcpy(call->sentence, "the module was told to fail", 28);
        return 42;
    }
    return VFUN_DRIVER_BAD_ARGS;
}
