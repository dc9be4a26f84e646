#!/bin/sh
# All programs of Debian for RDMA that docs/verbs.md names, in two guests that have no RDMA
# device. `make test` runs one of each kind there. It needs what tests/built.py built.
set -eu
cd "$(dirname "$0")/.."
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
export VFUN_RDMA_FULL=1
tests/built.py run vfun-tests-vm -- verbs:: --nocapture
