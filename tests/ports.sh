#!/bin/sh
# Ports: the DPDK driver with stock testpmd and stock Open vSwitch. Needs root; installs
# DPDK's packages and fetches Open vSwitch.
#
#   tests/ports.sh           all of it
#   tests/ports.sh rates     packets a second, beside DPDK's own drivers
#   tests/ports.sh NAME      one test of guest/dpdk/tests/test_ports.py, as Ports.test_...
set -eu
cd "$(dirname "$0")/.."
VFUN_DPDK_DRIVER=$(packaging/dpdk.sh)
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
export VFUN_DPDK_DRIVER VFUN_OVS_DIR
if [ "${1-}" = rates ]; then
    shift
    exec python3 guest/dpdk/tests/rates.py "$@"
fi
# Both ends under the address sanitizer, with a peer that writes while they read.
if [ $# -eq 0 ]; then
    gcc -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -pthread -Wall -Wextra -Werror \
        -Iprotocol/packet/include -o target/dpdk/hostile guest/dpdk/tests/hostile.c
    target/dpdk/hostile 20000000
fi
exec python3 guest/dpdk/tests/test_ports.py "$@"
