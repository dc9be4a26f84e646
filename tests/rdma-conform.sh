#!/bin/sh
# What our NIC for RDMA answers, compared with Soft-RoCE, the kernel's own, in a guest whose kernel has it.
# It needs what tests/built.py built.
#
#   tests/rdma-conform.sh           all of it
#   tests/rdma-conform.sh --fetch   only fetch what is missing
set -eu
cd "$(dirname "$0")/.."
# The kernel for clouds has no devices for RDMA.
export VFUN_GUEST_KERNEL_PKG=linux-image-amd64 VFUN_GUEST_KERNEL_DIR="$PWD/target/guest-kernel-full"
packaging/guest-kernel.sh >/dev/null
[ "${1-}" = --fetch ] && exit 0
export VFUN_RDMA_SOFT_ROCE=1
tests/built.py run vfun-tests-vm -- verbs_conform:: --nocapture
