#!/bin/sh
# A port of a stock Open vSwitch with DPDK goes from VM to VM. Fetches Debian's, and
# a newer QEMU: that of Debian 12 ends with a fault when an emulated VM (TCG) uses
# such a port. Nothing is installed. Needs root, for a network of its own, and
# what tests/built.py built.
#
#   tests/ovs.sh           all of it
#   tests/ovs.sh --fetch   only fetch what is missing
set -eu
cd "$(dirname "$0")/.."
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
qemu=$(packaging/qemu-igb.sh)
[ "${1-}" = --fetch ] && exit 0
# Test guests are run by the first QEMU of the PATH. vfun-nics finds ovs-vsctl,
# ovs-ofctl and ovs-appctl there, too.
mkdir -p target/tmp/ovs
ln -sf "$qemu/qemu" target/tmp/ovs/qemu-system-x86_64
export VFUN_OVS_DIR PATH="$PWD/target/tmp/ovs:$VFUN_OVS_DIR:$PATH"
tests/built.py run vfun-tests-vm -- nics_openvswitch:: --nocapture
