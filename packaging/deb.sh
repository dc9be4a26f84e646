#!/bin/sh
# Builds Debian packages for guests into target/deb:
#
#   virtfun-guest       vfun, libvfun.so, the headers (needs `make build` first)
#   virtfun-guest-dkms  the kernel module's source for DKMS, the group vfun and
#                       the rule that gives it /dev/vfunN
#
#   packaging/deb.sh            both
#   packaging/deb.sh dkms       the second one alone; it needs nothing built
#
# DEBFULLNAME, DEBEMAIL   whom the packages name as their maintainer
# CARGO_TARGET_DIR   where `make build` built (default: target)
# VFUN_PROFILE       the profile that libvfun.so was built by (default: release);
#                    vfun is always built here, by the profile guest: small
# VFUN_DEB_DIR       where the packages go (default: target/deb)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
out=${VFUN_DEB_DIR:-$here/target/deb}
target=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
profile=${VFUN_PROFILE:-release}
built=$target/$profile
vfun=$target/guest/vfun
# Most bytes of vfun in a guest: each guest carries it. More means that it links
# what is a host's.
vfun_max=4000000

say() { printf '%s\n' "deb: $*" >&2; }
die() { say "$*"; exit 1; }

which=all
case "${1-}" in
    '') ;;
    dkms) which=dkms ;;
    *) die "unknown argument '$1'; the only one is dkms" ;;
esac
command -v dpkg-deb >/dev/null 2>&1 || die "dpkg-deb is missing: these are packages for Debian, built on Debian"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n1)
kmod=$(sed -n 's/^MODULE_VERSION("\(.*\)");/\1/p' "$here/guest/kmod/main.c")
[ "$version" = "$kmod" ] ||
    die "the module says it is version $kmod, the project $version: make MODULE_VERSION in guest/kmod/main.c the same"

mkdir -p "$out"
temp=$(mktemp -d "$out/tmp.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM

# control PACKAGE ARCHITECTURE DEPENDS RECOMMENDS SUMMARY <description
control() {
    mkdir -p "$temp/$1/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$1" "$version" "$2"
        # Whoever builds a package answers for it; Debian's tools use the same variables.
        printf 'Maintainer: %s <%s>\n' "${DEBFULLNAME:-VirtFun local build}" "${DEBEMAIL:-root@localhost}"
        printf 'Section: misc\nPriority: optional\n'
        [ -z "$3" ] || printf 'Depends: %s\n' "$3"
        [ -z "$4" ] || printf 'Recommends: %s\n' "$4"
        printf 'Description: %s\n' "$5"
        sed 's/^$/./; s/^/ /'
    } >"$temp/$1/DEBIAN/control"
}

# script PACKAGE NAME <text
script() {
    { printf '#!/bin/sh\nset -e\n'; cat; } >"$temp/$1/DEBIAN/$2"
    chmod 755 "$temp/$1/DEBIAN/$2"
}

finish() {
    # The same package for the same source, whenever it is built.
    find "$temp/$1" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-1700000000}" {} +
    dpkg-deb --root-owner-group -Zxz --build "$temp/$1" "$out/" >/dev/null
    ls "$out/$1_${version}"_*.deb
}

dkms() {
    p=virtfun-guest-dkms
    control $p all 'dkms, passwd' 'virtfun-guest' 'VirtFun kernel module for guests (DKMS source)' <<TEXT
The driver of the ivshmem device through which a virtual machine's
programs call functions of its host. It gives each program its own
part of the shared memory, as /dev/vfunN, to members of the group vfun.
TEXT
    src=$temp/$p/usr/src/virtfun-$version
    install -d "$src" "$temp/$p/usr/lib/udev/rules.d" "$temp/$p/usr/share/doc/$p"
    install -m 644 "$here"/guest/kmod/*.[ch] "$here/guest/kmod/Kbuild" "$here/guest/kmod/Makefile" \
        "$here/protocol/wire/include/vfun_wire.h" "$src"
    sed "s/@VERSION@/$version/" "$here/packaging/guest/dkms.conf" >"$src/dkms.conf"
    install -m 644 "$here/packaging/guest/60-vfun.rules" "$temp/$p/usr/lib/udev/rules.d"
    printf 'Licence of the kernel module: GPL-2.0. Of vfun_wire.h: Apache-2.0 OR MIT.\n' \
        >"$temp/$p/usr/share/doc/$p/copyright"
    script $p postinst <<TEXT
if [ "\$1" = configure ]; then
    getent group vfun >/dev/null || groupadd --system vfun
    /usr/lib/dkms/common.postinst virtfun $version "" "" "\$2"
    if [ -d /run/udev ]; then
        udevadm control --reload || true
        udevadm trigger --subsystem-match=misc || true
        # A device that is there already gets its driver now.
        modprobe vfun 2>/dev/null || true
    fi
fi
TEXT
    script $p prerm <<TEXT
if [ "\$1" = remove ] || [ "\$1" = upgrade ]; then
    # On the machine that runs, not in the file system of another. Only an idle
    # module goes; the next one is loaded after an upgrade.
    if [ -d /run/udev ] && [ -d /sys/module/vfun ] && ! rmmod vfun 2>/dev/null; then
        echo 'virtfun-guest-dkms: a program still has /dev/vfunN open, so the module stays loaded until the next boot' >&2
    fi
    if dkms status -m virtfun -v $version 2>/dev/null | grep -q .; then
        dkms remove -m virtfun -v $version --all
    fi
fi
TEXT
    finish $p
}

guest() {
    p=virtfun-guest
    [ -f "$vfun" ] || say "building vfun for guests (a minute or two, once)"
    command -v cargo >/dev/null 2>&1 ||
        die "cargo is not in PATH: as root by sudo, pass it on: sudo -E env PATH=\"\$PATH\" ..."
    # Whatever the compiler leaves running must not hold a caller's lock.
    (cd "$here" && CARGO_TARGET_DIR=$target cargo build --locked --quiet --profile guest -p vfun-cli 9>&-)
    for f in "$vfun" "$built/libvfun.so"; do
        [ -f "$f" ] || die "$f is not there: run \`make build\`, or ask for 'deb.sh dkms' alone"
    done
    # The oldest libc that has all that they link to.
    libc=$(objdump -T "$vfun" "$built/libvfun.so" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n1)
    [ -n "$libc" ] || die "cannot read from $vfun which libc it needs; is objdump (binutils) there?"
    control $p "$(dpkg --print-architecture)" "libc6 (>= $libc), libgcc-s1" 'virtfun-guest-dkms' 'VirtFun for guests: command line and library' <<TEXT
Calls functions of the host from inside a virtual machine: the program
vfun, the library libvfun with its C headers.
TEXT
    install -d "$temp/$p/usr/bin" "$temp/$p/usr/lib/pkgconfig" "$temp/$p/usr/include" "$temp/$p/usr/share/doc/$p"
    install -m 755 "$vfun" "$temp/$p/usr/bin"
    install -m 644 "$built/libvfun.so" "$temp/$p/usr/lib/libvfun.so.$version"
    strip --strip-unneeded "$temp/$p/usr/bin/vfun" "$temp/$p/usr/lib/libvfun.so.$version"
    soname=$(readelf -d "$built/libvfun.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ -n "$soname" ] || die "$built/libvfun.so has no name for the linker: run \`make build\` again"
    ln -s "libvfun.so.$version" "$temp/$p/usr/lib/$soname"
    ln -s "$soname" "$temp/$p/usr/lib/libvfun.so"
    size=$(stat -c %s "$temp/$p/usr/bin/vfun")
    [ "$size" -le $vfun_max ] ||
        die "vfun has $size bytes, and a guest is to carry $vfun_max at most: what does it link? (cargo tree -p vfun-cli)"
    install -m 644 "$here/guest/client/include/vfun.h" "$here/protocol/wire/include/vfun_wire.h" \
        "$here/functions/function/include/vfun_function.h" "$here/services/sdk/include/vfun_driver.h" \
        "$here/protocol/queue/include/vfun_queue.h" "$here/guest/kmod/vfun_uapi.h" "$temp/$p/usr/include"
    sed "s|@PREFIX@|/usr|g; s|@LIBDIR@|/usr/lib|g; s|@VERSION@|$version|g" \
        "$here/guest/client/vfun.pc.in" >"$temp/$p/usr/lib/pkgconfig/vfun.pc"
    printf 'Licence: Apache-2.0 OR MIT; vfun_uapi.h: GPL-2.0 WITH Linux-syscall-note.\n' \
        >"$temp/$p/usr/share/doc/$p/copyright"
    script $p postinst <<TEXT
[ "\$1" != configure ] || ldconfig
TEXT
    finish $p
}

dkms
[ $which = dkms ] || guest
