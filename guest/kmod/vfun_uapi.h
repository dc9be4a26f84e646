/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/vfunN: what programs ask of VirtFun's kernel module. The module stands
 * between the programs of a guest and the guest's window: programs reach their
 * own channels and nothing else of it. docs/kernel-module.md tells the whole.
 *
 * An open file is at most one session. All structs have a fixed size and no
 * padding, the same for 32- and 64-bit programs, little-endian; reserved fields
 * are to be 0 (EINVAL). Every call may be made by several threads at once.
 *
 * Errors common to all:
 *   ENODEV  the device was unplugged, or the driver taken off it
 *   EINVAL  a field that cannot be; EFAULT a pointer that cannot be
 *   EBADF   the file is not open for reading and writing
 *   ENOTTY  no such call
 */
#ifndef VFUN_UAPI_H
#define VFUN_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Rises when a struct or a rule here changes in a way that programs can see.
 * Programs look at it in VFUN_IOC_INFO, which stays as it is, and refuse another.
 */
#define VFUN_ABI 2

#define VFUN_IOC_MAGIC 'V'

/* About the device and its control window; works on one that is gone, too. */
struct vfun_ioc_info {
	__u64 window_bytes;	/* of BAR 2 */
	__u64 generation;	/* the window's, as checked; 0: none right now */
	__u64 features;		/* the window's, as checked */
	__u32 abi;		/* VFUN_ABI */
	__u32 vectors;		/* doorbells, the control one among them */
	__u32 pci;		/* domain << 16 | bus << 8 | slot << 3 | function */
	__u32 gone;		/* 1: unplugged, or the driver was taken off */
};

/*
 * One control request (docs/protocol.md, section 4), with its struct of
 * vfun_wire.h as body. RESET, WINDOW and messages that the module does not know give
 * EOPNOTSUPP; it must know what a message does to the session. The answer is
 * the host's, byte for byte, once the module has checked it: the ranges of a
 * channel or buffer can be mapped when its ack is here. The kind and the shape
 * of a channel are for the program to check.
 *
 * The module sets the session handle itself. In HELLO it writes the caller's
 * process id and offers MODULE and DOORBELL for it, and it withholds features
 * that it does not know. It moves the session's heartbeat. The session ends
 * with GOODBYE or with the last close of the file. A buffer ends with BUFFER_PUT,
 * with the grant that it was got for, or with the session.
 *
 * A fatal signal ends the wait; others do not.
 *
 *   EBUSY      HELLO, and there is a session; a grant or buffer that another
 *              thread is activating or giving back; ACTIVATE for the second time
 *   ENOTCONN   no session: HELLO comes first
 *   ENOENT     the grant or buffer is not this file's, or the grant has ended
 *   EMFILE     NEGOTIATE, and the file has all the grants it may have (64);
 *              BUFFER_GET, and it has all the buffers (256)
 *   ENXIO      ACTIVATE or BUFFER_GET, and a range lies in a window that is not
 *              in this guest now. RELEASE the grant
 *   ENOSPC     answer_room is too small for this message's ack or for a nack
 *   ESTALE     the window was made again: session and channels are over,
 *              say HELLO again
 *   EAGAIN     the host does not serve now, or the window is being laid out
 *   ETIMEDOUT  no answer in time: whether it took effect is not known
 *   EPROTO     the host's answer makes no sense; nothing of it was believed
 *   ECANCELED  GOODBYE came between
 *   EINTR      a fatal signal
 *
 * A buffer that the host gave and the module does not take (ENXIO, EPROTO, ENOMEM)
 * is given back. A buffer that ended with its grant is not this file's any more.
 */
struct vfun_ioc_request {
	__u16 kind;		/* in: VFUN_KIND_... */
	__u16 body_len;		/* in: exactly its struct's size */
	__u32 timeout_ms;	/* in: 0 or above it: VFUN_CONTROL_TIMEOUT_MS */
	__u64 body;		/* in: pointer */
	__u64 answer;		/* in: pointer; VFUN_ANSWER_BODY bytes always do */
	__u32 answer_room;	/* in */
	__u32 answer_len;	/* out */
	__u32 acked;		/* out: 1 ack, 0 nack (a struct vfun_nack_body) */
	__u32 reserved;
};

/*
 * Waits until the event count of a channel differs from `seen`. The count
 * moves when the host rang and the channel has news (R-CHN-8), when it is
 * broken, and when it or the device is gone; it may move without news (R-SLP-4).
 * Read it first (timeout 0), then declare sleep, fence, look, and wait.
 *
 *   ETIMEDOUT  it did not differ in time; `seen` is left as it was
 *   EINTR      a signal handler ran: `timeout_ns` is what is left of the time
 *   EPIPE      the channel is over, and `seen` is its last count
 *   ENOENT     no such channel in this file
 */
struct vfun_ioc_wait {
	__u64 channel;		/* in: handle of ACTIVATE's ack; 0: control */
	__u64 seen;		/* in: last count; out: count now */
	__u64 timeout_ns;	/* in: ~0: no limit; 0: only read the count; out */
};

/*
 * Rings the host's side of a channel (0: of control); the caller has fenced
 * and looked whether the host sleeps (R-SLP-2).
 *   ENOENT  no such channel in this file
 *   EPIPE   the channel is over
 */
struct vfun_ioc_ring {
	__u64 channel;
};

/*
 * Adds 1 to an eventfd each time a channel's event count moves. One for a
 * channel; a new one takes the old one's place.
 *   ENOENT  no such channel in this file
 *   EPIPE   the channel is over
 *   EBADF   no descriptor; EINVAL not an eventfd
 */
struct vfun_ioc_eventfd {
	__u64 channel;		/* in: not 0 */
	__s32 fd;		/* in: -1: none any more */
	__u32 reserved;
};

/*
 * About a window that ranges of this device may lie in: its control window (0),
 * a data window or a link. ENOENT: there is none of this number now.
 */
struct vfun_ioc_window {
	__u16 window;		/* in: its number, as ranges have it */
	__u16 role;		/* out: VFUN_ROLE_... */
	__u32 pci;		/* out: as in vfun_ioc_info */
	__u64 bytes;		/* out: of BAR 2 */
	__u64 generation;	/* out: as checked; 0: none right now */
};

/*
 * Whether a buffer is this file's and goes on. One ends without a word where its
 * window was taken out of this guest, or was made again.
 *   ENOENT  no such buffer in this file
 *   EPIPE   the buffer is over
 */
struct vfun_ioc_buffer {
	__u64 buffer;
};

/*
 * Memory of the caller moves into a buffer of this file, at the same addresses:
 * pages of the buffer take the place of the caller's, with their bytes. What
 * threads write meanwhile is kept. As much moves as lies in one mapping, and not
 * more than 16 MiB: `bytes` says how much; call again for the rest. Memory that is
 * in a buffer of this file already stays there, and `buffer` and `offset` say
 * where. With `buffer` 0 nothing moves, and `buffer` stays 0 for memory that is in none.
 *
 * The memory stays the caller's: when the buffer ends, and in a child of fork, the
 * bytes are in pages of their own. While it is the window's, the kernel does not
 * reach it by its pages: O_DIRECT, vmsplice, process_vm_readv and futexes that
 * processes share give EFAULT, madvise EINVAL, and mremap does not make it longer. Pages count as pinned until
 * the memory is unmapped.
 *
 *   ENOENT      no such buffer in this file; EPIPE the buffer is over
 *   EINVAL      not whole pages, or not inside of the buffer
 *   EFAULT      no memory there that can be read
 *   EMLINK      it is shared: other processes would not see it move
 *   EOPNOTSUPP  memory of a device, or huge pages
 *   EACCES      it can be executed
 *   EROFS       the host is to write it, and the caller may only read it
 *   EDQUOT      more than RLIMIT_MEMLOCK allows
 */
struct vfun_ioc_remap {
	__u64 buffer;		/* in: its handle, or 0; out: where it is now */
	__u64 offset;		/* in, out: of the first byte in it */
	__u64 addr;		/* in: the caller's memory */
	__u64 bytes;		/* in: how much; out: how much has moved */
	__u32 write;		/* in: 1: the host writes it, too; EROFS if the caller may not */
	__u32 reserved;
};

/*
 * Pages of the caller are pinned, and a table of this file (BUFFER_GET with
 * VFUN_BUFFER_PAGES) names them to the host, which reaches them where they are. As
 * many as lie in one mapping, and not more than 16 MiB, and either all in a table
 * already, one behind the other, or all in none: `bytes` says how much; call again
 * for the rest. Pages that are in a table of this file stay at their place, and
 * `buffer` and `index` say where. With `buffer` 0 nothing is pinned, and `buffer`
 * stays 0 for pages that are in none.
 *
 * A program can map no table. BUFFER_PUT takes the table from the file at once,
 * whatever the host answers. The nack "still starting" says that a service still has
 * the table: the module asks again by itself. Pages stay pinned, and count for
 * RLIMIT_MEMLOCK, until the host has said that no service has the table, also when the
 * program has ended. They can be in another table before that. If a program unmaps
 * memory, its pages stay in the table until BUFFER_PUT; new memory at the same address
 * has other pages, which are in no table. A child of fork has copies. Shared memory can
 * be pinned, but not a shared mapping of a file on a disk.
 *
 *   ENOENT      no such table in this file; EPIPE the table is over
 *   EINVAL      not whole pages, not inside of the table, or a place is taken
 *   EFAULT      no memory there that can be read
 *   EOPNOTSUPP  memory of a device, of the window, or of a file that is shared
 *   EROFS       the host is to write it, and the caller may only read it
 *   EDQUOT      more than RLIMIT_MEMLOCK allows
 *   EBADF       the table is of another process
 */
struct vfun_ioc_pin {
	__u64 buffer;		/* in: the table's handle, or 0; out: where it is now */
	__u64 index;		/* in, out: the place of the first page */
	__u64 addr;		/* in: the caller's memory */
	__u64 bytes;		/* in: how much; out: of how much this is said */
	__u32 write;		/* in: 1: the host writes it, too */
	__u32 reserved;
};

/* One way of a direct link. */
#define VFUN_LINK_OUT 0		/* to another VM */
#define VFUN_LINK_IN 1		/* from another VM */
#define VFUN_LINK_WAYS 2

#define VFUN_LINK_ASK 0
#define VFUN_LINK_TAKE 1
#define VFUN_LINK_LEAVE 2
#define VFUN_LINK_RING 3

/*
 * The memory of a direct link of a port that this file has a channel of (docs/protocol.md,
 * section 18). The host names links and their places on its page of the port.
 *
 *   ASK    `number`: the link that the host wants to be used now, or that this file has and
 *          may keep; 0: none. Who has the memory of another one is to let go of it
 *   TAKE   the same, and its memory is this file's: `mine` and `theirs` are offsets of mmap,
 *          each of 4096 bytes and a ring. Both ways between two ports have the same memory
 *   LEAVE  the program touches it no more for this way
 *   RING   rings the VM that receives from the link out
 *
 * The memory is this file's until both ways have left it, another link is taken, the port's
 * channel is over, or the window goes; other pages stand in its place then, as in a channel's.
 * A window that is unplugged waits a moment, in which ASK says 0, until programs have let go.
 *
 *   ENOENT  no such channel in this file; EPIPE it is over
 *   EINVAL  it is no port's; no such way, or no such word
 *   ENXIO   TAKE: the link's window is not in this guest now, or is about to go
 *   EPROTO  TAKE: what the host says of the link makes no sense
 *   EBUSY   TAKE: somebody else has memory there
 *   ENODATA TAKE, RING: the host names no link, or this file has not its memory
 */
struct vfun_ioc_link {
	__u64 channel;		/* in: from ACTIVATE's ack */
	__u32 way;		/* in: VFUN_LINK_OUT or _IN */
	__u32 word;		/* in: VFUN_LINK_ASK and so on */
	__u64 number;		/* out */
	__u64 mine, theirs;	/* out: of TAKE; this file writes the one, and reads the other */
	__u64 ring_bytes;	/* out: of TAKE */
};

#define VFUN_IOC_INFO    _IOR(VFUN_IOC_MAGIC, 0, struct vfun_ioc_info)
#define VFUN_IOC_REQUEST _IOWR(VFUN_IOC_MAGIC, 1, struct vfun_ioc_request)
#define VFUN_IOC_WAIT    _IOWR(VFUN_IOC_MAGIC, 2, struct vfun_ioc_wait)
#define VFUN_IOC_RING    _IOW(VFUN_IOC_MAGIC, 3, struct vfun_ioc_ring)
#define VFUN_IOC_EVENTFD _IOW(VFUN_IOC_MAGIC, 4, struct vfun_ioc_eventfd)
#define VFUN_IOC_WINDOW  _IOWR(VFUN_IOC_MAGIC, 5, struct vfun_ioc_window)
#define VFUN_IOC_BUFFER  _IOW(VFUN_IOC_MAGIC, 6, struct vfun_ioc_buffer)
#define VFUN_IOC_REMAP   _IOWR(VFUN_IOC_MAGIC, 7, struct vfun_ioc_remap)
#define VFUN_IOC_PIN     _IOWR(VFUN_IOC_MAGIC, 8, struct vfun_ioc_pin)
#define VFUN_IOC_LINK    _IOWR(VFUN_IOC_MAGIC, 9, struct vfun_ioc_link)

/*
 * mmap's offset of a byte of a window: the window's number above its offset
 * there (32-bit programs reach windows 0 to 255).
 */
#define VFUN_MAP_SHIFT 36
#define VFUN_MAP(window, offset) ((__u64)(window) << VFUN_MAP_SHIFT | (__u64)(offset))

/*
 * mmap(MAP_SHARED, offset = VFUN_MAP(window, offset)) gives
 *   the first page of window 0, its header, for reading;
 *   all or some pages of one range of a channel or buffer of this file, or of one
 *   side of a link (VFUN_IOC_LINK): for
 *   reading and writing where the app writes it or both sides do, and for
 *   reading where the host alone writes it;
 * and EACCES for anything else: other pages, writing where only reading is
 * allowed (mprotect later, too), execution. EINVAL: private. No mapping goes on
 * to a forked child.
 *
 * When a channel is over its pages are taken away and others, of this file
 * alone, stand in their place. Where it could write, writes go nowhere. The rest
 * is 0, but for word VFUN_IN_BROKEN of its first range that the host alone
 * writes: VFUN_BREAK_REASON_RELEASED after RELEASE, GOODBYE or the host's end of
 * the grant, _SHUTDOWN when a window that it has a range in was made again,
 * _DEVICE_GONE when one is gone. A buffer's pages are taken away in the same way.
 * The header of a device that is gone reads as 0, so its generation too.
 *
 * poll() says POLLIN while the event count of some channel differs from what
 * VFUN_IOC_WAIT gave last for it, and POLLHUP | POLLERR when the device is gone.
 */

#endif
