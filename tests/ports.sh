#!/bin/sh
# Ports: guests' interfaces in a stock Open vSwitch, with programs of Debian; and the DPDK
# driver with stock testpmd and stock Open vSwitch. Needs root, and what tests/built.py
# built; installs DPDK's packages and fetches Open vSwitch and the programs.
#
#   tests/ports.sh           all of it
#   tests/ports.sh guests    what guests do
#   tests/ports.sh figures   a guest's port beside QEMU's virtio-net card, with a tap device and
#                            with vhost
#   tests/ports.sh rates     `vfun bench ports` with this driver: packets a second, beside DPDK's own
#                            drivers; options of that may follow, such as --rounds 2
#   tests/ports.sh NAME      some tests of guest/dpdk/tests/test_*.py, as Memory or Ports.test_...;
#                            VFUN_HANDOVERS says how long the long run is (test_thousands...)
set -eu
cd "$(dirname "$0")/.."
if [ "${1-}" = rates ]; then
    shift
    driver=$(packaging/dpdk.sh)
    exec "${CARGO_TARGET_DIR:-$PWD/target}/${VFUN_PROFILE:-ci}/vfun-bench" ports --dpdk-driver "$driver" "$@"
fi
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
export VFUN_OVS_DIR
if [ $# -eq 0 ] || [ "$1" = guests ]; then
    packaging/guest-kernel.sh >/dev/null
    packaging/kmod.sh >/dev/null
    VFUN_NET_PROGRAMS=$(packaging/net-programs.sh)
    VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
    export VFUN_DPDK_DRIVER
    # vfund finds ovs-vsctl there.
    VFUN_NET_PROGRAMS=$VFUN_NET_PROGRAMS PATH="$VFUN_OVS_DIR:$PATH" \
        tests/built.py run vfun-tests-vm -- ports_programs:: ports_testpmd:: --nocapture
    [ $# -eq 0 ] || exit 0
fi
if [ "${1-}" = figures ]; then
    VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
    export VFUN_DPDK_DRIVER
    VFUN_NET_PROGRAMS=$(packaging/net-programs.sh) VFUN_PORTS_FIGURES=1 \
        exec tests/built.py run vfun-tests-vm -- ports_figures:: --nocapture --test-threads 1
fi
VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
export VFUN_DPDK_DRIVER
# The package puts the driver where DPDK loads what is for its release.
if [ $# -eq 0 ]; then
    deb=$PWD/target/dpdk/deb
    rm -rf "$deb"
    VFUN_DEB_DIR=$deb VFUN_DEB_COMPRESS=none packaging/deb.sh virtfun-dpdk
    dpkg-deb -x "$deb"/virtfun-dpdk_*.deb "$deb/root"
    loads=$(find /usr/lib/*/dpdk -maxdepth 1 -name 'pmds-*')
    [ -f "$deb/root$loads/librte_net_vfun.so.${loads##*-}" ] || { echo "virtfun-dpdk has no driver in $loads" >&2; exit 1; }
fi
# Both ends under the address sanitizer, with a peer that writes while they read.
if [ $# -eq 0 ]; then
    gcc -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -pthread -Wall -Wextra -Werror \
        -Iprotocol/packet/include -o target/dpdk/hostile guest/dpdk/tests/hostile.c
    target/dpdk/hostile 20000000
fi
if [ $# -eq 0 ]; then
    # Stock Open vSwitch with a driver that has the address sanitizer in it.
    VFUN_SANITIZED_DRIVER=$(packaging/dpdk.sh --sanitized) \
        python3 guest/dpdk/tests/all.py Ports.test_a_guest_that_writes_anything_anywhere_hurts_its_own_port_alone \
        Links.test_links_come_and_go_under_traffic Links.test_memory_of_either_port_goes_and_comes \
        Links.test_a_device_that_is_closed_ends_its_links Links.test_a_sender_that_does_not_turn_is_turned_by_force
fi
# The long run of handovers is not for those who name a test.
[ $# -gt 0 ] || export VFUN_HANDOVERS="${VFUN_HANDOVERS:-10000}"
exec python3 guest/dpdk/tests/all.py "$@"
