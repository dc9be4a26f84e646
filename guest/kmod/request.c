// SPDX-License-Identifier: GPL-2.0
/* VFUN_IOC_REQUEST: what a program may ask, and what the module learns of it. */

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vfun.h"

/* One request under way: what the program said, and what it shall get. */
struct request {
	struct vfun_file *vf;
	struct vfun_exchange x;
	u64 epoch;
	unsigned long deadline;		/* of all that it waits for, in jiffies */
	u8 body[VFUN_REQUEST_BODY] __aligned(8);
	u8 answer[VFUN_ANSWER_BODY] __aligned(8);
};

struct message {
	u16 body_len;
	u16 ack_least, ack_most;
};

#define ROW(name, request, ack, most) \
	[VFUN_KIND_##name] = { sizeof(struct request), sizeof(struct ack), most }

/* Messages that programs may send; RESET is the module's own. */
static const struct message messages[] = {
	ROW(HELLO, vfun_hello, vfun_hello_ack, sizeof(struct vfun_hello_ack)),
	ROW(NEGOTIATE, vfun_negotiate, vfun_negotiate_ack,
	    sizeof(struct vfun_negotiate_ack)),
	ROW(ACTIVATE, vfun_of_grant, vfun_activate_ack,
	    sizeof(struct vfun_activate_ack)),
	ROW(RELEASE, vfun_of_grant, vfun_stats, sizeof(struct vfun_stats)),
	ROW(LIST, vfun_list, vfun_list_ack, VFUN_ANSWER_BODY),
	ROW(STATS, vfun_of_grant, vfun_stats, sizeof(struct vfun_stats)),
	ROW(KEEP_ALIVE, vfun_empty, vfun_empty, sizeof(struct vfun_empty)),
	ROW(GOODBYE, vfun_empty, vfun_empty, sizeof(struct vfun_empty)),
	ROW(DESCRIBE, vfun_describe, vfun_describe_ack, VFUN_ANSWER_BODY),
};

/* Features whose effect on pages and messages this module knows. */
#define FEATURES_KNOWN (VFUN_FEATURE_DOORBELL | VFUN_FEATURE_FLOOR | \
			VFUN_FEATURE_MODULE | VFUN_FEATURE_SIGNATURES)

/* What is left of the program's time; never nothing, so that it is posted. */
static unsigned int left_ms(const struct request *r)
{
	long left = r->deadline - jiffies;

	return left > 0 ? max(jiffies_to_msecs(left), 1u) : 1;
}

/* Sends it; an ack has a length that is possible for it. */
static int exchange(struct request *r)
{
	const struct message *m = &messages[r->x.kind];
	int ret;

	r->x.timeout_ms = left_ms(r);
	ret = vfun_exchange(r->vf->dev, &r->x);
	if (ret == -ESTALE)
		vfun_layout_check(r->vf->dev);
	if (ret)
		return ret;
	if (!r->x.acked) {
		/* A longer nack is of a newer host; its beginning says it. */
		r->x.answer_len = min_t(u16, r->x.answer_len,
					sizeof(struct vfun_nack_body));
		return 0;
	}
	if (r->x.answer_len < m->ack_least || r->x.answer_len > m->ack_most)
		return -EPROTO;
	return 0;
}

static int hello(struct request *r)
{
	struct vfun_hello *body = (void *)r->body;
	const struct vfun_hello_ack *ack = (void *)r->answer;
	struct vfun_file *vf = r->vf;
	int ret;

	ret = vfun_ensure_reset(vf->dev, left_ms(r));
	if (ret)
		return ret;
	r->x.generation = READ_ONCE(vf->dev->generation);
	if (!r->x.generation)
		return -EAGAIN;
	r->x.orphan = vfun_orphan_new(vf->dev);
	if (!r->x.orphan)
		return -ENOMEM;
	ret = vfun_session_begin(vf, r->x.generation);
	if (ret)
		goto out;

	/* As the first namespace has it: others' ids mean nothing outside. */
	body->pid = task_tgid_nr(current);
	body->features &= FEATURES_KNOWN;
	body->features |= VFUN_FEATURE_MODULE | VFUN_FEATURE_DOORBELL;
	ret = exchange(r);
	if (!ret && r->x.acked &&
	    (!ack->session || ack->session_line >= VFUN_SESSIONS ||
	     ack->version < body->version_min ||
	     ack->version > body->version_max ||
	     (ack->features & ~body->features) ||
	     ack->heartbeat_ms > VFUN_HEARTBEAT_DEAD_MS))
		ret = -EPROTO;
	if (ret || !r->x.acked)
		vfun_session_not_opened(vf);
	else
		vfun_session_opened(vf, ack);
out:
	kfree(r->x.orphan);
	return ret;
}

static int goodbye(struct request *r)
{
	struct vfun_file *vf = r->vf;
	int ret;

	ret = vfun_session_close(vf, &r->x.session, &r->x.generation);
	if (ret)
		return ret;
	ret = exchange(r);
	/* Not said at all: another try says it, or the end of the file. */
	if (ret && !r->x.posted)
		vfun_session_not_closed(vf, r->x.session);
	else
		vfun_session_closed(vf);
	return ret;
}

static int negotiate(struct request *r)
{
	const struct vfun_negotiate *body = (void *)r->body;
	const struct vfun_negotiate_ack *ack = (void *)r->answer;
	struct vfun_file *vf = r->vf;
	struct vfun_grant *grant;
	int ret = 0;

	grant = kzalloc(sizeof(*grant), GFP_KERNEL_ACCOUNT);
	if (!grant)
		return -ENOMEM;
	/* A place is kept for it, so that an ack is never too many. */
	spin_lock(&vf->lock);
	if (vf->epoch != r->epoch)
		ret = -ECANCELED;
	else if (vf->grant_count >= VFUN_GRANTS_MAX)
		ret = -EMFILE;
	else
		vf->grant_count++;
	spin_unlock(&vf->lock);
	if (ret)
		goto out;

	ret = exchange(r);
	if (!ret && r->x.acked &&
	    (!ack->grant || !vfun_side_bytes(ack->depth, ack->cell_bytes)))
		ret = -EPROTO;
	grant->handle = ack->grant;
	grant->depth = ack->depth;
	grant->cell_bytes = ack->cell_bytes;
	grant->kind = body->kind;
	grant->state = VFUN_GRANT_GRANTED;

	spin_lock(&vf->lock);
	if (vf->epoch != r->epoch) {
		ret = ret ?: -ECANCELED;
	} else if (!ret && r->x.acked && !vfun_grant_find(vf, grant->handle)) {
		list_add_tail(&grant->list, &vf->grants);
		grant = NULL;
	} else {
		if (!ret && r->x.acked)
			ret = -EPROTO;
		vf->grant_count--;
	}
	spin_unlock(&vf->lock);
out:
	kfree(grant);
	return ret;
}

/* Takes a grant for a request that changes it; what it was. */
static int grant_take(struct request *r, u64 handle, struct vfun_grant *was)
{
	struct vfun_file *vf = r->vf;
	struct vfun_grant *grant;
	int ret = 0;

	spin_lock(&vf->lock);
	grant = vfun_grant_find(vf, handle);
	if (vf->epoch != r->epoch) {
		ret = -ECANCELED;
	} else if (!grant) {
		ret = -ENOENT;
	} else if (grant->state == VFUN_GRANT_BUSY ||
		   (r->x.kind == VFUN_KIND_ACTIVATE &&
		    grant->state != VFUN_GRANT_GRANTED)) {
		ret = -EBUSY;
	} else {
		*was = *grant;
		if (was->ch)
			kref_get(&was->ch->ref);
		grant->state = VFUN_GRANT_BUSY;
	}
	spin_unlock(&vf->lock);
	return ret;
}

/*
 * Gives it back in its new state, with its channel if it has one now. False:
 * the session ended meanwhile, and the grant with it.
 */
static bool grant_return(struct request *r, u64 handle,
			 enum vfun_grant_state state, struct vfun_channel *ch)
{
	struct vfun_file *vf = r->vf;
	bool there;

	spin_lock(&vf->lock);
	there = vf->epoch == r->epoch;
	if (there) {
		/* Nobody else removes it while it is busy. */
		struct vfun_grant *grant = vfun_grant_find(vf, handle);

		grant->state = state;
		if (ch)
			grant->ch = ch;
	}
	spin_unlock(&vf->lock);
	return there;
}

static bool channel_known(struct vfun_file *vf, u64 handle)
{
	struct vfun_channel *ch = vfun_channel_find(vf, handle);

	if (ch)
		vfun_channel_put(ch);
	return ch;
}

static int activate(struct request *r)
{
	u64 handle = ((struct vfun_of_grant *)r->body)->grant;
	const struct vfun_activate_ack *ack = (void *)r->answer;
	struct vfun_file *vf = r->vf;
	struct vfun_channel *ch;
	struct vfun_grant was;
	int ret;

	ret = grant_take(r, handle, &was);
	if (ret)
		return ret;
	ret = exchange(r);
	if (ret || !r->x.acked) {
		/* An answer that did not come may have been an ack. */
		grant_return(r, handle, ret && r->x.posted ? VFUN_GRANT_LOST :
			     VFUN_GRANT_GRANTED, NULL);
		return ret;
	}
	if (!ack->channel || channel_known(vf, ack->channel) ||
	    !vfun_geometry_good(vf->dev, &ack->geometry, &was)) {
		grant_return(r, handle, VFUN_GRANT_LOST, NULL);
		return -EPROTO;
	}
	ch = vfun_channel_new(vf, ack->channel, &ack->geometry);
	ret = ch ? vfun_channel_go_live(vf->dev, ch, r->x.generation) : -ENOMEM;
	if (ret) {
		grant_return(r, handle, VFUN_GRANT_LOST, NULL);
		if (ch)
			vfun_channel_put(ch);
		return ret;
	}
	if (!grant_return(r, handle, VFUN_GRANT_ACTIVE, ch)) {
		vfun_kill_one(vf->dev, ch, VFUN_BREAK_REASON_RELEASED);
		vfun_channel_put(ch);
		return -ECANCELED;
	}
	return 0;
}

static int release(struct request *r)
{
	u64 handle = ((struct vfun_of_grant *)r->body)->grant;
	struct vfun_file *vf = r->vf;
	struct vfun_grant *grant, was;
	int ret;

	ret = grant_take(r, handle, &was);
	if (ret)
		return ret;
	/* Before the host can give the pages to others. */
	if (was.ch) {
		vfun_kill_one(vf->dev, was.ch, VFUN_BREAK_REASON_RELEASED);
		vfun_channel_put(was.ch);
	}
	ret = exchange(r);
	if (ret) {
		/* It may be asked for again; the end of the session does it, too. */
		grant_return(r, handle, VFUN_GRANT_LOST, NULL);
		return ret;
	}
	/* A nack says that the host does not have it any more. */
	spin_lock(&vf->lock);
	grant = vf->epoch == r->epoch ? vfun_grant_find(vf, handle) : NULL;
	if (grant) {
		list_del(&grant->list);
		vf->grant_count--;
	}
	spin_unlock(&vf->lock);
	if (grant)
		vfun_grant_free(grant);
	return 0;
}

static int list(struct request *r)
{
	const struct vfun_list_ack *ack = (void *)r->answer;
	int ret = exchange(r);

	if (!ret && r->x.acked &&
	    (ack->count > VFUN_LIST_ENTRIES ||
	     r->x.answer_len != sizeof(*ack) +
				ack->count * sizeof(struct vfun_list_entry)))
		ret = -EPROTO;
	return ret;
}

static int describe(struct request *r)
{
	const struct vfun_describe_ack *ack = (void *)r->answer;
	int ret = exchange(r);

	if (!ret && r->x.acked &&
	    (ack->text_len > VFUN_SIGNATURE_BYTES ||
	     r->x.answer_len != sizeof(*ack) + ack->text_len))
		ret = -EPROTO;
	return ret;
}

static int run(struct request *r)
{
	int ret = vfun_layout_check(r->vf->dev);

	if (ret)
		return ret;
	if (r->x.kind == VFUN_KIND_HELLO)
		return hello(r);
	if (r->x.kind == VFUN_KIND_GOODBYE)
		return goodbye(r);
	ret = vfun_session_get(r->vf, &r->x.session, &r->x.generation, &r->epoch);
	if (ret)
		return ret;
	switch (r->x.kind) {
	case VFUN_KIND_NEGOTIATE:
		return negotiate(r);
	case VFUN_KIND_ACTIVATE:
		return activate(r);
	case VFUN_KIND_RELEASE:
		return release(r);
	case VFUN_KIND_LIST:
		return list(r);
	case VFUN_KIND_DESCRIBE:
		return describe(r);
	default:
		return exchange(r);
	}
}

/* A program's share of the control cells: waits until it has one. */
static int request_slot(struct vfun_file *vf, unsigned int timeout_ms)
{
	long left = wait_event_killable_timeout(vf->request_wq,
		atomic_add_unless(&vf->requests, 1, VFUN_REQUESTS_MAX) ||
			READ_ONCE(vf->dev->gone),
		msecs_to_jiffies(timeout_ms));

	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIMEDOUT;
}

static void request_slot_back(struct vfun_file *vf)
{
	/* Not below 0: the wait may have ended because the device went. */
	atomic_add_unless(&vf->requests, -1, 0);
	wake_up(&vf->request_wq);
}

long vfun_request(struct vfun_file *vf, struct vfun_ioc_request __user *arg)
{
	struct vfun_ioc_request q;
	const struct message *m;
	struct request *r;
	u32 needed;
	long ret;
	int idx;

	if (copy_from_user(&q, arg, sizeof(q)))
		return -EFAULT;
	if (q.reserved)
		return -EINVAL;
	if (q.kind >= ARRAY_SIZE(messages) || !messages[q.kind].body_len)
		return -EOPNOTSUPP;
	m = &messages[q.kind];
	if (q.body_len != m->body_len)
		return -EINVAL;
	needed = max_t(u32, m->ack_most, sizeof(struct vfun_nack_body));
	if (q.answer_room < needed)
		return -ENOSPC;
	if (!q.timeout_ms || q.timeout_ms > VFUN_CONTROL_TIMEOUT_MS)
		q.timeout_ms = VFUN_CONTROL_TIMEOUT_MS;

	/* Zeroed, so that nothing of the kernel's can leave by a short answer. */
	r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);
	if (!r)
		return -ENOMEM;
	r->vf = vf;
	r->x.kind = q.kind;
	r->x.body = r->body;
	r->x.body_len = q.body_len;
	r->x.answer = r->answer;
	r->deadline = jiffies + msecs_to_jiffies(q.timeout_ms);
	ret = -EFAULT;
	if (copy_from_user(r->body, u64_to_user_ptr(q.body), q.body_len))
		goto free;
	ret = -ENODEV;
	if (!vfun_enter(vf->dev, &idx))
		goto free;
	ret = request_slot(vf, q.timeout_ms);
	if (!ret) {
		ret = READ_ONCE(vf->dev->gone) ? -ENODEV : run(r);
		request_slot_back(vf);
	}
	vfun_leave(vf->dev, idx);
	if (ret)
		goto free;

	q.answer_len = r->x.answer_len;
	q.acked = r->x.acked;
	if (copy_to_user(u64_to_user_ptr(q.answer), r->answer, q.answer_len) ||
	    copy_to_user(arg, &q, sizeof(q)))
		ret = -EFAULT;
free:
	kfree_sensitive(r);	/* a credential may be in it */
	return ret;
}
