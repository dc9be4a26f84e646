#!/bin/sh
# The service program of WebAssembly modules and the modules that ship, beside
# the other programs.
#
#   packaging/wasm.sh           builds them: some minutes the first time
#   packaging/wasm.sh --build-tests   and their tests
#   packaging/wasm.sh --test          and runs the tests, after `tests/built.py build`
#
# VFUN_PROFILE   the build's profile (default: release)
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
profile=${VFUN_PROFILE:-release}
export VFUN_PROFILE=$profile
programs=$target/$profile
# A folder of its own: a build here holds up no other one.
wasm="--manifest-path services/wasm/Cargo.toml --target-dir $target/wasm --profile $profile --locked --quiet"

build() {
    # One at a time: two would move the same new file into place.
    mkdir -p "$programs"
    exec 9>"$programs/wasm.lock"
    flock 9
    # shellcheck disable=SC2086  # a list of words is meant
    cargo build $wasm 9>&-
    # Another file of that name may be running: it keeps its own.
    cp -p --remove-destination "$target/wasm/$profile/vfun-service-wasm" "$programs/vfun-service-wasm.new"
    mv "$programs/vfun-service-wasm.new" "$programs/vfun-service-wasm"
    services/wasm/modules/build.sh "$programs"
    exec 9>&-
}

case "${1-}" in
    '') build ;;
    --build-tests)
        build
        # shellcheck disable=SC2086
        cargo test --no-run $wasm
        ;;
    --test)
        build
        cargo fmt --manifest-path services/wasm/Cargo.toml --check
        # shellcheck disable=SC2086
        cargo test $wasm
        tests/built.py run vfun-tests-local -- --ignored
        ;;
    *) echo "wasm: unknown argument '$1'; there are --build-tests and --test" >&2; exit 1 ;;
esac
