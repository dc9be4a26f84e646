/*
 * gdma: moves data between the nodes of a global address space by a DMA engine.
 *
 * Each node has a pool of memory. A program allocates buffers in the pools,
 * starts transfers between two buffers, of which one is on the program's own
 * node, and is told when they end: by a function of its own, or when it asks.
 *
 * The objects are nodes, buffers and transfers. Each has an identifier, which
 * programs may tell one another; the library gives the object of an identifier
 * and the identifier of an object. A handle (gdma_context *, gdma_node *,
 * gdma_buffer *, gdma_transfer *) is no address: never look behind it. One that
 * was given back, or never was one, gives GDMA_ERR_ARGUMENT.
 *
 * Every function may be called by any thread at any time. None waits for a
 * transfer but gdma_exit. A failed call changes nothing, and writes nothing
 * through its pointers.
 *
 * The environment: GDMA_POOL_BYTES is the size of each node's pool (default
 * 67108864; a multiple of 4096), GDMA_NODE the number of the program's node (1
 * to 4; default 1).
 *
 * A process that has a context must not fork and go on to use it in the child.
 */
#ifndef GDMA_H
#define GDMA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface, for gdma_init. */
#define GDMA_VERSION 1

/* What functions return, and how transfers end. */
#define GDMA_OK 0
/* Not finished yet, or still in use. */
#define GDMA_BUSY 1
/* A handle or an argument is wrong. */
#define GDMA_ERR_ARGUMENT (-1)
/* The node's pool has no room for the buffer in one piece. */
#define GDMA_ERR_MEMORY (-2)
/* More, or larger, than gdma_device_info says. */
#define GDMA_ERR_LIMIT (-3)
/* There is no such node, or neither end is on the local node. */
#define GDMA_ERR_NODE (-4)
/* Beyond the end of a buffer, or the two ends overlap. */
#define GDMA_ERR_RANGE (-5)
/* The engine reported an error. */
#define GDMA_ERR_DEVICE (-6)
/* The engine or its service is gone, or the context is being closed. */
#define GDMA_ERR_LOST (-7)
/* This library does not have it: another version, or no engine. */
#define GDMA_ERR_UNSUPPORTED (-8)

typedef struct gdma_context gdma_context;
typedef struct gdma_node gdma_node;
typedef struct gdma_buffer gdma_buffer;
typedef struct gdma_transfer gdma_transfer;

/* An object's identifier. Never 0. Objects of different kinds may have the same. */
typedef uint32_t gdma_id;

/* What gdma_device_info says. */
struct gdma_info {
    /* What the device is, in words, with a zero byte at the end. */
    char name[64];
    /* GDMA_VERSION of the library. */
    uint32_t version;
    /* Nodes of the address space; their identifiers are 1 to this number. */
    uint32_t nodes;
    /* The program's own node. */
    gdma_id local;
    /* 1: the device is simulated; 0: it is hardware. */
    uint32_t simulated;
    /* What the addresses of buffers are a multiple of. Transfers may begin and end at any byte. */
    uint32_t alignment;
    /* Most buffers at once, of all nodes together. */
    uint32_t buffers;
    /* Most transfers at once: under way, or ended and not released. */
    uint32_t transfers;
    /* 0. */
    uint32_t reserved;
    /* Bytes of the local node's pool. */
    uint64_t pool_bytes;
    /* Most bytes of a transfer, and of a buffer. */
    uint64_t longest;
};

/* What gdma_transfer_query says. */
struct gdma_progress {
    /* GDMA_BUSY while the transfer is under way; then how it ended. */
    int32_t status;
    /* 0. */
    uint32_t reserved;
    /* Bytes that were moved up to now. */
    uint64_t moved;
    /* Clock cycles that the engine took for it up to now. */
    uint64_t cycles;
};

/*
 * Called once when a transfer has ended, with how it ended; gdma_transfer_query
 * says the same by then. It runs on a thread of the library, one call at a time,
 * in the order in which the transfers ended: let it be short, because other
 * transfers may wait for it. It may call every function but gdma_exit and
 * gdma_abort.
 */
typedef void (*gdma_done)(gdma_context *context, gdma_id transfer, int status, void *user);

/*
 * Opens the library. `version` is GDMA_VERSION of the header that the program
 * was compiled with.
 */
int gdma_init(uint32_t version, gdma_context **context);

/*
 * Waits until the transfers under way have ended and their functions have been
 * called; then gives back everything: no buffer's memory may be touched any
 * more. GDMA_BUSY if a transfer's function calls it, of any context.
 */
int gdma_exit(gdma_context *context);

/*
 * The same without waiting for transfers: those under way end with
 * GDMA_ERR_LOST, whatever they have moved by then, and their functions are
 * called with that. Nothing is moved any more when it returns. GDMA_BUSY if a
 * transfer's function calls it, of any context.
 */
int gdma_abort(gdma_context *context);

/* What a status means, in words. Never NULL. */
const char *gdma_status_text(int status);

int gdma_device_info(gdma_context *context, struct gdma_info *info);

int gdma_node_count(gdma_context *context, uint32_t *count);
int gdma_node_local(gdma_context *context, gdma_node **node);
int gdma_node_by_id(gdma_context *context, gdma_id id, gdma_node **node);
int gdma_node_id(gdma_node *node, gdma_id *id);

/*
 * Allocates `bytes` bytes in one piece in the node's pool, and registers them
 * with the engines of all nodes. What is in them is not defined.
 */
int gdma_buffer_alloc(gdma_node *node, uint64_t bytes, gdma_buffer **buffer);

/* Gives the buffer back. GDMA_BUSY while a transfer uses it. */
int gdma_buffer_free(gdma_buffer *buffer);

/*
 * Where the buffer's bytes are in this process, until it is given back, and how
 * many. GDMA_ERR_NODE if it is not on the local node.
 */
int gdma_buffer_map(gdma_buffer *buffer, void **address, uint64_t *bytes);

int gdma_buffer_id(gdma_buffer *buffer, gdma_id *id);
int gdma_buffer_by_id(gdma_context *context, gdma_id id, gdma_buffer **buffer);

/*
 * Starts to move `bytes` bytes (0 is allowed) and returns at once. At least one
 * buffer is on the local node. Transfers of a context end in the order in which
 * they were started. `done` may be NULL. It may be called before this function
 * returns.
 *
 * What the program wrote into a local buffer before is moved; what arrived in
 * one can be read once the transfer has ended. Bytes that are changed meanwhile
 * arrive old or new.
 */
int gdma_transfer_start(gdma_buffer *to, uint64_t to_offset, gdma_buffer *from, uint64_t from_offset,
                        uint64_t bytes, gdma_done done, void *user, gdma_transfer **transfer);

int gdma_transfer_id(gdma_transfer *transfer, gdma_id *id);
int gdma_transfer_by_id(gdma_context *context, gdma_id id, gdma_transfer **transfer);

/*
 * How far the transfer is. A program may ask as often as it likes; each time it
 * lends its processor to the simulated engine for some microseconds.
 */
int gdma_transfer_query(gdma_transfer *transfer, struct gdma_progress *progress);

/* Forgets a transfer that has ended. GDMA_BUSY while it is under way. */
int gdma_transfer_release(gdma_transfer *transfer);

/*
 * The local node's pool is this memory from now on, until gdma_exit: `base` and
 * `bytes` are multiples of 4096. GDMA_BUSY while the local node has buffers.
 */
int gdma_pool_use(gdma_context *context, void *base, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
