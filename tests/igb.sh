#!/bin/sh
# A NIC with the driver of a card (igb), which QEMU emulates, goes from VM to VM.
# Fetches a QEMU and a kernel that know such a card; nothing is installed. Needs
# root, for a network of its own, and what tests/built.py built.
#
#   tests/igb.sh           all of it
#   tests/igb.sh --fetch   only fetch what is missing
set -eu
cd "$(dirname "$0")/.."
# The kernel for clouds has no drivers of cards.
export VFUN_GUEST_KERNEL_PKG=linux-image-amd64 VFUN_GUEST_KERNEL_DIR="$PWD/target/guest-kernel-full"
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
qemu=$(packaging/qemu-igb.sh)
[ "${1-}" = --fetch ] && exit 0
# Test guests are run by the first QEMU of the PATH.
mkdir -p target/tmp/igb
ln -sf "$qemu/qemu" target/tmp/igb/qemu-system-x86_64
export PATH="$PWD/target/tmp/igb:$PATH" VFUN_NICS_MODEL=igb
tests/built.py run vfun-tests-vm -- nics::a_vf_goes_from_vm_to_vm_and_no_packet_is_lost --nocapture
tests/built.py run vfun-tests-vm -- nics_failover:: --nocapture
