/* The local node's pool is memory of the program's. */
#include "check.h"

#include <sys/mman.h>

#define BYTES ((uint64_t)1 << 20)

int main(void) {
    gdma_context *context;
    gdma_node *here, *there;
    gdma_buffer *a, *b, *c;
    gdma_transfer *t;
    struct gdma_info info;
    uint64_t bytes;
    void *address;
    unsigned char *memory = mmap(NULL, BYTES + 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRUE(memory != MAP_FAILED);
    memset(memory, 0x55, BYTES + 8192);

    OK(gdma_init(GDMA_VERSION, &context));
    OK(gdma_node_local(context, &here));
    OK(gdma_node_by_id(context, 4, &there));
    OK(gdma_buffer_alloc(here, 1, &a));
    IS(GDMA_BUSY, gdma_pool_use(context, memory + 4096, BYTES));
    OK(gdma_buffer_free(a));
    IS(GDMA_ERR_ARGUMENT, gdma_pool_use(context, NULL, BYTES));
    IS(GDMA_ERR_ARGUMENT, gdma_pool_use(context, memory + 64, BYTES));
    IS(GDMA_ERR_ARGUMENT, gdma_pool_use(context, memory + 4096, 0));
    IS(GDMA_ERR_ARGUMENT, gdma_pool_use(context, memory + 4096, BYTES - 1));
    OK(gdma_pool_use(context, memory + 4096, BYTES));
    OK(gdma_device_info(context, &info));
    TRUE(info.pool_bytes == BYTES);

    OK(gdma_buffer_alloc(here, 5000, &a));
    OK(gdma_buffer_alloc(here, BYTES - 8192, &b));
    IS(GDMA_ERR_MEMORY, gdma_buffer_alloc(here, 1, &c));
    OK(gdma_buffer_alloc(there, BYTES, &c));
    OK(gdma_buffer_map(a, &address, &bytes));
    TRUE(address == memory + 4096 && bytes == 5000);
    OK(gdma_buffer_map(b, &address, &bytes));
    TRUE(address == memory + 3 * 4096);
    for (int i = 0; i < 5000; i++) memory[4096 + i] = (unsigned char)(i * 7);
    OK(gdma_transfer_start(c, 77, a, 0, 5000, NULL, NULL, &t));
    OK(gdma_transfer_start(b, BYTES - 8192 - 5000, c, 77, 5000, NULL, NULL, &t));
    OK(ended(t));
    TRUE(memcmp(memory + 4096 + BYTES - 5000, memory + 4096, 5000) == 0);
    for (uint64_t i = 0; i < 4096; i++) TRUE(memory[i] == 0x55 && memory[4096 + BYTES + i] == 0x55);
    TRUE(memory[4096 + BYTES - 5001] == 0x55);
    OK(gdma_exit(context));
    TRUE(memory[4096] == 0 && memory[4097] == 7); /* still the program's */
    OK(munmap(memory, BYTES + 8192));
    return 0;
}
