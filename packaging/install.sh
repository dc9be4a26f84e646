#!/usr/bin/env bash
# Installs what `make build` built: programs, drivers, library, headers,
# manifests, manual and completions; where PREFIX is the system's (/usr or
# /usr/local) the unit as well. All of it lies under PREFIX, so that a user may
# install into a folder of their own.
#
#   packaging/install.sh            install; needs root only where PREFIX does
#   packaging/install.sh --remove   remove what an install with this PREFIX put there
#
# PREFIX             default: /usr/local
# DESTDIR            a folder in front of PREFIX, for those who make packages
# CARGO_TARGET_DIR   where `make build` built (default: target)
# VFUN_PROFILE       the build's profile (default: release)
# VFUN_BUILT         the folder of the programs (default: that of the profile)
set -euo pipefail

say() { printf '%s\n' "install: $*" >&2; }
die() { say "$*"; exit 1; }

prefix=$(realpath -sm -- "${PREFIX:-/usr/local}")
end=${DESTDIR:-}$prefix
list=share/virtfun/installed-files
case $prefix in /usr | /usr/local) system=yes ;; *) system=no ;; esac

# A package does this when it is installed.
linker() {
    [ $system = no ] || [ -n "${DESTDIR:-}" ] || ldconfig || say "ldconfig failed: run it as root"
}

# The folders of a system stay, but for our own.
remove_folders() { # RELATIVE
    local folder=$1
    while [ "$folder" != . ] && { [ $system = no ] || [[ $folder == *virtfun* ]]; }; do
        rmdir -- "$end/$folder" 2>/dev/null || return 0
        folder=$(dirname "$folder")
    done
}

remove() {
    [ -f "$end/$list" ] || die "nothing is installed under $end: it has no $list"
    while read -r f; do
        rm -f -- "$end/$f"
        remove_folders "$(dirname "$f")"
    done < <(cat "$end/$list")
    linker
    say "removed from $end; the manager's data stay (/var/lib/virtfun by default)"
}

put() { # RELATIVE
    if [ -L "$to/$1" ]; then
        install -d "$(dirname "$end/$1")"
        cp -P --remove-destination -- "$to/$1" "$end/$1"
    else
        install -D -m "$(stat -c %a "$to/$1")" -- "$to/$1" "$end/$1"
    fi
}

api() { # NAME DRIVER LIBRARY-FOR-GUESTS LIBRARY
    install -m 755 "$bin/$2" "$lib/"
    local folder from name
    for folder in apis native; do
        case $folder in apis) from=$bin/$3 ;; native) from=$bin/$4 ;; esac
        name=$(soname_of "$from")
        install -D -m 644 "$from" "$lib/$folder/$1/$name"
        ln -sf "$name" "$lib/$folder/$1/$4"
    done
}

soname_of() { readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; } # LIBRARY

case "${1-}" in
    '') ;;
    --remove) remove; exit 0 ;;
    *) die "unknown argument '$1'; the only one is --remove" ;;
esac
cd "$(dirname "$0")/.."
bin=${VFUN_BUILT:-${CARGO_TARGET_DIR:-target}/${VFUN_PROFILE:-release}}
[ -x "$bin/vfund" ] || die "$bin/vfund is missing: run \`make build\` first; without the right to install packages, \`cargo build --release --workspace\`"
# Put together here first, so that a file that is missing is found before anything is installed.
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
lib=$to/lib/virtfun

install -d "$to/bin" "$lib" "$to/include" "$to/lib/pkgconfig" "$to/share/virtfun/functions" \
    "$to/share/virtfun/functions-fpga-simulated" "$to/share/virtfun/functions-model-simulated" \
    "$to/share/virtfun/functions-gdma-simulated" \
    "$to/share/man/man1" "$to/share/man/man8" "$to/share/bash-completion/completions" \
    "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d"
# vfund looks for its keeper, launcher of services, service program, gateway, metrics, allocator of network VFs, watcher of switches and drivers beside itself.
install -m 755 "$bin"/vfund "$bin"/vfun-keeper "$bin"/vfun-jail "$bin"/vfun-service "$bin"/vfun-gateway "$bin"/vfun-metrics "$bin"/vfun-nics "$bin"/vfun-links "$bin"/vfun-links-proxy "$lib/"
install -m 755 "$bin"/libvfun_fn_*.so "$lib/"
# vfun looks there for the commands that are programs of their own.
install -m 755 "$bin"/vfun-bench "$bin"/vfun-guest "$bin"/vfun-top "$lib/"
# Built on its own: packaging/wasm.sh.
if [ -x "$bin"/vfun-service-wasm ]; then
    install -m 755 "$bin"/vfun-service-wasm "$lib/"
    install -m 644 "$bin"/*.wasm "$lib/"
    install -m 644 services/wasm/modules/*.toml "$to/share/virtfun/functions/"
fi
install -m 755 "$bin"/vfun-service-opencl "$lib/"
install -d "$to/share/virtfun/functions-opencl"
install -m 644 services/opencl/kernels/* "$to/share/virtfun/functions-opencl/"
install -m 755 "$bin"/vfun-service-verbs "$lib/"
install -D -m 644 services/verbsback/functions/verbs/function.toml "$to/share/virtfun/functions-verbs/verbs.toml"
ln -sf ../lib/virtfun/vfund "$to/bin/vfund"
install -m 755 "$bin"/vfun "$bin"/vfun-agent "$to/bin/"
# The file has the version, the names that lead to it are for the linkers at run time and at build time.
# APIs: the driver that serves each, the library for programs in VMs, and the one that does the work.
# Each of the libraries has a folder of its own, where no loader looks by itself: LD_LIBRARY_PATH
# chooses one.
api gdma libvfun_gdmaback.so libvfun_gdma.so libgdma.so
install -m 644 services/gdma/include/gdma.h "$to/include/"
install -D -m 644 services/gdma/examples/bounce.c "$to/share/doc/virtfun/examples/gdma/bounce.c"
install -m 644 services/gdmaback/functions/gdma/function.toml "$to/share/virtfun/functions-gdma-simulated/gdma.toml"
# RDMA: what is preloaded into programs.
install -D -m 644 "$bin/libvfunverbs.so" "$lib/apis/verbs/libvfunverbs.so"
# PKCS#11: programs name the module by its path, or p11-kit finds it.
install -m 755 "$bin/libvfun_pkcs11back.so" "$lib/"
install -D -m 644 "$bin/libvfun_pkcs11.so" "$to/lib/pkcs11/virtfun-pkcs11.so"
install -d "$to/share/p11-kit/modules" "$to/share/virtfun/functions-pkcs11"
sed "s|@PREFIX@|$prefix|g" packaging/virtfun.module > "$to/share/p11-kit/modules/virtfun.module"
sed "s|@PREFIX@|$prefix|g" services/pkcs11back/functions/pkcs11/function.toml > "$to/share/virtfun/functions-pkcs11/pkcs11.toml"
install -m 644 services/pkcs11back/functions/pkcs11/softhsm2.conf "$to/share/virtfun/functions-pkcs11/"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
soname=$(soname_of "$bin/libvfun.so")
install -m 644 "$bin/libvfun.so" "$to/lib/libvfun.so.$version"
ln -sf "libvfun.so.$version" "$to/lib/$soname"
ln -sf "$soname" "$to/lib/libvfun.so"
install -m 644 guest/client/include/vfun.h services/sdk/include/vfun_driver.h functions/function/include/vfun_function.h \
    protocol/wire/include/vfun_wire.h protocol/queue/include/vfun_queue.h \
    protocol/packet/include/vfun_packet.h protocol/packet/include/vfun_link_ring.h "$to/include/"
sed "s|@PREFIX@|$prefix|g; s|@LIBDIR@|$prefix/lib|g; s|@VERSION@|$version|g" \
    guest/client/vfun.pc.in > "$to/lib/pkgconfig/vfun.pc"
for f in functions/*/function.toml; do
    install -m 644 "$f" "$to/share/virtfun/functions/$(basename "$(dirname "$f")").toml"
done
for f in services/fpga/functions/*/function.toml; do
    install -m 644 "$f" "$to/share/virtfun/functions-fpga-simulated/$(basename "$(dirname "$f")").toml"
done
install -m 644 services/modeldevice/functions/model/function.toml "$to/share/virtfun/functions-model-simulated/model.toml"
"$bin/vfun" man "$to/share/man/man1" >/dev/null
packaging/manual.py "$bin/vfund" "$version" packaging/man/vfund.roff > "$to/share/man/man8/vfund.8"
packaging/manual.py "$bin/vfun-agent" "$version" packaging/man/vfun-agent.roff > "$to/share/man/man8/vfun-agent.8"
for p in vfun-gateway vfun-metrics vfun-nics vfun-links vfun-links-proxy; do
    packaging/manual.py "$bin/$p" "$version" > "$to/share/man/man8/$p.8"
done
sed "s/@VERSION@/$version/" packaging/man/vfun-service.8 > "$to/share/man/man8/vfun-service.8"
for p in vfun-keeper vfun-jail vfun-service-opencl vfun-service-verbs vfun-service-wasm; do
    ln -sf vfun-service.8 "$to/share/man/man8/$p.8"
done
# An example here; a package has it in /etc/virtfun.
sed "s|@PREFIX@|$prefix|g" packaging/vfund.toml > "$to/share/virtfun/vfund.toml"
"$bin/vfun" completions bash > "$to/share/bash-completion/completions/vfun"
"$bin/vfun" completions zsh > "$to/share/zsh/site-functions/_vfun"
"$bin/vfun" completions fish > "$to/share/fish/vendor_completions.d/vfun.fish"
"$bin/vfun-agent" completions bash > "$to/share/bash-completion/completions/vfun-agent"
"$bin/vfun-agent" completions zsh > "$to/share/zsh/site-functions/_vfun-agent"
"$bin/vfun-agent" completions fish > "$to/share/fish/vendor_completions.d/vfun-agent.fish"
# What the unit needs besides for --nics, to be copied where systemd reads it.
for more in nics ports; do
    sed "s|@PREFIX@|$prefix|g" packaging/vfund-$more.conf > "$to/share/virtfun/vfund-$more.conf"
done
# systemd reads both /usr/lib and /usr/local/lib.
if [ $system = yes ]; then
    install -d "$to/lib/systemd/system"
    sed "s|@PREFIX@|$prefix|g" packaging/vfund.service > "$to/lib/systemd/system/vfund.service"
    sed "s|@PREFIX@|$prefix|g" packaging/guest/vfun-agent.service > "$to/lib/systemd/system/vfun-agent.service"
    sed "s|@PREFIX@|$prefix|g" packaging/vfun-links-proxy@.service > "$to/lib/systemd/system/vfun-links-proxy@.service"
fi

touch "$to/$list"
files=$(cd "$to" && find . \( -type f -o -type l \) -printf '%P\n' | LC_ALL=C sort)
printf '%s\n' "$files" > "$to/$list"
# What an older version had and this one has not.
if [ -f "$end/$list" ]; then
    LC_ALL=C comm -23 "$end/$list" "$to/$list" | while read -r f; do rm -f -- "$end/$f"; done
fi
while read -r f; do put "$f"; done < "$to/$list"
linker
echo "installed under $end; start with: $prefix/bin/vfund --functions $prefix/share/virtfun/functions"
[ $system = yes ] || [ -n "${DESTDIR:-}" ] || cat <<TEXT
For your shell: export PATH=$prefix/bin:\$PATH PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
TEXT
