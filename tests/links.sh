#!/bin/sh
# Direct links: real guests, past a stock Open vSwitch with DPDK and back. Needs root, and what
# tests/built.py built; installs DPDK's packages and fetches Open vSwitch.
set -eu
cd "$(dirname "$0")/.."
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
export VFUN_OVS_DIR VFUN_DPDK_DRIVER
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
# vfund finds ovs-vsctl there.
PATH="$VFUN_OVS_DIR:$PATH" exec tests/built.py run vfun-tests-vm -- links:: --nocapture
