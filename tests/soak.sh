#!/usr/bin/env bash
# Everything at once, for an hour or MINUTES: guests that reboot, apps that die,
# attackers in turns, a manager that is started anew. Samples go to a CSV file
# (CSV=FILE), a table of what grows to stdout; fails if anything does.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
# In a whole run the stage `release` has built it, with the features of its tests.
[ -n "${VFUN_STAGES-}" ] || cargo build --release --workspace --quiet
exec "$target/release/vfun-soak" --minutes "${MINUTES:-60}" --seed "${SEED:-1}" \
    --csv "${CSV:-$target/soak.csv}"
