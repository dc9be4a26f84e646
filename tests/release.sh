#!/bin/sh
# The tests in real guests, run on the build that ships. All others run on the
# profile `ci`, which compiles sooner.
set -eu
cd "$(dirname "$0")/.."
export VFUN_PROFILE=release
tests/built.py build
tests/built.py run vfun-testguest vfun-tests-vm
