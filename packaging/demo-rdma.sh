#!/usr/bin/env bash
# A part of the demo: programs of Debian for RDMA, unchanged, in two guests that have no RDMA device, as
# users without rights. demo.sh runs it, with a manager in VFUN_ROOT.
#
#   packaging/demo-rdma.sh MODULE.ko
#
# VFUN_BIN   the folder of programs (default: target/release)
set -euo pipefail
cd "$(dirname "$0")/.."
module=$1
bin=${VFUN_BIN:-$PWD/target/release}
work=$(mktemp -d)
server=
finish() {
    [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

show() { printf '$ %s\n' "${*/#$bin\//}"; "$@"; }

cat >"$work/rdma.toml" <<'END'
name = "rdma"
window = "64 MiB"
[vm.one]
address = "10.77.0.1"
[vm.two]
address = "10.77.0.2"
[rdma]
network = "10.77.0.0/24"
queue_pairs = 16
END
show "$bin/vfun" client add --file "$work/rdma.toml" | sed 1q

programs=()
for program in ibv_devices ib_write_bw rping; do programs+=(--file "/usr/bin/$program:/usr/bin/$program"); done
# A program for RDMA in a VM. Its network leads to the host alone, not to the other VM.
guest() {
    "$bin/vfun" guest --client "rdma/$1" --net --module "$module" --user app "${programs[@]}" \
        --file "$bin/libvfunverbs.so:/usr/lib/virtfun/apis/verbs/libvfunverbs.so" -- "$2"
}
echo "# in the VM two: servers"
guest two "vfun run -- ib_write_bw -z; vfun run -- rping -s -C 100" >"$work/two.log" 2>&1 &
server=$!
echo "# in the VM one:"
# Until the server of the other VM is there. -z: the programs exchange what they need by RDMA, too.
guest one "
    reach() { for try in \$(seq 60); do \"\$@\" 2>/dev/null && return; sleep 1; done; return 1; }
    vfun run -- ibv_devices
    reach vfun run -- ib_write_bw -z 10.77.0.2 && reach vfun run -- rping -c -a 10.77.0.2 -V -C 100 &&
    echo 'rping: 100 messages, checked'"
wait "$server" || { cat "$work/two.log" >&2; exit 1; }
server=
show "$bin/vfun" rdma explain rdma
