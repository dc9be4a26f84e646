#!/usr/bin/env bash
# The last act: two guests whose network interfaces are ports of a stock Open vSwitch, by their
# windows, without an emulated network card. Debian's ping and iperf3 run in them, unchanged.
# Results are in target/demo/.
#
#   packaging/demo-ports.sh     needs root, and a network namespace and taps
#
# VFUN_BIN   the folder of programs (default: target/release)
#
# In a network of its own, so that the host's stays as it is. Open vSwitch and the programs are
# fetched, and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${VFUN_BIN:-$PWD/target/release}
out=$PWD/target/demo
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

if [ "${1-}" != --inside ]; then
    say "14. Ports: two guests without a network card reach each other through a stock Open vSwitch"
    why=
    [ "$(id -u)" = 0 ] || why="switches and taps need root"
    [ -e /dev/net/tun ] || why="there is no /dev/net/tun"
    unshare --net --mount true 2>/dev/null || why=${why:-"this machine makes no network namespace"}
    if [ -n "$why" ]; then
        echo "This act is left out: $why."
        exit 0
    fi
    # Built and fetched where there is a network.
    module=$(packaging/kmod.sh)
    programs=$(packaging/net-programs.sh)
    switch=$(packaging/ovs-dpdk.sh)
    # /sys shows the interfaces of the namespace in which it was mounted.
    exec unshare --net --mount sh -c 'mount -t sysfs sysfs /sys && exec "$0" --inside "$1" "$2" "$3"' \
        "$PWD/packaging/demo-ports.sh" "$module" "$programs" "$switch"
fi

module=$2 programs=$3 switch=$4
root=$(mktemp -d /dev/shm/vfun-demo-XXXXXX)
export VFUN_ROOT=$root PATH=$switch:$PATH
# Where its programs look for the switch.
export OVS_RUNDIR=$root/ovs OVS_LOGDIR=$root/ovs OVS_DBDIR=$root/ovs OVS_SYSCONFDIR=$root/ovs
running=()
server=
finish() {
    [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
    if [ ${#running[@]} != 0 ]; then
        kill "${running[@]}" 2>/dev/null || true
        wait "${running[@]}" 2>/dev/null || true
    fi
    rm -rf "$root"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Until a command succeeds; a switch and a manager start within seconds.
until_it() { for _ in $(seq 400); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; "$@"; }

ip link set lo up
mkdir "$OVS_RUNDIR"
ovsdb-tool create "$OVS_RUNDIR/conf.db" "$switch/vswitch.ovsschema"
ovsdb-server "$OVS_RUNDIR/conf.db" --remote="punix:$OVS_RUNDIR/db.sock" 2>"$out/ovsdb.log" &
running+=($!)
until_it test -S "$OVS_RUNDIR/db.sock"
ovs-vsctl --no-wait init
ovs-vswitchd "unix:$OVS_RUNDIR/db.sock" --pidfile="$OVS_RUNDIR/ovs-vswitchd.pid" 2>"$out/ovs-vswitchd.log" &
running+=($!)
show ovs-vsctl --timeout=20 add-br br0 -- set Bridge br0 datapath_type=netdev
"$bin/vfund" --root "$root" --window-dir "$root" --functions functions --ports 2>"$out/vfund-ports.log" &
running+=($!)
until_it "$bin/vfun" status
for n in 1 2; do
    show "$bin/vfun" client add "vm$n" | sed 1q
    show "$bin/vfun" port add "vm$n" eth1 --switch br0
done

# The interface is there as soon as the module is loaded.
ready="
    for i in \$(seq 600); do [ -e /sys/class/net/eth1 ] && break; sleep 0.1; done
    mkdir /programs && tar -xf /programs.tar -C /programs && mount -t proc proc /programs/proc && mount -o bind /dev /programs/dev"
guest() { # NUMBER SCRIPT
    "$bin/vfun" guest --client "vm$1" --module "$module" --file "$programs/root.tar:/programs.tar" -- "$ready
        ip addr add 10.9.0.1$1/24 dev eth1
        ip link set eth1 up
        $2"
}
guest 2 "chroot /programs /usr/bin/iperf3 -s -1" >"$out/ports-vm2.txt" 2>&1 &
server=$!
echo "# in the VM 1:"
guest 1 "
    ip link show eth1
    for i in \$(seq 120); do ping -c 1 -W 1 10.9.0.12 >/dev/null && break; done
    chroot /programs /bin/ping -c 5 -i 0.2 10.9.0.12
    for i in \$(seq 60); do chroot /programs /usr/bin/iperf3 -c 10.9.0.12 -t 5 && exit 0; sleep 1; done; exit 1" |
    tee "$out/ports-vm1.txt"
wait "$server" || { cat "$out/ports-vm2.txt" >&2; exit 1; }
server=
show "$bin/vfun" port list
show ovs-vsctl show
show ovs-ofctl dump-ports "unix:$OVS_RUNDIR/br0.mgmt"
