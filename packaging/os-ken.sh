#!/bin/sh
# Makes a virtual environment with os-ken, a controller for OpenFlow, in target/os-ken, and prints its
# python. Does nothing but print when it is there already.
set -eu
cd "$(dirname "$0")/.."
venv=${CARGO_TARGET_DIR:-$PWD/target}/os-ken
python=$venv/bin/python

say() { printf '%s\n' "os-ken: $*" >&2; }

# Tried with this one.
tools='os-ken>=4.2,<5'
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if [ ! -x "$python" ]; then
    "${PYTHON:-python3}" -m venv "$venv" || { say "no virtual environment: is python3-venv installed?"; exit 1; }
fi
if [ "$(cat "$venv/tools" 2>/dev/null)" != "$tools" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check "$tools" >&2 9>&-
    printf '%s\n' "$tools" >"$venv/tools"
fi
printf '%s\n' "$python"
