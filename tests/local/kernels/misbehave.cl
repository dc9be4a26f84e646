// Does on purpose what a kernel may do by mistake.

// 0: adds one to each number. 1: writes to address zero. 2: never ends.
__kernel void misbehave_cl(const uint how, __global const uint *in, __global uint *out)
{
    const size_t i = get_global_id(0);

    if (how == 1) {
        *(__global volatile uint *)(ulong)(how - 1) = 1;
        return;
    }
    if (how == 2) {
        volatile uint for_ever = how;
        while (for_ever)
            ;
    }
    out[i] = in[i] + 1;
}
