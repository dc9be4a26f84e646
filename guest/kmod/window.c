// SPDX-License-Identifier: GPL-2.0
/* A window's memory and registers, from its PCI device's BARs. */

#include <linux/io.h>
#include <linux/slab.h>

#include "vfun.h"

#define BAR_REGISTERS 0
#define BAR_WINDOW 2

static void window_free(struct kref *ref)
{
	struct vfun_window *win = container_of(ref, struct vfun_window, ref);

	cleanup_srcu_struct(&win->srcu);
	kfree(win);
}

void vfun_window_put(struct vfun_window *win)
{
	kref_put(&win->ref, window_free);
}

struct vfun_window *vfun_window_new(struct pci_dev *pdev)
{
	struct vfun_window *win = kzalloc(sizeof(*win), GFP_KERNEL);
	unsigned int v;

	if (!win)
		return NULL;
	if (init_srcu_struct(&win->srcu)) {
		kfree(win);
		return NULL;
	}
	kref_init(&win->ref);
	win->pdev = pdev;
	win->pci = pci_domain_nr(pdev->bus) << 16 | pci_dev_id(pdev);
	INIT_LIST_HEAD(&win->link);
	win->areas = RB_ROOT_CACHED;
	spin_lock_init(&win->bell_lock);
	for (v = 0; v < VFUN_VECTORS; v++)
		INIT_LIST_HEAD(&win->rung[v]);
	return win;
}

/*
 * Whether a device without doorbells holds a further window. Looked at before
 * anything of it is taken: programs may have another one mapped, or be about to.
 */
bool vfun_window_is_further(struct pci_dev *pdev)
{
	struct vfun_window_header *h = NULL;
	bool further = false;

	if (pci_enable_device_mem(pdev))
		return false;
	if (pci_resource_len(pdev, BAR_WINDOW) >= VFUN_WINDOW_BYTES_MIN)
		h = memremap(pci_resource_start(pdev, BAR_WINDOW), VFUN_PAGE,
			     MEMREMAP_WB);
	if (h) {
		further = READ_ONCE(h->magic) == VFUN_MAGIC &&
			  (READ_ONCE(h->role) == VFUN_ROLE_DATA ||
			   READ_ONCE(h->role) == VFUN_ROLE_LINK);
		memunmap(h);
	}
	pci_disable_device(pdev);
	return further;
}

/* Maps the registers and the memory, for this module alone. */
int vfun_window_open(struct vfun_window *win, bool doorbells)
{
	struct pci_dev *pdev = win->pdev;
	int ret = pci_enable_device_mem(pdev);

	if (ret)
		return ret;
	/* From now on nobody maps it through sysfs, who can be kept from it. */
	ret = pci_request_selected_regions(pdev, BIT(BAR_REGISTERS) |
					   BIT(BAR_WINDOW), "vfun");
	if (ret)
		goto disable;

	win->at = pci_resource_start(pdev, BAR_WINDOW);
	win->bytes = pci_resource_len(pdev, BAR_WINDOW);
	ret = -ENODEV;
	if (win->bytes < VFUN_WINDOW_BYTES_MIN ||
	    win->bytes > VFUN_WINDOW_BYTES_MAX ||
	    pci_resource_len(pdev, BAR_REGISTERS) < VFUN_REG_DOORBELL + 4)
		goto regions;
	ret = -ENOMEM;
	/*
	 * It is the host's memory, so it is cacheable; and the kernel maps
	 * programs' pages of it as it has mapped them itself.
	 */
	win->memory = memremap(win->at, win->bytes, MEMREMAP_WB);
	if (!win->memory)
		goto regions;
	if (!doorbells)
		return 0;
	win->regs = pci_iomap(pdev, BAR_REGISTERS, 0);
	if (win->regs)
		return 0;
	memunmap(win->memory);
regions:
	pci_release_selected_regions(pdev, BIT(BAR_REGISTERS) | BIT(BAR_WINDOW));
disable:
	pci_disable_device(pdev);
	return ret;
}

/* Undoes vfun_window_open(). */
void vfun_window_close(struct vfun_window *win)
{
	if (win->regs)
		pci_iounmap(win->pdev, win->regs);
	memunmap(win->memory);
	pci_release_selected_regions(win->pdev,
				     BIT(BAR_REGISTERS) | BIT(BAR_WINDOW));
	pci_disable_device(win->pdev);
}
