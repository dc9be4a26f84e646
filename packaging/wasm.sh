#!/bin/sh
# The service program of WebAssembly modules and the modules that ship, beside
# the other programs.
#
#   packaging/wasm.sh           builds them: some minutes the first time
#   packaging/wasm.sh --test    and tests them, after `tests/built.py build`
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
wasm="--manifest-path services/wasm/Cargo.toml --target-dir $target --quiet"
case "${1-}" in
    '') ;;
    --test) ;;
    *) echo "wasm: unknown argument '$1'; the only one is --test" >&2; exit 1 ;;
esac
# shellcheck disable=SC2086  # a list of words is meant
cargo build --release --locked $wasm
services/wasm/modules/build.sh "$target/release"
if [ "${1-}" = --test ]; then
    cargo fmt --manifest-path services/wasm/Cargo.toml --check
    # In release, so that wasmtime is built once.
    # shellcheck disable=SC2086
    cargo test --release --locked $wasm
    tests/built.py run vfun-tests-local/wasm vfun-tests-local/submit -- --ignored
fi
