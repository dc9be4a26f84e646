#!/bin/sh
# Makes a guest's system of Debian's own packages, with ours installed in it as
# a user would, and prints the folder it lies in. Does nothing but print when it
# is up to date. Needs root when it is not, for the owners of files.
#
#   packaging/debian-guest.sh             make what is missing or old
#   packaging/debian-guest.sh --refresh   fetch Debian's packages again, too
#   packaging/debian-guest.sh --base      only fetch Debian's packages; needs nothing built
#
# The folder holds disk, an ext4 file system, and kernel: that system's kernel
# (vmlinuz, version, lib/modules) as a machine without a boot loader takes it.
# DKMS has built the module in it for that kernel. Nothing is mounted on this
# machine, and nothing is installed on it.
#
# VFUN_DEBIAN_GUEST_DIR   the folder (default: target/debian-guest)
# CARGO_TARGET_DIR        where `make build` built (default: target)
# VFUN_PROFILE            the build's profile (default: release)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
dir=${VFUN_DEBIAN_GUEST_DIR:-$here/target/debian-guest}
built=${CARGO_TARGET_DIR:-$here/target}/${VFUN_PROFILE:-release}
suite=bookworm
# The kernel with its headers; DKMS brings the compiler, and kmod the module's
# loading by its alias. There is no init system: the tests' own init does what
# is needed (etc/vfun-start, below). Python is for our packages' own test
# (packaging/deb-test.sh), which has this base, too; iproute2 is what virtfun needs.
packages=linux-image-cloud-amd64,linux-headers-cloud-amd64,dkms,udev,kmod,python3,iproute2
# Size of the file system: twice what is in it now. Only what is used takes room.
disk_size=1200M

say() { printf '%s\n' "debian-guest: $*" >&2; }
die() { say "$*"; exit 1; }

refresh=no
base_only=no
case "${1-}" in
    '') ;;
    --refresh) refresh=yes ;;
    --base) base_only=yes ;;
    *) die "unknown argument '$1'; there are --refresh and --base" ;;
esac

# Everything that goes into our packages, and how they are put in.
inputs() {
    find "$here/guest/kmod" -maxdepth 1 -type f
    find "$here/packaging/guest" "$here/packaging/deb" "$here/protocol/wire/include" "$here/protocol/packet/include" -type f
    printf '%s\n' "$here/packaging/debian-guest.sh" "$here/packaging/debian-base.sh" "$here/packaging/deb.sh" \
        "$here/packaging/install.sh" "$here/Cargo.toml" "$here/Cargo.lock" "$built/vfun" "$built/libvfun.so"
}
newer() { inputs | while read -r f; do [ ! "$f" -nt "$dir/complete" ] || printf '%s\n' "$f"; done; }
up_to_date() {
    [ -f "$dir/complete" ] && [ -s "$dir/disk" ] && [ -s "$dir/kernel/version" ] && [ -z "$(newer)" ]
}
[ $base_only = yes ] || [ -f "$built/vfun" ] || die "$built/vfun is not there: run \`make build\`"
if [ $base_only = no ] && [ $refresh = no ] && up_to_date; then
    (cd "$dir" && pwd)
    exit 0
fi

mkdir -p "$dir"
# One at a time: tests that start together ask together.
exec 9>"$dir/lock"
flock 9
if [ $base_only = no ] && [ $refresh = no ] && up_to_date; then
    (cd "$dir" && pwd)
    exit 0
fi

# Of the packages that are wanted now.
has_base() { [ -s "$dir/base.tar" ] && [ "$(cat "$dir/base.of" 2>/dev/null)" = "$packages" ]; }
if [ $base_only = yes ] && [ $refresh = no ] && has_base; then exit 0; fi
[ "$(id -u)" = 0 ] ||
    die "needs root to make files of root's in $dir: run 'sudo -E packaging/debian-guest.sh' (up to date, it needs none)"
for tool in mmdebstrap mke2fs unshare dpkg-deb; do
    command -v $tool >/dev/null 2>&1 || die "$tool is missing: run packaging/setup.sh"
done
temp=$(mktemp -d "$dir/tmp.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$temp"

. "$here/packaging/apt.sh"
. "$here/packaging/debian-base.sh"

# Debian's part: kept, as it is by far the longest to make.
base() {
    say "making a system of Debian's packages"
    debian_base $suite $packages "$dir/base.tar" || exit 1
    printf '%s\n' "$packages" >"$dir/base.of"
}
[ $refresh = no ] && has_base || base
[ $base_only = no ] || exit 0

say "building our packages"
VFUN_DEB_DIR=$temp/deb VFUN_DEB_COMPRESS=none \
    "$here/packaging/deb.sh" virtfun-guest virtfun-guest-dkms virtfun-cli libvfun0 >/dev/null
hash=$(cd "$temp/deb" && sha256sum -- *.deb "$here/packaging/debian-guest.sh" "$dir/base.tar" | cut -c1-64 | tr '\n' ' ')
if [ "$(cat "$dir/complete" 2>/dev/null)" = "$hash" ] && [ -s "$dir/disk" ]; then
    touch "$dir/complete"
    (cd "$dir" && pwd)
    exit 0
fi
rm -f "$dir/complete"

say "installing them"
root=$temp/root
mkdir "$root"
tar -C "$root" --numeric-owner -xf "$dir/base.tar"
mkdir "$root/deb"
cp "$temp/deb"/*.deb "$root/deb"
# Name spaces: whatever happens, the mounts go with the shell. That there is no
# network shows that the packages ask for nothing that is not there.
cat >"$temp/install" <<'TEXT'
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive sh -c 'apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install /deb/*.deb'
TEXT
unshare --mount --net sh "$temp/install" "$root" >"$temp/log" 2>&1 || {
    cat "$temp/log" >&2
    find "$root/var/lib/dkms" -name make.log -exec cat {} + >&2 2>/dev/null || true
    die "our packages do not install in Debian's system"
}

version=$(cd "$root/lib/modules" && echo *)
[ -s "$root/boot/vmlinuz-$version" ] || die "the system does not have exactly one kernel: '$version'"
[ -n "$(find "$root/lib/modules/$version/updates/dkms" -name 'vfun.ko*' 2>/dev/null)" ] || {
    cat "$temp/log" >&2
    die "DKMS has not built the module for $version"
}

# What systemd's units do: the devices that were there before udev are told to
# it again, and it loads their modules and gives them their owners.
cat >"$root/etc/vfun-start" <<'TEXT'
#!/bin/sh
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle
TEXT
chmod 755 "$root/etc/vfun-start"
echo debian >"$root/etc/hostname"
echo '127.0.0.1 localhost debian' >"$root/etc/hosts"

say "packing it"
mkdir -p "$temp/kernel/lib/modules"
cp "$root/boot/vmlinuz-$version" "$temp/kernel/vmlinuz"
cp -r "$root/lib/modules/$version" "$temp/kernel/lib/modules"
printf '%s\n' "$version" >"$temp/kernel/version"
rm -rf "$root/deb" "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/boot/*
# Not through a loop device, which containers do not have.
truncate -s $disk_size "$temp/disk"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -d "$root" "$temp/disk" ||
    die "could not make the file system; is the disk full?"
chmod -R u+rwX,go+rX "$temp/kernel"
rm -rf "$dir/kernel"
mv "$temp/kernel" "$dir/kernel"
mv "$temp/disk" "$dir/disk"
printf '%s\n' "$hash" >"$dir/complete"
(cd "$dir" && pwd)
