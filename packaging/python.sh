#!/bin/sh
# Builds the Python package: a wheel in target/wheels, and a virtual
# environment in target/python with the wheel, numpy, pytest and mypy in it.
# Does only what is not done yet. Prints the environment's python.
#
#   packaging/python.sh            build and install
#   packaging/python.sh --wheel    only the wheel, for those who install it themselves
#   packaging/python.sh --tools    only the environment with what others make; needs nothing built
#
# VFUN_PROFILE   the build's profile (default: release)
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
venv=$target/python
python=$venv/bin/python

say() { printf '%s\n' "python: $*" >&2; }

host=${PYTHON:-python3}
"$host" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    { say "Python 3.11 or newer is needed (packaging/setup.sh installs it on Debian 12, PYTHON names another)"; exit 1; }
# One at a time: two would install into one environment.
mkdir -p "$target"
exec 9>"$target/python.lock"
flock 9
if [ ! -x "$python" ]; then
    "$host" -m venv "$venv" || { say "no virtual environment: is python3-venv installed?"; exit 1; }
fi
# What the tests need, once; the stamp names it.
tools='maturin>=1.9,<2 numpy pytest mypy'
if [ "$(cat "$venv/tools" 2>/dev/null)" != "$tools" ]; then
    # shellcheck disable=SC2086  # a list of words is meant
    "$python" -m pip install --quiet --disable-pip-version-check $tools >&2
    printf '%s\n' "$tools" >"$venv/tools"
fi

[ "${1-}" != --tools ] || exit 0

CARGO_TARGET_DIR=$target "$venv/bin/maturin" build --profile "${VFUN_PROFILE:-release}" --quiet --strip \
    --interpreter "$python" --manifest-path guest/python/Cargo.toml --out "$target/wheels" >&2 9>&-
wheel=$(ls -t "$target"/wheels/virtfun-*.whl | head -n1)
if [ "${1-}" = --wheel ]; then
    printf '%s\n' "$wheel"
    exit 0
fi
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel" >&2
printf '%s\n' "$python"
