/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the module share.
 *
 * A device (struct vfun_device) is one window. A file (struct vfun_file) is
 * one open of its node, and at most one session. A file has grants, and a
 * grant that was activated has a channel (struct vfun_channel).
 *
 * Who keeps what alive: a file holds its device; a channel is held by its
 * grant and by each mapping of it; a mapping holds its file (vma->vm_file), so
 * a file has no mappings left when it is released. The module is held by its
 * open files; what outlives them (goodbyes) is waited for at removal.
 *
 * Locks, outermost first:
 *
 *  dev->layout_lock  mutex  which generation of the window is in force
 *  dev->reset_lock   mutex  RESET is sent once, before the first HELLO
 *  dev->files_lock   mutex  the list of open files; held while pages are taken
 *                           away from mappings, so that their file stays
 *  mmap_lock         (the kernel's; held around faults and mmap)
 *  dev->map_sem      rwsem  read by faults, written where a channel or the
 *                           device dies: a fault finds it alive and puts the
 *                           page in place before the pages are taken away, or
 *                           finds it dead
 *  vf->lock          spin   a file's session and grants; never taken in an
 *                           interrupt
 *  dev->chan_lock    spin   live channels by vector, and the fields that the
 *                           interrupt handler uses; interrupts off
 *
 * dev->srcu stands for "the device is there": whoever touches window or
 * registers is inside (vfun_enter) and may sleep there, but looks at
 * dev->gone each time it wakes. Removal sets dev->gone, wakes all and waits.
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

#include "limits.h"
#include "vfun_uapi.h"
#include "wire.h"

/* Pages that stand in for a channel's datain, by why it is over. */
#define VFUN_REASONS (VFUN_BREAK_REASON_DEVICE_GONE + 1)

struct vfun_device;
struct vfun_file;
struct vfun_orphan;

/* An interrupt's own argument. */
struct vfun_vector {
	struct vfun_device *dev;
	unsigned int index;
};

struct vfun_device {
	struct kref ref;
	struct miscdevice misc;
	char name[16];
	int id;
	u32 pci;

	/* Valid inside srcu, as long as !gone. */
	struct pci_dev *pdev;
	void *window;
	void __iomem *regs;
	struct srcu_struct srcu;
	bool gone;

	phys_addr_t window_at;
	u64 window_bytes;
	unsigned int vectors;
	struct vfun_vector vector[VFUN_VECTORS];

	struct mutex layout_lock;	/* generation and features */
	u64 generation;		/* 0: no window now. Written under layout_lock */
	u64 features;

	struct mutex reset_lock;	/* reset_done */
	bool reset_done;

	struct mutex files_lock;	/* the list, and taking pages away */
	struct list_head files;
	unsigned int file_count;

	struct rw_semaphore map_sem;

	spinlock_t chan_lock;		/* live, and channels' fields */
	struct list_head live[VFUN_VECTORS];

	wait_queue_head_t control_wq;
	atomic64_t control_events;
	DECLARE_BITMAP(cells, VFUN_CONTROL_CELLS);	/* those we hold ourselves */

	struct workqueue_struct *wq;	/* goodbyes and the reset */
	struct work_struct reset_work;
	struct work_struct reap_work;
	struct delayed_work beat_work;
};

struct vfun_channel {
	struct kref ref;
	struct vfun_file *vf;	/* while it is live, or its file's mappings are */
	u64 handle;
	u64 dataout, datain, side;
	u16 kind, vector_out, vector_in;

	wait_queue_head_t wq;
	atomic64_t events;

	/* Under chan_lock; `dead` is read under map_sem as well. */
	struct list_head live;
	u64 calls, broken;
	struct eventfd_ctx *eventfd;
	unsigned int dead;	/* a vfun_break_reason; 0: alive */

	u64 polled;		/* the count that WAIT gave last */
	struct list_head killed;	/* under files_lock */
};

enum vfun_grant_state {
	VFUN_GRANT_GRANTED,
	VFUN_GRANT_BUSY,	/* ACTIVATE or RELEASE under way */
	VFUN_GRANT_ACTIVE,
	VFUN_GRANT_LOST,	/* what became of it is unknown: RELEASE only */
};

struct vfun_grant {
	struct list_head list;
	u64 handle;
	enum vfun_grant_state state;
	u16 depth, kind;
	u32 cell_bytes;
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
	struct list_head list;		/* under files_lock */
	struct address_space *mapping;
	struct page *scratch;		/* where writes of dead channels go */
	wait_queue_head_t poll_wq;
	wait_queue_head_t request_wq;
	atomic_t requests;

	spinlock_t lock;		/* all down to grant_count */
	enum vfun_session_state state;
	u64 session, generation;
	u64 epoch;			/* moves when a session ends */
	u16 version, line;
	u32 heartbeat_ms;
	struct list_head grants;
	unsigned int grant_count;

	struct work_struct goodbye;
};

/* main.c */
void vfun_device_put(struct vfun_device *dev);

/* Inside, the device is there; false: it is gone, and nothing to leave. */
static inline bool vfun_enter(struct vfun_device *dev, int *idx)
{
	*idx = srcu_read_lock(&dev->srcu);
	if (!READ_ONCE(dev->gone))
		return true;
	srcu_read_unlock(&dev->srcu, *idx);
	return false;
}

static inline void vfun_leave(struct vfun_device *dev, int idx)
{
	srcu_read_unlock(&dev->srcu, idx);
}

/* layout.c */
int vfun_layout_read(struct vfun_device *dev, struct vfun_window_header *h,
		     const char **wrong);
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

struct vfun_orphan *vfun_orphan_new(struct vfun_device *dev);
int vfun_exchange(struct vfun_device *dev, struct vfun_exchange *x);
int vfun_reset(struct vfun_device *dev, unsigned int timeout_ms, bool last);
int vfun_ensure_reset(struct vfun_device *dev, unsigned int timeout_ms);

/* request.c */
long vfun_request(struct vfun_file *vf, struct vfun_ioc_request __user *arg);

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
struct vfun_grant *vfun_grant_find(struct vfun_file *vf, u64 handle);
void vfun_grant_free(struct vfun_grant *grant);

/* channel.c */
struct vfun_channel *vfun_channel_find(struct vfun_file *vf, u64 handle);
struct vfun_channel *vfun_channel_new(struct vfun_file *vf, u64 handle,
				      const struct vfun_geometry *g);
bool vfun_geometry_good(struct vfun_device *dev, const struct vfun_geometry *g,
			const struct vfun_grant *grant);
int vfun_channel_go_live(struct vfun_device *dev, struct vfun_channel *ch,
			 u64 generation);
void vfun_channel_put(struct vfun_channel *ch);
void vfun_channel_look(struct vfun_channel *ch);
void vfun_channel_event(struct vfun_channel *ch);
void vfun_kill_one(struct vfun_device *dev, struct vfun_channel *ch,
		   unsigned int reason);
void vfun_kill_of(struct vfun_device *dev, struct vfun_file *vf,
		  unsigned int reason);
void vfun_kill_device(struct vfun_device *dev);
void vfun_kill_wait(struct vfun_device *dev);
void vfun_wake_all(struct vfun_device *dev);
void vfun_reap(struct work_struct *work);

/* irq.c */
int vfun_irqs_start(struct vfun_device *dev);
void vfun_irqs_stop(struct vfun_device *dev);
void vfun_ring_vector(struct vfun_device *dev, unsigned int vector);

/* heartbeat.c */
void vfun_beat(struct work_struct *work);

/* map.c */
int vfun_map_init(void);
void vfun_map_exit(void);
int vfun_mmap(struct file *filp, struct vm_area_struct *vma);

/* file.c */
extern const struct file_operations vfun_fops;

#endif
