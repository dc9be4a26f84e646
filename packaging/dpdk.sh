#!/bin/sh
# Builds librte_net_vfun.so, the DPDK driver of ports, for the DPDK that is installed
# (libdpdk-dev), and says where it lies. DPDK's packages lack four headers for drivers:
# they come from the distribution's source package of the same version.
#
#   packaging/dpdk.sh
set -eu
cd "$(dirname "$0")/.."
out=$PWD/target/dpdk
if ! pkg-config --exists libdpdk; then
    apt-get install -y --no-install-recommends libdpdk-dev dpdk dpdk-dev pkg-config gcc >&2
fi
version=$(dpkg-query -W -f '${Version}' libdpdk-dev)
headers=$out/headers-$version

fetch_headers() {
    work=$out/source
    rm -rf "$work" && mkdir -p "$work/lists/partial"
    # The sources of the registries that this machine uses anyway.
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    base=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Codename: $suite" | head -1)
    key=$(ls /usr/share/keyrings/*archive-keyring.gpg | head -1)
    for s in "$suite" "$suite-updates"; do
        echo "deb-src [signed-by=$key] $base $s main"
    done > "$work/sources.list"
    set -- -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
        -o Dir::State::lists="$work/lists" -o APT::Sandbox::User=root
    apt-get "$@" update >&2
    (cd "$work" && apt-get "$@" source --download-only "dpdk=$version" >&2)
    mkdir "$work/tree"
    tar -C "$work/tree" --strip-components=1 --wildcards -xf "$work"/dpdk_*.orig.tar.* \
        '*/lib/ethdev/ethdev_driver.h' '*/lib/ethdev/ethdev_vdev.h' \
        '*/drivers/bus/vdev/bus_vdev_driver.h' '*/lib/eal/include/dev_driver.h'
    mkdir -p "$headers.new"
    find "$work/tree" -name '*.h' -exec cp {} "$headers.new/" \;
    mv "$headers.new" "$headers"
    rm -rf "$work"
}
[ -d "$headers" ] || fetch_headers

name=librte_net_vfun.so
build() {
    to=$1
    shift
    mkdir -p "$(dirname "$to")"
    # Functions for drivers are exported by DPDK for those who say so.
    gcc "$@" -march=nehalem -fPIC -shared -Wall -Wextra -Werror -DALLOW_INTERNAL_API -include rte_config.h \
        $(pkg-config --cflags-only-I libdpdk) -isystem "$headers" -Iprotocol/packet/include -Iguest/dpdk \
        -o "$to.new" guest/dpdk/rte_eth_vfun.c guest/dpdk/vfun_port.c \
        -lrte_ethdev -lrte_eal -lrte_mbuf -lrte_mempool -lrte_kvargs -lrte_bus_vdev
    mv "$to.new" "$to"
}
build "$out/$name" -O3
echo "$out/$name"
