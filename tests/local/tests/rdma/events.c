/*
 * Events that a program takes while another of its threads destroys what they are about, and entries of
 * which one is wrong, and signals while a program waits; or, with --device-dies, a device that somebody kills. Knows of nothing but libibverbs and librdmacm. One line for each case: its
 * name, and "ok" or what was wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Long enough for a thread that does not wait to end, us. */
#define MOMENT 200000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static int failures;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(2);
}

static void report(const char *name, const char *wrong)
{
	printf("%s: %s\n", name, wrong ? wrong : "ok");
	fflush(stdout);
	failures += wrong != NULL;
}

static int readable(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	return poll(&at, 1, 0) == 1;
}

/* Something that another thread destroys. */
struct ending {
	pthread_t thread;
	int (*destroy)(void *what);
	void *what;
	atomic_int done;
};

static void *end(void *arg)
{
	struct ending *e = arg;

	if (e->destroy(e->what))
		die("destroy");
	e->done = 1;
	return NULL;
}

static int destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static int destroy_id(void *id)
{
	return rdma_destroy_id(id);
}

static void begin(struct ending *e, int (*destroy)(void *), void *what)
{
	*e = (struct ending){ .destroy = destroy, .what = what };
	if (pthread_create(&e->thread, NULL, end, e))
		die("thread");
	usleep(MOMENT);
}

static struct ibv_qp *failed_pair(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("queue pair");
	attr.qp_state = IBV_QPS_ERR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		die("failing");
	return qp;
}

/* The event that a shared queue's receives have ended is taken of one pair, and left of another one. */
static const char *asynchronous(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_async_event event;
	struct ibv_qp *taken, *left;
	struct ending ending;

	if (!srq)
		die("shared queue");
	taken = failed_pair(srq);
	if (ibv_get_async_event(context, &event))
		die("event");
	if (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED || event.element.qp != taken)
		return "another event";
	begin(&ending, destroy_qp, taken);
	if (ending.done)
		return "destroyed while the program had an event of it";
	ibv_ack_async_event(&event);
	pthread_join(ending.thread, NULL);
	left = failed_pair(srq);
	while (!readable(context->async_fd))
		usleep(1000);
	if (ibv_destroy_qp(left))
		die("destroy");
	if (readable(context->async_fd))
		return "readable without an event";
	ibv_destroy_srq(srq);
	return NULL;
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("event of a connection");
	if (event->event != wanted) {
		printf("%s, and not %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
		exit(2);
	}
	return event;
}

/* Asks the listener at a port: the new id, whose channel hears what becomes of it. */
static struct rdma_cm_id *ask(struct rdma_event_channel *channel, struct sockaddr_in to)
{
	struct rdma_conn_param param = { .qp_num = 7 };
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000))
		die("address");
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(id, 1000))
		die("route");
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	if (rdma_connect(id, &param))
		die("connect");
	return id;
}

/* A request is taken of a listener that another thread destroys; one is left. */
static const char *connections(void)
{
	struct rdma_event_channel *heard = rdma_create_event_channel(), *own = rdma_create_event_channel();
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *listener, *active[2], *passive;
	struct rdma_cm_event *event;
	struct ending ending;

	if (!heard || !own || rdma_create_id(heard, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&at) || rdma_listen(listener, 8))
		die("listener");
	at.sin_port = rdma_get_src_port(listener);
	active[0] = ask(own, at);
	event = next(heard, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	active[1] = ask(own, at);
	while (!readable(heard->fd))
		usleep(1000);
	begin(&ending, destroy_id, listener);
	if (ending.done)
		return "destroyed while the program had an event of it";
	if (readable(heard->fd))
		return "readable without an event";
	rdma_ack_cm_event(event);
	pthread_join(ending.thread, NULL);
	rdma_ack_cm_event(next(own, RDMA_CM_EVENT_REJECTED));
	rdma_destroy_id(active[1]);
	/* The one that was taken goes on without its listener. */
	if (rdma_reject(passive, NULL, 0))
		die("reject");
	event = next(own, RDMA_CM_EVENT_REJECTED);
	if (event->id != active[0])
		return "another one was rejected";
	rdma_ack_cm_event(event);
	rdma_destroy_id(passive);
	rdma_destroy_id(active[0]);
	rdma_destroy_event_channel(own);
	rdma_destroy_event_channel(heard);
	return NULL;
}

/* Two pairs of this process, each other's peers; the first one has functions ibv_wr_.... */
static void connected(struct ibv_qp *qp[2])
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = pd,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = 16 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_port_attr port;
	int i;

	if (ibv_query_port(context, 1, &port))
		die("port");
	for (i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp_ex(context, &init);
		if (!qp[i])
			die("queue pair");
	}
	for (i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
			.path_mtu = IBV_MTU_4096, .dest_qp_num = qp[1 - i]->qp_num, .min_rnr_timer = 12,
			.ah_attr = { .dlid = port.lid, .port_num = 1 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		};

		if (ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			die("init");
		attr.qp_state = IBV_QPS_RTR;
		if (ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
			die("ready to receive");
		attr.qp_state = IBV_QPS_RTS;
		if (ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
			die("ready to send");
	}
}

/* Of entries that are posted together none is posted if one is wrong. */
static const char *together(void)
{
	char bytes[8] = "";
	struct ibv_qp *qp[2];
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	const char *wrong = NULL;
	int got;

	connected(qp);
	ex = ibv_qp_to_qp_ex(qp[0]);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_rdma_read(ex, 0, 0);
	ibv_wr_set_inline_data(ex, bytes, sizeof(bytes));
	if (ibv_wr_complete(ex) != EINVAL)
		wrong = "a read with inline data was posted";
	usleep(MOMENT);
	if (ibv_poll_cq(cq, 1, &wc))
		wrong = "one was posted, although the call failed";
	ibv_wr_start(ex);
	ex->wr_id = 9;
	ibv_wr_rdma_write(ex, 0, 0);
	if (ibv_wr_complete(ex))
		die("posting");
	do
		got = ibv_poll_cq(cq, 1, &wc);
	while (!got);
	if (got < 0 || wc.wr_id != 9 || wc.status != IBV_WC_SUCCESS)
		wrong = "the entry after it did not complete";
	ibv_destroy_qp(qp[0]);
	ibv_destroy_qp(qp[1]);
	return wrong;
}

static atomic_int alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

/* An alarm each 5 ms, or none any more. */
static void alarms_come(int come, int flags)
{
	struct sigaction action = { .sa_handler = count_alarm, .sa_flags = flags };
	struct itimerval every = { { 0, come * 5000 }, { 0, come * 5000 } };

	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &every, NULL))
		die("alarm");
}

/* Writes when there were some alarms. */
static void *writes_later(void *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;

	while (alarms < 20)
		usleep(1000);
	if (ibv_post_send(qp, &wr, &bad))
		die("posting");
	return NULL;
}

/* A wait for a completion ends by a signal only if its handler does not ask for calls to be restarted. */
static const char *signals(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *other = cq, *told;
	const char *wrong = NULL;
	struct ibv_qp *qp[2];
	pthread_t thread;
	sigset_t alarm;
	void *cookie;

	cq = channel ? ibv_create_cq(context, 16, NULL, channel, 0) : NULL;
	if (!cq || ibv_req_notify_cq(cq, 0))
		die("completion queue");
	connected(qp);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	if (pthread_create(&thread, NULL, writes_later, qp[0]))
		die("thread");
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	alarms_come(1, SA_RESTART);
	if (ibv_get_cq_event(channel, &told, &cookie))
		wrong = "it ended, although the handler asks for a restart";
	else
		ibv_ack_cq_events(cq, 1);
	alarms_come(0, SA_RESTART);
	pthread_join(thread, NULL);
	alarms_come(1, 0);
	if (!ibv_get_cq_event(channel, &told, &cookie) || errno != EINTR)
		wrong = "it did not end with EINTR";
	alarms_come(0, 0);
	ibv_destroy_qp(qp[0]);
	ibv_destroy_qp(qp[1]);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
	cq = other;
	return wrong;
}

/* An id that listens, whose channel hears that its device goes. */
static struct rdma_cm_id *listens(struct rdma_event_channel **heard)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	*heard = rdma_create_event_channel();
	if (!*heard || rdma_create_id(*heard, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&at) || rdma_listen(id, 8))
		die("listener");
	return id;
}

/* The device is killed once this says that it is ready: what was posted, and who is told of what. */
static int device_dies(struct ibv_device *device)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	int receives = 0, fatal_pairs = 0, fatal_devices = 0;
	struct rdma_event_channel *heard;
	struct ibv_async_event event;
	struct rdma_cm_id *listener = listens(&heard);
	struct ibv_context *other;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	connected(qp);
	for (wr.wr_id = 1; wr.wr_id <= 3; wr.wr_id++)
		if (ibv_post_recv(qp[0], &wr, &bad))
			die("posting");
	printf("ready\n");
	fflush(stdout);
	while (!fatal_devices || fatal_pairs < 2) {
		if (ibv_get_async_event(context, &event))
			die("event");
		fatal_devices += event.event_type == IBV_EVENT_DEVICE_FATAL;
		fatal_pairs += event.event_type == IBV_EVENT_QP_FATAL &&
			       (event.element.qp == qp[0] || event.element.qp == qp[1]);
		ibv_ack_async_event(&event);
	}
	report("each queue pair and the device are said to have failed", fatal_devices == 1 ? NULL : "more than once");
	while (receives < 3 && ibv_poll_cq(cq, 1, &wc) > 0)
		receives += wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == qp[0]->qp_num &&
			    wc.wr_id == (uint64_t)receives + 1;
	report("what was posted is flushed, in its order", receives == 3 ? NULL : "it is not");
	wr.wr_id = 4;
	if (!ibv_post_recv(qp[0], &wr, &bad) &&
	    (ibv_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != 4 || wc.status != IBV_WC_WR_FLUSH_ERR))
		report("what is posted afterwards", "it is neither refused nor flushed");
	rdma_ack_cm_event(next(heard, RDMA_CM_EVENT_DEVICE_REMOVAL));
	report("an id of a connection hears of it", NULL);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(heard);
	ibv_destroy_qp(qp[0]);
	ibv_destroy_qp(qp[1]);
	other = ibv_open_device(device);
	report("the device can be opened again", other ? NULL : "it cannot");
	if (other)
		ibv_close_device(other);
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	context = all && all[0] ? ibv_open_device(all[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	if (!cq)
		die("device");
	if (argc > 1 && !strcmp(argv[1], "--device-dies"))
		return device_dies(all[0]);
	report("an event of a queue pair that is destroyed", asynchronous());
	report("a request at a listener that is destroyed", connections());
	report("entries that are posted together", together());
	report("a signal while a program waits for a completion", signals());
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return failures != 0;
}
