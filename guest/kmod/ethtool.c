// SPDX-License-Identifier: GPL-2.0
/* What ethtool says of a port: above all the counters of both sides. */

#include <linux/ethtool.h>

#include "port.h"

/* Counters of this side, in the order of own_counters(). */
static const char own_names[][ETH_GSTRING_LEN] = {
	"sent", "sent_bytes", "full", "long", "rings", "queue_stops",
	"taken", "taken_bytes", "refused", "bad", "rung", "channels",
	"link_out", "link_out_direct", "link_sent", "link_sent_bytes", "link_full",
	"link_rings",
	"link_in", "link_in_direct", "link_taken", "link_taken_bytes", "link_refused",
	"link_bad", "link_rung",
};

/* Words of the host's header of packets, and their names. */
static const struct {
	char name[ETH_GSTRING_LEN];
	unsigned int word;
} host_words[] = {
	{ "host_sent", VFUN_PACKET_SENT },
	{ "host_sent_bytes", VFUN_PACKET_SENT_BYTES },
	{ "host_full", VFUN_PACKET_FULL },
	{ "host_long", VFUN_PACKET_LONG },
	{ "host_taken", VFUN_PACKET_TAKEN },
	{ "host_taken_bytes", VFUN_PACKET_TAKEN_BYTES },
	{ "host_refused", VFUN_PACKET_REFUSED },
	{ "host_bad", VFUN_PACKET_BAD },
	{ "host_state", VFUN_PACKET_STATE },
	{ "host_frame", VFUN_PACKET_FRAME },
};

/* A word of the host's head page, behind those. */
static const char host_rang[ETH_GSTRING_LEN] = "host_rang";

#define OWN ARRAY_SIZE(own_names)
#define HOST ARRAY_SIZE(host_words)

static int get_sset_count(struct net_device *net, int set)
{
	return set == ETH_SS_STATS ? OWN + HOST + 1 : -EOPNOTSUPP;
}

static void get_strings(struct net_device *net, u32 set, u8 *data)
{
	unsigned int n;

	if (set != ETH_SS_STATS)
		return;
	memcpy(data, own_names, sizeof(own_names));
	data += sizeof(own_names);
	for (n = 0; n < HOST; n++, data += ETH_GSTRING_LEN)
		memcpy(data, host_words[n].name, ETH_GSTRING_LEN);
	memcpy(data, host_rang, ETH_GSTRING_LEN);
}

static void own_counters(const struct vfun_port *p, u64 *data)
{
	const u64 own[] = {
		p->tx.port.sent, p->tx.port.sent_bytes, p->tx.port.full,
		p->tx.port.too_long, p->rings, p->stops,
		p->rx.port.taken, p->rx.port.taken_bytes, p->rx.port.refused,
		p->rx.port.bad, READ_ONCE(p->rung), p->joined,
		/* Those of the last link stay when it is over. */
		p->out.win ? p->tx.number : 0,
		p->out.win && p->tx.path == VFUN_LINKED_LINK,
		p->tx.link.sent, p->tx.link.sent_bytes, p->tx.link.full, p->link_rings,
		p->in.win ? p->rx.number : 0, p->reads_link,
		p->rx.link.taken, p->rx.link.taken_bytes, p->rx.link.refused,
		p->rx.link.bad, READ_ONCE(p->link_rung),
	};

	BUILD_BUG_ON(ARRAY_SIZE(own) != OWN);
	memcpy(data, own, sizeof(own));
}

/* The host's are 0 while there is no channel. */
static void get_stats(struct net_device *net, struct ethtool_stats *stats, u64 *data)
{
	struct netdev_queue *queue = netdev_get_tx_queue(net, 0);
	struct vfun_port *p = netdev_priv(net);
	unsigned int n;

	memset(data, 0, (OWN + HOST + 1) * sizeof(*data));
	spin_lock_bh(&p->lock);
	__netif_tx_lock(queue, smp_processor_id());
	own_counters(p, data);
	if (p->live) {
		for (n = 0; n < HOST; n++)
			data[OWN + n] = VFUN_PACKET_LOAD(p->rx.port.theirs +
							 host_words[n].word);
		data[OWN + HOST] = VFUN_PACKET_LOAD(p->head + VFUN_QUEUES_HOST_RANG);
	}
	__netif_tx_unlock(queue);
	spin_unlock_bh(&p->lock);
}

static void get_drvinfo(struct net_device *net, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "vfun", sizeof(info->driver));
	strscpy(info->bus_info, dev_name(net->dev.parent), sizeof(info->bus_info));
}

/* Memory has no speed of its own to speak of. */
static int get_link_ksettings(struct net_device *net,
			      struct ethtool_link_ksettings *cmd)
{
	ethtool_link_ksettings_zero_link_mode(cmd, supported);
	ethtool_link_ksettings_zero_link_mode(cmd, advertising);
	cmd->base.speed = SPEED_UNKNOWN;
	cmd->base.duplex = DUPLEX_FULL;
	cmd->base.port = PORT_OTHER;
	cmd->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

const struct ethtool_ops vfun_ethtool_ops = {
	.get_drvinfo = get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = get_link_ksettings,
	.get_sset_count = get_sset_count,
	.get_strings = get_strings,
	.get_ethtool_stats = get_stats,
};
