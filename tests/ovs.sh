#!/bin/sh
# A port of a stock Open vSwitch with DPDK goes from VM to VM. Fetches Debian's;
# nothing is installed. Needs root, for a network of its own, and what
# tests/built.py built.
#
#   tests/ovs.sh           all of it
#   tests/ovs.sh --fetch   only fetch what is missing
set -eu
cd "$(dirname "$0")/.."
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
[ "${1-}" = --fetch ] && exit 0
# vfun-nics finds ovs-vsctl and ovs-ofctl there.
export VFUN_OVS_DIR PATH="$VFUN_OVS_DIR:$PATH"
tests/built.py run vfun-tests-vm -- nics_openvswitch:: --nocapture
