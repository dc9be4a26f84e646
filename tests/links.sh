#!/bin/sh
# Direct links: real guests, past a stock Open vSwitch with DPDK and back. Needs root, and what
# tests/built.py built; installs DPDK's packages and fetches Open vSwitch.
#
#   tests/links.sh           they come and go under traffic
#   tests/links.sh figures   what they cost beside the way through the switch
#   tests/links.sh chain     the same of chains of two, four and eight guests
#   tests/links.sh rates     `vfun bench links` with this driver and this switch: packets a second,
#                            beside the switch; options of that may follow, such as --rounds 2
set -eu
cd "$(dirname "$0")/.."
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
export VFUN_OVS_DIR VFUN_DPDK_DRIVER
if [ "${1-}" = rates ]; then
    shift
    PATH="$VFUN_OVS_DIR:$PATH" exec "${CARGO_TARGET_DIR:-$PWD/target}/${VFUN_PROFILE:-ci}/vfun-bench" links \
        --dpdk-driver "$VFUN_DPDK_DRIVER" "$@"
fi
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
case "${1-}" in
figures | chain)
    VFUN_NET_PROGRAMS=$(packaging/net-programs.sh)
    export VFUN_NET_PROGRAMS
    [ "$1" = chain ] && export VFUN_LINKS_CHAIN=1 || export VFUN_LINKS_FIGURES=1
    PATH="$VFUN_OVS_DIR:$PATH" \
        exec tests/built.py run vfun-tests-vm -- "links_$1::" --nocapture --test-threads 1
    ;;
esac
# vfund finds ovs-vsctl there.
PATH="$VFUN_OVS_DIR:$PATH" exec tests/built.py run vfun-tests-vm -- links:: --nocapture
