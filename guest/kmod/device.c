// SPDX-License-Identifier: GPL-2.0
/* A node, with the control cells and sessions of its window. */

#include <linux/idr.h>
#include <linux/slab.h>

#include "vfun.h"

static DEFINE_IDA(vfun_ids);

static void device_free(struct kref *ref)
{
	struct vfun_device *dev = container_of(ref, struct vfun_device, ref);

	vfun_tables_keep(dev);
	vfun_window_put(dev->win);
	kfree(dev);
}

void vfun_device_put(struct vfun_device *dev)
{
	kref_put(&dev->ref, device_free);
}

static struct vfun_device *device_new(struct vfun_window *win)
{
	struct vfun_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	kref_init(&dev->ref);
	kref_get(&win->ref);
	dev->win = win;
	mutex_init(&dev->layout_lock);
	mutex_init(&dev->reset_lock);
	INIT_LIST_HEAD(&dev->files);
	init_waitqueue_head(&dev->control_wq);
	INIT_LIST_HEAD(&dev->node);
	INIT_WORK(&dev->host_work, vfun_further_work);
	INIT_WORK(&dev->reap_work, vfun_reap);
	INIT_DELAYED_WORK(&dev->beat_work, vfun_beat);
	INIT_DELAYED_WORK(&dev->tables_work, vfun_tables_ask);
	mutex_init(&dev->tables_lock);
	INIT_LIST_HEAD(&dev->tables);
	return dev;
}

/* Makes the node of a control window, whose header was checked. */
int vfun_device_add(struct vfun_window *win)
{
	struct vfun_device *dev = device_new(win);
	int ret;

	if (!dev)
		return -ENOMEM;
	ret = ida_alloc(&vfun_ids, GFP_KERNEL);
	if (ret < 0)
		goto put;
	dev->id = ret;
	snprintf(dev->name, sizeof(dev->name), "vfun%d", dev->id);
	ret = -ENOMEM;
	dev->wq = alloc_workqueue("%s", WQ_UNBOUND | WQ_FREEZABLE,
				  VFUN_REQUESTS_MAX, dev->name);
	if (!dev->wq)
		goto ida;
	ret = vfun_ports_new(dev);
	if (ret)
		goto wq;
	win->dev = dev;
	ret = vfun_bells_start(win, dev->name);
	if (ret)
		goto ports;

	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = dev->name;
	dev->misc.fops = &vfun_fops;
	dev->misc.parent = &win->pdev->dev;
	dev->misc.mode = 0660;
	ret = misc_register(&dev->misc);
	if (ret)
		goto bells;
	vfun_further_node(dev, true);
	/* The host may be slow or away, and probe shall not wait for it. */
	queue_work(dev->wq, &dev->host_work);
	vfun_ports_kick(dev);
	dev_info(&win->pdev->dev, "VirtFun window of %llu MiB, generation %llu: /dev/%s\n",
		 win->bytes >> 20, win->generation, dev->name);
	return 0;

bells:
	vfun_bells_stop(win);
ports:
	/* The interrupt handler may have made ports come, and they a session. */
	vfun_kill_device(dev);
	synchronize_srcu(&win->srcu);
	cancel_delayed_work_sync(&dev->beat_work);
	cancel_work_sync(&dev->reap_work);
	cancel_delayed_work_sync(&dev->tables_work);
	vfun_ports_stop(dev);
	win->dev = NULL;
	vfun_ports_free(dev);
wq:
	destroy_workqueue(dev->wq);
ida:
	ida_free(&vfun_ids, dev->id);
put:
	vfun_device_put(dev);
	return ret;
}

/*
 * Takes the window away from everybody: after it nobody is in it, nobody can
 * get in, no page of it is mapped, and the host knows, if it is there.
 */
void vfun_device_quiesce(struct vfun_device *dev)
{
	struct vfun_window *win = dev->win;

	/* Ends all waits; programs that touch their pages get others. */
	vfun_kill_device(dev);
	vfun_wake_all(dev);
	synchronize_srcu(&win->srcu);

	cancel_delayed_work_sync(&dev->beat_work);
	cancel_work_sync(&dev->reap_work);
	cancel_delayed_work_sync(&dev->tables_work);
	vfun_ports_stop(dev);
	destroy_workqueue(dev->wq);
	if (win->generation && pci_device_is_present(win->pdev))
		if (!vfun_reset(dev, VFUN_FAREWELL_MS, true))
			vfun_tables_farewell(dev);
	vfun_bells_stop(win);
	/* The interrupt handler may have asked for them once more. */
	cancel_work_sync(&dev->reap_work);
	vfun_ports_stop(dev);
}

/*
 * Programs may have the node open and pages mapped; they keep the device and
 * its window, and nothing of the PCI device.
 */
void vfun_device_remove(struct vfun_device *dev)
{
	misc_deregister(&dev->misc);
	vfun_device_quiesce(dev);
	vfun_ports_free(dev);
	vfun_further_node(dev, false);
	dev->win->dev = NULL;
	ida_free(&vfun_ids, dev->id);
	vfun_device_put(dev);
}
