/* What the header beside it includes. */
#ifndef SHAPES_BASE_H
#define SHAPES_BASE_H

typedef unsigned long dma_size;
#define DMA_BASE_LIMIT 0x10
#define DMA_STEP (DMA_BASE_LIMIT << 1)

#endif
