// SPDX-License-Identifier: GPL-2.0
/*
 * Link windows: memory that this guest shares with another. They come and go
 * while control windows are in use; ranges of every node may lie in them.
 */

#include "vfun.h"
#include "window.h"

/* Added and removed under vfun_lock and map_sem. */
static LIST_HEAD(vfun_links);

/*
 * The window that ranges of a node name by this number; NULL: none now. Under
 * vfun_lock or map_sem.
 */
struct vfun_window *vfun_window_find(struct vfun_device *dev, u16 index)
{
	struct vfun_window *win;

	if (index == dev->win->index)
		return dev->win;
	list_for_each_entry(win, &vfun_links, link)
		if (win->index == index)
			return win;
	return NULL;
}

/* Makes a link, whose header was checked, known to all nodes. */
int vfun_link_add(struct vfun_window *win)
{
	struct vfun_window *other;
	bool taken = false;

	mutex_lock(&vfun_lock);
	down_write(&vfun_map_sem);
	list_for_each_entry(other, &vfun_links, link)
		taken |= other->index == win->index;
	if (!taken)
		list_add_tail(&win->link, &vfun_links);
	up_write(&vfun_map_sem);
	mutex_unlock(&vfun_lock);
	if (taken) {
		dev_err(&win->pdev->dev,
			"there is a link window %u already, so this one is left alone; unplug one of the two\n",
			win->index);
		return -EEXIST;
	}
	dev_info(&win->pdev->dev,
		 "VirtFun link window %u of %llu MiB, generation %llu\n",
		 win->index, win->bytes >> 20, win->generation);
	return 0;
}

/*
 * After it nobody can get at the link, and no page of it is mapped. Channels
 * with a range in it are over; their other ranges with them.
 */
void vfun_link_remove(struct vfun_window *win)
{
	LIST_HEAD(killed);

	vfun_kill_begin();
	WRITE_ONCE(win->gone, true);
	list_del_init(&win->link);
	vfun_kill_areas(win, VFUN_BREAK_REASON_DEVICE_GONE, &killed);
	vfun_kill_end(&killed);
}

/* A link's generation now; 0: it is being laid out, or became wrong. */
static u64 generation_now(struct vfun_window *win)
{
	struct vfun_window_header h;
	const char *wrong;

	if (vfun_load(win, 0) == VFUN_MAGIC &&
	    vfun_load(win, offsetof(struct vfun_window_header, generation)) ==
	    win->generation)
		return win->generation;
	if (vfun_layout_read(win, &h, &wrong) || h.role != win->role ||
	    h.window_index != win->index)
		return 0;
	return h.generation;
}

/*
 * Looks whether links are still those that we know: where one was laid out
 * anew, all that had a range in it is over (R-WIN-5). Between vfun_kill_begin
 * and vfun_kill_end.
 */
void vfun_links_look(struct list_head *killed)
{
	struct vfun_window *win;
	u64 generation;

	list_for_each_entry(win, &vfun_links, link) {
		generation = generation_now(win);
		if (generation == win->generation)
			continue;
		WRITE_ONCE(win->generation, generation);
		vfun_kill_areas(win, VFUN_BREAK_REASON_SHUTDOWN, killed);
	}
}

/* The same, for who has nothing else to do. */
void vfun_links_check(void)
{
	LIST_HEAD(killed);

	vfun_kill_begin();
	vfun_links_look(&killed);
	vfun_kill_end(&killed);
}
