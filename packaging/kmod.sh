#!/bin/sh
# Builds the guest's kernel module for the kernel that test guests boot, and
# prints where it is: target/kmod/VERSION/vfun.ko. Does nothing but print when
# it is up to date. The kernel's headers are fetched and unpacked beside it;
# nothing is installed.
#
#   packaging/kmod.sh               for packaging/guest-kernel.sh's kernel
#   packaging/kmod.sh --backports   for Debian's newer one as well (two lines)
#   packaging/kmod.sh --check       with all warnings and, where there is one,
#                                   sparse; builds aside
#
# VFUN_GUEST_KERNEL_DIR, _PKG, _SUITE   as for guest-kernel.sh
# VFUN_KMOD_DIR   where to build (default: target/kmod)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
out=${VFUN_KMOD_DIR:-$here/target/kmod}
source=$here/guest/kmod
wire=$here/protocol/wire/include/vfun_wire.h
packet=$here/protocol/packet/include

say() { printf '%s\n' "kmod: $*" >&2; }
die() { say "$*"; exit 1; }

check=no
backports=no
case "${1-}" in
    '') ;;
    --backports) backports=yes ;;
    --check) check=yes ;;
    *) die "unknown argument '$1'; there are --backports and --check" ;;
esac

temp=''
trap '[ -z "$temp" ] || rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM

. "$here/packaging/apt.sh"

# headers VERSION SUITE: unpacks them to $out/headers/VERSION.
headers() {
    root=$out/headers/$1
    tree=$root/usr/src/linux-headers-$1
    # Their Makefiles name this folder: in a checkout that was moved they are fetched anew.
    [ "$(cat "$root/complete" 2>/dev/null)" != "$root" ] || return 0
    for tool in apt-get dpkg make gcc; do
        command -v $tool >/dev/null 2>&1 || die "$tool is missing: run packaging/setup.sh. \
Where there is no apt, build with 'make -C guest/kmod KDIR=...' and put vfun.ko into $out/$1"
    done
    mkdir -p "$out/headers"
    temp=$(mktemp -d "$out/headers/tmp.XXXXXX")
    mkdir "$temp/root"
    apt_for "$2" "$temp/apt" || die "cannot reach the suite $2 on the mirrors that apt has configured"
    needed() {
        apt_cache show --no-all-versions "linux-headers-$1" 2>/dev/null |
            sed -n 's/^Depends: *//p' | tr ',|' '\n\n' |
            sed -n 's/^ *\(linux-headers-[^ ]*-common\|linux-kbuild-[^ ]*\).*/\1/p' | sort -u
    }
    fetch() {
        packages=$(needed "$1")
        [ -n "$packages" ] || return 1
        say "fetching the headers of $1"
        # shellcheck disable=SC2086  # a list of words is meant
        (cd "$temp" && apt_get download "linux-headers-$1" $packages >&2)
    }
    fetch "$1" || { [ -z "$2" ] && apt_get update >&2 && fetch "$1"; } ||
        die "there are no headers for kernel $1 (any more?): fetch its successor with packaging/guest-kernel.sh --refresh"
    for deb in "$temp"/*.deb; do
        dpkg -x "$deb" "$temp/root" || die "could not unpack $deb; is the disk full?"
    done
    rm -f "$temp"/*.deb
    # They name each other by where they would be installed.
    sed -i "s#/usr/src/#$root/usr/src/#" "$temp/root/usr/src/linux-headers-$1/Makefile"
    rm -rf "$root"
    mv -T "$temp/root" "$root"
    printf '%s\n' "$root" >"$root/complete"
    rm -rf "$temp"
    temp=''
}

up_to_date() {
    [ -s "$1" ] || return 1
    [ -z "$(find "$source" "$wire" "$packet" "$here/packaging/kmod.sh" -maxdepth 1 -type f -newer "$1")" ]
}

# build VERSION SUITE [argument of make]...
build() {
    version=$1
    suite=$2
    shift 2
    ko=$out/$version/vfun.ko
    if [ $# = 0 ] && up_to_date "$ko"; then printf '%s\n' "$ko"; return 0; fi
    # One at a time: another run would replace the headers that this one builds with.
    mkdir -p "$out"
    exec 9>"$out/lock"
    flock 9
    if [ $# = 0 ] && up_to_date "$ko"; then printf '%s\n' "$ko"; return 0; fi
    headers "$version" "$suite"
    mkdir -p "$out/$version"
    # A tree of its own for each kernel, laid out as here.
    temp=$(mktemp -d "$out/$version/build.XXXXXX")
    mkdir -p "$temp/guest/kmod" "$temp/protocol/wire/include" "$temp/protocol/packet/include"
    cp "$source"/*.[ch] "$source"/Kbuild "$temp/guest/kmod"
    cp "$wire" "$temp/protocol/wire/include"
    cp "$packet"/*.h "$temp/protocol/packet/include"
    # Without BTF: it needs pahole and the kernel's own vmlinux.
    if ! make -s -C "$tree" M="$temp/guest/kmod" CONFIG_DEBUG_INFO_BTF_MODULES= "$@" modules \
        >"$temp/log" 2>&1; then
        cat "$temp/log" >&2
        die "the module does not build for $version"
    fi
    cat "$temp/log" >&2
    if [ $# = 0 ]; then
        strip --strip-debug "$temp/guest/kmod/vfun.ko"
        mv "$temp/guest/kmod/vfun.ko" "$ko"
        printf '%s\n' "$ko"
    else
        ! grep -q -i 'warning\|error' "$temp/log" || die "warnings for $version, see above"
    fi
    rm -rf "$temp"
    temp=''
}

kernel=$("$here/packaging/guest-kernel.sh")
version=$(cat "$kernel/version")
suite=${VFUN_GUEST_KERNEL_SUITE:-}
if [ $check = yes ]; then
    if command -v sparse >/dev/null 2>&1; then
        build "$version" "$suite" W=1 C=2
    else
        say "there is no sparse, so only the compiler looks"
        build "$version" "$suite" W=1
    fi
    exit 0
fi
build "$version" "$suite"
if [ $backports = yes ]; then
    newer=$(VFUN_GUEST_KERNEL_DIR='' "$here/packaging/guest-kernel.sh" --backports)
    build "$(cat "$newer/version")" bookworm-backports
fi
