// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings. Pages are put in place when they are touched, so that taking them
 * away is all that it needs to end a channel: the next touch finds it dead and
 * gets a page that stands in for it.
 */

#include <linux/mm.h>

#include "compat.h"
#include "vfun.h"

/* Pages of mmap's offsets that one window has. */
#define VFUN_MAP_PAGES (VFUN_MAP(1, 0) >> PAGE_SHIFT)

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
	BUILD_BUG_ON(VFUN_WINDOW_BYTES_MAX > VFUN_MAP(1, 0));

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

/* Whether this file's programs may write it. */
static bool writable(const struct vfun_area *a)
{
	return a->range.access != VFUN_ACCESS_HOST_WRITES;
}

/* The page that stands in for one of a channel that is over. */
static unsigned long dead_pfn(struct vfun_file *vf, struct vfun_area *a, u64 at)
{
	if (writable(a))
		return page_to_pfn(vf->scratch);
	if (a == a->ch->head && at == VFUN_MAP(a->range.window, a->range.offset))
		return page_to_pfn(broken_page[a->ch->dead]);
	return page_to_pfn(zero_page);
}

/* Puts the window's pages in place around an address, as far as it is ours. */
static vm_fault_t insert_window(struct vfun_window *win, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long block = VFUN_FAULT_PAGES * PAGE_SIZE;
	unsigned long at = vmf->address & PAGE_MASK;
	unsigned long from = max(vma->vm_start, at & ~(block - 1));
	unsigned long to = min(vma->vm_end, from + block);
	unsigned long pfn = (win->at >> PAGE_SHIFT) +
			    (vmf->pgoff & (VFUN_MAP_PAGES - 1));
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
	struct vfun_area *a = vma->vm_private_data;
	unsigned long at = vmf->address & PAGE_MASK;
	vm_fault_t ret;

	down_read(&vfun_map_sem);
	if (a && a->ch->dead)
		ret = vmf_insert_pfn(vma, at, dead_pfn(vf, a, (u64)vmf->pgoff << PAGE_SHIFT));
	else if (a)
		ret = insert_window(a->win, vmf);
	else if (vfun_gone(vf->dev))
		ret = vmf_insert_pfn(vma, at, page_to_pfn(zero_page));
	else
		ret = insert_window(vf->dev->win, vmf);
	up_read(&vfun_map_sem);
	return ret;
}

/* Also for the second half of a mapping that was cut. */
static void vfun_vma_open(struct vm_area_struct *vma)
{
	struct vfun_area *a = vma->vm_private_data;

	if (a)
		kref_get(&a->ch->ref);
}

static void vfun_vma_close(struct vm_area_struct *vma)
{
	struct vfun_area *a = vma->vm_private_data;

	if (a)
		vfun_channel_put(a->ch);
}

static const struct vm_operations_struct vfun_vm_ops = {
	.open = vfun_vma_open,
	.close = vfun_vma_close,
	.fault = vfun_fault,
};

int vfun_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct vfun_file *vf = filp->private_data;
	u64 bytes = vma->vm_end - vma->vm_start;
	u64 at = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct vfun_area *a = NULL;
	bool write = false;

	if (READ_ONCE(vf->mover) == current)
		return vfun_moved_map(vf->moving, vma);
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* What a host wrote is not to be run. */
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (vma->vm_pgoff > U64_MAX >> PAGE_SHIFT)
		return -EACCES;
	if (vfun_gone(vf->dev))
		return -ENODEV;
	if (at || bytes != VFUN_PAGE) {
		a = vfun_area_of(vf, at, bytes);
		if (!a)
			return -EACCES;
		if (a->ch->table) {
			vfun_channel_put(a->ch);
			return -EACCES;
		}
		write = writable(a);
	}
	if (!write && (vma->vm_flags & VM_WRITE)) {
		if (a)
			vfun_channel_put(a->ch);
		return -EACCES;
	}

	/*
	 * VM_DONTCOPY: a forked child has none of it; VM_IO keeps madvise from
	 * taking that back, and other processes from reading through ptrace.
	 */
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP |
		     VM_DONTCOPY);
	vm_flags_clear(vma, VM_MAYEXEC | (write ? 0 : VM_MAYWRITE));
	vma->vm_private_data = a;
	vma->vm_ops = &vfun_vm_ops;
	return 0;
}
