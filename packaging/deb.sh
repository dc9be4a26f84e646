#!/bin/sh
# Builds Debian packages into target/deb. It needs no root.
#
#   virtfun             a host: vfund and its programs, the functions that ship, the unit
#   virtfun-cli         the command vfun with its manual, for hosts and guests
#   virtfun-guest       a guest: the group vfun, the rule that gives it /dev/vfunN, vfun-agent
#   virtfun-guest-dkms  the kernel module's source, for DKMS
#   virtfun-apis        for programs in guests: libraries of C APIs that the host does the work of
#   libvfun0            the library for programs in C
#   libvfun-dev         its headers, the static library, pkg-config's file
#   python3-virtfun     the Python package
#   virtfun-dpdk        the driver by which a switch with DPDK, or a program in a VM, has ports; only
#                       if it is named, as it needs DPDK (packaging/dpdk.sh)
#
#   packaging/deb.sh            all of them; needs `make build` first
#   packaging/deb.sh NAME...    these alone; virtfun-guest, virtfun-guest-dkms and virtfun-dpdk need no `make build`
#
# DEBFULLNAME, DEBEMAIL   whom the packages name as their maintainer
# CARGO_TARGET_DIR   where `make build` built (default: target)
# VFUN_PROFILE       the profile of what was built (default: release);
#                    vfun and vfun-agent are built here, by the profile guest: small
# VFUN_DEB_QUICK     not empty: vfun and vfun-agent as VFUN_PROFILE built them, which saves
#                    minutes. They are not small: for tests only
# VFUN_DEB_DIR       where the packages go (default: target/deb)
# VFUN_DEB_VERSION   their version (default: the project's, and -1)
# VFUN_DEB_COMPRESS  how dpkg-deb compresses (default: xz); none is fast, for tests
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
agent=$target/guest/vfun-agent
agent_max=3000000
[ -z "${VFUN_DEB_QUICK-}" ] || { vfun=$built/vfun agent=$built/vfun-agent; }
all='virtfun-guest virtfun-guest-dkms virtfun-apis virtfun-cli virtfun libvfun0 libvfun-dev python3-virtfun'

say() { printf '%s\n' "deb: $*" >&2; }
die() { say "$*"; exit 1; }

[ $# -gt 0 ] || set -- $all
for name; do
    case " $all virtfun-dpdk " in *" $name "*) ;; *) die "unknown package '$name'; there are: $all virtfun-dpdk" ;; esac
done
for tool in dpkg-deb dpkg-shlibdeps dpkg-gensymbols; do
    command -v $tool >/dev/null 2>&1 || die "$tool is missing: run packaging/setup.sh. These packages are built on Debian"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n1)
kmod=$(sed -n 's/^MODULE_VERSION("\(.*\)");/\1/p' "$here/guest/kmod/main.c")
[ "$version" = "$kmod" ] ||
    die "the module says it is version $kmod, the project $version: make MODULE_VERSION in guest/kmod/main.c the same"
full=${VFUN_DEB_VERSION:-$version-1}
# Without Debian's part.
upstream=${full%-*}
arch=$(dpkg --print-architecture)
libdir=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# Whoever builds a package answers for it; Debian's tools use the same variables.
maintainer="${DEBFULLNAME:-VirtFun local build} <${DEBEMAIL:-root@localhost}>"
# The same package for the same source, whenever it is built.
epoch=${SOURCE_DATE_EPOCH:-1700000000}

mkdir -p "$out"
temp=$(mktemp -d "$out/tmp.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
# What is installed gets its rights from here, not from who builds.
umask 022
# Debian's tools look for these names.
work=$temp/work
mkdir -p "$work/debian"

# package NAME ARCHITECTURE SECTION SUMMARY [FIELD]... <description
# begins a package; finish makes it.
package() {
    p=$1
    dir=$temp/$p
    mkdir -p "$dir/DEBIAN"
    {
        printf 'Package: %s\nSource: virtfun\nVersion: %s\nArchitecture: %s\n' "$1" "$full" "$2"
        printf 'Maintainer: %s\nSection: %s\nPriority: optional\n' "$maintainer" "$3"
        printf 'Homepage: https://github.com/virtfun/virtfun\n'
        summary=$4
        shift 4
        [ $# = 0 ] || printf '%s\n' "$@"
        printf 'Description: %s\n' "$summary"
        sed 's/^$/./; s/^/ /'
    } >"$temp/control"
}

# depends [WORDS]: what the package needs besides the libraries that its programs link.
depends() {
    programs=$(find "$dir" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c \
        'for f; do case $(head -c 4 "$f" | tr -d "\177") in ELF) printf "%s\n" "$f" ;; esac; done' sh {} +)
    libs=''
    if [ -n "$programs" ]; then
        printf 'Source: virtfun\n\nPackage: %s\nArchitecture: any\n' "$p" >"$work/debian/control"
        # shellcheck disable=SC2086  # a list of files is meant
        libs=$(cd "$work" && dpkg-shlibdeps -O --warnings=0 $(printf -- '-e%s ' $programs)) ||
            die "cannot tell which libraries $p needs (its reason is above)"
        libs=$(printf '%s\n' "$libs" | sed -n 's/^shlibs:Depends=//p')
    fi
    words=$libs${libs:+${1:+, }}${1-}
    [ -z "$words" ] || sed -i "s/^Section:/Depends: $words\n&/" "$temp/control"
}

# script NAME <text
script() {
    { printf '#!/bin/sh\nset -e\n'; cat; } >"$dir/DEBIAN/$1"
    chmod 755 "$dir/DEBIAN/$1"
}

# overrides <lines: what lintian is not to say of this package, each with its reason
overrides() {
    install -d "$dir/usr/share/lintian/overrides"
    sed "s/^[^#]/$p: &/" >"$dir/usr/share/lintian/overrides/$p"
}

# document [PACKAGE OF CARGO]...: licences, those of what is linked too, and what changed
document() {
    doc=$dir/usr/share/doc/$p
    install -d "$doc"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
        printf 'Upstream-Name: virtfun\nSource: https://github.com/virtfun/virtfun\n\n'
        printf 'Files: *\nCopyright: 2026 The VirtFun developers\nLicense: Apache-2.0 or MIT\n\n'
        [ ! -d "$dir/usr/src" ] ||
            printf 'Files: *.c *.h\nCopyright: 2026 The VirtFun developers\nLicense: GPL-2\nComment: vfun_wire.h, vfun_packet.h, vfun_link_ring.h and vfun_link_ledger.h are Apache-2.0 or MIT.\n\n'
        [ ! -f "$dir/usr/include/vfun_uapi.h" ] ||
            printf 'Files: usr/include/vfun_uapi.h\nCopyright: 2026 The VirtFun developers\nLicense: GPL-2 with Linux-syscall-note\n\n'
        printf 'License: Apache-2.0\n On Debian the text is in /usr/share/common-licenses/Apache-2.0.\n\n'
        printf 'License: MIT\n'
        sed '1,/^Copyright/d; /./!d; s/^/ /' "$here/LICENSE-MIT"
        [ ! -d "$dir/usr/src" ] && [ ! -f "$dir/usr/include/vfun_uapi.h" ] ||
            printf '\nLicense: GPL-2\n On Debian the text is in /usr/share/common-licenses/GPL-2.\n'
    } >"$doc/copyright"
    [ $# = 0 ] || "$here/packaging/licences.py" "$@" | gzip -9n >"$doc/linked-crates.gz"
    {
        printf 'virtfun (%s) unstable; urgency=medium\n\n' "$full"
        printf '  * What changed: see changelog.gz beside this file.\n\n'
        printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$epoch")"
    } | gzip -9n >"$doc/changelog.Debian.gz"
    gzip -9nc "$here/CHANGELOG.md" >"$doc/changelog.gz"
}

finish() {
    find "$dir" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u+x \) -path '*/usr/*' \
        -exec sh -c 'for f; do case $(head -c 4 "$f" | tr -d "\177") in ELF) strip --strip-unneeded -R .comment -R .note "$f" ;; esac; done' sh {} +
    # Libraries are loaded, not run.
    find "$dir/usr" -type f -name '*.so*' -exec chmod 644 {} +
    size=$(du -k --apparent-size -s "$dir" | cut -f1)
    sed "s/^Section:/Installed-Size: $size\n&/" "$temp/control" >"$dir/DEBIAN/control"
    (cd "$dir" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs -r md5sum >DEBIAN/md5sums)
    find "$dir" -exec touch -h -d "@$epoch" {} +
    dpkg-deb --root-owner-group "-Z${VFUN_DEB_COMPRESS:-xz}" --build "$dir" "$out/" >/dev/null
    ls "$out/${p}_${full}"_*.deb
}

# What an install has, once, and which package gets which part of it.
tree() {
    [ ! -d "$temp/tree" ] || return 0
    (cd "$here" && DESTDIR=$temp/tree PREFIX=/usr CARGO_TARGET_DIR=$target packaging/install.sh >/dev/null)
    usr=$temp/tree/usr
    # It is the one of the profile guest in a package.
    rm "$usr/share/virtfun/installed-files" "$usr/bin/vfun" "$usr/bin/vfun-agent"
    # All of a guest's agent is in virtfun-guest, which needs nothing of a host.
    find "$usr" -name 'vfun-agent*' -o -name _vfun-agent | xargs rm
    # Links to pages lead to what these are called when they are compressed.
    find "$usr/share/man" -type f -exec gzip -9n {} +
    find "$usr/share/man" -type l | while read -r link; do
        ln -s "$(readlink "$link").gz" "$link.gz"
        rm "$link"
    done
    # Commands that are programs of a host's have their pages with these.
    for page in "$usr"/share/man/man1/*; do
        case $page in
            *vfun-bench* | *vfun-guest* | *vfun-top*) take virtfun usr/share/man/man1 "$page" ;;
            *) take virtfun-cli usr/share/man/man1 "$page" ;;
        esac
    done
    take virtfun-cli usr/share/bash-completion/completions "$usr/share/bash-completion/completions/vfun"
    take virtfun-cli usr/share/zsh/vendor-completions "$usr/share/zsh/site-functions/_vfun"
    take virtfun-cli usr/share/fish/vendor_completions.d "$usr/share/fish/vendor_completions.d/vfun.fish"
    take libvfun0 "$libdir" "$usr"/lib/libvfun.so.*
    take libvfun-dev usr "$usr/include"
    take libvfun-dev usr/share/doc/libvfun-dev "$usr/share/doc/virtfun/examples"
    take libvfun-dev "$libdir" "$usr/lib/libvfun.so"
    take libvfun-dev "$libdir/pkgconfig" "$usr/lib/pkgconfig/vfun.pc"
    sed -i "s|^libdir=.*|libdir=/$libdir|" "$temp/libvfun-dev/$libdir/pkgconfig/vfun.pc"
    take virtfun lib "$usr/lib/systemd"
    take virtfun-apis usr/lib/virtfun "$usr/lib/virtfun/apis"
    # p11-kit takes a name as one of this folder of the machine's kind.
    take virtfun-apis "$libdir/pkcs11" "$usr/lib/pkcs11/virtfun-pkcs11.so"
    take virtfun-apis usr/share/p11-kit "$usr/share/p11-kit/modules"
    sed -i 's|^module: .*|module: virtfun-pkcs11.so|' "$temp/virtfun-apis/usr/share/p11-kit/modules/virtfun.module"
    take virtfun usr/lib "$usr/lib/virtfun"
    take virtfun etc/virtfun "$usr/share/virtfun/vfund.toml"
    take virtfun usr/share "$usr/share/virtfun"
    take virtfun usr/share/man "$usr/share/man/man8"
    sed -i 's|^\(ExecStart=[^ ]*\) .*|\1 --config /etc/virtfun/vfund.toml|' \
        "$temp/virtfun/lib/systemd/system/vfund.service"
    take virtfun usr/bin "$usr/bin/vfund"
    left=$(find "$usr" \( -type f -o -type l \))
    [ -z "$left" ] || die "no package has these: $left"
}
take() { # PACKAGE FOLDER FILE...
    into=$temp/$1/$2
    install -d "$into"
    shift 2
    mv -- "$@" "$into/"
}

guest() {
    small vfun-agent "$agent" $agent_max
    package virtfun-guest "$arch" admin 'VirtFun for guests: who may use the window, and the agent' \
        'Recommends: virtfun-guest-dkms' 'Suggests: libvfun0, python3-virtfun, virtfun-apis' <<TEXT
Programs in a virtual machine call functions of its host through memory
that both share. This package makes a machine a guest: it has the group
vfun, whose members may use the window, and the rule of udev that gives
it to them.

It also has vfun-agent, which moves the machine's bond when the host gives
it a virtual function of a network card, or takes it away. Its unit is not
enabled by itself.

The kernel module is in virtfun-guest-dkms.
TEXT
    install -D -m 644 "$here/packaging/guest/60-vfun.rules" "$dir/lib/udev/rules.d/60-vfun.rules"
    agent_files
    script postinst <<'TEXT'
if [ "$1" = configure ]; then
    getent group vfun >/dev/null || groupadd --system vfun
    if [ -d /run/udev ]; then
        udevadm control --reload || true
        udevadm trigger --subsystem-match=misc || true
    fi
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        # The bond stays as it is meanwhile.
        [ -z "$2" ] || deb-systemd-invoke try-restart vfun-agent.service >/dev/null || true
    fi
fi
TEXT
    script prerm <<'TEXT'
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop vfun-agent.service >/dev/null || true
fi
TEXT
    script postrm <<'TEXT'
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null 2>&1; then
    deb-systemd-helper purge vfun-agent.service >/dev/null || true
fi
TEXT
    document vfun-agent
    depends "passwd, init-system-helpers (>= 1.52), virtfun-cli (>= $full)"
    finish
}

agent_files() {
    install -D -m 755 "$agent" "$dir/usr/bin/vfun-agent"
    install -d "$dir/lib/systemd/system" "$dir/usr/share/man/man8" "$dir/usr/share/doc/$p"
    sed 's|@PREFIX@|/usr|g' "$here/packaging/guest/vfun-agent.service" >"$dir/lib/systemd/system/vfun-agent.service"
    "$here/packaging/manual.py" "$agent" "$upstream" "$here/packaging/man/vfun-agent.roff" |
        gzip -9n >"$dir/usr/share/man/man8/vfun-agent.8.gz"
    for completion in bash/usr/share/bash-completion/completions/vfun-agent \
        zsh/usr/share/zsh/vendor-completions/_vfun-agent \
        fish/usr/share/fish/vendor_completions.d/vfun-agent.fish; do
        install -d "$dir/$(dirname "${completion#*/}")"
        "$agent" completions "${completion%%/*}" >"$dir/${completion#*/}"
    done
    cp -r "$here/packaging/guest/examples" "$dir/usr/share/doc/$p/examples"
    chmod -R u=rwX,go=rX "$dir/usr/share/doc/$p/examples"
}

dkms() {
    package virtfun-guest-dkms all kernel 'VirtFun kernel module for guests (DKMS source)' <<TEXT
The driver of the device through which a virtual machine's programs call
functions of its host. It gives each program its own part of the shared
memory, as /dev/vfunN, to members of the group vfun.

DKMS builds it for each kernel whose headers are installed.
TEXT
    src=$dir/usr/src/virtfun-$upstream
    install -d "$src"
    install -m 644 "$here"/guest/kmod/*.[ch] "$here/guest/kmod/Kbuild" "$here/guest/kmod/Makefile" \
        "$here/protocol/wire/include/vfun_wire.h" "$here"/protocol/packet/include/*.h "$src"
    sed "s/@VERSION@/$upstream/" "$here/packaging/guest/dkms.conf" >"$src/dkms.conf"
    script postinst <<TEXT
if [ "\$1" = configure ]; then
    /usr/lib/dkms/common.postinst virtfun $upstream "" "" "\$2"
    # A device that is there already gets its driver now.
    if [ -d /run/udev ]; then
        modprobe vfun 2>/dev/null || true
    fi
fi
TEXT
    script prerm <<TEXT
if [ "\$1" = remove ] || [ "\$1" = upgrade ]; then
    # On the machine that runs, not in the file system of another. Only an idle
    # module goes; the next one is loaded after an upgrade.
    if [ -d /run/udev ] && [ -d /sys/module/vfun ] && ! rmmod vfun 2>/dev/null; then
        echo 'virtfun-guest-dkms: a program still has /dev/vfunN open, so the module stays loaded until the next boot' >&2
    fi
    if dkms status -m virtfun -v $upstream 2>/dev/null | grep -q .; then
        dkms remove -m virtfun -v $upstream --all
    fi
fi
TEXT
    document
    # The group and the rule; and the command and the module are updated together.
    depends "dkms, virtfun-guest (= $full)"
    finish
}

# A package of its own: a guest that only calls functions needs none of these, they come from
# `make build` (fast, not small), and a program on the host may use them without a guest's agent.
apis() {
    tree
    package virtfun-apis "$arch" libs 'VirtFun for guests: C APIs that the host does the work of' \
        'Suggests: virtfun-guest, virtfun-cli, libvfun-dev' <<TEXT
Shared libraries with the symbols of C APIs whose device is on the host.
A program that was linked with such an API runs in a virtual machine
unchanged, when LD_LIBRARY_PATH names the library's folder.

Each API has its folder in /usr/lib/virtfun/apis, where no loader looks by
itself. There is gdma, a DMA engine; the engine is simulated. verbs is for
programs of RDMA, and is preloaded. The module for PKCS#11, whose keys stay
on the host, is where p11-kit finds it.
TEXT
    document vfun-gdma-guest vfun-pkcs11-guest vfun-verbs-guest
    depends
    finish
}

# small PACKAGE FILE BYTES: builds a program that each guest carries, and looks that it is small.
small() {
    if [ -n "${VFUN_DEB_QUICK-}" ]; then
        [ -x "$2" ] || die "$2 is not there: build the profile $profile first"
        return
    fi
    [ -f "$2" ] || say "building $1 for guests (a minute or two, once)"
    command -v cargo >/dev/null 2>&1 ||
        die "cargo is not in PATH: as root by sudo, pass it on: sudo -E env PATH=\"\$PATH\" ..."
    # Whatever the compiler leaves running must not hold a caller's lock.
    (cd "$here" && CARGO_TARGET_DIR=$target cargo build --locked --quiet --profile guest -p "$1" 9>&-)
    size=$(stat -c %s "$2")
    [ "$size" -le "$3" ] ||
        die "$2 has $size bytes, and a guest is to carry $3 at most: what does it link? (cargo tree -p $1)"
}

cli() {
    small vfun-cli "$vfun" $vfun_max
    package virtfun-cli "$arch" admin 'VirtFun: the command vfun' 'Suggests: virtfun, virtfun-guest' <<TEXT
The command vfun calls functions of the host from inside a virtual
machine, and on the host it shows and changes what the manager offers.
TEXT
    install -D -m 755 "$vfun" "$dir/usr/bin/vfun"
    tree
    document vfun-cli
    depends
    finish
}

host() {
    package virtfun "$arch" admin 'functions of the host for its virtual machines' \
        'Suggests: qemu-system, libvirt-clients, pocl-opencl-icd, softhsm2' <<TEXT
Gives each virtual machine a window of memory shared with its host, and
runs functions for the programs in it, at the speed of shared memory.

The manager vfund, which starts with the system, the programs that serve
functions in a sandbox, and the functions that ship.
TEXT
    tree
    [ -x "$dir/usr/lib/virtfun/vfun-service-wasm" ] ||
        say "virtfun is made without WebAssembly: run packaging/wasm.sh for it"
    script postinst <<'TEXT'
case $1 in
    configure | abort-upgrade | abort-deconfigure | abort-remove)
        deb-systemd-helper unmask vfund.service >/dev/null || true
        if deb-systemd-helper --quiet was-enabled vfund.service; then
            deb-systemd-helper enable vfund.service >/dev/null || true
        else
            deb-systemd-helper update-state vfund.service >/dev/null || true
        fi
        if [ -d /run/systemd/system ]; then
            systemctl --system daemon-reload >/dev/null || true
            # A manager that runs becomes the new program; guests and their calls go on.
            if systemctl is-active --quiet vfund.service; then
                systemctl reload vfund.service ||
                    echo 'virtfun: vfund could not be reloaded and goes on as it was; `vfun status` says why' >&2
            else
                deb-systemd-invoke start vfund.service >/dev/null || true
            fi
        fi
        ;;
esac
TEXT
    script prerm <<'TEXT'
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop vfund.service >/dev/null || true
fi
TEXT
    script postrm <<'TEXT'
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
    if command -v deb-systemd-helper >/dev/null 2>&1; then
        deb-systemd-helper purge vfund.service >/dev/null || true
    fi
    rm -rf /var/lib/virtfun
fi
TEXT
    printf '/etc/virtfun/vfund.toml\n' >"$dir/DEBIAN/conffiles"
    overrides <"$here/packaging/deb/virtfun.lintian"
    document vfun-manager vfun-keeper vfun-jail vfun-native vfun-gateway vfun-metrics vfun-linkproxy vfun-nicd vfun-opencl \
        vfun-gdmaback vfun-pkcs11back vfun-verbsback vfun-bench vfun-guest vfun-top
    depends "init-system-helpers (>= 1.52), iproute2, virtfun-cli (>= $full)"
    finish
}

library() {
    tree
    soname=$(readelf -d "$temp/libvfun0/$libdir"/libvfun.so.*.*.* | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = libvfun.so.0 ] ||
        die "the library's name is '$soname' and the package's libvfun0: give the package the number of the ABI, too"
    package libvfun0 "$arch" libs 'call functions of the host: library' 'Multi-Arch: same' <<TEXT
Programs in a virtual machine call functions of its host through memory
that both share. This is the library for programs in C and in languages
that use its interface.
TEXT
    printf 'libvfun 0 libvfun0 (>= %s)\n' "$upstream" >"$dir/DEBIAN/shlibs"
    printf 'activate-noawait ldconfig\n' >"$dir/DEBIAN/triggers"
    printf 'Source: virtfun\n\nPackage: libvfun0\nArchitecture: any\n' >"$work/debian/control"
    (cd "$work" && dpkg-gensymbols -q -plibvfun0 "-v$version" "-P$dir" "-I$here/packaging/deb/libvfun0.symbols" \
        "-O$dir/DEBIAN/symbols" -c4) ||
        die "libvfun exports other symbols than packaging/deb/libvfun0.symbols says (above). New ones: add them there. \
Some are gone: programs break, so raise ABI in guest/client/build.rs, too"
    document vfun
    depends
    finish
}

development() {
    tree
    say "building the static library"
    (cd "$here" && CARGO_TARGET_DIR=$target cargo rustc --locked --quiet --profile "$profile" -p vfun --lib \
        --crate-type staticlib 9>&-)
    package libvfun-dev "$arch" libdevel 'call functions of the host: headers and static library' \
        'Multi-Arch: same' 'Suggests: pkg-config, virtfun-apis' <<TEXT
What programs in C need to be built with libvfun, and drivers and
functions of one's own in C: headers, libvfun.so, libvfun.a, and the file
for pkg-config. Also the headers of the APIs in virtfun-apis, and examples.
TEXT
    install -m 644 "$here/guest/kmod/vfun_uapi.h" "$dir/usr/include"
    install -m 644 "$built/libvfun.a" "$dir/$libdir"
    strip --strip-debug "$dir/$libdir/libvfun.a"
    document vfun
    depends "libvfun0 (= $full)"
    finish
}

python() {
    [ -f "$built/libvirtfun_native.so" ] || die "$built/libvirtfun_native.so is not there: run \`make build\`"
    package python3-virtfun "$arch" python 'call functions of the host: Python' 'Suggests: python3-numpy' <<TEXT
Programs in a virtual machine call functions of its host through memory
that both share. This is the package virtfun for Python; arrays of numpy
in the window are not copied.
TEXT
    modules=$dir/usr/lib/python3/dist-packages
    install -d "$modules/virtfun" "$modules/virtfun-$upstream.dist-info"
    (cd "$here/guest/python/python/virtfun" && install -m 644 ./*.py ./*.pyi py.typed "$modules/virtfun")
    # By the stable interface of Python 3.11: one library for all that follow.
    install -m 644 "$built/libvirtfun_native.so" "$modules/virtfun/_native.abi3.so"
    printf 'Metadata-Version: 2.1\nName: virtfun\nVersion: %s\nRequires-Python: >=3.11\n' "$upstream" \
        >"$modules/virtfun-$upstream.dist-info/METADATA"
    printf 'dpkg\n' >"$modules/virtfun-$upstream.dist-info/INSTALLER"
    script postinst <<'TEXT'
if [ "$1" = configure ] && command -v py3compile >/dev/null 2>&1; then
    py3compile -p python3-virtfun
fi
TEXT
    script prerm <<'TEXT'
if command -v py3clean >/dev/null 2>&1; then
    py3clean -p python3-virtfun
fi
TEXT
    document vfun-python
    depends 'python3 (>= 3.11)'
    finish
}

# DPDK loads the drivers of its release from one folder, so a switch needs no option to find this one.
dpdk() {
    driver=$("$here/packaging/dpdk.sh") || die "the driver was not built (its reason is above)"
    release=$(readelf -d "$driver" | sed -n 's/.*\[librte_ethdev\.so\.\(.*\)\]/\1/p')
    folder=$(find "/$libdir/dpdk" -maxdepth 1 -name "pmds-$release.*" 2>/dev/null | head -n1)
    [ -n "$folder" ] || die "DPDK has no folder /$libdir/dpdk/pmds-$release.* for its drivers: is it Debian's?"
    package virtfun-dpdk "$arch" net 'ports of virtual machines for switches with DPDK' \
        'Enhances: openvswitch-switch-dpdk' 'Suggests: virtfun, libvfun0' <<TEXT
A driver of DPDK for network ports of virtual machines, whose frames go
through memory that a machine shares with its host. Open vSwitch with DPDK
loads it by itself, and takes a port when the manager vfund says so:
vfun port add VM NAME --switch BRIDGE --way dpdk.

Programs of DPDK in a virtual machine have a port of it by the same driver,
with the package libvfun0.
TEXT
    install -D -m 644 "$driver" "$dir$folder/librte_net_vfun.so.${folder##*-}"
    document
    depends
    finish
}

for name; do
    case $name in
        virtfun-dpdk) dpdk ;;
        virtfun-guest) guest ;;
        virtfun-guest-dkms) dkms ;;
        virtfun-apis) apis ;;
        virtfun-cli) cli ;;
        virtfun) host ;;
        libvfun0) library ;;
        libvfun-dev) development ;;
        python3-virtfun) python ;;
    esac
done
