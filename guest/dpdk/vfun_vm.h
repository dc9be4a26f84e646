/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A port of the VM in which this program runs, through VirtFun's library there. */
#ifndef VFUN_VM_H
#define VFUN_VM_H

#include <stdint.h>

#include "vfun_sides.h"

/* A way to a port, and the port while it is this program's. */
struct vfun_vm;

/* What the host says of a port. */
struct vfun_vm_port {
	struct vfun_sides sides;        /* the library's to unmap */
	uint8_t mac[6];
	uint16_t mtu;
};

/*
 * Loads the library. The place's port (NULL: the only one) and endpoint become its own.
 * NULL with a sentence.
 */
struct vfun_vm *vfun_vm_new(struct vfun_port_place *place, struct vfun_error *e);
void vfun_vm_free(struct vfun_vm *vm);

/* Takes the port. It waits for the host's answer. 0, or -1 with a sentence. */
int vfun_vm_open(struct vfun_vm *vm, struct vfun_vm_port *port, struct vfun_error *e);
/* Whether a port was taken, and not given back. */
int vfun_vm_is_open(const struct vfun_vm *vm);
/* Whether the port that was taken goes on. 0, or -1 with a sentence. */
int vfun_vm_check(const struct vfun_vm *vm, struct vfun_error *e);
/* Gives the port back: nobody touches its sides any more, or rings. */
void vfun_vm_close(struct vfun_vm *vm);

/* Rings the host. */
void vfun_vm_ring(const struct vfun_vm *vm);

/* The memory of a direct link. */
struct vfun_vm_link {
	struct vfun_sides sides;        /* the library's to unmap */
	uint64_t number;
};

/* A way is one of vfun.h. Which link is to be used now; 0: none. 0, or -1: nobody knows. */
int vfun_vm_link_wanted(const struct vfun_vm *vm, uint32_t way, uint64_t *number);
/* Takes its memory. 1; 0: there is none; -1 with a sentence. */
int vfun_vm_link_take(struct vfun_vm *vm, uint32_t way, struct vfun_vm_link *link,
		      struct vfun_error *e);
/* It is touched no more, if there is any. */
void vfun_vm_link_leave(struct vfun_vm *vm, uint32_t way);
/* Rings the VM that receives. */
void vfun_vm_ring_link(const struct vfun_vm *vm);

#endif
