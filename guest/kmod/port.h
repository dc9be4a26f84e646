/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ports: network interfaces whose frames go through rings of the window
 * (docs/protocol.md, section 16), or over direct links to ports of other VMs
 * (section 18).
 *
 * ports.c decides which interfaces there are, and gets and gives back the channel of
 * each: in one work, which owns struct vfun_ports and the first part of each port.
 * netdev.c moves frames, link.c has links come and go. What they touch:
 *
 *  p->lock       spin, softirqs off. Who receives, and p->open.
 *  queue's lock  of the kernel, for its transmit queue, inside of p->lock. Who sends.
 *  p->live       whether the rings may be touched. It changes under both locks, so each
 *                of them keeps it as it is. It becomes true under map_sem (read) alone,
 *                with a channel that is not dead, and vfun_kill makes it false under
 *                map_sem (written): so nobody touches a ring whose pages may be another's.
 *  p->out, p->in windows of the links that are in use. As p->live: set under map_sem
 *                (read) alone, with a window that is there, and vfun_links_gone clears
 *                them under map_sem (written). None while the port is not live.
 *
 * rtnl is outermost of all. It is held around open, stop and changes of the interface,
 * and the work takes it to register and unregister. So the work must not be inside
 * (vfun_enter) or hold a lock of this module then: who holds rtnl may wait for those,
 * and removal waits for all who are inside.
 */
#ifndef VFUN_PORT_H
#define VFUN_PORT_H

#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>

#include "vfun.h"
#include "vfun_link_ring.h"

/* A frame has so many bytes more than the interface's MTU, at most: with one tag. */
#define VFUN_FRAME_MORE (ETH_HLEN + VLAN_HLEN)

/* One way of a direct link. */
struct vfun_port_link {
	struct vfun_window *win;	/* that has its memory; NULL: none. Both locks */
	u64 refused;			/* the link that was complained of last, and why */
	const char *why;
};

struct vfun_port {
	struct net_device *net;
	struct vfun_device *dev;
	unsigned int number;		/* its place in the table */
	u64 id;				/* its entry's */
	u32 ring_bytes;

	/* The work's own (ports.c). */
	bool missing;			/* its entry is not there */
	unsigned long goes;		/* when the interface goes, if that lasts */
	u64 grant;			/* 0: none */
	struct vfun_channel *ch;	/* referenced; NULL: none */
	unsigned int failures;		/* since it last worked for a while */
	unsigned long again;		/* when the host is asked next */
	unsigned long since;		/* when the channel came */

	struct napi_struct napi;
	struct hrtimer room_timer;

	/* Under lock. */
	spinlock_t lock;
	bool open;
	bool live;			/* also under the queue's lock */
	struct vfun_linked_rx rx;
	struct vfun_port_link in;
	u64 joined;
	u64 said_frame, said_takes;	/* the host's words that hold now */
	u64 own_takes;			/* which frames with notes this side is to take */

	/* Under the queue's lock. */
	struct vfun_linked_tx tx;
	struct vfun_port_link out;
	const u64 *head;		/* the host's head page */
	u16 vector_out;
	u32 bell;			/* what rings the link's receiver; 0: nothing does */
	u64 rings, link_rings, stops;
	u64 room_ns;
	u64 takes;			/* which frames with notes the host takes; read without */

	bool reads_link;		/* written under lock, read in interrupts */
	u64 rung, link_rung;		/* under bell_lock */
};

struct vfun_ports {
	struct vfun_device *dev;
	struct delayed_work work;

	/* The work's own. */
	struct vfun_port *port[VFUN_PORTS_MAX];
	u64 refused[VFUN_PORTS_MAX];	/* an entry's id that was complained of */
	struct vfun_file *vf;		/* the session; NULL: none */
	u64 generation;			/* that was seen last */
	unsigned long steady;		/* when the table is complete for sure */
	struct vfun_port_entry table[VFUN_PORTS_MAX];	/* as it was read last */
	unsigned int failures;
	unsigned long again;
};

/* Both locks: nobody receives, and nobody sends. */
static inline struct netdev_queue *vfun_port_queue(const struct vfun_port *p)
{
	return netdev_get_tx_queue(p->net, 0);
}

static inline void vfun_port_lock(struct vfun_port *p)
	__acquires(&p->lock) __acquires(&vfun_port_queue(p)->_xmit_lock)
{
	spin_lock_bh(&p->lock);
	__netif_tx_lock(vfun_port_queue(p), smp_processor_id());
}

static inline void vfun_port_unlock(struct vfun_port *p)
	__releases(&vfun_port_queue(p)->_xmit_lock) __releases(&p->lock)
{
	__netif_tx_unlock(vfun_port_queue(p));
	spin_unlock_bh(&p->lock);
}

/* netdev.c */
struct vfun_port *vfun_port_new(struct vfun_device *dev, unsigned int number,
				const struct vfun_port_entry *e);
void vfun_port_free(struct vfun_port *p);
void vfun_port_join(struct vfun_port *p);
void vfun_port_look(struct vfun_port *p);
void vfun_port_turn(struct vfun_port *p);
bool vfun_port_is_open(struct vfun_port *p);
void vfun_port_ring(struct vfun_port *p, int who);
void vfun_port_settle(struct vfun_port *p);

/* frames.c */
netdev_features_t vfun_frame_features(struct sk_buff *skb, struct net_device *net,
				      netdev_features_t features);
void *vfun_frame_place(struct vfun_port *p, const struct sk_buff *skb);
void vfun_frame_out(const struct sk_buff *skb, void *to);
struct sk_buff *vfun_frame_in(struct vfun_port *p, const void *from, u32 bytes, const void *noted);
u64 vfun_frame_takes(const struct vfun_port *p, netdev_features_t features);

/* What the host says of one way of a link. */
struct vfun_link_said {
	bool out;
	u64 number, place, bell;
};

/* link.c */
bool vfun_link_read(const u64 *page, bool out, struct vfun_link_said *s);
struct vfun_window *vfun_link_window(struct vfun_device *dev, u64 ring_bytes,
				     const struct vfun_link_said *s,
				     struct vfun_link_place *at, const char **why);
void vfun_link_follow(struct vfun_port *p);
void vfun_link_leave(struct vfun_port *p);
void vfun_link_drop(struct vfun_port *p);
void vfun_link_note(struct vfun_port *p);

/* ethtool.c */
extern const struct ethtool_ops vfun_ethtool_ops;

#endif
