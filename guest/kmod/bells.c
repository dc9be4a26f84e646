// SPDX-License-Identifier: GPL-2.0
/* A window's doorbells, both ways. */

#include <linux/interrupt.h>
#include <linux/io.h>

#include "vfun.h"

/*
 * Hard interrupt: looks at one cache line of each live channel of this vector.
 * Their number is bounded by the window's size and VFUN_GRANTS_MAX.
 */
static irqreturn_t vfun_irq(int irq, void *data)
{
	struct vfun_vector *v = data;
	struct vfun_window *win = v->win;
	struct vfun_channel *ch;
	unsigned long flags;

	if (v->index == 0) {
		vfun_control_rung(win->dev);
		vfun_ports_kick(win->dev);
	}
	spin_lock_irqsave(&win->bell_lock, flags);
	list_for_each_entry(ch, &win->rung[v->index], rung)
		vfun_channel_look(ch);
	spin_unlock_irqrestore(&win->bell_lock, flags);
	return IRQ_HANDLED;
}

static void free_irqs(struct vfun_window *win, unsigned int n)
{
	while (n--)
		free_irq(pci_irq_vector(win->pdev, n), &win->vector[n]);
	pci_free_irq_vectors(win->pdev);
}

/* One interrupt for each of the window's vectors, or an error. */
int vfun_bells_start(struct vfun_window *win, const char *name)
{
	unsigned int n;
	int ret;

	ret = pci_alloc_irq_vectors(win->pdev, win->vectors, win->vectors,
				    PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&win->pdev->dev,
			"cannot have %u interrupt vectors (error %d); start QEMU's ivshmem-doorbell with vectors=%u\n",
			win->vectors, ret, win->vectors);
		return ret;
	}
	for (n = 0; n < win->vectors; n++) {
		win->vector[n].win = win;
		win->vector[n].index = n;
		ret = request_irq(pci_irq_vector(win->pdev, n), vfun_irq, 0,
				  name, &win->vector[n]);
		if (ret) {
			dev_err(&win->pdev->dev,
				"cannot take interrupt vector %u: error %d\n",
				n, ret);
			free_irqs(win, n);
			return ret;
		}
	}
	return 0;
}

/* After it, no handler runs. */
void vfun_bells_stop(struct vfun_window *win)
{
	free_irqs(win, win->vectors);
}

/*
 * Rings the host. The register is not mapped to programs, which would save
 * them a system call: BAR 0 has 256 bytes, and a page of it may hold another
 * device's registers, too. The caller is inside.
 */
void vfun_ring_vector(struct vfun_window *win, unsigned int vector)
{
	vfun_ring_peer(win, VFUN_HOST_PEER << 16 | vector);
}

/* Rings whom the host has named by this word: its upper half is a peer, the lower one a vector. */
void vfun_ring_peer(struct vfun_window *win, u32 bell)
{
	writel(bell, win->regs + VFUN_REG_DOORBELL);
}
