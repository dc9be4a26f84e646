#!/usr/bin/env bash
# Installs what `make build` built: programs, drivers, library, headers,
# manifests, manual, completions and the unit. PREFIX and DESTDIR as usual;
# VFUN_PROFILE is the build's profile (default: release).
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
to=${DESTDIR:-}$prefix
bin=${CARGO_TARGET_DIR:-target}/${VFUN_PROFILE:-release}
[ -x $bin/vfund ] || { echo "install: nothing is built: run \`make build\`" >&2; exit 1; }
lib=$to/lib/virtfun

install -d "$to/bin" "$lib" "$to/include" "$to/lib/pkgconfig" "$to/share/virtfun/functions" \
    "$to/share/virtfun/functions-fpga-simulated" "$to/share/virtfun/functions-model-simulated" \
    "$to/share/man/man1" "$to/share/bash-completion/completions"
# vfund looks for its keeper, launcher of services, service program, gateway, metrics and drivers beside itself.
install -m 755 $bin/vfund $bin/vfun-keeper $bin/vfun-jail $bin/vfun-service $bin/vfun-gateway $bin/vfun-metrics "$lib/"
install -m 755 $bin/libvfun_fn_*.so "$lib/"
# vfun looks there for the commands that are programs of their own.
install -m 755 $bin/vfun-bench $bin/vfun-guest $bin/vfun-top "$lib/"
# Built on its own: packaging/wasm.sh.
if [ -x $bin/vfun-service-wasm ]; then
    install -m 755 $bin/vfun-service-wasm "$lib/"
    install -m 644 $bin/*.wasm "$lib/"
    install -m 644 services/wasm/modules/*.toml "$to/share/virtfun/functions/"
fi
install -m 755 $bin/vfun-service-opencl "$lib/"
install -d "$to/share/virtfun/functions-opencl"
install -m 644 services/opencl/kernels/* "$to/share/virtfun/functions-opencl/"
ln -sf ../lib/virtfun/vfund "$to/bin/vfund"
install -m 755 $bin/vfun "$to/bin/"
install -m 644 $bin/libvfun.so "$to/lib/"
install -m 644 guest/client/include/vfun.h services/sdk/include/vfun_driver.h protocol/function/include/vfun_function.h \
    protocol/wire/include/vfun_wire.h "$to/include/"
sed "s|@PREFIX@|$prefix|g; s|@LIBDIR@|$prefix/lib|g; s|@VERSION@|$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)|g" \
    guest/client/vfun.pc.in > "$to/lib/pkgconfig/vfun.pc"
for f in functions/*/function.toml; do
    install -m 644 "$f" "$to/share/virtfun/functions/$(basename "$(dirname "$f")").toml"
done
for f in services/fpga/functions/*/function.toml; do
    install -m 644 "$f" "$to/share/virtfun/functions-fpga-simulated/$(basename "$(dirname "$f")").toml"
done
install -m 644 services/modeldevice/functions/model/function.toml "$to/share/virtfun/functions-model-simulated/model.toml"
$bin/vfun man "$to/share/man/man1" >/dev/null
$bin/vfun completions bash > "$to/share/bash-completion/completions/vfun"
if [ -d "${DESTDIR:-}/usr/lib/systemd/system" ] || [ -n "${DESTDIR:-}" ]; then
    install -d "${DESTDIR:-}/usr/lib/systemd/system"
    sed "s|@PREFIX@|$prefix|g" packaging/vfund.service > "${DESTDIR:-}/usr/lib/systemd/system/vfund.service"
fi
[ -n "${DESTDIR:-}" ] || ldconfig
echo "installed under $to; start with: vfund --functions $prefix/share/virtfun/functions"
