#!/bin/sh
# Every order in which callers and server, producer and consumer, sleep and
# wake can meet, by loom.
#
#   tests/loom.sh          builds and runs
#   tests/loom.sh build    only builds
set -eu
cd "$(dirname "$0")/.."
no_run=
[ "${1-}" != build ] || no_run=--no-run
# Other flags, so a folder of its own. Always optimized: it tries millions of orders.
RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/loom \
    cargo test --release --quiet $no_run -p vfun-ring -p vfun-queue -p vfun-packet -p vfun-verbs --test loom
