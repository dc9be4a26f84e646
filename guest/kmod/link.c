// SPDX-License-Identifier: GPL-2.0
/*
 * Direct links of ports: where their memory is, and when it comes and goes. How frames
 * go over them is in vfun_link_ring.h (docs/protocol.md, section 18).
 *
 * The host says on its page of the port which link to use and in which further window its
 * memory lies. Another VM shares that window and writes all of it, so nothing there is
 * believed that vfun_link_ring.h does not check.
 */

#include "port.h"

/*
 * Reads it twice (R-LNK-2): the host stores the number last, so one that is the same before
 * and after belongs to the rest. Another one is found at the next look: the host rings.
 */
bool vfun_link_read(const u64 *page, bool out, struct vfun_link_said *s)
{
	unsigned int number = out ? VFUN_LINKED_LINK_OUT : VFUN_LINKED_LINK_IN;
	unsigned int place = out ? VFUN_LINKED_OUT_PLACE : VFUN_LINKED_IN_PLACE;

	s->out = out;
	s->number = VFUN_PACKET_LOAD_ACQUIRE(page + number);
	s->place = VFUN_PACKET_LOAD(page + place);
	s->bell = out ? VFUN_PACKET_LOAD(page + VFUN_LINKED_OUT_BELL) : 0;
	virt_rmb();
	return VFUN_PACKET_LOAD(page + number) == s->number;
}

/*
 * The window that has it all, for a port with such rings; or NULL and why not. Who has memory
 * there is for the caller to look at. Under map_sem.
 */
struct vfun_window *vfun_link_window(struct vfun_device *dev, u64 ring_bytes,
				     const struct vfun_link_said *s,
				     struct vfun_link_place *at, const char **why)
{
	struct vfun_window *win;

	*why = NULL;
	if (!vfun_link_place_read(at, s->place) || s->bell > U32_MAX) {
		*why = "what the host says of it makes no sense; is its vfund of another version?";
		return NULL;
	}
	win = vfun_window_find(dev, at->window);
	if (!win || win->role != VFUN_ROLE_LINK) {
		*why = "there is no such link window in this VM; on the host, 'vfun attach' plugs one in";
		return NULL;
	}
	if (at->end > win->bytes)
		*why = "it goes beyond the end of its window";
	else if (vfun_packet_longest(at->ring) < vfun_packet_longest(ring_bytes))
		*why = "its ring is too short for frames that the port takes";
	return *why ? NULL : win;
}

/*
 * The link's memory, or NULL: it cannot be used now, and another look may find it. That is
 * said once. Under map_sem.
 */
static struct vfun_window *find(struct vfun_port *p, struct vfun_port_link *l,
				const struct vfun_link_said *s, struct vfun_link_place *at)
{
	const char *why;
	struct vfun_window *win = vfun_link_window(p->dev, p->ring_bytes, s, at, &why);

	if (win && vfun_area_first(win, min(at->mine, at->theirs), at->end - 1)) {
		why = "a program has memory there";
		win = NULL;
	}
	if (!win && (l->refused != s->number || l->why != why)) {
		l->refused = s->number;
		l->why = why;
		net_warn_ratelimited("%s: direct link %llu (%s, in window %llu, place %#llx) is not used, and frames go through the switch: %s\n",
				     p->net->name, s->number, s->out ? "to another VM" : "from another VM",
				     s->place >> 48,
				     s->place, why);
	}
	return win;
}

static void leave_out(struct vfun_port *p)
{
	int who;

	/* Other links of this window may follow, whose memory it would be. */
	who = vfun_linked_tx_detach(&p->tx);
	p->out.win = NULL;
	vfun_port_ring(p, who);
}

/* The link that the host wants to be sent over. Both locks, and map_sem. */
static void follow_out(struct vfun_port *p)
{
	struct vfun_link_said s;
	struct vfun_link_place at;
	struct vfun_window *win;
	int who;

	if (!vfun_link_read(p->rx.port.theirs, true, &s))
		return;
	if (p->out.win && p->tx.number == s.number) {
		if (s.bell <= U32_MAX)
			p->bell = s.bell;
		return;
	}
	if (p->out.win)
		leave_out(p);
	win = s.number ? find(p, &p->out, &s, &at) : NULL;
	if (!win)
		return;
	who = vfun_linked_tx_attach(&p->tx, s.number, win->memory + at.mine,
				    win->memory + at.theirs, at.ring);
	if (who < 0)
		return;
	p->tx.link.longest = p->tx.port.longest;
	p->out.win = win;
	p->out.refused = 0;
	p->bell = s.bell;
	vfun_port_ring(p, who);
}

/* The link that the host wants to be received from. Both locks, and map_sem. */
static void follow_in(struct vfun_port *p)
{
	struct vfun_link_said s;
	struct vfun_link_place at;
	struct vfun_window *win;

	/* Who reads a link that is not wanted any more stops, also if nothing comes. */
	if (p->rx.reading != VFUN_LINKED_READS_PORT)
		vfun_linked_rx_obey_(&p->rx);
	if (!vfun_link_read(p->rx.port.theirs, false, &s) ||
	    (p->in.win && p->rx.number == s.number))
		return;
	if (p->in.win) {
		vfun_linked_rx_detach(&p->rx);
		p->in.win = NULL;
	}
	win = s.number ? find(p, &p->in, &s, &at) : NULL;
	if (!win || vfun_linked_rx_attach(&p->rx, s.number, win->memory + at.mine,
					  win->memory + at.theirs, at.ring))
		return;
	p->in.win = win;
	p->in.refused = 0;
	/* It asks to be rung by this ring, too. Softirqs are off here. */
	if (p->rx.reading != VFUN_LINKED_READS_PORT)
		napi_schedule(&p->napi);
}

/*
 * Begins with the links that the host names, and lets go of others. Both locks, and map_sem;
 * the rings may be touched.
 */
void vfun_link_follow(struct vfun_port *p)
{
	follow_out(p);
	follow_in(p);
	vfun_link_note(p);
}

/* Whether its sender may ring without news of the host. p->lock. */
void vfun_link_note(struct vfun_port *p)
{
	bool reads = p->rx.reading != VFUN_LINKED_READS_PORT && p->rx.has_link;

	if (unlikely(p->reads_link != reads))
		WRITE_ONCE(p->reads_link, reads);
}

static void leave_in(struct vfun_port *p)
{
	vfun_linked_rx_detach(&p->rx);
	p->in.win = NULL;
	vfun_link_note(p);
}

/* Comes back from its links, as the rings may still be touched. Both locks; live. */
void vfun_link_leave(struct vfun_port *p)
{
	if (p->out.win)
		leave_out(p);
	if (p->in.win)
		leave_in(p);
}

/* After it no link's memory is touched, nor was it for this. Both locks. */
void vfun_link_drop(struct vfun_port *p)
{
	p->tx.has_link = 0;
	p->rx.has_link = 0;
	p->out.win = NULL;
	p->in.win = NULL;
	vfun_link_note(p);
}

/*
 * Takes a window away from one port. Without farewell its pages may be those of another link,
 * so what the ends store in them last of all, their counts and positions, goes nowhere.
 */
static void window_goes(struct vfun_port *p, struct vfun_window *win, bool farewell)
{
	u64 nowhere[VFUN_PACKET_BAD + 1];

	vfun_port_lock(p);
	if (p->live && p->out.win == win) {
		if (!farewell)
			p->tx.link.mine = nowhere;
		leave_out(p);
		p->tx.link.mine = NULL;
		vfun_port_settle(p);
	}
	if (p->live && p->in.win == win) {
		if (!farewell)
			p->rx.link.mine = nowhere;
		leave_in(p);
		p->rx.link.mine = NULL;
	}
	vfun_port_unlock(p);
}

/*
 * A window goes, or is another one now: after it no port touches it. Frames that another VM
 * has put there are lost; the sender comes back to the switch. Between vfun_kill_begin and
 * vfun_kill_end.
 */
void vfun_links_gone(struct vfun_window *win, bool farewell)
{
	struct vfun_channel *ch;
	struct vfun_file *vf;

	if (!win->owner || win->role != VFUN_ROLE_LINK)
		return;
	list_for_each_entry(vf, &win->owner->files, list)
		list_for_each_entry(ch, &vf->live, live)
			if (ch->port)
				window_goes(ch->port, win, farewell);
}
