/*
 * Memory that a program registers, in all the ways in which programs have it. Knows of nothing but
 * libibverbs. One line for each case: its name, and "ok" or what was wrong.
 *
 *   memory [ROUNDS]        all cases; a writer beside ROUNDS registrations
 *   memory --sizes         regions of a page and of many
 *   memory --lost ROUNDS   only counts the writes that registering lost; --lost-few: of four pages
 *   memory --pinned ROUNDS all cases, where memory stays where it is: nothing is refused
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static int failures, pinned;
static const char *wrong;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(2);
}

static int fail(const char *why)
{
	if (!wrong)
		wrong = why;
	return 1;
}

static void report(const char *name)
{
	printf("%s: %s\n", name, wrong ? wrong : "ok");
	fflush(stdout);
	failures += wrong != NULL;
	wrong = NULL;
}

static void modify(struct ibv_qp *q, struct ibv_qp_attr attr, int mask)
{
	errno = ibv_modify_qp(q, &attr, mask);
	if (errno)
		die("modify");
}

/* Two queue pairs of this process, each other's peers. */
static void connect_pairs(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_port_attr port;
	int i;

	if (ibv_query_port(context, 1, &port))
		die("port");
	for (i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		if (!qp[i])
			die("queue pair");
	}
	for (i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };

		modify(qp[i], attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		memset(&attr, 0, sizeof(attr));
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_4096;
		attr.dest_qp_num = qp[1 - i]->qp_num;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 12;
		attr.ah_attr.dlid = port.lid;
		attr.ah_attr.port_num = 1;
		modify(qp[i], attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		memset(&attr, 0, sizeof(attr));
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 14;
		attr.retry_cnt = attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		modify(qp[i], attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	}
}

/* The status of one operation of the first pair. */
static int operate(enum ibv_wr_opcode op, void *local, uint32_t lkey, void *remote, uint32_t rkey,
		   size_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = bytes, .lkey = lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int got;

	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(qp[0], &wr, &bad))
		return -1;
	do
		got = ibv_poll_cq(cq, 1, &wc);
	while (!got);
	return got < 0 ? -1 : (int)wc.status;
}

static struct ibv_mr *reg(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, bytes, ALL);

	if (!mr)
		fail(strerror(errno));
	return mr;
}

/* The peer writes into memory, and reads from it: both are what the program sees. */
static int works(char *at, size_t bytes, struct ibv_mr *mr)
{
	static char other[1 << 20] __attribute__((aligned(PAGE)));
	static struct ibv_mr *other_mr;
	size_t i;

	if (!mr)
		return fail("not registered");
	if (!other_mr && !(other_mr = reg(other, sizeof(other))))
		return 1;
	for (i = 0; i < bytes; i++)
		other[i] = (char)(i * 7 + bytes);
	if (operate(IBV_WR_RDMA_WRITE, other, other_mr->lkey, at, mr->rkey, bytes))
		return fail("the peer's write failed");
	if (memcmp(at, other, bytes))
		return fail("the peer's write is not seen");
	for (i = 0; i < bytes; i++)
		at[i] ^= 0x5A;
	memset(other, 0, bytes);
	if (operate(IBV_WR_RDMA_READ, other, other_mr->lkey, at, mr->rkey, bytes))
		return fail("the peer's read failed");
	if (memcmp(at, other, bytes))
		return fail("the peer does not see what was written");
	return 0;
}

static char *fresh(size_t pages)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

/* Memory that is long moves in several steps. */
static void of_many_sizes(void)
{
	static const size_t pages[] = {1, 63, 64, 65, 128, 255};
	size_t n, i;

	for (n = 0; n < sizeof(pages) / sizeof(*pages); n++) {
		char *at = fresh(pages[n]);
		struct ibv_mr *mr;

		for (i = 0; i < pages[n] * PAGE; i++)
			at[i] = (char)(i * 31 + i / PAGE);
		mr = reg(at, pages[n] * PAGE);
		for (i = 0; i < pages[n] * PAGE; i++)
			if (at[i] != (char)(i * 31 + i / PAGE))
				fail("it has other bytes than before");
		works(at, pages[n] * PAGE, mr);
		if (mr)
			ibv_dereg_mr(mr);
		munmap(at, pages[n] * PAGE);
	}
	report("regions of a page and of many");
}

static void heap_with_neighbours(void)
{
	char *around[64];
	struct ibv_mr *mr;
	int i;

	for (i = 0; i < 64; i++) {
		around[i] = malloc(200);
		memset(around[i], i, 200);
	}
	mr = reg(around[32], 200);
	works(around[32], 200, mr);
	for (i = 0; i < 64; i++)
		if (i != 32 && (around[i][0] != i || around[i][199] != i))
			fail("a neighbour changed");
	for (i = 0; i < 64; i++)
		if (i != 32)
			free(around[i]);
	for (i = 0; i < 1000; i++)
		free(malloc(i * 37 % 5000 + 1));
	works(around[32], 200, mr);
	if (mr)
		ibv_dereg_mr(mr);
	free(around[32]);
	report("heap, with neighbours in the page");
}

static void two_in_a_page(void)
{
	char *at = fresh(1);
	struct ibv_mr *first = reg(at + 64, 128), *second = reg(at + 1024, 2000);

	works(at + 64, 128, first);
	works(at + 1024, 2000, second);
	if (first)
		ibv_dereg_mr(first);
	works(at + 1024, 2000, second);
	first = reg(at + 64, 128);
	works(at + 64, 128, first);
	report("two regions in a page");
}

static void reallocated(void)
{
	size_t bytes = 1 << 20, i;
	char *at = malloc(bytes), *next = fresh(16);
	struct ibv_mr *mr = reg(at, bytes), *after = reg(next, 16 * PAGE);

	memset(next, 3, 16 * PAGE);
	works(at, bytes, mr);
	for (i = 0; i < bytes; i++)
		at[i] = (char)(i * 3);
	if (mr)
		ibv_dereg_mr(mr);
	at = realloc(at, 3 * bytes);
	for (i = 0; i < bytes; i++)
		if (at[i] != (char)(i * 3))
			fail("realloc lost bytes");
	memset(at + bytes, 9, 2 * bytes);
	for (i = 0; i < 16 * PAGE; i++)
		if (next[i] != 3)
			fail("realloc wrote into another region");
	mr = reg(at, bytes);
	works(at, bytes, mr);
	works(next, 16 * PAGE, after);
	report("realloc");
}

/* A child has a copy of what was there when it was born, and its writes are its own. */
static void forked(int child_first)
{
	size_t bytes = 8 * PAGE, i;
	char *at = fresh(8);
	struct ibv_mr *mr = reg(at, bytes);
	int to[2], from[2], status;
	char c = 0;
	pid_t child;

	memset(at, 11, bytes);
	if (pipe(to) || pipe(from))
		die("pipe");
	child = fork();
	if (!child) {
		if (child_first)
			memset(at, 22, bytes / 2);
		if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(2);
		for (i = 0; i < bytes; i++)
			if (at[i] != (child_first && i < bytes / 2 ? 22 : 11))
				_exit(1);
		memset(at, 33, bytes);
		_exit(0);
	}
	close(from[1]);
	close(to[0]);
	if (read(from[0], &c, 1) != 1)
		fail("the child died");
	for (i = 0; i < bytes; i++)
		if (at[i] != 11)
			fail("the child's write shows in the parent");
	memset(at, 44, bytes);
	works(at, bytes, mr);
	memset(at, 55, bytes);
	if (write(to[1], &c, 1) != 1 || waitpid(child, &status, 0) != child || status)
		fail("the child saw what the parent wrote after the fork, or died");
	for (i = 0; i < bytes; i++)
		if (at[i] != 55)
			fail("the child's write shows in the parent");
	report(child_first ? "fork, the child writes first" : "fork, the parent writes first");
}

/* Whether a child ends so; it reads the first byte, which must be 0 for an exit. */
static int child_ends_by(const char *at, int signal)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(*(const volatile char *)at);
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	return signal ? WIFSIGNALED(status) && WTERMSIG(status) == signal : !status;
}

static void marked_for_fork(void)
{
	char *kept = fresh(4), *wiped = fresh(4);
	struct ibv_mr *mr;

	memset(kept, 5, 4 * PAGE);
	memset(wiped, 5, 4 * PAGE);
	if (madvise(kept, 4 * PAGE, MADV_DONTFORK) || madvise(wiped, 4 * PAGE, MADV_WIPEONFORK))
		die("madvise");
	mr = reg(kept, 4 * PAGE);
	works(kept, 4 * PAGE, mr);
	mr = reg(wiped, 4 * PAGE);
	works(wiped, 4 * PAGE, mr);
	*wiped = 5;
	if (!child_ends_by(kept, SIGSEGV))
		fail("memory that no child should have is there in a child");
	if (!child_ends_by(wiped, 0))
		fail("memory that a child should find empty is not");
	if (*wiped != 5)
		fail("the parent's is gone");
	report("memory with marks for fork");
}

static void unmapped(void)
{
	char *at = fresh(8), *again;
	struct ibv_mr *mr = reg(at, 8 * PAGE);

	works(at, 8 * PAGE, mr);
	memset(at, 77, 8 * PAGE);
	munmap(at, 8 * PAGE);
	again = mmap(at, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (again != at || again[0] || again[8 * PAGE - 1])
		fail("new memory is not empty");
	if (mr)
		ibv_dereg_mr(mr);
	mr = reg(again, 8 * PAGE);
	works(again, 8 * PAGE, mr);
	report("munmap while registered, and new memory in its place");
}

static void on_the_stack(void)
{
	char here[3 * PAGE];
	struct ibv_mr *mr;

	memset(here, 1, sizeof(here));
	mr = reg(here, sizeof(here));
	works(here, sizeof(here), mr);
	if (mr)
		ibv_dereg_mr(mr);
	report("stack");
}

/* A child has its own copy of a registered stack, also of what this function runs on. */
static void forked_on_the_stack(void)
{
	char here[2 * PAGE];
	struct ibv_mr *mr;
	int status;
	pid_t child;

	memset(here, 7, sizeof(here));
	mr = reg(here, sizeof(here));
	child = fork();
	if (!child) {
		int same = here[0] == 7 && here[sizeof(here) - 1] == 7;

		memset(here, 8, sizeof(here));
		_exit(same ? 0 : 1);
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("the child died, or has other bytes");
	if (here[0] != 7 || here[sizeof(here) - 1] != 7)
		fail("the child's write shows in the parent");
	works(here, sizeof(here), mr);
	if (mr)
		ibv_dereg_mr(mr);
	report("fork with a registered stack");
}

/* Memory that comes from a file, or from the kernel's source of zeros, is the program's own copy. */
static void from_files(void)
{
	FILE *file = tmpfile();
	char bytes[2 * PAGE], *at;
	int zero = open("/dev/zero", O_RDWR);

	memset(bytes, 9, sizeof(bytes));
	if (!file || zero < 0 || fwrite(bytes, sizeof(bytes), 1, file) != 1 || fflush(file))
		die("a file");
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	if (at == MAP_FAILED)
		die("mmap");
	works(at, 2 * PAGE, reg(at, 2 * PAGE));
	if (pread(fileno(file), bytes, sizeof(bytes), 0) != sizeof(bytes) || bytes[0] != 9 || bytes[2 * PAGE - 1] != 9)
		fail("the file changed");
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
	if (at == MAP_FAILED)
		die("mmap");
	works(at, 2 * PAGE, reg(at, 2 * PAGE));
	close(zero);
	fclose(file);
	report("private memory of files");
}

/* The heap's end goes while it is registered, and comes again. */
static void heap_that_shrinks(void)
{
	char *end = sbrk(0), *at = (char *)(((uintptr_t)end + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	struct ibv_mr *mr;

	if (brk(at + 4 * PAGE))
		die("brk");
	mr = reg(at, 4 * PAGE);
	works(at, 4 * PAGE, mr);
	memset(at, 6, 4 * PAGE);
	if (brk(at) || brk(at + 4 * PAGE))
		die("brk");
	if (at[0] || at[4 * PAGE - 1])
		fail("new memory of the heap is not empty");
	if (mr)
		ibv_dereg_mr(mr);
	mr = reg(at, 4 * PAGE);
	works(at, 4 * PAGE, mr);
	if (mr)
		ibv_dereg_mr(mr);
	if (brk(end))
		die("brk");
	report("a heap that shrinks while registered");
}

/* What is not the program's memory, or not there. */
static void refused(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[256], *at = fresh(2);
	unsigned long from;

	munmap(at, 2 * PAGE);
	if (ibv_reg_mr(pd, at, PAGE, ALL) || errno != EFAULT)
		fail("memory that is not there was not refused as such");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vvar]") && sscanf(line, "%lx", &from) == 1 &&
		    ibv_reg_mr(pd, (void *)from, PAGE, IBV_ACCESS_REMOTE_READ))
			fail("pages of the kernel were registered");
	if (maps)
		fclose(maps);
	report("what cannot be registered");
}

static void read_only(void)
{
	char *at = fresh(2);
	struct ibv_mr *mr;

	memset(at, 5, 2 * PAGE);
	mprotect(at, 2 * PAGE, PROT_READ);
	mr = ibv_reg_mr(pd, at, 2 * PAGE, IBV_ACCESS_REMOTE_READ);
	if (!mr) {
		fail(strerror(errno));
	} else {
		static char to[PAGE];
		struct ibv_mr *to_mr = reg(to, PAGE);

		if (to_mr && operate(IBV_WR_RDMA_READ, to, to_mr->lkey, at, mr->rkey, PAGE))
			fail("the peer's read failed");
		if (to[0] != 5 || to[PAGE - 1] != 5)
			fail("the peer read something else");
	}
	if (ibv_reg_mr(pd, at, PAGE, ALL))
		fail("memory that cannot be written was registered for writing");
	report("read-only memory");
}

static void shared(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, at, PAGE, ALL);
	pid_t child;

	if (pinned) {
		works(at, PAGE, mr);
		*at = 1;
		child = fork();
		if (!child) {
			*at = 2;
			_exit(0);
		}
		if (waitpid(child, NULL, 0) != child || *at != 2)
			fail("processes do not share it any more");
		works(at, PAGE, mr);
		report("shared memory");
		return;
	}
	if (mr || errno != EOPNOTSUPP)
		fail("shared memory was registered for a peer");
	mr = ibv_reg_mr(pd, at, PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		fail("shared memory was not registered for local use");
	report("shared memory");
}

static void large_pages(void)
{
	size_t bytes = 4 << 20;
	char *at = aligned_alloc(2 << 20, bytes), *huge;

	madvise(at, bytes, MADV_HUGEPAGE);
	memset(at, 1, bytes);
	works(at + PAGE, 1 << 20, reg(at, bytes));
	huge = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge != MAP_FAILED && pinned)
		works(huge + PAGE, 1 << 20, reg(huge, 2 << 20));
	else if (huge != MAP_FAILED && ibv_reg_mr(pd, huge, PAGE, ALL))
		fail("huge pages were registered");
	report("large pages");
}

/* Advice that takes memory away: it is empty then, or the advice is refused. */
static void taken_away(void)
{
	char *at = fresh(2);
	struct ibv_mr *mr = reg(at, 2 * PAGE);

	works(at, 2 * PAGE, mr);
	memset(at, 4, 2 * PAGE);
	if (madvise(at, 2 * PAGE, MADV_DONTNEED) ? errno != EINVAL || pinned : at[0] || at[2 * PAGE - 1])
		fail("MADV_DONTNEED does something else");
	if (mr)
		ibv_dereg_mr(mr);
	mr = reg(at, 2 * PAGE);
	works(at, 2 * PAGE, mr);
	report("advice that takes memory away");
}

/* Written to a file past the cache, where its file system can; and a futex that processes share. */
static void used_directly(char *at)
{
	FILE *file = tmpfile();
	char back[PAGE];
	long woken;

	if (file && !fcntl(fileno(file), F_SETFL, O_DIRECT)) {
		memset(at, 68, PAGE);
		if (pwrite(fileno(file), at, PAGE, 0) != PAGE)
			fail("O_DIRECT does not work");
		else if (fcntl(fileno(file), F_SETFL, 0) || pread(fileno(file), back, PAGE, 0) != PAGE || back[9] != 68)
			fail("O_DIRECT wrote other bytes");
	}
	if (file)
		fclose(file);
	woken = syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (woken && (errno != EFAULT || pinned))
		fail("a shared futex does something else");
}

static void used_by_the_kernel(void)
{
	char *at = fresh(2), *copy = fresh(2);
	struct ibv_mr *mr = reg(at, 2 * PAGE);
	struct iovec to = { copy, PAGE }, from = { at, PAGE };
	int ends[2];

	works(at, 2 * PAGE, mr);
	if (pipe(ends))
		die("pipe");
	memset(at, 66, PAGE);
	if (write(ends[1], at, PAGE) != PAGE || read(ends[0], at + PAGE, PAGE) != PAGE)
		fail("read and write do not work");
	if (at[PAGE] != 66 || at[2 * PAGE - 1] != 66)
		fail("read and write change bytes");
	/* Either it works, or it says so: never other bytes. */
	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == PAGE ? copy[9] != 66 : errno != EFAULT || pinned)
		fail("process_vm_readv does something else");
	if (pinned && (vmsplice(ends[1], &from, 1, 0) != PAGE || read(ends[0], copy + PAGE, PAGE) != PAGE ||
		       copy[PAGE + 9] != 66))
		fail("vmsplice does not work");
	used_directly(at);
	report("memory that the kernel reads and writes");
}

/* A step in which the library itself moves memory (256 KiB), and half of one: writes are lost in a step, and between two. */
#define WRITTEN 96
static char *volatile target;
static _Atomic int stop;
static uint64_t written[WRITTEN];
/* How many of the pages are used: few, so that many rounds take little time. */
static int pages_written = WRITTEN;

/* Writes one number after the other into each page, until it is told to stop. */
static void *writer(void *unused)
{
	uint64_t n = 0;
	int i;

	while (!atomic_load_explicit(&stop, memory_order_acquire)) {
		n++;
		for (i = 0; i < pages_written; i++) {
			*(volatile uint64_t *)(target + i * PAGE + 8) = n;
			written[i] = n;
		}
	}
	return unused;
}

/* Writes that were lost while memory was registered for the first time. */
static long lost(long rounds)
{
	long missing = 0, round;
	pthread_t thread;
	int i;

	for (round = 0; round < rounds; round++) {
		char *at = fresh(pages_written);
		struct ibv_mr *mr;

		target = at;
		memset(at, 0, pages_written * PAGE);
		memset(written, 0, sizeof(written));
		atomic_store(&stop, 0);
		if (pthread_create(&thread, NULL, writer, NULL))
			die("thread");
		while (!*(volatile uint64_t *)(at + (pages_written - 1) * PAGE + 8))
			;
		mr = reg(at, pages_written * PAGE);
		atomic_store(&stop, 1);
		pthread_join(thread, NULL);
		for (i = 0; i < pages_written; i++)
			missing += *(volatile uint64_t *)(at + i * PAGE + 8) != written[i];
		if (!mr)
			die(wrong);
		ibv_dereg_mr(mr);
		munmap(at, pages_written * PAGE);
	}
	return missing;
}

static void *stack_of_a_thread(void *unused)
{
	on_the_stack();
	return unused;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	if (!list || !list[0] || !(context = ibv_open_device(list[0])))
		die("no device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	if (!pd || !cq)
		die("no queue");
	if (argc == 3 && !strncmp(argv[1], "--lost", 6)) {
		if (!strcmp(argv[1], "--lost-few"))
			pages_written = 4;
		printf("lost %ld\n", lost(atol(argv[2])));
		return 0;
	}
	pinned = argc == 3 && !strcmp(argv[1], "--pinned");
	connect_pairs();
	if (argc == 2 && !strcmp(argv[1], "--sizes")) {
		of_many_sizes();
		return failures;
	}
	heap_with_neighbours();
	two_in_a_page();
	reallocated();
	forked(0);
	forked(1);
	marked_for_fork();
	unmapped();
	on_the_stack();
	pthread_create(&thread, NULL, stack_of_a_thread, NULL);
	pthread_join(thread, NULL);
	forked_on_the_stack();
	from_files();
	heap_that_shrinks();
	refused();
	read_only();
	shared();
	large_pages();
	taken_away();
	used_by_the_kernel();
	if (lost(argc > 1 ? atol(argv[argc - 1]) : 100))
		fail("writes of another thread were lost");
	report("a writer beside registrations");
	return failures;
}
