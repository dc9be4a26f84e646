/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A device and the host that gives it memory. Once the device is there, all of this runs
 * on DPDK's thread for interrupts and alarms, where nothing but a lost port of a VM may wait:
 * that thread serves all devices. Only the end comes from another one, which first ends what runs there.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_pause.h>

#include "vfun_eth.h"
#include "vfun_link.h"

/* How long the owner of a socket may take to answer: a restart of it, and some. */
#define ANSWER_MS 5000
/* Between two looks at the link, and whether to connect. */
#define LOOK_US 250000
/* In a VM, whose host may want a direct link, or take one away. */
#define LOOK_VM_US 20000
/* Before the next try to connect, and where the port was refused. */
#define AGAIN_SECONDS 1
#define REFUSED_SECONDS 5
/* Messages that are taken at a time: others of DPDK's alarms shall come to their turn. */
#define WORDS 16
/* A sentence that was said already is said once more after so many seconds. */
#define SAID_SECONDS 60

static uint64_t after(unsigned int seconds)
{
	return rte_get_timer_cycles() + seconds * rte_get_timer_hz();
}

static const char *name(const struct vfun_eth *v)
{
	return v->dev->data->name;
}

int vfun_talk_complain(struct vfun_eth *v, const struct vfun_error *e)
{
	struct vfun_talk *t = &v->talk;

	if (!strcmp(t->said.text, e->text) && rte_get_timer_cycles() < t->said_at)
		return 0;
	t->said = *e;
	t->said_at = after(SAID_SECONDS);
	VFUN_LOG(ERR, "%s: %s\n", name(v), e->text);
	return 1;
}

/* ---- connections ---------------------------------------------------- */

/* In DPDK's thread, after the last use of the descriptor there. */
static void unwatched(struct rte_intr_handle *intr, void *device __rte_unused)
{
	close(rte_intr_fd_get(intr));
}

static void on_word(void *device);

/* The memory stays as it is: frames go on. Called by on_word alone. */
static void hang_up(struct vfun_eth *v, unsigned int seconds)
{
	struct vfun_talk *t = &v->talk;

	rte_intr_callback_unregister_pending(t->intr, on_word, v, unwatched);
	t->fd = -1;
	t->is_welcome = 0;
	t->again = after(seconds);
}

static int watch(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;

	rte_intr_fd_set(t->intr, t->fd);
	return rte_intr_callback_register(t->intr, on_word, v);
}

/* Connects and asks. As vfun_link_connect. */
static int connect_and_ask(struct vfun_eth *v, struct vfun_error *e)
{
	struct vfun_talk *t = &v->talk;
	struct vfun_port_place place = { .socket = t->socket, .owner = t->owner };
	int found = vfun_link_connect(&t->fd, &place, e);

	if (found != VFUN_LINK_DONE || 
	    !vfun_link_ask(t->fd, t->port, t->handle, v->rxq.stamp_at >= 0 ? VFUN_PORT_KNOWS_LINKS : 0))
		return found;
	vfun_wrong(e, "%s does not listen", t->socket);
	close(t->fd);
	t->fd = -1;
	return VFUN_LINK_ABSENT;
}

static void connect_again(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;
	struct vfun_error e;
	int found = connect_and_ask(v, &e);

	t->again = after(AGAIN_SECONDS);
	/* That nobody is there was said when it began. */
	if (found == VFUN_LINK_WRONG)
		vfun_talk_complain(v, &e);
	if (found != VFUN_LINK_DONE || !watch(v))
		return;
	VFUN_LOG(ERR, "%s: DPDK does not watch the connection to %s\n", name(v), t->socket);
	close(t->fd);
	t->fd = -1;
}

static void tell_lost(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;

	if (!t->is_lost)
		VFUN_LOG(NOTICE, "%s: the connection to %s is lost, and is tried again each second; %s\n",
			 name(v), t->socket,
			 t->handle ? "frames go on in the memory that is there" : "the port has no memory");
	t->is_lost = 1;
}

/* ---- what the host says --------------------------------------------- */

/* Looks at the link, and tells the application if it changed and wants to know. */
static void look(struct vfun_eth *v)
{
	if (!vfun_eth_look(v) && v->dev->data->dev_conf.intr_conf.lsc)
		rte_eth_dev_callback_process(v->dev, RTE_ETH_EVENT_INTR_LSC, NULL);
}

/* Lets go of the memory that is there, if any. 0, or -1: the connection is broken. */
static int let_go(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;
	uint64_t handle = t->handle;

	if (!handle)
		return 0;
	vfun_eth_detach(v);
	t->handle = 0;
	look(v);
	return vfun_link_let_go(t->fd, handle);
}

/* Takes memory, with its bell. 0, or -1: the connection is broken. */
static int take(struct vfun_eth *v, struct vfun_link_heard *heard)
{
	const struct vfun_port_word *w = &heard->word;
	struct vfun_talk *t = &v->talk;
	struct vfun_bell bell = { .ringer = NULL };
	struct vfun_error e;
	struct vfun_sides port;

	if (w->handle == t->handle)
		return 0;
	if (let_go(v))
		return -1;
	if (heard->bell >= 0 &&
	    vfun_bell_open(&bell, v->ringers, heard->bell, heard->memory, w->news, &e)) {
		vfun_talk_complain(v, &e);
		return vfun_link_let_go(t->fd, w->handle);
	}
	if (bell.ringer)
		heard->bell = -1;
	if (vfun_sides_map(&port, heard->memory, w->mine, w->theirs, w->ring, &e)) {
		vfun_bell_close(&bell);
		vfun_talk_complain(v, &e);
		return vfun_link_let_go(t->fd, w->handle);
	}
	vfun_eth_attach(v, &port, &bell);
	t->handle = w->handle;
	look(v);
	return 0;
}

static void welcome(struct vfun_eth *v, uint64_t ring)
{
	struct vfun_talk *t = &v->talk;

	pthread_mutex_lock(&v->lock);
	v->ring = ring;
	pthread_mutex_unlock(&v->lock);
	t->is_welcome = 1;
	if (t->is_lost)
		VFUN_LOG(NOTICE, "%s: the connection to %s is there\n", name(v), t->socket);
	t->is_lost = 0;
	vfun_links_doubt(v);
}

static void refused(struct vfun_eth *v, const char *sentence)
{
	struct vfun_error e;

	vfun_wrong(&e, "the port is refused: %s", sentence);
	vfun_talk_complain(v, &e);
	v->talk.is_lost = 1;
	vfun_links_doubt(v);
	hang_up(v, REFUSED_SECONDS);
}

/* 0, or -1: the connection is broken. */
static int obey(struct vfun_eth *v, struct vfun_link_heard *heard)
{
	struct vfun_talk *t = &v->talk;

	switch (heard->word.kind) {
	case VFUN_PORT_WORD_WELCOME:
		welcome(v, heard->word.ring);
		return 0;
	case VFUN_PORT_WORD_MEMORY:
		return take(v, heard);
	case VFUN_PORT_WORD_DROP:
		if (t->handle && heard->word.handle == t->handle)
			return let_go(v);
		return vfun_link_let_go(t->fd, heard->word.handle);
	case VFUN_PORT_WORD_REFUSED:
		refused(v, (const char *)heard->word.sentence);
		return 0;
	default:
		return vfun_links_obey(v, heard);
	}
}

/* The socket has messages, or is at its end. */
static void on_word(void *device)
{
	struct vfun_eth *v = device;
	struct vfun_talk *t = &v->talk;
	struct vfun_link_heard heard;
	struct vfun_error e;
	int found = VFUN_LINK_DONE, words;

	for (words = 0; words < WORDS && t->fd >= 0 && found == VFUN_LINK_DONE; words++) {
		found = vfun_link_hear(t->fd, &heard, &e);
		if (found == VFUN_LINK_DONE && obey(v, &heard))
			found = VFUN_LINK_ABSENT;
		vfun_link_close(&heard);
	}
	if (found == VFUN_LINK_WRONG) {
		vfun_talk_complain(v, &e);
		t->is_lost = 1;
		hang_up(v, AGAIN_SECONDS);
	} else if (found == VFUN_LINK_ABSENT) {
		tell_lost(v);
		hang_up(v, AGAIN_SECONDS);
	}
}

/* ---- in a VM -------------------------------------------------------- */

/* Takes the port of this VM, with a sentence if it cannot be had now. */
static int take_of_vm(struct vfun_eth *v, struct vfun_error *e)
{
	const struct vfun_bell bell = { .vm = v->talk.vm };
	struct vfun_vm_port port;

	if (vfun_vm_open(v->talk.vm, &port, e))
		return -1;
	pthread_mutex_lock(&v->lock);
	v->most_mtu = port.mtu;
	/* Later it is the application's. */
	if (!v->had_memory && rte_is_valid_assigned_ether_addr((struct rte_ether_addr *)port.mac))
		memcpy(v->mac.addr_bytes, port.mac, sizeof(port.mac));
	pthread_mutex_unlock(&v->lock);
	vfun_eth_attach(v, &port.sides, &bell);
	return 0;
}

/*
 * Looks whether the port goes on, and asks for it again if not. Asking, and giving back what
 * was lost, are the only things here that wait: for a host that is there and does not answer,
 * 10 s for each of some requests.
 */
static void look_at_vm(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;
	struct vfun_error e;

	if (vfun_vm_is_open(t->vm)) {
		if (!vfun_vm_check(t->vm, &e)) {
			pthread_mutex_lock(&v->lock);
			vfun_linked_follow(v);
			pthread_mutex_unlock(&v->lock);
			return;
		}
		VFUN_LOG(NOTICE, "%s: the port is lost, and is asked for again each second: %s\n", name(v), e.text);
		vfun_eth_detach(v);
		vfun_vm_close(t->vm);
		/* The host may be about to give it out anew. */
		t->again = after(AGAIN_SECONDS);
		return;
	}
	if (rte_get_timer_cycles() < t->again)
		return;
	if (take_of_vm(v, &e))
		vfun_talk_complain(v, &e);
	else
		VFUN_LOG(NOTICE, "%s: the port is there again\n", name(v));
	t->again = after(AGAIN_SECONDS);
}

int vfun_talk_begin_vm(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e)
{
	v->talk.vm = vfun_vm_new(place, e);
	return v->talk.vm ? take_of_vm(v, e) : -1;
}

/* ---- the clock ------------------------------------------------------ */

/*
 * Nobody says when the peer's end comes or goes, nor when a host comes that was away: so
 * a clock looks.
 */
static void tick(void *device)
{
	struct vfun_eth *v = device;
	struct vfun_talk *t = &v->talk;

	if (t->socket && t->fd < 0 && rte_get_timer_cycles() >= t->again)
		connect_again(v);
	if (t->vm)
		look_at_vm(v);
	/* That the connection is broken is found where words are heard. */
	vfun_links_look(v);
	look(v);
	if (rte_eal_alarm_set(t->vm ? LOOK_VM_US : LOOK_US, tick, v))
		VFUN_LOG(ERR, "%s: DPDK has no alarm: the link and the connection stay as they are\n", name(v));
}

/* ---- begin and end -------------------------------------------------- */

/* Waits for the first word, which is WELCOME or REFUSED. As vfun_link_hear. */
static int first_word(struct vfun_eth *v, struct vfun_error *e)
{
	struct vfun_talk *t = &v->talk;
	struct pollfd waits = { .fd = t->fd, .events = POLLIN };
	struct vfun_link_heard heard;
	int found;

	if (poll(&waits, 1, ANSWER_MS) <= 0)
		return VFUN_LINK_NOTHING;
	found = vfun_link_hear(t->fd, &heard, e);
	if (found != VFUN_LINK_DONE)
		return found;
	vfun_link_close(&heard);
	if (heard.word.kind == VFUN_PORT_WORD_WELCOME)
		welcome(v, heard.word.ring);
	else if (heard.word.kind == VFUN_PORT_WORD_REFUSED)
		vfun_wrong(e, "the port was refused: %s", heard.word.sentence);
	else
		vfun_wrong(e, "%s did not greet: another program listens there, or one of another version", t->socket);
	return t->is_welcome ? VFUN_LINK_DONE : VFUN_LINK_WRONG;
}

static int ask_first(struct vfun_eth *v, struct vfun_error *e)
{
	struct vfun_talk *t = &v->talk;
	int found = connect_and_ask(v, e);

	if (found == VFUN_LINK_DONE)
		found = first_word(v, e);
	switch (found) {
	case VFUN_LINK_DONE:
		return 0;
	case VFUN_LINK_NOTHING:
		/* The connection stays: an answer may come yet. */
		vfun_wrong(e, "%s does not answer within %d s", t->socket, ANSWER_MS / 1000);
		break;
	case VFUN_LINK_ABSENT:
		if (t->fd >= 0) {
			vfun_wrong(e, "%s hung up", t->socket);
			close(t->fd);
			t->fd = -1;
		}
		break;
	default:
		return -1;
	}
	VFUN_LOG(WARNING, "%s: %s; until the host gives the port out, its link is down\n", name(v), e->text);
	t->is_lost = 1;
	return 0;
}

int vfun_talk_begin(struct vfun_eth *v, struct vfun_port_place *place, struct vfun_error *e)
{
	struct vfun_talk *t = &v->talk;
	size_t most = sizeof(((struct vfun_port_ask *)0)->name);

	if (strlen(place->port) > most)
		return vfun_wrong(e, "a port's name has at most %zu bytes", most);
	t->intr = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (!t->intr)
		return vfun_wrong(e, "DPDK has no room for one more device");
	rte_intr_type_set(t->intr, RTE_INTR_HANDLE_EXT);
	rte_intr_fd_set(t->intr, -1);
	t->owner = place->owner;
	/* They are the device's from now on. */
	t->socket = place->socket;
	t->port = place->port;
	place->socket = place->port = NULL;
	/* Before the host hears of this device, and may say that a link ends here. */
	vfun_links_add(v);
	return ask_first(v, e);
}

int vfun_talk_run(struct vfun_eth *v, struct vfun_error *e)
{
	if (v->talk.fd >= 0 && watch(v))
		return vfun_wrong(e, "DPDK does not watch the connection to %s", v->talk.socket);
	if (rte_eal_alarm_set(LOOK_US, tick, v))
		return vfun_wrong(e, "DPDK has no alarm");
	return 0;
}

void vfun_talk_end(struct vfun_eth *v)
{
	struct vfun_talk *t = &v->talk;

	/* It waits for one that runs. After it nobody connects. */
	rte_eal_alarm_cancel(tick, v);
	/* Refused as long as the callback runs; after it, nobody takes or lets go. */
	while (t->intr && rte_intr_fd_get(t->intr) >= 0 &&
	       rte_intr_callback_unregister(t->intr, on_word, v) == -EAGAIN)
		rte_pause();
	vfun_links_remove(v);
	vfun_eth_detach(v);
	if (t->fd >= 0) {
		vfun_link_goodbye(t->fd);
		close(t->fd);
	}
	vfun_vm_free(t->vm);
	rte_intr_instance_free(t->intr);
	free(t->socket);
	free(t->port);
	*t = (struct vfun_talk){ .fd = -1 };
}
