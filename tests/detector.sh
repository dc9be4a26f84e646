#!/bin/sh
# The detector of direct links (docs/links-detector.md) on a stock Open vSwitch with a datapath that moves
# no frames, alone and with a manager: half a minute. Fetches Open vSwitch; installs nothing, and needs no root.
set -eu
cd "$(dirname "$0")/.."
VFUN_OVS_DIR=$(packaging/ovs-dpdk.sh)
export VFUN_OVS_DIR
tests/built.py run vfun-links/openvswitch -- --nocapture
exec tests/built.py run vfun-tests-local -- links::a_verdict --nocapture
