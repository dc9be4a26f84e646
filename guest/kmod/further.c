// SPDX-License-Identifier: GPL-2.0
/*
 * Further windows: data windows, which the host alone shares with this guest, and
 * links, which another guest shares. They come and go while control windows are
 * in use. A window is no one's until the table of a control window names its key
 * (R-WIN-12): the peer of a link writes all of the link's window, and so could
 * give its header any number and role, but it knows no other window's key.
 */

#include <linux/slab.h>

#include "vfun.h"
#include "window.h"

/* Added and removed under vfun_lock and map_sem. */
static LIST_HEAD(vfun_further);
/* Nodes, under vfun_lock. */
static LIST_HEAD(vfun_devices);

/*
 * The window that ranges of a node name by this number; NULL: none now. Under
 * vfun_lock or map_sem.
 */
struct vfun_window *vfun_window_find(struct vfun_device *dev, u16 index)
{
	struct vfun_window *win;

	if (!index)
		return dev->win;
	list_for_each_entry(win, &vfun_further, link)
		if (win->owner == dev && win->index == index)
			return win;
	return NULL;
}

/*
 * Copies one entry of a control window's table; false: there is none, or it is
 * being written. The caller is inside.
 */
static bool entry_read(struct vfun_device *dev, unsigned int n,
		       struct vfun_window_entry *e)
{
	u64 at = VFUN_WINDOWS_OFF + n * sizeof(*e), word[sizeof(*e) / 8];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(word); i++)
		word[i] = vfun_load(dev->win, at + 8 * i);
	memcpy(e, word, sizeof(*e));
	return e->index && !e->reserved && vfun_load(dev->win, at) == word[0];
}

/* The entry that names a window, of which this header was read. The caller is inside. */
static bool entry_of(struct vfun_device *dev, const struct vfun_window_header *h,
		     struct vfun_window_entry *e)
{
	unsigned int n;

	for (n = 0; n < VFUN_WINDOWS_MAX; n++)
		if (entry_read(dev, n, e) && e->key[0] == h->key[0] &&
		    e->key[1] == h->key[1])
			return e->role == h->role && e->bytes == h->window_bytes;
	return false;
}

/* All that had a range in it is over, and it is no one's. */
static void disown(struct vfun_window *win, unsigned int reason,
		   struct list_head *killed)
{
	vfun_links_gone(win, reason == VFUN_BREAK_REASON_DEVICE_GONE);
	win->owner = NULL;
	win->told = false;
	vfun_kill_areas(win, reason, killed);
}

/* Looks at one further window with the eyes of a node. */
static void look_at(struct vfun_device *dev, struct vfun_window *win,
		    struct list_head *killed)
{
	struct vfun_window_entry e = {};
	struct vfun_window_header h;
	const char *wrong;
	bool named;

	named = !vfun_layout_read(win, &h, &wrong) &&
		h.role != VFUN_ROLE_CONTROL && entry_of(dev, &h, &e);
	if (win->owner == dev) {
		if (named && e.index == win->index && h.role == win->role &&
		    h.generation == win->generation &&
		    !memcmp(h.key, win->key, sizeof(win->key)))
			return;
		disown(win, VFUN_BREAK_REASON_SHUTDOWN, killed);
	}
	if (!named || vfun_window_find(dev, e.index))
		return;
	vfun_layout_keep(win, &h);
	win->index = e.index;
	memcpy(win->key, h.key, sizeof(win->key));
	win->owner = dev;
	/* A port may wait for it. */
	if (win->role == VFUN_ROLE_LINK)
		vfun_ports_kick(dev);
	dev_info(&win->pdev->dev,
		 "VirtFun %s window %u of %s: %llu MiB, generation %llu\n",
		 win->role == VFUN_ROLE_DATA ? "data" : "link", win->index,
		 dev->name, win->bytes >> 20, win->generation);
}

/*
 * Looks which further windows are this node's now. Where one was made again,
 * or is named no more, all that had a range in it is over (R-WIN-5). Between
 * vfun_kill_begin and vfun_kill_end; the caller is inside the node's window.
 */
void vfun_further_look(struct vfun_device *dev, struct list_head *killed)
{
	struct vfun_window *win;

	/* What is gone gets nothing any more, whoever is still inside. */
	if (vfun_gone(dev))
		return;
	list_for_each_entry(win, &vfun_further, link)
		if (!win->owner || win->owner == dev)
			look_at(dev, win, killed);
}

/* The next window of a node that the host is to be told of; its key. */
static bool untold(struct vfun_device *dev, u64 key[2])
{
	struct vfun_window *win;
	bool found = false;

	mutex_lock(&vfun_lock);
	list_for_each_entry(win, &vfun_further, link) {
		if (win->owner != dev || win->told)
			continue;
		memcpy(key, win->key, sizeof(win->key));
		win->told = true;
		found = true;
		break;
	}
	mutex_unlock(&vfun_lock);
	return found;
}

/* The host could not be told: it is told later, if it is still so. */
static void not_told(struct vfun_device *dev, const u64 key[2])
{
	struct vfun_window *win;

	mutex_lock(&vfun_lock);
	list_for_each_entry(win, &vfun_further, link)
		if (win->owner == dev && win->key[0] == key[0] &&
		    win->key[1] == key[1])
			win->told = false;
	mutex_unlock(&vfun_lock);
}

/* Tells the host whether a window is here (R-WIN-13). The caller is inside. */
static int tell(struct vfun_device *dev, const u64 key[2], bool here,
		unsigned int timeout_ms)
{
	struct vfun_window_here body = { .key = { key[0], key[1] }, .here = here };
	struct vfun_exchange x = {
		.kind = VFUN_KIND_WINDOW,
		.body = &body,
		.body_len = sizeof(body),
		.generation = vfun_generation(dev),
		.timeout_ms = timeout_ms,
	};
	int ret;

	if (!x.generation)
		return -EAGAIN;
	x.answer = kmalloc(VFUN_ANSWER_BODY, GFP_KERNEL);
	if (!x.answer)
		return -ENOMEM;
	/* A nack says that the host has no such window any more. */
	ret = vfun_exchange(dev, &x);
	kfree(x.answer);
	return ret;
}

/*
 * What the host is to know of this node that no program asks: that sessions of a
 * module before this one are over, and which further windows are here. Where it
 * fails, the next heartbeat or the first HELLO tries again.
 */
void vfun_further_work(struct work_struct *work)
{
	struct vfun_device *dev = container_of(work, struct vfun_device,
					       host_work);
	LIST_HEAD(killed);
	u64 key[2];
	int idx;

	if (!vfun_enter(dev->win, &idx))
		return;
	if (vfun_ensure_reset(dev, VFUN_RESET_MS) ||
	    !(READ_ONCE(dev->win->features) & VFUN_FEATURE_WINDOWS))
		goto leave;
	vfun_kill_begin();
	vfun_further_look(dev, &killed);
	vfun_kill_end(&killed);
	while (untold(dev, key)) {
		if (tell(dev, key, true, VFUN_RESET_MS)) {
			not_told(dev, key);
			break;
		}
	}
leave:
	vfun_leave(dev->win, idx);
}

/* Looks at the windows of one node, and has the host told. The caller is inside. */
void vfun_further_check(struct vfun_device *dev)
{
	struct vfun_window *win;
	LIST_HEAD(killed);
	bool tell = false;

	vfun_kill_begin();
	vfun_further_look(dev, &killed);
	list_for_each_entry(win, &vfun_further, link)
		tell |= win->owner == dev && !win->told;
	vfun_kill_end(&killed);
	if (tell)
		queue_work(dev->wq, &dev->host_work);
}

/* Something changed that any node may be concerned with. */
void vfun_further_changed(void)
{
	struct vfun_device *dev;
	int idx;

	mutex_lock(&vfun_lock);
	list_for_each_entry(dev, &vfun_devices, node) {
		/* Inside, the queue of work is there. */
		if (!vfun_enter(dev->win, &idx))
			continue;
		queue_work(dev->wq, &dev->host_work);
		vfun_leave(dev->win, idx);
	}
	mutex_unlock(&vfun_lock);
}

/* Makes a further window, whose header was checked, known to all nodes. */
void vfun_further_add(struct vfun_window *win)
{
	mutex_lock(&vfun_lock);
	down_write(&vfun_map_sem);
	list_add_tail(&win->link, &vfun_further);
	up_write(&vfun_map_sem);
	mutex_unlock(&vfun_lock);
	vfun_further_changed();
}

/*
 * After it nobody can get at the window, no page of it is mapped, and the host
 * knows, if it is there. Channels with a range in it are over; their other
 * ranges with them.
 */
void vfun_further_remove(struct vfun_window *win)
{
	struct vfun_device *dev;
	LIST_HEAD(killed);
	bool told;
	int idx;

	vfun_proglinks_farewell(win);
	vfun_kill_begin();
	WRITE_ONCE(win->gone, true);
	list_del_init(&win->link);
	told = win->told;
	dev = win->owner;
	if (dev)
		kref_get(&dev->ref);
	disown(win, VFUN_BREAK_REASON_DEVICE_GONE, &killed);
	vfun_kill_end(&killed);
	if (!dev)
		return;
	if (told && vfun_enter(dev->win, &idx)) {
		tell(dev, win->key, false, VFUN_FAREWELL_MS);
		vfun_leave(dev->win, idx);
	}
	vfun_device_put(dev);
}

/*
 * The host gave a range in a window that is not here: it missed its end, and is
 * told. The caller is inside.
 */
void vfun_further_missing(struct vfun_device *dev, u16 index)
{
	struct vfun_window_entry e;
	struct vfun_window *win;
	unsigned int n = 0;

	while (!entry_read(dev, n, &e) || e.index != index)
		if (++n == VFUN_WINDOWS_MAX)
			return;
	tell(dev, (u64[2]){ e.key[0], e.key[1] }, false, VFUN_GOODBYE_MS);
	/* It may have come meanwhile. */
	mutex_lock(&vfun_lock);
	win = vfun_window_find(dev, index);
	if (win)
		win->told = false;
	mutex_unlock(&vfun_lock);
	queue_work(dev->wq, &dev->host_work);
}

/* Nothing is a node's, which is gone or was made again. Between vfun_kill_begin and _end. */
void vfun_further_forget(struct vfun_device *dev, unsigned int reason,
			 struct list_head *killed)
{
	struct vfun_window *win;

	list_for_each_entry(win, &vfun_further, link)
		if (win->owner == dev)
			disown(win, reason, killed);
}

/* A node that comes and goes. */
void vfun_further_node(struct vfun_device *dev, bool there)
{
	mutex_lock(&vfun_lock);
	if (there)
		list_add_tail(&dev->node, &vfun_devices);
	else
		list_del_init(&dev->node);
	mutex_unlock(&vfun_lock);
}
