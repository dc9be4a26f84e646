// The product of two matrices of single precision, row by row in memory:
// c (m x n) = a (m x k) times b (k x n).
//
// A work-group computes a square of SIDE x SIDE elements of c. It goes along k
// in steps of SIDE: each work-item brings one element of a and one of b into
// local memory, then all of them use all of these. Each element is summed in
// the order of k, in single precision.

#define SIDE 16

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void matmul_f32(const uint m, const uint n, const uint k,
                __global const float *a, __global const float *b, __global float *c)
{
    __local float at[SIDE][SIDE], bt[SIDE][SIDE];
    const uint x = get_local_id(0), y = get_local_id(1);
    const uint column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;

    for (uint from = 0; from < k; from += SIDE) {
        // What lies outside is zero, and adds nothing.
        at[y][x] = row < m && from + x < k ? a[(size_t)row * k + from + x] : 0.0f;
        bt[y][x] = from + y < k && column < n ? b[(size_t)(from + y) * n + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < SIDE; i++)
            sum += at[y][i] * bt[i][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n)
        c[(size_t)row * n + column] = sum;
}
