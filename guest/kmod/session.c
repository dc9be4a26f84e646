// SPDX-License-Identifier: GPL-2.0
/*
 * A file's session. vf->epoch moves whenever a session ends, so that
 * a request that was under way then does not touch the next one.
 */

#include <linux/slab.h>

#include "vfun.h"

/* Under vf->lock: takes everything that a session had to `over`. */
static void end_session(struct vfun_file *vf, struct list_head *over)
{
	vf->epoch++;
	vf->session = VFUN_HANDLE_NONE;
	list_splice_init(&vf->grants, over);
	memset(vf->held, 0, sizeof(vf->held));
}

static void free_grants(struct list_head *over)
{
	struct vfun_grant *grant, *next;

	list_for_each_entry_safe(grant, next, over, list)
		vfun_grant_free(grant);
}

/* HELLO is to be said: there must be no session, or one of another window. */
int vfun_session_begin(struct vfun_file *vf, u64 generation)
{
	LIST_HEAD(over);

	spin_lock(&vf->lock);
	if (vf->state != VFUN_SESSION_NONE &&
	    !(vf->state == VFUN_SESSION_OPEN && vf->generation != generation)) {
		spin_unlock(&vf->lock);
		return -EBUSY;
	}
	/* The session may be another thread's, of a later window than ours. */
	if (generation != vfun_generation(vf->dev)) {
		spin_unlock(&vf->lock);
		return -ESTALE;
	}
	/* Channels of an earlier generation are dead already (layout.c). */
	end_session(vf, &over);
	vf->state = VFUN_SESSION_OPENING;
	vf->generation = generation;
	spin_unlock(&vf->lock);
	vfun_pages_leave(vf);
	free_grants(&over);
	return 0;
}

void vfun_session_opened(struct vfun_file *vf, const struct vfun_hello_ack *ack)
{
	spin_lock(&vf->lock);
	vf->state = VFUN_SESSION_OPEN;
	vf->session = ack->session;
	vf->line = ack->session_line;
	vf->heartbeat_ms = ack->heartbeat_ms;
	spin_unlock(&vf->lock);
	mod_delayed_work(system_freezable_wq, &vf->dev->beat_work, 0);
}

void vfun_session_not_opened(struct vfun_file *vf)
{
	spin_lock(&vf->lock);
	vf->state = VFUN_SESSION_NONE;
	spin_unlock(&vf->lock);
}

/* Under vf->lock. */
static int session_usable(struct vfun_file *vf)
{
	if (vf->state != VFUN_SESSION_OPEN)
		return -ENOTCONN;
	if (vf->generation != vfun_generation(vf->dev))
		return -ESTALE;
	return 0;
}

int vfun_session_get(struct vfun_file *vf, u64 *session, u64 *generation,
		     u64 *epoch)
{
	int ret;

	spin_lock(&vf->lock);
	ret = session_usable(vf);
	*session = vf->session;
	*generation = vf->generation;
	*epoch = vf->epoch;
	spin_unlock(&vf->lock);
	return ret;
}

/*
 * GOODBYE is to be said. Its channels end here, before the host can give their
 * pages to others.
 */
int vfun_session_close(struct vfun_file *vf, u64 *session, u64 *generation)
{
	LIST_HEAD(over);
	int ret;

	spin_lock(&vf->lock);
	ret = session_usable(vf);
	if (!ret) {
		*session = vf->session;
		*generation = vf->generation;
		end_session(vf, &over);
		vf->state = VFUN_SESSION_CLOSING;
	}
	spin_unlock(&vf->lock);
	if (ret)
		return ret;
	vfun_kill_file(vf, VFUN_BREAK_REASON_RELEASED);
	vfun_pages_leave(vf);
	free_grants(&over);
	return 0;
}

void vfun_session_closed(struct vfun_file *vf)
{
	vfun_session_not_opened(vf);
}

/*
 * GOODBYE never reached the host, whose session goes on, with a heartbeat: were
 * it forgotten here, the host would keep what it has until it is taken for dead.
 */
void vfun_session_not_closed(struct vfun_file *vf, u64 session)
{
	spin_lock(&vf->lock);
	vf->state = VFUN_SESSION_OPEN;
	vf->session = session;
	spin_unlock(&vf->lock);
	mod_delayed_work(system_freezable_wq, &vf->dev->beat_work, 0);
}

static void file_free(struct vfun_file *vf)
{
	struct vfun_device *dev = vf->dev;

	xa_destroy(&vf->tables);
	xa_destroy(&vf->pages);
	__free_page(vf->scratch);
	kfree(vf);
	vfun_device_put(dev);
}

/* Tells the host of a session whose file is closed; then the file is freed. */
void vfun_goodbye(struct work_struct *work)
{
	struct vfun_file *vf = container_of(work, struct vfun_file, goodbye);
	struct vfun_device *dev = vf->dev;
	struct vfun_empty body = {};
	struct vfun_exchange x = {
		.kind = VFUN_KIND_GOODBYE,
		.body = &body,
		.body_len = sizeof(body),
		.session = vf->session,
		.generation = vf->generation,
		.timeout_ms = VFUN_GOODBYE_MS,
	};
	int idx;

	/* Where it fails, the heartbeat that has stopped tells the host. */
	if (vfun_enter(dev->win, &idx)) {
		x.answer = kmalloc(VFUN_ANSWER_BODY, GFP_KERNEL);
		if (x.answer)
			vfun_exchange(dev, &x);
		kfree(x.answer);
		vfun_leave(dev->win, idx);
	}
	file_free(vf);
}

/*
 * The file is closed for good: nobody else uses it. The process that closes it
 * may be dying and does not wait for the host.
 */
void vfun_session_release(struct vfun_file *vf)
{
	struct vfun_device *dev = vf->dev;
	LIST_HEAD(over);
	int idx;

	vfun_kill_file(vf, VFUN_BREAK_REASON_RELEASED);
	vfun_pages_leave(vf);
	list_splice_init(&vf->grants, &over);
	free_grants(&over);

	mutex_lock(&vfun_lock);
	list_del(&vf->list);
	dev->file_count--;
	mutex_unlock(&vfun_lock);

	/* Inside, the queue of work is there. */
	if (vf->state == VFUN_SESSION_OPEN && vfun_enter(dev->win, &idx)) {
		queue_work(dev->wq, &vf->goodbye);
		vfun_leave(dev->win, idx);
	} else {
		file_free(vf);
	}
}
