// libvfun: call functions that run on the VM's host. SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Every function returns a vfun_status; after any but VFUN_STATUS_OK,
// vfun_last_error() has a sentence. A handle belongs to the caller from the
// function that gives it until the one that ends it; those say so. Sessions,
// functions and buffers may be used by any number of threads at once, pending calls and
// slots by one at a time. No function may be given a handle that was ended.
//
// Order: calls of a function may be computed and answered in any order, also
// those of one thread. A program that needs an order waits for one call before
// it starts the next.
//
// Time: every call has its grant's deadline, after which the host ends it. A
// wait's own limit (vfun_wait_for, vfun_call_for, vfun_wait_any) ends only the
// wait. Waiting for a call, like every function that asks the manager
// (vfun_connect, vfun_open, vfun_release, vfun_close, vfun_buffer_get, ...), may block; vfun_submit,
// vfun_poll, vfun_peek and vfun_arm do not.
//
// Signals: no function may be called in a signal handler, but vfun_version; have
// the handler write to a descriptor of the program's own.
//
// The end of a function. vfun_release and vfun_close let go of the window's memory
// before they give it back. Pending calls and slots may outlive both and must
// still be ended: a call that was answered has its results, every other one, and
// every slot that is submitted, ends with VFUN_STATUS_RELEASED. A slot's bytes stay
// where they are until the slot is ended; they are this process's own memory then,
// and nothing that is written there reaches the host or another function. (What
// one thread writes there at the very moment of another's release may be lost.)
//
// Buffers end with their function or session, too. A buffer's bytes stay where they are
// until vfun_buffer_put; they are zeros of this process's own then.
//
// Fork. Handles belong to the process that opened them. In a child of fork() every
// function that would use one returns VFUN_STATUS_FORKED and sends nothing; those
// that end a handle free its memory there and leave the parent's alone. Only
// vfun_info, vfun_describe and vfun_granted still tell what was. A slot's and a buffer's
// bytes are not mapped in a child: touching them ends it with SIGSEGV. A child connects by
// itself, also beside its parent's handles. exec() after fork() is always fine; a
// child made by the system calls clone or vfork themselves is not told apart.
//
// Made by cbindgen from guest/client/src/capi; do not edit.


#ifndef VFUN_H
#define VFUN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Room for a name and its terminating zero.
#define VFUN_NAME_ROOM 65

// Room for a transport's name and its terminating zero.
#define VFUN_TRANSPORT_ROOM 16

// cell_bytes of a function whose arguments and results have at most 48 bytes.
#define VFUN_CELL_BYTES_NONE UINT32_MAX

// Room for the meaning of an error code, its ending zero included.
#define VFUN_MEANING_ROOM 257

// Room for a port's name and its terminating zero.
#define VFUN_PORT_ROOM 16

// A direct link's way to another VM.
#define VFUN_LINK_WAY_OUT 0

// A direct link's way from another VM.
#define VFUN_LINK_WAY_IN 1

// As a limit in nanoseconds: wait without one.
#define VFUN_NO_LIMIT UINT64_MAX

// How a function of this library ended. The numbers do not change; later
// versions may add some.
typedef enum vfun_status {
  // It did what was asked.
  VFUN_STATUS_OK = 0,
  // An argument is null, not UTF-8, or of an impossible size.
  VFUN_STATUS_BAD_ARGUMENT = 1,
  // A defect of the library; the sentence says where.
  VFUN_STATUS_PANIC = 2,
  // The endpoint's text is none of the known forms.
  VFUN_STATUS_BAD_ENDPOINT = 3,
  // A name is not possible.
  VFUN_STATUS_BAD_NAME = 4,
  // An option is beyond its limit.
  VFUN_STATUS_BAD_OPTION = 5,
  // No host was found; the sentence lists what was tried.
  VFUN_STATUS_NO_HOST = 6,
  // The manager's socket could not be reached.
  VFUN_STATUS_HOST_SOCKET = 7,
  // No such device in this machine.
  VFUN_STATUS_NO_DEVICE = 8,
  // The device cannot be opened or mapped.
  VFUN_STATUS_DEVICE = 9,
  // Several windows: one must be named.
  VFUN_STATUS_SEVERAL_WINDOWS = 10,
  // What was mapped is not a window.
  VFUN_STATUS_NOT_A_WINDOW = 11,
  // A part of the window could not be mapped.
  VFUN_STATUS_MAP = 12,
  // The gateway could not be reached.
  VFUN_STATUS_GATEWAY = 13,
  // The connection to the gateway ended.
  VFUN_STATUS_CONNECTION_LOST = 14,
  // The manager refused; `vfun_last_code` has its code.
  VFUN_STATUS_REFUSED = 15,
  // The manager is not running.
  VFUN_STATUS_MANAGER_GONE = 16,
  // The manager did not answer in time.
  VFUN_STATUS_CONTROL_TIMEOUT = 17,
  // All control cells stayed in use.
  VFUN_STATUS_CONTROL_BUSY = 18,
  // The host sent bytes that make no sense.
  VFUN_STATUS_HOST_NONSENSE = 19,
  // The window was made again, empty: connect again.
  VFUN_STATUS_STALE_GENERATION = 20,
  // Every cell of the channel is in use.
  VFUN_STATUS_FULL = 21,
  // More arguments than a cell takes.
  VFUN_STATUS_ARGUMENTS_TOO_LONG = 22,
  // The results do not fit the buffer; their length is given.
  VFUN_STATUS_BUFFER_TOO_SMALL = 23,
  // The function returned an error; `vfun_last_code` has its code.
  VFUN_STATUS_DRIVER = 24,
  // The function crashed during this call.
  VFUN_STATUS_DRIVER_CRASHED = 25,
  // The call ran past its deadline.
  VFUN_STATUS_DEADLINE = 26,
  // The service was ended for another call's sake.
  VFUN_STATUS_SERVICE_LOST = 27,
  // The function's results do not fit the cell.
  VFUN_STATUS_RESULT_TOO_LARGE = 28,
  // The service refused the cell itself.
  VFUN_STATUS_BAD_CALL = 29,
  // The channel is broken.
  VFUN_STATUS_BROKEN = 30,
  // The grant was released.
  VFUN_STATUS_RELEASED = 31,
  // The caller's own time limit passed.
  VFUN_STATUS_TIMED_OUT = 32,
  // No answer will come: service and manager are both gone.
  VFUN_STATUS_UNANSWERED = 33,
  // The channel or transport has no such operation.
  VFUN_STATUS_UNSUPPORTED = 34,
  // The window's device was unplugged: connect again.
  VFUN_STATUS_DEVICE_GONE = 35,
  // A driver holds the device: use the kernel module's /dev/vfunN.
  VFUN_STATUS_DEVICE_HELD = 36,
  // The guest's kernel module is not loaded, or found no window.
  VFUN_STATUS_NO_MODULE = 37,
  // Kernel module and library are of different releases.
  VFUN_STATUS_MODULE_VERSION = 38,
  // The host did not take a submitted module; `vfun_last_code` has a
  // `vfun_submit_code`.
  VFUN_STATUS_NOT_ACCEPTED = 39,
  // The session was closed.
  VFUN_STATUS_CLOSED = 40,
  // The handle is of the process that this one was forked from: connect in
  // the child itself.
  VFUN_STATUS_FORKED = 45,
} vfun_status;

// How calls wait for their answers, and their services for calls.
typedef enum vfun_wait_policy {
  // Spin while that is likely to pay, then sleep.
  VFUN_WAIT_POLICY_HYBRID = 0,
  // Never sleep: lowest latency, one processor for each waiting thread.
  VFUN_WAIT_POLICY_SPIN = 1,
  // Sleep after one look: least processor time.
  VFUN_WAIT_POLICY_SLEEP = 2,
} vfun_wait_policy;

// Where a function should run.
typedef enum vfun_preference {
  // Wherever there is room, hardware first.
  VFUN_PREFERENCE_ANY = 0,
  // Hardware or a refusal.
  VFUN_PREFERENCE_HARDWARE = 1,
  // In software, on the host's processors.
  VFUN_PREFERENCE_SOFTWARE = 2,
} vfun_preference;

// Why a host did not take a module: vfun_last_code after
// VFUN_STATUS_NOT_ACCEPTED.
typedef enum vfun_submit_code {
  // The request makes no sense.
  VFUN_SUBMIT_CODE_MALFORMED = 1,
  // The module is not one that is served; the sentence has the compiler's words.
  VFUN_SUBMIT_CODE_BAD_MODULE = 2,
  // Policy does not let this client or app submit.
  VFUN_SUBMIT_CODE_DENIED = 3,
  // The client has as many modules, or bytes of them, as it may.
  VFUN_SUBMIT_CODE_OVER_QUOTA = 4,
  // The module, its memory or its deadline is beyond a limit.
  VFUN_SUBMIT_CODE_BEYOND_LIMIT = 5,
  // Too many submissions within a minute.
  VFUN_SUBMIT_CODE_TOO_FAST = 6,
  // Another module has this name.
  VFUN_SUBMIT_CODE_NAME_TAKEN = 7,
  // Nothing of this name was submitted.
  VFUN_SUBMIT_CODE_UNKNOWN = 8,
  // The host could not keep it.
  VFUN_SUBMIT_CODE_HOST_TROUBLE = 9,
} vfun_submit_code;

// Memory that this app and the services of its host both write. Any number of
// threads may use it at once.
typedef struct vfun_buffer vfun_buffer;

// An active function. Any number of threads may use it at once.
typedef struct vfun_function vfun_function;

// A call under way. One thread at a time may use it.
typedef struct vfun_pending vfun_pending;

// A port of the VM that this program has. Any number of threads may use it at once.
typedef struct vfun_port vfun_port;

// The memory of a direct link of a port, one way.
typedef struct vfun_port_link vfun_port_link;

// An open session. Any number of threads may use it at once.
typedef struct vfun_session vfun_session;

// A cell lent out, to write arguments where the service reads them. One
// thread at a time may use it.
typedef struct vfun_slot vfun_slot;

// Waits for any of several calls, also by a descriptor. One thread at a time
// may use it.
typedef struct vfun_waiter vfun_waiter;

// Who connects, and how. Set all to zero, then size to
// sizeof(struct vfun_connect_options), then what is to differ.
typedef struct vfun_connect_options {
  // sizeof(struct vfun_connect_options), for later versions.
  size_t size;
  // The app's name; null: "app".
  const char *app;
  // `auto`, `host[:SOCKET]`, `module[:/dev/vfunN]`, `ivshmem[:PCIADDRESS]`,
  // `pmem[:/dev/daxN.M]`, `dir:FOLDER`, `tcp:HOST:PORT` or `tls:HOST:PORT` (with
  // VFUN_TLS_CA); null: `auto`.
  const char *endpoint;
  // The client to act for; null where the endpoint settles it.
  const char *client;
  // What proves the right to; null for none.
  const void *credential;
  // Bytes of credential, at most 64.
  size_t credential_len;
  // How calls wait: a vfun_wait_policy.
  uint32_t wait;
  // 0; anything else is refused.
  uint32_t reserved;
} vfun_connect_options;

// What the host said of a session.
typedef struct vfun_session_info {
  // Name of the client, UTF-8, zero-terminated.
  char client[VFUN_NAME_ROOM];
  // The path in use: host, ivshmem or tcp.
  char transport[VFUN_TRANSPORT_ROOM];
  // 1 if sleepers are woken by a doorbell.
  uint8_t doorbell;
  // Number of the client on its host.
  uint32_t client_id;
  // Number of this session among the client's apps.
  uint32_t app_id;
  // Protocol version in force.
  uint32_t protocol;
  // Features that both the library and the host offered, a bit each.
  uint64_t features;
  // Bytes of the window; 0 over TCP.
  uint64_t window_bytes;
  // Goes up each time the manager makes the window again, empty.
  uint64_t generation;
} vfun_session_info;

// A function on offer.
typedef struct vfun_offer {
  // Its name, UTF-8, zero-terminated.
  char name[VFUN_NAME_ROOM];
  // Number of the function on its host.
  uint32_t function_id;
  // major << 16 | minor.
  uint32_t version;
  // Longest arguments of a call, bytes.
  uint32_t max_args;
  // Longest results of a call, bytes.
  uint32_t max_result;
  // Where it can run: bit 1 software, 2 GPU, 3 FPGA, 4 simulated FPGA.
  uint32_t locations;
  // Deadline of its calls, ms.
  uint64_t deadline_ms;
} vfun_offer;

// What a function takes and gives.
typedef struct vfun_description {
  // Number of the function on its host.
  uint32_t function_id;
  // major << 16 | minor.
  uint32_t version;
  // Longest arguments of a call, bytes.
  uint32_t max_args;
  // Longest results of a call, bytes.
  uint32_t max_result;
  // Fingerprint of the signature; 0 if the function has none.
  uint64_t signature;
} vfun_description;

// What one of a function's own error codes means.
typedef struct vfun_code {
  // The code, as vfun_last_code gives it.
  int32_t code;
  // Its meaning: UTF-8, ended by a zero.
  char meaning[VFUN_MEANING_ROOM];
} vfun_code;

// What is wanted of a function. Set all to zero, then size to
// sizeof(struct vfun_function_options), then what is to differ.
typedef struct vfun_function_options {
  // sizeof(struct vfun_function_options), for later versions.
  size_t size;
  // major << 16 | minor; 0 for any.
  uint32_t version;
  // One of enum vfun_preference.
  uint32_t preference;
  // Calls that can be under way at once, a power of two; 0 for the default.
  uint32_t depth;
  // Most bytes of arguments and of results of a call; 0 for the default
  // (4096, or what the function's signature needs), VFUN_CELL_BYTES_NONE for
  // at most 48.
  uint32_t cell_bytes;
  // How long a call may take, ms; 0 for the function's own deadline.
  uint32_t deadline_ms;
  // 0; anything else is refused.
  uint32_t reserved;
  // Fingerprint of the signature that the program was made for, as `vfun
  // bindgen` writes it: a function with another one is refused. 0: any.
  uint64_t signature;
} vfun_function_options;

// A grant as the host recorded it.
typedef struct vfun_grant_info {
  // Its handle, for the host's own tools.
  uint64_t grant;
  // Number of the function on its host.
  uint32_t function_id;
  // major << 16 | minor.
  uint32_t version;
  // Where it runs: 1 software, 2 GPU, 3 FPGA, 4 simulated FPGA.
  uint32_t location;
  // Calls that can be under way at once.
  uint32_t depth;
  // Bytes of arguments and of results a call can have beyond 48.
  uint32_t cell_bytes;
  // How long a call may take, ms.
  uint64_t deadline_ms;
} vfun_grant_info;

// What a grant did, by the host's account.
typedef struct vfun_stats_info {
  // Calls that were answered, with errors too.
  uint64_t calls;
  // Of these with an error.
  uint64_t errors;
  // Bytes of arguments of all these calls.
  uint64_t bytes_in;
  // Bytes of results of all these calls.
  uint64_t bytes_out;
  // Times the service slept.
  uint64_t slept;
  // Times the service rang.
  uint64_t rang;
  // Times the service was started again.
  uint32_t restarts;
  // The service's process id on the host, 0 if none.
  uint32_t pid;
  // Age of the grant, ms.
  uint64_t age_ms;
} vfun_stats_info;

// What is wanted of a buffer. Set all to zero, then size to
// sizeof(struct vfun_buffer_options), then what is to differ.
typedef struct vfun_buffer_options {
  // sizeof(struct vfun_buffer_options), for later versions.
  size_t size;
  // Begins at a multiple of so many bytes of the window: a power of two from 4096 to
  // 2097152; 0 for 4096.
  size_t align;
  // The function that it belongs to, and ends with; null: it is the session's.
  const struct vfun_function *function;
  // 1: in one piece in the host's memory too, as a device without an address
  // table of its own needs it. The host refuses one that is longer than a page of the
  // memory behind the window: 4 KiB, or 2 MiB where that is of huge pages.
  uint32_t contiguous;
  // 0; anything else is refused.
  uint32_t reserved;
} vfun_buffer_options;

// What a buffer is.
typedef struct vfun_buffer_place {
  // What names it to the host: pass it in a call's arguments.
  uint64_t handle;
  // Where it lies in this process, aligned to a page. The host may write there at
  // any moment: read once, check, use. It stays mapped until vfun_buffer_put.
  void *at;
  // Bytes of it, as asked for.
  size_t bytes;
} vfun_buffer_place;

// A port of this VM.
typedef struct vfun_port_info {
  // Its name, ended by a zero: that of its interface, if the kernel module makes it one.
  char name[VFUN_PORT_ROOM];
  // Bytes of each of its two rings.
  uint32_t ring_bytes;
  // Its place in the VM's table of ports.
  uint16_t number;
  // Bytes of the longest packet behind an Ethernet header.
  uint16_t mtu;
  // The address that it has on the host.
  uint8_t mac[6];
  // 0.
  uint8_t reserved[2];
} vfun_port_info;

// Where a port's two sides of packets lie in this process: a header page each, and a ring
// behind it, for the functions of vfun_packet.h. They stay mapped until vfun_port_close. To begin,
// store the bytes of the longest frame that this program takes in the word VFUN_PACKET_FRAME of
// mine, then VFUN_PACKET_UP in VFUN_PACKET_STATE (with release), and call vfun_port_ring. The
// program looks for frames by itself: nothing wakes it.
typedef struct vfun_port_sides {
  // The side that this program writes.
  void *mine;
  // The side that the host writes, at any moment: read once, check, use.
  const void *theirs;
} vfun_port_sides;

// A WebAssembly module to be submitted. Set all to zero, then size to
// sizeof(struct vfun_module), module and module_len, then what is to differ.
typedef struct vfun_module {
  // sizeof(struct vfun_module), for later versions.
  size_t size;
  // The bytes of a .wasm file.
  const void *module;
  // Bytes of module, at most 8 MiB.
  size_t module_len;
  // Its name; null for the one in the module. The function is my.NAME.
  const char *name;
  // What its arguments and results are, such as "(n: u64) -> u64"; null for none.
  const char *signature;
  // Most memory of each channel's instance, bytes; 0 for the usual.
  uint64_t memory_bytes;
  // How long a call may take, ms; 0 for the usual.
  uint32_t deadline_ms;
  // Not 0: takes the place of another module of this name.
  uint32_t replace;
} vfun_module;

// A function that this client submitted.
typedef struct vfun_own_function {
  // Its name, such as my.double.
  char name[VFUN_NAME_ROOM];
  // SHA-256 of its module.
  uint8_t sha256[32];
  // major << 16 | minor.
  uint32_t version;
  // Bytes of its module.
  uint32_t module_bytes;
  // Most bytes of arguments that the function takes.
  uint32_t max_args;
  // Most bytes of results that the function gives.
  uint32_t max_result;
  // Most memory of each channel's instance, bytes.
  uint64_t memory_bytes;
  // Fingerprint of its signature; 0 if it has none.
  uint64_t signature;
  // Deadline of its calls, ms.
  uint64_t deadline_ms;
} vfun_own_function;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What went wrong last in this thread, in a sentence; empty if nothing did.
// Valid until this thread's next call of the library. Never null.
const char *vfun_last_error(void);

// What to do about it, in a sentence. As vfun_last_error.
const char *vfun_last_advice(void);

// The function's code after VFUN_STATUS_DRIVER (positive: its own; negative: a
// VFUN_DRIVER_... of vfun_driver.h), the manager's after VFUN_STATUS_REFUSED, a
// vfun_submit_code after VFUN_STATUS_NOT_ACCEPTED; else 0.
int32_t vfun_last_code(void);

// The library's version, such as "0.1.0". Never null.
const char *vfun_version(void);

// Opens a session. options may be null: the app "app", an endpoint found by
// itself. *session is the caller's, to be ended by vfun_close.
//
// Requires:
// options is null or valid; session points to room for a pointer.
enum vfun_status vfun_connect(const struct vfun_connect_options *options,
                              struct vfun_session **session);

// What the host said of a session.
//
// Requires:
// session is open; info points to room for a struct vfun_session_info.
enum vfun_status vfun_info(const struct vfun_session *session,
                           struct vfun_session_info *info);

// One line that names the path in use, ended by a zero and cut to room bytes.
// *len is its whole length without the zero; len may be null.
//
// Requires:
// session is open; line points to room bytes.
enum vfun_status vfun_describe(const struct vfun_session *session,
                               char *line,
                               size_t room,
                               size_t *len);

// The functions on offer: the first room of them into offers, and how many
// there are in all into *count. offers may be null if room is 0.
//
// Requires:
// session is open; offers points to room structs; count points to a size_t.
enum vfun_status vfun_list(const struct vfun_session *session,
                           struct vfun_offer *offers,
                           size_t room,
                           size_t *count);

// What a function takes and gives: *description, and its signature's text
// into text, ended by a zero and cut to room bytes (2049 are always enough).
// *len is its whole length without the zero, 0 if it has none; text may be
// null if room is 0, and len may be null.
//
// Requires:
// session is open; name is a string; description points to room for a struct
// vfun_description; text points to room bytes.
enum vfun_status vfun_describe_function(const struct vfun_session *session,
                                        const char *name,
                                        struct vfun_description *description,
                                        char *text,
                                        size_t room,
                                        size_t *len);

// What a function's own error codes mean, from the lowest code up: the first room of
// them into codes, and how many there are in all into *count. codes may be null if room
// is 0. A function without such codes has none, which is no error; one that is not
// offered gives VFUN_STATUS_REFUSED.
//
// Requires:
// session is open; name is a string; codes points to room structs; count points to a
// size_t.
enum vfun_status vfun_function_codes(const struct vfun_session *session,
                                     const char *name,
                                     struct vfun_code *codes,
                                     size_t room,
                                     size_t *count);

// Ends a session and gives back everything it was granted. The handle is
// gone, whatever the status; functions opened from it must still be released,
// which then only frees their handles.
//
// Requires:
// session came from vfun_connect and is not used again.
enum vfun_status vfun_close(struct vfun_session *session);

// Negotiates a function and activates it. options may be null for the
// defaults. *function is the caller's, to be ended by vfun_release.
//
// Requires:
// session is open; name is a string; options is null or valid; function
// points to room for a pointer.
enum vfun_status vfun_open(const struct vfun_session *session,
                           const char *name,
                           const struct vfun_function_options *options,
                           struct vfun_function **function);

// Opens a function that the program has itself as well: *function is null,
// and the status VFUN_STATUS_OK, where the host offers this client none of
// that name. version is major << 16 | minor, signature its text as a manifest
// has it; those of options (which may be null) are not looked at.
//
// Requires:
// session is open; name and signature are strings; options is null or valid;
// function points to room for a pointer.
enum vfun_status vfun_offered(const struct vfun_session *session,
                              const char *name,
                              uint32_t version,
                              const char *signature,
                              const struct vfun_function_options *options,
                              struct vfun_function **function);

// The grant as the host recorded it.
//
// Requires:
// function is open; info points to room for a struct vfun_grant_info.
enum vfun_status vfun_granted(const struct vfun_function *function,
                              struct vfun_grant_info *info);

// Calls a function and waits for its results: at most room bytes into
// results, their length into *result_len (which may be null). If they do not
// fit, the status is VFUN_STATUS_BUFFER_TOO_SMALL and *result_len says what
// would; the call was made.
//
// Requires:
// function is open; args points to args_len bytes, results to room bytes.
enum vfun_status vfun_call(const struct vfun_function *function,
                           const void *args,
                           size_t args_len,
                           void *results,
                           size_t room,
                           size_t *result_len);

// As vfun_call, but waits at most timeout_ns in all, for a free cell too
// (VFUN_NO_LIMIT: no limit): VFUN_STATUS_TIMED_OUT after it. A call that was begun
// goes on then, and nobody gets its results; where that matters, use vfun_submit
// and vfun_wait_for.
//
// Requires:
// As vfun_call.
enum vfun_status vfun_call_for(const struct vfun_function *function,
                               uint64_t timeout_ns,
                               const void *args,
                               size_t args_len,
                               void *results,
                               size_t room,
                               size_t *result_len);

// Clears what the function keeps between calls of this channel.
//
// Requires:
// function is open.
enum vfun_status vfun_rst(const struct vfun_function *function);

// What the grant did so far. Asks the manager.
//
// Requires:
// function is open; stats points to room for a struct vfun_stats_info.
enum vfun_status vfun_stats(const struct vfun_function *function,
                            struct vfun_stats_info *stats);

// Gives a function back; *stats (which may be null) says what it did: nothing
// but zeros if vfun_close has given it back already, which is no error. The
// handle is gone, whatever the status. Pending calls and borrowed cells of it
// must still be ended, with VFUN_STATUS_RELEASED where they were not answered.
//
// Requires:
// function came from vfun_open and is not used again; stats is null or points
// to room for a struct vfun_stats_info.
enum vfun_status vfun_release(struct vfun_function *function,
                              struct vfun_stats_info *stats);

// Starts a call and returns at once; VFUN_STATUS_FULL if every cell is in
// use. *pending is the caller's, to be ended by vfun_wait or vfun_abandon.
//
// Requires:
// function is open; args points to args_len bytes; pending to room for a pointer.
enum vfun_status vfun_submit(const struct vfun_function *function,
                             const void *args,
                             size_t args_len,
                             struct vfun_pending **pending);

// Whether a call is answered, so that waiting ends at once.
//
// Requires:
// pending is under way; done points to a bool.
enum vfun_status vfun_poll(const struct vfun_pending *pending,
                           bool *done);

// Waits at most timeout_ms until a call is answered; VFUN_STATUS_TIMED_OUT if
// it is not. The results stay for vfun_wait.
//
// Requires:
// pending is under way.
enum vfun_status vfun_ready_within(const struct vfun_pending *pending,
                                   uint32_t timeout_ms);

// Waits for a call's results, as vfun_call does. The handle is gone, whatever
// the status.
//
// Requires:
// pending is not used again; results points to room bytes.
enum vfun_status vfun_wait(struct vfun_pending *pending,
                           void *results,
                           size_t room,
                           size_t *result_len);

// As vfun_wait, but waits at most timeout_ns (VFUN_NO_LIMIT: no limit). After
// VFUN_STATUS_TIMED_OUT the call goes on and the handle stays the caller's: to be
// waited for again, or abandoned. After any other status it is gone.
//
// Requires:
// pending is under way, and not used again after a status other than
// VFUN_STATUS_TIMED_OUT; results points to room bytes.
enum vfun_status vfun_wait_for(struct vfun_pending *pending,
                               uint64_t timeout_ns,
                               void *results,
                               size_t room,
                               size_t *result_len);

// The results of an answered call where they lie: *results and their *len, which
// tells the room that vfun_wait needs. They stay until the handle is ended, by
// vfun_wait or vfun_abandon. VFUN_STATUS_TIMED_OUT if the call is not answered
// yet; a call that failed gives the status that vfun_wait would.
//
// Results beyond 48 bytes lie in memory that the host shares and may change at
// any time: copy what must not change, check the copy, use the copy.
//
// Requires:
// pending is under way; results and len point to room for what they get.
enum vfun_status vfun_peek(struct vfun_pending *pending,
                           const void **results,
                           size_t *len);

// Ends a handle without waiting: the call goes on, its results are dropped.
//
// Requires:
// pending is not used again.
enum vfun_status vfun_abandon(struct vfun_pending *pending);

// Lends a cell out: *bytes points to *room bytes to write arguments into,
// until the slot is ended, also if its function is released before. *slot is the
// caller's, to be ended by vfun_submit_borrowed or vfun_give_back. VFUN_STATUS_FULL if every cell is in use.
//
// Requires:
// function is open; slot, bytes and room point to room for what they get.
enum vfun_status vfun_borrow(const struct vfun_function *function,
                             struct vfun_slot **slot,
                             void **bytes,
                             size_t *room);

// Starts the call with the first len bytes as its arguments. The slot is
// gone, whatever the status. *pending as for vfun_submit.
//
// Requires:
// slot is not used again; pending points to room for a pointer.
enum vfun_status vfun_submit_borrowed(struct vfun_slot *slot,
                                      size_t len,
                                      struct vfun_pending **pending);

// Gives a borrowed cell back unused.
//
// Requires:
// slot is not used again.
enum vfun_status vfun_give_back(struct vfun_slot *slot);

// Asks for bytes of memory that this app and the host both write, full of zeros.
// options may be null: the session's, aligned to a page. *place says where it is; place may
// be null. *buffer is the caller's, to be ended by vfun_buffer_put, also after its
// function was released or its session closed: its bytes are zeros of this process's own
// then. VFUN_STATUS_BAD_OPTION for a size or alignment that cannot be, VFUN_STATUS_REFUSED
// with what the host says (over quota, no room), VFUN_STATUS_UNSUPPORTED where the host is
// too old and over TCP.
//
// Requires:
// session is open, and so is options->function, which is of this session; buffer points to
// room for a pointer, place is null or points to room for a struct vfun_buffer_place.
enum vfun_status vfun_buffer_get(const struct vfun_session *session,
                                 size_t bytes,
                                 const struct vfun_buffer_options *options,
                                 struct vfun_buffer **buffer,
                                 struct vfun_buffer_place *place);

// Copies len bytes into a buffer, from offset on. VFUN_STATUS_BAD_OPTION if they do not
// lie inside: nothing was written.
//
// Requires:
// buffer was not ended; from points to len bytes.
enum vfun_status vfun_buffer_write(const struct vfun_buffer *buffer,
                                   size_t offset,
                                   const void *from,
                                   size_t len);

// Copies len bytes out of a buffer, from offset on. As vfun_buffer_write.
//
// Requires:
// buffer was not ended; to points to len bytes.
enum vfun_status vfun_buffer_read(const struct vfun_buffer *buffer,
                                  size_t offset,
                                  void *to,
                                  size_t len);

// Whether a buffer is still shared with the host, as far as this process knows; if not,
// why: VFUN_STATUS_RELEASED, VFUN_STATUS_CLOSED, VFUN_STATUS_STALE_GENERATION or
// VFUN_STATUS_DEVICE_GONE. For programs that use its bytes where they lie. It asks the
// host nothing: that the host ended a session whose heartbeat stopped, a buffer of that
// session does not show; the next request of the session fails then.
//
// Requires:
// buffer was not ended.
enum vfun_status vfun_buffer_check(const struct vfun_buffer *buffer);

// Gives a buffer back; the handle is gone, and its bytes are not mapped any more, whatever
// the status. Its memory may be another buffer's at once: wait first for calls that use it.
//
// Requires:
// buffer came from vfun_buffer_get and is not used again, and neither are its bytes.
enum vfun_status vfun_buffer_put(struct vfun_buffer *buffer);

// The ports of this VM: the first room of them into ports, and how many there are in all
// into *count. ports may be null if room is 0.
//
// Requires:
// session is open; ports points to room structs; count points to a size_t.
enum vfun_status vfun_ports(const struct vfun_session *session,
                            struct vfun_port_info *ports,
                            size_t room,
                            size_t *count);

// Takes a port of this VM; name may be null if there is one only. Through the kernel module
// alone, and with CAP_NET_ADMIN in the VM's own network namespace. *info says what the port is,
// and *sides where its memory lies. *port is the caller's, to be ended by vfun_port_close.
// VFUN_STATUS_UNSUPPORTED without the module or the right, VFUN_STATUS_BAD_OPTION if there is
// no such port, VFUN_STATUS_REFUSED with what the host says: the port is in use (an
// interface that is up has it: set it down first).
//
// Requires:
// session is open; name is null or a string; port, info and sides point to room for what is
// put there.
enum vfun_status vfun_port_open(const struct vfun_session *session,
                                const char *name,
                                struct vfun_port **port,
                                struct vfun_port_info *info,
                                struct vfun_port_sides *sides);

// Rings the host, if anything rings it: it looks at this program's ring then. Call it when
// vfun_packet_must_ring says so.
//
// Requires:
// port was not ended.
enum vfun_status vfun_port_ring(const struct vfun_port *port);

// Whether the port is this program's still; if not, why: VFUN_STATUS_RELEASED (the host has
// taken it back, or it was changed), VFUN_STATUS_BROKEN, VFUN_STATUS_STALE_GENERATION,
// VFUN_STATUS_DEVICE_GONE or VFUN_STATUS_FORKED. Close it then, and open it again, in a new
// session. VFUN_STATUS_UNANSWERED says that nobody is there on the host: the port is this
// program's still, and frames go on at the latest when the host comes back.
//
// Requires:
// port was not ended.
enum vfun_status vfun_port_check(const struct vfun_port *port);

// The number of the direct link that is to be used now for frames this way (VFUN_LINK_WAY_OUT or VFUN_LINK_WAY_IN); 0: none. Ask some 50 times a
// second while there is one: if it is not the number of the link that the program has, the program lets
// go of that. vfun_link_ring.h has the ends of links. VFUN_STATUS_UNSUPPORTED if the kernel module is
// an older one.
//
// Requires:
// port was not ended; number points to a uint64_t.
enum vfun_status vfun_port_link_wanted(const struct vfun_port *port,
                                       uint32_t way,
                                       uint64_t *number);

// Takes the memory of the link that is to be used now: its number, the bytes of its rings, and where
// its two sides lie. *link is the caller's, to be ended by vfun_port_link_close before
// the next one is taken for this way; null, and *number 0, if there is none. When the link's window is
// unplugged, or the port has ended, private memory takes the place of its sides.
// VFUN_STATUS_NO_WINDOW: its window is not in this VM now.
//
// Requires:
// port was not ended; the others point to room for what is put there.
enum vfun_status vfun_port_link_take(const struct vfun_port *port,
                                     uint32_t way,
                                     struct vfun_port_link **link,
                                     uint64_t *number,
                                     uint64_t *ring_bytes,
                                     struct vfun_port_sides *sides);

// Rings the VM that receives from the link out: call it when vfun_linked_tx_must_ring says so.
//
// Requires:
// port was not ended.
enum vfun_status vfun_port_link_ring(const struct vfun_port *port);

// Lets go of a link's memory; the handle is gone, and its sides are not mapped any more. Its port may
// have been closed before.
//
// Requires:
// link came from vfun_port_link_take and is not used again, and neither are its sides.
enum vfun_status vfun_port_link_close(struct vfun_port_link *link);

// Gives a port back; the handle is gone, and its sides are not mapped any more, whatever the
// status.
//
// Requires:
// port came from vfun_port_open and is not used again, and neither are its sides.
enum vfun_status vfun_port_close(struct vfun_port *port);

// Brings a WebAssembly module to the host, which checks and compiles it and
// offers it to this client alone until it is removed: *function says what as
// (it may be null). After VFUN_STATUS_NOT_ACCEPTED vfun_last_code has a
// vfun_submit_code, vfun_last_error the compiler's or the host's sentence.
//
// Requires:
// session is open; module is valid, and what it points at; function is null
// or points to room for a struct vfun_own_function.
enum vfun_status vfun_submit_module(const struct vfun_session *session,
                                    const struct vfun_module *module,
                                    struct vfun_own_function *function);

// The functions that this client submitted: the first room of them into
// functions, and how many there are in all into *count. functions may be null
// if room is 0.
//
// Requires:
// session is open; functions points to room structs; count points to a size_t.
enum vfun_status vfun_submitted_modules(const struct vfun_session *session,
                                        struct vfun_own_function *functions,
                                        size_t room,
                                        size_t *count);

// Offers a function no more that this client submitted; grants of it keep it
// until they are released.
//
// Requires:
// session is open; name is a string.
enum vfun_status vfun_withdraw_module(const struct vfun_session *session,
                                      const char *name);

// Makes a waiter, for one thread or event loop. *waiter is the caller's, to be
// ended by vfun_waiter_close.
//
// Requires:
// waiter points to room for a pointer.
enum vfun_status vfun_waiter_open(struct vfun_waiter **waiter);

// The waiter's descriptor, for poll, epoll or an event loop: after vfun_arm it
// is readable once one of the calls may be answered. It is the waiter's: not to
// be read and not to be closed.
//
// Requires:
// waiter is open; fd points to an int.
enum vfun_status vfun_fd(const struct vfun_waiter *waiter,
                         int *fd);

// Looks for an answered call among count: *first is the place of the first, and
// count if there is none. If there is none the descriptor becomes readable as
// soon as one may be: sleep on it, then arm again, as it may wake in vain. Calls
// may be of several functions and sessions. count 0 disarms.
//
// While a waiter is armed the functions' services ring at each answer, which
// takes them a system call; calls that nobody waits for so pay nothing.
//
// Requires:
// waiter is open; calls points to count pending calls that are under way; first
// points to a size_t.
enum vfun_status vfun_arm(struct vfun_waiter *waiter,
                          const struct vfun_pending *const *calls,
                          size_t count,
                          size_t *first);

// Waits until one of count calls is answered: *first is its place. After
// timeout_ns (VFUN_NO_LIMIT: none) VFUN_STATUS_TIMED_OUT. The results stay for
// vfun_wait.
//
// Requires:
// As vfun_arm.
enum vfun_status vfun_wait_any(struct vfun_waiter *waiter,
                               const struct vfun_pending *const *calls,
                               size_t count,
                               uint64_t timeout_ns,
                               size_t *first);

// Ends a waiter. Calls that it was armed for go on.
//
// Requires:
// waiter came from vfun_waiter_open and is not used again.
enum vfun_status vfun_waiter_close(struct vfun_waiter *waiter);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VFUN_H */
