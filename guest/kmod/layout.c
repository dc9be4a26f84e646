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

static const char *header_wrong(struct vfun_device *dev,
				const struct vfun_window_header *h)
{
	if (h->magic != VFUN_MAGIC)
		return "no magic";
	if (h->layout != VFUN_LAYOUT)
		return "layout";
	if (h->version_min > h->version_max || h->version_min > VFUN_VERSION ||
	    h->version_max < VFUN_VERSION_MIN)
		return "protocol version";
	if (h->window_bytes != dev->window_bytes)
		return "size";
	if (h->control_cells != VFUN_CONTROL_CELLS ||
	    h->sessions != VFUN_SESSIONS)
		return "counts";
	if (h->guest_page_off != VFUN_GUEST_PAGE_OFF ||
	    h->requests_off != VFUN_REQUESTS_OFF ||
	    h->answers_off != VFUN_ANSWERS_OFF || h->heap_off != VFUN_HEAP_OFF)
		return "offsets";
	if (!(h->features & VFUN_FEATURE_DOORBELL))
		return "features (no doorbell)";
	if (!h->vectors || h->vectors > VFUN_VECTORS ||
	    (dev->vectors && h->vectors > dev->vectors))
		return "count of vectors";
	if (!h->generation)
		return "generation";
	if (!name_good(h->client))
		return "client's name";
	return NULL;
}

/*
 * Copies the header once and checks the copy (R-WIN-2); what is wrong with it
 * else. -EAGAIN: the host is laying it out or has not begun (R-WIN-3).
 */
int vfun_layout_read(struct vfun_device *dev, struct vfun_window_header *h,
		     const char **wrong)
{
	u64 magic = vfun_load(dev, 0);

	memcpy(h, dev->window, sizeof(*h));
	h->magic = magic;
	*wrong = header_wrong(dev, h);
	/* An acquire keeps later loads behind it, not the copy before it. */
	smp_rmb();
	/* Laid out anew while it was copied. */
	if (vfun_load(dev, 0) != magic)
		return -EAGAIN;
	if (!*wrong)
		return 0;
	return magic ? -ENODEV : -EAGAIN;
}

/*
 * Looks whether the window is still the one we know. If it was laid out anew,
 * nothing of what programs had exists any more (R-WIN-5), and its pages may be
 * others' soon: they are taken away here, before any new channel can be asked
 * for. The caller is inside.
 */
int vfun_layout_check(struct vfun_device *dev)
{
	struct vfun_window_header h;
	const char *wrong;
	u64 generation;
	int ret;

	generation = READ_ONCE(dev->generation);
	if (generation && vfun_load(dev, 0) == VFUN_MAGIC &&
	    vfun_load(dev, offsetof(struct vfun_window_header, generation)) ==
	    generation)
		return 0;

	mutex_lock(&dev->layout_lock);
	ret = vfun_layout_read(dev, &h, &wrong);
	generation = ret ? 0 : h.generation;
	if (generation != dev->generation) {
		/*
		 * First of all, so that an ack of before, which is being looked
		 * at now, makes no channel live behind kill_of's back.
		 */
		WRITE_ONCE(dev->generation, 0);
		vfun_kill_of(dev, NULL, VFUN_BREAK_REASON_SHUTDOWN);
		if (ret == -ENODEV)
			dev_warn_ratelimited(&dev->pdev->dev,
					     "the window's header became wrong: %s\n",
					     wrong);
		WRITE_ONCE(dev->features, ret ? 0 : h.features);
		WRITE_ONCE(dev->generation, generation);
		vfun_wake_all(dev);
	}
	mutex_unlock(&dev->layout_lock);
	return ret ? -EAGAIN : 0;
}
