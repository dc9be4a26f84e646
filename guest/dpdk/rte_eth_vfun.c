/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * net_vfun: a DPDK driver for ports of VirtFun, one source for both ends: for a switch
 * on the host (Open vSwitch with DPDK) and for DPDK programs in a VM. A port is two rings of
 * packets in shared memory (rules R-PKT of docs/protocol.md). Each frame is copied
 * once; no memory of the port ever gets into an mbuf.
 *
 * Here is what an application asks of a driver. vfun_burst.c is the data path, vfun_linked.c that in a VM,
 * vfun_memory.c takes memory and gives it back, vfun_talk.c hears from the host when,
 * vfun_links.c makes direct links between ports, vfun_link.c and vfun_sides.c check what comes from there, vfun_vm.c asks the host of a VM,
 * vfun_packet.h knows the rings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bus_vdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_kvargs.h>
#include <rte_version.h>

#include "vfun_eth.h"

RTE_LOG_REGISTER_DEFAULT(vfun_log, NOTICE);

/* ---- state ---------------------------------------------------------- */

static int vfun_link_update(struct rte_eth_dev *dev, int wait __rte_unused)
{
	return vfun_eth_look(dev->data->dev_private);
}

/* A peer that does not care for the state of the link gets nothing through either. */
static int set_down(struct vfun_eth *v, int is_down)
{
	void (*gate)(struct vfun_gate *g, uint32_t why) = is_down ? vfun_gate_shut : vfun_gate_open;

	pthread_mutex_lock(&v->lock);
	v->is_down = is_down;
	gate(&v->rxq.gate, VFUN_SHUT_DOWN);
	gate(&v->txq.gate, VFUN_SHUT_DOWN);
	vfun_eth_say(v);
	pthread_mutex_unlock(&v->lock);
	vfun_eth_look(v);
	return 0;
}

static int vfun_set_link_up(struct rte_eth_dev *dev)
{
	return set_down(dev->data->dev_private, 0);
}

static int vfun_set_link_down(struct rte_eth_dev *dev)
{
	return set_down(dev->data->dev_private, 1);
}

static int vfun_mtu_set(struct rte_eth_dev *dev, uint16_t mtu)
{
	struct vfun_eth *v = dev->data->dev_private;
	int ret = -EINVAL;

	pthread_mutex_lock(&v->lock);
	if ((uint32_t)mtu + VFUN_OVERHEAD <= vfun_eth_longest(v)) {
		v->rxq.longest = mtu + VFUN_OVERHEAD;
		vfun_eth_say(v);
		ret = 0;
	}
	pthread_mutex_unlock(&v->lock);
	return ret;
}

static void set_started(struct rte_eth_dev *dev, int is_started)
{
	struct vfun_eth *v = dev->data->dev_private;
	uint8_t state = is_started ? RTE_ETH_QUEUE_STATE_STARTED : RTE_ETH_QUEUE_STATE_STOPPED;

	dev->data->rx_queue_state[0] = state;
	dev->data->tx_queue_state[0] = state;
	pthread_mutex_lock(&v->lock);
	v->is_started = is_started;
	vfun_eth_say(v);
	pthread_mutex_unlock(&v->lock);
	vfun_eth_look(v);
}

static int vfun_start(struct rte_eth_dev *dev)
{
	set_started(dev, 1);
	return 0;
}

static int vfun_stop(struct rte_eth_dev *dev)
{
	set_started(dev, 0);
	return 0;
}

static int vfun_configure(struct rte_eth_dev *dev __rte_unused)
{
	return 0;
}

static int vfun_infos(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	struct vfun_eth *v = dev->data->dev_private;
	uint32_t longest, most_mtu;

	pthread_mutex_lock(&v->lock);
	longest = vfun_eth_longest(v);
	most_mtu = v->most_mtu ? v->most_mtu : UINT16_MAX;
	pthread_mutex_unlock(&v->lock);
	info->if_index = 0;
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = longest;
	info->max_mtu = (uint16_t)RTE_MIN(longest - VFUN_OVERHEAD, most_mtu);
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
	pthread_mutex_lock(&v->lock);
	v->rxq.longest = dev->data->mtu + VFUN_OVERHEAD;
	pthread_mutex_unlock(&v->lock);
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

/* Since the last reset. */
static void count_since(struct vfun_eth *v, struct vfun_counts *all)
{
	unsigned int i;

	vfun_links_count(v, all);
	for (i = 0; i < VFUN_COUNTS; i++)
		all->n[i] -= v->base.n[i];
}

static int vfun_stats(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	struct vfun_eth *v = dev->data->dev_private;
	struct vfun_counts all;

	count_since(v, &all);
	stats->ipackets = all.n[VFUN_IPACKETS];
	stats->ibytes = all.n[VFUN_IBYTES];
	stats->ierrors = all.n[VFUN_IERRORS];
	stats->rx_nombuf = all.n[VFUN_NO_MBUF];
	stats->opackets = all.n[VFUN_OPACKETS];
	stats->obytes = all.n[VFUN_OBYTES];
	stats->oerrors = all.n[VFUN_OERRORS];
	return 0;
}

static int vfun_stats_reset(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	vfun_links_count(v, &v->base);
	return 0;
}

/*
 * What went over direct links, which is in the other counts, too. Open vSwitch shows counts
 * with such names alone: of a queue, or of errors.
 */
static const struct {
	const char *name;
	unsigned int count;
} vfun_xstats[] = {
	{ "rx_q0_packets_direct", VFUN_DIRECT_IPACKETS },
	{ "rx_q0_bytes_direct", VFUN_DIRECT_IBYTES },
	{ "tx_q0_packets_direct", VFUN_DIRECT_OPACKETS },
	{ "tx_q0_bytes_direct", VFUN_DIRECT_OBYTES },
	{ "tx_direct_late_errors", VFUN_DIRECT_LATE },
	{ "tx_direct_behind_errors", VFUN_DIRECT_BEHIND },
};

static int vfun_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *stats, unsigned int room)
{
	struct vfun_counts all;
	unsigned int i;

	if (room < RTE_DIM(vfun_xstats))
		return RTE_DIM(vfun_xstats);
	count_since(dev->data->dev_private, &all);
	for (i = 0; i < RTE_DIM(vfun_xstats); i++)
		stats[i] = (struct rte_eth_xstat){ .id = i, .value = all.n[vfun_xstats[i].count] };
	return RTE_DIM(vfun_xstats);
}

static int vfun_xstats_names(struct rte_eth_dev *dev __rte_unused,
			     struct rte_eth_xstat_name *names, unsigned int room)
{
	unsigned int i;

	for (i = 0; names && i < RTE_DIM(vfun_xstats) && i < room; i++)
		snprintf(names[i].name, sizeof(names[i].name), "%s", vfun_xstats[i].name);
	return RTE_DIM(vfun_xstats);
}

/* ---- begin and end -------------------------------------------------- */

static int vfun_close(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	vfun_talk_end(v);
	vfun_rx_release(dev, 0);
	vfun_ringers_leave(v->ringers);
	pthread_mutex_destroy(&v->lock);
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
	.xstats_get = vfun_xstats_get,
	.xstats_get_names = vfun_xstats_names,
	.xstats_reset = vfun_stats_reset,
};

static const char *const vfun_args[] = {
	"socket", "port", "owner", "path", "mine", "theirs", "ring", "endpoint", NULL
};

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
	VFUN_LOG(ERR, "%s=%s is no number; write it as 4096 or 0x1000\n", key, value ? value : "");
	return -EINVAL;
}

static void place_free(struct vfun_port_place *p)
{
	free(p->socket);
	free(p->port);
	free(p->path);
	free(p->endpoint);
}

/* Whether the arguments name one place. */
static int is_one_place(const struct vfun_port_place *p)
{
	if (p->socket)
		return p->port && !p->path && !p->endpoint;
	if (p->path)
		return !p->port && !p->endpoint;
	return !p->is_more_said;
}

static int place_of(const char *args, struct vfun_port_place *p)
{
	struct rte_kvargs *kv = rte_kvargs_parse(args ? args : "", vfun_args);
	int bad;

	if (!kv) {
		VFUN_LOG(ERR, "\"%s\" is not understood; known are socket, port, owner, path, mine, theirs, ring, endpoint\n",
		    args);
		return -EINVAL;
	}
	bad = rte_kvargs_process(kv, "socket", take_text, &p->socket) ||
	      rte_kvargs_process(kv, "port", take_text, &p->port) ||
	      rte_kvargs_process(kv, "owner", take_number, &p->owner) ||
	      rte_kvargs_process(kv, "path", take_text, &p->path) ||
	      rte_kvargs_process(kv, "endpoint", take_text, &p->endpoint) ||
	      rte_kvargs_process(kv, "mine", take_number, &p->mine) ||
	      rte_kvargs_process(kv, "theirs", take_number, &p->theirs) ||
	      rte_kvargs_process(kv, "ring", take_number, &p->ring);
	p->is_more_said = rte_kvargs_count(kv, "owner") || rte_kvargs_count(kv, "mine") ||
		rte_kvargs_count(kv, "theirs") || rte_kvargs_count(kv, "ring");
	rte_kvargs_free(kv);
	if (!bad && !is_one_place(p)) {
		VFUN_LOG(ERR, "give socket= and port= on a host, path=, mine=, theirs= and ring= for a file, or in a VM port= and endpoint=, or nothing\n");
		return -EINVAL;
	}
	return bad ? -EINVAL : 0;
}

static void set_up(struct rte_eth_dev *dev)
{
	struct vfun_eth *v = dev->data->dev_private;

	v->dev = dev;
	v->ringers = vfun_ringers_new();
	v->talk.fd = -1;
	vfun_eth_init(v);
	rte_eth_random_addr(v->mac.addr_bytes);
	dev->data->mac_addrs = &v->mac;
	dev->data->promiscuous = 1;
	dev->data->dev_flags |= RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS | RTE_ETH_DEV_INTR_LSC;
	dev->dev_ops = &vfun_ops;
	dev->rx_pkt_burst = vfun_rx_burst;
	dev->tx_pkt_burst = vfun_tx_burst;
}

/* Gets the memory, or who will give it. */
static int begin(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e)
{
	const struct vfun_bell none = { .ringer = NULL };
	struct vfun_sides port;

	if (!v->ringers)
		return vfun_wrong(e, "no memory for one more device");
	if (place->socket) {
		v->rxq.stamp_at = v->txq.stamp_at = vfun_links_stamps();
		return vfun_talk_begin(v, place, e);
	}
	if (!place->path) {
		v->dev->rx_pkt_burst = vfun_linked_rx_burst;
		v->dev->tx_pkt_burst = vfun_linked_tx_burst;
		return vfun_talk_begin_vm(v, place, e);
	}
	if (vfun_sides_open(&port, place, e))
		return -1;
	vfun_eth_attach(v, &port, &none);
	return 0;
}

static int make(struct rte_vdev_device *vdev, struct vfun_port_place *place)
{
	const char *name = rte_vdev_device_name(vdev);
	struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct vfun_eth));
	struct vfun_error e;

	if (!dev) {
		VFUN_LOG(ERR, "%s: DPDK has no room for one more port\n", name);
		return -ENOMEM;
	}
	set_up(dev);
	if (begin(dev->data->dev_private, place, &e) || vfun_talk_run(dev->data->dev_private, &e)) {
		VFUN_LOG(ERR, "%s: %s\n", name, e.text);
		vfun_close(dev);
		rte_eth_dev_release_port(dev);
		return -ENODEV;
	}
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int vfun_probe(struct rte_vdev_device *vdev)
{
	struct vfun_port_place place = { .owner = geteuid() };
	const char *name = rte_vdev_device_name(vdev);
	unsigned int year, month;
	int ret;

	/* What a driver is given by DPDK changes with each yearly release. */
	if (sscanf(rte_version(), "%*s %u.%u", &year, &month) != 2 ||
	    year != RTE_VER_YEAR || month != RTE_VER_MONTH) {
		VFUN_LOG(ERR, "%s: built for DPDK %d.%02d and loaded by %s: install the one for that release\n",
			 name, RTE_VER_YEAR, RTE_VER_MONTH, rte_version());
		return -ENOTSUP;
	}
	if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
		VFUN_LOG(ERR, "%s: only a primary process of DPDK can have a port\n", name);
		return -ENOTSUP;
	}
	ret = place_of(rte_vdev_device_args(vdev), &place);
	if (!ret)
		ret = make(vdev, &place);
	place_free(&place);
	return ret;
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
			      "socket=<path> port=<name> owner=<uid> | "
			      "path=<file> mine=<byte> theirs=<byte> ring=<bytes> | "
			      "[port=<name>] [endpoint=<endpoint>]");
