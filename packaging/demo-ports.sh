#!/usr/bin/env bash
# The last act: three guests in a chain, whose network interfaces are ports of a stock Open
# vSwitch with DPDK, by their windows, without an emulated network card. Debian's ping and iperf3
# run in them, unchanged: first through the switch, then over direct links past it, then with a
# mirror in the switch, which takes a link back. Results are in target/demo/.
#
#   packaging/demo-ports.sh     needs root, and a network namespace and taps
#
# VFUN_BIN   the folder of programs (default: target/release)
#
# In a network of its own, so that the host's stays as it is. Open vSwitch and the programs are
# fetched, and not installed; DPDK's packages, with which the switch's driver is built, are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${VFUN_BIN:-$PWD/target/release}
out=$PWD/target/demo
mkdir -p "$out"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

if [ "${1-}" != --inside ]; then
    say "14. Ports and direct links: three guests without a network card, through a stock Open vSwitch and past it"
    why=
    [ "$(id -u)" = 0 ] || why="switches and taps need root"
    [ -e /dev/net/tun ] || why="there is no /dev/net/tun"
    command -v python3 >/dev/null || why="python3 is missing"
    unshare --net --mount true 2>/dev/null || why=${why:-"this machine makes no network namespace"}
    if [ -n "$why" ]; then
        echo "This act is left out: $why."
        exit 0
    fi
    # Built and fetched where there is a network.
    module=$(packaging/kmod.sh)
    programs=$(packaging/net-programs.sh)
    switch=$(packaging/ovs-dpdk.sh)
    driver=$(packaging/dpdk.sh)
    # /sys shows the interfaces of the namespace in which it was mounted.
    exec unshare --net --mount sh -c 'mount -t sysfs sysfs /sys && exec "$@"' sh \
        "$PWD/packaging/demo-ports.sh" --inside "$module" "$programs" "$switch" "$driver"
fi

module=$2 programs=$3 switch=$4 driver=$5
root=$(mktemp -d /dev/shm/vfun-demo-XXXXXX)
export VFUN_ROOT=$root PATH=$switch:$PATH
# Where its programs look for the switch.
export OVS_RUNDIR=$root/ovs OVS_LOGDIR=$root/ovs OVS_DBDIR=$root/ovs OVS_SYSCONFDIR=$root/ovs
running=()
finish() {
    if [ ${#running[@]} != 0 ]; then
        kill "${running[@]}" 2>/dev/null || true
        wait "${running[@]}" 2>/dev/null || true
    fi
    rm -rf "$root"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Until a command succeeds: for some minutes, as emulated guests are slow.
until_it() { for _ in $(seq 3600); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; "$@"; }

# ---- the switch, with DPDK and our driver --------------------------------------

start_switch() {
    ip link set lo up
    mkdir "$OVS_RUNDIR"
    ovsdb-tool create "$OVS_RUNDIR/conf.db" "$switch/vswitch.ovsschema"
    ovsdb-server "$OVS_RUNDIR/conf.db" --remote="punix:$OVS_RUNDIR/db.sock" 2>"$out/ovsdb.log" &
    running+=($!)
    until_it test -S "$OVS_RUNDIR/db.sock"
    local drivers='' file
    for file in "$switch"/drivers/* "$driver"; do drivers+=" -d $file"; done
    ovs-vsctl --no-wait init
    ovs-vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true \
        other_config:pmd-cpu-mask=0x1 other_config:pmd-maxsleep=100 other_config:per-port-memory=true \
        other_config:dpdk-extra="\"--no-huge -m 480 --no-pci --no-telemetry --legacy-mem --no-shconf$drivers\""
    ovs-vswitchd "unix:$OVS_RUNDIR/db.sock" --pidfile="$OVS_RUNDIR/ovs-vswitchd.pid" 2>"$out/ovs-vswitchd.log" &
    running+=($!)
    show ovs-vsctl --timeout=60 add-br br0 -- set Bridge br0 datapath_type=netdev
}
rules() { ovs-ofctl "$1" "unix:$OVS_RUNDIR/br0.mgmt" "${@:2}"; }

# ---- the manager, and a client with three VMs -------------------------------------

vms=(a b c)
manifest() {
    printf 'name = "web"\nwindow = "16 MiB"\n'
    local vm port
    for vm in "${vms[@]}"; do
        # By this the manager plugs the memory of a link into the running VM.
        printf '[vm.%s]\nqmp = "%s"\n' "$vm" "$root/$vm.qmp"
        for port in eth1 eth2; do
            [ "$vm" != b ] && [ $port = eth2 ] && continue
            printf '[vm.%s.ports.%s]\nswitch = "br0"\nway = "dpdk"\n' "$vm" $port
        done
    done
}
start_manager() {
    "$bin/vfund" --root "$root" --window-dir "$root" --functions functions --ports --links 2>"$out/vfund-ports.log" &
    running+=($!)
    until_it "$bin/vfun" status
    manifest >"$root/web.toml"
    show "$bin/vfun" client add --file "$root/web.toml" | sed 1q
}
# The switch's name for a port of a VM.
port() { "$bin/vfun" --json port list | python3 -c '
import json, sys
print(*[p["tap"] for p in json.load(sys.stdin) if p["vm"].split("/")[-1] == sys.argv[1] and p["port"] == sys.argv[2]])' "$@"; }

# ---- guests, each with a shell that this script writes to --------------------------

declare -A shells
vm() { # NAME
    mkfifo "$root/$1.in"
    local files=()
    [ "$1" = b ] || files=(--file "$programs/root.tar:/programs.tar")
    "$bin/vfun" guest --client "web/$1" --module "$module" --qmp "$root/$1.qmp" \
        ${files[@]+"${files[@]}"} <"$root/$1.in" >"$out/ports-$1.txt" 2>&1 &
    running+=($!)
    shells[$1]=$!
    # Held open as long as this script runs: the shell ends with its input.
    exec {held}>"$root/$1.in"
    eval "to_$1=$held"
}
# Its shell edits lines, and asks the terminal questions before it reads: it makes room for one that does not.
plain='while read -r line; do eval "$line"; done'
# Writes a command, waits for its end, and shows what it said.
inside() { # NAME COMMAND
    local to="to_$1" from file="$out/ports-$1.txt" mark
    mark=$(date +%s%N)
    from=$(wc -l <"$file")
    # The shell repeats what it reads, in which the mark has quotes.
    printf "%s; echo e''nd-%s-\$?\n" "$2" "$mark" >&"${!to}"
    until grep -q "end-$mark-" "$file"; do
        kill -0 "${shells[$1]}" 2>/dev/null || { echo "the guest $1 has ended:" >&2; tail "$file" >&2; exit 1; }
        sleep 0.05
    done
    tail -n "+$((from + 1))" "$file" | grep -v "e''nd-\|end-$mark-" || true
    grep -q "end-$mark-0" "$file"
}
set_up() { # NAME SCRIPT
    until_it grep -q '~ #' "$out/ports-$1.txt"
    local to="to_$1"
    printf "\n\n          exec sh -c '%s'\n" "$plain" >&"${!to}"
    inside "$1" "for i in \$(seq 600); do [ -e /sys/class/net/eth1 ] && break; sleep 0.1; done; $2" >/dev/null
}
unpack='mkdir /programs && tar -xf /programs.tar -C /programs && mount -t proc proc /programs/proc && mount -o bind /dev /programs/dev'
start_guests() {
    for v in "${vms[@]}"; do vm "$v"; done
    set_up a "ip addr add 10.9.1.1/24 dev eth1; ip link set eth1 up; ip route add 10.9.2.0/24 via 10.9.1.2; $unpack"
    set_up b "ip addr add 10.9.1.2/24 dev eth1; ip addr add 10.9.2.2/24 dev eth2; ip link set eth1 up; ip link set eth2 up; echo 1 >/proc/sys/net/ipv4/ip_forward"
    set_up c "ip addr add 10.9.2.3/24 dev eth1; ip link set eth1 up; ip route add 10.9.1.0/24 via 10.9.2.2; $unpack"
    inside c "chroot /programs /usr/bin/iperf3 -s -D" >/dev/null
}

# ---- the act ------------------------------------------------------------------------

# Whether so many of the four ways are in a state.
are() { "$bin/vfun" --json links | python3 -c '
import json, sys
sys.exit(sum(row["state"] == sys.argv[1] for row in json.load(sys.stdin)) < int(sys.argv[2]))' "$@"; }
iperf() { # FILE
    echo "# in the VM a: iperf3 to the VM c, by way of b"
    inside a "chroot /programs /usr/bin/iperf3 -c 10.9.2.3 -t 5 -i 0" | tee "$out/$1" | grep -E "sender|receiver|error" || return 1
}

start_switch
start_manager
start_guests
a=$(port a eth1) b=$(port b eth1) b2=$(port b eth2) c=$(port c eth1)
for way in "$a $b" "$b $a" "$b2 $c" "$c $b2"; do
    # shellcheck disable=SC2086 # two words
    "$bin/vfun" links off $way >/dev/null
    rules add-flow "in_port=${way% *},actions=output:${way#* }"
done
show rules dump-flows
inside a "for i in \$(seq 120); do ping -c 1 -W 1 10.9.2.3 && break; done"

say "14 a. Through the switch: direct links are turned off"
inside a "chroot /programs /bin/ping -c 5 -i 0.2 10.9.2.3"
iperf ports-switch.txt
show "$bin/vfun" links

say "14 b. Past the switch: they are turned on, and the rules allow them"
for way in "$a $b" "$b $a" "$b2 $c" "$c $b2"; do
    # shellcheck disable=SC2086
    "$bin/vfun" links on $way >/dev/null
done
until_it are direct 4
inside a "chroot /programs /bin/ping -c 5 -i 0.2 10.9.2.3"
iperf ports-direct.txt
show "$bin/vfun" links
show "$bin/vfun" links --flows
show "$bin/vfun" window list

say "14 c. A mirror of what the VM a sends: that link is taken back"
show ovs-vsctl add-port br0 tap0 -- set Interface tap0 type=internal
ip link set tap0 up
echo "\$ ovs-vsctl ... create Mirror name=x select-src-port=$a output-port=tap0"
ovs-vsctl -- --id=@p get Port "$a" -- --id=@m get Port tap0 -- \
    --id=@x create Mirror name=x select-src-port=@p output-port=@m -- set Bridge br0 mirrors=@x >/dev/null
until_it are switch 1
iperf ports-mirror.txt
show "$bin/vfun" links
show "$bin/vfun" links explain "$a" "$b"
show "$bin/vfun" port list
# The counters are right, whichever way the frames went.
show rules dump-ports
