// SPDX-License-Identifier: GPL-2.0
/*
 * What a file holds of the host: grants, with the channel that each becomes, and
 * buffers. Requests that bring one, change it or give it back.
 */

#include <linux/slab.h>

#include "vfun.h"
#include "vfun_packet.h"

static const unsigned int most[VFUN_HOLDINGS] = {
	[VFUN_HOLDS_GRANT] = VFUN_GRANTS_MAX,
	[VFUN_HOLDS_BUFFER] = VFUN_BUFFERS_MAX,
};

/* Under vf->lock. */
struct vfun_grant *vfun_grant_find(struct vfun_file *vf, enum vfun_holding what,
				   u64 handle)
{
	struct vfun_grant *grant;

	list_for_each_entry(grant, &vf->grants, list)
		if (grant->what == what && grant->handle == handle)
			return grant;
	return NULL;
}

/* It is in no list any more, and its channel is dead or was never alive. */
void vfun_grant_free(struct vfun_grant *grant)
{
	if (grant->ch)
		vfun_channel_put(grant->ch);
	kfree(grant);
}

/*
 * Whether buffers may come to a grant of this file, as far as it is known here.
 * Under vf->lock.
 */
static bool open_to_buffers(struct vfun_file *vf, u64 handle)
{
	struct vfun_grant *grant = vfun_grant_find(vf, VFUN_HOLDS_GRANT, handle);

	return grant && !grant->ending &&
	       !(grant->ch && READ_ONCE(grant->ch->dead));
}

/*
 * The same, also if the host has ended the grant a moment ago and nobody has
 * looked since. The caller is inside, and holds map_sem.
 */
bool vfun_grant_open(struct vfun_file *vf, u64 handle)
{
	struct vfun_grant *grant;
	bool open;

	spin_lock(&vf->lock);
	open = open_to_buffers(vf, handle);
	grant = open ? vfun_grant_find(vf, VFUN_HOLDS_GRANT, handle) : NULL;
	if (grant && grant->ch && vfun_channel_ended(grant->ch))
		open = false;
	spin_unlock(&vf->lock);
	return open;
}

/*
 * A buffer is over: if it went with its grant, its file need not remember it.
 * One that is just being given back is left to whoever does that.
 */
void vfun_buffer_over(struct vfun_channel *ch)
{
	struct vfun_grant *record = NULL;
	struct vfun_file *vf = ch->vf;

	spin_lock(&vf->lock);
	if (ch->grant && !open_to_buffers(vf, ch->grant))
		record = vfun_grant_find(vf, VFUN_HOLDS_BUFFER, ch->handle);
	if (record && record->ch == ch && record->state == VFUN_GRANT_ACTIVE) {
		list_del(&record->list);
		vf->held[VFUN_HOLDS_BUFFER]--;
	} else {
		record = NULL;
	}
	spin_unlock(&vf->lock);
	if (record)
		vfun_grant_free(record);
}

/*
 * Keeps a place for what a request is to bring, so that an ack is never too
 * many; for a buffer, `of` is the grant that it is for.
 */
static struct vfun_grant *reserve(struct vfun_request *r, enum vfun_holding what,
				  u64 of)
{
	struct vfun_file *vf = r->vf;
	struct vfun_grant *grant;
	int ret = 0;

	grant = kzalloc(sizeof(*grant), GFP_KERNEL_ACCOUNT);
	if (!grant)
		return ERR_PTR(-ENOMEM);
	grant->what = what;
	spin_lock(&vf->lock);
	if (vf->epoch != r->epoch)
		ret = -ECANCELED;
	else if (of && !open_to_buffers(vf, of))
		ret = -ENOENT;
	else if (vf->held[what] >= most[what])
		ret = -EMFILE;
	else
		vf->held[what]++;
	spin_unlock(&vf->lock);
	if (!ret)
		return grant;
	kfree(grant);
	return ERR_PTR(ret);
}

/*
 * Fills the place with what came, in its state; ret: why nothing did. The
 * record is the file's afterwards, or freed.
 */
static int settle(struct vfun_request *r, struct vfun_grant *grant, u64 of,
		  int ret)
{
	struct vfun_file *vf = r->vf;
	bool came = !ret && r->x.acked;

	spin_lock(&vf->lock);
	if (vf->epoch != r->epoch) {
		ret = ret ?: -ECANCELED;
	} else {
		if (came && of && !open_to_buffers(vf, of))
			ret = -ENOENT;
		else if (came && vfun_grant_find(vf, grant->what, grant->handle))
			ret = -EPROTO;
		if (came && !ret) {
			list_add_tail(&grant->list, &vf->grants);
			grant = NULL;
		} else {
			vf->held[grant->what]--;
		}
	}
	spin_unlock(&vf->lock);
	kfree(grant);
	return ret;
}

int vfun_negotiate(struct vfun_request *r)
{
	const struct vfun_negotiate_ack *ack = (void *)r->answer;
	struct vfun_grant *grant;
	int ret;

	grant = reserve(r, VFUN_HOLDS_GRANT, 0);
	if (IS_ERR(grant))
		return PTR_ERR(grant);
	ret = vfun_request_exchange(r);
	if (!ret && r->x.acked && !ack->grant)
		ret = -EPROTO;
	grant->handle = ack->grant;
	grant->state = VFUN_GRANT_GRANTED;
	return settle(r, grant, 0, ret);
}

/* Takes a record for a request that changes it; what it was. */
static int take(struct vfun_request *r, enum vfun_holding what, u64 handle,
		struct vfun_grant *was)
{
	bool activate = r->x.kind == VFUN_KIND_ACTIVATE;
	struct vfun_file *vf = r->vf;
	struct vfun_grant *grant;
	int ret = 0;

	spin_lock(&vf->lock);
	grant = vfun_grant_find(vf, what, handle);
	if (vf->epoch != r->epoch) {
		ret = -ECANCELED;
	} else if (!grant) {
		ret = -ENOENT;
	} else if (grant->state == VFUN_GRANT_BUSY ||
		   (activate && grant->state != VFUN_GRANT_GRANTED)) {
		ret = -EBUSY;
	} else {
		*was = *grant;
		if (was->ch)
			kref_get(&was->ch->ref);
		grant->state = VFUN_GRANT_BUSY;
		grant->ending = !activate;
	}
	spin_unlock(&vf->lock);
	return ret;
}

/*
 * Puts it back in its new state, with its channel if it has one now. False: the
 * session ended meanwhile, and the record with it.
 */
static bool put_back(struct vfun_request *r, enum vfun_holding what, u64 handle,
		     enum vfun_grant_state state, struct vfun_channel *ch)
{
	struct vfun_file *vf = r->vf;
	bool there;

	spin_lock(&vf->lock);
	there = vf->epoch == r->epoch;
	if (there) {
		/* Nobody else removes it while it is busy. */
		struct vfun_grant *grant = vfun_grant_find(vf, what, handle);

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

/*
 * Bytes of the rings of a port, if that is what the channel of an ack has (R-PRT-4): the module
 * reads there which links the host names. 0: it is another channel.
 */
static u64 ring_of(const struct vfun_activate_ack *ack)
{
	const struct vfun_range *range = (void *)(ack + 1);
	u64 ring;

	if (ack->kind != VFUN_CHANNEL_KIND_PACKETS || ack->count != 2 ||
	    range[0].access != VFUN_ACCESS_APP_WRITES ||
	    range[1].access != VFUN_ACCESS_HOST_WRITES ||
	    range[0].bytes != range[1].bytes ||
	    range[0].bytes < VFUN_PACKETS_RING_OFF)
		return 0;
	ring = range[0].bytes - VFUN_PACKETS_RING_OFF;
	return vfun_packet_ring_ok(ring) ? ring : 0;
}

/*
 * A channel as an ack describes it, whose length was checked; live. The module
 * reads its head page (R-RNG-3), which must be the host's own: so it lies in the
 * control window.
 */
static struct vfun_channel *channel_from(struct vfun_request *r, u64 grant)
{
	const struct vfun_activate_ack *ack = (void *)r->answer;
	const struct vfun_window *win = r->vf->dev->win;
	struct vfun_channel *ch;
	int ret;

	if (!ack->channel || channel_known(r->vf, ack->channel) ||
	    ack->vector_out >= win->vectors || ack->vector_in >= win->vectors)
		return ERR_PTR(-EPROTO);
	ch = vfun_channel_new(r->vf, ack->channel, (void *)(ack + 1), ack->count);
	if (!ch)
		return ERR_PTR(-ENOMEM);
	ret = -EPROTO;
	if (!ch->head || ch->head->range.window)
		goto put;
	ch->grant = grant;
	ch->ring_bytes = ring_of(ack);
	ch->vector_out = ack->vector_out;
	ch->vector_in = ack->vector_in;
	ret = vfun_channel_go_live(ch, r->x.generation);
	if (!ret)
		return ch;
put:
	vfun_channel_put(ch);
	return ERR_PTR(ret);
}

int vfun_activate(struct vfun_request *r)
{
	u64 handle = ((struct vfun_of_grant *)r->body)->grant;
	struct vfun_channel *ch;
	struct vfun_grant was;
	int ret;

	ret = take(r, VFUN_HOLDS_GRANT, handle, &was);
	if (ret)
		return ret;
	ret = vfun_request_exchange(r);
	if (ret || !r->x.acked) {
		/* An answer that did not come may have been an ack. */
		put_back(r, VFUN_HOLDS_GRANT, handle, ret && r->x.posted ?
			 VFUN_GRANT_LOST : VFUN_GRANT_GRANTED, NULL);
		return ret;
	}
	ch = channel_from(r, handle);
	if (IS_ERR(ch)) {
		put_back(r, VFUN_HOLDS_GRANT, handle, VFUN_GRANT_LOST, NULL);
		return PTR_ERR(ch);
	}
	if (!put_back(r, VFUN_HOLDS_GRANT, handle, VFUN_GRANT_ACTIVE, ch)) {
		vfun_kill_one(ch, VFUN_BREAK_REASON_RELEASED);
		vfun_channel_put(ch);
		return -ECANCELED;
	}
	return 0;
}

/*
 * Buffers of a grant that is given back went with it. Those that were in use are
 * not remembered any more (vfun_buffer_over); this is for those that had ended
 * before, with their window. One that is just being given back is left to whoever
 * does that.
 */
static void forget_buffers(struct vfun_request *r, u64 of)
{
	struct vfun_file *vf = r->vf;
	struct vfun_grant *record, *next;
	LIST_HEAD(over);

	spin_lock(&vf->lock);
	list_for_each_entry_safe(record, next, &vf->grants, list) {
		if (vf->epoch != r->epoch ||
		    record->what != VFUN_HOLDS_BUFFER ||
		    record->state == VFUN_GRANT_BUSY ||
		    !record->ch || record->ch->grant != of)
			continue;
		list_move(&record->list, &over);
		vf->held[VFUN_HOLDS_BUFFER]--;
	}
	spin_unlock(&vf->lock);
	list_for_each_entry_safe(record, next, &over, list)
		vfun_grant_free(record);
}

/* RELEASE and BUFFER_PUT. */
int vfun_give_back(struct vfun_request *r, enum vfun_holding what)
{
	u64 handle = *(u64 *)r->body;
	struct vfun_file *vf = r->vf;
	struct vfun_pages *table = NULL;
	struct vfun_grant *grant, was;
	int ret;

	BUILD_BUG_ON(offsetof(struct vfun_of_grant, grant) ||
		     offsetof(struct vfun_buffer_put, buffer));
	ret = take(r, what, handle, &was);
	if (ret)
		return ret;
	/* Before the host can give the pages to others. */
	if (what == VFUN_HOLDS_GRANT) {
		vfun_kill_grant(vf, handle);
		forget_buffers(r, handle);
	} else {
		vfun_kill_one(was.ch, VFUN_BREAK_REASON_RELEASED);
		table = vfun_pages_take(was.ch);
	}
	if (was.ch)
		vfun_channel_put(was.ch);
	ret = vfun_request_exchange(r);
	/* A table is the device's now, if it is not over: nobody need ask again. */
	vfun_pages_done(vf->dev, table, !ret && vfun_pages_over(&r->x));
	if (ret && !table) {
		/* It may be asked for again; the end of the session does it, too. */
		put_back(r, what, handle, VFUN_GRANT_LOST, NULL);
		return ret;
	}
	/* A nack says that the host does not have it any more. */
	spin_lock(&vf->lock);
	grant = vf->epoch == r->epoch ? vfun_grant_find(vf, what, handle) : NULL;
	if (grant) {
		list_del(&grant->list);
		vf->held[what]--;
	}
	spin_unlock(&vf->lock);
	if (grant)
		vfun_grant_free(grant);
	return ret;
}

/* A buffer as an ack describes it, for one request; live. */
static struct vfun_channel *buffer_from(struct vfun_request *r,
					const struct vfun_buffer_get *asked)
{
	const struct vfun_buffer_ack *ack = (void *)r->answer;
	struct vfun_channel *ch;
	int ret;

	if (!ack->buffer || ack->range.access != VFUN_ACCESS_BOTH ||
	    ack->range.bytes < asked->bytes)
		return ERR_PTR(-EPROTO);
	ch = vfun_channel_new(r->vf, ack->buffer, &ack->range, 1);
	if (!ch)
		return ERR_PTR(-ENOMEM);
	ch->buffer = true;
	ch->table = asked->flags & VFUN_BUFFER_PAGES;
	ch->grant = asked->grant;
	ret = vfun_channel_go_live(ch, r->x.generation);
	if (!ret && ch->table) {
		ret = vfun_pages_begin(ch, r->x.session);
		if (ret)
			vfun_kill_one(ch, VFUN_BREAK_REASON_RELEASED);
	}
	if (!ret)
		return ch;
	vfun_channel_put(ch);
	return ERR_PTR(ret);
}

/*
 * Gives back a buffer that nobody will know of; else it stays to the session's
 * end. Not if its handle is that of another one, which it would end.
 */
static void put_unknown(struct vfun_request *r, u64 buffer)
{
	struct vfun_buffer_put body = { .buffer = buffer };
	struct vfun_file *vf = r->vf;
	bool acked = r->x.acked, known;

	spin_lock(&vf->lock);
	known = vfun_grant_find(vf, VFUN_HOLDS_BUFFER, buffer);
	spin_unlock(&vf->lock);
	if (known)
		return;
	memcpy(r->body, &body, sizeof(body));
	r->x.kind = VFUN_KIND_BUFFER_PUT;
	r->x.body_len = sizeof(body);
	vfun_request_exchange(r);
	r->x.acked = acked;
}

int vfun_buffer_get(struct vfun_request *r)
{
	const struct vfun_buffer_get asked = *(struct vfun_buffer_get *)r->body;
	const struct vfun_buffer_ack *ack = (void *)r->answer;
	struct vfun_channel *ch = NULL;
	struct vfun_grant *grant;
	u16 window = 0;
	u64 buffer = 0;
	int ret;

	/* A table that ended with a grant would be given back before the host has let go of it. */
	if ((asked.flags & VFUN_BUFFER_PAGES) &&
	    (asked.grant || asked.bytes <= VFUN_PAGES_ENTRIES))
		return -EINVAL;
	grant = reserve(r, VFUN_HOLDS_BUFFER, asked.grant);
	if (IS_ERR(grant))
		return PTR_ERR(grant);
	ret = vfun_request_exchange(r);
	if (!ret && r->x.acked) {
		buffer = ack->buffer;
		window = ack->range.window;
		ch = buffer_from(r, &asked);
		if (IS_ERR(ch)) {
			ret = PTR_ERR(ch);
			ch = NULL;
		}
	}
	grant->handle = buffer;
	grant->state = VFUN_GRANT_ACTIVE;
	grant->ch = ch;
	ret = settle(r, grant, asked.grant, ret);
	if (!ret || !buffer)
		return ret;
	if (ch) {
		vfun_kill_one(ch, VFUN_BREAK_REASON_RELEASED);
		vfun_pages_forget(ch);
		vfun_channel_put(ch);
	}
	/* One whose session or grant has ended is not there any more. */
	if (ret == -ENXIO || ret == -ENOMEM || ret == -EPROTO)
		put_unknown(r, buffer);
	if (ret == -ENXIO)
		vfun_further_missing(r->vf->dev, window);
	return ret;
}
