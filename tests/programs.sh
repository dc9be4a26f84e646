#!/bin/sh
# Programs of Debian, as their packages have them, go on while a VF comes into their VM
# and goes again. Fetches them; nothing is installed. Needs root, for a network of its
# own, and what tests/built.py built.
set -eu
cd "$(dirname "$0")/.."
packaging/guest-kernel.sh >/dev/null
packaging/kmod.sh >/dev/null
VFUN_NET_PROGRAMS=$(packaging/net-programs.sh)
export VFUN_NET_PROGRAMS
tests/built.py run vfun-tests-vm -- nics_programs:: --nocapture
