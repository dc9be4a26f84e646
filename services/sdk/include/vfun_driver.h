/* The driver interface of VirtFun, version 3: what a shared library must
 * export to stand behind a vFunction.
 *
 * A driver is a shared library with four symbols:
 *
 *     vfun_driver_info      constant data: name, version, limits
 *     vfun_driver_init      once for each channel, before its first call
 *     vfun_driver_function  one call
 *     vfun_driver_exit      once for each channel, after its last call
 *
 * and `rst`, which is not a symbol but a command that vfun_driver_function
 * gets (see struct vfun_call).
 *
 * Threads: each channel has a thread and a state of its own. init, function
 * and exit of one channel run on that one thread, one after the other; those
 * of different channels run at the same time. So what hangs on the state needs
 * no lock; what is static or global in the library does.
 *
 * Memory: everything that these functions are handed belongs to the service
 * and may be used until the function returns, not longer. Keep a copy of what
 * must live on. The handle of an open call, config->service and buffers are the
 * exceptions; their comments say how long they last.
 *
 * A call may be answered later, from any thread: see vfun_driver_later.
 *
 * A driver may crash or hang: it takes only its own service down, which serves
 * one client and one function. The calls under way end with an error that says
 * so. It must not call exit().
 *
 * docs/drivers.md is the guide; services/template has one to copy.
 */
#ifndef VFUN_DRIVER_H
#define VFUN_DRIVER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Each version only adds to the one before, so a
 * service loads drivers of its own version and of all earlier ones. Version 2
 * added calls that are answered later, version 3 buffers, version 4 tables of
 * pages. */
#define VFUN_DRIVER_ABI 4u

/* Longest name, without the terminating zero. */
#define VFUN_DRIVER_NAME_BYTES 63u

/* Results up to this many bytes travel in the cell's own line. */
#define VFUN_DRIVER_INLINE_BYTES 48u

/* Commands of a call. */
#define VFUN_COMMAND_SET 1u /* compute */
#define VFUN_COMMAND_RST 3u /* forget what this channel's state keeps; no arguments, no results */

/* Flags of a call. */
#define VFUN_CALL_SHARED_ARGS 1u /* the caller can change the arguments while you read them: read each byte once */

/* Return values of vfun_driver_init and vfun_driver_function: 0 is success,
 * positive numbers are the driver's own, negative ones have these meanings. */
#define VFUN_DRIVER_OK 0
#define VFUN_DRIVER_PANIC (-1)            /* the driver caught itself in a bug (the Rust SDK: a panic) */
#define VFUN_DRIVER_RESULT_TOO_LARGE (-2) /* the results do not fit out_capacity */
#define VFUN_DRIVER_BAD_ARGS (-3)         /* the arguments make no sense */
#define VFUN_DRIVER_DEVICE_LOST (-4)      /* the device is gone and the call did nothing: a leased grant's is run in software instead */
#define VFUN_DRIVER_LATER (-5)            /* of vfun_driver_function only: the call is answered later; see vfun_driver_later */

/* Flags of vfun_driver_later. */
#define VFUN_LATER_EVENT 1u /* the call waits for an event, and nothing was done for it yet */

/* What vfun_driver_answer and vfun_driver_fail return. */
#define VFUN_ANSWERED 0  /* the answer is on its way */
#define VFUN_CANCELLED 1 /* the call had ended before: the answer goes nowhere */

/* What the driver is. Constant; read before anything else is called. */
struct vfun_driver_info {
    uint32_t abi;           /* VFUN_DRIVER_ABI */
    uint32_t flags;         /* 0 */
    char name[VFUN_DRIVER_NAME_BYTES + 1]; /* the function's name, zero-terminated; the manifest must say the same */
    uint16_t version_major; /* the function's version; the manifest must say the same */
    uint16_t version_minor;
    uint32_t max_args;      /* longest arguments, bytes; longer ones are refused before they reach the driver */
    uint32_t max_result;    /* longest results, bytes; see out in struct vfun_call */
    uint32_t reserved[3];   /* 0 */
};

/* One of the manifest's [settings]. */
struct vfun_driver_setting {
    const char *key;
    const char *value;
};

/* What vfun_driver_init is told of its channel. Strings are UTF-8, zero-terminated. */
struct vfun_driver_config {
    uint32_t abi;           /* VFUN_DRIVER_ABI */
    uint32_t depth;         /* cells of the channel */
    uint64_t channel;       /* the channel's handle, for logs */
    const char *client;     /* the tenant */
    const char *app;        /* its application */
    const char *function;   /* the function's name */
    uint16_t version_major; /* the function's version */
    uint16_t version_minor;
    uint32_t cell_bytes;    /* data space of a cell on each side, bytes; 0 where all goes in line */
    const struct vfun_driver_setting *settings; /* sorted by key */
    uint64_t settings_count;
    char *sentence;             /* on failure: write why, for people, zero-terminated */
    uint64_t sentence_capacity; /* bytes there, the terminating zero included; at least 64 */
    const struct vfun_driver_service *service; /* since version 2; good until vfun_driver_exit returns. NULL where no call can be answered later (WebAssembly) */
};

/* The handle of a call that is answered later. Good from vfun_driver_later
 * until it is answered, whatever becomes of the call, its channel and its
 * state meanwhile. Its members are the service's. */
struct vfun_open_call {
    const struct vfun_driver_service *service;
};

/* A table of pages that the kernel module of the caller's VM wrote, for reading
 * alone, and the VM's memory, as its file has it; both in whole pages, len in bytes. */
struct vfun_pages_place {
    const void *table;
    uint64_t table_len;
    void *vm;
    uint64_t vm_len;
};

/* Call these by the functions at the end of this file. */
struct vfun_driver_service {
    struct vfun_open_call *(*later)(const struct vfun_driver_service *service, uint32_t flags);
    int (*answer)(struct vfun_open_call *call, int code, const void *bytes, uint64_t len);
    int (*is_open)(const struct vfun_open_call *call);
    int (*buffer)(const struct vfun_driver_service *service, uint64_t handle, void **bytes, uint64_t *len); /* since version 3 */
    int (*pages)(const struct vfun_driver_service *service, uint64_t handle, struct vfun_pages_place *place); /* since version 4 */
};

/* One call. The service fills it; the driver writes out_len, the results and,
 * on failure, the sentence. */
struct vfun_call {
    uint32_t command;       /* VFUN_COMMAND_SET or VFUN_COMMAND_RST; answer others with VFUN_DRIVER_BAD_ARGS */
    uint32_t flags;         /* VFUN_CALL_SHARED_ARGS or 0 */

    /* The arguments; 64-byte aligned where they are in the cell's data space.
     * Up to 48 bytes are a private copy. Longer ones are read in place, with no
     * copy, in memory that the caller - a hostile one, perhaps - may change at
     * any moment (VFUN_CALL_SHARED_ARGS is set). Then read each byte ONCE, into
     * your own memory; check the copy; use the copy. Never write here: the
     * pages are read-only and the service would crash. */
    const void *args;
    uint64_t args_len;      /* bytes; at most max_args */

    /* Where the results go. If info.max_result is at most 48 this is a private
     * buffer; else it is the cell's data space, in place. Treat it as write-only. */
    void *out;
    uint64_t out_capacity;  /* bytes; at least 48, and else what the app asked for (cell_bytes) */
    uint64_t out_len;       /* set this; 0 when the call begins. More than out_capacity: the caller gets "results too large" */

    char *sentence;             /* on failure: write why, for people, zero-terminated */
    uint64_t sentence_capacity; /* bytes there, the terminating zero included; at least 64 */
};

extern const struct vfun_driver_info vfun_driver_info;

/* A channel opens. *state is yours: what you put there comes back in each call.
 * Returns 0, or an error: then the channel does not open and exit is not called. */
int vfun_driver_init(const struct vfun_driver_config *config, void **state);

/* One call: compute call->args into call->out and set call->out_len.
 * Returns 0, or an error of yours; the caller gets its number and sentence.
 * Or VFUN_DRIVER_LATER, after vfun_driver_later gave a handle. */
int vfun_driver_function(void *state, struct vfun_call *call);

/* The channel closes: free the state. Not called when the service is killed. */
void vfun_driver_exit(void *state);

/* Within vfun_driver_function only: takes a handle of the call under way, by
 * which it is answered later. Return VFUN_DRIVER_LATER then; if another value is
 * returned, that is the answer, and the handle's goes nowhere. A second handle
 * of the same call replaces the first. NULL: this service answers no call later.
 *
 * flags 0: the call was begun. Its deadline goes on, counted from now; past it
 * the caller gets "deadline", and the service goes on. If the service dies, the
 * caller gets "service lost". A channel moves to another service only once such
 * calls are answered.
 * VFUN_LATER_EVENT: nothing was done for the call, it waits for something to
 * happen. No deadline holds; it stays open as long as its grant. If the service
 * dies, or the channel moves, the next service's driver gets it as a new call. */
static inline struct vfun_open_call *vfun_driver_later(const struct vfun_driver_service *service, uint32_t flags)
{
    return service ? service->later(service, flags) : (struct vfun_open_call *)0;
}

/* Answers an open call with len bytes of results, which are copied. From any
 * thread, at any time, once: the handle is gone afterwards. Results longer than
 * out_capacity was: the caller gets "results too large".
 * Returns VFUN_ANSWERED or VFUN_CANCELLED. */
static inline int vfun_driver_answer(struct vfun_open_call *call, const void *results, uint64_t len)
{
    return call->service->answer(call, VFUN_DRIVER_OK, results, len);
}

/* The same with an error: what vfun_driver_function would return, and a
 * sentence for people (or NULL). */
static inline int vfun_driver_fail(struct vfun_open_call *call, int code, const char *sentence)
{
    uint64_t len = 0;
    while (sentence && sentence[len])
        len++;
    return call->service->answer(call, code ? code : VFUN_DRIVER_PANIC, sentence, len);
}

/* Within vfun_driver_function only: where a buffer of the app that makes this call
 * lies, and how many bytes it has (whole pages). The app passes the handle in its
 * arguments. Of another app, or of none: VFUN_DRIVER_BAD_ARGS. One that is not mapped
 * here, or whose memory is gone: VFUN_DRIVER_PANIC. *bytes and *len are left as they
 * are then; return the code, and the caller is told.
 *
 * App and driver both write these bytes, at any moment: what you checked may be
 * another byte when you read it again. So read each byte ONCE into your own memory,
 * check the copy, use the copy; or hand the memory to a device, which trusts nothing
 * in it. Nothing that you write there is safe from the app.
 *
 * The memory is good until vfun_driver_function returns; if a handle was taken by
 * vfun_driver_later in this call, until that is answered. */
static inline int vfun_driver_buffer(const struct vfun_driver_service *service, uint64_t handle, void **bytes, uint64_t *len)
{
    return service ? service->buffer(service, handle, bytes, len) : VFUN_DRIVER_BAD_ARGS;
}

/* The same for a table of pages (docs/protocol.md, section 9). Buffers and tables
 * are apart: neither is found as the other. The VM writes its memory at any moment. */
static inline int vfun_driver_pages(const struct vfun_driver_service *service, uint64_t handle, struct vfun_pages_place *place)
{
    return service ? service->pages(service, handle, place) : VFUN_DRIVER_BAD_ARGS;
}

/* Whether an answer can still reach the caller: 0 once the call was cancelled,
 * by its deadline, its release or the end of its channel. Answer it all the
 * same: that frees the handle. */
static inline int vfun_driver_is_open(const struct vfun_open_call *call)
{
    return call->service->is_open(call);
}

#ifdef __cplusplus
}
#endif

#endif /* VFUN_DRIVER_H */
