/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What both sides of a VirtFun window agree on, byte for byte, for C (C99)
 * and C++. The rules behind these bytes are the numbered ones of
 * docs/protocol.md; protocol/wire is the same layout in Rust, and its test
 * c_header fails where the two differ.
 *
 * Everything is little-endian and naturally aligned, so plain structs have no
 * padding. What a peer writes is to be copied once, checked, then used: never
 * check a field in shared memory and read it again (R-CEL-2, R-CTL-3).
 */
#ifndef VFUN_WIRE_H
#define VFUN_WIRE_H

/* The guest's kernel module brings these types by its own means. */
#ifndef __KERNEL__
#include <stdint.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vfun_wire.h: structs are laid out for little-endian machines"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sizes ---------------------------------------------------------- */

#define VFUN_PAGE 4096
#define VFUN_LINE 64
#define VFUN_LINE_WORDS 8

/* ---- versions and features ------------------------------------------ */

#define VFUN_VERSION 2
#define VFUN_VERSION_MIN 2

#define VFUN_FEATURE_DOORBELL (UINT64_C(1) << 0)
#define VFUN_FEATURE_FLOOR (UINT64_C(1) << 1)
#define VFUN_FEATURE_BUFFERS (UINT64_C(1) << 2)
#define VFUN_FEATURE_WINDOWS (UINT64_C(1) << 3)
#define VFUN_FEATURE_PACKETS (UINT64_C(1) << 4)
#define VFUN_FEATURE_MODULE (UINT64_C(1) << 5)
#define VFUN_FEATURE_SIGNATURES (UINT64_C(1) << 6)
#define VFUN_FEATURE_NET_ADMIN (UINT64_C(1) << 7)
#define VFUN_FEATURE_QUEUES (UINT64_C(1) << 8)
#define VFUN_FEATURE_PAGES (UINT64_C(1) << 9)
#define VFUN_FEATURE_OFFERED \
	(VFUN_FEATURE_DOORBELL | VFUN_FEATURE_FLOOR | VFUN_FEATURE_BUFFERS | \
	 VFUN_FEATURE_WINDOWS | VFUN_FEATURE_PACKETS | VFUN_FEATURE_MODULE | \
	 VFUN_FEATURE_SIGNATURES | VFUN_FEATURE_NET_ADMIN | \
	 VFUN_FEATURE_QUEUES | VFUN_FEATURE_PAGES)

/* A function's version: major in the upper half, minor in the lower. */
#define VFUN_FUNCTION_VERSION(major, minor) \
	((uint32_t)(((uint32_t)(major) << 16) | (uint32_t)(minor)))

/* ---- limits --------------------------------------------------------- */

#define VFUN_WINDOW_BYTES_MIN (UINT64_C(1) << 20)
#define VFUN_WINDOW_BYTES_MAX (UINT64_C(1) << 36)
#define VFUN_WINDOW_BYTES_DEFAULT (UINT64_C(64) << 20)
#define VFUN_CONTROL_CELLS 16
#define VFUN_CONTROL_REQUEST_BYTES 1024
#define VFUN_CONTROL_ANSWER_BYTES 4096
#define VFUN_SESSIONS 60
#define VFUN_BUFFERS 256
#define VFUN_BUFFER_ALIGN_MAX (UINT64_C(2) << 20)
#define VFUN_DEPTH_MIN 1
#define VFUN_DEPTH_MAX 1024
#define VFUN_DEPTH_DEFAULT 64
#define VFUN_CELL_BYTES_MAX (UINT32_C(1) << 30)
#define VFUN_CELL_BYTES_DEFAULT 4096
#define VFUN_QUEUES_PAGES_MIN 2
#define VFUN_QUEUES_PAGES_MAX (UINT32_C(1) << 14)
#define VFUN_PACKETS_RING_MIN (UINT32_C(1) << 12)
#define VFUN_PACKETS_RING_MAX (UINT32_C(64) << 20)
#define VFUN_INLINE_BYTES 48
#define VFUN_RANGES_MAX 8
#define VFUN_SHAPE_BYTES 16
#define VFUN_MEANING_BYTES 256
#define VFUN_NAME_BYTES 64
#define VFUN_CREDENTIAL_BYTES 64
#define VFUN_SENTENCE_BYTES 512
#define VFUN_WINDOWS_MAX 32
#define VFUN_PORTS_MAX 16
#define VFUN_PORT_NAME_BYTES 15
#define VFUN_VECTORS 8
#define VFUN_SIGNATURE_BYTES 2048
#define VFUN_DEADLINE_MS_MAX UINT32_C(3600000)
#define VFUN_DEADLINE_MS_DEFAULT UINT32_C(60000)
#define VFUN_CLAIM_STALE_MS 3000
#define VFUN_CONTROL_TIMEOUT_MS 10000
#define VFUN_HEARTBEAT_MS 2000
#define VFUN_HEARTBEAT_DEAD_MS 30000
#define VFUN_FRAME_BYTES_MAX ((UINT32_C(64) << 20) + 4096)

/* ---- the window's first pages --------------------------------------- */

/* "VIRTFUN1" and "VFATTACH", read as little-endian numbers. */
#define VFUN_MAGIC UINT64_C(0x314e554654524956)
#define VFUN_ATTACH_MAGIC UINT64_C(0x4843415454414656)
#define VFUN_LAYOUT 2

#define VFUN_HOST_BEAT_OFF 256
#define VFUN_HOST_STATE_OFF 264
#define VFUN_HOST_SLEEPS_OFF 320
#define VFUN_GUEST_PAGE_OFF 4096
#define VFUN_POSTED_OFF 4096
#define VFUN_GUEST_SLEEPS_OFF 4160
#define VFUN_SESSIONS_OFF 4352
#define VFUN_REQUESTS_OFF 8192
#define VFUN_ANSWERS_OFF 24576
#define VFUN_HEAP_OFF 90112
#define VFUN_FURTHER_HEAP_OFF 4096
#define VFUN_WINDOWS_OFF 1024
#define VFUN_PORTS_OFF 2048

/* What a window is for; only a control window has control fields in its header. */
enum vfun_role {
	VFUN_ROLE_CONTROL = 1,
	VFUN_ROLE_LINK = 2,
	VFUN_ROLE_DATA = 3
};

/* Page 0, written by the host: the magic last. */
struct vfun_window_header {
	uint64_t magic;
	uint16_t layout;
	uint16_t version_min;
	uint16_t version_max;
	uint16_t role;
	uint64_t window_bytes;
	uint64_t generation;
	uint64_t features;
	uint32_t client_id;
	uint16_t reserved0;
	uint16_t control_cells;
	uint16_t sessions;
	uint16_t vectors;
	uint32_t guest_page_off;
	uint32_t requests_off;
	uint32_t answers_off;
	uint32_t heap_off;
	uint32_t reserved1;
	uint8_t client[VFUN_NAME_BYTES];
	uint64_t key[2];
	uint64_t reserved2[5];
};

/*
 * A further window, as the table at VFUN_WINDOWS_OFF of its VM's control window names it.
 * The first word is stored last; 0: no entry.
 */
struct vfun_window_entry {
	uint16_t index;
	uint16_t role;
	uint32_t reserved;
	uint64_t bytes;
	uint64_t key[2];
};

/*
 * A port, as the table at VFUN_PORTS_OFF of its VM's control window names it; its place
 * there is its number. The first word is stored last; 0: no port.
 */
struct vfun_port_entry {
	uint64_t id;
	uint8_t mac[6];
	uint16_t mtu;
	uint8_t name[VFUN_PORT_NAME_BYTES + 1];
	uint32_t ring_bytes;
	uint32_t reserved0;
	uint64_t reserved1[3];
};

/* Page 1, written by the guest. Reached word by word, with atomics. */
struct vfun_guest_page {
	uint64_t posted[8];
	uint64_t sleeps[8];
	uint64_t reserved[16];
	uint64_t sessions[VFUN_SESSIONS][8];
};

/* Values of the word at VFUN_HOST_STATE_OFF. */
#define VFUN_HOST_SERVING 1
#define VFUN_HOST_DRAINING 2
#define VFUN_HOST_ENDED 3
#define VFUN_HOST_AWAY 4

/* ---- control cells -------------------------------------------------- */

/* Words of a request line. */
#define VFUN_WORD_CLAIM 0
#define VFUN_WORD_POSTED 1
#define VFUN_WORD_SESSION 2
#define VFUN_WORD_BEAT 3
/* Words of an answer line. */
#define VFUN_WORD_ANSWERED 0
#define VFUN_WORD_GENERATION 1

#define VFUN_REQUEST_BODY (VFUN_CONTROL_REQUEST_BYTES - VFUN_LINE)
#define VFUN_ANSWER_BODY (VFUN_CONTROL_ANSWER_BYTES - VFUN_LINE)

/* `kind` of an answer. */
#define VFUN_ANSWER_ACK 0
#define VFUN_ANSWER_NACK 1

static inline uint64_t vfun_request_off(uint64_t cell)
{
	return VFUN_REQUESTS_OFF + cell * VFUN_CONTROL_REQUEST_BYTES;
}

static inline uint64_t vfun_answer_off(uint64_t cell)
{
	return VFUN_ANSWERS_OFF + cell * VFUN_CONTROL_ANSWER_BYTES;
}

/* The posted word and the answered word: sequence, kind, body length. */
static inline uint64_t vfun_posted(uint32_t seq, uint16_t kind, uint16_t len)
{
	return (uint64_t)seq | (uint64_t)kind << 32 | (uint64_t)len << 48;
}
static inline uint32_t vfun_posted_seq(uint64_t word) { return (uint32_t)word; }
static inline uint16_t vfun_posted_kind(uint64_t word) { return (uint16_t)(word >> 32); }
static inline uint16_t vfun_posted_len(uint64_t word) { return (uint16_t)(word >> 48); }

/* A handle: an index with a generation, opaque to all but the manager. */
#define VFUN_HANDLE_NONE UINT64_C(0)

/* ---- ranges --------------------------------------------------------- */

/* Who writes a range; whoever does not may only read it. */
enum vfun_access {
	VFUN_ACCESS_APP_WRITES = 1,
	VFUN_ACCESS_HOST_WRITES = 2,
	VFUN_ACCESS_BOTH = 3
};

/* Pages of a window; offset and bytes are multiples of a page, bytes not 0. */
struct vfun_range {
	uint16_t window;
	uint8_t access;
	uint8_t reserved0;
	uint32_t reserved1;
	uint64_t offset;
	uint64_t bytes;
};

/*
 * 1 where all ranges lie in window `window` between `from` and `to`, in whole
 * pages, apart from each other, with a known access and zeros in what is
 * reserved; else 0. The same for every kind of channel and for buffers.
 */
static inline int vfun_ranges_good(const struct vfun_range *r, unsigned int count,
				   unsigned int window, uint64_t from, uint64_t to)
{
	unsigned int i, j;

	for (i = 0; i < count; i++) {
		if (r[i].access < VFUN_ACCESS_APP_WRITES || r[i].access > VFUN_ACCESS_BOTH)
			return 0;
		if (r[i].reserved0 || r[i].reserved1 || r[i].window != window)
			return 0;
		if (!r[i].bytes || ((r[i].offset | r[i].bytes) & (VFUN_PAGE - 1)))
			return 0;
		if (r[i].offset < from || r[i].offset > to || r[i].bytes > to - r[i].offset)
			return 0;
		for (j = 0; j < i; j++)
			if (r[i].offset < r[j].offset + r[j].bytes &&
			    r[j].offset < r[i].offset + r[i].bytes)
				return 0;
	}
	return 1;
}

/* ---- channels ------------------------------------------------------- */

enum vfun_wire_command {
	VFUN_WIRE_COMMAND_SET = 1,
	VFUN_WIRE_COMMAND_RST = 3
};

enum vfun_cell_state {
	VFUN_CELL_STATE_WAIT = 0,
	VFUN_CELL_STATE_BUSY = 1,
	VFUN_CELL_STATE_DONE = 2
};

enum vfun_channel_kind {
	VFUN_CHANNEL_KIND_CALLS = 1,
	VFUN_CHANNEL_KIND_FLOOR = 2,
	VFUN_CHANNEL_KIND_PACKETS = 3,
	VFUN_CHANNEL_KIND_QUEUES = 4
};

/* Shape of calls and floor: `dataout` and `datain` of vfun_side_bytes follow from it. */
struct vfun_calls_shape {
	uint16_t depth;
	uint16_t reserved0;
	uint32_t cell_bytes;
	uint64_t reserved1;
};

/* Shape of queues: the program's side and the host's, in pages. */
struct vfun_queues_shape {
	uint32_t program_pages;
	uint32_t host_pages;
	uint64_t reserved;
};

/* Shape of packets: both sides are VFUN_PACKETS_RING_OFF and a ring. */
struct vfun_packets_shape {
	uint32_t ring_bytes;
	uint16_t port;
	uint16_t reserved0;
	uint64_t reserved1;
};

/* In a service's line: the cell's next call is held open, begun or not (R-CEL-12). */
#define VFUN_HELD_BEGUN VFUN_CELL_STATE_BUSY
#define VFUN_HELD_EVENT 3

#define VFUN_FLAG_DATA 1
#define VFUN_FLAGS VFUN_FLAG_DATA

/* The app's line of a cell; its first 8 bytes are stored last, as one word. */
struct vfun_out_line {
	uint32_t seq;
	uint8_t command;
	uint8_t flags;
	uint16_t reserved0;
	uint32_t len;
	uint32_t reserved1;
	uint8_t inline_bytes[VFUN_INLINE_BYTES];
};

/* The service's line of a cell; its first 8 bytes are stored last, as one word. */
struct vfun_in_line {
	uint32_t seq;
	uint8_t state;
	uint8_t flags;
	uint16_t reserved;
	uint32_t len;
	uint32_t status;
	uint8_t inline_bytes[VFUN_INLINE_BYTES];
};

/* First word of either line: sequence; command or state; flags; zero. */
static inline uint64_t vfun_word0(uint32_t seq, uint8_t op, uint8_t flags)
{
	return (uint64_t)seq | (uint64_t)op << 32 | (uint64_t)flags << 40;
}
static inline uint32_t vfun_word0_seq(uint64_t word) { return (uint32_t)word; }
static inline uint8_t vfun_word0_op(uint64_t word) { return (uint8_t)(word >> 32); }
static inline uint8_t vfun_word0_flags(uint64_t word) { return (uint8_t)(word >> 40); }
static inline uint16_t vfun_word0_reserved(uint64_t word) { return (uint16_t)(word >> 48); }

/* Second word of either line: length; status in answers, zero in requests. */
static inline uint64_t vfun_word1(uint32_t len, uint32_t status)
{
	return (uint64_t)len | (uint64_t)status << 32;
}
static inline uint32_t vfun_word1_len(uint64_t word) { return (uint32_t)word; }
static inline uint32_t vfun_word1_status(uint64_t word) { return (uint32_t)(word >> 32); }

/* Words of the dataout header page. */
#define VFUN_OUT_SLEEPERS 0
#define VFUN_OUT_END 8

/*
 * Words of the datain header page. The first three begin the first range that
 * the host alone writes, whatever the kind of channel.
 */
#define VFUN_IN_BROKEN 0
#define VFUN_IN_ALONE 1
#define VFUN_IN_NEWS 2
#define VFUN_IN_SLEEPS 8
#define VFUN_IN_CURRENT 16
#define VFUN_IN_NEXT 17
/* Beside the cell in VFUN_IN_NEXT: another service is about to take the channel up. */
#define VFUN_HANDED (1ull << 32)
#define VFUN_IN_CALLS 24
#define VFUN_IN_ERRORS 25
#define VFUN_IN_BYTES_IN 26
#define VFUN_IN_BYTES_OUT 27
#define VFUN_IN_SLEPT 28
#define VFUN_IN_RANG 29
#define VFUN_IN_BUSY_NS 32
#define VFUN_IN_SPUN_NS 33
#define VFUN_IN_ASLEEP_NS 34
#define VFUN_IN_TIMES 64

/* In a range of a channel of packets: the side of packets (vfun_packet.h), and its ring. */
#define VFUN_PACKETS_SIDE_OFF 4096
#define VFUN_PACKETS_RING_OFF 8192

/* Words of the head pages of a channel of queues, and of packets. */
#define VFUN_QUEUES_PROGRAM_SLEEPERS 0
#define VFUN_QUEUES_PROGRAM_TOKEN0 8
#define VFUN_QUEUES_PROGRAM_TOKEN1 9
#define VFUN_QUEUES_PROGRAM_FREE 64
#define VFUN_QUEUES_HOST_SLEEPS 8
#define VFUN_QUEUES_HOST_LIFE 16
#define VFUN_QUEUES_HOST_RANG 29
#define VFUN_QUEUES_HOST_DONE 32
#define VFUN_QUEUES_HOST_FAILED 33
#define VFUN_QUEUES_HOST_BYTES 34
#define VFUN_QUEUES_HOST_FACTS 40
#define VFUN_QUEUES_HOST_FACTS_WORDS 8
#define VFUN_QUEUES_HOST_FREE 64

/* Buckets of service times, from word VFUN_IN_TIMES on: four to an octave. */
#define VFUN_TIMES 128

/* Offset of a cell's line from the start of a side. */
static inline uint64_t vfun_line_off(uint64_t cell)
{
	return VFUN_PAGE + cell * VFUN_LINE;
}

/* Offset of the first data space from the start of a side. */
static inline uint64_t vfun_spaces_off(uint64_t depth)
{
	return VFUN_PAGE + (depth * VFUN_LINE + VFUN_PAGE - 1) / VFUN_PAGE * VFUN_PAGE;
}

/* Bytes of one side of a channel; 0 beyond the limits. */
static inline uint64_t vfun_side_bytes(uint64_t depth, uint64_t cell_bytes)
{
	if (depth < VFUN_DEPTH_MIN || depth > VFUN_DEPTH_MAX || (depth & (depth - 1)) != 0)
		return 0;
	if (cell_bytes > VFUN_CELL_BYTES_MAX || cell_bytes % VFUN_LINE != 0)
		return 0;
	return (vfun_spaces_off(depth) + depth * cell_bytes + VFUN_PAGE - 1) / VFUN_PAGE * VFUN_PAGE;
}

/* ---- how calls and channels end ------------------------------------- */

enum vfun_wire_status {
	VFUN_WIRE_STATUS_OK = 0,
	VFUN_WIRE_STATUS_BAD_COMMAND = 1,
	VFUN_WIRE_STATUS_BAD_LENGTH = 2,
	VFUN_WIRE_STATUS_BAD_FLAGS = 3,
	VFUN_WIRE_STATUS_DRIVER_ERROR = 4,
	VFUN_WIRE_STATUS_DRIVER_CRASHED = 5,
	VFUN_WIRE_STATUS_DEADLINE = 6,
	VFUN_WIRE_STATUS_SERVICE_LOST = 7,
	VFUN_WIRE_STATUS_RESULT_TOO_LARGE = 8,
	VFUN_WIRE_STATUS_CHANNEL_BROKEN = 9,
	VFUN_WIRE_STATUS_RELEASED = 10
};

enum vfun_break_reason {
	VFUN_BREAK_REASON_NONE = 0,
	VFUN_BREAK_REASON_BAD_SEQUENCE = 1,
	VFUN_BREAK_REASON_CRASH_LOOP = 2,
	VFUN_BREAK_REASON_NO_SERVICE = 3,
	VFUN_BREAK_REASON_RELEASED = 4,
	VFUN_BREAK_REASON_SHUTDOWN = 5,
	VFUN_BREAK_REASON_DEVICE_GONE = 6,
	VFUN_BREAK_REASON_SERVICE_LOST = 7
};

/* ---- refusals ------------------------------------------------------- */

enum vfun_nack_code {
	VFUN_NACK_CODE_MALFORMED = 1,
	VFUN_NACK_CODE_WRONG_PROTOCOL = 2,
	VFUN_NACK_CODE_UNSUPPORTED = 3,
	VFUN_NACK_CODE_UNKNOWN_FUNCTION = 4,
	VFUN_NACK_CODE_WRONG_VERSION = 5,
	VFUN_NACK_CODE_DENIED = 6,
	VFUN_NACK_CODE_BAD_CREDENTIAL = 7,
	VFUN_NACK_CODE_OVER_QUOTA = 8,
	VFUN_NACK_CODE_NO_CAPACITY = 9,
	VFUN_NACK_CODE_DEVICE_BUSY = 10,
	VFUN_NACK_CODE_NO_HARDWARE = 11,
	VFUN_NACK_CODE_BAD_HANDLE = 12,
	VFUN_NACK_CODE_STALE = 13,
	VFUN_NACK_CODE_SERVICE_FAILED = 14,
	VFUN_NACK_CODE_DRAINING = 15,
	VFUN_NACK_CODE_BEYOND_LIMIT = 16,
	VFUN_NACK_CODE_WRONG_STATE = 17,
	VFUN_NACK_CODE_WRONG_SIGNATURE = 18,
	VFUN_NACK_CODE_STARTING = 19
};

struct vfun_nack_body {
	uint32_t code;
	uint8_t software_instead;
	uint8_t reserved;
	uint16_t sentence_len;
	uint8_t sentence[VFUN_SENTENCE_BYTES];
};

/* ---- messages ------------------------------------------------------- */

enum vfun_wire_preference {
	VFUN_WIRE_PREFERENCE_ANY = 0,
	VFUN_WIRE_PREFERENCE_HARDWARE = 1,
	VFUN_WIRE_PREFERENCE_SOFTWARE = 2
};

enum vfun_wait_mode {
	VFUN_WAIT_MODE_HYBRID = 0,
	VFUN_WAIT_MODE_SPIN = 1,
	VFUN_WAIT_MODE_SLEEP = 2
};

enum vfun_location {
	VFUN_LOCATION_SOFTWARE = 1,
	VFUN_LOCATION_GPU = 2,
	VFUN_LOCATION_FPGA = 3,
	VFUN_LOCATION_FPGA_SIMULATED = 4,
	VFUN_LOCATION_MODEL_SIMULATED = 5
};

struct vfun_hello {
	uint16_t version_min;
	uint16_t version_max;
	uint32_t pid;
	uint64_t features;
	uint8_t app[VFUN_NAME_BYTES];
	uint16_t credential_len;
	uint8_t reserved[6];
	uint8_t credential[VFUN_CREDENTIAL_BYTES];
};

struct vfun_hello_ack {
	uint16_t version;
	uint16_t session_line;
	uint32_t client_id;
	uint64_t features;
	uint64_t session;
	uint32_t heartbeat_ms;
	uint32_t app_id;
	uint8_t client[VFUN_NAME_BYTES];
	uint64_t reserved[2];
};

struct vfun_negotiate {
	uint8_t function[VFUN_NAME_BYTES];
	uint32_t version;
	uint8_t preference;
	uint8_t wait;
	uint16_t kind;
	uint32_t deadline_ms;
	uint32_t reserved0;
	uint64_t signature;
	uint8_t shape[VFUN_SHAPE_BYTES];
	uint64_t reserved1[3];
};

struct vfun_negotiate_ack {
	uint64_t grant;
	uint32_t client_id;
	uint32_t app_id;
	uint32_t function_id;
	uint32_t version;
	uint8_t location;
	uint8_t wait;
	uint16_t kind;
	uint32_t deadline_ms;
	uint8_t shape[VFUN_SHAPE_BYTES];
	uint64_t reserved[2];
};

struct vfun_of_grant {
	uint64_t grant;
};

/* `count` vfun_range follow, in the order of the kind. */
struct vfun_activate_ack {
	uint64_t channel;
	uint16_t kind;
	uint16_t count;
	uint16_t vector_out;
	uint16_t vector_in;
	uint8_t shape[VFUN_SHAPE_BYTES];
	uint64_t reserved;
};

struct vfun_stats {
	uint64_t calls;
	uint64_t errors;
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint64_t slept;
	uint64_t rang;
	uint32_t restarts;
	uint32_t pid;
	uint64_t age_ms;
	uint64_t reserved[2];
};

struct vfun_list {
	uint32_t start;
	uint32_t reserved;
};

/* `count` vfun_list_entry follow. */
struct vfun_list_ack {
	uint32_t count;
	uint32_t total;
};

struct vfun_list_entry {
	uint8_t function[VFUN_NAME_BYTES];
	uint32_t function_id;
	uint32_t version;
	uint32_t max_args;
	uint32_t max_result;
	uint32_t locations;
	uint32_t deadline_ms;
	uint64_t reserved;
};

struct vfun_describe {
	uint8_t function[VFUN_NAME_BYTES];
};

/* `text_len` bytes of text follow. */
struct vfun_describe_ack {
	uint32_t function_id;
	uint32_t version;
	uint64_t signature;
	uint32_t max_args;
	uint32_t max_result;
	uint32_t text_len;
	uint32_t reserved0;
	uint64_t reserved1;
};

/* A function's own error codes, from the `start`th on. */
struct vfun_codes {
	uint8_t function[VFUN_NAME_BYTES];
	uint32_t start;
	uint32_t reserved;
};

/* Follows a vfun_list_ack `count` times. */
struct vfun_code_entry {
	int32_t code;
	uint32_t reserved;
	uint8_t meaning[VFUN_MEANING_BYTES];
};

struct vfun_empty {
	uint64_t reserved;
};

/* Of vfun_buffer_get: the host's memory behind it is contiguous, too. */
#define VFUN_BUFFER_CONTIGUOUS 1
/* Of vfun_buffer_get: it is a table of pages of the VM's memory, which the kernel module alone writes. */
#define VFUN_BUFFER_PAGES 2

#define VFUN_PAGES_MAGIC UINT64_C(0x3153454741504656)
/* Where a table's entries begin, bytes, and the bytes of one. */
#define VFUN_PAGES_ENTRIES 4096
#define VFUN_PAGES_ENTRY_BYTES 8
/* An entry: there is a page, the program may write it, and below that the page's number. */
#define VFUN_PAGES_ENTRY_THERE (UINT64_C(1) << 63)
#define VFUN_PAGES_ENTRY_WRITE (UINT64_C(1) << 62)
#define VFUN_PAGES_NO_PAGE UINT64_C(0xffffffffffffffff)

/*
 * Head of a table: `low` and `high` are numbers of pages of the module's own, below 4 GiB and from there on,
 * that begin with `secret`; VFUN_PAGES_NO_PAGE if there is none. The magic is written last.
 */
struct vfun_pages_head {
	uint64_t magic;
	uint64_t low;
	uint64_t high;
	uint8_t secret[16];
	uint8_t reserved[24];
};

struct vfun_buffer_get {
	uint64_t grant;
	uint64_t bytes;
	uint64_t align;
	uint32_t flags;
	uint32_t reserved;
};

struct vfun_buffer_ack {
	uint64_t buffer;
	struct vfun_range range;
};

struct vfun_buffer_put {
	uint64_t buffer;
};

/* A kernel module has one of its VM's further windows now (1), or has not (0). */
struct vfun_window_here {
	uint64_t key[2];
	uint16_t here;
	uint8_t reserved[6];
};

/* Entries of a list that fit one answer. */
#define VFUN_LIST_ENTRIES 41
/* Meanings of codes that fit one answer. */
#define VFUN_CODE_ENTRIES 15

/*
 * Every message, for code made by macro:
 * X(name, number, struct of the request, struct of the ack, first version, features needed)
 */
#define VFUN_MESSAGES(X) \
	X(HELLO, 1, vfun_hello, vfun_hello_ack, 2, 0) \
	X(NEGOTIATE, 2, vfun_negotiate, vfun_negotiate_ack, 2, 0) \
	X(ACTIVATE, 3, vfun_of_grant, vfun_activate_ack, 2, 0) \
	X(RELEASE, 4, vfun_of_grant, vfun_stats, 2, 0) \
	X(LIST, 5, vfun_list, vfun_list_ack, 2, 0) \
	X(STATS, 6, vfun_of_grant, vfun_stats, 2, 0) \
	X(KEEP_ALIVE, 7, vfun_empty, vfun_empty, 2, 0) \
	X(GOODBYE, 8, vfun_empty, vfun_empty, 2, 0) \
	X(RESET, 9, vfun_empty, vfun_empty, 2, VFUN_FEATURE_MODULE) \
	X(DESCRIBE, 10, vfun_describe, vfun_describe_ack, 2, VFUN_FEATURE_SIGNATURES) \
	X(CODES, 11, vfun_codes, vfun_list_ack, 2, 0) \
	X(WINDOW, 12, vfun_window_here, vfun_empty, 2, VFUN_FEATURE_WINDOWS) \
	X(BUFFER_GET, 16, vfun_buffer_get, vfun_buffer_ack, 2, VFUN_FEATURE_BUFFERS) \
	X(BUFFER_PUT, 17, vfun_buffer_put, vfun_empty, 2, VFUN_FEATURE_BUFFERS)

#define VFUN_KIND_ENUMERATOR_(name, number, request, ack, since, needs) \
	VFUN_KIND_##name = number,
/* VFUN_KIND_HELLO and so on: message numbers. */
enum vfun_kind {
	VFUN_MESSAGES(VFUN_KIND_ENUMERATOR_)
	VFUN_KIND_NONE_ = 0
};

/* ---- the device (QEMU's ivshmem) ------------------------------------- */

#define VFUN_PCI_VENDOR 0x1af4
#define VFUN_PCI_DEVICE 0x1110
/* Registers of BAR 0. */
#define VFUN_REG_IVPOSITION 8
#define VFUN_REG_DOORBELL 12
/* Write `peer << 16 | vector` to the doorbell; the host is always peer 0. */
#define VFUN_HOST_PEER 0
#define VFUN_FIRST_VM_PEER 1

/* ---- attaching over a UNIX socket ----------------------------------- */

struct vfun_attach {
	uint64_t magic;
	uint8_t client[VFUN_NAME_BYTES];
	uint16_t credential_len;
	uint8_t remote;
	uint8_t reserved[5];
	uint8_t credential[VFUN_CREDENTIAL_BYTES];
};

struct vfun_attach_ack {
	uint64_t magic;
	uint32_t code;
	uint16_t sentence_len;
	uint16_t vectors;
	uint64_t window_bytes;
	uint8_t sentence[VFUN_SENTENCE_BYTES];
};

/* ---- a port's memory for a switch ----------------------------------- */

#define VFUN_HANDOVER_ASK_MAGIC UINT64_C(0x334b534154524f50)
#define VFUN_HANDOVER_WORD_MAGIC UINT64_C(0x3344525754524f50)
#define VFUN_HANDOVER_NAME_BYTES 64
#define VFUN_HANDOVER_SENTENCE_BYTES 184

/* From the driver. */
#define VFUN_PORT_ASK_WANT 1
#define VFUN_PORT_ASK_LET_GO 2
#define VFUN_PORT_ASK_GOODBYE 3
#define VFUN_PORT_ASK_ALLOWED 4		/* handle: a link's number; epoch */
#define VFUN_PORT_ASK_FORCED 5
#define VFUN_PORT_ASK_UNLINKED 6

#define VFUN_PORT_KNOWS_LINKS 1		/* in knows, with WANT */

struct vfun_port_ask {
	uint64_t magic;
	uint32_t kind;
	uint32_t knows;
	uint64_t handle;
	uint64_t epoch;
	uint8_t name[VFUN_HANDOVER_NAME_BYTES];
};

/* From the manager. */
#define VFUN_PORT_WORD_WELCOME 1
#define VFUN_PORT_WORD_REFUSED 2
#define VFUN_PORT_WORD_MEMORY 3
#define VFUN_PORT_WORD_DROP 4
#define VFUN_PORT_WORD_LINK 5		/* handle: a link's number; sentence: the other port's name */
#define VFUN_PORT_WORD_ALLOW 6
#define VFUN_PORT_WORD_FORCE 7
#define VFUN_PORT_WORD_UNLINK 8

struct vfun_port_word {
	uint64_t magic;
	uint32_t kind;
	uint32_t code;
	uint64_t handle;
	uint64_t mine;
	uint64_t theirs;
	uint64_t ring;
	uint64_t news;
	uint64_t epoch;
	uint8_t sentence[VFUN_HANDOVER_SENTENCE_BYTES];
};

/* ---- frames (TCP and vsock) ----------------------------------------- */

#define VFUN_FRAME_ATTACH 0x100
#define VFUN_FRAME_CALL 0x101
#define VFUN_FRAME_ACK 0x200
#define VFUN_FRAME_NACK 0x201

struct vfun_frame_head {
	uint32_t body_bytes;
	uint16_t kind;
	uint16_t reserved;
	uint64_t id;
};

struct vfun_call_head {
	uint64_t grant;
	uint8_t command;
	uint8_t reserved[7];
};

struct vfun_call_answer {
	uint32_t status;
	uint32_t broken;
};

#ifdef __cplusplus
}
#endif

#endif
