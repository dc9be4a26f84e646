/* SPDX-License-Identifier: GPL-2.0 */
/* The protocol's own header, with what it takes from C's library. */
#ifndef VFUN_KMOD_WIRE_H
#define VFUN_KMOD_WIRE_H

#include <linux/build_bug.h>
#include <linux/types.h>

#ifndef UINT64_C
#define UINT64_C(n) n##ULL
#endif
#ifndef UINT32_C
#define UINT32_C(n) n##U
#endif

#include "vfun_wire.h"

#endif
