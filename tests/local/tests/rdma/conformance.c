/*
 * What a device for RDMA answers: a line for each case, which is the same on each device that keeps the
 * specification. Knows of nothing but libibverbs. Usage: conformance [GID-INDEX], for devices that need
 * global addresses.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes of a side's memory, and depth of its queues. */
#define BYTES 8192
#define DEPTH 128
/* What nobody expects is waited for so long, ms; what is expected, longer. */
#define QUIET 60
#define PATIENCE 5000
#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;
static union ibv_gid gid;
static int gid_index = -1;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(2);
}

/* One end: memory, a completion queue of its own, a queue pair. */
struct side {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
};

/* How two ends are connected. */
struct way {
	enum ibv_qp_type type;
	int rights;          /* of the queue pairs */
	int mr_rights;       /* of their memory */
	int rnr_retry;
	int inline_bytes;
};

static const struct way plain = { IBV_QPT_RC, ALL_RIGHTS, ALL_RIGHTS, 0, 0 };

static struct side x, y;
/* The queue pairs are of datagrams. */
static int with_header;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void make(struct side *s, const struct way *way)
{
	struct ibv_qp_init_attr init = {
		.qp_type = way->type,
		.cap = { DEPTH, DEPTH, 4, 4, way->inline_bytes },
	};

	s->memory = aligned_alloc(4096, BYTES);
	memset(s->memory, 0, BYTES);
	s->channel = ibv_create_comp_channel(context);
	s->cq = s->channel ? ibv_create_cq(context, 2 * DEPTH, NULL, s->channel, 0) : NULL;
	s->mr = ibv_reg_mr(pd, s->memory, BYTES, way->mr_rights);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = s->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!s->mr || !s->qp)
		die("make");
}

static void end(struct side *s)
{
	if ((s->qp && ibv_destroy_qp(s->qp)) || ibv_destroy_cq(s->cq) ||
	    ibv_destroy_comp_channel(s->channel) || ibv_dereg_mr(s->mr))
		die("end");
	free(s->memory);
}

static struct ibv_ah_attr address(void)
{
	struct ibv_ah_attr to = { .dlid = port.lid, .port_num = 1 };

	if (gid_index >= 0) {
		to.is_global = 1;
		to.grh.dgid = gid;
		to.grh.sgid_index = gid_index;
		to.grh.hop_limit = 1;
	}
	return to;
}

/* Everything that a queue pair needs on its way to a state, by the state. */
static int modify(struct side *s, enum ibv_qp_state to, const struct way *way, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1, .qkey = 0x1234 };
	int ud = way->type == IBV_QPT_UD, rc = way->type == IBV_QPT_RC, mask = IBV_QP_STATE;

	if (to == IBV_QPS_INIT) {
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		attr.qp_access_flags = way->rights;
	} else if (to == IBV_QPS_RTR && !ud) {
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		mask |= rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer;
		attr.max_dest_rd_atomic = 4;
		attr.min_rnr_timer = 1;
		attr.ah_attr = address();
	} else if (to == IBV_QPS_RTS) {
		mask |= IBV_QP_SQ_PSN;
		mask |= rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = way->rnr_retry;
		attr.max_rd_atomic = 4;
	}
	return ibv_modify_qp(s->qp, &attr, mask);
}

static void bring_up(struct side *s, const struct way *way, uint32_t peer)
{
	if (modify(s, IBV_QPS_INIT, way, peer) || modify(s, IBV_QPS_RTR, way, peer) ||
	    modify(s, IBV_QPS_RTS, way, peer))
		die("connect");
}

static void connect_both(const struct way *way)
{
	make(&x, way);
	make(&y, way);
	bring_up(&x, way, y.qp->qp_num);
	bring_up(&y, way, x.qp->qp_num);
}

static void end_both(void)
{
	end(&x);
	end(&y);
}

static int receive(struct side *s, uint64_t id, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)s->memory, bytes, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = bytes ? 1 : 0 }, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

static struct ibv_sge piece(const struct side *s, uint64_t at, uint32_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)s->memory + at, bytes, s->mr->lkey };
}

/* A request that completes; the peer's address is behind its first 4096 bytes. */
static struct ibv_send_wr request(enum ibv_wr_opcode op, struct ibv_sge *sge, int pieces)
{
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = pieces, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(0xabcd) };

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)y.memory + 4096;
		wr.wr.atomic.rkey = y.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)y.memory + 4096;
		wr.wr.rdma.rkey = y.mr->rkey;
	}
	return wr;
}

static int post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(s->qp, wr, &bad);
}

/* The next completion, for so many ms. */
static int next(struct side *s, struct ibv_wc *wc, long ms)
{
	long until = now_ms() + ms;

	do {
		int got = ibv_poll_cq(s->cq, 1, wc);

		if (got)
			return got;
	} while (now_ms() < until);
	return 0;
}

static void say(const struct ibv_wc *wc)
{
	printf(" [%d %s", (int)wc->wr_id, ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS) {
		printf(" op %d", wc->opcode);
		/* Only a receive tells more. Whether there is a global header is told of datagrams: devices over
		 * Ethernet say so of all messages. */
		if (wc->opcode & IBV_WC_RECV) {
			printf(" bytes %u", wc->byte_len);
			if (wc->wc_flags & IBV_WC_WITH_IMM)
				printf(" imm %x", be32toh(wc->imm_data));
			if (with_header && wc->wc_flags & IBV_WC_GRH)
				printf(" header");
		}
	}
	printf("]");
}

/* So many completions that are expected, and that there are no more. */
static void complete(struct side *s, const char *who, int count)
{
	struct ibv_wc wc;
	int got = 0;

	printf(" %s", who);
	while (next(s, &wc, got < count ? PATIENCE : QUIET)) {
		say(&wc);
		got++;
	}
	if (got < count)
		printf(" MISSING %d", count - got);
}

static const char *state_name(enum ibv_qp_state state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state <= IBV_QPS_ERR ? names[state] : "?";
}

static const char *state(struct side *s)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init))
		die("query");
	return state_name(attr.qp_state);
}

/* Ends a line with the states of both. */
static void states(void)
{
	printf(" states %s %s\n", state(&x), state(&y));
	fflush(stdout);
}

/* One request of x, what comes of it at both sides, and the states after it. */
static void one(const char *name, const struct way *way, enum ibv_wr_opcode op, struct ibv_sge sge,
		void (*change)(struct ibv_send_wr *), int at_y)
{
	struct ibv_send_wr wr = request(op, &sge, 1);

	(void)way;
	if (change)
		change(&wr);
	printf("%s:", name);
	if (post(&x, &wr))
		printf(" refused");
	else
		complete(&x, "x", 1);
	complete(&y, "y", at_y);
	states();
	end_both();
}

static void wrong_rkey(struct ibv_send_wr *wr) { wr->wr.rdma.rkey ^= 0x5a5a00; }
static void beyond(struct ibv_send_wr *wr) { wr->wr.rdma.remote_addr = (uintptr_t)y.memory + BYTES - 4; }
static void misaligned(struct ibv_send_wr *wr) { wr->wr.atomic.remote_addr += 4; }
static void with_solicited(struct ibv_send_wr *wr) { wr->send_flags |= IBV_SEND_SOLICITED; }

static void good_ones(void)
{
	struct ibv_sge sge;

	connect_both(&plain);
	memset(x.memory, 7, 64);
	one("write", &plain, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), NULL, 0);
	connect_both(&plain);
	one("read", &plain, IBV_WR_RDMA_READ, piece(&x, 0, 64), NULL, 0);
	connect_both(&plain);
	receive(&y, 9, 64);
	one("send", &plain, IBV_WR_SEND, piece(&x, 0, 48), NULL, 1);
	connect_both(&plain);
	receive(&y, 9, 64);
	one("send with immediate", &plain, IBV_WR_SEND_WITH_IMM, piece(&x, 0, 48), NULL, 1);
	connect_both(&plain);
	receive(&y, 9, 0);
	one("write with immediate", &plain, IBV_WR_RDMA_WRITE_WITH_IMM, piece(&x, 0, 48), NULL, 1);
	connect_both(&plain);
	receive(&y, 9, 64);
	sge = piece(&x, 0, 0);
	one("send of nothing", &plain, IBV_WR_SEND, sge, NULL, 1);
	connect_both(&plain);
	one("write of nothing", &plain, IBV_WR_RDMA_WRITE, sge, NULL, 0);
}

static void keys(void)
{
	static const struct way no_write = { IBV_QPT_RC, ALL_RIGHTS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0 };
	static const struct way no_read = { IBV_QPT_RC, ALL_RIGHTS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0 };
	static const struct way qp_no_write = { IBV_QPT_RC, IBV_ACCESS_REMOTE_READ, ALL_RIGHTS, 0, 0 };
	static const struct way qp_no_read = { IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE, ALL_RIGHTS, 0, 0 };
	static const struct way only_read = { IBV_QPT_RC, ALL_RIGHTS, 0, 0, 0 };
	struct ibv_sge sge;
	struct ibv_pd *other;
	struct ibv_mr *mr, *own;

	connect_both(&plain);
	sge = piece(&x, 0, 64);
	sge.lkey ^= 0x5a5a00;
	one("wrong lkey", &plain, IBV_WR_RDMA_WRITE, sge, NULL, 0);
	connect_both(&plain);
	one("beyond the own region", &plain, IBV_WR_RDMA_WRITE, piece(&x, BYTES - 4, 64), NULL, 0);
	connect_both(&plain);
	one("wrong rkey", &plain, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), wrong_rkey, 0);
	connect_both(&plain);
	one("wrong rkey of a read", &plain, IBV_WR_RDMA_READ, piece(&x, 0, 64), wrong_rkey, 0);
	connect_both(&plain);
	one("beyond the peer's region", &plain, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), beyond, 0);
	connect_both(&no_write);
	one("region without remote write", &no_write, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), NULL, 0);
	connect_both(&no_read);
	one("region without remote read", &no_read, IBV_WR_RDMA_READ, piece(&x, 0, 64), NULL, 0);
	connect_both(&no_read);
	one("region without remote atomic", &no_read, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&x, 0, 8), NULL, 0);
	connect_both(&qp_no_write);
	one("queue pair without remote write", &qp_no_write, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), NULL, 0);
	connect_both(&qp_no_read);
	one("queue pair without remote read", &qp_no_read, IBV_WR_RDMA_READ, piece(&x, 0, 64), NULL, 0);
	connect_both(&only_read);
	receive(&y, 9, 64);
	one("receive without local write", &only_read, IBV_WR_SEND, piece(&x, 0, 64), NULL, 1);
	connect_both(&only_read);
	one("read without local write", &only_read, IBV_WR_RDMA_READ, piece(&x, 0, 64), NULL, 0);

	connect_both(&plain);
	other = ibv_alloc_pd(context);
	mr = other ? ibv_reg_mr(other, y.memory, BYTES, ALL_RIGHTS) : NULL;
	if (!mr)
		die("another domain");
	own = y.mr;
	y.mr = mr;
	sge = piece(&x, 0, 64);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, 1);
	y.mr = own;
	printf("rkey of another domain:");
	post(&x, &wr);
	complete(&x, "x", 1);
	complete(&y, "y", 0);
	states();
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(other);
	end_both();
}

static void receives(void)
{
	static const struct way patient = { IBV_QPT_RC, ALL_RIGHTS, ALL_RIGHTS, 7, 0 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	connect_both(&plain);
	receive(&y, 9, 16);
	one("receive too short", &plain, IBV_WR_SEND, piece(&x, 0, 64), NULL, 1);
	connect_both(&plain);
	one("no receive", &plain, IBV_WR_SEND, piece(&x, 0, 64), NULL, 0);
	connect_both(&patient);
	sge = piece(&x, 0, 64);
	wr = request(IBV_WR_SEND, &sge, 1);
	printf("a receive that comes late:");
	post(&x, &wr);
	complete(&x, "before", 0);
	receive(&y, 9, 64);
	complete(&x, "x", 1);
	complete(&y, "y", 1);
	states();
	end_both();
}

/* Completions of sends and of receives come in an order of their own each. */
static void flushed(struct side *s, int count)
{
	struct ibv_wc all[16], wc;
	int got = 0, i;

	while (got < 16 && next(s, &wc, got < count ? PATIENCE : QUIET))
		all[got++] = wc;
	printf(" sends");
	for (i = 0; i < got; i++)
		if (all[i].wr_id < 20)
			say(&all[i]);
	printf(" receives");
	for (i = 0; i < got; i++)
		if (all[i].wr_id >= 20)
			say(&all[i]);
}

static void flushes(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int i;

	connect_both(&plain);
	printf("flushed after an error:");
	for (i = 0; i < 3; i++)
		receive(&x, 20 + i, 64);
	sge = piece(&x, 0, 64);
	for (i = 0; i < 4; i++) {
		wr = request(IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr_id = i + 1;
		if (i == 1)
			wr.wr.rdma.rkey ^= 0x5a5a00;
		/* Those behind the wrong one complete, signaled or not. */
		if (i == 2)
			wr.send_flags = 0;
		post(&x, &wr);
	}
	flushed(&x, 7);
	wr = request(IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr_id = 4;
	printf(" later %d", post(&x, &wr));
	complete(&x, "x", 1);
	states();
	end_both();

	connect_both(&plain);
	receive(&x, 20, 64);
	modify(&x, IBV_QPS_ERR, &plain, 0);
	printf("flushed by the program:");
	complete(&x, "x", 1);
	receive(&x, 21, 64);
	complete(&x, "x", 1);
	states();
	end_both();
}

static uint64_t word(const struct side *s, int at)
{
	uint64_t value;

	memcpy(&value, s->memory + at, 8);
	return value;
}

static void atomics(void)
{
	uint64_t five = 5;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int i;

	connect_both(&plain);
	memcpy(y.memory + 4096, &five, 8);
	sge = piece(&x, 0, 8);
	printf("compare and swap:");
	for (i = 0; i < 2; i++) {
		wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 1);
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
		post(&x, &wr);
		complete(&x, "x", 1);
		printf(" was %d is %d", (int)word(&x, 0), (int)word(&y, 4096));
	}
	printf("\nfetch and add:");
	wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1);
	wr.wr.atomic.compare_add = 33;
	post(&x, &wr);
	complete(&x, "x", 1);
	printf(" was %d is %d", (int)word(&x, 0), (int)word(&y, 4096));
	states();
	end_both();

	connect_both(&plain);
	one("atomic at a place of no word", &plain, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&x, 0, 8), misaligned, 0);
}

static void order(void)
{
	struct ibv_wc wc;
	int i, wrong = 0, got = 0;

	connect_both(&plain);
	printf("order of 64 writes:");
	for (i = 0; i < 64; i++) {
		struct ibv_sge sge = piece(&x, 0, 64);
		struct ibv_send_wr wr = request(i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, &sge, 1);

		wr.wr_id = i;
		wr.send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
		wrong += post(&x, &wr) != 0;
	}
	while (next(&x, &wc, got < 16 ? PATIENCE : QUIET))
		wrong += wc.status != IBV_WC_SUCCESS || (int)wc.wr_id != 4 * got++ + 3;
	printf(" %d completions, %d wrong", got, wrong);
	states();
	end_both();
}

/* Whether an event came, for so many ms. */
static int event(struct side *s, int ms)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *cookie;

	if (poll(&fd, 1, ms) != 1 || ibv_get_cq_event(s->channel, &cq, &cookie))
		return 0;
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static void solicited(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	connect_both(&plain);
	receive(&y, 1, 64);
	receive(&y, 2, 64);
	receive(&y, 3, 64);
	ibv_req_notify_cq(y.cq, 1);
	sge = piece(&x, 0, 8);
	wr = request(IBV_WR_SEND, &sge, 1);
	post(&x, &wr);
	printf("solicited events only:");
	complete(&y, "y", 1);
	printf(" event %d", event(&y, QUIET));
	with_solicited(&wr);
	post(&x, &wr);
	printf(" solicited %d", event(&y, PATIENCE));
	ibv_req_notify_cq(y.cq, 0);
	wr = request(IBV_WR_SEND, &sge, 1);
	post(&x, &wr);
	printf(" any %d", event(&y, PATIENCE));
	complete(&y, "y", 2);
	complete(&x, "x", 3);
	states();
	end_both();
}

static void inlines(void)
{
	static const struct way way = { IBV_QPT_RC, ALL_RIGHTS, ALL_RIGHTS, 0, 220 };
	static const int sizes[] = { 0, 1, 7, 8, 63, 64, 65, 128, 219, 220 };
	size_t i;

	connect_both(&way);
	printf("inline:");
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		/* No key is needed of what stands in the entry. */
		struct ibv_sge sge = { (uintptr_t)x.memory, sizes[i], 0 };
		struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, 1);
		struct ibv_wc wc;

		memset(x.memory, (int)i + 1, 220);
		memset(y.memory + 4096, 0, 221);
		wr.send_flags |= IBV_SEND_INLINE;
		if (post(&x, &wr) || !next(&x, &wc, PATIENCE) || wc.status)
			printf(" %d failed", sizes[i]);
		else if (memcmp(x.memory, y.memory + 4096, sizes[i]) || y.memory[4096 + sizes[i]])
			printf(" %d differs", sizes[i]);
		else
			printf(" %d", sizes[i]);
	}
	states();
	end_both();
}

static void elements(void)
{
	struct ibv_sge list[4];
	struct ibv_send_wr wr;
	struct ibv_recv_wr into = { .wr_id = 9, .sg_list = list, .num_sge = 3 }, *bad;
	int i, right = 1;

	connect_both(&plain);
	for (i = 0; i < 4096; i++)
		x.memory[i] = i % 251;
	list[0] = piece(&y, 100, 10);
	list[1] = piece(&y, 300, 0);
	list[2] = piece(&y, 500, 100);
	ibv_post_recv(y.qp, &into, &bad);
	list[0] = piece(&x, 0, 5);
	list[1] = piece(&x, 1000, 20);
	list[2] = piece(&x, 50, 0);
	list[3] = piece(&x, 2000, 30);
	wr = request(IBV_WR_SEND, list, 4);
	printf("several elements:");
	post(&x, &wr);
	complete(&x, "x", 1);
	complete(&y, "y", 1);
	for (i = 0; i < 55; i++) {
		uint8_t from = x.memory[i < 5 ? i : i < 25 ? 1000 + i - 5 : 2000 + i - 25];

		right &= from == y.memory[i < 10 ? 100 + i : 500 + i - 10];
	}
	printf(" data %s", right ? "right" : "wrong");
	states();
	end_both();

	connect_both(&plain);
	list[0] = piece(&x, 0, 8);
	list[1] = piece(&x, 8, 8);
	list[1].lkey ^= 0x5a5a00;
	wr = request(IBV_WR_RDMA_WRITE, list, 2);
	printf("wrong lkey of the second element:");
	post(&x, &wr);
	complete(&x, "x", 1);
	states();
	end_both();

	connect_both(&plain);
	for (i = 0; i < 4; i++)
		list[i] = piece(&x, 0, 8);
	wr = request(IBV_WR_RDMA_WRITE, list, 4);
	wr.num_sge = 40;
	printf("more elements than there are: %s\n", post(&x, &wr) ? "refused" : "taken");
	end_both();
}

static void machine(void)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						IBV_QPS_SQD, IBV_QPS_ERR };
	static const enum ibv_qp_state way[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD };
	int from, i, step;

	/* The last one is the state ERR. */
	for (from = 0; from < 6; from++) {
		printf("from %s:", state_name(from < 5 ? way[from] : IBV_QPS_ERR));
		for (i = 0; i < 6; i++) {
			make(&x, &plain);
			for (step = 1; step <= from && step < 5; step++)
				modify(&x, way[step], &plain, x.qp->qp_num);
			if (from == 5)
				modify(&x, IBV_QPS_ERR, &plain, 0);
			int refused = modify(&x, to[i], &plain, x.qp->qp_num);

			printf(" %s %s", state_name(to[i]), refused ? "no" : "yes");
			end(&x);
		}
		printf("\n");
	}
}

static void wrong_states(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	make(&x, &plain);
	make(&y, &plain);
	sge = piece(&x, 0, 8);
	wr = request(IBV_WR_SEND, &sge, 1);
	printf("post in RESET: send %s receive %s\n", post(&x, &wr) ? "refused" : "taken",
	       receive(&x, 1, 8) ? "refused" : "taken");
	modify(&x, IBV_QPS_INIT, &plain, 0);
	printf("post in INIT: send %s receive %s\n", post(&x, &wr) ? "refused" : "taken",
	       receive(&x, 1, 8) ? "refused" : "taken");
	end_both();
}

static void busy(void)
{
	make(&x, &plain);
	printf("in use: domain %s queue %s", ibv_dealloc_pd(pd) ? "stays" : "ends", ibv_destroy_cq(x.cq) ? "stays" : "ends");
	ibv_destroy_qp(x.qp);
	x.qp = NULL;
	printf(" domain with a region %s\n", ibv_dealloc_pd(pd) ? "stays" : "ends");
	end(&x);
	printf("a completion queue of no entries: %s\n", ibv_create_cq(context, 0, NULL, NULL, 0) ? "made" : "refused");
}

static void connected_without_answer(void)
{
	static const struct way uc = { IBV_QPT_UC, ALL_RIGHTS, ALL_RIGHTS, 0, 0 };

	connect_both(&uc);
	one("unreliable write", &uc, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), NULL, 0);
	connect_both(&uc);
	receive(&y, 9, 64);
	one("unreliable send", &uc, IBV_WR_SEND, piece(&x, 0, 64), NULL, 1);
	connect_both(&uc);
	one("unreliable send without receive", &uc, IBV_WR_SEND, piece(&x, 0, 64), NULL, 0);
	connect_both(&uc);
	one("unreliable wrong rkey", &uc, IBV_WR_RDMA_WRITE, piece(&x, 0, 64), wrong_rkey, 0);
	connect_both(&uc);
	one("unreliable read", &uc, IBV_WR_RDMA_READ, piece(&x, 0, 64), NULL, 0);
}

static void datagram(const char *name, uint32_t qkey, uint32_t bytes, uint32_t room, int arrives)
{
	static const struct way ud = { IBV_QPT_UD, 0, IBV_ACCESS_LOCAL_WRITE, 0, 0 };
	struct ibv_ah_attr to = address();
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_ah *ah;

	connect_both(&ud);
	ah = ibv_create_ah(pd, &to);
	if (!ah)
		die("address");
	sge = piece(&x, 0, bytes);
	wr = request(IBV_WR_SEND, &sge, 1);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = y.qp->qp_num;
	wr.wr.ud.remote_qkey = qkey;
	if (room)
		receive(&y, 9, room);
	printf("%s:", name);
	if (post(&x, &wr))
		printf(" refused");
	else
		complete(&x, "x", 1);
	complete(&y, "y", arrives);
	states();
	ibv_destroy_ah(ah);
	end_both();
}

int main(int argc, char **argv)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	if (argc > 1)
		gid_index = atoi(argv[1]);
	if (!all || !all[0])
		die("no device");
	context = ibv_open_device(all[0]);
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd || ibv_query_port(context, 1, &port) || (gid_index >= 0 && ibv_query_gid(context, 1, gid_index, &gid)))
		die("open");
	good_ones();
	keys();
	receives();
	flushes();
	atomics();
	order();
	solicited();
	inlines();
	elements();
	machine();
	wrong_states();
	busy();
	connected_without_answer();
	with_header = 1;
	datagram("datagram", 0x1234, 64, 200, 1);
	datagram("datagram with a wrong key", 0x4321, 64, 200, 0);
	datagram("datagram without receive", 0x1234, 64, 0, 0);
	datagram("datagram that fits without its header only", 0x1234, 64, 64, 0);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return 0;
}
