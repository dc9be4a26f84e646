/* All shapes of C that the reader of headers knows. */
#ifndef SHAPES_H
#define SHAPES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "shapes_base.h"

#define DMA_VERSION 3
#define DMA_HEX 0x7fUL
#define DMA_NEGATIVE (-7)
#define DMA_ALL ((unsigned long) -1)
#define DMA_NAME "dma"
#define DMA_RATIO 2.5
#define DMA_ALIAS DMA_OUT
#define DMA_TYPE dma_id
#define DMA_CALL
#define DMA_DOUBLE(x) (2 * (x))
#define DMA_GONE 9
#undef DMA_GONE

enum { DMA_OK = 0, DMA_BUSY = 16, DMA_NEXT };
enum dma_level { DMA_LOW = -1, DMA_HIGH };
typedef enum dma_direction_tag { DMA_IN = 1u, DMA_OUT = 0x80000000u } dma_direction;
typedef enum { DMA_COLD, DMA_WARM } dma_state;

typedef struct dma_context dma_context;
typedef struct dma_buffer_tag *dma_buffer;
typedef uint32_t dma_id;
typedef dma_id dma_channel;
typedef const char *dma_text;
typedef void (*dma_done)(dma_context *, dma_id, int, void *);
typedef struct dma_context *dma_handle;
typedef int dma_filter(const void *, dma_size);

typedef struct dma_point_tag {
    int32_t x;
    int32_t y;
} dma_point;
typedef const dma_point dma_origin;
typedef const dma_id dma_fixed_id;

typedef struct {
    dma_channel channel;
    char label[16];
    dma_point corners[2][3];
    union {
        dma_buffer buffer;
        dma_buffer object;
    };
    struct dma_list *list;
} dma_info;

struct dma_list {
    struct dma_list *next;
    dma_done done;
};

struct dma_hidden {
    double value;
};

int DMA_CALL dma_init(uint32_t version, dma_context **out);
void dma_close(dma_context *context);
dma_size dma_read(dma_context *, dma_channel, void *restrict, size_t);
int dma_start(dma_buffer buffer, const dma_info *info, dma_done done, void *user);
dma_direction dma_turn(enum dma_level level, dma_state state, volatile float *speed);
dma_text dma_name(const dma_text *names, const dma_buffer *const buffers, int count[4]);
dma_filter *dma_choose(dma_filter *old, int (**more)(void), dma_point by_value);
unsigned char dma_numbers(char, signed char, short, unsigned short, long, long long,
                          unsigned long long, double, _Bool, intptr_t);
void dma_constants(dma_origin *origin, dma_fixed_id *ids);
int dma_no_prototype();
static inline int dma_inline(void) { return 1; }
int other_call(void);

#endif
