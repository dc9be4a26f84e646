#!/bin/sh
# Measures what a VF gains for servers of Debian, as their packages have them, on a real
# path: the VF is a port of a stock Open vSwitch with DPDK. Shows a table, and writes it
# as JSON too. Fetches all that; nothing is installed. Needs root, for a network of its
# own, and what tests/built.py built.
#
#   tests/servers.sh           all of it (about 5 minutes)
#   tests/servers.sh --fetch   only fetch what is missing
#
# VFUN_SERVERS_JSON     the file with the figures (default: target/servers.json)
# VFUN_SERVERS_ROUNDS   how often each server is measured by each way (default: 5)
set -eu
cd "$(dirname "$0")/.."
# The kernel for clouds has no driver of the emulated NIC that is compared with.
export VFUN_GUEST_KERNEL_PKG=linux-image-amd64 VFUN_GUEST_KERNEL_DIR="$PWD/target/guest-kernel-full"
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
VFUN_NET_PROGRAMS=$(packaging/net-programs.sh --servers)
qemu=$(packaging/qemu-igb.sh)
[ "${1-}" = --fetch ] && exit 0
# Why this QEMU, and what it is found by: tests/ovs.sh.
mkdir -p target/tmp/ovs
ln -sf "$qemu/qemu" target/tmp/ovs/qemu-system-x86_64
export VFUN_OVS_DIR VFUN_NET_PROGRAMS PATH="$PWD/target/tmp/ovs:$VFUN_OVS_DIR:$PATH" \
    VFUN_SERVERS_JSON="${VFUN_SERVERS_JSON:-$PWD/target/servers.json}"
tests/built.py run vfun-tests-vm -- nics_servers:: --nocapture
