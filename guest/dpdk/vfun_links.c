/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Direct links between devices of this process (section 18 of docs/protocol.md): the fence
 * is at one device and the closer at the other one (vfun_burst.c); here they come and go, and
 * what went past the switch is counted. The gate to send is never shut for it: a switch would
 * drop what it sends at that moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_mbuf_dyn.h>

#include "vfun_eth.h"
#include "vfun_link.h"

/* Between two looks whether a forced turn is made. */
#define SOON_US 1000
/* How long a link goes on that a manager does not name again after it has greeted. */
#define SURE_SECONDS 60
/* Looks at claims at a time: a read may have met half a store. */
#define LOOKS 4
/* Claims that make no sense for so long end the link (R-LNK-8). */
#define BAD_SECONDS 1
/* Words of a header page that are read at once: those of one line. */
#define WORDS 8

/* Held for all below, before a device's lock. */
static pthread_mutex_t links = PTHREAD_MUTEX_INITIALIZER;
static struct vfun_eth *devices;
/* No device of this process has given a larger stamp, apart from those that are there. */
static uint64_t stamps;

int vfun_links_stamps(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "vfun_stamp", .size = sizeof(uint64_t), .align = sizeof(uint64_t),
	};

	return rte_mbuf_dynfield_register(&field);
}

static const char *name(const struct vfun_eth *v)
{
	return v->dev->data->name;
}

/* 0, or -1: the connection is broken. That there is none now is no matter: a new one begins anew. */
static int say(struct vfun_eth *v, uint32_t kind, uint64_t number, uint64_t epoch)
{
	return v->talk.fd < 0 ? 0 : vfun_link_say(v->talk.fd, kind, number, epoch);
}

/* ---- counts --------------------------------------------------------- */

/* Reads a line of a header page so that no word is later than the second read. 0, or -1. */
static int read_line(int fd, uint64_t at, uint64_t words[WORDS])
{
	uint64_t again[WORDS];
	unsigned int i;

	if (pread(fd, words, sizeof(again), (off_t)at) != sizeof(again) ||
	    pread(fd, again, sizeof(again), (off_t)at) != sizeof(again))
		return -1;
	/* A read may meet half a store: what it found then is beyond what the next one finds. */
	for (i = 0; i < WORDS; i++)
		if ((again[i] - words[i]) >> 63)
			return -1;
	return 0;
}

/* In the order that struct vfun_reading asks for. 0, or -1. */
static int read_claims(const struct vfun_ledger *l, struct vfun_reading *r)
{
	uint64_t sent[WORDS], taken[WORDS], later[WORDS], starts[2][WORDS];
	uint64_t receiver = l->receiver + VFUN_PACKET_TAIL * sizeof(uint64_t);
	uint64_t sender = l->sender + VFUN_PACKET_HEAD * sizeof(uint64_t);
	uint64_t line = VFUN_LINKED_STARTS / WORDS * WORDS * sizeof(uint64_t);

	if (read_line(l->fd, receiver, taken) || read_line(l->fd, sender, sent) ||
	    read_line(l->fd, sender, later))
		return -1;
	*r = (struct vfun_reading){
		.claims = {
			.sent = sent[VFUN_PACKET_SENT], .sent_bytes = sent[VFUN_PACKET_SENT_BYTES],
			.full = sent[VFUN_PACKET_FULL], .too_long = sent[VFUN_PACKET_LONG],
			.taken = taken[VFUN_PACKET_TAKEN - VFUN_PACKET_TAIL],
			.taken_bytes = taken[VFUN_PACKET_TAKEN_BYTES - VFUN_PACKET_TAIL],
			.refused = taken[VFUN_PACKET_REFUSED - VFUN_PACKET_TAIL],
		},
		.sent_later = later[VFUN_PACKET_SENT],
	};
	/* Last: whoever was started again has said so before it counted on. */
	if (read_line(l->fd, receiver, later) || read_line(l->fd, l->sender + line, starts[0]) ||
	    read_line(l->fd, l->receiver + line, starts[1]))
		return -1;
	r->taken_later = later[VFUN_PACKET_TAKEN - VFUN_PACKET_TAIL];
	r->refused_later = later[VFUN_PACKET_REFUSED - VFUN_PACKET_TAIL];
	r->starts = vfun_claims_sum_(starts[0][VFUN_LINKED_STARTS % WORDS],
				     starts[1][VFUN_LINKED_STARTS % WORDS]);
	return 0;
}

static void look_at_claims(struct vfun_ledger *l)
{
	struct vfun_reading r;
	unsigned int i;

	for (i = 0; i < LOOKS && !l->is_broken; i++) {
		if (read_claims(l, &r) || !vfun_claims_are_credible(&l->believed, l->ring, &r))
			continue;
		l->believed = r.claims;
		l->bad_at = 0;
		return;
	}
	if (!l->bad_at)
		l->bad_at = rte_rdtsc() | 1;
	else if (rte_rdtsc() - l->bad_at > BAD_SECONDS * rte_get_tsc_hz())
		l->is_broken = 1;
}

static void add_in(struct vfun_counts *c, const struct vfun_ledger *l)
{
	uint64_t frames = l->believed.sent - l->begun.sent;
	uint64_t bytes = l->believed.sent_bytes - l->begun.sent_bytes;

	c->n[VFUN_IPACKETS] += frames;
	c->n[VFUN_IBYTES] += bytes;
	c->n[VFUN_DIRECT_IPACKETS] += frames;
	c->n[VFUN_DIRECT_IBYTES] += bytes;
}

static void add_out(struct vfun_counts *c, const struct vfun_direct *l)
{
	uint64_t frames = l->ledger.believed.taken - l->ledger.begun.taken;
	uint64_t bytes = l->ledger.believed.taken_bytes - l->ledger.begun.taken_bytes;

	c->n[VFUN_OPACKETS] += frames;
	c->n[VFUN_OBYTES] += bytes;
	c->n[VFUN_DIRECT_OPACKETS] += frames;
	c->n[VFUN_DIRECT_OBYTES] += bytes;
	c->n[VFUN_DIRECT_LATE] += VFUN_PACKET_LOAD(&l->closer.late);
	c->n[VFUN_DIRECT_BEHIND] += VFUN_PACKET_LOAD(&l->closer.behind);
}

void vfun_links_count(struct vfun_eth *v, struct vfun_counts *all)
{
	unsigned int i;

	pthread_mutex_lock(&links);
	vfun_eth_count(v, all);
	for (i = 0; i < VFUN_COUNTS; i++)
		all->n[i] += v->past_links.n[i];
	if (v->from_here) {
		look_at_claims(&v->from_here->ledger);
		add_in(all, &v->from_here->ledger);
	}
	if (v->to_here) {
		look_at_claims(&v->to_here->ledger);
		add_out(all, v->to_here);
	}
	pthread_mutex_unlock(&links);
}

/* ---- links begin and end -------------------------------------------- */

/* Nobody receives here meanwhile: the fence is the caller's. Frames wait in the ring. */
static struct vfun_fence *hold_fence(struct vfun_eth *v)
{
	pthread_mutex_lock(&v->lock);
	vfun_gate_shut(&v->rxq.gate, VFUN_SHUT_LINKS);
	return &v->rxq.fence;
}

static void release_fence(struct vfun_eth *v)
{
	vfun_gate_open(&v->rxq.gate, VFUN_SHUT_LINKS);
	pthread_mutex_unlock(&v->lock);
}

/* Frames need not wait for word of a link any more. With the lock. */
static void tell_in_time(struct vfun_eth *v)
{
	v->told_by = 0;
	vfun_gate_open(&v->rxq.gate, VFUN_SHUT_UNTOLD);
}

/* The host does not say which link begins here, or names none any more: frames go on without. */
static void look_at_untold(struct vfun_eth *v)
{
	pthread_mutex_lock(&v->lock);
	if (v->told_by && (rte_rdtsc() > v->told_by || !vfun_eth_names_link(v)))
		tell_in_time(v);
	pthread_mutex_unlock(&v->lock);
}

/* Bursts of the receiver's device find the link from now on, or none. */
static void show(struct vfun_eth *to, struct vfun_direct *l)
{
	pthread_mutex_lock(&to->lock);
	__atomic_store_n(&to->txq.in, l, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->rxq.in, l, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&to->lock);
	if (l)
		return;
	/* A burst that is inside may have found it before. */
	vfun_gate_wait(&to->txq.gate);
	vfun_gate_wait(&to->rxq.gate);
}

/* The link is over here. Its counts stay. */
static void end(struct vfun_direct *l)
{
	struct vfun_eth *from = l->from, *to = l->to;

	vfun_fence_unline(hold_fence(from));
	release_fence(from);
	show(to, NULL);
	look_at_claims(&l->ledger);
	add_in(&from->past_links, &l->ledger);
	add_out(&to->past_links, l);
	from->over = l->number;
	from->over_claims = l->ledger.believed;
	from->from_here = NULL;
	to->to_here = NULL;
	close(l->ledger.fd);
	free(l);
}

/* With the record of the one before, if it is the same link. */
static struct vfun_direct *new_link(struct vfun_eth *from, struct vfun_eth *to,
				    struct vfun_link_heard *heard)
{
	const struct vfun_port_word *w = &heard->word;
	struct vfun_direct *l = aligned_alloc(__alignof__(*l), sizeof(*l));

	if (!l)
		return NULL;
	memset(l, 0, sizeof(*l));
	l->number = w->handle;
	l->sender = from->dev->data->port_id;
	l->from = from;
	l->to = to;
	l->ledger = (struct vfun_ledger){ .fd = heard->memory, .sender = w->mine,
					  .receiver = w->theirs, .ring = w->ring };
	heard->memory = -1;
	/* What was counted of it already is not counted twice. */
	if (from->over == l->number)
		l->ledger.believed = l->ledger.begun = from->over_claims;
	return l;
}

static void begin(struct vfun_direct *l, uint64_t epoch)
{
	struct vfun_fence *f = hold_fence(l->from);

	l->before = f->stamp;
	l->made_at = rte_rdtsc();
	vfun_closer_init(&l->closer, &l->line, l->number);
	/* First the closer, so that no frame passes it by of which the fence says something. */
	show(l->to, l);
	vfun_fence_line(f, &l->line, l->number, epoch);
	tell_in_time(l->from);
	release_fence(l->from);
	l->from->from_here = l->to->to_here = l;
}

/* ---- what the host says --------------------------------------------- */

static struct vfun_eth *find(const struct vfun_eth *v, const char *port)
{
	struct vfun_eth *d;

	for (d = devices; d; d = d->next)
		if (!strcmp(d->talk.port, port) && !strcmp(d->talk.socket, v->talk.socket))
			return d;
	return NULL;
}

/* Whether a link can be made there; else a sentence. */
static int is_possible(struct vfun_eth *v, struct vfun_eth *to, const struct vfun_link_heard *heard,
		       struct vfun_error *e)
{
	const struct vfun_port_word *w = &heard->word;
	uint64_t side = VFUN_PACKET_RING_OFF + w->ring;
	struct stat st;

	if (!to)
		vfun_wrong(e, "a direct link to port %s cannot be: this process has no such port of the same host; add both ports to one switch", (const char *)w->sentence);
	else if (to == v)
		vfun_wrong(e, "a direct link to port %s cannot be: it begins there", (const char *)w->sentence);
	else if (v->rxq.stamp_at < 0 || to->txq.stamp_at < 0)
		vfun_wrong(e, "a direct link cannot be: DPDK has no room in its buffers for the number of a frame");
	else if (to->to_here && !to->to_here->sure_by)
		vfun_wrong(e, "a direct link to port %s cannot be: another one ends there", (const char *)w->sentence);
	else if (fstat(heard->memory, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < side ||
		 w->mine > (uint64_t)st.st_size - side || w->theirs > (uint64_t)st.st_size - side)
		vfun_wrong(e, "a direct link cannot be: its sides at %llu and %llu do not lie in its file",
			   (unsigned long long)w->mine, (unsigned long long)w->theirs);
	else
		return 1;
	return 0;
}

static int allow(struct vfun_eth *v, uint64_t epoch)
{
	int is_allowed = vfun_fence_allow(hold_fence(v), epoch);

	release_fence(v);
	return is_allowed;
}

static int link_to(struct vfun_eth *v, struct vfun_link_heard *heard)
{
	const struct vfun_port_word *w = &heard->word;
	struct vfun_eth *to = find(v, (const char *)w->sentence);
	struct vfun_direct *l = v->from_here;
	struct vfun_error e;

	if (l && l->number == w->handle && l->to == to) {
		/* The host was started again, and the link goes on. */
		l->sure_by = 0;
		allow(v, w->epoch);
		return 0;
	}
	if (l)
		end(l);
	if (!is_possible(v, to, heard, &e)) {
		vfun_talk_complain(v, &e);
		return say(v, VFUN_PORT_ASK_UNLINKED, w->handle, 0);
	}
	/* Of one that the host does not name any more, or not yet. */
	if (to->to_here) {
		to->to_here->from->unlinked = to->to_here->number;
		end(to->to_here);
	}
	l = new_link(v, to, heard);
	if (!l) {
		vfun_wrong(&e, "a direct link to port %s cannot be: there is no memory for it", (const char *)w->sentence);
		vfun_talk_complain(v, &e);
		return say(v, VFUN_PORT_ASK_UNLINKED, w->handle, 0);
	}
	begin(l, w->epoch);
	return 0;
}

static void soon(void *device);

static void look_soon(struct vfun_eth *v)
{
	/* If there is no alarm, the clock of the connection looks. */
	if (!v->is_soon)
		v->is_soon = !rte_eal_alarm_set(SOON_US, soon, v);
}

/* Of a link that is there. */
static int obey(struct vfun_eth *v, struct vfun_direct *l, const struct vfun_port_word *w)
{
	struct vfun_error e;

	switch (w->kind) {
	case VFUN_PORT_WORD_ALLOW:
		if (allow(v, w->epoch))
			return say(v, VFUN_PORT_ASK_ALLOWED, l->number, w->epoch);
		vfun_wrong(&e, "epoch %llu of a direct link is an old one, and is not allowed",
			   (unsigned long long)w->epoch);
		vfun_talk_complain(v, &e);
		return 0;
	case VFUN_PORT_WORD_FORCE:
		vfun_fence_force(hold_fence(v), w->epoch);
		release_fence(v);
		l->forced = w->epoch;
		look_soon(v);
		return 0;
	default:
		end(l);
		return say(v, VFUN_PORT_ASK_UNLINKED, w->handle, 0);
	}
}

int vfun_links_obey(struct vfun_eth *v, struct vfun_link_heard *heard)
{
	const struct vfun_port_word *w = &heard->word;
	int ret;

	pthread_mutex_lock(&links);
	if (w->kind == VFUN_PORT_WORD_LINK)
		ret = link_to(v, heard);
	else if (v->from_here && v->from_here->number == w->handle)
		ret = obey(v, v->from_here, w);
	else
		ret = say(v, VFUN_PORT_ASK_UNLINKED, w->handle, 0);
	pthread_mutex_unlock(&links);
	return ret;
}

/* ---- what becomes of links by itself -------------------------------- */

void vfun_links_doubt(struct vfun_eth *v)
{
	pthread_mutex_lock(&links);
	if (v->from_here)
		v->from_here->sure_by = (rte_rdtsc() + SURE_SECONDS * rte_get_tsc_hz()) | 1;
	pthread_mutex_unlock(&links);
}

/* A VM that is gone needs not hear of a turn. */
static void pass_over_gone(struct vfun_direct *l)
{
	pthread_mutex_lock(&l->to->lock);
	if (!l->to->port.mine && l->to->had_memory)
		vfun_closer_renew(&l->closer);
	pthread_mutex_unlock(&l->to->lock);
}

/* Whether the forced turn is made. */
static int is_forced(const struct vfun_direct *l)
{
	int is_over = vfun_fence_is_over(hold_fence(l->from), l->forced);
	release_fence(l->from);
	return is_over;
}

/* Ends a link that nobody wants or whose counts are lies. 0, or -1. */
static int give_up(struct vfun_eth *v, struct vfun_direct *l)
{
	uint64_t number = l->number;

	VFUN_LOG(WARNING, "%s: a direct link to %s is given up: %s\n", name(v), name(l->to),
		 l->ledger.is_broken ? "what the two VMs count of its frames makes no sense" :
		 "the host does not name it any more");
	end(l);
	return say(v, VFUN_PORT_ASK_UNLINKED, number, 0);
}

int vfun_links_look(struct vfun_eth *v)
{
	struct vfun_direct *l;
	int ret = 0;

	look_at_untold(v);
	pthread_mutex_lock(&links);
	l = v->from_here;
	if (v->unlinked)
		ret = say(v, VFUN_PORT_ASK_UNLINKED, v->unlinked, 0);
	if (!ret)
		v->unlinked = 0;
	if (l && (l->ledger.is_broken || (l->sure_by && rte_rdtsc() > l->sure_by))) {
		ret |= give_up(v, l);
	} else if (l && l->forced) {
		pass_over_gone(l);
		if (!is_forced(l))
			look_soon(v);
		else if (say(v, VFUN_PORT_ASK_FORCED, l->number, l->forced))
			ret = -1;
		else
			l->forced = 0;
	}
	pthread_mutex_unlock(&links);
	return ret;
}

static void soon(void *device)
{
	struct vfun_eth *v = device;

	pthread_mutex_lock(&links);
	v->is_soon = 0;
	pthread_mutex_unlock(&links);
	/* That the connection is broken is found where words are heard. */
	vfun_links_look(v);
}

/* ---- devices begin and end ------------------------------------------ */

void vfun_links_add(struct vfun_eth *v)
{
	pthread_mutex_lock(&links);
	/* Frames of a device before it, which had the same number in DPDK, may be in the switch. */
	v->rxq.fence.stamp = stamps;
	v->next = devices;
	devices = v;
	pthread_mutex_unlock(&links);
}

void vfun_links_remove(struct vfun_eth *v)
{
	struct vfun_direct *l;
	struct vfun_eth **at;

	pthread_mutex_lock(&links);
	for (at = &devices; *at && *at != v; at = &(*at)->next)
		;
	if (*at)
		*at = v->next;
	l = v->from_here;
	if (l) {
		say(v, VFUN_PORT_ASK_UNLINKED, l->number, 0);
		end(l);
	}
	l = v->to_here;
	if (l) {
		l->from->unlinked = l->number;
		look_soon(l->from);
		end(l);
	}
	stamps = RTE_MAX(stamps, v->rxq.fence.stamp);
	pthread_mutex_unlock(&links);
	/* It waits for one that runs. */
	rte_eal_alarm_cancel(soon, v);
}
