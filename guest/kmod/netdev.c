// SPDX-License-Identifier: GPL-2.0
/*
 * A port as a network interface: frames go by copies between socket buffers and the
 * two rings of its channel, or those of a direct link. What the host or another VM
 * writes there is checked by vfun_packet.h and vfun_link_ring.h; a frame is copied
 * once, and nothing but the copy is used.
 */

#include <linux/ctype.h>

#include "port.h"

/* The longest MTU whose frames, of so many bytes at most, have a tag as well. */
static unsigned int mtu_of(u64 frame)
{
	return min_t(u64, frame - VFUN_FRAME_MORE, ETH_MAX_MTU);
}

/* ---- sending -------------------------------------------------------- */

/*
 * Whether the next frame has room for sure: two of the longest have it, of which one
 * may be skipped at the ring's end. An empty ring always has that much. While a turn
 * is due, nothing has room.
 */
static bool has_room(struct vfun_port *p)
{
	struct vfun_packet_tx *tx = &p->tx.port;
	u32 longest;

	if (unlikely(p->tx.path != VFUN_LINKED_PORT)) {
		if (p->tx.path == VFUN_LINKED_DUE)
			return false;
		tx = &p->tx.link;
	}
	longest = min_t(u32, tx->longest, READ_ONCE(p->net->mtu) + VFUN_FRAME_MORE);
	if (p->takes && tx == &p->tx.port)
		longest = VFUN_PACKET_FRAME_MAX;
	return vfun_packet_fits_(tx, 2 * vfun_packet_record(longest));
}

/* Rings the host and the link's receiver, if they sleep. Queue's lock; live. */
void vfun_port_ring(struct vfun_port *p, int who)
{
	/* While the rings live, so do the window and its registers. */
	if (who & VFUN_LINKED_RING_PORT) {
		p->rings++;
		vfun_ring_vector(p->dev->win, p->vector_out);
	}
	if ((who & VFUN_LINKED_RING_LINK) && p->bell) {
		p->link_rings++;
		vfun_ring_peer(p->dev->win, p->bell);
	}
}

/* Shows what was put, turns if the host wants it, and rings who sleeps. */
static void publish(struct vfun_port *p)
{
	if (vfun_linked_tx_publish(&p->tx))
		vfun_port_ring(p, vfun_linked_tx_must_ring(&p->tx));
}

/*
 * The host never says that it has taken something, so a clock looks: soon at first,
 * and less often the longer it lasts.
 */
static void stop_queue(struct vfun_port *p)
{
	p->stops++;
	p->room_ns = VFUN_ROOM_SOON_NS;
	netif_tx_stop_queue(vfun_port_queue(p));
	hrtimer_start(&p->room_timer, ns_to_ktime(p->room_ns), HRTIMER_MODE_REL_SOFT);
}

static netdev_tx_t port_xmit(struct sk_buff *skb, struct net_device *net)
{
	struct vfun_port *p = netdev_priv(net);
	unsigned int bytes = skb->len;
	void *to = NULL;

	if (likely(p->live))
		to = vfun_frame_place(p, skb);
	if (likely(to)) {
		vfun_frame_out(skb, to);
		dev_sw_netstats_tx_add(net, 1, bytes);
		skb_tx_timestamp(skb);
		dev_consume_skb_any(skb);
	} else {
		/* Of all senders only one is here at a time. */
		net->stats.tx_dropped++;
		dev_kfree_skb_any(skb);
	}
	if (unlikely(!p->live))
		return NETDEV_TX_OK;
	/* First of all: it may turn to a ring that has no room, or to one that has. */
	if (!netdev_xmit_more() || !has_room(p))
		publish(p);
	if (unlikely(!has_room(p)))
		stop_queue(p);
	return NETDEV_TX_OK;
}

/* A look at the turns while nothing is sent. Both locks; live. */
void vfun_port_settle(struct vfun_port *p)
{
	if (vfun_linked_tx_look(&p->tx))
		vfun_port_ring(p, vfun_linked_tx_must_ring(&p->tx));
	if (!netif_tx_queue_stopped(vfun_port_queue(p)) && !has_room(p))
		stop_queue(p);
}

/* Starts the queue again if there is room; false: a later look must. Queue's lock. */
static bool start_queue(struct vfun_port *p)
{
	if (!p->live || !netif_tx_queue_stopped(vfun_port_queue(p)))
		return true;
	/* Other frames go when there is room again: the turn is due now. */
	if (vfun_linked_tx_look(&p->tx))
		vfun_port_ring(p, vfun_linked_tx_must_ring(&p->tx));
	if (!has_room(p))
		return false;
	netif_tx_wake_queue(vfun_port_queue(p));
	return true;
}

static enum hrtimer_restart room_timer(struct hrtimer *timer)
{
	struct vfun_port *p = container_of(timer, struct vfun_port, room_timer);

	__netif_tx_lock(vfun_port_queue(p), smp_processor_id());
	if (!start_queue(p)) {
		p->room_ns = min_t(u64, 2 * p->room_ns, VFUN_ROOM_LATE_NS);
		/* Not by HRTIMER_RESTART: stop_queue may have started it meanwhile. */
		hrtimer_start(timer, ns_to_ktime(p->room_ns), HRTIMER_MODE_REL_SOFT);
	}
	__netif_tx_unlock(vfun_port_queue(p));
	return HRTIMER_NORESTART;
}

/* ---- the carrier ---------------------------------------------------- */

/* The longest frame that the host takes now, which it may not say. p->lock. */
static void bound_frames(struct vfun_port *p)
{
	u64 frame = VFUN_PACKET_LOAD(p->rx.port.theirs + VFUN_PACKET_FRAME);
	u64 takes = VFUN_PACKET_LOAD(p->rx.port.theirs + VFUN_PACKET_TAKES);
	u32 longest = vfun_packet_longest(p->ring_bytes);

	p->said_frame = frame;
	p->said_takes = takes;
	if (frame >= ETH_MIN_MTU + VFUN_FRAME_MORE && frame < longest)
		longest = frame;
	__netif_tx_lock(vfun_port_queue(p), smp_processor_id());
	p->tx.port.longest = longest;
	/* What the switch does not take goes over no link either. */
	p->tx.link.longest = longest;
	WRITE_ONCE(p->takes, p->ring_bytes < VFUN_PACKET_NOTED_RING_MIN ? 0 : takes);
	__netif_tx_unlock(vfun_port_queue(p));
	WRITE_ONCE(p->net->max_mtu, mtu_of(longest));
	if (p->net->mtu > p->net->max_mtu)
		net_warn_ratelimited("%s: the host takes frames of %u bytes at most, so longer ones of this interface are dropped: set its MTU to %u\n",
				     p->net->name, longest, p->net->max_mtu);
}

/* Whether the host says the same of frames as it did. Another service may, without a word between. */
static bool says_the_same(const struct vfun_port *p)
{
	return VFUN_PACKET_LOAD(p->rx.port.theirs + VFUN_PACKET_FRAME) == p->said_frame &&
	       VFUN_PACKET_LOAD(p->rx.port.theirs + VFUN_PACKET_TAKES) == p->said_takes;
}

/* The carrier is there while the host's end is. p->lock; live. */
static void look_at_carrier(struct vfun_port *p)
{
	bool up = VFUN_PACKET_LOAD_ACQUIRE(p->rx.port.theirs + VFUN_PACKET_STATE) ==
		  VFUN_PACKET_UP;

	if (up && (!netif_carrier_ok(p->net) || !says_the_same(p)))
		bound_frames(p);
	if (up == netif_carrier_ok(p->net))
		return;
	if (up) {
		netif_carrier_on(p->net);
	} else {
		netif_carrier_off(p->net);
	}
}

/* ---- receiving ------------------------------------------------------ */

/* Takes so many frames and turns at most out of the rings; how many. p->lock; live. */
static int take_frames(struct vfun_port *p, int budget, struct list_head *frames)
{
	const void *from, *note;
	struct sk_buff *skb;
	u32 bytes;
	int done, more;

	for (done = 0; done < budget; done++) {
		from = vfun_linked_rx_next(&p->rx, &bytes, &more);
		if (!from && !more)
			break;
		if (!from)
			continue;
		note = p->rx.port.noted ? from : NULL;
		p->rx.port.noted = 0;
		if (note) {
			from += VFUN_PACKET_NOTE_BYTES;
			bytes -= VFUN_PACKET_NOTE_BYTES;
		}
		skb = vfun_frame_in(p, from, bytes, note);
		if (skb)
			list_add_tail(&skb->list, frames);
		else
			vfun_linked_rx_refuse(&p->rx, bytes);
	}
	vfun_linked_rx_take(&p->rx);
	vfun_link_note(p);
	return done;
}

static void deliver(struct vfun_port *p, struct list_head *frames)
{
	struct sk_buff *skb, *next;

	list_for_each_entry_safe(skb, next, frames, list) {
		skb_list_del_init(skb);
		dev_sw_netstats_rx_add(p->net, skb->len);
		skb->protocol = eth_type_trans(skb, p->net);
		napi_gro_receive(&p->napi, skb);
	}
}

/*
 * Whether there is anything to do. What makes no sense is passed over, so that the
 * host is asked to ring for another position. p->lock; live.
 */
static bool something_there(struct vfun_port *p)
{
	u64 port = p->rx.port.tail, link = p->rx.link.tail;

	return vfun_linked_rx_is_there(&p->rx) || p->rx.port.tail != port ||
	       p->rx.link.tail != link;
}

/* Asks to be rung (R-PKT-7); true: something came meanwhile. */
static bool fall_asleep(struct vfun_port *p)
{
	bool more = false;

	spin_lock(&p->lock);
	if (p->live) {
		vfun_linked_rx_declare_sleep(&p->rx);
		more = something_there(p);
	}
	spin_unlock(&p->lock);
	return more;
}

static int port_poll(struct napi_struct *napi, int budget)
{
	struct vfun_port *p = container_of(napi, struct vfun_port, napi);
	LIST_HEAD(frames);
	int done = 0;

	/* netpoll: what was sent is free at once, and this may be in an interrupt. */
	if (!budget)
		return 0;
	spin_lock(&p->lock);
	if (p->live) {
		done = take_frames(p, budget, &frames);
		look_at_carrier(p);
	}
	spin_unlock(&p->lock);
	/* Unlocked: the stack may send, by this interface or another one. */
	deliver(p, &frames);
	if (netif_queue_stopped(p->net)) {
		__netif_tx_lock(vfun_port_queue(p), smp_processor_id());
		start_queue(p);
		__netif_tx_unlock(vfun_port_queue(p));
	}
	if (done < budget && napi_complete_done(napi, done) && fall_asleep(p))
		napi_schedule(napi);
	return done;
}

/* The host has news for its channel. In an interrupt, under bell_lock. */
void vfun_port_rung(struct vfun_port *p)
{
	p->rung++;
	napi_schedule(&p->napi);
}

/*
 * Its vector was rung, and the host has no news: it was the sender of a link, perhaps,
 * which cannot write the host's words. In an interrupt, under bell_lock.
 */
void vfun_port_nudged(struct vfun_port *p)
{
	if (!READ_ONCE(p->reads_link))
		return;
	p->link_rung++;
	napi_schedule(&p->napi);
}

/* ---- begin and end of a channel ------------------------------------- */

/* A side of packets. Under map_sem, with a channel that is not dead. */
static void *side_of(const struct vfun_channel *ch, unsigned int n)
{
	const struct vfun_area *a = &ch->area[n];

	return a->win->memory + a->range.offset + VFUN_PACKETS_SIDE_OFF;
}

/* Says which frames with notes this side takes. p->lock; live, or about to be. */
static void say_takes(struct vfun_port *p)
{
	/* The host may have sent frames with notes before it sees the new word: they are taken. */
	p->rx.port.takes_notes |= p->own_takes != 0;
	VFUN_PACKET_STORE(p->rx.port.mine + VFUN_PACKET_TAKES, p->own_takes);
}

/* Takes the rings up where they stand (R-PKT-8). Both locks, and map_sem. */
static void take_up(struct vfun_port *p, void *mine, void *theirs)
{
	p->vector_out = p->ch->vector_out;
	p->head = theirs - VFUN_PACKETS_SIDE_OFF;
	/* They cannot fail: the ring's bytes were looked at with the entry. */
	vfun_linked_tx_init(&p->tx, mine, theirs, p->ring_bytes);
	vfun_linked_rx_init(&p->rx, mine, theirs, p->ring_bytes);
	say_takes(p);
	/* Before the first frame either way: what an earlier end began goes on (R-LNK-9). */
	vfun_link_follow(p);
	VFUN_PACKET_STORE(p->tx.port.mine + VFUN_PACKET_FRAME,
			  (u64)p->net->mtu + VFUN_FRAME_MORE);
	VFUN_PACKET_STORE_RELEASE(p->tx.port.mine + VFUN_PACKET_STATE, VFUN_PACKET_UP);
	p->live = true;
	p->joined++;
	/* Who had the ring before may have left without ringing. */
	vfun_port_ring(p, vfun_linked_tx_must_ring(&p->tx));
	if (has_room(p))
		netif_tx_wake_queue(vfun_port_queue(p));
	else
		stop_queue(p);
}

/*
 * Begins to use the channel of an interface that is open, if it does not already and
 * the channel is not over. The caller is the work, and inside.
 */
void vfun_port_join(struct vfun_port *p)
{
	struct vfun_channel *ch = p->ch;
	bool joined = false;
	unsigned long flags;

	down_read(&vfun_map_sem);
	if (!ch->dead && !vfun_channel_ended(ch)) {
		spin_lock_irqsave(&p->dev->win->bell_lock, flags);
		ch->port = p;
		spin_unlock_irqrestore(&p->dev->win->bell_lock, flags);
		vfun_port_lock(p);
		joined = p->open && !p->live;
		if (joined)
			take_up(p, side_of(ch, 0), side_of(ch, 1));
		vfun_port_unlock(p);
	}
	up_read(&vfun_map_sem);
	if (!joined)
		return;
	/* It looks at what is there, and asks to be rung. */
	local_bh_disable();
	napi_schedule(&p->napi);
	local_bh_enable();
}

/*
 * After it nobody touches the rings. With farewell, the host is told; without, their
 * pages may be another's. It does not sleep.
 */
void vfun_port_cut(struct vfun_port *p, bool farewell)
{
	vfun_port_lock(p);
	if (p->live && farewell) {
		publish(p);
		vfun_link_leave(p);
		VFUN_PACKET_STORE_RELEASE(p->tx.port.mine + VFUN_PACKET_STATE,
					  VFUN_PACKET_DOWN);
	}
	if (p->live)
		netif_carrier_off(p->net);
	p->live = false;
	WRITE_ONCE(p->takes, 0);
	vfun_link_drop(p);
	vfun_port_unlock(p);
}

/* Turns if the host wants it. Nothing that takes long is waited for. */
void vfun_port_turn(struct vfun_port *p)
{
	vfun_port_lock(p);
	if (p->live)
		vfun_port_settle(p);
	vfun_port_unlock(p);
}

/*
 * Looks at the carrier, at what the host wants of links, and whether a ring was lost.
 * The caller is the work.
 */
void vfun_port_look(struct vfun_port *p)
{
	bool there = false;

	down_read(&vfun_map_sem);
	vfun_port_lock(p);
	if (p->live) {
		vfun_link_follow(p);
		vfun_port_settle(p);
	}
	vfun_port_unlock(p);
	up_read(&vfun_map_sem);

	spin_lock_bh(&p->lock);
	if (p->live) {
		look_at_carrier(p);
		there = something_there(p);
	}
	spin_unlock_bh(&p->lock);
	if (!there)
		return;
	local_bh_disable();
	napi_schedule(&p->napi);
	local_bh_enable();
}

bool vfun_port_is_open(struct vfun_port *p)
{
	return READ_ONCE(p->open);
}

/* ---- the interface -------------------------------------------------- */

/* The work gets a channel, which may take its time. */
static int port_open(struct net_device *net)
{
	struct vfun_port *p = netdev_priv(net);

	netif_carrier_off(net);
	napi_enable(&p->napi);
	spin_lock_bh(&p->lock);
	p->open = true;
	spin_unlock_bh(&p->lock);
	netif_start_queue(net);
	vfun_ports_kick(p->dev);
	return 0;
}

static int port_stop(struct net_device *net)
{
	struct vfun_port *p = netdev_priv(net);

	spin_lock_bh(&p->lock);
	p->open = false;
	spin_unlock_bh(&p->lock);
	vfun_port_cut(p, true);
	netif_stop_queue(net);
	napi_disable(&p->napi);
	hrtimer_cancel(&p->room_timer);
	netif_carrier_off(net);
	vfun_ports_kick(p->dev);
	return 0;
}

/* Within the bounds, which the caller has looked at. */
static int port_change_mtu(struct net_device *net, int mtu)
{
	struct vfun_port *p = netdev_priv(net);

	spin_lock_bh(&p->lock);
	WRITE_ONCE(net->mtu, mtu);
	if (p->live)
		VFUN_PACKET_STORE(p->rx.port.mine + VFUN_PACKET_FRAME,
				  (u64)mtu + VFUN_FRAME_MORE);
	spin_unlock_bh(&p->lock);
	return 0;
}

/* Whether frames may come whose checksum is not complete, or which are longer. */
static int port_set_features(struct net_device *net, netdev_features_t features)
{
	struct vfun_port *p = netdev_priv(net);

	spin_lock_bh(&p->lock);
	p->own_takes = vfun_frame_takes(p, features);
	if (p->live)
		say_takes(p);
	spin_unlock_bh(&p->lock);
	return 0;
}

static const struct net_device_ops port_ops = {
	.ndo_open = port_open,
	.ndo_stop = port_stop,
	.ndo_start_xmit = port_xmit,
	.ndo_change_mtu = port_change_mtu,
	.ndo_features_check = vfun_frame_features,
	.ndo_set_features = port_set_features,
	.ndo_get_stats64 = dev_get_tstats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

/* The host's name for it, if an interface can have such a name. */
static bool name_from(const struct vfun_port_entry *e, char name[IFNAMSIZ])
{
	unsigned int n;

	BUILD_BUG_ON(sizeof(e->name) != IFNAMSIZ);
	memcpy(name, e->name, IFNAMSIZ);
	if (name[IFNAMSIZ - 1] || !dev_valid_name(name))
		return false;
	for (n = 0; name[n]; n++)
		if (!isascii(name[n]) || !isgraph(name[n]) || name[n] == '%')
			return false;
	return true;
}

static void set_up(struct vfun_port *p, const struct vfun_port_entry *e)
{
	struct net_device *net = p->net;

	SET_NETDEV_DEV(net, &p->dev->win->pdev->dev);
	net->netdev_ops = &port_ops;
	net->ethtool_ops = &vfun_ethtool_ops;
	net->dev_port = p->number;
	net->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	/* Frames in pieces are copied as they are. What the host takes is asked for each frame. */
	net->hw_features = NETIF_F_SG | NETIF_F_FRAGLIST;
	if (p->ring_bytes >= VFUN_PACKET_NOTED_RING_MIN)
		net->hw_features |= NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_RXCSUM;
	net->features = net->hw_features | NETIF_F_HIGHDMA;
	net->vlan_features = net->features;
	p->own_takes = vfun_frame_takes(p, net->features);
	net->min_mtu = ETH_MIN_MTU;
	net->max_mtu = mtu_of(vfun_packet_longest(e->ring_bytes));
	net->mtu = e->mtu < ETH_MIN_MTU ? ETH_DATA_LEN : e->mtu;
	net->mtu = min(net->mtu, net->max_mtu);
	if (is_valid_ether_addr(e->mac))
		eth_hw_addr_set(net, e->mac);
	else
		eth_hw_addr_random(net);
	netif_napi_add(net, &p->napi, port_poll);
	netif_carrier_off(net);
}

/* By the name that the host gave, or else by one of the kernel's choice. */
static int register_as(struct net_device *net, const struct vfun_port_entry *e)
{
	bool good;
	int ret;

	good = name_from(e, net->name);
	if (good) {
		ret = register_netdev(net);
		if (ret != -EEXIST)
			return ret;
	}
	strscpy(net->name, "vfun%d", IFNAMSIZ);
	net->name_assign_type = NET_NAME_ENUM;
	ret = register_netdev(net);
	if (!ret)
		netdev_info(net, "the host calls this port \"%*pE\", which %s\n",
			    (int)strnlen((const char *)e->name, sizeof(e->name)), e->name,
			    good ? "is taken" : "is no interface's name");
	return ret;
}

/* An interface for an entry whose ring_bytes were looked at. Neither inside nor locked. */
struct vfun_port *vfun_port_new(struct vfun_device *dev, unsigned int number,
				const struct vfun_port_entry *e)
{
	struct net_device *net;
	struct vfun_port *p;
	int ret;

	net = alloc_netdev(sizeof(*p), "vfun%d", NET_NAME_PREDICTABLE, ether_setup);
	if (!net)
		return ERR_PTR(-ENOMEM);
	net->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!net->tstats) {
		free_netdev(net);
		return ERR_PTR(-ENOMEM);
	}
	p = netdev_priv(net);
	p->net = net;
	p->dev = dev;
	p->number = number;
	p->id = e->id;
	p->ring_bytes = e->ring_bytes;
	spin_lock_init(&p->lock);
	hrtimer_init(&p->room_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	p->room_timer.function = room_timer;
	set_up(p, e);
	ret = register_as(net, e);
	if (!ret)
		return p;
	free_percpu(net->tstats);
	free_netdev(net);
	return ERR_PTR(ret);
}

/* Its channel, if it had one, knows it no more. */
void vfun_port_free(struct vfun_port *p)
{
	struct net_device *net = p->net;

	free_percpu(net->tstats);
	free_netdev(net);
}
