#!/bin/sh
# The bonds of packaging/guest/examples, made by the tools that read them: a machine in QEMU
# with Debian 12's systemd, ifupdown, NetworkManager, netplan and cloud-init, in which
# packaging/bootbond/check.sh looks at what each one makes. Needs root, for the owners of files,
# but for a disk that is up to date. Nothing is installed or mounted on this machine.
#
#   tests/bootbond.sh            make what is missing or old; boot it and check
#   tests/bootbond.sh TOOL...    the same with these tools only, by their names in check.sh
#   tests/bootbond.sh --fetch    only fetch Debian's packages; needs nothing built
#
# VFUN_BOOTBOND_DIR   the folder (default: target/bootbond)
# CARGO_TARGET_DIR    where it was built (default: target)
# VFUN_PROFILE        the build's profile (default: ci)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
dir=${VFUN_BOOTBOND_DIR:-$here/target/bootbond}
built=${CARGO_TARGET_DIR:-$here/target}/${VFUN_PROFILE:-ci}
suite=bookworm
packages=linux-image-cloud-amd64,systemd,systemd-sysv,udev,kmod,dbus,iproute2,iputils-ping,procps
packages=$packages,ifupdown,ifenslave,isc-dhcp-client,network-manager,netplan.io,cloud-init
# More than is in it. Only what is used takes room.
disk_size=1500M
# A hundred times as slow as a machine of its own, this is still enough.
patience=1800

say() { printf '%s\n' "bootbond: $*" >&2; }
die() { say "$*"; exit 1; }

fetch_only=no
tools=
case "${1-}" in
    --fetch) fetch_only=yes ;;
    -*) die "unknown argument '$1'; there is --fetch" ;;
    *) tools=$(echo "$*" | tr ' ' ,) ;;
esac
[ $fetch_only = yes ] || [ -x "$built/vfun-agent" ] || die "$built/vfun-agent is not there: run 'tests/built.py build'"

inputs() {
    find "$here/packaging/guest/examples" "$here/packaging/bootbond" -type f
    printf '%s\n' "$here/tests/bootbond.sh" "$built/vfun-agent"
}
up_to_date() {
    [ -s "$dir/disk" ] && [ -s "$dir/vmlinuz" ] &&
        [ -z "$(inputs | while read -r f; do [ ! "$f" -nt "$dir/disk" ] || echo "$f"; done)" ]
}

make_base() {
    [ ! -s "$dir/base.tar" ] || [ "$(cat "$dir/base.of" 2>/dev/null)" != "$packages" ] || return 0
    [ "$(id -u)" = 0 ] || die "needs root to make files of root's in $dir"
    for tool in mmdebstrap mke2fs; do
        command -v $tool >/dev/null 2>&1 || die "$tool is missing: run packaging/setup.sh"
    done
    . "$here/packaging/apt.sh"
    . "$here/packaging/debian-base.sh"
    say "making a system of Debian's packages"
    debian_base $suite $packages "$dir/base.tar" || exit 1
    printf '%s\n' "$packages" >"$dir/base.of"
}

make_disk() {
    [ "$(id -u)" = 0 ] || die "needs root to make files of root's in $dir"
    make_base
    temp=$(mktemp -d "$dir/tmp.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    trap 'exit 1' HUP INT TERM
    root=$temp/root
    mkdir -m 755 "$root"
    tar -C "$root" --numeric-owner -xf "$dir/base.tar"
    install -m 755 "$built/vfun-agent" "$root/usr/bin/"
    install -m 755 "$here/packaging/bootbond/check.sh" "$root/usr/bin/vfun-check"
    install -m 644 "$here/packaging/bootbond/vfun-check.service" "$root/etc/systemd/system/"
    mkdir -p "$root/usr/share/doc/virtfun-guest"
    cp -r "$here/packaging/guest/examples" "$root/usr/share/doc/virtfun-guest/"
    wants=$root/etc/systemd/system/multi-user.target.wants
    mkdir -p "$wants"
    ln -sf /etc/systemd/system/vfun-check.service "$wants/vfun-check.service"
    # The check starts each tool when its turn comes.
    touch "$root/etc/cloud/cloud-init.disabled"
    rm -f "$wants/NetworkManager.service" "$root/etc/systemd/system/network-online.target.wants"/*
    # What a machine of some minutes needs not.
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
        systemd-timesyncd.service networking.service getty@tty1.service serial-getty@ttyS0.service; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    echo bootbond >"$root/etc/hostname"
    version=$(cd "$root/lib/modules" && echo *)
    cp "$root/boot/vmlinuz-$version" "$dir/vmlinuz"
    cp "$root/boot/initrd.img-$version" "$dir/initrd"
    rm -rf "$root"/boot/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
    say "packing it"
    truncate -s $disk_size "$temp/disk"
    mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -d "$root" "$temp/disk" ||
        die "could not make the file system; is the disk full?"
    mv "$temp/disk" "$dir/disk"
}

mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
[ $fetch_only = no ] || { make_base; exit 0; }
up_to_date || make_disk

qemu=qemu-system-x86_64
command -v $qemu >/dev/null 2>&1 || die "$qemu is missing: run packaging/setup.sh"
say "booting it; what it says goes to $dir/console"
# Two NICs with one address, as a VM has them that holds a VF; QEMU's own network answers
# DHCP. What is written to the disk is gone with QEMU.
timeout "$patience" $qemu -M q35 -nodefaults -no-user-config -display none -accel tcg,thread=multi -cpu max \
    -m 768 -smp 2 -no-reboot -kernel "$dir/vmlinuz" -initrd "$dir/initrd" \
    -append "root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on systemd.show_status=no${tools:+ vfun.tools=$tools}" \
    -drive "if=none,id=disk,format=raw,snapshot=on,cache=unsafe,file=$dir/disk" -device virtio-blk-pci,drive=disk \
    -device pcie-root-port,id=rp1,chassis=1,slot=1 -device pcie-root-port,id=rp2,chassis=2,slot=2 \
    -netdev user,id=pv -device virtio-net-pci,bus=rp1,netdev=pv,mac=52:54:00:00:00:01,romfile= \
    -netdev user,id=vf -device virtio-net-pci,bus=rp2,netdev=vf,mac=52:54:00:00:00:01,romfile= \
    -serial stdio </dev/null >"$dir/console" 2>&1 ||
    say "QEMU ended with $?"
tr -d '\r' <"$dir/console" | grep '^check: ' >&2 || true
if tr -d '\r' <"$dir/console" | grep -qx 'check: all done' && ! grep -q '^check: FAILED' "$dir/console"; then
    exit 0
fi
tail -n 60 "$dir/console" >&2
die "not every tool makes the bond as docs/nics-guest.md says (all of it: $dir/console)"
