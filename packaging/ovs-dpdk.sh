#!/bin/sh
# Fetches Debian's Open vSwitch with DPDK, with its libraries and loader, without
# installing it, and prints the folder it lies in. Does nothing but print when it
# is there already.
#
#   packaging/ovs-dpdk.sh             fetch if missing
#   packaging/ovs-dpdk.sh --refresh   fetch again
#
# VFUN_OVS_DIR     the folder (default: target/ovs-dpdk); nobody but its owner may
#                  write to it or to a folder above it, or DPDK loads no driver
#
# FOLDER/ovs-vswitchd, FOLDER/ovsdb-server and the other programs start wherever
# the folder lies. FOLDER/drivers holds drivers for the option -d of DPDK,
# FOLDER/vswitch.ovsschema is what ovsdb-tool makes a database of.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
dir=${VFUN_OVS_DIR:-$here/target/ovs-dpdk}
programs='ovs-vswitchd ovsdb-server ovsdb-tool ovs-vsctl ovs-ofctl ovs-appctl'
# What an OVS without huge pages and without cards needs: its pool of packets, and
# interfaces of the kernel in the place of cards.
drivers='mempool-ring net-tap'

. "$here/packaging/unpacked.sh"
only_refresh "$@"

works() { "$1/ovs-vswitchd" --version 2>/dev/null | grep -q DPDK; }
if [ $refresh = no ] && [ -x "$dir/ovs-vswitchd" ] && works "$dir"; then
    (cd "$dir" && pwd)
    exit 0
fi

begin_unpacking "$dir"
new=$temp/new
mkdir -p "$new/drivers" "$new/programs"

. "$here/packaging/apt.sh"

# Drivers are packages of their own, which have the version of DPDK in their names.
packages=openvswitch-switch-dpdk
for name in $drivers; do
    package=$(apt_cache search --names-only "^librte-$name[0-9]+\$" | awk 'END { print $1 }')
    [ -n "$package" ] || die "Debian has no driver librte-$name: is the list of packages there (apt-get update)?"
    packages="$packages $package"
done

say "fetching Open vSwitch with DPDK"
# shellcheck disable=SC2086  # a list of words is meant
unpack_packages "$temp" $packages || exit 1

# The programs, the drivers, and the libraries that both link to.
find "$temp/all" -name ovs-vswitchd-dpdk -exec cp {} "$new/programs/ovs-vswitchd" \;
for name in $programs; do
    [ -e "$new/programs/$name" ] ||
        find "$temp/all/usr/bin" "$temp/all/usr/sbin" -name "$name" -exec cp -L {} "$new/programs" \;
    [ -e "$new/programs/$name" ] || die "the packages hold no $name"
    ln -s start "$new/$name"
done
for name in $drivers; do
    find "$temp/all" -path '*/dpdk/pmds-*' -type f \
        -name "librte_$(printf %s "$name" | tr - _).so.*" -exec cp -L {} "$new/drivers" \;
done
find "$temp/all" -name vswitch.ovsschema -exec cp {} "$new" \;
copy_libraries "$temp" "$new/lib" "$new"/programs/* "$new"/drivers/* || exit 1
cat >"$new/start" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" "$here/programs/${0##*/}" "$@"
END
chmod +x "$new/start"
chmod -R go-w "$new"
works "$new" || die "this Open vSwitch knows no DPDK, or does not start"
rm -rf "$dir"
mv -T "$new" "$dir"
(cd "$dir" && pwd)
