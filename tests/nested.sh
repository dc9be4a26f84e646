#!/bin/sh
# A genuine virtual function, of a card that QEMU emulates, goes from VM to VM in
# an emulated host. Fetches a QEMU and a kernel that know such a card; nothing is
# installed. Needs root, for a network of its own, and what tests/built.py built.
set -eu
cd "$(dirname "$0")/.."
# The kernel for clouds has no drivers of cards.
export VFUN_GUEST_KERNEL_PKG=linux-image-amd64 VFUN_GUEST_KERNEL_DIR="$PWD/target/guest-kernel-full"
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
VFUN_NESTED_QEMU=$(packaging/qemu-igb.sh)
export VFUN_NESTED_QEMU
tests/built.py run vfun-tests-vm -- nested:: --nocapture
