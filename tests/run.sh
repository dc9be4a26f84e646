#!/usr/bin/env bash
# Every check, stage by stage, with the time each took. `make test` runs all;
# `tests/run.sh local` and `tests/run.sh vm` run a part.
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-all}
began=$SECONDS
failed=()
passed=0
lines=()

stage() { # NAME COMMAND...
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n=== %s: %s\n' "$name" "$*"
    "$@" || status=$?
    local took=$((SECONDS - start))
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        lines+=("$(printf '%5d s  ok      %s' "$took" "$name")")
    else
        failed+=("$name")
        lines+=("$(printf '%5d s  FAILED  %s' "$took" "$name")")
    fi
}

# What tests/built.py keeps for the end.
target=${CARGO_TARGET_DIR:-target}
rm -f "$target/failed.txt"

# Quiet unless something goes wrong: the log of a good run is short.
export RUST_BACKTRACE=${RUST_BACKTRACE:-0}
export VFUN_REPO=$PWD

stage 'setup' make --no-print-directory setup
if [ "${#failed[@]}" -gt 0 ]; then exit 1; fi

if [ "$part" != vm ]; then
    stage 'format' cargo fmt --all --check
    # --release: what C code there is among the dependencies is compiled once.
    stage 'lint' cargo clippy --release --workspace --all-targets --quiet -- -D warnings
fi
# Programs and tests of all crates in one go; tests/built.py says why.
stage 'build' tests/built.py build
if [ "$part" != vm ]; then
    stage 'unit and local tests' tests/built.py run -vfun-tests-vm -vfun-testguest -vfun-tests-hostile
    stage 'examples in the documentation' cargo test --release --workspace --doc --quiet
    stage 'attacks, chaos, crash matrix' tests/built.py run vfun-tests-hostile -vfun-tests-hostile/guests -- --test-threads 2
    stage 'WebAssembly' packaging/wasm.sh --test
    stage 'loom: callers, server, sleep and wake' env RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom \
        cargo test --release --quiet -p vfun-ring --test loom
    stage 'fuzz, 5 s a target' fuzz/run.sh 5
    stage 'valgrind: protocol' tests/sanitizers.sh valgrind
    stage 'mutations find their places' tests/sim/mutants.py --check
    stage 'Python package' guest/python/test.sh -q
fi
if [ "$part" != local ]; then
    stage 'kernel module: all warnings, sparse' packaging/kmod.sh --check
    stage 'kernel module: the newer kernel too' packaging/kmod.sh --backports
    stage 'a guest of Debian: our packages by DKMS' packaging/debian-guest.sh
    stage 'test guests' tests/built.py run vfun-testguest
    stage 'real guests' tests/built.py run vfun-tests-vm
    stage "attackers' guests" tests/built.py run vfun-tests-hostile/guests -- --test-threads 1
fi

printf '\n=== stages\n'
printf '%s\n' "${lines[@]}"
printf '%5d s  in all\n' $((SECONDS - began))
printf '%d passed, %d failed\n' "$passed" "${#failed[@]}"
if [ -s "$target/failed.txt" ]; then
    printf '\n=== tests that failed, some perhaps at the first try only\n'
    cat "$target/failed.txt"
fi
[ "${#failed[@]}" = 0 ]
