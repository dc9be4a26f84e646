// SPDX-License-Identifier: GPL-2.0
/*
 * Frames between socket buffers and a port's rings. A frame that is not whole (its checksum
 * is to be completed, or it is to be cut) has a note before it, for a party that takes such
 * frames (R-PKT-9).
 */

#include <linux/highmem.h>
#include <linux/virtio_net.h>

#include "port.h"

/* Frames that are longer lie in pages: so much in one piece is hard to get. */
#define VFUN_FRAME_ONE_PIECE 16384
/* All headers of theirs are in the first piece. */
#define VFUN_FRAME_FIRST_PIECE 256

/*
 * Copies a frame. By words where the processor does not say that it is quick with bytes
 * (FSRM): an emulated one does each step by itself, in an eighth of the time.
 */
static void copy(void *to, const void *from, unsigned int bytes)
{
#ifdef CONFIG_X86_64
	unsigned long words = bytes / 8;
	unsigned int last = bytes - 8;

	if (words && !boot_cpu_has(X86_FEATURE_FSRM)) {
		/* The rest, with what is copied below as well. */
		memcpy(to + last, from + last, 8);
		asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
		return;
	}
#endif
	memcpy(to, from, bytes);
}

/* Copies all of a socket buffer's pieces, none of which is another buffer. */
static void copy_pieces(const struct sk_buff *skb, void *memory, bool in)
{
	const skb_frag_t *frag = skb_shinfo(skb)->frags;
	u32 n, off, len, copied, done = skb_headlen(skb);
	struct page *page;
	void *piece;

	if (in)
		copy(skb->data, memory, done);
	else
		copy(memory, skb->data, done);
	for (n = 0; n < skb_shinfo(skb)->nr_frags; n++, frag++) {
		skb_frag_foreach_page(frag, skb_frag_off(frag), skb_frag_size(frag), page, off, len,
				      copied) {
			piece = kmap_local_page(page);
			if (in)
				copy(piece + off, memory + done, len);
			else
				copy(memory + done, piece + off, len);
			kunmap_local(piece);
			done += len;
		}
	}
}

/* ---- sending -------------------------------------------------------- */

/* What of a frame the host completes or cuts later. The caller holds no lock. */
netdev_features_t vfun_frame_features(struct sk_buff *skb, struct net_device *net,
				      netdev_features_t features)
{
	struct vfun_port *p = netdev_priv(net);
	u64 takes = READ_ONCE(p->takes);

	if (!(takes & VFUN_PACKET_TAKES_SUM))
		features &= ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
	if (!(takes & VFUN_PACKET_TAKES_TCP4))
		features &= ~NETIF_F_TSO;
	if (!(takes & VFUN_PACKET_TAKES_TCP6))
		features &= ~NETIF_F_TSO6;
	return vlan_features_check(skb, features);
}

/* What the host has to take for a note. */
static u64 asks(const struct virtio_net_hdr *note)
{
	u64 bits = VFUN_PACKET_TAKES_SUM;

	if (note->gso_type == VIRTIO_NET_HDR_GSO_TCPV4)
		bits |= VFUN_PACKET_TAKES_TCP4;
	else if (note->gso_type == VIRTIO_NET_HDR_GSO_TCPV6)
		bits |= VFUN_PACKET_TAKES_TCP6;
	else if (note->gso_type != VIRTIO_NET_HDR_GSO_NONE)
		bits = U64_MAX;
	return bits;
}

/*
 * Where a frame goes, whose note is written if it needs one; NULL: there is no room, or the
 * host takes it no more. Queue's lock; live.
 */
void *vfun_frame_place(struct vfun_port *p, const struct sk_buff *skb)
{
	struct virtio_net_hdr note;
	void *to;

	if (likely(skb->ip_summed != CHECKSUM_PARTIAL && !skb_is_gso(skb)))
		return vfun_linked_tx_put(&p->tx, skb->len);
	if (virtio_net_hdr_from_skb(skb, &note, true, false, 0) || (asks(&note) & ~p->takes))
		return NULL;
	to = vfun_linked_tx_put_noted(&p->tx, skb->len);
	if (!to)
		return NULL;
	BUILD_BUG_ON(sizeof(note) > VFUN_PACKET_NOTE_BYTES);
	memset(to, 0, VFUN_PACKET_NOTE_BYTES);
	memcpy(to, &note, sizeof(note));
	return to + VFUN_PACKET_NOTE_BYTES;
}

/* Copies a frame to its place. */
void vfun_frame_out(const struct sk_buff *skb, void *to)
{
	if (likely(!skb_has_frag_list(skb)))
		copy_pieces(skb, to, false);
	else if (unlikely(skb_copy_bits(skb, 0, to, skb->len)))
		memset(to, 0, skb->len);
}

/* ---- receiving ------------------------------------------------------ */

/* Room for a frame, or NULL. */
static struct sk_buff *room_for(struct vfun_port *p, u32 bytes)
{
	struct sk_buff *skb;
	int error;

	if (likely(bytes <= VFUN_FRAME_ONE_PIECE)) {
		skb = napi_alloc_skb(&p->napi, bytes);
		if (likely(skb))
			skb_put(skb, bytes);
		return skb;
	}
	skb = alloc_skb_with_frags(NET_SKB_PAD + NET_IP_ALIGN + VFUN_FRAME_FIRST_PIECE,
				   bytes - VFUN_FRAME_FIRST_PIECE, PAGE_ALLOC_COSTLY_ORDER, &error,
				   GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, NET_SKB_PAD + NET_IP_ALIGN);
	skb_put(skb, VFUN_FRAME_FIRST_PIECE);
	skb->data_len = bytes - VFUN_FRAME_FIRST_PIECE;
	skb->len += skb->data_len;
	return skb;
}

/* What a note says of a frame; false: it makes no sense. */
static bool heed(struct sk_buff *skb, const struct virtio_net_hdr *note)
{
	if (note->flags & ~(VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID))
		return false;
	if (note->flags & VIRTIO_NET_HDR_F_DATA_VALID)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	if (note->gso_type != VIRTIO_NET_HDR_GSO_NONE &&
	    note->gso_type != VIRTIO_NET_HDR_GSO_TCPV4 && note->gso_type != VIRTIO_NET_HDR_GSO_TCPV6)
		return false;
	return !virtio_net_hdr_to_skb(skb, note, true);
}

/*
 * A copy of a frame of so many bytes, those of its note not among them, which stands before it
 * if there is one; or NULL: it is dropped, and counted. p->lock.
 */
struct sk_buff *vfun_frame_in(struct vfun_port *p, const void *from, u32 bytes, const void *noted)
{
	u32 most = READ_ONCE(p->net->mtu) + VFUN_FRAME_MORE;
	struct virtio_net_hdr note = {};
	struct sk_buff *skb;

	if (noted) {
		memcpy(&note, noted, sizeof(note));
		/* The host may change it: it is not read again. */
		barrier();
		if (note.gso_type != VIRTIO_NET_HDR_GSO_NONE)
			most = U16_MAX + VFUN_FRAME_MORE;
	}
	if (bytes < ETH_HLEN || bytes > most) {
		p->net->stats.rx_length_errors++;
		p->net->stats.rx_errors++;
		return NULL;
	}
	skb = room_for(p, bytes);
	if (!skb) {
		p->net->stats.rx_dropped++;
		return NULL;
	}
	copy_pieces(skb, (void *)from, true);
	if (likely(!noted) || heed(skb, &note))
		return skb;
	kfree_skb(skb);
	p->net->stats.rx_frame_errors++;
	p->net->stats.rx_errors++;
	return NULL;
}

/* Which frames with notes this side takes, with these features: bits of the word TAKES. */
u64 vfun_frame_takes(const struct vfun_port *p, netdev_features_t features)
{
	if (!(features & NETIF_F_RXCSUM) || p->ring_bytes < VFUN_PACKET_NOTED_RING_MIN)
		return 0;
	return VFUN_PACKET_TAKES_SUM | VFUN_PACKET_TAKES_TCP4 | VFUN_PACKET_TAKES_TCP6;
}
