// SPDX-License-Identifier: GPL-2.0
/*
 * One task of a process moves memory at a time, by whichever open file: two that
 * move the same memory would each take what the other left.
 */

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "vfun.h"

/* A process whose tasks move memory, while some do. */
struct vfun_movers {
	struct list_head of;
	struct mm_struct *mm;
	unsigned int tasks;		/* that move, or wait for it; under movers_lock */
	struct mutex lock;
};

static DEFINE_SPINLOCK(movers_lock);
static LIST_HEAD(all_movers);

static struct vfun_movers *find(const struct mm_struct *mm)
{
	struct vfun_movers *m;

	list_for_each_entry(m, &all_movers, of)
		if (m->mm == mm)
			return m;
	return NULL;
}

static void let_go(struct vfun_movers *m)
{
	spin_lock(&movers_lock);
	if (--m->tasks)
		m = NULL;
	else
		list_del(&m->of);
	spin_unlock(&movers_lock);
	kfree(m);
}

/* Waits for the others of this process. Other processes wait for nobody. */
struct vfun_movers *vfun_movers_enter(void)
{
	struct vfun_movers *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *m;

	if (!new)
		return ERR_PTR(-ENOMEM);
	mutex_init(&new->lock);
	new->mm = current->mm;
	spin_lock(&movers_lock);
	m = find(current->mm);
	if (!m) {
		m = new;
		new = NULL;
		list_add(&m->of, &all_movers);
	}
	m->tasks++;
	spin_unlock(&movers_lock);
	kfree(new);
	if (!mutex_lock_killable(&m->lock))
		return m;
	let_go(m);
	return ERR_PTR(-EINTR);
}

void vfun_movers_leave(struct vfun_movers *m)
{
	mutex_unlock(&m->lock);
	let_go(m);
}
