// SPDX-License-Identifier: GPL-2.0
/* Doorbells, both ways. */

#include <linux/interrupt.h>
#include <linux/io.h>

#include "vfun.h"

/*
 * Hard interrupt: looks at one cache line or two of each live channel of this
 * vector. Their number is bounded by the window's size and VFUN_GRANTS_MAX.
 */
static irqreturn_t vfun_irq(int irq, void *data)
{
	struct vfun_vector *v = data;
	struct vfun_device *dev = v->dev;
	struct vfun_channel *ch;
	unsigned long flags;

	if (v->index == 0) {
		atomic64_inc(&dev->control_events);
		wake_up_all(&dev->control_wq);
	}
	spin_lock_irqsave(&dev->chan_lock, flags);
	list_for_each_entry(ch, &dev->live[v->index], live)
		vfun_channel_look(ch);
	spin_unlock_irqrestore(&dev->chan_lock, flags);
	return IRQ_HANDLED;
}

static void free_irqs(struct vfun_device *dev, unsigned int n)
{
	while (n--)
		free_irq(pci_irq_vector(dev->pdev, n), &dev->vector[n]);
	pci_free_irq_vectors(dev->pdev);
}

/* One interrupt for each of the window's vectors, or an error. */
int vfun_irqs_start(struct vfun_device *dev)
{
	unsigned int n;
	int ret;

	ret = pci_alloc_irq_vectors(dev->pdev, dev->vectors, dev->vectors,
				    PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&dev->pdev->dev,
			"cannot have %u interrupt vectors (error %d); start QEMU's ivshmem-doorbell with vectors=%u\n",
			dev->vectors, ret, dev->vectors);
		return ret;
	}
	for (n = 0; n < dev->vectors; n++) {
		dev->vector[n].dev = dev;
		dev->vector[n].index = n;
		ret = request_irq(pci_irq_vector(dev->pdev, n), vfun_irq, 0,
				  dev->name, &dev->vector[n]);
		if (ret) {
			dev_err(&dev->pdev->dev,
				"cannot take interrupt vector %u: error %d\n",
				n, ret);
			free_irqs(dev, n);
			return ret;
		}
	}
	return 0;
}

/* After it, no handler runs. */
void vfun_irqs_stop(struct vfun_device *dev)
{
	free_irqs(dev, dev->vectors);
}

/*
 * Rings the host. The register is not mapped to programs, which would save
 * them a system call: BAR 0 has 256 bytes, and a page of it may hold another
 * device's registers, too. The caller is inside.
 */
void vfun_ring_vector(struct vfun_device *dev, unsigned int vector)
{
	writel(VFUN_HOST_PEER << 16 | vector, dev->regs + VFUN_REG_DOORBELL);
}
