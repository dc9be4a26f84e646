/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A port of the VM in which this program runs. VirtFun's library there has what a program
 * needs to speak with its host. It is loaded when it is needed: a switch on the host has none.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfun.h"
#include "vfun_packet.h"
#include "vfun_vm.h"

#define LIBRARY "libvfun.so.0"

/* The library's functions that are used here. */
#define FUNCTIONS(X) \
	X(vfun_connect) \
	X(vfun_close) \
	X(vfun_last_error) \
	X(vfun_port_open) \
	X(vfun_port_ring) \
	X(vfun_port_check) \
	X(vfun_port_link_wanted) \
	X(vfun_port_link_take) \
	X(vfun_port_link_ring) \
	X(vfun_port_link_close) \
	X(vfun_port_close)

struct vfun_vm {
	char *name, *endpoint;
	struct vfun_session *session;   /* NULL: none */
	struct vfun_port *port;         /* NULL: none */
	struct vfun_port_link *link[2]; /* by its way; NULL: none */
	void *library;
#define MEMBER(f) __typeof__(&f) f;
	FUNCTIONS(MEMBER)
#undef MEMBER
};

static int load(struct vfun_vm *vm, struct vfun_error *e)
{
	const char *missing = NULL;

	vm->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!vm->library)
		return vfun_wrong(e, "without socket= or path=, the port is one of this VM, for which VirtFun's library is needed: %s", dlerror());
	/* POSIX has a function's address in a void *, and C has no such conversion. */
#define FIND(f) \
	*(void **)&vm->f = dlsym(vm->library, #f); \
	if (!vm->f) \
		missing = #f;
	FUNCTIONS(FIND)
#undef FIND
	return missing ? vfun_wrong(e, LIBRARY " has no %s: install the version of this driver", missing) : 0;
}

struct vfun_vm *vfun_vm_new(struct vfun_port_place *place, struct vfun_error *e)
{
	struct vfun_vm *vm = calloc(1, sizeof(*vm));

	if (!vm) {
		vfun_wrong(e, "no memory for one more device");
		return NULL;
	}
	if (load(vm, e)) {
		vfun_vm_free(vm);
		return NULL;
	}
	vm->name = place->port;
	vm->endpoint = place->endpoint;
	place->port = place->endpoint = NULL;
	return vm;
}

void vfun_vm_free(struct vfun_vm *vm)
{
	if (!vm)
		return;
	vfun_vm_close(vm);
	/* The library stays: it has threads of its own, which may be about to end. */
	free(vm->name);
	free(vm->endpoint);
	free(vm);
}

/* The library's last sentence, of this thread. */
static int wrong(const struct vfun_vm *vm, struct vfun_error *e)
{
	return vfun_wrong(e, "%s", vm->vfun_last_error());
}

int vfun_vm_open(struct vfun_vm *vm, struct vfun_vm_port *port, struct vfun_error *e)
{
	struct vfun_connect_options options = {
		.size = sizeof(options),
		.app = "dpdk",
		.endpoint = vm->endpoint ? vm->endpoint : "module",
	};
	struct vfun_port_sides sides;
	struct vfun_port_info info;
	int ret;

	if (vm->vfun_connect(&options, &vm->session) != VFUN_STATUS_OK)
		return wrong(vm, e);
	if (vm->vfun_port_open(vm->session, vm->name, &vm->port, &info, &sides) != VFUN_STATUS_OK) {
		ret = wrong(vm, e);
		vfun_vm_close(vm);
		return ret;
	}
	if (!vfun_packet_ring_ok(info.ring_bytes)) {
		vfun_vm_close(vm);
		return vfun_wrong(e, "the port has rings of %u bytes, which cannot be", info.ring_bytes);
	}
	port->sides = (struct vfun_sides){ .mine = sides.mine, .theirs = sides.theirs,
					   .ring = info.ring_bytes, .is_lent = 1 };
	memcpy(port->mac, info.mac, sizeof(port->mac));
	port->mtu = info.mtu;
	return 0;
}

int vfun_vm_is_open(const struct vfun_vm *vm)
{
	return vm->port != NULL;
}

int vfun_vm_check(const struct vfun_vm *vm, struct vfun_error *e)
{
	enum vfun_status found = vm->vfun_port_check(vm->port);

	/* While nobody is there on the host, nobody gives the memory to another one, either. */
	return found == VFUN_STATUS_OK || found == VFUN_STATUS_UNANSWERED ? 0 : wrong(vm, e);
}

void vfun_vm_close(struct vfun_vm *vm)
{
	vfun_vm_link_leave(vm, VFUN_LINK_WAY_OUT);
	vfun_vm_link_leave(vm, VFUN_LINK_WAY_IN);
	/* A session that lost its host cannot be used again, so each port has one of its own. */
	if (vm->port)
		vm->vfun_port_close(vm->port);
	if (vm->session)
		vm->vfun_close(vm->session);
	vm->port = NULL;
	vm->session = NULL;
}

void vfun_vm_ring(const struct vfun_vm *vm)
{
	vm->vfun_port_ring(vm->port);
}

int vfun_vm_link_wanted(const struct vfun_vm *vm, uint32_t way, uint64_t *number)
{
	return vm->vfun_port_link_wanted(vm->port, way, number) == VFUN_STATUS_OK ? 0 : -1;
}

int vfun_vm_link_take(struct vfun_vm *vm, uint32_t way, struct vfun_vm_link *link,
		      struct vfun_error *e)
{
	struct vfun_port_sides sides;
	uint64_t ring;

	vfun_vm_link_leave(vm, way);
	if (vm->vfun_port_link_take(vm->port, way, &vm->link[way], &link->number, &ring, &sides) !=
	    VFUN_STATUS_OK)
		return wrong(vm, e);
	if (!vm->link[way])
		return 0;
	link->sides = (struct vfun_sides){ .mine = sides.mine, .theirs = sides.theirs, .ring = ring,
					   .is_lent = 1 };
	return 1;
}

void vfun_vm_link_leave(struct vfun_vm *vm, uint32_t way)
{
	if (vm->link[way])
		vm->vfun_port_link_close(vm->link[way]);
	vm->link[way] = NULL;
}

void vfun_vm_ring_link(const struct vfun_vm *vm)
{
	vm->vfun_port_link_ring(vm->port);
}
