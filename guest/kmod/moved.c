// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a program that moved into a buffer of the window, at the same
 * addresses. Its bytes are the program's: they stay whatever becomes of the
 * buffer, of the host, or of the process that forked.
 *
 * What no write may be lost by: (1) the old pages are pinned; (2) the window is
 * mapped over them, empty, so that nobody reaches them any more; (3) each page is
 * copied, before anybody reaches the new one. A write before (2) is in the old page,
 * and one after it waits for (3).
 */

#include <linux/highmem.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "vfun.h"

enum moved_state {
	MOVED_OLD,	/* still in the program's old page, which is pinned */
	MOVED_FROM,	/* still in a page of what moved before, whose buffer is over */
	MOVED_WINDOW,	/* in the window */
	MOVED_OWN,	/* in a page of the kernel's, the program's alone */
	MOVED_LOST,	/* there was no memory to keep it in */
};

struct moved_page {
	struct page *page;
	enum moved_state state;
};

/* Memory that moved by one call; or what a child of fork has of it. */
struct vfun_moved {
	struct kref ref;		/* its mappings */
	struct mm_struct *mm;		/* they are of this one */
	struct vfun_channel *ch;	/* the buffer; a child has none */
	struct list_head of;		/* of the buffer, under map_sem (written) */
	void *window;			/* its first page, while the buffer lives */
	unsigned long first;		/* its offset for mmap, in pages */
	unsigned long count;
	struct vfun_moved *from;	/* where it moves from; NULL: common memory */
	unsigned long from_page;	/* which page of that is its first */
	unsigned long fork;		/* VM_DONTCOPY, VM_WIPEONFORK: the program's marks */
	struct mutex lock;		/* the pages; inside of map_sem, outside of from's */
	struct moved_page page[];
};

static void copy_to_page(struct page *to, const void *from)
{
	void *at = kmap_local_page(to);

	memcpy(at, from, PAGE_SIZE);
	kunmap_local(at);
}

static void *window_page(struct vfun_moved *m, unsigned long n)
{
	return m->window + n * PAGE_SIZE;
}

/* Whether the buffer's pages are there. Under map_sem. */
static bool alive(const struct vfun_moved *m)
{
	return m->ch && !m->ch->dead;
}

/* Puts a page's bytes where it is looked for from now on. Under m->lock and map_sem. */
static void put_bytes(struct vfun_moved *m, unsigned long n, const void *from)
{
	struct moved_page *p = &m->page[n];

	if (alive(m)) {
		memcpy(window_page(m, n), from, PAGE_SIZE);
		p->page = NULL;
		p->state = MOVED_WINDOW;
		return;
	}
	p->page = alloc_page(GFP_KERNEL_ACCOUNT);
	p->state = p->page ? MOVED_OWN : MOVED_LOST;
	if (p->page)
		copy_to_page(p->page, from);
}

static void put_page_of(struct vfun_moved *m, unsigned long n, struct page *page)
{
	void *from = kmap_local_page(page);

	put_bytes(m, n, from);
	kunmap_local(from);
}

/* The same for what moved before. */
static void take_from(struct vfun_moved *m, unsigned long n)
{
	struct vfun_moved *from = m->from;
	struct moved_page *p;

	mutex_lock_nested(&from->lock, SINGLE_DEPTH_NESTING);
	p = &from->page[m->from_page + n];
	if (p->state == MOVED_WINDOW && alive(from))
		put_bytes(m, n, window_page(from, m->from_page + n));
	else if (p->page)
		put_page_of(m, n, p->page);
	else
		m->page[n].state = MOVED_LOST;
	mutex_unlock(&from->lock);
}

/* Copies an old page to where the others look for it. Under m->lock and map_sem. */
static void take(struct vfun_moved *m, unsigned long n)
{
	struct page *old = m->page[n].page;

	if (m->page[n].state == MOVED_FROM) {
		take_from(m, n);
		return;
	}
	put_page_of(m, n, old);
	unpin_user_page(old);
}

static bool moves_still(const struct moved_page *p)
{
	return p->state == MOVED_OLD || p->state == MOVED_FROM;
}

static void moved_free(struct vfun_moved *m)
{
	unsigned long n;

	if (m->ch) {
		down_write(&vfun_map_sem);
		list_del(&m->of);
		up_write(&vfun_map_sem);
		vfun_channel_put(m->ch);
	}
	for (n = 0; n < m->count; n++) {
		if (!m->page[n].page)
			continue;
		if (m->page[n].state == MOVED_OLD)
			unpin_user_page(m->page[n].page);
		else
			__free_page(m->page[n].page);
	}
	if (m->ch)
		atomic64_sub(m->count, &m->mm->pinned_vm);
	mmdrop(m->mm);
	kvfree(m);
}

static void moved_last(struct kref *ref)
{
}

/* Not recursive, however often memory moved. Outside of map_sem. */
static void moved_put(struct vfun_moved *m)
{
	struct vfun_moved *from;

	while (m && kref_put(&m->ref, moved_last)) {
		from = m->from;
		moved_free(m);
		m = from;
	}
}

static struct vfun_moved *moved_new(unsigned long first, unsigned long count,
				    struct mm_struct *mm)
{
	struct vfun_moved *m;

	m = kvzalloc(struct_size(m, page, count), GFP_KERNEL_ACCOUNT);
	if (!m)
		return NULL;
	kref_init(&m->ref);
	INIT_LIST_HEAD(&m->of);
	mutex_init(&m->lock);
	mmgrab(mm);
	m->mm = mm;
	m->first = first;
	m->count = count;
	return m;
}

/* The page's bytes in a new page; NULL: no memory. Under m->lock and map_sem. */
static struct page *copy_of(struct vfun_moved *m, unsigned long n)
{
	struct page *copy = alloc_page(GFP_KERNEL_ACCOUNT);
	struct moved_page *p = &m->page[n];
	void *from;

	if (moves_still(p))
		take(m, n);
	if (!copy || p->state == MOVED_LOST || (p->state == MOVED_WINDOW && !alive(m))) {
		if (copy)
			__free_page(copy);
		return NULL;
	}
	if (p->state == MOVED_WINDOW) {
		copy_to_page(copy, window_page(m, n));
		return copy;
	}
	from = kmap_local_page(p->page);
	copy_to_page(copy, from);
	kunmap_local(from);
	return copy;
}

/*
 * The bytes that a buffer holds for programs become theirs alone: it ends. Its pages
 * were taken away from all mappings. Under vfun_lock and map_sem (written), so
 * that the window's memory is there.
 */
void vfun_moved_rescue(struct vfun_channel *ch)
{
	struct vfun_moved *m;
	unsigned long n;

	list_for_each_entry(m, &ch->moved, of) {
		mutex_lock(&m->lock);
		for (n = 0; n < m->count; n++) {
			struct moved_page *p = &m->page[n];

			if (p->state != MOVED_WINDOW)
				continue;
			/* Not of the memory group of who ends the buffer: that may be anybody. */
			p->page = alloc_page(GFP_KERNEL);
			p->state = p->page ? MOVED_OWN : MOVED_LOST;
			if (p->page)
				copy_to_page(p->page, window_page(m, n));
			cond_resched();
		}
		mutex_unlock(&m->lock);
	}
}

/* Puts a page in place. Under m->lock and map_sem. */
static vm_fault_t insert(struct vfun_moved *m, struct vm_area_struct *vma,
			 unsigned long at, unsigned long n)
{
	struct moved_page *p = &m->page[n];
	struct vfun_area *a;

	if (moves_still(p))
		take(m, n);
	switch (p->state) {
	case MOVED_WINDOW:
		a = &m->ch->area[0];
		return vmf_insert_pfn(vma, at, ((a->win->at + (m->window - a->win->memory)) >>
						PAGE_SHIFT) + n);
	case MOVED_OWN:
		return vmf_insert_pfn(vma, at, page_to_pfn(p->page));
	default:
		return VM_FAULT_SIGBUS;
	}
}

static vm_fault_t moved_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vfun_moved *m = vma->vm_private_data;
	unsigned long at = vmf->address & PAGE_MASK, a, n;
	vm_fault_t ret;

	/* A child of fork for which there was no memory. */
	if (!m || vmf->pgoff < m->first || vmf->pgoff - m->first >= m->count)
		return VM_FAULT_SIGBUS;
	n = vmf->pgoff - m->first;
	down_read(&vfun_map_sem);
	mutex_lock(&m->lock);
	ret = insert(m, vma, at, n);
	/* Those behind it that are there, too. */
	for (a = at + PAGE_SIZE; ret == VM_FAULT_NOPAGE && ++n < m->count &&
	     a < vma->vm_end && a < at + VFUN_FAULT_PAGES * PAGE_SIZE; a += PAGE_SIZE)
		if (m->page[n].state != MOVED_WINDOW ||
		    insert(m, vma, a, n) != VM_FAULT_NOPAGE)
			break;
	mutex_unlock(&m->lock);
	up_read(&vfun_map_sem);
	return ret;
}

/* A child of fork has a copy of all of it, as of memory that a device uses. */
static void give_copy(struct vm_area_struct *vma, struct vfun_moved *of)
{
	unsigned long first = vma->vm_pgoff, count = vma_pages(vma), n;
	struct vfun_moved *m = moved_new(first, count, vma->vm_mm);

	vma->vm_private_data = m;
	if (!m)
		return;
	m->fork = of->fork;
	down_read(&vfun_map_sem);
	mutex_lock(&of->lock);
	for (n = 0; n < count; n++) {
		m->page[n].page = of->fork & VM_WIPEONFORK ?
				  alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO) :
				  copy_of(of, first - of->first + n);
		m->page[n].state = m->page[n].page ? MOVED_OWN : MOVED_LOST;
	}
	mutex_unlock(&of->lock);
	up_read(&vfun_map_sem);
}

/* A mapping that was cut or moved, or that a fork copied. */
static void moved_open(struct vm_area_struct *vma)
{
	struct vfun_moved *m = vma->vm_private_data;

	/* madvise(MADV_KEEPONFORK) takes the flag away unasked: a child gets no entries. */
	if (!(vma->vm_flags & VM_WIPEONFORK) && (!m || vma->vm_mm != m->mm)) {
		vm_flags_set(vma, VM_WIPEONFORK);
		zap_vma_ptes(vma, vma->vm_start, vma->vm_end - vma->vm_start);
	}
	if (!m)
		return;
	if (vma->vm_mm == m->mm)
		kref_get(&m->ref);
	else
		give_copy(vma, m);
}

static void moved_close(struct vm_area_struct *vma)
{
	struct vfun_moved *m = vma->vm_private_data;

	if (m)
		moved_put(m);
}

static const struct vm_operations_struct moved_ops = {
	.open = moved_open,
	.close = moved_close,
	.fault = moved_fault,
};

/* The mapping that ioc_remap makes; it cannot fail, as the old one is gone by now. */
int vfun_moved_map(struct vfun_moved *m, struct vm_area_struct *vma)
{
	/*
	 * VM_WIPEONFORK: no entries are copied to a child, which moved_open
	 * gives pages of its own.
	 */
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_WIPEONFORK);
	vm_flags_set(vma, m->fork & VM_DONTCOPY);
	vm_flags_clear(vma, VM_EXEC | VM_MAYEXEC);
	vma->vm_private_data = m;
	vma->vm_ops = &moved_ops;
	kref_get(&m->ref);
	return 0;
}

/* Memory that is to move, as far as it is of one kind. */
struct to_move {
	unsigned long addr, end;
	unsigned long fork;
	bool write;
	struct vfun_moved *from;	/* held; moved before */
	unsigned long from_page;
};

/* Moved before: whether it is in a buffer of this file still, and where. */
static bool where_is(struct file *filp, const struct vm_area_struct *vma,
		     const struct to_move *t, struct vfun_ioc_remap *r)
{
	const struct vfun_moved *m = t->from;
	bool is;

	down_read(&vfun_map_sem);
	is = alive(m) && vma->vm_file == filp;
	if (is) {
		r->buffer = m->ch->handle;
		r->offset = m->window + t->from_page * PAGE_SIZE -
			    (m->ch->area[0].win->memory + m->ch->area[0].range.offset);
		r->bytes = t->end - t->addr;
	}
	up_read(&vfun_map_sem);
	return is;
}

/* 1: it is in the window already, and r says where. */
static long look_at(struct file *filp, struct to_move *t, struct vfun_ioc_remap *r)
{
	struct vm_area_struct *vma;
	long ret = 0;

	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, t->addr);
	if (!vma || vma->vm_start > t->addr || !(vma->vm_flags & VM_READ)) {
		ret = -EFAULT;
	} else if (vma->vm_ops == &moved_ops && vma->vm_private_data) {
		t->from = vma->vm_private_data;
		kref_get(&t->from->ref);
		t->from_page = vma->vm_pgoff - t->from->first +
			       ((t->addr - vma->vm_start) >> PAGE_SHIFT);
	} else if (vma->vm_flags & (VM_PFNMAP | VM_IO | VM_MIXEDMAP | VM_HUGETLB)) {
		ret = -EOPNOTSUPP;
	} else if (vma->vm_flags & VM_MAYSHARE) {
		ret = -EMLINK;
	} else if (vma->vm_flags & VM_EXEC) {
		ret = -EACCES;
	}
	if (!ret && r->write && !(vma->vm_flags & VM_WRITE))
		ret = -EROFS;
	if (!ret) {
		t->end = min(t->end, vma->vm_end);
		t->write = vma->vm_flags & VM_WRITE;
		/* What moved before has one of the flags in any case. */
		t->fork = t->from ? t->from->fork & VM_WIPEONFORK : vma->vm_flags & VM_WIPEONFORK;
		t->fork |= vma->vm_flags & VM_DONTCOPY;
		if (t->from)
			ret = where_is(filp, vma, t, r);
	}
	mmap_read_unlock(current->mm);
	return ret;
}

/* Counts pages as RDMA devices do. */
static long charge(unsigned long pages)
{
	unsigned long most = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if (atomic64_add_return(pages, &current->mm->pinned_vm) <= most ||
	    capable(CAP_IPC_LOCK))
		return 0;
	atomic64_sub(pages, &current->mm->pinned_vm);
	return -EDQUOT;
}

/* Pins the old pages, all or none. */
static long pin(struct vfun_moved *m, unsigned long addr, bool write)
{
	struct page **pages = kvcalloc(m->count, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	unsigned long n, done = 0;
	long got = 0;

	if (!pages)
		return -ENOMEM;
	while (done < m->count) {
		got = pin_user_pages_fast(addr + done * PAGE_SIZE, m->count - done,
					  write ? FOLL_WRITE : 0, pages + done);
		if (got <= 0)
			break;
		done += got;
	}
	if (done == m->count) {
		for (n = 0; n < done; n++)
			m->page[n].page = pages[n];
	} else {
		unpin_user_pages(pages, done);
	}
	kvfree(pages);
	return done == m->count ? 0 : got ?: -EFAULT;
}

/* The buffer of a call, with a reference, and where its bytes are. */
static long find_place(struct vfun_file *vf, const struct vfun_ioc_remap *r,
		       u64 bytes, struct vfun_channel **ch)
{
	struct vfun_grant *grant;
	long ret = -ENOENT;

	spin_lock(&vf->lock);
	grant = vfun_grant_find(vf, VFUN_HOLDS_BUFFER, r->buffer);
	if (grant && grant->ch) {
		const struct vfun_range *range = &grant->ch->area[0].range;

		ret = 0;
		if (READ_ONCE(grant->ch->dead))
			ret = -EPIPE;
		else if (r->offset > range->bytes || bytes > range->bytes - r->offset ||
			 range->access == VFUN_ACCESS_HOST_WRITES || grant->ch->table)
			ret = -EINVAL;
		else
			kref_get(&(*ch = grant->ch)->ref);
	}
	spin_unlock(&vf->lock);
	return ret;
}

/* The memory becomes the buffer's. -EPIPE: it is over. */
static long adopt(struct vfun_moved *m, struct vfun_channel *ch, u64 offset)
{
	struct vfun_area *a = &ch->area[0];
	long ret = -EPIPE;

	down_write(&vfun_map_sem);
	if (!ch->dead && a->win) {
		m->window = a->win->memory + a->range.offset + offset;
		m->ch = ch;
		list_add(&m->of, &ch->moved);
		kref_get(&ch->ref);
		ret = 0;
	}
	up_write(&vfun_map_sem);
	return ret;
}

/*
 * The window was not mapped. If the old mapping is gone as well, the program has lost
 * memory that it believes to have: it does not go on with what comes there next.
 */
static void end_without_memory(unsigned long addr)
{
	bool is;

	mmap_read_lock(current->mm);
	is = vma_lookup(current->mm, addr);
	mmap_read_unlock(current->mm);
	if (is)
		return;
	pr_err("%s[%d]: no memory to move its memory: it is ended\n", current->comm, current->pid);
	force_sig(SIGKILL);
}

/* Maps the window over the old pages, and copies them. Under move_lock. */
static long move(struct file *filp, struct vfun_moved *m, unsigned long addr, bool write)
{
	struct vfun_file *vf = filp->private_data;
	unsigned long prot = PROT_READ | (write ? PROT_WRITE : 0), at, n;
	struct vfun_moved *from;

	vf->moving = m;
	WRITE_ONCE(vf->mover, current);
	at = vm_mmap(filp, addr, m->count << PAGE_SHIFT, prot, MAP_SHARED | MAP_FIXED,
		     m->first << PAGE_SHIFT);
	WRITE_ONCE(vf->mover, NULL);
	vf->moving = NULL;
	if (IS_ERR_VALUE(at)) {
		end_without_memory(addr);
		return at;
	}
	/* The host does not fault. */
	for (n = 0; n < m->count; n++) {
		down_read(&vfun_map_sem);
		mutex_lock(&m->lock);
		if (moves_still(&m->page[n]))
			take(m, n);
		mutex_unlock(&m->lock);
		up_read(&vfun_map_sem);
		cond_resched();
	}
	/* No page is still to come from there. */
	mutex_lock(&m->lock);
	from = m->from;
	m->from = NULL;
	mutex_unlock(&m->lock);
	moved_put(from);
	return 0;
}

/* What is to be taken: pins the old pages, or notes what moved before. */
static long prepare(struct vfun_moved *m, struct to_move *t)
{
	unsigned long n;

	if (!t->from)
		return pin(m, t->addr, t->write);
	m->from = t->from;
	m->from_page = t->from_page;
	t->from = NULL;
	for (n = 0; n < m->count; n++)
		m->page[n].state = MOVED_FROM;
	return 0;
}

static long remap(struct file *filp, struct vfun_ioc_remap *r, struct to_move *t,
		  struct vfun_channel *ch)
{
	const struct vfun_range *range = &ch->area[0].range;
	struct vfun_moved *m;
	long ret;

	m = moved_new(VFUN_MAP(range->window, range->offset + r->offset) >> PAGE_SHIFT,
		      (t->end - t->addr) >> PAGE_SHIFT, current->mm);
	if (!m)
		return -ENOMEM;
	m->fork = t->fork;
	r->bytes = m->count << PAGE_SHIFT;
	ret = charge(m->count);
	if (ret) {
		moved_put(m);
		return ret;
	}
	ret = prepare(m, t);
	if (!ret)
		ret = adopt(m, ch, r->offset);
	if (ret)
		atomic64_sub(m->count, &m->mm->pinned_vm);
	else
		ret = move(filp, m, t->addr, t->write);
	moved_put(m);
	return ret;
}

/* Only says where memory is. */
static long say_where(const struct to_move *t, struct vfun_ioc_remap *r)
{
	r->buffer = 0;
	r->offset = 0;
	r->bytes = t->end - t->addr;
	return 0;
}

long vfun_ioc_remap(struct file *filp, struct vfun_ioc_remap __user *arg)
{
	struct vfun_file *vf = filp->private_data;
	struct to_move t = {};
	struct vfun_movers *movers;
	struct vfun_channel *ch;
	struct vfun_ioc_remap r;
	long ret;

	if (copy_from_user(&r, arg, sizeof(r)))
		return -EFAULT;
	if (r.write > 1 || r.reserved || !r.bytes || !PAGE_ALIGNED(r.addr | r.bytes | r.offset) ||
	    r.addr > TASK_SIZE || r.bytes > TASK_SIZE - r.addr)
		return -EINVAL;
	if (vfun_gone(vf->dev))
		return -ENODEV;
	t.addr = r.addr;
	t.end = r.addr + min_t(u64, r.bytes, VFUN_MOVE_PAGES * PAGE_SIZE);
	movers = vfun_movers_enter();
	if (IS_ERR(movers))
		return PTR_ERR(movers);
	if (mutex_lock_killable(&vf->move_lock)) {
		vfun_movers_leave(movers);
		return -EINTR;
	}
	ret = look_at(filp, &t, &r);
	if (!ret && !r.buffer) {
		ret = say_where(&t, &r);
	} else if (!ret) {
		ret = find_place(vf, &r, t.end - t.addr, &ch);
		if (!ret) {
			ret = remap(filp, &r, &t, ch);
			vfun_channel_put(ch);
		}
	}
	mutex_unlock(&vf->move_lock);
	vfun_movers_leave(movers);
	if (t.from)
		moved_put(t.from);
	if (ret >= 0)
		ret = copy_to_user(arg, &r, sizeof(r)) ? -EFAULT : 0;
	return ret;
}
