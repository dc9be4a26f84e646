// SPDX-License-Identifier: GPL-2.0
/* Channels and buffers: from an ack that was checked to the last mapping's end. */

#include <linux/slab.h>

#include "compat.h"
#include "vfun.h"
#include "window.h"

/* Its ranges are copied, and checked when it goes live. */
struct vfun_channel *vfun_channel_new(struct vfun_file *vf, u64 handle,
				      const struct vfun_range *ranges,
				      unsigned int count)
{
	struct vfun_channel *ch;
	unsigned int i;

	ch = kzalloc(struct_size(ch, area, count), GFP_KERNEL_ACCOUNT);
	if (!ch)
		return NULL;
	kref_init(&ch->ref);
	ch->vf = vf;
	ch->handle = handle;
	ch->count = count;
	for (i = 0; i < count; i++) {
		ch->area[i].ch = ch;
		ch->area[i].range = ranges[i];
		if (!ch->head && ranges[i].access == VFUN_ACCESS_HOST_WRITES)
			ch->head = &ch->area[i];
	}
	init_waitqueue_head(&ch->wq);
	INIT_LIST_HEAD(&ch->rung);
	INIT_LIST_HEAD(&ch->live);
	INIT_LIST_HEAD(&ch->killed);
	INIT_LIST_HEAD(&ch->moved);
	return ch;
}

static void channel_free(struct kref *ref)
{
	struct vfun_channel *ch = container_of(ref, struct vfun_channel, ref);

	unsigned int way;

	WARN_ON(!list_empty(&ch->live));
	for (way = 0; way < VFUN_LINK_WAYS; way++)
		if (ch->link[way])
			vfun_channel_put(ch->link[way]);
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
		if (grant->what == VFUN_HOLDS_GRANT && grant->ch &&
		    grant->ch->handle == handle) {
			found = grant->ch;
			kref_get(&found->ref);
			break;
		}
	}
	spin_unlock(&vf->lock);
	return found;
}

/* Under bell_lock. */
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

/* A word of a channel's head page, which lies in the control window. */
static u64 head_word(const struct vfun_channel *ch, unsigned int n)
{
	return READ_ONCE(*vfun_word_at(ch->vf->dev->win,
				       ch->head->range.offset + 8 * n));
}

/*
 * Why the host has ended a channel; 0: it has not, or it is a buffer. What an
 * interrupt saw may be overwritten since. The caller is inside, and holds map_sem.
 */
unsigned int vfun_channel_ended(const struct vfun_channel *ch)
{
	u64 broken = READ_ONCE(ch->broken);

	if (!ch->head)
		return 0;
	if (!ended(broken))
		broken = head_word(ch, VFUN_IN_BROKEN);
	return ended(broken) ? broken : 0;
}

/* Whether the host says that it serves a channel no more. The caller is inside. */
bool vfun_channel_broken(const struct vfun_channel *ch)
{
	return READ_ONCE(ch->broken) || head_word(ch, VFUN_IN_BROKEN);
}

/*
 * Whether a ring of its vector was for this channel: the host moves NEWS on
 * before it rings (R-CHN-8). Under bell_lock.
 */
void vfun_channel_look(struct vfun_channel *ch)
{
	u64 news = head_word(ch, VFUN_IN_NEWS);
	u64 broken = head_word(ch, VFUN_IN_BROKEN);

	/* The page may be another channel's by now: what it said first counts. */
	if (ended(ch->broken))
		return;
	if (ended(broken))
		schedule_work(&ch->vf->dev->reap_work);
	else if (news == ch->news && broken == ch->broken) {
		if (ch->port)
			vfun_port_nudged(ch->port);
		return;
	}
	if (ch->port && broken != ch->broken)
		vfun_ports_kick(ch->vf->dev);
	ch->news = news;
	WRITE_ONCE(ch->broken, broken);
	vfun_channel_event(ch);
	if (ch->port)
		vfun_port_rung(ch->port);
}

/*
 * Checks a channel's ranges and makes it live, so that its file can map them.
 * -EPROTO: a range that cannot be; -ENXIO: its window is not here; -ENOENT: a
 * buffer whose grant has ended. The caller is inside.
 */
int vfun_channel_go_live(struct vfun_channel *ch, u64 generation)
{
	struct vfun_device *dev = ch->vf->dev;
	struct vfun_window *win = dev->win;
	unsigned long flags;
	LIST_HEAD(killed);
	int ret = 0;

	vfun_kill_begin();
	if (vfun_gone(dev))
		ret = -ENODEV;
	else if (generation != vfun_generation(dev))
		ret = -ESTALE;
	else if (ch->buffer && ch->grant && !vfun_grant_open(ch->vf, ch->grant))
		ret = -ENOENT;
	if (!ret) {
		vfun_further_look(dev, &killed);
		ret = vfun_areas_enter(ch, &killed);
	}
	if (!ret) {
		list_add_tail(&ch->live, &ch->vf->live);
		if (!ch->buffer) {
			spin_lock_irqsave(&win->bell_lock, flags);
			list_add_tail(&ch->rung, &win->rung[ch->vector_in]);
			spin_unlock_irqrestore(&win->bell_lock, flags);
		}
	}
	vfun_kill_end(&killed);
	return ret;
}
