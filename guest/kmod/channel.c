// SPDX-License-Identifier: GPL-2.0
/* Channels: from an ack that was checked to the last mapping's end. */

#include <linux/slab.h>

#include "compat.h"
#include "vfun.h"
#include "window.h"

static bool apart(u64 a, u64 a_bytes, u64 b, u64 b_bytes)
{
	return a + a_bytes <= b || b + b_bytes <= a;
}

/* R-CHN-1; and it is what was granted. */
bool vfun_geometry_good(struct vfun_device *dev, const struct vfun_geometry *g,
			const struct vfun_grant *grant)
{
	u64 side = vfun_side_bytes(g->depth, g->cell_bytes);

	if (!side || side != g->side_bytes || side > dev->window_bytes)
		return false;
	if (g->depth != grant->depth || g->cell_bytes != grant->cell_bytes)
		return false;
	if (g->kind != VFUN_CHANNEL_KIND_CALLS &&
	    g->kind != VFUN_CHANNEL_KIND_FLOOR)
		return false;
	if (g->dataout_off % VFUN_PAGE || g->datain_off % VFUN_PAGE)
		return false;
	if (g->dataout_off < VFUN_HEAP_OFF ||
	    g->dataout_off > dev->window_bytes - side ||
	    g->datain_off < VFUN_HEAP_OFF ||
	    g->datain_off > dev->window_bytes - side)
		return false;
	if (!apart(g->dataout_off, side, g->datain_off, side))
		return false;
	return g->vector_out < dev->vectors && g->vector_in < dev->vectors &&
	       !g->reserved;
}

struct vfun_channel *vfun_channel_new(struct vfun_file *vf, u64 handle,
				      const struct vfun_geometry *g)
{
	struct vfun_channel *ch = kzalloc(sizeof(*ch), GFP_KERNEL_ACCOUNT);

	if (!ch)
		return NULL;
	kref_init(&ch->ref);
	ch->vf = vf;
	ch->handle = handle;
	ch->dataout = g->dataout_off;
	ch->datain = g->datain_off;
	ch->side = g->side_bytes;
	ch->kind = g->kind;
	ch->vector_out = g->vector_out;
	ch->vector_in = g->vector_in;
	init_waitqueue_head(&ch->wq);
	INIT_LIST_HEAD(&ch->live);
	INIT_LIST_HEAD(&ch->killed);
	return ch;
}

static void channel_free(struct kref *ref)
{
	struct vfun_channel *ch = container_of(ref, struct vfun_channel, ref);

	WARN_ON(!list_empty(&ch->live));
	if (ch->eventfd)
		eventfd_ctx_put(ch->eventfd);
	kfree(ch);
}

void vfun_channel_put(struct vfun_channel *ch)
{
	kref_put(&ch->ref, channel_free);
}

/* A channel of this file with a reference, dead or alive. */
struct vfun_channel *vfun_channel_find(struct vfun_file *vf, u64 handle)
{
	struct vfun_channel *found = NULL;
	struct vfun_grant *grant;

	spin_lock(&vf->lock);
	list_for_each_entry(grant, &vf->grants, list) {
		if (grant->ch && grant->ch->handle == handle) {
			found = grant->ch;
			kref_get(&found->ref);
			break;
		}
	}
	spin_unlock(&vf->lock);
	return found;
}

/* Under chan_lock. */
void vfun_channel_event(struct vfun_channel *ch)
{
	atomic64_inc(&ch->events);
	wake_up_all(&ch->wq);
	wake_up_interruptible_poll(&ch->vf->poll_wq, EPOLLIN | EPOLLRDNORM);
	if (ch->eventfd)
		vfun_eventfd_signal(ch->eventfd);
}

/* The host has ended it, and may give its pages to others. */
static bool ended(u64 broken)
{
	return broken == VFUN_BREAK_REASON_RELEASED ||
	       broken == VFUN_BREAK_REASON_SHUTDOWN;
}

/*
 * Whether a ring of its vector was for this channel. The service moves CALLS on
 * before it rings. A floor channel counts no calls, so each ring may be its.
 * Under chan_lock.
 */
void vfun_channel_look(struct vfun_channel *ch)
{
	struct vfun_device *dev = ch->vf->dev;
	u64 calls = READ_ONCE(*vfun_word_at(dev, ch->datain + 8 * VFUN_IN_CALLS));
	u64 broken = READ_ONCE(*vfun_word_at(dev, ch->datain + 8 * VFUN_IN_BROKEN));

	/* The page may be another channel's by now: what it said first counts. */
	if (ended(ch->broken))
		return;
	if (ended(broken))
		schedule_work(&dev->reap_work);
	else if (calls == ch->calls && broken == ch->broken &&
		 ch->kind == VFUN_CHANNEL_KIND_CALLS)
		return;
	ch->calls = calls;
	WRITE_ONCE(ch->broken, broken);
	vfun_channel_event(ch);
}

/*
 * Marks a channel as over; kill_end takes its pages away, and then tells those
 * who wait for it. Under files_lock and map_sem (written).
 */
static void kill(struct vfun_device *dev, struct vfun_channel *ch,
		 unsigned int reason, struct list_head *killed)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->chan_lock, flags);
	if (!ch->dead) {
		WRITE_ONCE(ch->dead, reason);
		if (!list_empty(&ch->live)) {
			list_del_init(&ch->live);
			kref_get(&ch->ref);
			list_add(&ch->killed, killed);
		}
	}
	spin_unlock_irqrestore(&dev->chan_lock, flags);
}

static void kill_begin(struct vfun_device *dev)
{
	mutex_lock(&dev->files_lock);
	down_write(&dev->map_sem);
}

static void take_away(struct vfun_file *vf, u64 off, u64 bytes)
{
	unmap_mapping_range(vf->mapping, off, bytes, 1);
}

/* After map_sem was given back. */
static void kill_end(struct vfun_device *dev, struct list_head *killed)
{
	struct vfun_channel *ch, *next;
	unsigned long flags;

	/*
	 * From here on a fault finds the channel dead. Mappings of others at
	 * the same offsets lose their pages, too, and fault them in again.
	 */
	list_for_each_entry_safe(ch, next, killed, killed) {
		take_away(ch->vf, ch->dataout, ch->side);
		take_away(ch->vf, ch->datain, ch->side);
		spin_lock_irqsave(&dev->chan_lock, flags);
		vfun_channel_event(ch);
		spin_unlock_irqrestore(&dev->chan_lock, flags);
		list_del_init(&ch->killed);
		vfun_channel_put(ch);
	}
	mutex_unlock(&dev->files_lock);
}

/*
 * For who has seen that a channel or the device is over: returns when the
 * pages that said otherwise have been taken away.
 */
void vfun_kill_wait(struct vfun_device *dev)
{
	mutex_lock(&dev->files_lock);
	mutex_unlock(&dev->files_lock);
}

/* Ends one channel; after it no program can reach its pages. */
void vfun_kill_one(struct vfun_device *dev, struct vfun_channel *ch,
		   unsigned int reason)
{
	LIST_HEAD(killed);

	kill_begin(dev);
	kill(dev, ch, reason, &killed);
	up_write(&dev->map_sem);
	kill_end(dev, &killed);
}

static void kill_live(struct vfun_device *dev, struct vfun_file *vf,
		      unsigned int reason, struct list_head *killed)
{
	struct vfun_channel *ch, *next;
	unsigned int v;

	/* Only the holder of map_sem takes channels off these lists. */
	for (v = 0; v < VFUN_VECTORS; v++)
		list_for_each_entry_safe(ch, next, &dev->live[v], live)
			if (!vf || ch->vf == vf)
				kill(dev, ch, reason, killed);
}

/* Ends all channels of a file, or of all files. */
void vfun_kill_of(struct vfun_device *dev, struct vfun_file *vf,
		  unsigned int reason)
{
	LIST_HEAD(killed);

	kill_begin(dev);
	kill_live(dev, vf, reason, &killed);
	up_write(&dev->map_sem);
	kill_end(dev, &killed);
}

/*
 * The device is gone: nobody gets in, no file comes, all channels end, and
 * nobody sees the header any more.
 */
void vfun_kill_device(struct vfun_device *dev)
{
	struct vfun_file *vf;
	LIST_HEAD(killed);

	kill_begin(dev);
	WRITE_ONCE(dev->gone, true);
	kill_live(dev, NULL, VFUN_BREAK_REASON_DEVICE_GONE, &killed);
	up_write(&dev->map_sem);
	list_for_each_entry(vf, &dev->files, list)
		take_away(vf, 0, VFUN_PAGE);
	kill_end(dev, &killed);
}

/*
 * Puts a channel among the live ones. One that overlaps it is over, as the
 * host gave its pages out again: it is ended first. As a host must not do that
 * before it said so in BROKEN, which ends it as well (vfun_reap), and as two
 * acks may be looked at in another order than they were given, the new one is
 * refused, too: nobody shall get pages that may be another's. The caller is
 * inside.
 */
int vfun_channel_go_live(struct vfun_device *dev, struct vfun_channel *ch,
			 u64 generation)
{
	struct vfun_channel *old, *next;
	bool overlap = false;
	unsigned long flags;
	LIST_HEAD(killed);
	unsigned int v;
	int ret = 0;

	kill_begin(dev);
	for (v = 0; v < VFUN_VECTORS; v++) {
		list_for_each_entry_safe(old, next, &dev->live[v], live) {
			if (apart(ch->dataout, ch->side, old->dataout, old->side) &&
			    apart(ch->dataout, ch->side, old->datain, old->side) &&
			    apart(ch->datain, ch->side, old->dataout, old->side) &&
			    apart(ch->datain, ch->side, old->datain, old->side))
				continue;
			overlap = true;
			kill(dev, old, VFUN_BREAK_REASON_RELEASED, &killed);
		}
	}
	if (overlap) {
		ret = -EPROTO;
	} else if (READ_ONCE(dev->gone)) {
		ret = -ENODEV;
	} else if (generation != READ_ONCE(dev->generation)) {
		ret = -ESTALE;
	} else {
		spin_lock_irqsave(&dev->chan_lock, flags);
		list_add_tail(&ch->live, &dev->live[ch->vector_in]);
		spin_unlock_irqrestore(&dev->chan_lock, flags);
	}
	up_write(&dev->map_sem);
	kill_end(dev, &killed);
	return ret;
}

/*
 * Ends channels that the host has ended: it may give their pages to others
 * from then on. Those that are broken for another reason keep their pages, and
 * with them their answers, until they are released.
 */
void vfun_reap(struct work_struct *work)
{
	struct vfun_device *dev = container_of(work, struct vfun_device,
					       reap_work);
	struct vfun_channel *ch, *next;
	LIST_HEAD(killed);
	unsigned int v;
	int idx;

	if (!vfun_enter(dev, &idx))
		return;
	kill_begin(dev);
	for (v = 0; v < VFUN_VECTORS; v++) {
		list_for_each_entry_safe(ch, next, &dev->live[v], live) {
			/* What an interrupt saw may be overwritten since. */
			u64 broken = READ_ONCE(ch->broken);

			if (!ended(broken))
				broken = vfun_load(dev, ch->datain +
							8 * VFUN_IN_BROKEN);
			if (ended(broken))
				kill(dev, ch, broken, &killed);
		}
	}
	up_write(&dev->map_sem);
	kill_end(dev, &killed);
	vfun_leave(dev, idx);
}

/* Makes everybody who waits look again. */
void vfun_wake_all(struct vfun_device *dev)
{
	struct vfun_channel *ch;
	struct vfun_file *vf;
	unsigned long flags;
	unsigned int v;

	atomic64_inc(&dev->control_events);
	wake_up_all(&dev->control_wq);
	spin_lock_irqsave(&dev->chan_lock, flags);
	for (v = 0; v < VFUN_VECTORS; v++)
		list_for_each_entry(ch, &dev->live[v], live)
			vfun_channel_event(ch);
	spin_unlock_irqrestore(&dev->chan_lock, flags);

	mutex_lock(&dev->files_lock);
	list_for_each_entry(vf, &dev->files, list) {
		wake_up_all(&vf->request_wq);
		wake_up_all(&vf->poll_wq);
	}
	mutex_unlock(&dev->files_lock);
}
