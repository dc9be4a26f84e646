#!/bin/sh
# Tries our packages in a clean Debian 12, as a user would: installs them with a
# lower version, upgrades them while a program calls, removes and purges them
# (packaging/deb/check.sh). Needs root, for the owners of files. Nothing is installed
# or mounted on this machine.
#
#   packaging/deb-test.sh             that
#   packaging/deb-test.sh --lintian   what Debian's own checker says of the packages, as they ship
#
# CARGO_TARGET_DIR        where it was built (default: target)
# VFUN_PROFILE            the build's profile (default: release)
# VFUN_DEBIAN_GUEST_DIR   where packaging/debian-guest.sh --base keeps Debian's system
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
base=${VFUN_DEBIAN_GUEST_DIR:-$target/debian-guest}/base.tar

say() { printf '%s\n' "deb-test: $*" >&2; }
die() { say "$*"; exit 1; }

task=install
case "${1-}" in
    '') ;;
    --lintian) task=lintian ;;
    *) die "unknown argument '$1'; the only one is --lintian" ;;
esac
mkdir -p "$target"
temp=$(mktemp -d "$target/deb-test.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$temp"

if [ $task = lintian ]; then
    command -v lintian >/dev/null 2>&1 || die "lintian is missing: run packaging/setup.sh --lintian"
    VFUN_DEB_DIR=$temp/deb DEBFULLNAME='VirtFun developers' DEBEMAIL=virtfun@packages.debian.org \
        "$here/packaging/deb.sh" >/dev/null
    # The one left out is about an upload to Debian, which this is not.
    lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
        --suppress-tags initial-upload-closes-no-bugs "$temp"/deb/*.deb
    say "lintian has nothing to say"
    exit 0
fi

[ "$(id -u)" = 0 ] || die "needs root to make files of root's: run 'sudo -E packaging/deb-test.sh'"
[ -s "$base" ] || die "$base is not there: run packaging/debian-guest.sh --base"
say "building the packages"
export VFUN_DEB_COMPRESS=none
VFUN_DEB_DIR=$temp/new "$here/packaging/deb.sh" >/dev/null
VFUN_DEB_DIR=$temp/old VFUN_DEB_VERSION=0.0.1-1 "$here/packaging/deb.sh" >/dev/null

root=$temp/root
mkdir -m 755 "$root"
tar -C "$root" --numeric-owner -xf "$base"
mkdir "$root/deb"
mv "$temp/new" "$temp/old" "$root/deb"
install -m 755 "$here/packaging/deb/check.sh" "$root/deb/check.sh"
# Programs in C, made with what these packages have.
for package in libvfun-dev libvfun0 virtfun-apis; do
    dpkg-deb -x "$root"/deb/new/${package}_*.deb "$temp/dev"
done
export PKG_CONFIG_SYSROOT_DIR=$temp/dev PKG_CONFIG_PATH=$temp/dev/usr/lib/$(gcc -print-multiarch)/pkgconfig
example=$here/guest/client/examples/factorial.c
# shellcheck disable=SC2046  # words are meant
gcc -o "$root/deb/shared" "$example" $(pkg-config --cflags --libs vfun)
# shellcheck disable=SC2046
gcc -o "$root/deb/static" "$example" $(pkg-config --cflags --libs --static vfun | sed 's/-lvfun/-l:libvfun.a/')
gcc -o "$root/deb/bounce" "$temp/dev/usr/share/doc/libvfun-dev/examples/gdma/bounce.c" \
    -I"$temp/dev/usr/include" -L"$temp/dev/usr/lib/virtfun/apis/gdma" -lgdma
# Name spaces: mounts and processes end with the shell. A root of its own, not chroot:
# in that one no sandbox has name spaces. Without a network: the packages ask for nothing
# that is not there.
cat >"$temp/enter" <<'TEXT'
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive /deb/check.sh'
TEXT
say "trying them"
unshare --mount --net --pid --fork --kill-child sh "$temp/enter" "$root" >"$temp/log" 2>&1 || {
    cat "$temp/log" >&2
    find "$root/var/lib/dkms" -name make.log -exec cat {} + >&2 2>/dev/null || true
    die "our packages do not do in Debian's system what they should (above)"
}
grep '^check: ' "$temp/log" >&2
