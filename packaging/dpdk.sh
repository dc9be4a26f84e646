#!/bin/sh
# Builds librte_net_vfun.so, the DPDK driver of ports, for the DPDK that is installed
# (libdpdk-dev), and says where it lies. DPDK's packages lack four headers for drivers:
# they come from the distribution's source package of the same version.
#
#   packaging/dpdk.sh
#   packaging/dpdk.sh --sanitized   with the address sanitizer in it, for tests
set -eu
cd "$(dirname "$0")/.."
out=$PWD/target/dpdk
. packaging/apt.sh
. packaging/unpacked.sh
case "$*" in '' | --sanitized) ;; *) die "unknown argument '$*'; there is --sanitized" ;; esac

if ! pkg-config --exists libdpdk 2>/dev/null; then
    [ "$(id -u)" = 0 ] || die "DPDK's packages are missing: run this as root once, or install libdpdk-dev, dpdk and dpdk-dev"
    apt_get install -y --no-install-recommends libdpdk-dev dpdk dpdk-dev pkg-config gcc >&2 ||
        die "could not install DPDK's packages: is the list of packages there (apt-get update), and the network up?"
fi
version=$(dpkg-query -W -f '${Version}' libdpdk-dev)
headers=$out/headers-$version

# Sources of the suites that this machine has its packages from.
fetch_headers() {
    say "fetching the headers for drivers of DPDK $version"
    begin_unpacking "$headers"
    mkdir -p "$temp/lists/partial" "$temp/parts" "$temp/tree" "$temp/headers"
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Origin: Debian' |
        sort -u | while read -r uri suite; do
            echo "deb-src [signed-by=$keys] $uri $suite main"
        done >"$temp/parts/sources.list"
    apt_options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$temp/parts -o Dir::State::lists=$temp/lists"
    (apt_get update && cd "$temp" && apt_get source --download-only "dpdk=$version") >&2 ||
        die "could not fetch the source of dpdk $version: is the network up?"
    tar -C "$temp/tree" --strip-components=1 --wildcards -xf "$temp"/dpdk_*.orig.tar.* \
        '*/lib/ethdev/ethdev_driver.h' '*/lib/ethdev/ethdev_vdev.h' \
        '*/drivers/bus/vdev/bus_vdev_driver.h' '*/lib/eal/include/dev_driver.h' ||
        die "the source of dpdk $version lacks headers for drivers"
    find "$temp/tree" -name '*.h' -exec cp {} "$temp/headers/" \;
    mv -T "$temp/headers" "$headers"
}
[ -d "$headers" ] || fetch_headers

to=$out/librte_net_vfun.so
optimize=-O3
if [ "${1-}" = --sanitized ]; then
    mkdir -p "$out/sanitized"
    to=$out/sanitized/librte_net_vfun.so
    optimize='-O1 -g -fsanitize=address'
fi
# Functions for drivers, and for interrupts, are exported by DPDK for those who say so.
# shellcheck disable=SC2046,SC2086  # lists of words are meant
gcc $optimize -march=nehalem -fPIC -shared -Wall -Wextra -Werror -DALLOW_INTERNAL_API \
    -DALLOW_EXPERIMENTAL_API -include rte_config.h \
    $(pkg-config --cflags-only-I libdpdk) -isystem "$headers" -Iprotocol/packet/include -Iprotocol/wire/include -Iguest/client/include -Iguest/dpdk \
    -o "$to.new" guest/dpdk/rte_eth_vfun.c guest/dpdk/vfun_burst.c guest/dpdk/vfun_linked.c guest/dpdk/vfun_memory.c \
    guest/dpdk/vfun_talk.c guest/dpdk/vfun_links.c guest/dpdk/vfun_link.c guest/dpdk/vfun_sides.c guest/dpdk/vfun_ring.c guest/dpdk/vfun_vm.c \
    -lrte_ethdev -lrte_eal -lrte_mbuf -lrte_mempool -lrte_kvargs -lrte_bus_vdev
mv "$to.new" "$to"
echo "$to"
