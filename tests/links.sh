#!/bin/sh
# Direct links: real guests, past a stock Open vSwitch with DPDK and back; with the kernel's
# interfaces, and with testpmd in both. Needs root, and what tests/built.py built; installs DPDK's
# packages and fetches Open vSwitch.
#
#   tests/links.sh           they come and go under traffic
#   tests/links.sh features  each feature of the switch, switched on and off under traffic
#   tests/links.sh trouble   one of the two VMs is stopped, killed, started again, or writes anything
#   tests/links.sh figures   what they cost beside the way through the switch
#   tests/links.sh handovers how long it takes that they come and go
#   tests/links.sh chain     the same of chains of two, four and eight guests
#   tests/links.sh rates     `vfun bench links` with this driver and this switch: packets a second,
#                            beside the switch; options of that may follow, such as --rounds 2
#   tests/links.sh proxy     the proxy of OpenFlow between a switch and a controller: no guest, no root; fetches
#                            a controller, too
set -eu
cd "$(dirname "$0")/.."
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
if [ "${1-}" = proxy ]; then
    VFUN_OSKEN=$(packaging/os-ken.sh)
    export VFUN_OVS_DIR VFUN_OSKEN
    exec tests/built.py run vfun-linkproxy/proxy -- openvswitch:: --nocapture
fi
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
    '') tests='links:: links_testpmd::' ;;
    features | trouble) tests=links_$1:: ;;
    figures | handovers | chain)
        tests=links_$1::
        VFUN_NET_PROGRAMS=$(packaging/net-programs.sh)
        VFUN_LINKS_FIGURES=1
        export VFUN_NET_PROGRAMS VFUN_LINKS_FIGURES
        ;;
    *)
        echo "tests/links.sh: there is no '$1', but features, trouble, figures, handovers, chain, rates and proxy" >&2
        exit 2
        ;;
esac
# vfund finds ovs-vsctl there.
# shellcheck disable=SC2086 # words
PATH="$VFUN_OVS_DIR:$PATH" exec tests/built.py run vfun-tests-vm -- $tests --nocapture --test-threads 1
