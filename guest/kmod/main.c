// SPDX-License-Identifier: GPL-2.0
/*
 * VirtFun's module for guests: the driver of QEMU's ivshmem-doorbell device
 * that holds a VirtFun window. From probe to removal: a control window becomes
 * a node, a further window is there for ranges of the node that names it. A
 * further window needs no doorbell, so it may be an ivshmem-plain device.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/pm.h>

#include "vfun.h"

/* Reads the header, waiting for a host that is laying the window out. */
static int first_look(struct vfun_window *win)
{
	unsigned long end = jiffies + msecs_to_jiffies(VFUN_LAYOUT_WAIT_MS);
	struct vfun_window_header h;
	const char *wrong;
	int ret;

	while ((ret = vfun_layout_read(win, &h, &wrong)) == -EAGAIN &&
	       time_before(jiffies, end))
		msleep(20);
	/* Not deferred: no other driver's probe would change it. */
	if (ret && vfun_layout_refused(win, &h))
		return -ENODEV;
	if (ret) {
		dev_info(&win->pdev->dev,
			 "the shared memory in BAR 2 is no VirtFun window for this module (%s), so it is left alone; if the host's vfund comes later, write %s to /sys/bus/pci/drivers/vfun/bind\n",
			 wrong ?: "it changes", pci_name(win->pdev));
		return -ENODEV;
	}
	vfun_layout_keep(win, &h);
	return 0;
}

static int vfun_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	bool doorbells = pci_msix_vec_count(pdev) > 0;
	struct vfun_window *win;
	int ret;

	/* ivshmem-plain has the same ids; it cannot ring. */
	if (!doorbells && !vfun_window_is_further(pdev)) {
		dev_info(&pdev->dev,
			 "an ivshmem device without doorbell (ivshmem-plain) is left to programs\n");
		return -ENODEV;
	}
	win = vfun_window_new(pdev);
	if (!win)
		return -ENOMEM;
	ret = vfun_window_open(win, doorbells);
	if (ret)
		goto put;
	ret = first_look(win);
	if (ret)
		goto close;
	ret = -ENODEV;
	if (!doorbells && win->role == VFUN_ROLE_CONTROL)
		goto close;
	/* Interrupts are writes to memory. */
	pci_set_master(pdev);
	pci_set_drvdata(pdev, win);
	if (win->role != VFUN_ROLE_CONTROL) {
		vfun_further_add(win);
		return 0;
	}
	ret = vfun_device_add(win);
	if (!ret)
		return 0;

	pci_set_drvdata(pdev, NULL);
	pci_clear_master(pdev);
close:
	vfun_window_close(win);
put:
	vfun_window_put(win);
	return ret;
}

/* Unplugged, unbound or the module is unloaded. */
static void vfun_remove(struct pci_dev *pdev)
{
	struct vfun_window *win = pci_get_drvdata(pdev);

	if (win->role != VFUN_ROLE_CONTROL)
		vfun_further_remove(win);
	else
		vfun_device_remove(win->dev);
	pci_clear_master(pdev);
	vfun_window_close(win);
	pci_set_drvdata(pdev, NULL);
	win->pdev = NULL;
	vfun_window_put(win);
}

/* The machine goes down, or into another kernel, and no removal follows. */
static void vfun_shutdown(struct pci_dev *pdev)
{
	struct vfun_window *win = pci_get_drvdata(pdev);

	if (win->role != VFUN_ROLE_CONTROL)
		vfun_further_remove(win);
	else
		vfun_device_quiesce(win->dev);
	pci_clear_master(pdev);
	pci_disable_device(pdev);
}

/* Programs and our works are frozen; heartbeats rest, and the host waits 30 s. */
static int vfun_suspend(struct device *d)
{
	struct vfun_window *win = dev_get_drvdata(d);

	if (win->dev) {
		cancel_delayed_work_sync(&win->dev->beat_work);
		vfun_ports_suspend(win->dev);
	}
	return 0;
}

/* Rings may have been lost, and the window made again or be another one. */
static int vfun_resume(struct device *d)
{
	struct vfun_window *win = dev_get_drvdata(d);
	struct vfun_device *dev = win->dev;

	pci_set_master(win->pdev);
	if (!dev) {
		vfun_further_changed();
		return 0;
	}
	vfun_layout_check(dev);
	schedule_work(&dev->reap_work);
	vfun_wake_all(dev);
	queue_delayed_work(system_freezable_wq, &dev->beat_work, 0);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(vfun_pm_ops, vfun_suspend, vfun_resume);

/* A reset of the function alone: its memory is the host's and stays. */
static void vfun_reset_done(struct pci_dev *pdev)
{
	struct vfun_window *win = pci_get_drvdata(pdev);
	int idx;

	if (!win || !vfun_enter(win, &idx))
		return;
	if (!win->dev) {
		vfun_further_changed();
		vfun_leave(win, idx);
		return;
	}
	vfun_layout_check(win->dev);
	vfun_wake_all(win->dev);
	vfun_leave(win, idx);
}

static const struct pci_error_handlers vfun_err_handlers = {
	.reset_done = vfun_reset_done,
};

static const struct pci_device_id vfun_pci_ids[] = {
	{ PCI_DEVICE(VFUN_PCI_VENDOR, VFUN_PCI_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, vfun_pci_ids);

static struct pci_driver vfun_driver = {
	.name = "vfun",
	.id_table = vfun_pci_ids,
	.probe = vfun_probe,
	.remove = vfun_remove,
	.shutdown = vfun_shutdown,
	.err_handler = &vfun_err_handlers,
	.driver.pm = pm_sleep_ptr(&vfun_pm_ops),
};

static int __init vfun_init(void)
{
	int ret = vfun_map_init();

	if (ret)
		return ret;
	ret = pci_register_driver(&vfun_driver);
	if (ret)
		vfun_map_exit();
	return ret;
}

static void __exit vfun_exit(void)
{
	pci_unregister_driver(&vfun_driver);
	vfun_map_exit();
}

module_init(vfun_init);
module_exit(vfun_exit);

MODULE_DESCRIPTION("VirtFun: calls of the host's functions through shared memory");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
