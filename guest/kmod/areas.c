// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges in use: a tree for each window, in which no two overlap. What a range
 * is for does not matter here.
 */

#include <linux/interval_tree_generic.h>

#include "vfun.h"

DEFINE_MUTEX(vfun_lock);
DECLARE_RWSEM(vfun_map_sem);

static inline u64 first_byte(struct vfun_area *a)
{
	return a->range.offset;
}

static inline u64 last_byte(struct vfun_area *a)
{
	return a->range.offset + a->range.bytes - 1;
}

INTERVAL_TREE_DEFINE(struct vfun_area, rb, u64, last_below, first_byte, last_byte,
		     static inline, area_tree)

/* A range in use that has a byte between two, both among them. Under map_sem. */
struct vfun_area *vfun_area_first(struct vfun_window *win, u64 from, u64 last)
{
	return area_tree_iter_first(&win->areas, from, last);
}

/*
 * The range of this file that has all these bytes, its channel referenced; at
 * is an offset of mmap.
 */
struct vfun_area *vfun_area_of(struct vfun_file *vf, u64 at, u64 bytes)
{
	u64 from = at & (VFUN_MAP(1, 0) - 1);
	struct vfun_area *a = NULL;
	struct vfun_window *win;

	if (at >> VFUN_MAP_SHIFT > U16_MAX || bytes > VFUN_MAP(1, 0) - from)
		return NULL;
	down_read(&vfun_map_sem);
	win = vfun_window_find(vf->dev, at >> VFUN_MAP_SHIFT);
	if (win)
		a = vfun_area_first(win, from, from + bytes - 1);
	if (a && (a->ch->vf != vf || from < first_byte(a) ||
		  from + bytes - 1 > last_byte(a)))
		a = NULL;
	if (a)
		kref_get(&a->ch->ref);
	up_read(&vfun_map_sem);
	return a;
}

/* Takes a channel's ranges out of use. Under map_sem (written). */
void vfun_areas_leave(struct vfun_channel *ch)
{
	struct vfun_area *a;

	for (a = ch->area; a < ch->area + ch->count; a++) {
		if (!a->win)
			continue;
		area_tree_remove(a, &a->win->areas);
		vfun_window_put(a->win);
		a->win = NULL;
	}
}

/*
 * R-RNG-1; and -EPROTO where it overlaps one in use, which is over: the host
 * gave its pages out again.
 */
static int area_enter(struct vfun_area *a, struct list_head *killed)
{
	struct vfun_window *win = vfun_window_find(a->ch->vf->dev, a->range.window);
	struct vfun_area *old;
	int ret = 0;

	if (!win || !win->generation)
		return -ENXIO;
	if (!vfun_ranges_good(&a->range, 1, win->index, win->heap, win->bytes))
		return -EPROTO;
	while ((old = vfun_area_first(win, first_byte(a), last_byte(a)))) {
		ret = -EPROTO;
		if (old->ch == a->ch)
			break;
		vfun_kill(old->ch, VFUN_BREAK_REASON_RELEASED, killed);
	}
	if (ret)
		return ret;
	kref_get(&win->ref);
	a->win = win;
	area_tree_insert(a, &win->areas);
	return 0;
}

/*
 * Puts a channel's ranges in use, all or none. One that overlaps them is over,
 * as the host gave its pages out again: it is ended. As a host must not do that
 * before it said so in BROKEN, which ends it as well (vfun_reap), and as two
 * acks may be looked at in another order than they were given, the new one is
 * refused, too: nobody shall get pages that may be another's. Under vfun_lock
 * and map_sem (written).
 */
int vfun_areas_enter(struct vfun_channel *ch, struct list_head *killed)
{
	struct vfun_area *a;
	int ret = 0;

	for (a = ch->area; a < ch->area + ch->count && !ret; a++)
		ret = area_enter(a, killed);
	if (ret)
		vfun_areas_leave(ch);
	return ret;
}
