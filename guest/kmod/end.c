// SPDX-License-Identifier: GPL-2.0
/*
 * The end of channels and buffers: their pages are taken away from programs
 * before anybody else can have them.
 */

#include "vfun.h"

void vfun_kill_begin(void)
{
	mutex_lock(&vfun_lock);
	down_write(&vfun_map_sem);
}

/*
 * Marks a channel as over; vfun_kill_end takes its pages away, and then tells
 * those who wait for it. Between vfun_kill_begin and that.
 */
void vfun_kill(struct vfun_channel *ch, unsigned int reason,
	       struct list_head *killed)
{
	struct vfun_window *win = ch->vf->dev->win;
	unsigned long flags;

	if (ch->dead)
		return;
	if (ch->port) {
		vfun_port_cut(ch->port, false);
		vfun_ports_kick(ch->vf->dev);
	}
	spin_lock_irqsave(&win->bell_lock, flags);
	WRITE_ONCE(ch->dead, reason);
	list_del_init(&ch->rung);
	spin_unlock_irqrestore(&win->bell_lock, flags);
	if (list_empty(&ch->live))
		return;
	list_del_init(&ch->live);
	vfun_areas_leave(ch);
	kref_get(&ch->ref);
	list_add(&ch->killed, killed);
}

/* Buffers that belong to a grant. */
static void kill_buffers(struct vfun_file *vf, u64 grant, unsigned int reason,
			 struct list_head *killed)
{
	struct vfun_channel *ch, *next;

	list_for_each_entry_safe(ch, next, &vf->live, live)
		if (ch->buffer && ch->grant == grant)
			vfun_kill(ch, reason, killed);
}

static void take_away(struct vfun_channel *ch)
{
	struct vfun_area *a;

	/* The module's own session: vfun_kill stopped who uses its channels. */
	if (!ch->vf->mapping)
		return;
	for (a = ch->area; a < ch->area + ch->count; a++)
		unmap_mapping_range(ch->vf->mapping,
				    VFUN_MAP(a->range.window, a->range.offset),
				    a->range.bytes, 1);
}

void vfun_kill_end(struct list_head *killed)
{
	struct vfun_channel *ch, *next;
	struct vfun_window *win;
	unsigned long flags;

	/* What is added meanwhile is added in front. */
	list_for_each_entry(ch, killed, killed)
		if (!ch->buffer)
			kill_buffers(ch->vf, ch->grant, ch->dead, killed);
	/* What programs moved into it stays theirs: no fault comes between. */
	list_for_each_entry(ch, killed, killed) {
		if (list_empty(&ch->moved))
			continue;
		take_away(ch);
		vfun_moved_rescue(ch);
	}
	up_write(&vfun_map_sem);
	/*
	 * From here on a fault finds the channel dead. Mappings of others at
	 * the same offsets lose their pages, too, and fault them in again.
	 */
	list_for_each_entry_safe(ch, next, killed, killed) {
		win = ch->vf->dev->win;
		take_away(ch);
		spin_lock_irqsave(&win->bell_lock, flags);
		vfun_channel_event(ch);
		spin_unlock_irqrestore(&win->bell_lock, flags);
		list_del_init(&ch->killed);
		if (ch->buffer)
			vfun_buffer_over(ch);
		vfun_channel_put(ch);
	}
	mutex_unlock(&vfun_lock);
}

/*
 * For who has seen that a channel or the device is over: returns when the
 * pages that said otherwise have been taken away.
 */
void vfun_kill_wait(void)
{
	mutex_lock(&vfun_lock);
	mutex_unlock(&vfun_lock);
}

/* Ends one channel or buffer; after it no program can reach its pages. */
void vfun_kill_one(struct vfun_channel *ch, unsigned int reason)
{
	LIST_HEAD(killed);

	vfun_kill_begin();
	vfun_kill(ch, reason, &killed);
	vfun_kill_end(&killed);
}

static void kill_live(struct vfun_file *vf, unsigned int reason,
		      struct list_head *killed)
{
	struct vfun_channel *ch, *next;

	list_for_each_entry_safe(ch, next, &vf->live, live)
		vfun_kill(ch, reason, killed);
}

/* Ends all that belongs to a grant, which is given back. */
void vfun_kill_grant(struct vfun_file *vf, u64 grant)
{
	struct vfun_channel *ch, *next;
	LIST_HEAD(killed);

	vfun_kill_begin();
	list_for_each_entry_safe(ch, next, &vf->live, live)
		if (ch->grant == grant)
			vfun_kill(ch, VFUN_BREAK_REASON_RELEASED, &killed);
	vfun_kill_end(&killed);
}

/* Ends all that a file has. */
void vfun_kill_file(struct vfun_file *vf, unsigned int reason)
{
	LIST_HEAD(killed);

	vfun_kill_begin();
	kill_live(vf, reason, &killed);
	vfun_kill_end(&killed);
}

/* Ends all that the files of a node have. */
void vfun_kill_files(struct vfun_device *dev, unsigned int reason)
{
	struct vfun_file *vf;
	LIST_HEAD(killed);

	vfun_kill_begin();
	list_for_each_entry(vf, &dev->files, list)
		kill_live(vf, reason, &killed);
	vfun_further_forget(dev, reason, &killed);
	vfun_kill_end(&killed);
}

/*
 * The device is gone: nobody gets in, no file comes, all channels end, and
 * nobody sees the header any more.
 */
void vfun_kill_device(struct vfun_device *dev)
{
	struct vfun_file *vf;
	LIST_HEAD(killed);

	vfun_kill_begin();
	WRITE_ONCE(dev->win->gone, true);
	list_for_each_entry(vf, &dev->files, list) {
		kill_live(vf, VFUN_BREAK_REASON_DEVICE_GONE, &killed);
		if (vf->mapping)
			unmap_mapping_range(vf->mapping, VFUN_MAP(0, 0),
					    VFUN_PAGE, 1);
	}
	vfun_further_forget(dev, VFUN_BREAK_REASON_DEVICE_GONE, &killed);
	vfun_kill_end(&killed);
}

/* Ends all that has a range in a window. Between vfun_kill_begin and _end. */
void vfun_kill_areas(struct vfun_window *win, unsigned int reason,
		     struct list_head *killed)
{
	struct vfun_area *a;

	while ((a = vfun_area_first(win, 0, U64_MAX)))
		vfun_kill(a->ch, reason, killed);
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
	struct vfun_file *vf;
	unsigned int reason;
	LIST_HEAD(killed);
	int idx;

	if (!vfun_enter(dev->win, &idx))
		return;
	vfun_kill_begin();
	list_for_each_entry(vf, &dev->files, list) {
		list_for_each_entry_safe(ch, next, &vf->live, live) {
			reason = vfun_channel_ended(ch);
			if (reason)
				vfun_kill(ch, reason, &killed);
		}
	}
	vfun_kill_end(&killed);
	vfun_leave(dev->win, idx);
}

/* Makes everybody who waits look again. */
void vfun_wake_all(struct vfun_device *dev)
{
	struct vfun_window *win = dev->win;
	struct vfun_channel *ch;
	struct vfun_file *vf;
	unsigned long flags;
	unsigned int v;

	vfun_control_rung(dev);
	vfun_ports_kick(dev);
	spin_lock_irqsave(&win->bell_lock, flags);
	for (v = 0; v < VFUN_VECTORS; v++)
		list_for_each_entry(ch, &win->rung[v], rung)
			vfun_channel_event(ch);
	spin_unlock_irqrestore(&win->bell_lock, flags);

	mutex_lock(&vfun_lock);
	list_for_each_entry(vf, &dev->files, list) {
		wake_up_all(&vf->request_wq);
		wake_up_all(&vf->poll_wq);
	}
	mutex_unlock(&vfun_lock);
}
