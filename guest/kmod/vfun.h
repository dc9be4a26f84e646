/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the module share.
 *
 * A window (struct vfun_window) is one PCI device: memory and doorbells. A
 * device (struct vfun_device) is one node: the control cells and sessions of
 * its control window. Further windows have no node; each is named by the control
 * window of one, and ranges of that node may lie in it. A file (struct vfun_file) is one open of the node, and at most one
 * session. A file has grants, and a grant that was activated has a channel
 * (struct vfun_channel): ranges of windows (struct vfun_area), each with who
 * writes it, and doorbells. A buffer is a channel of one range and no doorbell.
 * What kind a channel is of, and what is in its ranges, the module does not
 * know.
 *
 * Who keeps what alive: a file holds its device, and that its window; a channel
 * is held by its grant and by each mapping of it, and holds the windows of its
 * ranges; a mapping holds its file (vma->vm_file), so a file has no mappings
 * left when it is released. The module is held by its open files; what outlives
 * them (goodbyes) is waited for at removal.
 *
 * Ports are network interfaces over channels of a session of the module's own: a file
 * without a struct file. They count among the node's files, so that heartbeats, new
 * generations and the end concern them as any other. vfun_kill stops who uses such a
 * channel (vfun_port_cut) where it takes the pages away from programs. A port may use
 * a further window as well, for a direct link: vfun_links_gone stops it.
 *
 * Locks, outermost first:
 *
 *  rtnl              (the kernel's) never taken inside of any of these, or inside
 *                    (vfun_enter): see port.h
 *  dev->layout_lock  mutex  which generation of the window is in force
 *  dev->reset_lock   mutex  RESET is sent once, before the first HELLO
 *  vfun_lock         mutex  open files of all nodes, and further windows; held
 *                           while pages are taken away from mappings, so that
 *                           their file stays
 *  vf->pages_lock    mutex  a file's tables of pages; never held while a program's
 *                           pages come, which may take as long as another program
 *                           wants
 *  mmap_lock         (the kernel's; held around faults and mmap)
 *  vfun_map_sem      rwsem  the ranges that are in use in each window. Read by
 *                           faults and mmap, written where a channel begins
 *                           or ends, or a window goes: a fault finds it alive
 *                           and puts the page in place before the pages are
 *                           taken away, or finds it dead
 *  dev->tables_lock  mutex  tables whose file has them no more
 *  vf->lock          spin   a file's session and grants; never taken in an
 *                           interrupt
 *  win->bell_lock    spin   live channels by vector, and the fields that the
 *                           interrupt handler uses; interrupts off
 *  port->lock        spin   a port's receiving; the kernel's lock of its transmit
 *                           queue is inside of it. Not inside of bell_lock
 *
 * win->srcu stands for "the window is there": whoever touches its memory or
 * registers is inside (vfun_enter) and may sleep there, but looks at win->gone
 * each time it wakes. Removal sets win->gone, wakes all and waits. A further
 * window's memory is touched under vfun_lock alone.
 *
 * What the host writes is copied once, checked, then used (R-TRU-3). Words
 * that both sides change are reached by the helpers of window.h alone.
 */
#ifndef VFUN_H
#define VFUN_H

#include <linux/eventfd.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "limits.h"
#include "vfun_uapi.h"
#include "wire.h"

/* Pages that stand in for a channel's datain, by why it is over. */
#define VFUN_REASONS (VFUN_BREAK_REASON_DEVICE_GONE + 1)

struct vfun_device;
struct vfun_window;
struct vfun_file;
struct vfun_orphan;
struct vfun_moved;
struct vfun_movers;
struct vfun_pages;
struct vfun_port;
struct vfun_ports;

/* An interrupt's own argument. */
struct vfun_vector {
	struct vfun_window *win;
	unsigned int index;
};

/* Memory and doorbells: one PCI device. */
struct vfun_window {
	struct kref ref;
	struct vfun_device *dev;	/* the node of a control window */
	u32 pci;

	/* Of a further window, under vfun_lock; changed under map_sem, too. */
	struct list_head link;
	struct vfun_device *owner;	/* whose table names it; NULL: no one's */
	u16 index;
	bool told;			/* the host knows that it is here */
	u64 key[2];

	/* Valid inside srcu, as long as !gone. */
	struct pci_dev *pdev;
	void *memory;
	void __iomem *regs;	/* NULL: it has no doorbells */
	struct srcu_struct srcu;
	bool gone;

	/* What the header said, as checked; 0 and up: the heap of ranges. */
	u16 role;
	phys_addr_t at;
	u64 bytes, heap;
	u64 generation;		/* 0: no window now */
	u64 features;
	unsigned int vectors;
	struct vfun_vector vector[VFUN_VECTORS];

	struct rb_root_cached areas;	/* in use, under map_sem */

	spinlock_t bell_lock;		/* rung, and channels' fields */
	struct list_head rung[VFUN_VECTORS];	/* live channels by vector */
};

/* Control and sessions: one node. */
struct vfun_device {
	struct kref ref;
	struct vfun_window *win;
	struct miscdevice misc;
	char name[16];
	int id;

	struct mutex layout_lock;	/* the window's generation and features */

	struct mutex reset_lock;	/* reset_done */
	bool reset_done;

	struct list_head node;		/* of all nodes, under vfun_lock */
	struct list_head files;		/* under vfun_lock */
	unsigned int file_count;

	wait_queue_head_t control_wq;
	atomic64_t control_events;
	DECLARE_BITMAP(cells, VFUN_CONTROL_CELLS);	/* those we hold ourselves */

	struct workqueue_struct *wq;	/* goodbyes, and what the host is to know */
	struct work_struct host_work;
	struct work_struct reap_work;
	struct delayed_work beat_work;
	struct delayed_work tables_work;
	struct vfun_ports *ports;

	struct mutex tables_lock;	/* inside of pages_lock */
	struct list_head tables;	/* tables of pages that the host may still use */
};

/* A range of a channel or buffer. */
struct vfun_area {
	struct vfun_channel *ch;
	struct vfun_range range;
	/* Under map_sem. */
	struct vfun_window *win;	/* held; NULL: in no tree */
	struct rb_node rb;
	u64 last_below;
};

struct vfun_channel {
	struct kref ref;
	struct vfun_file *vf;	/* while it is live, or its file's mappings are */
	u64 handle;
	u64 grant;		/* that it belongs to; 0: a buffer of the session */
	bool table;		/* of pages: the module's alone */
	bool buffer;		/* has no doorbells, and nobody waits for it */
	u16 vector_out, vector_in;
	struct vfun_area *head;	/* begins with its head page (R-RNG-3); a buffer has none */
	u64 ring_bytes;		/* of a port, whose two sides these are; 0: it is none */
	/* Memory of links of a program's port: its way out, and in. Under vfun_lock and map_sem. */
	struct vfun_channel *link[VFUN_LINK_WAYS];
	bool leaving;		/* such memory, whose window goes: its program is to let go */

	wait_queue_head_t wq;
	atomic64_t events;

	/* Under bell_lock; `dead` is read under map_sem as well. */
	struct list_head rung;
	u64 news, broken;
	struct eventfd_ctx *eventfd;
	unsigned int dead;	/* a vfun_break_reason; 0: alive */
	struct vfun_port *port;	/* who uses it; changed under map_sem, too */

	u64 polled;		/* the count that WAIT gave last */
	struct list_head live;	/* of its file, under map_sem */
	struct list_head killed;	/* under vfun_lock */
	struct list_head moved;	/* memory of programs in a buffer, under map_sem */

	unsigned int count;
	struct vfun_area area[];
};

enum vfun_grant_state {
	VFUN_GRANT_GRANTED,
	VFUN_GRANT_BUSY,	/* ACTIVATE, RELEASE or BUFFER_PUT under way */
	VFUN_GRANT_ACTIVE,
	VFUN_GRANT_LOST,	/* what became of it is unknown: it can be given back */
};

/* What a file holds: a grant or a buffer. Their handles are apart. */
enum vfun_holding {
	VFUN_HOLDS_GRANT,
	VFUN_HOLDS_BUFFER,
	VFUN_HOLDINGS,
};

struct vfun_grant {
	struct list_head list;
	enum vfun_holding what;
	u64 handle;
	enum vfun_grant_state state;
	bool ending;		/* to be given back: no buffer comes to it any more */
	struct vfun_channel *ch;
};

enum vfun_session_state {
	VFUN_SESSION_NONE,
	VFUN_SESSION_OPENING,
	VFUN_SESSION_OPEN,
	VFUN_SESSION_CLOSING,
};

struct vfun_file {
	struct vfun_device *dev;
	struct list_head list;		/* under vfun_lock */
	struct list_head live;		/* channels and buffers, under map_sem */
	struct address_space *mapping;	/* NULL: the module's own session */
	struct page *scratch;		/* where writes of dead channels go */
	bool net_admin;			/* its opener had the right; never changes */
	wait_queue_head_t poll_wq;
	wait_queue_head_t request_wq;
	atomic_t requests;

	spinlock_t lock;		/* all down to held */
	enum vfun_session_state state;
	u64 session, generation;
	u64 epoch;			/* moves when a session ends */
	u16 version, line;
	u32 heartbeat_ms;
	struct list_head grants;
	unsigned int held[VFUN_HOLDINGS];

	struct work_struct goodbye;

	struct mutex pages_lock;	/* the next two; outside of mmap_lock and map_sem */
	struct xarray tables;		/* of pages, by number */
	struct xarray pages;		/* where a page is in them, by its number */

	struct mutex move_lock;		/* the next two; outside of mmap_lock */
	struct vfun_moved *moving;	/* whose mapping is being made */
	struct task_struct *mover;	/* by this task */
};

/* window.c */
struct vfun_window *vfun_window_new(struct pci_dev *pdev);
void vfun_window_put(struct vfun_window *win);
int vfun_window_open(struct vfun_window *win, bool doorbells);
bool vfun_window_is_further(struct pci_dev *pdev);
void vfun_window_close(struct vfun_window *win);

/* bells.c */
int vfun_bells_start(struct vfun_window *win, const char *name);
void vfun_bells_stop(struct vfun_window *win);
void vfun_ring_vector(struct vfun_window *win, unsigned int vector);
void vfun_ring_peer(struct vfun_window *win, u32 bell);

/* Inside, the window is there; false: it is gone, and nothing to leave. */
static inline bool vfun_enter(struct vfun_window *win, int *idx)
{
	*idx = srcu_read_lock(&win->srcu);
	if (!READ_ONCE(win->gone))
		return true;
	srcu_read_unlock(&win->srcu, *idx);
	return false;
}

static inline void vfun_leave(struct vfun_window *win, int idx)
{
	srcu_read_unlock(&win->srcu, idx);
}

/* device.c */
int vfun_device_add(struct vfun_window *win);
void vfun_device_remove(struct vfun_device *dev);
void vfun_device_quiesce(struct vfun_device *dev);
void vfun_device_put(struct vfun_device *dev);

static inline bool vfun_gone(const struct vfun_device *dev)
{
	return READ_ONCE(dev->win->gone);
}

static inline u64 vfun_generation(const struct vfun_device *dev)
{
	return READ_ONCE(dev->win->generation);
}

/* further.c */
void vfun_further_add(struct vfun_window *win);
void vfun_further_remove(struct vfun_window *win);
void vfun_further_look(struct vfun_device *dev, struct list_head *killed);
void vfun_further_check(struct vfun_device *dev);
void vfun_further_changed(void);
void vfun_further_missing(struct vfun_device *dev, u16 index);
void vfun_further_forget(struct vfun_device *dev, unsigned int reason,
			 struct list_head *killed);
void vfun_further_node(struct vfun_device *dev, bool there);
void vfun_further_work(struct work_struct *work);
struct vfun_window *vfun_window_find(struct vfun_device *dev, u16 index);

/* layout.c */
int vfun_layout_read(struct vfun_window *win, struct vfun_window_header *h,
		     const char **wrong);
bool vfun_layout_refused(struct vfun_window *win,
			 const struct vfun_window_header *h);
void vfun_layout_keep(struct vfun_window *win, const struct vfun_window_header *h);
int vfun_layout_check(struct vfun_device *dev);

/* control.c */
struct vfun_exchange {
	u16 kind, body_len;
	u64 session, generation;
	const void *body;
	void *answer;		/* VFUN_ANSWER_BODY bytes */
	unsigned int timeout_ms;
	bool last;		/* the removal's own: goes on although gone */
	/* out */
	u16 answer_len;
	bool acked, posted;
	/*
	 * In: for HELLO, what will end a session whose ack comes after the
	 * wait for it. Out: NULL if it is in use now.
	 */
	struct vfun_orphan *orphan;
};

void vfun_control_rung(struct vfun_device *dev);
struct vfun_orphan *vfun_orphan_new(struct vfun_device *dev);
int vfun_exchange(struct vfun_device *dev, struct vfun_exchange *x);
int vfun_reset(struct vfun_device *dev, unsigned int timeout_ms, bool last);
int vfun_ensure_reset(struct vfun_device *dev, unsigned int timeout_ms);

/* request.c: one request under way, what the program said and what it shall get */
struct vfun_request {
	struct vfun_file *vf;
	struct vfun_exchange x;
	u64 epoch;
	unsigned long deadline;		/* of all that it waits for, in jiffies */
	u8 body[VFUN_REQUEST_BODY] __aligned(8);
	u8 answer[VFUN_ANSWER_BODY] __aligned(8);
};

struct vfun_request *vfun_request_new(struct vfun_file *vf, u16 kind,
				      unsigned int timeout_ms);
int vfun_request_run(struct vfun_request *r);
void vfun_request_free(struct vfun_request *r);
long vfun_request(struct vfun_file *vf, struct vfun_ioc_request __user *arg);
int vfun_request_exchange(struct vfun_request *r);

/* grant.c */
struct vfun_grant *vfun_grant_find(struct vfun_file *vf, enum vfun_holding what,
				   u64 handle);
void vfun_grant_free(struct vfun_grant *grant);
int vfun_negotiate(struct vfun_request *r);
int vfun_activate(struct vfun_request *r);
int vfun_give_back(struct vfun_request *r, enum vfun_holding what);
int vfun_buffer_get(struct vfun_request *r);
bool vfun_grant_open(struct vfun_file *vf, u64 handle);
void vfun_buffer_over(struct vfun_channel *ch);

/* session.c */
int vfun_session_begin(struct vfun_file *vf, u64 generation);
void vfun_session_opened(struct vfun_file *vf, const struct vfun_hello_ack *ack);
void vfun_session_not_opened(struct vfun_file *vf);
int vfun_session_get(struct vfun_file *vf, u64 *session, u64 *generation,
		     u64 *epoch);
int vfun_session_close(struct vfun_file *vf, u64 *session, u64 *generation);
void vfun_session_closed(struct vfun_file *vf);
void vfun_session_not_closed(struct vfun_file *vf, u64 session);
void vfun_session_release(struct vfun_file *vf);
void vfun_goodbye(struct work_struct *work);

/* areas.c: the ranges in use */
extern struct mutex vfun_lock;
extern struct rw_semaphore vfun_map_sem;
struct vfun_area *vfun_area_first(struct vfun_window *win, u64 from, u64 last);
struct vfun_area *vfun_area_of(struct vfun_file *vf, u64 at, u64 bytes);
void vfun_areas_leave(struct vfun_channel *ch);
int vfun_areas_enter(struct vfun_channel *ch, struct list_head *killed);

/* channel.c */
struct vfun_channel *vfun_channel_find(struct vfun_file *vf, u64 handle);
struct vfun_channel *vfun_channel_new(struct vfun_file *vf, u64 handle,
				      const struct vfun_range *ranges,
				      unsigned int count);
int vfun_channel_go_live(struct vfun_channel *ch, u64 generation);
void vfun_channel_put(struct vfun_channel *ch);
void vfun_channel_look(struct vfun_channel *ch);
unsigned int vfun_channel_ended(const struct vfun_channel *ch);
bool vfun_channel_broken(const struct vfun_channel *ch);
void vfun_channel_event(struct vfun_channel *ch);

/* end.c: pages are taken away */
void vfun_kill(struct vfun_channel *ch, unsigned int reason,
	       struct list_head *killed);
void vfun_kill_begin(void);
void vfun_kill_end(struct list_head *killed);
void vfun_kill_one(struct vfun_channel *ch, unsigned int reason);
void vfun_kill_grant(struct vfun_file *vf, u64 grant);
void vfun_kill_file(struct vfun_file *vf, unsigned int reason);
void vfun_kill_files(struct vfun_device *dev, unsigned int reason);
void vfun_kill_device(struct vfun_device *dev);
void vfun_kill_areas(struct vfun_window *win, unsigned int reason,
		     struct list_head *killed);
void vfun_kill_wait(void);
void vfun_wake_all(struct vfun_device *dev);
void vfun_reap(struct work_struct *work);

/* heartbeat.c */
void vfun_beat(struct work_struct *work);

/* map.c */
int vfun_map_init(void);
void vfun_map_exit(void);
int vfun_mmap(struct file *filp, struct vm_area_struct *vma);

/* moved.c: memory of programs in a buffer */
void vfun_moved_rescue(struct vfun_channel *ch);
int vfun_moved_map(struct vfun_moved *m, struct vm_area_struct *vma);
long vfun_ioc_remap(struct file *filp, struct vfun_ioc_remap __user *arg);

/* pages.c: memory of programs that the host reaches where it is */
int vfun_pages_begin(struct vfun_channel *ch, u64 session);
struct vfun_pages *vfun_pages_take(struct vfun_channel *ch);
void vfun_pages_done(struct vfun_device *dev, struct vfun_pages *t, bool over);
void vfun_pages_forget(struct vfun_channel *ch);
bool vfun_pages_over(const struct vfun_exchange *x);
void vfun_pages_leave(struct vfun_file *vf);
void vfun_tables_ask(struct work_struct *work);
void vfun_tables_farewell(struct vfun_device *dev);
void vfun_tables_keep(const struct vfun_device *dev);
long vfun_ioc_pin(struct file *filp, struct vfun_ioc_pin __user *arg);

/* movers.c: who moves memory, of each process one task at a time */
struct vfun_movers *vfun_movers_enter(void);
void vfun_movers_leave(struct vfun_movers *m);

/* ports.c, netdev.c and link.c: network interfaces; port.h has the rest */
int vfun_ports_new(struct vfun_device *dev);
void vfun_ports_kick(struct vfun_device *dev);
void vfun_ports_suspend(struct vfun_device *dev);
void vfun_ports_stop(struct vfun_device *dev);
void vfun_ports_free(struct vfun_device *dev);
void vfun_port_rung(struct vfun_port *p);
void vfun_port_nudged(struct vfun_port *p);
void vfun_port_cut(struct vfun_port *p, bool farewell);
void vfun_links_gone(struct vfun_window *win, bool farewell);

/* proglink.c: direct links of ports that programs have */
long vfun_ioc_link(struct vfun_file *vf, struct vfun_ioc_link __user *arg);
void vfun_proglinks_farewell(struct vfun_window *win);

/* file.c */
bool vfun_task_is_net_admin(void);
struct vfun_file *vfun_file_new(struct vfun_device *dev,
				struct address_space *mapping, bool net_admin);
extern const struct file_operations vfun_fops;

#endif
