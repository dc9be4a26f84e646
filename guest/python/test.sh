#!/bin/sh
# Every check of the Python package: builds and installs the wheel, then
# pytest (with a real vfund), the same without numpy, doctests, and mypy.
# The programs must have been built: `cargo build --release --workspace`, or with
# the profile that VFUN_PROFILE names.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
python=$(packaging/python.sh)
profile=${VFUN_PROFILE:-release}
[ -x "$target/$profile/vfund" ] || { echo "vfund is not built: cargo build --profile $profile --workspace" >&2; exit 1; }
export CARGO_TARGET_DIR="$target"

# Not from the sources: what is tested is what was installed.
cd guest/python/tests
"$python" -m pytest -p no:cacheprovider "$@" .
VFUN_WITHOUT_NUMPY=1 "$python" -m pytest -p no:cacheprovider "$@" .
cd ..
"$python" -m mypy --strict --no-error-summary --cache-dir="$target/python/mypy" -p virtfun
"$python" -m mypy --strict --no-error-summary --cache-dir="$target/python/mypy" examples/tour.py tests/typed.py
