#!/usr/bin/env bash
# The third act: one VF of a network card, and three guests. Each guest in its
# turn sends much, and the VF goes to it. The card is one that QEMU emulates, so
# its VF is no faster than the paravirtual NIC: what is real is the move of a bond
# in running guests, and the packets that arrive. Results are in target/demo/.
#
#   packaging/demo-nics.sh     needs root, and a network namespace and taps
#
# In a network of its own, so that the host's stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/release
out=$PWD/target/demo
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

if [ "${1-}" != --inside ]; then
    say "13. One VF of a network card, and three guests that want it in turn"
    why=
    [ "$(id -u)" = 0 ] || why="bridges and taps need root"
    [ -e /dev/net/tun ] || why="there is no /dev/net/tun"
    unshare --net --mount true 2>/dev/null || why=${why:-"this machine makes no network namespace"}
    if [ -n "$why" ]; then
        echo "This act is left out: $why."
        exit 0
    fi
    # Built where there is a network to fetch what that needs.
    module=$(packaging/kmod.sh)
    # /sys shows the interfaces of the namespace in which it was mounted.
    exec unshare --net --mount sh -c 'mount -t sysfs sysfs /sys && exec "$0" --inside "$1"' \
        "$PWD/packaging/demo-nics.sh" "$module"
fi

# Seconds that each guest sends much, and in which the VF must come to it.
turn=${TURN:-12}
root=$(mktemp -d /dev/shm/vfun-demo-XXXXXX)
export VFUN_ROOT=$root
manager=
guests=()
finish() {
    if [ ${#guests[@]} != 0 ]; then
        kill "${guests[@]}" 2>/dev/null || true
        wait "${guests[@]}" 2>/dev/null || true
    fi
    [ -n "$manager" ] && kill "$manager" 2>/dev/null && wait "$manager" 2>/dev/null
    rm -rf "$root"
}
trap finish EXIT
trap 'exit 130' INT TERM

ip link set lo up
# With an address of its own: else it changes when a port comes that has a lower one.
ip link add br0 address 02:00:00:09:00:01 type bridge
ip addr add 10.9.0.1/24 dev br0
ip link set br0 up
for tables in iptables ip6tables arptables; do
    # In this network of its own; where it is 1, iptables is a filter that a VF passes by.
    [ ! -e "/proc/sys/net/bridge/bridge-nf-call-$tables" ] || echo 0 >"/proc/sys/net/bridge/bridge-nf-call-$tables"
done
"$bin/vfund" --root "$root" --window-dir "$root" --functions functions --nics 2>"$out/vfund-nics.log" &
manager=$!
for _ in $(seq 200); do
    "$bin/vfun" nics list >/dev/null 2>&1 && break
    kill -0 "$manager" 2>/dev/null || { cat "$out/vfund-nics.log" >&2; exit 1; }
    sleep 0.05
done
show "$bin/vfun" nics pool add cards --emulated 1
show "$bin/vfun" nics set cards activity --interval 1s --tenure 3s

module=$2
# The guests' clocks are the host's: each one knows when its turn is.
begin=$(($(date +%s) + ${BOOT:-60}))
for n in 1 2 3; do
    at=$((begin + (n - 1) * turn))
    "$bin/vfun" guest --client "vm$n" --module "$module" --bridge br0 --address "10.9.0.1$n/24" --probe 10.9.0.1 --pool cards -- "
        while [ \$(date +%s) -lt $at ]; do sleep 0.1; done
        ping -q -A -w $turn 10.9.0.1
        while [ \$(date +%s) -lt $((begin + 3 * turn + 2)) ]; do sleep 0.5; done" \
        >"$out/nics-vm$n.txt" 2>&1 &
    guests+=($!)
done
until [ "$(date +%s)" -ge "$begin" ]; do sleep 0.2; done
show "$bin/vfun" nics list
for n in 1 2 3; do
    until [ "$(date +%s)" -ge $((begin + n * turn - 1)) ]; do sleep 0.2; done
    echo "# vm$n sends"
    show "$bin/vfun" nics list
done
show "$bin/vfun" nics explain vm1
show "$bin/vfun" nics chart --pool cards --output "$out/nics.svg"
for pid in "${guests[@]}"; do wait "$pid" || { cat "$out"/nics-vm*.txt >&2; exit 1; }; done
guests=()
say "What each guest saw while the VF came to it and while it left"
for n in 1 2 3; do
    printf 'vm%s: ' "$n"
    grep -h 'packet' "$out/nics-vm$n.txt"
    grep -h 'round-trip' "$out/nics-vm$n.txt"
done
