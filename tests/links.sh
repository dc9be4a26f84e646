#!/bin/sh
# Direct links: real guests, past a stock Open vSwitch with DPDK and back; with the kernel's
# interfaces, and with testpmd in both. Needs root, and what tests/built.py built; installs DPDK's
# packages and fetches Open vSwitch.
#
#   tests/links.sh           they come and go under traffic
#   tests/links.sh figures   what they cost beside the way through the switch
set -eu
cd "$(dirname "$0")/.."
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
export VFUN_OVS_DIR VFUN_DPDK_DRIVER
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
if [ "${1-}" = figures ]; then
    VFUN_NET_PROGRAMS=$(packaging/net-programs.sh)
    export VFUN_NET_PROGRAMS
    PATH="$VFUN_OVS_DIR:$PATH" VFUN_LINKS_FIGURES=1 \
        exec tests/built.py run vfun-tests-vm -- links_figures:: --nocapture --test-threads 1
fi
# vfund finds ovs-vsctl there.
PATH="$VFUN_OVS_DIR:$PATH" exec tests/built.py run vfun-tests-vm -- links:: links_testpmd:: --nocapture --test-threads 1
