#!/usr/bin/env bash
# The second act: hardware and software. A device that is only modelled (no
# hardware: it says "simulated" wherever it is named) has two VFs, four clients
# call one function, and VFs move between them while they call; then the
# published experiments with leases, small. Results are in target/demo/.
#
#   packaging/demo-leases.sh                    by itself, on the host
#   packaging/demo-leases.sh --guest MODULE     and one grant of a real guest's
set -euo pipefail
cd "$(dirname "$0")/.."
module=
[ "${1-}" = --guest ] && module=$2
bin=$PWD/target/release
out=$PWD/target/demo
mkdir -p "$out"

root=$(mktemp -d /dev/shm/vfun-demo-XXXXXX)
export VFUN_ROOT=$root
manager=
callers=()
finish() {
    for pid in ${callers[@]+"${callers[@]}"}; do kill "$pid" 2>/dev/null || true; done
    wait ${callers[@]+"${callers[@]}"} 2>/dev/null || true
    [ -n "$manager" ] && kill "$manager" 2>/dev/null && wait "$manager" 2>/dev/null
    rm -rf "$root"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

# A grant of one client: calls one after the other, each of so many units.
caller() {
    "$bin/vfun" client add "$1" --kind host --window 1MiB >/dev/null
    "$bin/vfun" call model 1 "$2" 0 1,2,3 --client "$1" --wait sleep --repeat 100000000 --quiet >/dev/null 2>&1 &
    callers+=($!)
}

say "9. Hardware and software: functions with a device behind them (all simulated here)"
more=()
[ -e "$bin/libvfun_fn_sha256_fpga_simulated.so" ] && more=(--functions services/fpga/functions)
"$bin/vfund" --root "$root" --window-dir "$root" --functions functions ${more[@]+"${more[@]}"} \
    --functions services/modeldevice/functions --leases fair --lease-interval-ms 300 --lease-hold-ms 300 \
    2>"$out/vfund-leases.log" &
manager=$!
for _ in $(seq 200); do
    "$bin/vfun" status >/dev/null 2>&1 && break
    kill -0 "$manager" 2>/dev/null || { cat "$out/vfund-leases.log" >&2; exit 1; }
    sleep 0.05
done
show "$bin/vfun" list
show "$bin/vfun" call model 1 0 0 1,2,3 --on software
show "$bin/vfun" call model 1 0 0 1,2,3 --on hardware

say "10. Four clients and two VFs: each in turn (fair)"
caller small 0
caller middle 1000
caller large 5000
caller larger 10000
sleep 1.2
show "$bin/vfun" leases list
sleep 0.5
echo "# a little later"
show "$bin/vfun" leases list
say "Now whoever gains the most (gain)"
show "$bin/vfun" leases set gain
sleep 2.5
show "$bin/vfun" leases list
# The first column of the first rows with a VF and without one.
for vf in '[0-9]+' '-'; do
    grant=$("$bin/vfun" leases list | awk -v vf="^$vf\$" '$1 ~ /^[0-9]+\.[0-9]+$/ && $4 ~ vf { print $1; exit }')
    [ -z "$grant" ] || show "$bin/vfun" leases explain "$grant"
done
show "$bin/vfun" ps

quiet() {
    kill "${callers[@]}" 2>/dev/null || true
    wait "${callers[@]}" 2>/dev/null || true
    callers=()
}
quiet

if [ -n "$module" ]; then
    say "11. A client in a real guest: its calls go on while its lease moves"
    "$bin/vfun" leases set fair >/dev/null
    "$bin/vfun" guest --client demo-vm --module "$module" --user app -- \
        "vfun call model 1 0 0 1,2,3 --repeat 2500" &
    guest=$!
    # Two others come when it calls: three clients, two VFs.
    for _ in $(seq 400); do
        kill -0 "$guest" 2>/dev/null || break
        if [ ${#callers[@]} = 0 ]; then
            "$bin/vfun" ps | grep -q 'demo-vm .*model.* active' && { caller small 0; caller middle 1000; }
        elif "$bin/vfun" leases list | awk '$2 == "demo-vm" { exit !($0 ~ / [0-9]+ +[0-9%-]+ +([4-9]|[0-9][0-9]+) +(it|others) /) }'; then
            show "$bin/vfun" leases list
            break
        fi
        sleep 0.1
    done
    wait "$guest"
    quiet
fi

kill "$manager"
wait "$manager" 2>/dev/null || true
manager=

say "12. The published experiments with leases, small: run with real services, and in simulated time"
show "$bin/vfun" bench leases --short \
    --json "$out/leases.json" --csv "$out/leases.csv" --chart "$out/leases.png" --chart "$out/leases.svg"
