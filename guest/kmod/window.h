/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Words of the window. It is ordinary memory that another machine's programs
 * write at any time, so each word is reached by one marked access.
 */
#ifndef VFUN_WINDOW_H
#define VFUN_WINDOW_H

#include <linux/atomic.h>
#include "vfun.h"

static inline u64 *vfun_word_at(struct vfun_window *win, u64 off)
{
	return win->memory + off;
}

/* Acquire: what was written before the word was stored is seen after it. */
static inline u64 vfun_load(struct vfun_window *win, u64 off)
{
	/* Pairs with the host's store-release. */
	return smp_load_acquire(vfun_word_at(win, off));
}

static inline void vfun_store(struct vfun_window *win, u64 off, u64 value)
{
	/* Pairs with the host's load-acquire. */
	smp_store_release(vfun_word_at(win, off), value);
}

/* Fully ordered. */
static inline bool vfun_exchange_word(struct vfun_window *win, u64 off, u64 old,
				      u64 value)
{
	return cmpxchg(vfun_word_at(win, off), old, value) == old;
}

/* Fully ordered; the window's words are naturally aligned. */
static inline void vfun_add(struct vfun_window *win, u64 off, s64 n)
{
	atomic64_add_return(n, (atomic64_t *)vfun_word_at(win, off));
}

#endif
