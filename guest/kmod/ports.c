// SPDX-License-Identifier: GPL-2.0
/*
 * Which ports there are, and the channel of each.
 *
 * The host names ports in a table of the control window. Each has an interface for as
 * long as it is named. While an interface is open, it has a channel of packets of the
 * function "ports", in a session of the module's own. All of it is done by one work,
 * which looks at everything each time it runs: at the table, at the session, and at each
 * port. So whoever has news only kicks it.
 */

#include <linux/slab.h>

#include "port.h"
#include "window.h"

/* Soon, from anywhere. */
void vfun_ports_kick(struct vfun_device *dev)
{
	if (!vfun_gone(dev))
		mod_delayed_work(system_freezable_wq, &dev->ports->work, 0);
}

static bool due(unsigned long when)
{
	return time_after_eq(jiffies, when);
}

/* Something failed: when to try it again. At once the first time. */
static void put_off(unsigned int *failures, unsigned long *again)
{
	unsigned int ms = 0;

	if (*failures)
		ms = min(VFUN_PORT_AGAIN_MS << min(*failures - 1, 10u),
			 VFUN_PORT_AGAIN_MOST_MS);
	++*failures;
	*again = jiffies + msecs_to_jiffies(ms);
}

/* ---- the table ------------------------------------------------------ */

/*
 * Copies one entry (R-WIN-13); id 0: there is none, or it is being written. The caller
 * is inside.
 */
static void entry_read(struct vfun_device *dev, unsigned int n,
		       struct vfun_port_entry *e)
{
	u64 at = VFUN_PORTS_OFF + n * sizeof(*e), word[sizeof(*e) / 8];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(word); i++)
		word[i] = vfun_load(dev->win, at + 8 * i);
	memcpy(e, word, sizeof(*e));
	if (vfun_load(dev->win, at) != word[0])
		e->id = 0;
}

/* The table as it is now; false: it cannot be known now. */
static bool table_read(struct vfun_ports *ports)
{
	struct vfun_device *dev = ports->dev;
	unsigned int n;
	u64 generation;
	int idx;

	if (!vfun_enter(dev->win, &idx))
		return false;
	vfun_layout_check(dev);
	generation = vfun_generation(dev);
	if (generation != ports->generation) {
		ports->generation = generation;
		ports->steady = jiffies + msecs_to_jiffies(VFUN_PORT_GOES_ANEW_MS);
		/* Another host, perhaps: what failed may succeed. */
		ports->failures = 0;
		ports->again = jiffies;
	}
	for (n = 0; n < VFUN_PORTS_MAX; n++)
		entry_read(dev, n, &ports->table[n]);
	vfun_leave(dev->win, idx);
	/* Made anew while it was read: another look comes. */
	return generation && generation == vfun_generation(dev);
}

/* A new entry gets its interface. Neither inside nor locked, for rtnl. */
static void port_comes(struct vfun_ports *ports, unsigned int n,
		       const struct vfun_port_entry *e)
{
	struct device *d = &ports->dev->win->pdev->dev;
	struct vfun_port *p = NULL;

	if (vfun_packet_ring_ok(e->ring_bytes))
		p = vfun_port_new(ports->dev, n, e);
	if (!IS_ERR_OR_NULL(p)) {
		ports->port[n] = p;
		p->again = jiffies;
		netdev_info(p->net, "port %u of %s\n", n, ports->dev->name);
		return;
	}
	if (ports->refused[n] == e->id)
		return;
	ports->refused[n] = e->id;
	if (p)
		dev_err(d, "cannot make an interface for port %u: error %ld\n", n,
			PTR_ERR(p));
	else
		dev_err(d, "port %u has rings of %u bytes, which cannot be, so there is no interface for it: the host (vfund) is not of this version\n",
			n, e->ring_bytes);
}

/* ---- a port's channel ----------------------------------------------- */

/* Nobody uses the channel any more, and it does not know the port. */
static void leave_channel(struct vfun_port *p)
{
	struct vfun_channel *ch = p->ch;
	unsigned long flags;

	if (!ch)
		return;
	vfun_port_cut(p, false);
	down_read(&vfun_map_sem);
	spin_lock_irqsave(&p->dev->win->bell_lock, flags);
	ch->port = NULL;
	spin_unlock_irqrestore(&p->dev->win->bell_lock, flags);
	up_read(&vfun_map_sem);
	p->ch = NULL;
	vfun_channel_put(ch);
}

/* One request; 0: it was acked. What the host refused is said once. The caller is inside. */
static int ask(struct vfun_port *p, struct vfun_request *r)
{
	const struct vfun_nack_body *nack = (void *)r->answer;
	int ret = vfun_request_run(r);

	if (ret || r->x.acked)
		return ret;
	/* The session has ended without us: another one is needed. */
	if (r->x.kind == VFUN_KIND_NEGOTIATE &&
	    (nack->code == VFUN_NACK_CODE_BAD_HANDLE ||
	     nack->code == VFUN_NACK_CODE_STALE))
		return -ENOTCONN;
	if (p->failures == 1)
		netdev_warn(p->net, "the host refuses the channel: %*pE\n",
			    min_t(int, nack->sentence_len, VFUN_SENTENCE_BYTES),
			    nack->sentence);
	return -ECONNREFUSED;
}

/* Gives the grant back, with its channel. The caller is inside. */
static void release(struct vfun_ports *ports, struct vfun_port *p)
{
	struct vfun_request *r;
	int ret;

	leave_channel(p);
	if (!p->grant)
		return;
	r = vfun_request_new(ports->vf, VFUN_KIND_RELEASE, VFUN_GOODBYE_MS);
	if (!r)
		return;
	((struct vfun_of_grant *)r->body)->grant = p->grant;
	ret = vfun_request_run(r);
	vfun_request_free(r);
	/* Where no answer came it is tried again; the session's end does it, too. */
	if (ret != -ETIMEDOUT && ret != -EAGAIN && ret != -EPROTO)
		p->grant = 0;
	else
		put_off(&p->failures, &p->again);
}

static void shape_of(const struct vfun_port *p, u8 shape[VFUN_SHAPE_BYTES])
{
	struct vfun_packets_shape s = {
		.ring_bytes = p->ring_bytes,
		.port = p->number,
	};

	BUILD_BUG_ON(sizeof(s) != VFUN_SHAPE_BYTES);
	memcpy(shape, &s, sizeof(s));
}

static int negotiate(struct vfun_ports *ports, struct vfun_port *p)
{
	const struct vfun_negotiate_ack *ack;
	struct vfun_negotiate *body;
	struct vfun_request *r;
	int ret;

	r = vfun_request_new(ports->vf, VFUN_KIND_NEGOTIATE, VFUN_CONTROL_TIMEOUT_MS);
	if (!r)
		return -ENOMEM;
	body = (void *)r->body;
	strscpy((char *)body->function, "ports", sizeof(body->function));
	body->wait = VFUN_WAIT_MODE_HYBRID;
	body->kind = VFUN_CHANNEL_KIND_PACKETS;
	shape_of(p, body->shape);
	ret = ask(p, r);
	ack = (void *)r->answer;
	if (!ret)
		p->grant = ack->grant;
	vfun_request_free(r);
	return ret;
}

/* Whether an ack's channel is the one that was asked for (R-RNG-4). */
static bool fits(const struct vfun_port *p, const struct vfun_activate_ack *ack)
{
	const struct vfun_range *range = (void *)(ack + 1);
	u64 bytes = VFUN_PACKETS_RING_OFF + (u64)p->ring_bytes;
	u8 shape[VFUN_SHAPE_BYTES];

	shape_of(p, shape);
	return ack->kind == VFUN_CHANNEL_KIND_PACKETS && ack->count == 2 &&
	       !memcmp(ack->shape, shape, sizeof(shape)) &&
	       range[0].access == VFUN_ACCESS_APP_WRITES &&
	       range[1].access == VFUN_ACCESS_HOST_WRITES &&
	       range[0].bytes == bytes && range[1].bytes == bytes;
}

static int activate(struct vfun_ports *ports, struct vfun_port *p)
{
	const struct vfun_activate_ack *ack;
	struct vfun_request *r;
	int ret;

	r = vfun_request_new(ports->vf, VFUN_KIND_ACTIVATE, VFUN_CONTROL_TIMEOUT_MS);
	if (!r)
		return -ENOMEM;
	((struct vfun_of_grant *)r->body)->grant = p->grant;
	ret = ask(p, r);
	ack = (void *)r->answer;
	if (!ret && !fits(p, ack))
		ret = -EPROTO;
	if (!ret)
		p->ch = vfun_channel_find(ports->vf, ack->channel);
	if (!ret && !p->ch)
		ret = -ECANCELED;
	vfun_request_free(r);
	return ret;
}

/* Why the channel has to be given up; NULL: it has not. The caller is inside. */
static const char *trouble(struct vfun_port *p)
{
	if (READ_ONCE(p->ch->dead))
		return "is over";
	if (vfun_channel_broken(p->ch))
		return "is broken";
	return NULL;
}

/* The channel is of no use any more. */
static void lose_channel(struct vfun_port *p, const char *why)
{
	leave_channel(p);
	if (due(p->since + msecs_to_jiffies(VFUN_PORT_LASTED_MS)))
		p->failures = 0;
	put_off(&p->failures, &p->again);
	net_info_ratelimited("%s: the channel to the host %s; another one is asked for\n",
			     p->net->name, why);
}

/*
 * Looks at one port: gives its channel back or gets one, as it should be. -ENOTCONN: the
 * session is over. The caller is inside, and there is a session.
 */
static int port_run(struct vfun_ports *ports, struct vfun_port *p)
{
	bool open = vfun_port_is_open(p);
	const char *why;
	int ret;

	why = p->ch ? trouble(p) : NULL;
	if (why)
		lose_channel(p, why);
	if (!open) {
		/* Whoever opens it need not wait. */
		p->failures = 0;
		p->again = jiffies;
	}
	if (p->ch && open) {
		/* After a stop and a start, or a sleep. */
		vfun_port_join(p);
		vfun_port_look(p);
		return 0;
	}
	if (p->grant)
		release(ports, p);
	if (!open || p->grant || !due(p->again))
		return 0;
	ret = negotiate(ports, p);
	if (!ret)
		ret = activate(ports, p);
	if (!ret) {
		ports->failures = 0;
		p->since = jiffies;
		vfun_port_join(p);
		vfun_port_look(p);
		return 0;
	}
	/* A host that does not serve now is no failure: it comes back. */
	if (ret == -EAGAIN)
		p->again = jiffies + msecs_to_jiffies(VFUN_PORT_LOOK_MS);
	else
		put_off(&p->failures, &p->again);
	return ret;
}

/* ---- the session ---------------------------------------------------- */

/* What the session had is over with it. */
static void forget_all(struct vfun_ports *ports)
{
	unsigned int n;

	for (n = 0; n < VFUN_PORTS_MAX; n++) {
		struct vfun_port *p = ports->port[n];

		if (!p)
			continue;
		leave_channel(p);
		p->grant = 0;
		p->failures = 0;
		p->again = jiffies;
	}
}

static void session_end(struct vfun_ports *ports)
{
	forget_all(ports);
	if (ports->vf)
		vfun_session_release(ports->vf);
	ports->vf = NULL;
}

static int hello(struct vfun_ports *ports)
{
	const struct vfun_nack_body *nack;
	struct vfun_request *r;
	struct vfun_hello *body;
	int ret;

	r = vfun_request_new(ports->vf, VFUN_KIND_HELLO, VFUN_CONTROL_TIMEOUT_MS);
	if (!r)
		return -ENOMEM;
	body = (void *)r->body;
	body->version_min = VFUN_VERSION_MIN;
	body->version_max = VFUN_VERSION;
	/* Those that the module does not know are taken out on the way. */
	body->features = VFUN_FEATURE_OFFERED;
	strscpy((char *)body->app, "kernel", sizeof(body->app));
	ret = vfun_request_run(r);
	if (!ret && !r->x.acked) {
		nack = (void *)r->answer;
		if (ports->failures == 1)
			dev_warn(&ports->dev->win->pdev->dev,
				 "the host refuses the session of the network interfaces: %*pE\n",
				 min_t(int, nack->sentence_len, VFUN_SENTENCE_BYTES),
				 nack->sentence);
		ret = -ECONNREFUSED;
	}
	vfun_request_free(r);
	return ret;
}

/* Whether there is a session, or is one now. The caller is inside. */
static bool session_begin(struct vfun_ports *ports)
{
	u64 session, generation, epoch;
	int ret;

	if (ports->vf &&
	    !vfun_session_get(ports->vf, &session, &generation, &epoch))
		return true;
	forget_all(ports);
	if (!due(ports->again))
		return false;
	if (!ports->vf) {
		struct vfun_file *vf = vfun_file_new(ports->dev, NULL, true);

		if (!IS_ERR(vf))
			ports->vf = vf;
	}
	ret = ports->vf ? hello(ports) : -ENOMEM;
	if (!ret)
		return true;
	if (ret == -EAGAIN || ret == -ESTALE)
		ports->again = jiffies + msecs_to_jiffies(VFUN_PORT_LOOK_MS);
	else
		put_off(&ports->failures, &ports->again);
	return false;
}

/* ---- the work ------------------------------------------------------- */

/* The interface of an entry that is gone. Neither inside nor locked, for rtnl. */
static void port_goes(struct vfun_ports *ports, unsigned int n)
{
	struct vfun_port *p = ports->port[n];
	int idx;

	unregister_netdev(p->net);
	leave_channel(p);
	if (ports->vf && vfun_enter(ports->dev->win, &idx)) {
		release(ports, p);
		vfun_leave(ports->dev->win, idx);
	}
	ports->port[n] = NULL;
	vfun_port_free(p);
}

/* Whether a port's entry is gone for good. */
static bool has_gone(struct vfun_ports *ports, struct vfun_port *p,
		     const struct vfun_port_entry *e)
{
	if (e->id == p->id) {
		p->missing = false;
		return false;
	}
	if (e->id)
		return true;
	if (!p->missing) {
		p->missing = true;
		p->goes = jiffies + msecs_to_jiffies(VFUN_PORT_GOES_MS);
		if (time_before(p->goes, ports->steady))
			p->goes = ports->steady;
	}
	return due(p->goes);
}

/* Makes interfaces come and go with the table. */
static void table_follow(struct vfun_ports *ports)
{
	unsigned int n;

	for (n = 0; n < VFUN_PORTS_MAX; n++) {
		const struct vfun_port_entry *e = &ports->table[n];

		if (ports->port[n] && has_gone(ports, ports->port[n], e))
			port_goes(ports, n);
		if (!ports->port[n] && e->id)
			port_comes(ports, n, e);
	}
}

/* The session, if there are ports, and the channels. The caller is inside. */
static void run_all(struct vfun_ports *ports)
{
	unsigned int n, count = 0;
	bool over = false;

	for (n = 0; n < VFUN_PORTS_MAX; n++)
		count += !!ports->port[n];
	if (!count || !session_begin(ports)) {
		if (!count)
			session_end(ports);
		return;
	}
	for (n = 0; n < VFUN_PORTS_MAX; n++) {
		int ret = ports->port[n] ? port_run(ports, ports->port[n]) : 0;

		if (ret == -ENOTCONN)
			over = true;
		/* A host that is silent would be waited for by each port in turn. */
		if (ret == -ETIMEDOUT)
			break;
	}
	if (!over)
		return;
	session_end(ports);
	put_off(&ports->failures, &ports->again);
}

/* How long it may rest, if nobody kicks it; 0: for ever. */
static unsigned int rest_ms(const struct vfun_ports *ports)
{
	unsigned int n, ms = 0;

	for (n = 0; n < VFUN_PORTS_MAX; n++) {
		struct vfun_port *p = ports->port[n];

		if (p && p->missing)
			return VFUN_PORT_GOES_MS;
		if (p && (!ports->vf || (vfun_port_is_open(p) && !p->ch)))
			ms = VFUN_PORT_LOOK_MS;
		else if (p && !ms)
			ms = VFUN_PORT_REST_MS;
	}
	return ms;
}

static void ports_work(struct work_struct *work)
{
	struct vfun_ports *ports = container_of(to_delayed_work(work),
						struct vfun_ports, work);
	unsigned int ms, n;
	int idx;

	/* First: the rest may wait for the host, or for others of the kernel. */
	for (n = 0; n < VFUN_PORTS_MAX; n++)
		if (ports->port[n])
			vfun_port_turn(ports->port[n]);
	if (table_read(ports))
		table_follow(ports);
	if (!vfun_enter(ports->dev->win, &idx))
		return;
	run_all(ports);
	ms = rest_ms(ports);
	/* Not later than somebody has asked for meanwhile. */
	if (ms)
		queue_delayed_work(system_freezable_wq, &ports->work,
				   msecs_to_jiffies(ms));
	vfun_leave(ports->dev->win, idx);
}

int vfun_ports_new(struct vfun_device *dev)
{
	struct vfun_ports *ports = kzalloc(sizeof(*ports), GFP_KERNEL);

	if (!ports)
		return -ENOMEM;
	ports->dev = dev;
	ports->again = jiffies;
	ports->steady = jiffies;
	INIT_DELAYED_WORK(&ports->work, ports_work);
	dev->ports = ports;
	return 0;
}

/* Before a sleep: nobody touches the rings until the work runs again; it is frozen now. */
void vfun_ports_suspend(struct vfun_device *dev)
{
	unsigned int n;

	for (n = 0; n < VFUN_PORTS_MAX; n++)
		if (dev->ports->port[n])
			vfun_port_cut(dev->ports->port[n], true);
}

/*
 * The device is gone, so nobody kicks the work any more, and nobody touches the rings:
 * vfun_kill_device saw to it. Interfaces that are there stay, without carrier.
 */
void vfun_ports_stop(struct vfun_device *dev)
{
	cancel_delayed_work_sync(&dev->ports->work);
}

/* After vfun_ports_stop. Not locked, for rtnl. */
void vfun_ports_free(struct vfun_device *dev)
{
	struct vfun_ports *ports = dev->ports;
	unsigned int n;

	for (n = 0; n < VFUN_PORTS_MAX; n++)
		if (ports->port[n])
			port_goes(ports, n);
	/* One who was just opening an interface may have kicked it. */
	cancel_delayed_work_sync(&ports->work);
	session_end(ports);
	dev->ports = NULL;
	kfree(ports);
}
