// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of pages: buffers by which the host reaches memory of programs where it
 * is, in a VM whose memory the host has as a whole. The module alone writes them:
 * the word of a program for a page's number would give it the memory of others.
 *
 * A page stays pinned until the host has said that no service has its table, since
 * the host may write it until then: by an ack to BUFFER_PUT, or a nack that it knows no
 * such table. Any other nack, and silence, mean that a service may have it. So a table
 * outlives its file, if it must: the device has it then, and asks until it is over.
 * Where it never is, at the end of the device, the pages stay pinned for good.
 *
 * What is in a table is known by its page, not by its address: a program may unmap
 * memory, and map other memory in its place. A pinned page is no other's.
 */

#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "vfun.h"

/* Of struct vfun_pages: the program may write the page. */
#define WRITABLE 1UL
/* In the index of a file: the table's number above the place in it. */
#define PLACE_BITS 24
/* Pages below 4 GiB. */
#define BELOW (1UL << (32 - PAGE_SHIFT))

struct vfun_pages {
	struct list_head of;		/* of the device, once its file is gone */
	struct vfun_channel *ch;	/* held; NULL: the file is gone */
	struct mm_struct *mm;		/* whose pages count as pinned; held */
	u64 handle, session;
	u32 number;			/* in its file */
	struct page *proof[2];
	unsigned long count;		/* places */
	unsigned long pinned;
	unsigned long page[];		/* struct page *, and WRITABLE; 0: none */
};

/* Memory of a call: one stretch, and how its pages are got. */
struct stretch {
	unsigned long addr, count;
	unsigned int gup;
	bool writable;
	struct page **pages;
};

static void *table_at(const struct vfun_channel *ch)
{
	return ch->area[0].win->memory + ch->area[0].range.offset;
}

static void set_entry(const struct vfun_pages *t, unsigned long place)
{
	struct page *page = (void *)(t->page[place] & ~WRITABLE);
	u64 entry = VFUN_PAGES_ENTRY_THERE | page_to_pfn(page);
	u64 *entries = table_at(t->ch) + VFUN_PAGES_ENTRIES;

	if (t->page[place] & WRITABLE)
		entry |= VFUN_PAGES_ENTRY_WRITE;
	WRITE_ONCE(entries[place], entry);
}

/* ---- a table begins and ends ----------------------------------------- */

/* Pages by which the host sees that it finds a page by its number. */
static int prove(struct vfun_pages *t, struct vfun_pages_head *head)
{
	get_random_bytes(head->secret, sizeof(head->secret));
	head->low = VFUN_PAGES_NO_PAGE;
	head->high = VFUN_PAGES_NO_PAGE;
	t->proof[0] = alloc_page(GFP_KERNEL_ACCOUNT);
	if (!t->proof[0])
		return -ENOMEM;
	if (page_to_pfn(t->proof[0]) >= BELOW) {
		head->high = page_to_pfn(t->proof[0]);
		t->proof[1] = alloc_page(GFP_KERNEL_ACCOUNT | GFP_DMA32);
		if (!t->proof[1])
			return -ENOMEM;
		head->low = page_to_pfn(t->proof[1]);
		memcpy(page_address(t->proof[1]), head->secret, sizeof(head->secret));
	} else {
		head->low = page_to_pfn(t->proof[0]);
	}
	memcpy(page_address(t->proof[0]), head->secret, sizeof(head->secret));
	return 0;
}

static void table_free(struct vfun_pages *t)
{
	unsigned long n;

	for (n = 0; n < t->count; n++) {
		struct page *page = (void *)(t->page[n] & ~WRITABLE);

		if (page)
			unpin_user_pages_dirty_lock(&page, 1, t->page[n] & WRITABLE);
		cond_resched();
	}
	atomic64_sub(t->pinned, &t->mm->pinned_vm);
	mmdrop(t->mm);
	for (n = 0; n < ARRAY_SIZE(t->proof); n++)
		if (t->proof[n])
			__free_page(t->proof[n]);
	if (t->ch)
		vfun_channel_put(t->ch);
	kvfree(t);
}

static struct vfun_pages *find_table(struct vfun_file *vf, u64 handle)
{
	struct vfun_pages *t;
	unsigned long n;

	xa_for_each(&vf->tables, n, t)
		if (t->handle == handle)
			return t;
	return NULL;
}

/*
 * A buffer that the host gave as a table; it is live, and nobody knows it yet. The
 * host knows of no page before the program names its table to a service.
 */
int vfun_pages_begin(struct vfun_channel *ch, u64 session)
{
	u64 bytes = ch->area[0].range.bytes;
	struct vfun_pages_head head = {};
	struct vfun_file *vf = ch->vf;
	struct vfun_pages *t;
	unsigned long count;
	int ret = -ENOMEM;

	if (bytes <= VFUN_PAGES_ENTRIES)
		return -EPROTO;
	count = min_t(u64, (bytes - VFUN_PAGES_ENTRIES) / VFUN_PAGES_ENTRY_BYTES,
		      VFUN_TABLE_PAGES);
	t = kvzalloc(struct_size(t, page, count), GFP_KERNEL_ACCOUNT);
	if (!t)
		return -ENOMEM;
	t->mm = current->mm;
	mmgrab(t->mm);
	kref_get(&ch->ref);
	t->ch = ch;
	t->handle = ch->handle;
	t->session = session;
	t->count = count;
	ret = prove(t, &head);
	mutex_lock(&vf->pages_lock);
	if (!ret && find_table(vf, ch->handle))
		ret = -EPROTO;
	if (!ret)
		ret = xa_alloc(&vf->tables, &t->number, t, XA_LIMIT(0, VFUN_BUFFERS_MAX - 1),
			       GFP_KERNEL_ACCOUNT);
	if (!ret) {
		down_read(&vfun_map_sem);
		if (ch->dead || !ch->area[0].win) {
			ret = -ECANCELED;
		} else if (ch->area[0].win->role == VFUN_ROLE_LINK) {
			/* The other VM would write it. */
			ret = -EPROTO;
		} else {
			memcpy(table_at(ch), &head, sizeof(head));
			smp_store_release((u64 *)table_at(ch), VFUN_PAGES_MAGIC);
		}
		up_read(&vfun_map_sem);
		if (ret)
			xa_erase(&vf->tables, t->number);
	}
	mutex_unlock(&vf->pages_lock);
	if (ret)
		table_free(t);
	return ret;
}

/* A file has a table no more, and its pages are in none. Under pages_lock. */
static void leave(struct vfun_file *vf, struct vfun_pages *t)
{
	unsigned long n;

	for (n = 0; n < t->count; n++) {
		unsigned long pfn = page_to_pfn((struct page *)(t->page[n] & ~WRITABLE));
		void *value = t->page[n] ? xa_load(&vf->pages, pfn) : NULL;

		/* It may be in another one since this one was dead. */
		if (value && xa_to_value(value) >> PLACE_BITS == t->number)
			xa_erase(&vf->pages, pfn);
		cond_resched();
	}
	xa_erase(&vf->tables, t->number);
}

/* The device asks the host for a table from now on. */
static void adopt(struct vfun_device *dev, struct vfun_pages *t)
{
	int idx;

	vfun_channel_put(t->ch);
	t->ch = NULL;
	mutex_lock(&dev->tables_lock);
	list_add_tail(&t->of, &dev->tables);
	mutex_unlock(&dev->tables_lock);
	/* Inside, the queue of work is there. */
	if (vfun_enter(dev->win, &idx)) {
		mod_delayed_work(dev->wq, &dev->tables_work, VFUN_TABLES_FIRST);
		vfun_leave(dev->win, idx);
	}
}

/*
 * Takes the table of a channel that is dead from its file; NULL: there is none, or
 * its session is over and the device has it. The caller has it, for vfun_pages_done.
 */
struct vfun_pages *vfun_pages_take(struct vfun_channel *ch)
{
	struct vfun_file *vf = ch->vf;
	struct vfun_pages *t;
	unsigned long n;

	if (!ch->table)
		return NULL;
	mutex_lock(&vf->pages_lock);
	xa_for_each(&vf->tables, n, t) {
		if (t->ch == ch) {
			leave(vf, t);
			break;
		}
	}
	mutex_unlock(&vf->pages_lock);
	return t;
}

/* Whether no service of the host has it any more; else the device asks for it. */
void vfun_pages_done(struct vfun_device *dev, struct vfun_pages *t, bool over)
{
	if (!t)
		return;
	if (over)
		table_free(t);
	else
		adopt(dev, t);
}

/*
 * One whose program was never told of it. Another thread may have guessed its handle,
 * and put pages in it.
 */
void vfun_pages_forget(struct vfun_channel *ch)
{
	struct vfun_pages *t = vfun_pages_take(ch);

	vfun_pages_done(ch->vf->dev, t, t && !t->pinned);
}

/* Tables whose session is over: the device asks the host for them. */
void vfun_pages_leave(struct vfun_file *vf)
{
	struct vfun_pages *t;
	unsigned long n;

	mutex_lock(&vf->pages_lock);
	xa_for_each(&vf->tables, n, t) {
		leave(vf, t);
		adopt(vf->dev, t);
	}
	mutex_unlock(&vf->pages_lock);
}

/* Whether an answer to BUFFER_PUT says that no service has the table (R-PAG-4). */
bool vfun_pages_over(const struct vfun_exchange *x)
{
	const struct vfun_nack_body *nack = x->answer;

	if (x->acked)
		return true;
	return x->answer_len >= offsetofend(struct vfun_nack_body, code) &&
	       (nack->code == VFUN_NACK_CODE_BAD_HANDLE || nack->code == VFUN_NACK_CODE_STALE);
}

/* 1: no service has the table any more; 0: one may; or no answer came. */
static int put_table(struct vfun_device *dev, const struct vfun_pages *t, void *answer,
		     unsigned int timeout_ms, bool last)
{
	struct vfun_buffer_put body = { .buffer = t->handle };
	struct vfun_exchange x = {
		.kind = VFUN_KIND_BUFFER_PUT,
		.body = &body,
		.body_len = sizeof(body),
		.session = t->session,
		.generation = vfun_generation(dev),
		.timeout_ms = timeout_ms,
		.answer = answer,
		.last = last,
	};

	return vfun_exchange(dev, &x) ?: vfun_pages_over(&x);
}

/* Frees those that are over. False: the host does not answer. The caller is inside. */
static bool ask(struct vfun_device *dev, struct list_head *all, unsigned int timeout_ms,
		bool last)
{
	void *answer = kmalloc(VFUN_ANSWER_BODY, GFP_KERNEL);
	struct vfun_pages *t, *next;
	int over = answer ? 0 : -ENOMEM;

	list_for_each_entry_safe(t, next, all, of) {
		if (over < 0)
			break;
		over = put_table(dev, t, answer, timeout_ms, last);
		if (over > 0) {
			list_del(&t->of);
			table_free(t);
		}
	}
	kfree(answer);
	return over >= 0;
}

/* After the goodbye of their sessions: a service lets go of what a session has when that ends. */
void vfun_tables_ask(struct work_struct *work)
{
	struct vfun_device *dev = container_of(to_delayed_work(work), struct vfun_device,
					       tables_work);
	LIST_HEAD(all);
	int idx;

	if (!vfun_enter(dev->win, &idx))
		return;
	mutex_lock(&dev->tables_lock);
	list_splice_init(&dev->tables, &all);
	mutex_unlock(&dev->tables_lock);
	/* One at which the host keeps silent does not keep those behind it for ever. */
	if (!ask(dev, &all, VFUN_GOODBYE_MS, false))
		list_rotate_left(&all);
	mutex_lock(&dev->tables_lock);
	list_splice(&all, &dev->tables);
	if (!list_empty(&dev->tables))
		queue_delayed_work(dev->wq, &dev->tables_work, VFUN_TABLES_AGAIN);
	mutex_unlock(&dev->tables_lock);
	vfun_leave(dev->win, idx);
}

/* Tables of files that are still open. */
static void leave_files(struct vfun_device *dev)
{
	struct vfun_file *vf;

	mutex_lock(&vfun_lock);
	list_for_each_entry(vf, &dev->files, list)
		vfun_pages_leave(vf);
	mutex_unlock(&vfun_lock);
}

/*
 * At removal, when all sessions are over and the window is still there: for a while, as
 * long as the host answers.
 */
void vfun_tables_farewell(struct vfun_device *dev)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(VFUN_TABLES_FAREWELL_MS);
	LIST_HEAD(all);

	leave_files(dev);
	mutex_lock(&dev->tables_lock);
	list_splice_init(&dev->tables, &all);
	mutex_unlock(&dev->tables_lock);
	while (ask(dev, &all, VFUN_FAREWELL_MS, true) && !list_empty(&all) &&
	       time_before(jiffies, deadline))
		schedule_timeout_uninterruptible(VFUN_TABLES_FIRST);
	/* A file that was closed meanwhile has added its own. */
	mutex_lock(&dev->tables_lock);
	list_splice(&all, &dev->tables);
	mutex_unlock(&dev->tables_lock);
}

/* The device is over, and who may still write these pages is not known. */
void vfun_tables_keep(const struct vfun_device *dev)
{
	const struct vfun_pages *t;
	unsigned long pages = 0;

	list_for_each_entry(t, &dev->tables, of)
		pages += t->pinned;
	if (pages)
		pr_warn("the host did not say that it let go of %lu pages: they stay pinned\n", pages);
}

/* ---- pages come to a table ------------------------------------------- */

/*
 * Looks at the mapping. A page of the caller's own is got for writing, also where it
 * may only read it: a later write would get another page else.
 */
static long look_at(struct stretch *s, unsigned long end, bool write)
{
	struct vm_area_struct *vma;
	bool shared, memory = true;
	long ret = 0;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, s->addr);
	if (!vma) {
		ret = -EFAULT;
		goto unlock;
	}
	s->count = (min(vma->vm_end, end) - s->addr) >> PAGE_SHIFT;
	s->writable = vma->vm_flags & VM_WRITE;
	shared = vma->vm_flags & VM_SHARED;
	if (shared && vma->vm_file) {
		const struct inode *inode = file_inode(vma->vm_file);
		unsigned long magic = inode->i_sb->s_magic;

		/* Nodes of devices, disks too, lie in a devtmpfs, which has tmpfs' number. */
		memory = S_ISREG(inode->i_mode) &&
			 (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC);
	}
	if (!(vma->vm_flags & VM_READ))
		ret = -EFAULT;
	else if (!memory || (vma->vm_flags & (VM_IO | VM_PFNMAP)))
		ret = -EOPNOTSUPP;
	else if (write && !s->writable)
		ret = -EROFS;
	if (s->writable)
		s->gup = FOLL_WRITE;
	else if (!shared)
		s->gup = FOLL_WRITE | FOLL_FORCE;
unlock:
	mmap_read_unlock(current->mm);
	return ret;
}

/*
 * Where a page is in the tables of a file. One that has ended, by the host or with its
 * window, is of no use any more. Under pages_lock.
 */
static struct vfun_pages *find_page(struct vfun_file *vf, struct page *page,
				    unsigned long *place)
{
	void *value = xa_load(&vf->pages, page_to_pfn(page));
	struct vfun_pages *t;

	if (!value)
		return NULL;
	*place = xa_to_value(value) & ((1UL << PLACE_BITS) - 1);
	t = xa_load(&vf->tables, xa_to_value(value) >> PLACE_BITS);
	return t && !READ_ONCE(t->ch->dead) ? t : NULL;
}

/* How many pages from the first on are one behind the other in a table, or are in none. */
static unsigned long alike(struct vfun_file *vf, const struct stretch *s, unsigned long got,
			   struct vfun_pages **t, unsigned long *place)
{
	unsigned long n, at = 0;

	*t = find_page(vf, s->pages[0], place);
	for (n = 1; n < got; n++)
		if (find_page(vf, s->pages[n], &at) != *t || (*t && at != *place + n))
			break;
	return n;
}

/* The pages may be written now, and the host is told. */
static long let_write(struct vfun_pages *t, unsigned long place, unsigned long count)
{
	struct vfun_channel *ch = t->ch;
	unsigned long n;
	long ret = -EPIPE;

	down_read(&vfun_map_sem);
	if (!ch->dead && ch->area[0].win) {
		ret = 0;
		for (n = place; n < place + count; n++) {
			if (t->page[n] & WRITABLE)
				continue;
			t->page[n] |= WRITABLE;
			set_entry(t, n);
		}
	}
	up_read(&vfun_map_sem);
	return ret;
}

/* Puts pages that are pinned at places of a table that are free. */
static long put_in(struct vfun_file *vf, struct vfun_pages *t, unsigned long place,
		   const struct stretch *s, unsigned long count)
{
	struct vfun_channel *ch = t->ch;
	unsigned long n, at, put = 0;
	long ret = 0;

	down_read(&vfun_map_sem);
	if (ch->dead || !ch->area[0].win)
		ret = -EPIPE;
	for (n = 0; !ret && n < count; n++) {
		u64 value = (u64)t->number << PLACE_BITS | (place + n);

		/* Twice in this stretch, or it came meanwhile. */
		if (t->page[place + n] || find_page(vf, s->pages[n], &at))
			break;
		ret = xa_err(xa_store(&vf->pages, page_to_pfn(s->pages[n]), xa_mk_value(value),
				      GFP_KERNEL_ACCOUNT));
		if (ret)
			break;
		t->page[place + n] = (unsigned long)s->pages[n] | (s->writable ? WRITABLE : 0);
		set_entry(t, place + n);
		put++;
	}
	up_read(&vfun_map_sem);
	t->pinned += put;
	return put ?: ret ?: -EINVAL;
}

/* Pins pages that are in no table. How many; fewer where a page was another by then. */
static long pin_in(struct vfun_file *vf, u64 table, u64 place, struct stretch *s,
		   unsigned long count)
{
	unsigned long most = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;
	struct vfun_pages *t;
	long got, put = -EINTR;

	if (atomic64_add_return(count, &mm->pinned_vm) > most && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(count, &mm->pinned_vm);
		return -EDQUOT;
	}
	/* Not under the lock: a page may be long in coming. */
	got = pin_user_pages_fast(s->addr, count, s->gup | FOLL_LONGTERM, s->pages);
	if (got <= 0) {
		put = got ?: -EFAULT;
	} else if (!mutex_lock_killable(&vf->pages_lock)) {
		t = find_table(vf, table);
		if (!t)
			put = -ENOENT;
		else if (t->mm != mm)
			put = -EBADF;
		else if (place >= t->count || got > t->count - place)
			put = -EINVAL;
		else
			put = put_in(vf, t, place, s, got);
		mutex_unlock(&vf->pages_lock);
	}
	if (got > 0 && put < got)
		unpin_user_pages(s->pages + max(put, 0L), got - max(put, 0L));
	atomic64_sub(count - max(put, 0L), &mm->pinned_vm);
	return put;
}

/* How many pages there are of one kind, and where they are; in no table: *t is NULL. */
static long look_up(struct vfun_file *vf, struct vfun_ioc_pin *p, struct stretch *s, bool *known)
{
	unsigned long place = 0, count = 0, n;
	struct vfun_pages *t = NULL;
	long got, ret;

	got = get_user_pages_fast(s->addr, s->count, s->gup, s->pages);
	if (got <= 0)
		return got ?: -EFAULT;
	ret = mutex_lock_killable(&vf->pages_lock);
	if (!ret) {
		count = alike(vf, s, got, &t, &place);
		if (t) {
			p->buffer = t->handle;
			p->index = place;
			ret = s->writable ? let_write(t, place, count) : 0;
		}
		mutex_unlock(&vf->pages_lock);
	}
	for (n = 0; n < got; n++)
		put_page(s->pages[n]);
	*known = t;
	return ret ?: count;
}

static long pin(struct vfun_file *vf, struct vfun_ioc_pin *p, struct stretch *s)
{
	bool known = false;
	long count;

	count = look_up(vf, p, s, &known);
	if (count > 0 && !known && p->buffer)
		count = pin_in(vf, p->buffer, p->index, s, count);
	else if (!known)
		p->index = 0;
	if (count > 0)
		p->bytes = (u64)count << PAGE_SHIFT;
	return min(count, 0L);
}

long vfun_ioc_pin(struct file *filp, struct vfun_ioc_pin __user *arg)
{
	struct vfun_file *vf = filp->private_data;
	struct stretch s = {};
	struct vfun_ioc_pin p;
	unsigned long end;
	long ret;

	if (copy_from_user(&p, arg, sizeof(p)))
		return -EFAULT;
	if (p.write > 1 || p.reserved || !p.bytes || !PAGE_ALIGNED(p.addr | p.bytes) ||
	    p.addr > TASK_SIZE || p.bytes > TASK_SIZE - p.addr)
		return -EINVAL;
	if (vfun_gone(vf->dev))
		return -ENODEV;
	s.addr = p.addr;
	end = p.addr + min_t(u64, p.bytes, VFUN_MOVE_PAGES * PAGE_SIZE);
	ret = look_at(&s, end, p.write);
	if (ret)
		return ret;
	s.pages = kvmalloc_array(s.count, sizeof(*s.pages), GFP_KERNEL_ACCOUNT);
	if (!s.pages)
		return -ENOMEM;
	ret = pin(vf, &p, &s);
	kvfree(s.pages);
	if (!ret)
		ret = copy_to_user(arg, &p, sizeof(p)) ? -EFAULT : 0;
	return ret;
}
