// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of sessions, by VFUN_IOC_REQUEST or the module's own: what may be asked,
 * and what the module learns of it.
 */

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "vfun.h"

/* A message's sizes. Behind a fixed part an ack may have entries, counted in it. */
struct message {
	u16 body_len, ack_len;
	u16 count_at, count_bytes;
	u16 entry, entries;
};

#define ROW(name, request, ack) \
	[VFUN_KIND_##name] = { sizeof(struct request), sizeof(struct ack) }
#define ROW_OF(name, request, ack, count, entry, most) \
	[VFUN_KIND_##name] = { sizeof(struct request), sizeof(struct ack), \
			       offsetof(struct ack, count), \
			       sizeof_field(struct ack, count), entry, most }

/* Messages that programs may send; RESET and WINDOW are the module's own. */
static const struct message messages[] = {
	ROW(HELLO, vfun_hello, vfun_hello_ack),
	ROW(NEGOTIATE, vfun_negotiate, vfun_negotiate_ack),
	ROW_OF(ACTIVATE, vfun_of_grant, vfun_activate_ack, count,
	       sizeof(struct vfun_range), VFUN_RANGES_MAX),
	ROW(RELEASE, vfun_of_grant, vfun_stats),
	ROW_OF(LIST, vfun_list, vfun_list_ack, count,
	       sizeof(struct vfun_list_entry), VFUN_LIST_ENTRIES),
	ROW(STATS, vfun_of_grant, vfun_stats),
	ROW(KEEP_ALIVE, vfun_empty, vfun_empty),
	ROW(GOODBYE, vfun_empty, vfun_empty),
	ROW_OF(DESCRIBE, vfun_describe, vfun_describe_ack, text_len, 1,
	       VFUN_SIGNATURE_BYTES),
	ROW_OF(CODES, vfun_codes, vfun_list_ack, count,
	       sizeof(struct vfun_code_entry), VFUN_CODE_ENTRIES),
	ROW(BUFFER_GET, vfun_buffer_get, vfun_buffer_ack),
	ROW(BUFFER_PUT, vfun_buffer_put, vfun_empty),
};

/*
 * Features whose effect on pages and messages this module knows. What kinds of
 * channel there are has none. NET_ADMIN is not a program's to claim.
 */
#define FEATURES_KNOWN (VFUN_FEATURE_DOORBELL | VFUN_FEATURE_FLOOR | \
			VFUN_FEATURE_BUFFERS | VFUN_FEATURE_WINDOWS | \
			VFUN_FEATURE_PACKETS | VFUN_FEATURE_MODULE | \
			VFUN_FEATURE_SIGNATURES | VFUN_FEATURE_QUEUES | \
			VFUN_FEATURE_PAGES)

/* Whether an ack is as long as it says, and no longer than it can be. */
static bool length_good(const struct vfun_request *r)
{
	const struct message *m = &messages[r->x.kind];
	u32 count = 0;

	if (r->x.answer_len < m->ack_len)
		return false;
	/* As wide as the field, little-endian as this machine. */
	memcpy(&count, r->answer + m->count_at, m->count_bytes);
	return count <= m->entries &&
	       r->x.answer_len == m->ack_len + count * m->entry;
}

/* What is left of the program's time; never nothing, so that it is posted. */
static unsigned int left_ms(const struct vfun_request *r)
{
	long left = r->deadline - jiffies;

	return left > 0 ? max(jiffies_to_msecs(left), 1u) : 1;
}

/* Sends it; an ack has a length that is possible for it. */
int vfun_request_exchange(struct vfun_request *r)
{
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
	return length_good(r) ? 0 : -EPROTO;
}

static int hello(struct vfun_request *r)
{
	struct vfun_hello *body = (void *)r->body;
	const struct vfun_hello_ack *ack = (void *)r->answer;
	struct vfun_file *vf = r->vf;
	int ret;

	ret = vfun_ensure_reset(vf->dev, left_ms(r));
	if (ret)
		return ret;
	r->x.generation = vfun_generation(vf->dev);
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
	body->features |= VFUN_FEATURE_MODULE | VFUN_FEATURE_DOORBELL |
			  VFUN_FEATURE_PAGES;
	/* The opener may have dropped its right, or handed the file on. */
	if (vf->net_admin && vfun_task_is_net_admin())
		body->features |= VFUN_FEATURE_NET_ADMIN;
	ret = vfun_request_exchange(r);
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

static int goodbye(struct vfun_request *r)
{
	struct vfun_file *vf = r->vf;
	int ret;

	ret = vfun_session_close(vf, &r->x.session, &r->x.generation);
	if (ret)
		return ret;
	ret = vfun_request_exchange(r);
	/* Not said at all: another try says it, or the end of the file. */
	if (ret && !r->x.posted)
		vfun_session_not_closed(vf, r->x.session);
	else
		vfun_session_closed(vf);
	return ret;
}

static int run(struct vfun_request *r)
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
		return vfun_negotiate(r);
	case VFUN_KIND_ACTIVATE:
		return vfun_activate(r);
	case VFUN_KIND_RELEASE:
		return vfun_give_back(r, VFUN_HOLDS_GRANT);
	case VFUN_KIND_BUFFER_GET:
		return vfun_buffer_get(r);
	case VFUN_KIND_BUFFER_PUT:
		return vfun_give_back(r, VFUN_HOLDS_BUFFER);
	default:
		return vfun_request_exchange(r);
	}
}

/* A file's share of the control cells: waits until it has one. */
static int request_slot(struct vfun_file *vf, unsigned int timeout_ms)
{
	long left = wait_event_killable_timeout(vf->request_wq,
		atomic_add_unless(&vf->requests, 1, VFUN_REQUESTS_MAX) ||
			vfun_gone(vf->dev),
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

/* A request of a kind that is in `messages`; its body is zeros. Its time runs. */
struct vfun_request *vfun_request_new(struct vfun_file *vf, u16 kind,
				      unsigned int timeout_ms)
{
	struct vfun_request *r;

	/* Zeroed, so that nothing of the kernel's can leave by a short answer. */
	r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);
	if (!r)
		return NULL;
	r->vf = vf;
	r->x.kind = kind;
	r->x.body = r->body;
	r->x.body_len = messages[kind].body_len;
	r->x.answer = r->answer;
	r->deadline = jiffies + msecs_to_jiffies(timeout_ms);
	return r;
}

void vfun_request_free(struct vfun_request *r)
{
	kfree_sensitive(r);	/* a credential may be in it */
}

/* Asks, and keeps what the answer means. The caller is inside. */
int vfun_request_run(struct vfun_request *r)
{
	int ret = request_slot(r->vf, left_ms(r));

	if (ret)
		return ret;
	ret = vfun_gone(r->vf->dev) ? -ENODEV : run(r);
	request_slot_back(r->vf);
	return ret;
}

long vfun_request(struct vfun_file *vf, struct vfun_ioc_request __user *arg)
{
	struct vfun_ioc_request q;
	const struct message *m;
	struct vfun_request *r;
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
	needed = max_t(u32, m->ack_len + m->entry * m->entries,
		       sizeof(struct vfun_nack_body));
	if (q.answer_room < needed)
		return -ENOSPC;
	if (!q.timeout_ms || q.timeout_ms > VFUN_CONTROL_TIMEOUT_MS)
		q.timeout_ms = VFUN_CONTROL_TIMEOUT_MS;

	r = vfun_request_new(vf, q.kind, q.timeout_ms);
	if (!r)
		return -ENOMEM;
	ret = -EFAULT;
	if (copy_from_user(r->body, u64_to_user_ptr(q.body), q.body_len))
		goto free;
	ret = -ENODEV;
	if (!vfun_enter(vf->dev->win, &idx))
		goto free;
	ret = vfun_request_run(r);
	vfun_leave(vf->dev->win, idx);
	if (ret)
		goto free;

	q.answer_len = r->x.answer_len;
	q.acked = r->x.acked;
	if (copy_to_user(u64_to_user_ptr(q.answer), r->answer, q.answer_len) ||
	    copy_to_user(arg, &q, sizeof(q)))
		ret = -EFAULT;
free:
	vfun_request_free(r);
	return ret;
}
