/* SPDX-License-Identifier: GPL-2.0 */
/* Every limit of the module, with its reason. */
#ifndef VFUN_LIMITS_H
#define VFUN_LIMITS_H

/*
 * Open files of one device. A window has VFUN_SESSIONS (60) sessions; the rest
 * is for programs that only look. An open file costs two kilobytes and a page.
 */
#define VFUN_FILES_MAX 256

/*
 * Grants of one file, so channels too: what a program may make the kernel
 * remember (some 900 bytes each, with VFUN_RANGES_MAX ranges), and how long a
 * look through them takes.
 */
#define VFUN_GRANTS_MAX 64

/*
 * Buffers of one file, each a range of its own: as many memory regions as an
 * RDMA program of some size registers; 70 KiB of the kernel's memory at most.
 */
#define VFUN_BUFFERS_MAX 256

/*
 * Requests of one file under way at once. The window has 16 control cells for
 * all; more threads of one program wait for each other.
 */
#define VFUN_REQUESTS_MAX 4

/* Longest sleep between two looks at an answer: the beat is moved so often. */
#define VFUN_LOOK_MS 50
/* How often a manager that declares sleep is rung again. */
#define VFUN_RING_AGAIN_MS 100
/* Between two looks for a free control cell, or whether RESET is over. */
#define VFUN_CELL_WAIT_MS 2

/* How long probe waits for a window that the host is laying out. */
#define VFUN_LAYOUT_WAIT_MS 1000
/* For requests that nobody waits for: a session's end, the module's start. */
#define VFUN_GOODBYE_MS 2000
#define VFUN_RESET_MS 2000
/* At removal and shutdown somebody does wait, and the host may be dead. */
#define VFUN_FAREWELL_MS 300

/* Heartbeats: half of what the host asked for, within these. Each wakes a VM that sleeps. */
#define VFUN_HEARTBEAT_LEAST_MS 50
#define VFUN_HEARTBEAT_MOST_MS 800

/*
 * Pages put in place around the one that was touched, while they are there
 * anyway: 256 KiB for one fault, aligned.
 */
#define VFUN_FAULT_PAGES 64

/*
 * Pages that move by one call: 16 MiB, of which the kernel remembers 64 KiB.
 * Libraries call again for the rest.
 */
#define VFUN_MOVE_PAGES 4096UL

/*
 * Pages of one table: 16 GiB, of which the kernel remembers 32 MiB. A window has
 * room for few as long as this; what a program may pin is RLIMIT_MEMLOCK's.
 */
#define VFUN_TABLE_PAGES (1UL << 22)

/*
 * When the host is asked for the tables of a session that is over: after its
 * goodbye, and again as long as it does not answer.
 */
#define VFUN_TABLES_FIRST (HZ / 50)
#define VFUN_TABLES_AGAIN (HZ / 4)
/*
 * How long removal waits until services have let go, while the host answers: pages
 * that are not given back by then stay pinned until the VM starts anew.
 */
#define VFUN_TABLES_FAREWELL_MS 2000

/*
 * How long removal of a link's window waits until programs let go of it: they look every
 * 20 ms, and one that is stopped must not hold the VM up.
 */
#define VFUN_LINK_FAREWELL_MS 300

/*
 * How often the ports' work looks by itself while there are ports: at the table, the
 * host's states, and for rings that were lost.
 */
#define VFUN_PORT_LOOK_MS 500
/*
 * The same where each open interface has its channel. The host gives pages of a channel that it
 * took away to others after a second: a ring that was lost must be noticed before.
 */
#define VFUN_PORT_REST_MS VFUN_HEARTBEAT_MOST_MS
/*
 * An entry that is not in the table may just be written anew. After the window was
 * made again its host may still be starting; an interface that went would lose its
 * addresses.
 */
#define VFUN_PORT_GOES_MS 200
#define VFUN_PORT_GOES_ANEW_MS 10000
/*
 * Between two tries to get a channel: the first one is at once, the next after this
 * time, and each after twice the time before.
 */
#define VFUN_PORT_AGAIN_MS 1000
#define VFUN_PORT_AGAIN_MOST_MS 30000
/* A channel that lasted for so long was no failure. */
#define VFUN_PORT_LASTED_MS 10000
/*
 * When to look whether the host has made room in a ring that was full: after as long as
 * it takes for some dozens of frames at first, and not more often than the kernel's
 * clock ticks if it takes nothing at all.
 */
#define VFUN_ROOM_SOON_NS 50000
#define VFUN_ROOM_LATE_NS 4000000

#endif
