// SPDX-License-Identifier: GPL-2.0
/* The node's file operations. */

#include <linux/capability.h>
#include <linux/hrtimer.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "compat.h"
#include "vfun.h"

/*
 * Whether the current task may administer the VM's network. CAP_NET_ADMIN of
 * a container is over another user namespace, or over another network. Most
 * programs lack it: that is nothing to audit.
 */
bool vfun_task_is_net_admin(void)
{
#ifdef CONFIG_NET
	return net_eq(current->nsproxy->net_ns, &init_net) &&
	       ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
#else
	return false;
#endif
}

/*
 * What may have a session: for an open node, or without mapping for the module's
 * own use. It ends with vfun_session_release().
 */
struct vfun_file *vfun_file_new(struct vfun_device *dev,
				struct address_space *mapping, bool net_admin)
{
	struct vfun_file *vf;
	int ret = 0;

	vf = kzalloc(sizeof(*vf), GFP_KERNEL_ACCOUNT);
	if (!vf)
		return ERR_PTR(-ENOMEM);
	vf->scratch = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!vf->scratch) {
		kfree(vf);
		return ERR_PTR(-ENOMEM);
	}
	vf->dev = dev;
	vf->mapping = mapping;
	vf->net_admin = net_admin;
	spin_lock_init(&vf->lock);
	init_waitqueue_head(&vf->poll_wq);
	init_waitqueue_head(&vf->request_wq);
	INIT_LIST_HEAD(&vf->live);
	INIT_LIST_HEAD(&vf->grants);
	INIT_WORK(&vf->goodbye, vfun_goodbye);
	mutex_init(&vf->move_lock);
	mutex_init(&vf->pages_lock);
	xa_init_flags(&vf->tables, XA_FLAGS_ALLOC);
	xa_init(&vf->pages);

	mutex_lock(&vfun_lock);
	if (vfun_gone(dev)) {
		ret = -ENODEV;
	} else if (mapping && dev->file_count >= VFUN_FILES_MAX) {
		/* The module's own is never one too many. */
		ret = -EMFILE;
	} else {
		kref_get(&dev->ref);
		list_add_tail(&vf->list, &dev->files);
		dev->file_count++;
	}
	mutex_unlock(&vfun_lock);
	if (!ret)
		return vf;
	__free_page(vf->scratch);
	kfree(vf);
	return ERR_PTR(ret);
}

/* Under the lock of the misc devices, which removal takes, too. */
static int vfun_open(struct inode *inode, struct file *filp)
{
	struct vfun_device *dev = container_of(filp->private_data,
					       struct vfun_device, misc);
	struct vfun_file *vf = vfun_file_new(dev, filp->f_mapping,
					     vfun_task_is_net_admin());

	if (IS_ERR(vf))
		return PTR_ERR(vf);
	filp->private_data = vf;
	return stream_open(inode, filp);
}

static int vfun_release(struct inode *inode, struct file *filp)
{
	vfun_session_release(filp->private_data);
	return 0;
}

static long ioc_info(struct vfun_file *vf, struct vfun_ioc_info __user *arg)
{
	struct vfun_device *dev = vf->dev;
	struct vfun_ioc_info info = {
		.window_bytes = dev->win->bytes,
		.abi = VFUN_ABI,
		.vectors = dev->win->vectors,
		.pci = dev->win->pci,
	};
	int idx;

	if (vfun_enter(dev->win, &idx)) {
		vfun_layout_check(dev);
		vfun_leave(dev->win, idx);
	}
	info.generation = vfun_generation(dev);
	info.features = READ_ONCE(dev->win->features);
	info.gone = vfun_gone(dev);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static long ioc_window(struct vfun_file *vf, struct vfun_ioc_window __user *arg)
{
	struct vfun_ioc_window w;
	struct vfun_window *win;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;
	if (vfun_gone(vf->dev))
		return -ENODEV;
	down_read(&vfun_map_sem);
	win = vfun_window_find(vf->dev, w.window);
	if (win) {
		w.role = win->role;
		w.pci = win->pci;
		w.bytes = win->bytes;
		w.generation = READ_ONCE(win->generation);
	}
	up_read(&vfun_map_sem);
	if (!win)
		return -ENOENT;
	return copy_to_user(arg, &w, sizeof(w)) ? -EFAULT : 0;
}

/* Waits in a place until its count differs from w->seen or `over` is set. */
static int wait_count(struct vfun_device *dev, wait_queue_head_t *wq,
		      atomic64_t *events, const unsigned int *dead,
		      struct vfun_ioc_wait *w)
{
	u64 seen = w->seen;
	ktime_t begun = 0;
	int ret = 0;

#define VFUN_MOVED ((u64)atomic64_read(events) != seen || vfun_gone(dev) || \
		    (dead && READ_ONCE(*dead)))
	if (w->timeout_ns >= KTIME_MAX) {
		ret = wait_event_interruptible(*wq, VFUN_MOVED);
	} else if (w->timeout_ns) {
		begun = ktime_get();
		ret = wait_event_interruptible_hrtimeout(*wq, VFUN_MOVED,
							 ns_to_ktime(w->timeout_ns));
	}
#undef VFUN_MOVED
	if (vfun_gone(dev) || (dead && READ_ONCE(*dead)))
		vfun_kill_wait();
	w->seen = atomic64_read(events);
	if (vfun_gone(dev))
		return -ENODEV;
	if (w->seen != seen)
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	if (ret) {
		/* If no handler runs (a stop, a suspend), it goes on by itself. */
		if (begun)
			w->timeout_ns -= min_t(u64, w->timeout_ns - 1,
					       ktime_to_ns(ktime_sub(ktime_get(), begun)));
		return -ERESTARTNOHAND;
	}
	return dead && READ_ONCE(*dead) && w->timeout_ns ? -EPIPE : 0;
}

static long ioc_wait(struct vfun_file *vf, struct vfun_ioc_wait __user *arg)
{
	struct vfun_device *dev = vf->dev;
	struct vfun_channel *ch;
	struct vfun_ioc_wait w;
	long ret;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;
	if (!w.channel) {
		ret = wait_count(dev, &dev->control_wq, &dev->control_events,
				 NULL, &w);
	} else {
		ch = vfun_channel_find(vf, w.channel);
		if (!ch)
			return vfun_gone(dev) ? -ENODEV : -ENOENT;
		ret = wait_count(dev, &ch->wq, &ch->events, &ch->dead, &w);
		if (!ret)
			WRITE_ONCE(ch->polled, w.seen);
		vfun_channel_put(ch);
	}
	if ((!ret || ret == -ERESTARTNOHAND) && copy_to_user(arg, &w, sizeof(w)))
		ret = -EFAULT;
	return ret;
}

static long ioc_ring(struct vfun_file *vf, struct vfun_ioc_ring __user *arg)
{
	struct vfun_ioc_ring ring;
	struct vfun_channel *ch;
	unsigned int vector = 0;
	long ret = 0;
	int idx;

	if (copy_from_user(&ring, arg, sizeof(ring)))
		return -EFAULT;
	if (!vfun_enter(vf->dev->win, &idx))
		return -ENODEV;
	if (ring.channel) {
		ch = vfun_channel_find(vf, ring.channel);
		if (!ch) {
			ret = -ENOENT;
		} else {
			vector = ch->vector_out;
			if (READ_ONCE(ch->dead))
				ret = -EPIPE;
			vfun_channel_put(ch);
		}
	}
	if (!ret)
		vfun_ring_vector(vf->dev->win, vector);
	vfun_leave(vf->dev->win, idx);
	return ret;
}

static long ioc_eventfd(struct vfun_file *vf,
			struct vfun_ioc_eventfd __user *arg)
{
	struct vfun_device *dev = vf->dev;
	struct eventfd_ctx *ctx = NULL;
	struct vfun_ioc_eventfd e;
	struct vfun_channel *ch;
	unsigned long flags;
	long ret = 0;

	if (copy_from_user(&e, arg, sizeof(e)))
		return -EFAULT;
	if (e.reserved || !e.channel || e.fd < -1)
		return -EINVAL;
	if (vfun_gone(dev))
		return -ENODEV;
	ch = vfun_channel_find(vf, e.channel);
	if (!ch)
		return -ENOENT;
	if (e.fd >= 0) {
		ctx = eventfd_ctx_fdget(e.fd);
		if (IS_ERR(ctx)) {
			vfun_channel_put(ch);
			return PTR_ERR(ctx);
		}
	}
	spin_lock_irqsave(&dev->win->bell_lock, flags);
	if (ch->dead && ctx)
		ret = vfun_gone(dev) ? -ENODEV : -EPIPE;
	else
		swap(ch->eventfd, ctx);
	spin_unlock_irqrestore(&dev->win->bell_lock, flags);
	if (ctx)
		eventfd_ctx_put(ctx);
	vfun_channel_put(ch);
	return ret;
}

static long ioc_buffer(struct vfun_file *vf, struct vfun_ioc_buffer __user *arg)
{
	struct vfun_ioc_buffer b;
	struct vfun_grant *grant;
	long ret = -ENOENT;

	if (copy_from_user(&b, arg, sizeof(b)))
		return -EFAULT;
	if (vfun_gone(vf->dev))
		return -ENODEV;
	spin_lock(&vf->lock);
	grant = vfun_grant_find(vf, VFUN_HOLDS_BUFFER, b.buffer);
	if (grant)
		ret = grant->ch && !READ_ONCE(grant->ch->dead) ? 0 : -EPIPE;
	spin_unlock(&vf->lock);
	return ret;
}

static long vfun_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct vfun_file *vf = filp->private_data;
	void __user *p = (void __user *)arg;
	long ret;

	if (!(filp->f_mode & FMODE_READ) ||
	    (cmd != VFUN_IOC_INFO && !(filp->f_mode & FMODE_WRITE)))
		return -EBADF;
	switch (cmd) {
	case VFUN_IOC_INFO:
		return ioc_info(vf, p);
	case VFUN_IOC_REQUEST:
		ret = vfun_request(vf, p);
		break;
	case VFUN_IOC_WAIT:
		ret = ioc_wait(vf, p);
		break;
	case VFUN_IOC_RING:
		ret = ioc_ring(vf, p);
		break;
	case VFUN_IOC_EVENTFD:
		ret = ioc_eventfd(vf, p);
		break;
	case VFUN_IOC_WINDOW:
		ret = ioc_window(vf, p);
		break;
	case VFUN_IOC_BUFFER:
		ret = ioc_buffer(vf, p);
		break;
	case VFUN_IOC_PIN:
		ret = vfun_ioc_pin(filp, p);
		break;
	case VFUN_IOC_REMAP:
		ret = vfun_ioc_remap(filp, p);
		break;
	case VFUN_IOC_LINK:
		ret = vfun_ioc_link(vf, p);
		break;
	default:
		return -ENOTTY;
	}
	/* Who is told that it is over finds it over in its pages, too. */
	if (ret == -ENODEV || ret == -EPIPE)
		vfun_kill_wait();
	return ret;
}

static __poll_t vfun_poll(struct file *filp, poll_table *table)
{
	struct vfun_file *vf = filp->private_data;
	struct vfun_grant *grant;
	__poll_t mask = 0;

	poll_wait(filp, &vf->poll_wq, table);
	spin_lock(&vf->lock);
	list_for_each_entry(grant, &vf->grants, list)
		if (grant->what == VFUN_HOLDS_GRANT && grant->ch &&
		    (u64)atomic64_read(&grant->ch->events) != READ_ONCE(grant->ch->polled))
			mask = EPOLLIN | EPOLLRDNORM;
	spin_unlock(&vf->lock);
	if (vfun_gone(vf->dev))
		mask |= EPOLLHUP | EPOLLERR;
	return mask;
}

const struct file_operations vfun_fops = {
	.owner = THIS_MODULE,
	.open = vfun_open,
	.release = vfun_release,
	.unlocked_ioctl = vfun_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = vfun_mmap,
	.poll = vfun_poll,
};
