#!/usr/bin/env bash
# A shell in a real guest, with vfun and the kernel module ready and a manager
# behind it. Both are gone when you leave (poweroff, or Ctrl-A X).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/release
module=$(packaging/kmod.sh)
root=$(mktemp -d /dev/shm/vfun-guest-XXXXXX)
export VFUN_ROOT=$root
"$bin/vfund" --root "$root" --window-dir "$root" --functions functions 2>"$root/vfund.log" &
manager=$!
trap 'kill $manager 2>/dev/null; wait $manager 2>/dev/null; rm -rf "$root"' EXIT
until "$bin/vfun" status >/dev/null 2>&1; do
    kill -0 "$manager" 2>/dev/null || { cat "$root/vfund.log" >&2; exit 1; }
    sleep 0.05
done
echo "Try: vfun doctor; vfun list; vfun call factorial 20; vfun call echo hello --repeat 100000"
echo "You are root; 'su app' makes you a user without rights, for whom all of this works too."
"$bin/vfun" guest --client shell --module "$module" "$@"
