#!/usr/bin/env bash
# The main job, from nothing, in the open: starts a manager, boots a real guest,
# has a program of an ordinary user in it negotiate, activate, call and release
# functions of the host through the kernel module, does the same from the host and
# over the network, has an unmodified program in C use a device's API from the guest, and
# programs for RDMA in two (demo-rdma.sh), and ends with the published experiment. Three more acts follow:
# hardware and software (demo-leases.sh), network VFs (demo-nics.sh), and ports of a switch
# (demo-ports.sh). Everything
# lives under temporary roots and is gone at the end; the results stay in
# target/demo/.
#
#   packaging/demo.sh               all of it
#   packaging/demo.sh --host-only   without a guest
set -euo pipefail
cd "$(dirname "$0")/.."
host_only=no
[ "${1-}" = --host-only ] && host_only=yes
bin=$PWD/target/release
out=$PWD/target/demo
scale=${SCALE:-0.02}
port=${PORT:-}
mkdir -p "$out"

for program in vfun vfun-bench vfun-guest vfund vfun-jail vfun-service vfun-gateway; do
    [ -x "$bin/$program" ] || { echo "demo: $bin/$program is missing: run \`make build\`" >&2; exit 1; }
done

root=$(mktemp -d /dev/shm/vfun-demo-XXXXXX)
export VFUN_ROOT=$root
manager=
finish() {
    [ -n "$manager" ] && kill "$manager" 2>/dev/null && wait "$manager" 2>/dev/null
    rm -rf "$root"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

if [ -z "$port" ]; then
    # A port that nobody has: the gateway listens on loopback only.
    port=7733
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
fi

say "1. The manager, with the functions that ship"
"$bin/vfund" --root "$root" --window-dir "$root" --functions functions \
    --functions services/gdmaback/functions --functions services/verbsback/functions --tcp "127.0.0.1:$port" 2>"$out/vfund.log" &
manager=$!
for _ in $(seq 200); do
    "$bin/vfun" status >/dev/null 2>&1 && break
    kill -0 "$manager" 2>/dev/null || { cat "$out/vfund.log" >&2; exit 1; }
    sleep 0.05
done
show "$bin/vfun" list

say "2. From the host: host-host"
show "$bin/vfun" call factorial 51 --repetitions 100000
show "$bin/vfun" call fibonacci 93 --repetitions 100000

if [ "$host_only" = no ]; then
    say "3. A client for a VM: its window, and what to give QEMU or libvirt"
    show "$bin/vfun" client add demo-vm --window 64MiB --tcp=open

    module=$(packaging/kmod.sh)
    say "4. From inside a real guest, as a user without rights: through its window (guest-host), then over the network (guest-net)"
    show "$bin/vfun" guest --client demo-vm --net --module "$module" --user app -- "
        id
        vfun doctor
        echo; echo '# through the window'
        vfun list
        vfun call factorial 51 --repetitions 100000
        vfun call fibonacci 93 --repetitions 100000
        vfun call echo hello --repeat 20000
        echo; echo '# over the network'
        export VFUN_ENDPOINT=tcp:10.0.2.2:$port VFUN_CLIENT=demo-vm
        vfun call factorial 51 --repetitions 100000
        vfun call echo hello --repeat 500"

    say "5. A whole API: a program that knows only gdma.h moves data by the host's DMA engine (simulated), from the guest's memory and back"
    cc -o "$root/bounce" -Iservices/gdma/include services/gdma/examples/bounce.c -L"$bin" -lgdma -lpthread
    apis=/usr/lib/virtfun/apis/gdma
    show "$bin/vfun" guest --client demo-vm --module "$module" --user app --file "$root/bounce" \
        --file "$bin/libvfun_gdma.so:$apis/libgdma.so.0" -- "LD_LIBRARY_PATH=$apis bounce 1000000"

    say "6. RDMA without a device: Debian's ib_write_bw and rping, unchanged, from one VM to another, by a NIC in software on the host"
    packaging/demo-rdma.sh "$module"

    say "7. What the manager recorded: negotiated, activated, released"
    show "$bin/vfun" history --limit 12
fi
kill "$manager"; wait "$manager" 2>/dev/null || true
manager=

say "8. The published experiment: the same work in ever more calls, at $scale of the published size"
domains=in-process,host-host,guest-host,guest-net
[ "$host_only" = yes ] && domains=in-process,host-host
show "$bin/vfun" bench domains --scale "$scale" --repeats "${REPEATS:-7}" --domain "$domains" \
    --json "$out/domains.json" --csv "$out/domains.csv" --chart "$out/domains.png" --chart "$out/domains.svg"

second=()
[ "$host_only" = no ] && second=(--guest "$module")
packaging/demo-leases.sh ${second[@]+"${second[@]}"}
[ "$host_only" = yes ] || packaging/demo-nics.sh
[ "$host_only" = yes ] || packaging/demo-ports.sh

say "Charts and figures: target/demo/"
ls "$out"
