// A two-dimensional convolution as neural networks mean it (the filter is not
// turned round), of single precision, where the filter lies wholly inside:
//   out[y][x] = sum over i, j of image[y + i][x + j] * filter[i][j]
// with (height - rows + 1) x (width - columns + 1) elements. Each work-item
// computes one of them, in the order of the filter.

__kernel void conv2d(const uint height, const uint width, const uint rows, const uint columns,
                     __global const float *image, __global const float *filter,
                     __global float *out)
{
    const uint x = get_global_id(0), y = get_global_id(1);
    const uint out_width = width - columns + 1;
    float sum = 0.0f;

    if (x >= out_width || y > height - rows)
        return;
    for (uint i = 0; i < rows; i++) {
        __global const float *line = image + (size_t)(y + i) * width + x;
        for (uint j = 0; j < columns; j++)
            sum += line[j] * filter[i * columns + j];
    }
    out[(size_t)y * out_width + x] = sum;
}
