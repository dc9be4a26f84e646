// SPDX-License-Identifier: GPL-2.0
/*
 * One control request through the window: claim a cell, post, wait, copy the
 * answer, check it, give the cell back (R-CTL-1 to 9). The cells are shared
 * with whatever else in this guest reaches the window by itself, and with a
 * kernel before this one, so they are claimed like any program would.
 */

#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "vfun.h"
#include "window.h"

/* What was last seen of somebody else's claim, and since when. */
struct seen {
	u64 claim, beat;
	unsigned long since;
	bool valid;
};

struct cell {
	struct vfun_device *dev;
	unsigned int index;
	u64 token;
};

static u64 word(const struct cell *c, unsigned int n)
{
	return vfun_request_off(c->index) + 8 * n;
}

static u64 answer_word(const struct cell *c, unsigned int n)
{
	return vfun_answer_off(c->index) + 8 * n;
}

static bool pending(const struct cell *c)
{
	u64 posted = vfun_load(c->dev->win, word(c, VFUN_WORD_POSTED));
	u64 answered = vfun_load(c->dev->win, answer_word(c, VFUN_WORD_ANSWERED));

	return vfun_posted_seq(posted) != vfun_posted_seq(answered);
}

static bool owned(const struct cell *c)
{
	return vfun_load(c->dev->win, word(c, VFUN_WORD_CLAIM)) == c->token;
}

static void give_back(const struct cell *c)
{
	vfun_exchange_word(c->dev->win, word(c, VFUN_WORD_CLAIM), c->token, 0);
	clear_bit_unlock(c->index, c->dev->cells);
	wake_up(&c->dev->control_wq);
}

/* Takes the cell if it is free, or stale for long enough (R-CTL-8). */
static bool try_take(struct cell *c, struct seen *seen)
{
	struct vfun_device *dev = c->dev;
	u64 claim, beat;

	if (test_and_set_bit_lock(c->index, dev->cells))
		return false;
	claim = vfun_load(dev->win, word(c, VFUN_WORD_CLAIM));
	if (pending(c)) {
		seen->valid = false;
		goto not_ours;
	}
	if (claim) {
		beat = vfun_load(dev->win, word(c, VFUN_WORD_BEAT));
		if (!seen->valid || seen->claim != claim || seen->beat != beat) {
			*seen = (struct seen){ claim, beat, jiffies, true };
			goto not_ours;
		}
		if (time_before(jiffies, seen->since +
				msecs_to_jiffies(VFUN_CLAIM_STALE_MS)))
			goto not_ours;
	}
	if (!vfun_exchange_word(dev->win, word(c, VFUN_WORD_CLAIM), claim, c->token)) {
		seen->valid = false;
		goto not_ours;
	}
	/* Its owner may have posted between the two looks above. */
	if (pending(c)) {
		give_back(c);
		return false;
	}
	return true;

not_ours:
	clear_bit_unlock(c->index, dev->cells);
	return false;
}

/* The host rang the control vector. Also in an interrupt. */
void vfun_control_rung(struct vfun_device *dev)
{
	atomic64_inc(&dev->control_events);
	wake_up_all(&dev->control_wq);
}

/* Whether there is any use in going on. */
static int check_host(struct vfun_device *dev, const struct vfun_exchange *x)
{
	u32 state;

	if (vfun_gone(dev) && !x->last)
		return -ENODEV;
	if (fatal_signal_pending(current))
		return -EINTR;
	if (vfun_load(dev->win, offsetof(struct vfun_window_header, generation)) !=
	    x->generation)
		return -ESTALE;
	state = vfun_load(dev->win, VFUN_HOST_STATE_OFF);
	if (state != VFUN_HOST_SERVING && state != VFUN_HOST_DRAINING)
		return -EAGAIN;
	return 0;
}

static int claim(struct vfun_device *dev, struct cell *c,
		 const struct vfun_exchange *x, unsigned long deadline)
{
	struct seen seen[VFUN_CONTROL_CELLS] = {};
	unsigned int n, first;
	int ret;

	c->dev = dev;
	do {
		c->token = get_random_u64();
	} while (!c->token);
	first = c->token % VFUN_CONTROL_CELLS;

	for (;;) {
		ret = check_host(dev, x);
		if (ret)
			return ret;
		for (n = 0; n < VFUN_CONTROL_CELLS; n++) {
			c->index = (first + n) % VFUN_CONTROL_CELLS;
			if (try_take(c, &seen[c->index]))
				return 0;
		}
		if (time_after_eq(jiffies, deadline))
			return -ETIMEDOUT;
		schedule_timeout_killable(msecs_to_jiffies(VFUN_CELL_WAIT_MS));
	}
}

/* Rings the manager if it declares that it sleeps (R-SLP-2, R-SLP-6). */
static void ring_sleeper(struct vfun_device *dev)
{
	/* The request is out before we look; the manager declares, then looks. */
	smp_mb();
	if (vfun_load(dev->win, VFUN_HOST_SLEEPS_OFF))
		vfun_ring_vector(dev->win, 0);
}

static int post(struct cell *c, const struct vfun_exchange *x, u32 *seq)
{
	struct vfun_device *dev = c->dev;

	*seq = vfun_posted_seq(vfun_load(dev->win, answer_word(c, VFUN_WORD_ANSWERED))) + 1;
	vfun_add(dev->win, word(c, VFUN_WORD_BEAT), 1);
	vfun_store(dev->win, word(c, VFUN_WORD_SESSION), x->session);
	memcpy(dev->win->memory + vfun_request_off(c->index) + VFUN_LINE, x->body,
	       x->body_len);
	if (!owned(c))
		return -EAGAIN;
	vfun_store(dev->win, word(c, VFUN_WORD_POSTED),
		   vfun_posted(*seq, x->kind, x->body_len));
	vfun_add(dev->win, VFUN_POSTED_OFF, 1);
	ring_sleeper(dev);
	return 0;
}

/* 1: answered; 0: not yet; or an error. */
static int look(struct cell *c, u32 seq, u64 *answered)
{
	u32 found;

	*answered = vfun_load(c->dev->win, answer_word(c, VFUN_WORD_ANSWERED));
	found = vfun_posted_seq(*answered);
	if (found == seq)
		return 1;
	return found == seq - 1 ? 0 : -EPROTO;
}

static int await_answer(struct cell *c, const struct vfun_exchange *x, u32 seq,
			unsigned long deadline, u64 *answered)
{
	unsigned long rung = jiffies, step;
	struct vfun_device *dev = c->dev;
	DEFINE_WAIT(wait);
	int ret;

	for (;;) {
		prepare_to_wait(&dev->control_wq, &wait, TASK_KILLABLE);
		vfun_add(dev->win, VFUN_GUEST_SLEEPS_OFF, 1);
		/* Declared before we look; the manager answers, then looks. */
		smp_mb();
		ret = look(c, seq, answered);
		if (!ret)
			ret = check_host(dev, x);
		step = msecs_to_jiffies(VFUN_LOOK_MS);
		if (!ret && time_before(jiffies, deadline))
			schedule_timeout(min(step, deadline - jiffies));
		vfun_add(dev->win, VFUN_GUEST_SLEEPS_OFF, -1);
		if (ret)
			break;
		ret = look(c, seq, answered);
		if (ret)
			break;
		if (time_after_eq(jiffies, deadline)) {
			ret = -ETIMEDOUT;
			break;
		}
		vfun_add(dev->win, word(c, VFUN_WORD_BEAT), 1);
		if (time_after_eq(jiffies, rung +
				  msecs_to_jiffies(VFUN_RING_AGAIN_MS))) {
			ring_sleeper(dev);
			rung = jiffies;
		}
	}
	finish_wait(&dev->control_wq, &wait);
	if (ret == -EPROTO)
		/* A window that was made again begins at 0 again. */
		ret = check_host(dev, x) ?: -EPROTO;
	return ret < 0 ? ret : 0;
}

/* Copies the answer once, then checks it (R-CTL-7). */
static int copy_answer(struct cell *c, struct vfun_exchange *x, u64 answered)
{
	struct vfun_device *dev = c->dev;
	u16 len = vfun_posted_len(answered);
	u16 kind = vfun_posted_kind(answered);
	u64 generation;

	if (len > VFUN_ANSWER_BODY ||
	    (kind != VFUN_ANSWER_ACK && kind != VFUN_ANSWER_NACK))
		return -EPROTO;
	generation = vfun_load(dev->win, answer_word(c, VFUN_WORD_GENERATION));
	memcpy(x->answer, dev->win->memory + vfun_answer_off(c->index) + VFUN_LINE, len);
	/* An acquire keeps later loads behind it, not the copy before it. */
	smp_rmb();
	if (!owned(c) ||
	    vfun_load(dev->win, answer_word(c, VFUN_WORD_ANSWERED)) != answered)
		return check_host(dev, x) ?: -EPROTO;
	if (generation != x->generation)
		return -ESTALE;
	x->answer_len = len;
	x->acked = kind == VFUN_ANSWER_ACK;
	return 0;
}

/*
 * A HELLO whose caller was killed or gave up: if the host acks it after all,
 * there is a session that nobody knows. Its cell is kept, and the session ended.
 */
struct vfun_orphan {
	struct work_struct work;
	struct cell cell;
	u64 generation;
	u32 seq;
	u8 answer[VFUN_ANSWER_BODY] __aligned(8);
};

static void end_orphan(struct vfun_device *dev, struct vfun_orphan *o)
{
	struct vfun_exchange x = {
		.generation = o->generation,
		.answer = o->answer,
		.timeout_ms = VFUN_GOODBYE_MS,
	};
	unsigned long deadline = jiffies +
				 msecs_to_jiffies(VFUN_CONTROL_TIMEOUT_MS);
	const struct vfun_hello_ack *ack = (void *)o->answer;
	struct vfun_empty body = {};
	u64 answered;
	int ret;

	ret = await_answer(&o->cell, &x, o->seq, deadline, &answered);
	if (!ret)
		ret = copy_answer(&o->cell, &x, answered);
	give_back(&o->cell);
	if (ret || !x.acked || x.answer_len != sizeof(*ack))
		return;
	x.kind = VFUN_KIND_GOODBYE;
	x.session = ack->session;
	x.body = &body;
	x.body_len = sizeof(body);
	vfun_exchange(dev, &x);
}

static void orphan_work(struct work_struct *work)
{
	struct vfun_orphan *o = container_of(work, struct vfun_orphan, work);
	struct vfun_device *dev = o->cell.dev;
	int idx;

	/* Else it goes with the rest, by the removal's reset. */
	if (vfun_enter(dev->win, &idx)) {
		end_orphan(dev, o);
		vfun_leave(dev->win, idx);
	}
	kfree(o);
	vfun_device_put(dev);
}

struct vfun_orphan *vfun_orphan_new(struct vfun_device *dev)
{
	struct vfun_orphan *o = kzalloc(sizeof(*o), GFP_KERNEL_ACCOUNT);

	if (o)
		INIT_WORK(&o->work, orphan_work);
	return o;
}

/*
 * Posts a request and waits for its answer, at most x->timeout_ms. Only a fatal
 * signal ends the wait before. The caller is inside.
 */
int vfun_exchange(struct vfun_device *dev, struct vfun_exchange *x)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(x->timeout_ms);
	struct cell c;
	u64 answered;
	u32 seq;
	int ret;

	x->posted = false;
	ret = claim(dev, &c, x, deadline);
	if (ret)
		return ret;
	ret = post(&c, x, &seq);
	if (!ret) {
		x->posted = true;
		ret = await_answer(&c, x, seq, deadline, &answered);
	}
	if (!ret)
		ret = copy_answer(&c, x, answered);
	if (x->posted && x->orphan && (ret == -ETIMEDOUT || ret == -EINTR)) {
		x->orphan->cell = c;
		x->orphan->seq = seq;
		x->orphan->generation = x->generation;
		kref_get(&dev->ref);
		queue_work(dev->wq, &x->orphan->work);
		x->orphan = NULL;
		return ret;
	}
	/* An unanswered request keeps others out until the host answers it. */
	give_back(&c);
	return ret;
}

/* Ends what sessions a module before this one had. The caller is inside. */
int vfun_reset(struct vfun_device *dev, unsigned int timeout_ms, bool last)
{
	struct vfun_empty body = {};
	struct vfun_exchange x = {
		.kind = VFUN_KIND_RESET,
		.body = &body,
		.body_len = sizeof(body),
		.generation = vfun_generation(dev),
		.timeout_ms = timeout_ms,
		.last = last,
	};
	int ret;

	if (!x.generation)
		return -EAGAIN;
	x.answer = kmalloc(VFUN_ANSWER_BODY, GFP_KERNEL);
	if (!x.answer)
		return -ENOMEM;
	ret = vfun_exchange(dev, &x);
	/* A host that does not know it has nothing of the kind to end. */
	if (!ret && !x.acked)
		dev_info(&dev->win->pdev->dev,
			 "the host refused a reset; sessions of before end by themselves\n");
	kfree(x.answer);
	return ret;
}

/* Before the first session; once. The caller is inside. */
int vfun_ensure_reset(struct vfun_device *dev, unsigned int timeout_ms)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(timeout_ms);
	int ret = 0;

	/* Who holds it waits for the host, and others must not wait for longer. */
	while (!mutex_trylock(&dev->reset_lock)) {
		if (vfun_gone(dev))
			return -ENODEV;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after_eq(jiffies, deadline))
			return -ETIMEDOUT;
		schedule_timeout_killable(msecs_to_jiffies(VFUN_CELL_WAIT_MS));
	}
	if (!dev->reset_done) {
		ret = vfun_reset(dev, timeout_ms, false);
		dev->reset_done = !ret;
	}
	mutex_unlock(&dev->reset_lock);
	return ret;
}
