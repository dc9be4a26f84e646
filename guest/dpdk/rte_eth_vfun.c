/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * net_vfun: a DPDK driver for ports of VirtFun, one source for both ends: for a switch
 * on the host (Open vSwitch with DPDK) and for DPDK programs in a VM. A port is two rings of
 * packets in shared memory (rules R-PKT of docs/protocol.md). Each frame is copied
 * once; no memory of the port ever gets into an mbuf.
 *
 * Ours are the two functions of the data path and what a switch asks of a driver;
 * vfun_port.c gets the memory, vfun_packet.h knows the rings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_ether.h>
#include <rte_kvargs.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_version.h>

#include "vfun_packet.h"
#include "vfun_port.h"

RTE_LOG_REGISTER_DEFAULT(vfun_log, NOTICE);
#define LOG(level, ...) rte_log(RTE_LOG_##level, vfun_log, "net_vfun: " __VA_ARGS__)

/* Bytes around an MTU: an Ethernet header and two VLAN tags; no checksum is carried. */
#define OVERHEAD (RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN)
/* Mbufs kept ready for what comes: those of a usual burst. */
#define SPARE 32

/* What the receiving thread writes. */
struct vfun_rx_queue {
	struct vfun_packet_rx rx;
	struct rte_mempool *pool;
	struct rte_mbuf *spare[SPARE];
	unsigned int spares;
	uint32_t longest;               /* bytes of the longest frame that is taken */
	uint16_t port_id;
	int is_down;                    /* by set_link_down; the control thread writes it */
	uint64_t no_mbuf;
} __rte_cache_aligned;

/* What the sending thread writes. */
struct vfun_tx_queue {
	struct vfun_packet_tx tx;
	int is_down;
} __rte_cache_aligned;

struct vfun_eth {
	struct vfun_rx_queue rxq;
	struct vfun_tx_queue txq;
	struct vfun_port port;
	struct rte_ether_addr mac;
	struct rte_eth_stats base;      /* what the counts were at the last reset of them */
	int is_down;                    /* by set_link_down */
};

static uint64_t *my_word(struct vfun_eth *v, unsigned int word)
{
	return (uint64_t *)v->port.mine + word;
}

static const uint64_t *their_word(struct vfun_eth *v, unsigned int word)
{
	return (const uint64_t *)v->port.theirs + word;
}

/* ---- packets -------------------------------------------------------- */

static uint16_t vfun_rx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_rx_queue *q = queue;
	uint16_t done = 0, looks;

	if (__atomic_load_n(&q->is_down, __ATOMIC_RELAXED))
		return 0;
	/* Looks are bounded, and not what comes of them: a peer may send nonsense without end. */
	for (looks = 0; looks < count && vfun_packet_is_there(&q->rx); looks++) {
		const void *from;
		struct rte_mbuf *m;
		uint32_t bytes;

		/* First the place: without one the frame stays where it is. */
		if (!q->spares) {
			if (rte_pktmbuf_alloc_bulk(q->pool, q->spare, SPARE)) {
				q->no_mbuf++;
				break;
			}
			q->spares = SPARE;
		}
		from = vfun_packet_next(&q->rx, &bytes);
		if (!from)
			break;
		m = q->spare[q->spares - 1];
		if (bytes < RTE_ETHER_HDR_LEN || bytes > q->longest || bytes > rte_pktmbuf_tailroom(m)) {
			vfun_packet_refuse(&q->rx, bytes);
			continue;
		}
		rte_memcpy(rte_pktmbuf_mtod(m, void *), from, bytes);
		m->data_len = (uint16_t)bytes;
		m->pkt_len = bytes;
		m->port = q->port_id;
		bufs[done++] = m;
		q->spares--;
	}
	if (q->rx.tail != q->rx.told)
		vfun_packet_take(&q->rx);
	return done;
}

static void copy_out(unsigned char *to, const struct rte_mbuf *m)
{
	for (; m; m = m->next) {
		rte_memcpy(to, rte_pktmbuf_mtod(m, const void *), m->data_len);
		to += m->data_len;
	}
}

static uint16_t vfun_tx_burst(void *queue, struct rte_mbuf **bufs, uint16_t count)
{
	struct vfun_tx_queue *q = queue;
	uint64_t too_long = q->tx.too_long;
	uint16_t done = 0;

	if (__atomic_load_n(&q->is_down, __ATOMIC_RELAXED))
		return 0;
	for (; done < count; done++) {
		unsigned char *to = vfun_packet_put(&q->tx, bufs[done]->pkt_len);

		if (to)
			copy_out(to, bufs[done]);
		else if (q->tx.too_long != too_long)
			too_long = q->tx.too_long;      /* it would never fit: dropped, counted */
		else
			break;                          /* no room: the caller's to drop */
	}
	rte_pktmbuf_free_bulk(bufs, done);
	if (count)
		vfun_packet_publish(&q->tx);
	return done;
}

/* ---- state ---------------------------------------------------------- */

static int vfun_link_update(struct rte_eth_dev *dev, int wait __rte_unused)
{
	struct vfun_eth *v = dev->data->dev_private;
	uint64_t frame = VFUN_PACKET_LOAD(their_word(v, VFUN_PACKET_FRAME));
	uint32_t longest = vfun_packet_longest(v->port.ring);
	struct rte_eth_link link = {
		.link_speed = RTE_ETH_SPEED_NUM_100G,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
	};

	/* What the peer does not take is not sent to it. */
	v->txq.tx.longest = frame && frame < longest ? (uint32_t)frame : longest;
	link.link_status = dev->data->dev_started && !v->is_down &&
		VFUN_PACKET_LOAD_ACQUIRE(their_word(v, VFUN_PACKET_STATE)) == VFUN_PACKET_UP;
	return rte_eth_linkstatus_set(dev, &link);
}

static void say(struct vfun_eth *v, int is_up)
{
	VFUN_PACKET_STORE(my_word(v, VFUN_PACKET_FRAME), (uint64_t)v->rxq.longest);
	VFUN_PACKET_STORE_RELEASE(my_word(v, VFUN_PACKET_STATE),
				  (uint64_t)(is_up ? VFUN_PACKET_UP : VFUN_PACKET_DOWN));
}

/* A peer that does not care for the state of the link gets nothing through either. */
static void set_down(struct vfun_eth *v, int is_down)
{
	v->is_down = is_down;
	__atomic_store_n(&v->rxq.is_down, is_down, __ATOMIC_RELAXED);
	__atomic_store_n(&v->txq.is_down, is_down, __ATOMIC_RELAXED);
}

static int vfun_set_link_up(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	set_down(v, 0);
	say(v, dev->data->dev_started);
	return 0;
}

static int vfun_set_link_down(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	set_down(v, 1);
	say(v, 0);
	return 0;
}

static int vfun_mtu_set(struct rte_eth_dev *dev, uint16_t mtu)
{
	struct vfun_eth *v = dev->data->dev_private;

	if ((uint32_t)mtu + OVERHEAD > vfun_packet_longest(v->port.ring))
		return -EINVAL;
	v->rxq.longest = mtu + OVERHEAD;
	say(v, dev->data->dev_started && !v->is_down);
	return 0;
}

static int vfun_start(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	dev->data->rx_queue_state[0] = RTE_ETH_QUEUE_STATE_STARTED;
	dev->data->tx_queue_state[0] = RTE_ETH_QUEUE_STATE_STARTED;
	say(v, !v->is_down);
	return 0;
}

static int vfun_stop(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	say(v, 0);
	dev->data->rx_queue_state[0] = RTE_ETH_QUEUE_STATE_STOPPED;
	dev->data->tx_queue_state[0] = RTE_ETH_QUEUE_STATE_STOPPED;
	return 0;
}

static int vfun_configure(struct rte_eth_dev *dev __rte_unused)
{
	return 0;
}

static int vfun_infos(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	struct vfun_eth *v = dev->data->dev_private;
	uint32_t longest = vfun_packet_longest(v->port.ring);

	info->if_index = 0;
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = longest;
	info->max_mtu = (uint16_t)RTE_MIN(longest - OVERHEAD, UINT16_MAX);
	info->min_mtu = RTE_ETHER_MIN_MTU;
	/* One ring each way. More of them would need an order between them. */
	info->max_rx_queues = 1;
	info->max_tx_queues = 1;
	info->min_rx_bufsize = 0;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	return 0;
}

static int vfun_rx_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t depth __rte_unused,
			 unsigned int socket __rte_unused,
			 const struct rte_eth_rxconf *conf __rte_unused, struct rte_mempool *pool)
{
	struct vfun_eth *v = dev->data->dev_private;

	rte_pktmbuf_free_bulk(v->rxq.spare, v->rxq.spares);
	v->rxq.spares = 0;
	v->rxq.pool = pool;
	v->rxq.port_id = dev->data->port_id;
	v->rxq.longest = dev->data->mtu + OVERHEAD;
	dev->data->rx_queues[queue] = &v->rxq;
	return 0;
}

static void vfun_rx_release(struct rte_eth_dev *dev, uint16_t queue __rte_unused)
{
	struct vfun_eth *v = dev->data->dev_private;

	rte_pktmbuf_free_bulk(v->rxq.spare, v->rxq.spares);
	v->rxq.spares = 0;
}

static int vfun_tx_setup(struct rte_eth_dev *dev, uint16_t queue, uint16_t depth __rte_unused,
			 unsigned int socket __rte_unused,
			 const struct rte_eth_txconf *conf __rte_unused)
{
	struct vfun_eth *v = dev->data->dev_private;

	dev->data->tx_queues[queue] = &v->txq;
	return 0;
}

/* Frames are never looked at: all of them come, whatever they are for. */
static int vfun_takes_all(struct rte_eth_dev *dev __rte_unused)
{
	return 0;
}

static int vfun_mac_set(struct rte_eth_dev *dev __rte_unused,
			struct rte_ether_addr *mac __rte_unused)
{
	return 0;
}

/* ---- counts --------------------------------------------------------- */

/* Since the port was made: they stand in its memory, and outlive this process. */
static void counts(struct vfun_eth *v, struct rte_eth_stats *s)
{
	s->ipackets = v->rxq.rx.taken;
	s->ibytes = v->rxq.rx.taken_bytes;
	s->ierrors = v->rxq.rx.bad + v->rxq.rx.refused;
	s->rx_nombuf = v->rxq.no_mbuf;
	s->opackets = v->txq.tx.sent;
	s->obytes = v->txq.tx.sent_bytes;
	s->oerrors = v->txq.tx.too_long;
}

static int vfun_stats(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	struct vfun_eth *v = dev->data->dev_private;
	const struct rte_eth_stats *b = &v->base;
	struct rte_eth_stats now;

	counts(v, &now);
	stats->ipackets = now.ipackets - b->ipackets;
	stats->ibytes = now.ibytes - b->ibytes;
	stats->ierrors = now.ierrors - b->ierrors;
	stats->rx_nombuf = now.rx_nombuf - b->rx_nombuf;
	stats->opackets = now.opackets - b->opackets;
	stats->obytes = now.obytes - b->obytes;
	stats->oerrors = now.oerrors - b->oerrors;
	return 0;
}

static int vfun_stats_reset(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	counts(v, &v->base);
	return 0;
}

/* ---- begin and end -------------------------------------------------- */

static int vfun_close(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	say(v, 0);
	vfun_rx_release(dev, 0);
	vfun_port_close(&v->port);
	/* It lies in our private part, which ethdev frees. */
	dev->data->mac_addrs = NULL;
	return 0;
}

static const struct eth_dev_ops vfun_ops = {
	.dev_configure = vfun_configure,
	.dev_start = vfun_start,
	.dev_stop = vfun_stop,
	.dev_close = vfun_close,
	.dev_infos_get = vfun_infos,
	.dev_set_link_up = vfun_set_link_up,
	.dev_set_link_down = vfun_set_link_down,
	.link_update = vfun_link_update,
	.mtu_set = vfun_mtu_set,
	.mac_addr_set = vfun_mac_set,
	.promiscuous_enable = vfun_takes_all,
	.promiscuous_disable = vfun_takes_all,
	.allmulticast_enable = vfun_takes_all,
	.allmulticast_disable = vfun_takes_all,
	.rx_queue_setup = vfun_rx_setup,
	.rx_queue_release = vfun_rx_release,
	.tx_queue_setup = vfun_tx_setup,
	.stats_get = vfun_stats,
	.stats_reset = vfun_stats_reset,
};

static const char *const vfun_args[] = { "socket", "port", "path", "mine", "theirs", "ring", NULL };

static int take_text(const char *key __rte_unused, const char *value, void *to)
{
	char **text = to;

	free(*text);
	*text = value ? strdup(value) : NULL;
	return *text ? 0 : -EINVAL;
}

static int take_number(const char *key, const char *value, void *to)
{
	char *end = NULL;

	errno = 0;
	*(uint64_t *)to = value && *value != '-' ? strtoull(value, &end, 0) : 0;
	if (end && end != value && !*end && !errno)
		return 0;
	LOG(ERR, "%s=%s is no number of bytes; write it as 4096 or 0x1000\n", key, value ? value : "");
	return -EINVAL;
}

static void place_free(struct vfun_port_place *p)
{
	free(p->socket);
	free(p->port);
	free(p->path);
}

static int place_of(const char *args, struct vfun_port_place *p)
{
	struct rte_kvargs *kv = rte_kvargs_parse(args, vfun_args);
	int bad;

	if (!kv) {
		LOG(ERR, "\"%s\" is not understood; known are socket, port, path, mine, theirs, ring\n",
		    args);
		return -EINVAL;
	}
	bad = rte_kvargs_process(kv, "socket", take_text, &p->socket) ||
	      rte_kvargs_process(kv, "port", take_text, &p->port) ||
	      rte_kvargs_process(kv, "path", take_text, &p->path) ||
	      rte_kvargs_process(kv, "mine", take_number, &p->mine) ||
	      rte_kvargs_process(kv, "theirs", take_number, &p->theirs) ||
	      rte_kvargs_process(kv, "ring", take_number, &p->ring);
	rte_kvargs_free(kv);
	return bad ? -EINVAL : 0;
}

/* The port is there: its ends begin where the last ones stopped. */
static void begin(struct rte_eth_dev *dev, const struct vfun_port *port)
{
	struct vfun_eth *v = dev->data->dev_private;

	v->port = *port;
	vfun_packet_rx_init(&v->rxq.rx, port->mine, port->theirs, port->ring);
	vfun_packet_tx_init(&v->txq.tx, port->mine, port->theirs, port->ring);
	rte_eth_random_addr(v->mac.addr_bytes);
	dev->data->mac_addrs = &v->mac;
	dev->data->promiscuous = 1;
	dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
	dev->dev_ops = &vfun_ops;
	dev->rx_pkt_burst = vfun_rx_burst;
	dev->tx_pkt_burst = vfun_tx_burst;
}

static int vfun_probe(struct rte_vdev_device *vdev)
{
	const char *name = rte_vdev_device_name(vdev);
	struct vfun_port_place place = { .mine = 0 };
	struct rte_eth_dev *dev;
	struct vfun_port port;
	unsigned int year, month;
	char error[256];
	int ret;

	/* What a driver is given by DPDK changes with each yearly release. */
	if (sscanf(rte_version(), "%*s %u.%u", &year, &month) != 2 ||
	    year != RTE_VER_YEAR || month != RTE_VER_MONTH) {
		LOG(ERR, "%s: built for DPDK %d.%02d and loaded by %s: install the one for that release\n",
		    name, RTE_VER_YEAR, RTE_VER_MONTH, rte_version());
		return -ENOTSUP;
	}
	if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
		LOG(ERR, "%s: only a primary process of DPDK can have a port\n", name);
		return -ENOTSUP;
	}
	ret = place_of(rte_vdev_device_args(vdev), &place);
	if (!ret && vfun_port_open(&port, &place, error, sizeof(error))) {
		LOG(ERR, "%s: %s\n", name, error);
		ret = -ENODEV;
	}
	place_free(&place);
	if (ret)
		return ret;
	dev = rte_eth_vdev_allocate(vdev, sizeof(struct vfun_eth));
	if (!dev) {
		LOG(ERR, "%s: DPDK has no room for one more port\n", name);
		vfun_port_close(&port);
		return -ENOMEM;
	}
	begin(dev, &port);
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int vfun_remove(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (!dev)
		return 0;
	vfun_close(dev);
	return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver vfun_driver = {
	.probe = vfun_probe,
	.remove = vfun_remove,
};

RTE_PMD_REGISTER_VDEV(net_vfun, vfun_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_vfun,
			      "socket=<path> port=<name> | "
			      "path=<file> mine=<byte> theirs=<byte> ring=<bytes>");
