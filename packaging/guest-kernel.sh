#!/bin/sh
# Fetches the kernel that test guests boot, without installing it, and prints
# the folder it lies in. Does nothing but print when it is there already.
#
#   packaging/guest-kernel.sh             fetch if missing
#   packaging/guest-kernel.sh --refresh   fetch again (for a newer kernel)
#   packaging/guest-kernel.sh --backports the newer kernel of Debian's backports,
#                                         into target/guest-kernel-backports
#
# VFUN_GUEST_KERNEL_DIR     the folder (default: target/guest-kernel)
# VFUN_GUEST_KERNEL_PKG     the package (default: linux-image-cloud-amd64)
# VFUN_GUEST_KERNEL_SUITE   a suite that apt need not have configured, such as
#                           bookworm-backports (default: what apt has)
#
# The folder holds vmlinuz, version (one line), lib/modules/VERSION with what
# depmod makes of it, and, where the tool to unpack it is there, vmlinux: the
# same kernel not compressed, which an emulated machine starts 0.8 s sooner.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
suite=${VFUN_GUEST_KERNEL_SUITE:-}
default=guest-kernel

say() { printf '%s\n' "guest-kernel: $*" >&2; }
die() { say "$*"; exit 1; }

refresh=no
case "${1-}" in
    '') ;;
    --refresh) refresh=yes ;;
    --backports) suite=bookworm-backports default=guest-kernel-backports ;;
    *) die "unknown argument '$1'; there are --refresh and --backports" ;;
esac
dir=${VFUN_GUEST_KERNEL_DIR:-$here/target/$default}
package=${VFUN_GUEST_KERNEL_PKG:-linux-image-cloud-amd64}

complete() {
    [ -s "$dir/vmlinuz" ] && [ -s "$dir/version" ] &&
        [ -f "$dir/lib/modules/$(cat "$dir/version")/modules.dep" ]
}
if [ $refresh = no ] && complete; then
    (cd "$dir" && pwd)
    exit 0
fi

for tool in apt-get apt-cache dpkg; do
    command -v $tool >/dev/null 2>&1 || die "$tool is missing: this script unpacks a Debian kernel package. \
Elsewhere, put vmlinuz, version and lib/modules/VERSION into $dir by hand"
done

depmod=$(command -v depmod || echo /sbin/depmod)
[ -x "$depmod" ] || die "depmod is missing: run packaging/setup.sh (it is in the package kmod)"

# A meta package (linux-image-cloud-amd64) depends on the real one; a real one
# is named by its version.
real_package() {
    apt_cache show --no-all-versions "$package" 2>/dev/null |
        sed -n 's/^Depends: *//p' | tr ',' '\n' |
        sed -n 's/^ *\(linux-image-[0-9][^ ]*\).*/\1/p' | head -n1
}
update() {
    say "bringing the package lists up to date"
    if [ "$(id -u)" = 0 ]; then apt-get -qq update
    elif command -v sudo >/dev/null 2>&1; then sudo apt-get -qq update
    else return 1; fi
}

mkdir -p "$(dirname "$dir")"
# Next to the final place, so that the last step is a rename.
temp=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$temp/deb" "$temp/root" "$temp/new"

. "$here/packaging/apt.sh"
apt_for "$suite" "$temp/apt" ||
    die "cannot reach the suite $suite on the mirrors that apt has configured"

fetch() {
    case "$package" in
        linux-image-[0-9]*) real=$package ;;
        *) real=$(real_package) ;;
    esac
    [ -n "$real" ] || return 1
    say "fetching $real"
    (cd "$temp/deb" && apt_get download "$real" >&2)
}
fetch || { [ -z "$suite" ] && update && fetch; } ||
    die "could not fetch $package: is the network up, and is a Debian 12 source for main in /etc/apt?"

deb=$(find "$temp/deb" -name '*.deb' | head -n1)
[ -n "$deb" ] || die "apt-get download said it was well but left no package"
dpkg -x "$deb" "$temp/root" || die "could not unpack $(basename "$deb"); is the disk full?"

vmlinuz=$(find "$temp/root/boot" -name 'vmlinuz-*' | head -n1)
[ -n "$vmlinuz" ] || die "$real holds no /boot/vmlinuz-*: it is not a kernel image"
version=${vmlinuz##*/vmlinuz-}
modules=$temp/root/lib/modules/$version
[ -d "$modules" ] || modules=$temp/root/usr/lib/modules/$version
[ -d "$modules" ] || die "$real holds no modules for $version"

mv "$vmlinuz" "$temp/new/vmlinuz"
mkdir -p "$temp/new/lib/modules"
mv "$modules" "$temp/new/lib/modules/$version"
printf '%s\n' "$version" >"$temp/new/version"
"$depmod" -b "$temp/new" "$version" || die "depmod failed for $version; is the disk full?"
chmod -R u+rwX,go+rX "$temp/new"

# Unpack the kernel. Where its compressed part begins and how long it is stands
# in its header (Documentation/x86/boot.rst). Not vital, so no failure is.
number() { od -An -v -t "u$2" -j "$1" -N "$2" "$temp/new/vmlinuz" | tr -d ' '; }
unpack() {
    sectors=$(number 497 1)
    [ "$sectors" != 0 ] || sectors=4
    start=$(( (sectors + 1) * 512 + $(number 584 4) ))
    length=$(number 588 4)
    tail -c +$((start + 1)) "$temp/new/vmlinuz" | head -c "$length" >"$temp/packed"
    case $(od -An -v -t x1 -N 4 "$temp/packed" | tr -d ' ') in
        02214c18) lz4 -dc "$temp/packed" ;;
        fd377a58) xz -dc "$temp/packed" ;;
        28b52ffd) zstd -dc "$temp/packed" ;;
        1f8b*) gzip -dc "$temp/packed" ;;
    esac >"$temp/vmlinux" 2>/dev/null || true
    # Each tool may complain of the length that the kernel's build appends, so
    # look at what came out: an ELF file with the note for a direct start.
    [ "$(head -c 4 "$temp/vmlinux" | tail -c 3)" = ELF ] || return 1
    [ "$(wc -c <"$temp/vmlinux")" -gt "$length" ] || return 1
    mv "$temp/vmlinux" "$temp/new/vmlinux"
}
unpack || say "could not unpack the kernel; guests start from vmlinuz, 0.8 s slower (is lz4 installed?)"

if [ -e "$dir" ]; then
    # Someone else may have been first; theirs is as good as ours.
    if [ $refresh = no ] && complete; then (cd "$dir" && pwd); exit 0; fi
    mv "$dir" "$temp/old"
fi
mv -T "$temp/new" "$dir" 2>/dev/null || complete || die "could not move the kernel to $dir"
(cd "$dir" && pwd)
