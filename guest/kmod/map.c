// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings. Pages are put in place when they are touched, so that taking them
 * away is all that it needs to end a channel: the next touch finds it dead and
 * gets a page that stands in for it.
 */

#include <linux/mm.h>

#include "compat.h"
#include "vfun.h"

/* The same for all, and read-only for all: one of 0, and one for each reason. */
static struct page *zero_page;
static struct page *broken_page[VFUN_REASONS];

void vfun_map_exit(void)
{
	unsigned int i;

	for (i = 0; i < VFUN_REASONS; i++)
		if (broken_page[i])
			__free_page(broken_page[i]);
	if (zero_page)
		__free_page(zero_page);
}

int vfun_map_init(void)
{
	unsigned int i;

	/*
	 * The protocol protects in units of 4096 bytes; a kernel with larger
	 * pages could not keep one page of it from the next.
	 */
	BUILD_BUG_ON(PAGE_SIZE != VFUN_PAGE);

	zero_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!zero_page)
		return -ENOMEM;
	for (i = 0; i < VFUN_REASONS; i++) {
		broken_page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!broken_page[i]) {
			vfun_map_exit();
			return -ENOMEM;
		}
		((u64 *)page_address(broken_page[i]))[VFUN_IN_BROKEN] = i;
	}
	return 0;
}

static bool in_side(u64 off, u64 side, u64 bytes)
{
	return off >= side && off - side < bytes;
}

/* The page that stands in for one of a channel that is over. */
static unsigned long dead_pfn(struct vfun_file *vf, struct vfun_channel *ch,
			      u64 off)
{
	if (in_side(off, ch->dataout, ch->side))
		return page_to_pfn(vf->scratch);
	if (off == ch->datain)
		return page_to_pfn(broken_page[ch->dead]);
	return page_to_pfn(zero_page);
}

/* Puts the window's pages in place around an address, as far as it is ours. */
static vm_fault_t insert_window(struct vfun_device *dev, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long block = VFUN_FAULT_PAGES * PAGE_SIZE;
	unsigned long at = vmf->address & PAGE_MASK;
	unsigned long from = max(vma->vm_start, at & ~(block - 1));
	unsigned long to = min(vma->vm_end, from + block);
	unsigned long pfn = (dev->window_at >> PAGE_SHIFT) + vmf->pgoff;
	vm_fault_t ret = vmf_insert_pfn(vma, at, pfn);
	unsigned long a;

	if (ret != VM_FAULT_NOPAGE)
		return ret;
	for (a = at + PAGE_SIZE; a < to; a += PAGE_SIZE)
		if (vmf_insert_pfn(vma, a, pfn + ((a - at) >> PAGE_SHIFT)) !=
		    VM_FAULT_NOPAGE)
			break;
	for (a = at; a > from; a -= PAGE_SIZE)
		if (vmf_insert_pfn(vma, a - PAGE_SIZE,
				   pfn - ((at - a) >> PAGE_SHIFT) - 1) !=
		    VM_FAULT_NOPAGE)
			break;
	return ret;
}

static vm_fault_t vfun_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vfun_file *vf = vma->vm_file->private_data;
	struct vfun_channel *ch = vma->vm_private_data;
	struct vfun_device *dev = vf->dev;
	unsigned long at = vmf->address & PAGE_MASK;
	vm_fault_t ret;

	down_read(&dev->map_sem);
	if (ch ? ch->dead : READ_ONCE(dev->gone))
		ret = vmf_insert_pfn(vma, at, ch ?
				     dead_pfn(vf, ch, (u64)vmf->pgoff << PAGE_SHIFT) :
				     page_to_pfn(zero_page));
	else
		ret = insert_window(dev, vmf);
	up_read(&dev->map_sem);
	return ret;
}

/* Also for the second half of a mapping that was cut. */
static void vfun_vma_open(struct vm_area_struct *vma)
{
	struct vfun_channel *ch = vma->vm_private_data;

	if (ch)
		kref_get(&ch->ref);
}

static void vfun_vma_close(struct vm_area_struct *vma)
{
	struct vfun_channel *ch = vma->vm_private_data;

	if (ch)
		vfun_channel_put(ch);
}

static const struct vm_operations_struct vfun_vm_ops = {
	.open = vfun_vma_open,
	.close = vfun_vma_close,
	.fault = vfun_fault,
};

/* The live channel of this file that has the range in one side, referenced. */
static struct vfun_channel *channel_with(struct vfun_file *vf, u64 off,
					 u64 bytes, bool *out)
{
	struct vfun_channel *ch, *found = NULL;
	struct vfun_grant *grant;

	spin_lock(&vf->lock);
	list_for_each_entry(grant, &vf->grants, list) {
		ch = grant->ch;
		if (!ch || READ_ONCE(ch->dead))
			continue;
		*out = in_side(off, ch->dataout, ch->side);
		if ((*out && bytes <= ch->dataout + ch->side - off) ||
		    (in_side(off, ch->datain, ch->side) &&
		     bytes <= ch->datain + ch->side - off)) {
			found = ch;
			kref_get(&ch->ref);
			break;
		}
	}
	spin_unlock(&vf->lock);
	return found;
}

int vfun_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct vfun_file *vf = filp->private_data;
	u64 bytes = vma->vm_end - vma->vm_start;
	u64 off = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct vfun_channel *ch = NULL;
	bool writable = false;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* What a host wrote is not to be run. */
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (vma->vm_pgoff > (vf->dev->window_bytes >> PAGE_SHIFT))
		return -EACCES;
	if (READ_ONCE(vf->dev->gone))
		return -ENODEV;
	if (off || bytes != VFUN_PAGE) {
		ch = channel_with(vf, off, bytes, &writable);
		if (!ch)
			return -EACCES;
	}
	if (!writable && (vma->vm_flags & VM_WRITE)) {
		if (ch)
			vfun_channel_put(ch);
		return -EACCES;
	}

	/*
	 * VM_DONTCOPY: a forked child has none of it; VM_IO keeps madvise from
	 * taking that back, and other processes from reading through ptrace.
	 */
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP |
		     VM_DONTCOPY);
	vm_flags_clear(vma, VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	vma->vm_private_data = ch;
	vma->vm_ops = &vfun_vm_ops;
	return 0;
}
