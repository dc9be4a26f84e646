// SPDX-License-Identifier: GPL-2.0
/*
 * Direct links of ports that programs have: a program's file gets the two sides of a link
 * that the host names on its page of the port, and nothing else of the link's window.
 *
 * A link's memory is a channel without bells, of two ranges, that belongs to the port's
 * grant: it ends with that, with its window, or when its program has left it both ways.
 */

#include <linux/delay.h>

#include "port.h"
#include "window.h"

/* Between two looks whether programs have let go of a window. */
#define LOOK_MS 10

/* The host's page of a port. Under map_sem, with a channel that is not dead. */
static const u64 *page_of(const struct vfun_channel *ch)
{
	const struct vfun_area *a = &ch->area[1];

	return a->win->memory + a->range.offset + VFUN_PACKETS_SIDE_OFF;
}

/* Whether a channel has the memory at a place. */
static bool is_at(const struct vfun_channel *l, const struct vfun_link_place *at)
{
	const struct vfun_range *mine = &l->area[0].range, *theirs = &l->area[1].range;

	return !l->dead && mine->window == at->window && mine->offset == at->mine &&
	       theirs->offset == at->theirs && mine->bytes == VFUN_PACKET_RING_OFF + at->ring;
}

/* Whether a network interface of the kernel uses links of this window. Under map_sem. */
static bool kernel_has(struct vfun_window *win)
{
	struct vfun_channel *ch;
	struct vfun_file *vf;

	list_for_each_entry(vf, &win->owner->files, list)
		list_for_each_entry(ch, &vf->live, live)
			if (ch->port && (ch->port->out.win == win || ch->port->in.win == win))
				return true;
	return false;
}

/* Memory at a place, which nobody has. */
static int begin(struct vfun_channel *l, const struct vfun_channel *ch,
		 struct vfun_window *win, const struct vfun_link_place *at,
		 struct list_head *killed)
{
	unsigned int n;
	int ret;

	/* The one that comes next would end it. */
	if (vfun_area_first(win, min(at->mine, at->theirs), at->end - 1) || kernel_has(win))
		return -EBUSY;
	for (n = 0; n < 2; n++)
		l->area[n].range = (struct vfun_range){
			.window = at->window,
			.access = n ? VFUN_ACCESS_HOST_WRITES : VFUN_ACCESS_APP_WRITES,
			.offset = n ? at->theirs : at->mine,
			.bytes = VFUN_PACKET_RING_OFF + at->ring,
		};
	l->buffer = true;
	l->grant = ch->grant;
	ret = vfun_areas_enter(l, killed);
	if (!ret)
		list_add_tail(&l->live, &l->vf->live);
	return ret;
}

/* A way has this memory now (NULL: none); what neither way has is over. */
static void have(struct vfun_channel *ch, unsigned int way, struct vfun_channel *l,
		 struct list_head *killed)
{
	struct vfun_channel *old = ch->link[way];

	if (l)
		kref_get(&l->ref);
	ch->link[way] = l;
	if (!old)
		return;
	if (old != ch->link[VFUN_LINK_OUT] && old != ch->link[VFUN_LINK_IN])
		vfun_kill(old, VFUN_BREAK_REASON_RELEASED, killed);
	vfun_channel_put(old);
}

/* The memory of the link that the host names; `fresh` is used where there is none yet. */
static int take(struct vfun_channel *ch, struct vfun_ioc_link *l,
		struct vfun_channel *fresh, struct list_head *killed)
{
	struct vfun_channel *found = NULL;
	struct vfun_link_place at;
	struct vfun_link_said s;
	struct vfun_window *win;
	unsigned int way;
	const char *why;
	int ret;

	/* What changes now is found by the next look. */
	if (!vfun_link_read(page_of(ch), l->way == VFUN_LINK_OUT, &s) || !s.number)
		return -ENODATA;
	win = vfun_link_window(ch->vf->dev, ch->ring_bytes, &s, &at, &why);
	if (!win)
		return at.window && !vfun_window_find(ch->vf->dev, at.window) ? -ENXIO : -EPROTO;
	for (way = 0; way < VFUN_LINK_WAYS; way++)
		if (ch->link[way] && is_at(ch->link[way], &at))
			found = ch->link[way];
	if (found && found->leaving)
		return -ENXIO;
	/* What this way had first: it may lie in the same window. */
	have(ch, l->way, found, killed);
	if (!found) {
		ret = begin(fresh, ch, win, &at, killed);
		if (ret)
			return ret;
		have(ch, l->way, fresh, killed);
	}
	l->number = s.number;
	l->mine = VFUN_MAP(at.window, at.mine);
	l->theirs = VFUN_MAP(at.window, at.theirs);
	l->ring_bytes = at.ring;
	return 0;
}

/* The link that is to be used now. */
static int ask(const struct vfun_channel *ch, struct vfun_ioc_link *l)
{
	const struct vfun_channel *has = ch->link[l->way];
	struct vfun_link_place at;
	struct vfun_link_said s;

	l->number = 0;
	if (!vfun_link_read(page_of(ch), l->way == VFUN_LINK_OUT, &s))
		return -EAGAIN;
	/* Whether there is such memory is for TAKE to say. */
	if (!has || (!has->leaving && vfun_link_place_read(&at, s.place) && is_at(has, &at)))
		l->number = s.number;
	return 0;
}

static int ring(const struct vfun_channel *ch)
{
	const struct vfun_channel *has = ch->link[VFUN_LINK_OUT];
	struct vfun_link_said s;

	if (!has || has->dead || !vfun_link_read(page_of(ch), true, &s) || !s.bell ||
	    s.bell > U32_MAX)
		return -ENODATA;
	vfun_ring_peer(ch->vf->dev->win, s.bell);
	return 0;
}

/* What does not change who has which memory. The caller is inside. */
static int look(struct vfun_channel *ch, struct vfun_ioc_link *l)
{
	int ret = -EPIPE;

	down_read(&vfun_map_sem);
	if (!ch->dead && !vfun_channel_ended(ch))
		ret = l->word == VFUN_LINK_RING ? ring(ch) : ask(ch, l);
	up_read(&vfun_map_sem);
	return ret;
}

/* The caller is inside. */
static int change(struct vfun_channel *ch, struct vfun_ioc_link *l)
{
	const struct vfun_range none[2] = {};
	struct vfun_channel *fresh;
	LIST_HEAD(killed);
	int ret = -EPIPE;

	fresh = vfun_channel_new(ch->vf, 0, none, 2);
	if (!fresh)
		return -ENOMEM;
	vfun_kill_begin();
	if (!ch->dead && !vfun_channel_ended(ch)) {
		ret = 0;
		if (l->word == VFUN_LINK_TAKE)
			ret = take(ch, l, fresh, &killed);
		else
			have(ch, l->way, NULL, &killed);
	}
	vfun_kill_end(&killed);
	vfun_channel_put(fresh);
	return ret;
}

long vfun_ioc_link(struct vfun_file *vf, struct vfun_ioc_link __user *arg)
{
	struct vfun_ioc_link l;
	struct vfun_channel *ch;
	long ret = -EINVAL;
	int idx;

	if (copy_from_user(&l, arg, sizeof(l)))
		return -EFAULT;
	if (l.way >= VFUN_LINK_WAYS || l.word > VFUN_LINK_RING)
		return -EINVAL;
	if (!vfun_enter(vf->dev->win, &idx))
		return -ENODEV;
	ch = vfun_channel_find(vf, l.channel);
	if (!ch) {
		ret = -ENOENT;
	} else {
		if (ch->ring_bytes && (l.word == VFUN_LINK_ASK || l.word == VFUN_LINK_RING))
			ret = look(ch, &l);
		else if (ch->ring_bytes)
			ret = change(ch, &l);
		vfun_channel_put(ch);
	}
	vfun_leave(vf->dev->win, idx);
	return ret ?: copy_to_user(arg, &l, sizeof(l)) ? -EFAULT : 0;
}

/* Whether programs have memory in a window. Asks them to let go of it. */
static bool asked_to_leave(struct vfun_window *win)
{
	struct vfun_channel *ch;
	struct vfun_file *vf;
	bool found = false;

	mutex_lock(&vfun_lock);
	down_read(&vfun_map_sem);
	if (win->owner && win->role == VFUN_ROLE_LINK) {
		list_for_each_entry(vf, &win->owner->files, list) {
			list_for_each_entry(ch, &vf->live, live) {
				/* Buffers of the host's have one range. */
				if (!ch->buffer || ch->count != 2 || ch->area[0].win != win)
					continue;
				WRITE_ONCE(ch->leaving, true);
				found = true;
			}
		}
	}
	up_read(&vfun_map_sem);
	mutex_unlock(&vfun_lock);
	return found;
}

/*
 * A window is about to go: programs come back from its links, so that their frames are not
 * lost. One that does not hear of it loses them.
 */
void vfun_proglinks_farewell(struct vfun_window *win)
{
	unsigned int ms;

	for (ms = 0; ms < VFUN_LINK_FAREWELL_MS && asked_to_leave(win); ms += LOOK_MS)
		msleep(LOOK_MS);
}
