/*
 * The control calls of a software NIC: what a front end for verbs asks the NIC
 * of its host. Work and completions are no calls: they go through queues in the
 * window (docs/verbs-protocol.md).
 *
 * Each function returns 0, or a number of errno.h, which is positive. A call
 * that fails changes nothing, and writes nothing through its pointers. Any
 * thread may call any function at any time. None waits for a program.
 *
 * All numbers of verbs (states, masks, access flags, kinds of queue pairs and of
 * events) are those of infiniband/verbs.h. A handle (vfun_nic_pd * and so on) is
 * no address: never look behind it.
 *
 * WHERE QUEUES LIE. A program opens a channel of queues first. It has two sides:
 * the program writes one, the NIC the other. Each has the channel's head page,
 * then a page of doorbells. The NIC gives out parts of the rest of both, and
 * answers where they are: bytes from the beginning of each side, whole pages.
 * Who gets such an answer checks that the part lies inside its side, and that its
 * length is the one that follows from the queue's shape.
 *
 * The NIC sets its own part of a new queue to zero before it answers. The
 * program sets its own part to zero when it has the answer, before it uses the
 * queue and before it moves a queue pair that uses it out of the state RESET.
 */
#ifndef VFUN_NIC_H
#define VFUN_NIC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface, for vfun_nic_open. */
#define VFUN_NIC_VERSION 1

/* What functions return, besides other numbers of errno.h. */
#define VFUN_NIC_OK 0
/* EIO: the NIC is gone, or the context's channel of queues is. */
#define VFUN_NIC_LOST 5
/* ENOMEM: more than a limit allows, or the channel of queues has no room. */
#define VFUN_NIC_LIMIT 12
/* EBUSY: something still uses it. */
#define VFUN_NIC_BUSY 16
/* ENODEV: no host offers a NIC. */
#define VFUN_NIC_NONE 19
/* EINVAL: there is no such object, or it makes no sense. */
#define VFUN_NIC_INVALID 22
/* EPROTO: the two halves of this interface do not understand each other. */
#define VFUN_NIC_PROTOCOL 71
/* EOPNOTSUPP: this NIC does not offer it. */
#define VFUN_NIC_UNSUPPORTED 95

typedef struct vfun_nic_context vfun_nic_context;
typedef struct vfun_nic_pd vfun_nic_pd;
typedef struct vfun_nic_mr vfun_nic_mr;
typedef struct vfun_nic_cq vfun_nic_cq;
typedef struct vfun_nic_srq vfun_nic_srq;
typedef struct vfun_nic_qp vfun_nic_qp;
typedef struct vfun_nic_ah vfun_nic_ah;
typedef struct vfun_nic_cm vfun_nic_cm;

/* ---- The device ------------------------------------------------------- */

/* Where the pages of doorbells are, and how long the two sides are, bytes. */
struct vfun_nic_opened {
    uint64_t program_bells;
    uint64_t nic_bells;
    uint64_t program_bytes;
    uint64_t nic_bytes;
};

/*
 * Opens the NIC. `version` is VFUN_NIC_VERSION of the caller's header. `channel`
 * is the handle of the context's channel of queues, and the token is what stands
 * in the head page of its program's side: only its program can write there. A
 * channel is used by one context, and never by another one after it.
 */
int32_t vfun_nic_open(uint32_t version, uint64_t channel, uint64_t token_low,
                      uint64_t token_high, struct vfun_nic_opened *opened,
                      vfun_nic_context **context);

/* Ends the context and all that it has. */
int32_t vfun_nic_close(vfun_nic_context *context);

/* Limits. Those of one program are smaller than those of the tenant's NIC. */
struct vfun_nic_info {
    /* The NIC's number, the same for all of its programs. */
    uint64_t guid;
    /* Longest region of memory, and longest message, bytes. */
    uint64_t region_bytes;
    uint64_t message_bytes;
    uint32_t version;
    uint32_t qps;
    /* Most entries of a queue of sends or receives. All depths are powers of two. */
    uint32_t work_depth;
    uint32_t sges;
    uint32_t inline_bytes;
    uint32_t cqs;
    uint32_t cq_depth;
    uint32_t mrs;
    uint32_t pds;
    uint32_t srqs;
    uint32_t ahs;
    /* Reads and atomics that a queue pair may have under way. */
    uint32_t reads;
    /* Access flags that are offered. */
    uint32_t access;
    /* 0. */
    uint32_t reserved;
};

int32_t vfun_nic_info(vfun_nic_context *context, struct vfun_nic_info *info);

/* What ibv_query_port says of port 1, the only one. */
struct vfun_nic_port {
    uint32_t state;
    uint32_t physical_state;
    uint32_t max_mtu;
    uint32_t active_mtu;
    uint32_t gids;
    uint32_t pkeys;
    uint32_t capabilities;
    uint32_t max_message_bytes;
    uint32_t link_layer;
    uint32_t active_width;
    uint32_t active_speed;
    uint16_t lid;
    uint16_t sm_lid;
    uint16_t pkey;
    uint16_t reserved;
};

int32_t vfun_nic_port(vfun_nic_context *context, struct vfun_nic_port *port);

struct vfun_nic_gid {
    uint8_t raw[16];
};

/* Entry `index` of the port's table of addresses. */
int32_t vfun_nic_gid(vfun_nic_context *context, uint32_t index, struct vfun_nic_gid *gid);

/* ---- Protection domains and memory ------------------------------------- */

int32_t vfun_nic_pd_make(vfun_nic_context *context, vfun_nic_pd **pd);
/* VFUN_NIC_BUSY while it has anything. */
int32_t vfun_nic_pd_end(vfun_nic_pd *pd);

/*
 * A run of pages, 24 bytes: `pages` pages of a buffer of the window, from page
 * `page` of the buffer on. `buffer` is the handle by which the program lent the
 * buffer. Pages have 4096 bytes.
 */
struct vfun_nic_run {
    uint64_t buffer;
    uint64_t page;
    uint64_t pages;
};
#define VFUN_NIC_RUN_BYTES 24
/* Most runs that one call takes. */
#define VFUN_NIC_RUNS_OF_CALL 128

/*
 * Registers `length` bytes at address `iova`, with rights `access`. They lie in
 * the runs, one behind the other. The place of `iova` in its page is the place of
 * the first byte in the first page. `runs` are whole structs, in `run_bytes`
 * bytes.
 *
 * `key` is the region's local and remote key, and is never 0 then. If the runs
 * have fewer pages than the region needs, `key` is 0: vfun_nic_mr_add adds more,
 * and gives the key with the last of them. Only then has the region been
 * registered. A run of a buffer that the program has not lent is
 * VFUN_NIC_INVALID. A buffer is in use, and cannot be taken back, until the last
 * region that has pages of it has ended.
 */
int32_t vfun_nic_mr_make(vfun_nic_pd *pd, uint64_t iova, uint64_t length, uint32_t access,
                         const uint8_t *runs, uint64_t run_bytes, vfun_nic_mr **mr,
                         uint32_t *key);

/* More runs of a region that has no key yet. A failure adds none of them. */
int32_t vfun_nic_mr_add(vfun_nic_mr *mr, const uint8_t *runs, uint64_t run_bytes, uint32_t *key);

/* Ends a region, with or without a key. Nobody touches its memory any more after it. */
int32_t vfun_nic_mr_end(vfun_nic_mr *mr);

/* ---- Queues ------------------------------------------------------------- */

/* Where a queue's parts are in the two sides, and how long they are, bytes. */
struct vfun_nic_place {
    uint64_t program_at;
    uint64_t program_bytes;
    uint64_t nic_at;
    uint64_t nic_bytes;
};

struct vfun_nic_cq_made {
    struct vfun_nic_place place;
    /* What events call it. Another queue gets this number only after 2^32 others. */
    uint32_t number;
    uint32_t reserved;
};

/* `depth` entries, a power of two. `has_channel` is 0 if nobody waits for its events. */
int32_t vfun_nic_cq_make(vfun_nic_context *context, uint32_t depth, uint32_t has_channel,
                         struct vfun_nic_cq_made *made, vfun_nic_cq **cq);
/* VFUN_NIC_BUSY while a queue pair uses it. */
int32_t vfun_nic_cq_end(vfun_nic_cq *cq);

struct vfun_nic_srq_made {
    struct vfun_nic_place place;
    uint32_t number;
    uint32_t reserved;
};

/* `depth` entries, a power of two, with `extension` bytes beside each: 0, 64, 128, 192 or 256. */
int32_t vfun_nic_srq_make(vfun_nic_pd *pd, uint32_t depth, uint32_t extension,
                          struct vfun_nic_srq_made *made, vfun_nic_srq **srq);
/* Asks for an event, once, when there are fewer receives than `limit`. 0: for none. */
int32_t vfun_nic_srq_limit(vfun_nic_srq *srq, uint32_t limit);
/* The limit that is armed: 0 after its event. */
int32_t vfun_nic_srq_query(vfun_nic_srq *srq, uint32_t *limit);
/* VFUN_NIC_BUSY while a queue pair uses it. */
int32_t vfun_nic_srq_end(vfun_nic_srq *srq);

/* ---- Queue pairs --------------------------------------------------------- */

struct vfun_nic_qp_init {
    /* ibv_qp_type: RC, UC or UD. */
    uint32_t kind;
    /* Not 0: each send completes with a completion. */
    uint32_t all_signaled;
    /* As of vfun_nic_srq_make. Those of receives are ignored with a shared receive queue. */
    uint32_t send_depth;
    uint32_t send_extension;
    uint32_t receive_depth;
    uint32_t receive_extension;
};

struct vfun_nic_qp_made {
    struct vfun_nic_place sends;
    /* All 0 with a shared receive queue. */
    struct vfun_nic_place receives;
    /* Its number for peers, and what events call it. */
    uint32_t qpn;
    /* Its doorbell bit in the two pages of doorbells. */
    uint32_t bell;
};

/* `srq` may be NULL. All that it names belongs to one context. */
int32_t vfun_nic_qp_make(vfun_nic_pd *pd, const struct vfun_nic_qp_init *init,
                         vfun_nic_cq *send_cq, vfun_nic_cq *receive_cq, vfun_nic_srq *srq,
                         struct vfun_nic_qp_made *made, vfun_nic_qp **qp);

/* Where a peer is: what the NIC looks at of ibv_ah_attr. The rest is kept, and said again. */
struct vfun_nic_path {
    uint8_t gid[16];
    uint32_t flow_label;
    uint16_t lid;
    /* Not 0: `gid` counts. 0: `lid` counts. */
    uint8_t is_global;
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
    uint8_t sl;
    uint8_t src_path_bits;
    uint8_t static_rate;
    uint8_t port;
};

/* ibv_qp_attr, without what no NIC of this kind has: alternate paths. */
struct vfun_nic_qp_attr {
    struct vfun_nic_path path;
    uint32_t state;
    uint32_t current_state;
    uint32_t path_mtu;
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t dest_qpn;
    uint32_t access;
    uint16_t pkey_index;
    uint8_t port;
    uint8_t sqd_notify;
    uint8_t sq_draining;
    uint8_t reads;
    uint8_t reads_of_peer;
    uint8_t min_rnr_timer;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t reserved;
};

/*
 * Changes those attributes that `mask` names, by the bits of ibv_qp_attr_mask.
 * `current_state` is checked if its bit is set. Alternate paths, path migration,
 * rates and new capacities are VFUN_NIC_UNSUPPORTED.
 */
int32_t vfun_nic_qp_modify(vfun_nic_qp *qp, uint32_t mask, const struct vfun_nic_qp_attr *attr);
int32_t vfun_nic_qp_query(vfun_nic_qp *qp, struct vfun_nic_qp_attr *attr);
/* What was posted to it ends without completions. */
int32_t vfun_nic_qp_end(vfun_nic_qp *qp);

/* `number` is what a send entry of a datagram calls the address handle. */
int32_t vfun_nic_ah_make(vfun_nic_pd *pd, const struct vfun_nic_path *path, uint32_t *number,
                         vfun_nic_ah **ah);
int32_t vfun_nic_ah_end(vfun_nic_ah *ah);

/* ---- Connections ------------------------------------------------------------ */

/*
 * The connection manager: programs find each other by address and port, and tell
 * each other their queue pairs. Numbers are those of rdma/rdma_cma.h. The NIC
 * connects no queue pair: who was told of a peer does that by vfun_nic_qp_modify.
 *
 * Ports belong to a VM: its programs share its address. The active side asks
 * (connect), the passive one is told, takes the new id up, and accepts or rejects.
 * The active side is told, and says when it is ready (establish): the passive one
 * is told that. Of datagrams the accepted request is all. What comes of a call is
 * told by VFUN_NIC_CM_EVENT.
 */

/* What a side says of its queue pair, and of what it may do. */
struct vfun_nic_cm_offer {
    uint32_t qpn;
    uint32_t qkey;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t srq;
    uint16_t reserved;
};

/* Bytes for the other program. */
#define VFUN_NIC_CM_DATA_BYTES 196
struct vfun_nic_cm_data {
    uint32_t length;
    uint8_t bytes[VFUN_NIC_CM_DATA_BYTES];
};

/* Where somebody listens. */
struct vfun_nic_cm_place {
    /* The VM's address, as a GID. */
    uint8_t gid[16];
    uint16_t port;
    /* Not 0: the caller's own VM, whatever its address is. */
    uint16_t is_here;
};

/* A new id for connections of this space: RDMA_PS_TCP, RDMA_PS_IB or RDMA_PS_UDP. `number` is what events call it. */
int32_t vfun_nic_cm_make(vfun_nic_context *context, uint32_t space, uint32_t *number,
                         vfun_nic_cm **cm);
/* Takes up the id of a request, by the number that its event said. */
int32_t vfun_nic_cm_take(vfun_nic_context *context, uint32_t number, vfun_nic_cm **cm);
/* Gives it a port, or a free one for 0. VFUN_NIC_BUSY: another one of this VM has it. */
int32_t vfun_nic_cm_bind(vfun_nic_cm *cm, uint32_t port, uint32_t *bound);
/* Requests come to its port from now on; at most `backlog` that nobody has answered. 0: as many as there may be. */
int32_t vfun_nic_cm_listen(vfun_nic_cm *cm, uint32_t backlog);
int32_t vfun_nic_cm_connect(vfun_nic_cm *cm, const struct vfun_nic_cm_place *to,
                            const struct vfun_nic_cm_offer *offer,
                            const struct vfun_nic_cm_data *data);
int32_t vfun_nic_cm_accept(vfun_nic_cm *cm, const struct vfun_nic_cm_offer *offer,
                           const struct vfun_nic_cm_data *data);
int32_t vfun_nic_cm_establish(vfun_nic_cm *cm);
int32_t vfun_nic_cm_reject(vfun_nic_cm *cm, const struct vfun_nic_cm_data *data);
int32_t vfun_nic_cm_disconnect(vfun_nic_cm *cm);
/* The other side of a connection is told. */
int32_t vfun_nic_cm_end(vfun_nic_cm *cm);

/* ---- Events --------------------------------------------------------------- */

/*
 * An asynchronous event comes as an event of the remoting core, with this number.
 * Its body has three numbers: the kind (ibv_event_type), what it is about
 * (VFUN_NIC_EVENT_OF_...), and the number of that.
 *
 * The event of a completion queue comes in another way: its word FIRED counts up,
 * and the channel of queues rings (R-VRB-8).
 */
#define VFUN_NIC_EVENT 64
#define VFUN_NIC_EVENT_OF_DEVICE 0
#define VFUN_NIC_EVENT_OF_QP 1
#define VFUN_NIC_EVENT_OF_CQ 2
#define VFUN_NIC_EVENT_OF_SRQ 3

/*
 * An event of a connection. Its body: the kind (rdma_cm_event_type), the status
 * (signed), the number of the id that it is about, the number of the new id of a
 * request or 0; the peer's vfun_nic_cm_offer, member by member, without
 * `reserved`; where the peer is: its GID (16 bytes), its LID, its port or 0; and
 * the bytes that it said.
 */
#define VFUN_NIC_CM_EVENT 65

#ifdef __cplusplus
}
#endif

#endif
