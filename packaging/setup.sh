#!/bin/sh
# Installs what a Debian 12 machine needs to build VirtFun and to run all of
# its tests, guests included. Says nothing and calls nothing when everything
# is there already, so that it can stand in front of every build.
#
#   packaging/setup.sh           install what is missing
#   packaging/setup.sh --check   only say what is missing (status 1 if any)
#   packaging/setup.sh --lintian   install lintian, too, which `make test-all` asks about our packages
set -eu

# package                the file that shows it is there
wanted='
gcc                      /usr/bin/gcc
g++                      /usr/bin/g++
libc6-dev                /usr/include/stdio.h
clang                    /usr/bin/clang
verilator                /usr/bin/verilator
lld                      /usr/bin/wasm-ld
wabt                     /usr/bin/wat2wasm
libp11-kit-dev           /usr/include/p11-kit-1/p11-kit/pkcs11.h
softhsm2                 /usr/lib/softhsm/libsofthsm2.so
opensc                   /usr/bin/pkcs11-tool
gnutls-bin               /usr/bin/p11tool
p11-kit                  /usr/bin/p11-kit
openssl                  /usr/bin/openssl
libengine-pkcs11-openssl /usr/lib/x86_64-linux-gnu/engines-3/pkcs11.so
openssh-client           /usr/bin/ssh-keygen
opencl-c-headers         /usr/include/CL/cl.h
pocl-opencl-icd          /etc/OpenCL/vendors/pocl.icd
ocl-icd-libopencl1       /usr/lib/x86_64-linux-gnu/libOpenCL.so.1
make                     /usr/bin/make
pkg-config               /usr/bin/pkg-config
libzstd-dev              /usr/include/zstd.h
cpio                     /usr/bin/cpio
gzip                     /bin/gzip
lz4                      /usr/bin/lz4
xz-utils                 /usr/bin/xz
kmod                     /sbin/depmod
sparse                   /usr/bin/sparse
valgrind                 /usr/bin/valgrind
libelf1                  /usr/lib/x86_64-linux-gnu/libelf.so.1
util-linux               /usr/bin/taskset
iproute2                 /bin/ip
ibverbs-utils            /usr/bin/ibv_devinfo
libibverbs-dev           /usr/include/infiniband/verbs.h
librdmacm-dev            /usr/include/rdma/rdma_cma.h
rdmacm-utils             /usr/bin/rping
perftest                 /usr/bin/ib_write_bw
qperf                    /usr/bin/qperf
libfabric-bin            /usr/bin/fi_pingpong
mmdebstrap               /usr/bin/mmdebstrap
e2fsprogs                /sbin/mke2fs
dpkg-dev                 /usr/bin/dpkg-gensymbols
libc-bin                 /usr/bin/ldd
qemu-system-x86          /usr/bin/qemu-system-x86_64
busybox-static           busybox
python3                  /usr/bin/python3
python3-venv             ensurepip
python3-dev              /usr/bin/python3-config
libvirt-daemon           /usr/sbin/libvirtd
libvirt-daemon-driver-qemu /usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so
libvirt-clients          /usr/bin/virsh
fonts-dejavu-core        /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
ca-certificates          /etc/ssl/certs/ca-certificates.crt
'

say() { printf '%s\n' "setup: $*" >&2; }
die() { say "$*"; exit 1; }

check_only=no
case "${1-}" in
    '') ;;
    --check) check_only=yes ;;
    --lintian) wanted="$wanted
lintian /usr/bin/lintian" ;;
    *) die "unknown argument '$1'; there are --check and --lintian" ;;
esac

# Debian has two packages with /bin/busybox, and only the static one works in
# an initramfs without libraries; so ask the program, not its name.
static_busybox() {
    for b in /bin/busybox /usr/bin/busybox; do
        [ -x "$b" ] && ! ldd "$b" >/dev/null 2>&1 && return 0
    done
    return 1
}

# Debian's python3 has no ensurepip without python3-venv; another python3 in
# front of it on the PATH may bring its own.
ensurepip() {
    python3 -c 'import ensurepip' >/dev/null 2>&1
}

missing=''
while read -r package proof; do
    [ -n "$package" ] || continue
    if [ "$proof" = busybox ]; then
        static_busybox || missing="$missing $package"
    elif [ "$proof" = ensurepip ]; then
        ensurepip || missing="$missing $package"
    elif [ ! -e "$proof" ] && [ ! -e "/usr$proof" ]; then
        missing="$missing $package"
    fi
done <<LIST
$wanted
LIST

if [ -n "$missing" ]; then
    [ "$check_only" = no ] || die "missing:$missing (run packaging/setup.sh)"
    command -v apt-get >/dev/null 2>&1 ||
        die "missing:$missing, and there is no apt-get here: install what they hold by this system's own means"
    if [ "$(id -u)" = 0 ]; then
        sudo=''
    elif command -v sudo >/dev/null 2>&1; then
        sudo='sudo'
    else
        die "missing:$missing; run this as root, or install sudo"
    fi
    say "installing$missing"
    # A stale package list is the usual reason for a failing download, and
    # something is to be fetched anyway, so bring the list up to date.
    $sudo apt-get -qq update || say "apt-get update failed; going on with the package lists at hand"
    # shellcheck disable=SC2086  # a list of words is meant
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
        -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >&2 ||
        die "apt-get could not install:$missing (its reason is above)"
fi

# Rust comes from rustup or Debian's own package as the person prefers; Debian
# 12's is too old, so do not install it behind their back.
need=1.89
if ! command -v cargo >/dev/null 2>&1; then
    [ -x "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo" ] &&
        die "cargo is installed but not on the PATH: run '. \"${CARGO_HOME:-$HOME/.cargo}/env\"'"
    die "cargo is missing: install Rust $need or newer from https://rustup.rs"
fi
have=$(rustc --version 2>/dev/null | cut -d' ' -f2 | cut -d- -f1)
[ -n "$have" ] || die "cargo is here but rustc does not run: reinstall Rust $need or newer from https://rustup.rs"
[ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n1)" = "$need" ] ||
    die "rustc $have is too old: VirtFun needs $need or newer ('rustup update stable')"
