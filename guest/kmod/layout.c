// SPDX-License-Identifier: GPL-2.0
/* The window's header: what the host laid out, and when it did so anew. */

#include "vfun.h"
#include "window.h"

/* R-NAM-1, R-NAM-2. */
static bool name_good(const u8 *name)
{
	unsigned int i, len = strnlen((const char *)name, VFUN_NAME_BYTES);

	for (i = 0; i < len; i++) {
		u8 c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
			return false;
	}
	for (i = len; i < VFUN_NAME_BYTES; i++)
		if (name[i])
			return false;
	return len && name[0] != '.' && name[0] != '-';
}

/* What only a control window has. */
static const char *control_wrong(const struct vfun_window *win,
				 const struct vfun_window_header *h)
{
	if (h->control_cells != VFUN_CONTROL_CELLS ||
	    h->sessions != VFUN_SESSIONS)
		return "counts";
	if (h->guest_page_off != VFUN_GUEST_PAGE_OFF ||
	    h->requests_off != VFUN_REQUESTS_OFF ||
	    h->answers_off != VFUN_ANSWERS_OFF || h->heap_off != VFUN_HEAP_OFF)
		return "offsets";
	if (h->key[0] || h->key[1])
		return "key";
	if (!(h->features & VFUN_FEATURE_DOORBELL))
		return "features (no doorbell)";
	if (!h->vectors || (win->vectors && h->vectors > win->vectors))
		return "count of vectors";
	if (!name_good(h->client))
		return "client's name";
	return NULL;
}

/* R-WIN-11: nothing of control. */
static const char *further_wrong(const struct vfun_window_header *h)
{
	if (h->control_cells || h->sessions)
		return "counts";
	if (h->guest_page_off || h->requests_off || h->answers_off ||
	    h->heap_off != VFUN_FURTHER_HEAP_OFF)
		return "offsets";
	if (h->client_id || memchr_inv(h->client, 0, sizeof(h->client)))
		return "client";
	if (!h->key[0] && !h->key[1])
		return "key";
	return NULL;
}

static const char *header_wrong(const struct vfun_window *win,
				const struct vfun_window_header *h)
{
	if (h->magic != VFUN_MAGIC)
		return "no magic";
	if (h->layout != VFUN_LAYOUT)
		return "layout";
	if (h->version_min > h->version_max || h->version_min > VFUN_VERSION ||
	    h->version_max < VFUN_VERSION_MIN)
		return "protocol version";
	if (h->window_bytes != win->bytes)
		return "size";
	if (h->vectors > VFUN_VECTORS)
		return "count of vectors";
	if (!h->generation)
		return "generation";
	if (h->role == VFUN_ROLE_CONTROL)
		return control_wrong(win, h);
	if (h->role == VFUN_ROLE_LINK || h->role == VFUN_ROLE_DATA)
		return further_wrong(h);
	return "role";
}

/*
 * Copies the header once and checks the copy (R-WIN-2); what is wrong with it
 * else. -EAGAIN: the host is laying it out or has not begun (R-WIN-3).
 */
int vfun_layout_read(struct vfun_window *win, struct vfun_window_header *h,
		     const char **wrong)
{
	u64 magic = vfun_load(win, 0);

	memcpy(h, win->memory, sizeof(*h));
	h->magic = magic;
	*wrong = header_wrong(win, h);
	/* An acquire keeps later loads behind it, not the copy before it. */
	smp_rmb();
	/* Laid out anew while it was copied. */
	if (vfun_load(win, 0) != magic)
		return -EAGAIN;
	if (!*wrong)
		return 0;
	return magic ? -ENODEV : -EAGAIN;
}

/*
 * Says that the host has another layout. Every layout has its number where this
 * one has it, behind the same magic. True: it was that.
 */
bool vfun_layout_refused(struct vfun_window *win,
			 const struct vfun_window_header *h)
{
	if (h->magic != VFUN_MAGIC || h->layout == VFUN_LAYOUT)
		return false;
	dev_err_ratelimited(&win->pdev->dev,
			    "the window in BAR 2 has layout %u, and this module reads layout %u alone: update %s\n",
			    h->layout, VFUN_LAYOUT, h->layout < VFUN_LAYOUT ?
			    "VirtFun on the host (vfund)" :
			    "VirtFun in this guest (the package virtfun-guest-dkms)");
	return true;
}

/* What is known of a window from its header, which was checked. */
void vfun_layout_keep(struct vfun_window *win, const struct vfun_window_header *h)
{
	win->role = h->role;
	win->heap = h->heap_off;
	win->vectors = h->vectors;
	win->features = h->features;
	win->generation = h->generation;
}

/*
 * Looks whether the window is still the one we know. If it was made again,
 * nothing of what programs had exists any more (R-WIN-5), and its pages may be
 * others' soon: they are taken away here, before any new channel can be asked
 * for. The caller is inside.
 */
int vfun_layout_check(struct vfun_device *dev)
{
	struct vfun_window *win = dev->win;
	struct vfun_window_header h;
	const char *wrong;
	u64 generation;
	int ret;

	generation = vfun_generation(dev);
	if (generation && vfun_load(win, 0) == VFUN_MAGIC &&
	    vfun_load(win, offsetof(struct vfun_window_header, generation)) ==
	    generation)
		return 0;

	mutex_lock(&dev->layout_lock);
	ret = vfun_layout_read(win, &h, &wrong);
	if (!ret && h.role != win->role) {
		wrong = "role";
		ret = -ENODEV;
	}
	generation = ret ? 0 : h.generation;
	if (generation != win->generation) {
		/*
		 * First of all, so that an ack of before, which is being looked
		 * at now, makes no channel live behind its back.
		 */
		WRITE_ONCE(win->generation, 0);
		vfun_kill_files(dev, VFUN_BREAK_REASON_SHUTDOWN);
		if (ret == -ENODEV && !vfun_layout_refused(win, &h))
			dev_warn_ratelimited(&win->pdev->dev,
					     "the window's header became wrong: %s\n",
					     wrong);
		WRITE_ONCE(win->features, ret ? 0 : h.features);
		WRITE_ONCE(win->generation, generation);
		vfun_wake_all(dev);
		/* The host is to know again which windows are here. */
		queue_work(dev->wq, &dev->host_work);
	}
	mutex_unlock(&dev->layout_lock);
	return ret ? -EAGAIN : 0;
}
