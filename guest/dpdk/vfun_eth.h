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

#include "vfun_packet.h"
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
	uint32_t busy;                  /* a burst is inside */
	uint32_t shut;                  /* why: bits of VFUN_SHUT_ */
};

#define VFUN_SHUT_EMPTY 1               /* there is no memory */
#define VFUN_SHUT_DOWN 2                /* by set_link_down */

/* What the receiving thread writes. */
struct vfun_rx_queue {
	struct vfun_gate gate;
	struct vfun_packet_rx rx;
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
	struct vfun_bell bell;
} __rte_cache_aligned;

uint16_t vfun_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);
uint16_t vfun_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count);
/* Nobody is inside when it returns, nor will be. */
void vfun_gate_shut(struct vfun_gate *g, uint32_t why);
/* Takes one reason away; it is open when there is no other one. */
void vfun_gate_open(struct vfun_gate *g, uint32_t why);

/* ---- the device ----------------------------------------------------- */

enum {
	VFUN_IPACKETS, VFUN_IBYTES, VFUN_IERRORS, VFUN_NO_MBUF,
	VFUN_OPACKETS, VFUN_OBYTES, VFUN_OERRORS, VFUN_COUNTS
};

struct vfun_counts {
	uint64_t n[VFUN_COUNTS];
};

/* What is said to the host. Of DPDK's thread for interrupts. */
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
	struct vfun_counts past;        /* counted in memory that is gone */
	struct vfun_counts begun;       /* what stood in this memory when it came */
	struct vfun_counts base;        /* what the counts were at the last reset of them */
};

/* ---- vfun_memory.c: all but the first two take the lock themselves --- */

/* The longest frame that the rings can carry. */
uint32_t vfun_eth_longest(const struct vfun_eth *v);
/* Tells the peer whether this end is there, and what it takes. */
void vfun_eth_say(struct vfun_eth *v);
/* The device begins to use this memory and bell, which are its own from now on. */
void vfun_eth_attach(struct vfun_eth *v, const struct vfun_sides *port,
		     const struct vfun_bell *bell);
/* It ends to use its memory, if there is any: after that nobody touches it. */
void vfun_eth_detach(struct vfun_eth *v);
/* Looks at the state of the link. 0: it has changed. */
int vfun_eth_look(struct vfun_eth *v);
/* Since the device was made, and what stood in its first memory. */
void vfun_eth_count(struct vfun_eth *v, struct vfun_counts *all);

/* ---- vfun_talk.c ---------------------------------------------------- */

/* Asks for the port. 0: it is known, or nobody is there yet; else -1 with a sentence. */
int vfun_talk_begin(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e);
/* Takes the port of the VM in which this runs. 0, or -1 with a sentence. */
int vfun_talk_begin_vm(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e);
/* From now on DPDK's thread listens to the host, and looks after the link. 0, or -1. */
int vfun_talk_run(struct vfun_eth *v, struct vfun_error *e);
/* Ends both, and the use of the memory. */
void vfun_talk_end(struct vfun_eth *v);

#endif
