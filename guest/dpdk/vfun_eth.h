/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One device of net_vfun. Its memory comes and goes while the application polls it.
 *
 * Threads: those of the application that receive and send (vfun_burst.c); those that
 * control the device, by the operations of rte_eth_vfun.c; and DPDK's thread for
 * interrupts and alarms, on which all of vfun_talk.c runs once the device is there.
 */
#ifndef VFUN_ETH_H
#define VFUN_ETH_H

#include <pthread.h>
#include <stdint.h>

#include <ethdev_driver.h>
#include <rte_ether.h>
#include <rte_interrupts.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include "vfun_link_ledger.h"
#include "vfun_link_ring.h"
#include "vfun_sides.h"
#include "vfun_ring.h"
#include "vfun_vm.h"

extern int vfun_log;
#define VFUN_LOG(level, ...) rte_log(RTE_LOG_##level, vfun_log, "net_vfun: " __VA_ARGS__)

/* Bytes around an MTU: an Ethernet header and two VLAN tags; no checksum is carried. */
#define VFUN_OVERHEAD (RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN)
/* Mbufs kept ready for what comes: those of a usual burst. */
#define VFUN_SPARE 32

/* ---- queues --------------------------------------------------------- */

/*
 * Between the bursts of a queue and the control paths. A burst never waits: it finds the
 * gate open, or brings nothing. Who shuts the gate waits for the one burst that is inside.
 */
struct vfun_gate {
	uint32_t busy;                  /* who is inside: VFUN_INSIDE_; 0: nobody */
	uint32_t shut;                  /* why: bits of VFUN_SHUT_ */
};

#define VFUN_INSIDE_BURST 1
#define VFUN_INSIDE_CLOSER 2            /* at the gate to send: a burst that receives, for a direct link; or who makes one */

#define VFUN_SHUT_EMPTY 1               /* there is no memory */
#define VFUN_SHUT_DOWN 2                /* by set_link_down */
#define VFUN_SHUT_LINKS 4               /* a direct link is made or ended; never the gate to send */
#define VFUN_SHUT_UNTOLD 8              /* the port's page names a link of which the host has not told; likewise */

struct vfun_direct;

/* What the receiving thread writes. */
struct vfun_rx_queue {
	struct vfun_gate gate;
	struct vfun_fence fence;
	struct vfun_linked_rx linked;   /* in place of the fence, where the port is one of this VM */
	struct vfun_direct *in;         /* the direct link that ends here; NULL: none */
	struct vfun_tx_queue *out;      /* of the same device */
	int stamp_at;                   /* the place of stamps in an mbuf; -1: there are none */
	struct rte_mempool *pool;
	struct rte_mbuf *spare[VFUN_SPARE];
	unsigned int spares;
	uint32_t longest;               /* bytes of the longest frame that is taken */
	uint16_t port_id;
	uint64_t no_mbuf;
} __rte_cache_aligned;

/* What the sending thread writes. */
struct vfun_tx_queue {
	struct vfun_gate gate;
	struct vfun_packet_tx tx;
	struct vfun_linked_tx linked;   /* in place of tx, where the port is one of this VM */
	uint64_t seen;                  /* linked.seen, for who is not inside */
	int is_due;                     /* a turn has no room yet, likewise */
	struct vfun_bell bell;
	struct vfun_direct *in;         /* the direct link that ends here; NULL: none */
	int stamp_at;
	uint64_t no_room;               /* frames of a link's sender that were dropped here */
} __rte_cache_aligned;

uint16_t vfun_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);
uint16_t vfun_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);
/* Nobody is inside when it returns, nor will be. */
void vfun_gate_shut(struct vfun_gate *g, uint32_t why);
/* Takes one reason away; it is open when there is no other one. */
void vfun_gate_open(struct vfun_gate *g, uint32_t why);
/* Nobody is inside who came before it was called. The gate stays open. */
void vfun_gate_wait(struct vfun_gate *g);
/* Enters the gate to send, though it may be shut; bursts wait until vfun_gate_leave. */
void vfun_gate_hold(struct vfun_gate *g);

/* ---- vfun_linked.c: a port of this VM ------------------------------- */

uint16_t vfun_linked_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);
uint16_t vfun_linked_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);

/* ---- direct links --------------------------------------------------- */

/* The counts of a link's ring, which the driver reads now and then. */
struct vfun_ledger {
	int fd;                         /* the link's file */
	uint64_t sender, receiver;      /* bytes of it at which the two header pages begin */
	uint64_t ring;
	struct vfun_claims believed, begun;
	uint64_t bad_at;                /* when claims first made no sense, in cycles; 0: they do */
	int is_broken;                  /* they did not twice */
};

/* A direct link, one way (section 18 of docs/protocol.md). Both of its devices are of this process. */
struct vfun_direct {
	struct vfun_line line;
	/* Of who is inside the receiver's gate to send. */
	struct vfun_closer closer __rte_cache_aligned;
	uint64_t out;                   /* what the closer has reached, for who is not inside */
	/* Of the receiver's thread that receives: the turn that is awaited, and since when, in cycles. */
	uint64_t due, due_at;
	/* These do not change while a burst can find the link. */
	uint64_t number;
	uint64_t before, made_at;       /* the last stamp before the link was there, and when that was */
	uint16_t sender;                /* DPDK's number of that port */
	/* All below is for who has the lock of all links. */
	struct vfun_eth *from, *to;
	struct vfun_ledger ledger;
	uint64_t forced;                /* the epoch of which the host waits to hear; 0: none */
	uint64_t sure_by;               /* until when the host must say it again, in cycles; 0: it has */
};

/* ---- the device ----------------------------------------------------- */

enum {
	VFUN_IPACKETS, VFUN_IBYTES, VFUN_IERRORS, VFUN_NO_MBUF,
	VFUN_OPACKETS, VFUN_OBYTES, VFUN_OERRORS,
	/* The share of direct links in those above; they stand in no port's memory. */
	VFUN_DIRECT_IPACKETS, VFUN_DIRECT_IBYTES, VFUN_DIRECT_OPACKETS, VFUN_DIRECT_OBYTES,
	VFUN_DIRECT_LATE, VFUN_DIRECT_BEHIND, VFUN_COUNTS
};

struct vfun_counts {
	uint64_t n[VFUN_COUNTS];
};

/* What is said to the host. Of DPDK's thread for interrupts and alarms. */
struct vfun_talk {
	struct vfun_vm *vm;             /* the port is one of this VM; NULL: it is not */
	char *socket;                   /* NULL: there is none; without vm, the memory is a file, and stays */
	char *port;
	uint64_t owner;
	struct rte_intr_handle *intr;   /* with the descriptor that is watched */
	int fd;                         /* -1: there is no connection */
	uint64_t handle;                /* of the memory that is mapped; 0: none */
	uint64_t again;                 /* when to connect again, in cycles of the timer */
	int is_welcome;                 /* the host has said so, on this connection */
	int is_lost;                    /* the user was told, and is to be told when it is back */
	uint64_t said_at;               /* when the sentence was said, in cycles */
	struct vfun_error said;         /* the last sentence, not to be said each second */
};

struct vfun_eth {
	struct vfun_rx_queue rxq;
	struct vfun_tx_queue txq;
	struct rte_eth_dev *dev;
	struct rte_ether_addr mac;
	struct vfun_ringers *ringers;
	struct vfun_talk talk;
	pthread_mutex_t lock;           /* all below is for who has it */
	struct vfun_sides port;
	uint16_t most_mtu;              /* that the host has for it; 0: it does not say */
	uint64_t ring;                  /* bytes of a ring, as was said last; 0: not known yet */
	int is_started;
	int is_down;                    /* by set_link_down */
	int had_memory;
	uint64_t told_by;               /* until when frames wait for that, in cycles; 0: they do not */
	struct vfun_counts past;        /* counted in memory that is gone */
	struct vfun_counts past_linked; /* in a VM: by links that are over */
	struct vfun_counts begun_linked; /* and what stood in those that are used when they came */
	struct vfun_counts begun;       /* what stood in this memory when it came */
	struct vfun_counts base;        /* what the counts were at the last reset of them */
	uint64_t nowhere[VFUN_PACKET_RING_OFF / 8]; /* the fence's header pages while there is no memory */
	/* All below is for who has the lock of all links. */
	struct vfun_eth *next;          /* of this process's devices with a socket */
	struct vfun_direct *from_here, *to_here;
	struct vfun_counts past_links;  /* what links that are over brought */
	uint64_t over;                  /* the last link from here that was over, and its claims */
	struct vfun_claims over_claims;
	uint64_t unlinked;              /* the host is to be told that this link is over; 0: none */
	int is_soon;                    /* an alarm is set, to look at links */
};

/* ---- vfun_memory.c: all but the first four take the lock themselves - */

/* A device without memory. */
void vfun_eth_init(struct vfun_eth *v);

/* The longest frame that the rings can carry. */
uint32_t vfun_eth_longest(const struct vfun_eth *v);
/* Tells the peer whether this end is there, and what it takes. */
void vfun_eth_say(struct vfun_eth *v);
/* Whether the port's page names a link that begins here. With the lock. */
int vfun_eth_names_link(const struct vfun_eth *v);
/* The device begins to use this memory and bell, which are its own from now on. */
void vfun_eth_attach(struct vfun_eth *v, const struct vfun_sides *port,
		     const struct vfun_bell *bell);
/* It ends to use its memory, if there is any: after that nobody touches it. */
void vfun_eth_detach(struct vfun_eth *v);
/* Looks at the state of the link. 0: it has changed. */
int vfun_eth_look(struct vfun_eth *v);
/* Since the device was made, and what stood in its first memory; without links. */
void vfun_eth_count(struct vfun_eth *v, struct vfun_counts *all);

/* ---- vfun_linked.c, all with the lock ------------------------------- */

/* Whether the port is one of this VM, so that its ends are those of a VM. */
static inline int vfun_eth_is_linked(const struct vfun_eth *v)
{
	return v->talk.vm != NULL;
}
/* Takes the rings of a port up, and the links that its host names. Both gates are shut. */
void vfun_linked_take_up(struct vfun_eth *v, const struct vfun_sides *port);
/* Begins with the links that the host names, and lets go of others. */
void vfun_linked_follow(struct vfun_eth *v);
/* Comes back from its links. Both gates are shut. */
void vfun_linked_leave(struct vfun_eth *v);
/* What is counted in the port's memory, and what went over links since the device was made. */
void vfun_linked_count(const struct vfun_eth *v, struct vfun_counts *c);
/* What the host takes, so that no longer frames are sent. */
void vfun_linked_bound(struct vfun_eth *v, uint32_t longest);

/* ---- vfun_links.c: each takes the lock of all links, and then a device's ---- */

struct vfun_link_heard;
/* Where stamps lie in an mbuf; -1: DPDK has no room for them, and there are no links. */
int vfun_links_stamps(void);
/* Others of this process find the device from now on, by its port's name. */
void vfun_links_add(struct vfun_eth *v);
/* The device ends, and its links with it. Nothing of it may run on DPDK's thread. */
void vfun_links_remove(struct vfun_eth *v);
/* Does what the host says of a link. 0, or -1: the connection is broken. */
int vfun_links_obey(struct vfun_eth *v, struct vfun_link_heard *heard);
/* The host has greeted: it is to say once more which link goes on. */
void vfun_links_doubt(struct vfun_eth *v);
/* Says what has become of links meanwhile. 0, or -1: the connection is broken. */
int vfun_links_look(struct vfun_eth *v);
/* As vfun_eth_count, and what went over links. */
void vfun_links_count(struct vfun_eth *v, struct vfun_counts *all);

/* ---- vfun_talk.c ---------------------------------------------------- */

/* Asks for the port. 0: it is known, or nobody is there yet; else -1 with a sentence. */
int vfun_talk_begin(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e);
/* Takes the port of the VM in which this runs. 0, or -1 with a sentence. */
int vfun_talk_begin_vm(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e);
/* From now on DPDK's thread listens to the host, and looks after the link. 0, or -1. */
int vfun_talk_run(struct vfun_eth *v, struct vfun_error *e);
/* Says what is wrong, unless it was said just now. Whether it was new. */
int vfun_talk_complain(struct vfun_eth *v, const struct vfun_error *e);
/* Ends both, and the use of the memory. */
void vfun_talk_end(struct vfun_eth *v);

#endif
