// SPDX-License-Identifier: GPL-2.0
/*
 * VirtFun's module for guests: the driver of QEMU's ivshmem-doorbell device
 * that holds a VirtFun window. From probe to removal.
 */

#include <linux/delay.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pm.h>
#include <linux/slab.h>

#include "vfun.h"
#include "window.h"

#define BAR_REGISTERS 0
#define BAR_WINDOW 2

static DEFINE_IDA(vfun_ids);

static void device_free(struct kref *ref)
{
	struct vfun_device *dev = container_of(ref, struct vfun_device, ref);

	cleanup_srcu_struct(&dev->srcu);
	kfree(dev);
}

void vfun_device_put(struct vfun_device *dev)
{
	kref_put(&dev->ref, device_free);
}

/* The host may be slow or away, and probe shall not wait for it. */
static void reset_work(struct work_struct *work)
{
	struct vfun_device *dev = container_of(work, struct vfun_device,
					       reset_work);
	int idx;

	if (!vfun_enter(dev, &idx))
		return;
	/* Where it fails, the first HELLO tries again. */
	vfun_ensure_reset(dev, VFUN_RESET_MS);
	vfun_leave(dev, idx);
}

static struct vfun_device *device_new(struct pci_dev *pdev)
{
	struct vfun_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	unsigned int v;

	if (!dev)
		return NULL;
	if (init_srcu_struct(&dev->srcu)) {
		kfree(dev);
		return NULL;
	}
	kref_init(&dev->ref);
	dev->pdev = pdev;
	dev->pci = pci_domain_nr(pdev->bus) << 16 | pci_dev_id(pdev);
	mutex_init(&dev->layout_lock);
	mutex_init(&dev->reset_lock);
	mutex_init(&dev->files_lock);
	INIT_LIST_HEAD(&dev->files);
	init_rwsem(&dev->map_sem);
	spin_lock_init(&dev->chan_lock);
	for (v = 0; v < VFUN_VECTORS; v++)
		INIT_LIST_HEAD(&dev->live[v]);
	init_waitqueue_head(&dev->control_wq);
	INIT_WORK(&dev->reset_work, reset_work);
	INIT_WORK(&dev->reap_work, vfun_reap);
	INIT_DELAYED_WORK(&dev->beat_work, vfun_beat);
	return dev;
}

/* Reads the header, waiting for a host that is laying the window out. */
static int first_look(struct vfun_device *dev)
{
	unsigned long end = jiffies + msecs_to_jiffies(VFUN_LAYOUT_WAIT_MS);
	struct vfun_window_header h;
	const char *wrong;
	int ret;

	while ((ret = vfun_layout_read(dev, &h, &wrong)) == -EAGAIN &&
	       time_before(jiffies, end))
		msleep(20);
	if (ret) {
		/* Not deferred: no other driver's probe would change it. */
		dev_info(&dev->pdev->dev,
			 "the shared memory in BAR 2 is no VirtFun window for this module (%s), so it is left alone; if the host's vfund comes later, write %s to /sys/bus/pci/drivers/vfun/bind\n",
			 wrong ?: "it changes", pci_name(dev->pdev));
		return -ENODEV;
	}
	dev->vectors = h.vectors;
	dev->features = h.features;
	dev->generation = h.generation;
	return 0;
}

/* Maps the registers and the window, for this module alone. */
static int bars_take(struct vfun_device *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret = pci_enable_device_mem(pdev);

	if (ret)
		return ret;
	/* From now on nobody maps it through sysfs, who can be kept from it. */
	ret = pci_request_selected_regions(pdev, BIT(BAR_REGISTERS) |
					   BIT(BAR_WINDOW), "vfun");
	if (ret)
		goto disable;

	dev->window_at = pci_resource_start(pdev, BAR_WINDOW);
	dev->window_bytes = pci_resource_len(pdev, BAR_WINDOW);
	ret = -ENODEV;
	if (dev->window_bytes < VFUN_WINDOW_BYTES_MIN ||
	    dev->window_bytes > VFUN_WINDOW_BYTES_MAX ||
	    pci_resource_len(pdev, BAR_REGISTERS) < VFUN_REG_DOORBELL + 4)
		goto regions;
	ret = -ENOMEM;
	/*
	 * It is the host's memory, so it is cacheable; and the kernel maps
	 * programs' pages of it as it has mapped them itself.
	 */
	dev->window = memremap(dev->window_at, dev->window_bytes, MEMREMAP_WB);
	if (!dev->window)
		goto regions;
	dev->regs = pci_iomap(pdev, BAR_REGISTERS, 0);
	if (!dev->regs)
		goto window;
	return 0;

window:
	memunmap(dev->window);
regions:
	pci_release_selected_regions(pdev, BIT(BAR_REGISTERS) | BIT(BAR_WINDOW));
disable:
	pci_disable_device(pdev);
	return ret;
}

/* Undoes bars_take(). */
static void bars_give_back(struct vfun_device *dev)
{
	pci_iounmap(dev->pdev, dev->regs);
	memunmap(dev->window);
	pci_release_selected_regions(dev->pdev,
				     BIT(BAR_REGISTERS) | BIT(BAR_WINDOW));
	pci_disable_device(dev->pdev);
}

static int vfun_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct vfun_device *dev;
	int ret;

	/* ivshmem-plain has the same ids; it cannot ring. */
	if (pci_msix_vec_count(pdev) <= 0) {
		dev_info(&pdev->dev,
			 "an ivshmem device without doorbell (ivshmem-plain) is left to programs\n");
		return -ENODEV;
	}
	dev = device_new(pdev);
	if (!dev)
		return -ENOMEM;
	ret = bars_take(dev);
	if (ret)
		goto put;
	ret = first_look(dev);
	if (ret)
		goto bars;
	ret = ida_alloc(&vfun_ids, GFP_KERNEL);
	if (ret < 0)
		goto bars;
	dev->id = ret;
	snprintf(dev->name, sizeof(dev->name), "vfun%d", dev->id);
	ret = -ENOMEM;
	dev->wq = alloc_workqueue("%s", WQ_UNBOUND | WQ_FREEZABLE,
				  VFUN_REQUESTS_MAX, dev->name);
	if (!dev->wq)
		goto ida;
	/* Interrupts are writes to memory. */
	pci_set_master(pdev);
	ret = vfun_irqs_start(dev);
	if (ret)
		goto wq;

	pci_set_drvdata(pdev, dev);
	dev->misc.minor = MISC_DYNAMIC_MINOR;
	dev->misc.name = dev->name;
	dev->misc.fops = &vfun_fops;
	dev->misc.parent = &pdev->dev;
	dev->misc.mode = 0660;
	ret = misc_register(&dev->misc);
	if (ret)
		goto irqs;
	queue_work(dev->wq, &dev->reset_work);
	dev_info(&pdev->dev, "VirtFun window of %llu MiB, generation %llu: /dev/%s\n",
		 dev->window_bytes >> 20, dev->generation, dev->name);
	return 0;

irqs:
	vfun_irqs_stop(dev);
wq:
	pci_clear_master(pdev);
	destroy_workqueue(dev->wq);
ida:
	ida_free(&vfun_ids, dev->id);
bars:
	bars_give_back(dev);
put:
	vfun_device_put(dev);
	return ret;
}

/*
 * Takes the device away from everybody: after it nobody is in it, nobody can
 * get in, no page of the window is mapped, and the host knows, if it is there.
 */
static void quiesce(struct vfun_device *dev)
{
	/* Ends all waits; programs that touch their pages get others. */
	vfun_kill_device(dev);
	vfun_wake_all(dev);
	synchronize_srcu(&dev->srcu);

	cancel_delayed_work_sync(&dev->beat_work);
	cancel_work_sync(&dev->reap_work);
	destroy_workqueue(dev->wq);
	if (dev->generation && pci_device_is_present(dev->pdev))
		vfun_reset(dev, VFUN_FAREWELL_MS, true);
	vfun_irqs_stop(dev);
	/* The interrupt handler may have asked for it once more. */
	cancel_work_sync(&dev->reap_work);
}

/*
 * Unplugged, unbound or the module is unloaded. Programs may have the node
 * open and pages mapped; they keep struct vfun_device, and nothing of the PCI
 * device.
 */
static void vfun_remove(struct pci_dev *pdev)
{
	struct vfun_device *dev = pci_get_drvdata(pdev);

	misc_deregister(&dev->misc);
	quiesce(dev);
	pci_clear_master(pdev);
	bars_give_back(dev);
	pci_set_drvdata(pdev, NULL);
	dev->pdev = NULL;
	ida_free(&vfun_ids, dev->id);
	vfun_device_put(dev);
}

/* The machine goes down, or into another kernel, and no removal follows. */
static void vfun_shutdown(struct pci_dev *pdev)
{
	struct vfun_device *dev = pci_get_drvdata(pdev);

	quiesce(dev);
	pci_clear_master(pdev);
	pci_disable_device(pdev);
}

/* Programs and our works are frozen; heartbeats rest, and the host waits 30 s. */
static int vfun_suspend(struct device *d)
{
	struct vfun_device *dev = dev_get_drvdata(d);

	cancel_delayed_work_sync(&dev->beat_work);
	return 0;
}

/* Rings may have been lost, and the window laid out anew or be another one. */
static int vfun_resume(struct device *d)
{
	struct vfun_device *dev = dev_get_drvdata(d);

	pci_set_master(dev->pdev);
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
	struct vfun_device *dev = pci_get_drvdata(pdev);
	int idx;

	if (!dev || !vfun_enter(dev, &idx))
		return;
	vfun_layout_check(dev);
	vfun_wake_all(dev);
	vfun_leave(dev, idx);
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
	ida_destroy(&vfun_ids);
}

module_init(vfun_init);
module_exit(vfun_exit);

MODULE_DESCRIPTION("VirtFun: calls of the host's functions through shared memory");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
