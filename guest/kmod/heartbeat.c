// SPDX-License-Identifier: GPL-2.0
/*
 * Shows the host that sessions live (R-SES-2): one work for a device, which
 * sleeps while there is no session. It also notices, for programs that ask
 * nothing, that a window was made again.
 */

#include "vfun.h"
#include "window.h"

void vfun_beat(struct work_struct *work)
{
	struct vfun_device *dev = container_of(to_delayed_work(work),
					       struct vfun_device, beat_work);
	unsigned int next = VFUN_HEARTBEAT_MOST_MS;
	bool any = false;
	struct vfun_file *vf;
	int idx;

	if (!vfun_enter(dev->win, &idx))
		return;
	vfun_layout_check(dev);
	vfun_further_check(dev);
	vfun_ports_kick(dev);

	mutex_lock(&vfun_lock);
	list_for_each_entry(vf, &dev->files, list) {
		spin_lock(&vf->lock);
		/* Of another generation the line may be another's. */
		if (vf->state == VFUN_SESSION_OPEN &&
		    vf->generation == vfun_generation(dev)) {
			any = true;
			if (vf->heartbeat_ms) {
				vfun_add(dev->win, VFUN_SESSIONS_OFF +
					 vf->line * VFUN_LINE, 1);
				next = min(next, vf->heartbeat_ms / 2);
			}
		}
		spin_unlock(&vf->lock);
	}
	mutex_unlock(&vfun_lock);

	next = max_t(unsigned int, next, VFUN_HEARTBEAT_LEAST_MS);
	if (any)
		queue_delayed_work(system_freezable_wq, &dev->beat_work,
				   msecs_to_jiffies(next));
	vfun_leave(dev->win, idx);
}
