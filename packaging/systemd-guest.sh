#!/bin/sh
# The host's side under the unit that ships, in a Debian 12 of its own: a
# machine in QEMU with that system's systemd (252), control groups of version 2
# and a GPU (virtio-gpu), in which packaging/systemd/check.sh then tries limits,
# a device, upgrade, restart and stop with real drivers. Needs root, for the
# owners of files, but for a disk that is up to date. Nothing is installed or
# mounted on this machine.
#
#   packaging/systemd-guest.sh          make what is missing or old; print the folder
#   packaging/systemd-guest.sh --test   the same, then boot it and check (a few minutes)
#   packaging/systemd-guest.sh --base   only fetch Debian's packages; needs nothing built
#
# VFUN_SYSTEMD_GUEST_DIR  the folder (default: target/systemd-guest)
# CARGO_TARGET_DIR        where it was built (default: target)
# VFUN_PROFILE            the build's profile (default: release)
# VFUN_SYSTEMD_ACCEL      how QEMU runs it: tcg (default) or kvm
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
dir=${VFUN_SYSTEMD_GUEST_DIR:-$here/target/systemd-guest}
built=${CARGO_TARGET_DIR:-$here/target}/${VFUN_PROFILE:-release}
suite=bookworm
# The kernel for clouds has no driver of a GPU.
packages=linux-image-amd64,systemd,systemd-sysv,udev,kmod,dbus
# All that this machine needs of that kernel's modules, which have 350 MB.
modules='drivers/virtio/* drivers/block/virtio_blk.ko drivers/char/* drivers/gpu/drm/drm*
drivers/gpu/drm/virtio/* fs/ext4/* fs/jbd2/* fs/mbcache.ko fs/autofs/* fs/configfs/* crypto/*
lib/* arch/*'
# Twice what is in it now. Only what is used takes room.
disk_size=1500M
# A hundred times as slow as a machine of its own, this is still enough.
patience=${VFUN_SYSTEMD_PATIENCE:-1200}

say() { printf '%s\n' "systemd-guest: $*" >&2; }
die() { say "$*"; exit 1; }

task=disk
case "${1-}" in
    '') ;;
    --test) task=test ;;
    --base) task=base ;;
    *) die "unknown argument '$1'; there are --test and --base" ;;
esac
[ $task = base ] || [ -x "$built/vfund" ] || die "$built/vfund is not there: run \`make build\`"

inputs() {
    find "$here/packaging/systemd" "$here/functions" -name '*.toml' -o -path '*/systemd/*' -type f
    printf '%s\n' "$here/packaging/systemd-guest.sh" "$here/packaging/install.sh" \
        "$here/packaging/vfund.service" "$built/vfund" "$built/vfun" "$built/vfun-jail" \
        "$built/vfun-keeper" "$built/vfun-service" "$built/libvfun_attackdriver.so"
}
up_to_date() {
    [ -s "$dir/disk" ] && [ -s "$dir/vmlinuz" ] &&
        [ -z "$(inputs | while read -r f; do [ ! "$f" -nt "$dir/disk" ] || echo "$f"; done)" ]
}

make_base() {
    [ ! -s "$dir/base.tar" ] || [ "$(cat "$dir/base.of" 2>/dev/null)" != "$packages $modules" ] || return 0
    [ "$(id -u)" = 0 ] || die "needs root to make files of root's in $dir"
    for tool in mmdebstrap mke2fs; do
        command -v $tool >/dev/null 2>&1 || die "$tool is missing: run packaging/setup.sh"
    done
    . "$here/packaging/apt.sh"
    . "$here/packaging/debian-base.sh"
    say "making a system of Debian's packages"
    set -- '--dpkgopt=path-exclude=/lib/modules/*/kernel/*'
    set -f # these are dpkg's patterns
    for module in $modules; do
        set -- "$@" "--dpkgopt=path-include=/lib/modules/*/kernel/$module"
    done
    set +f
    debian_base $suite $packages "$dir/base.tar" "$@" || exit 1
    printf '%s\n' "$packages $modules" >"$dir/base.of"
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
    say "installing VirtFun in it"
    (cd "$here" && DESTDIR=$root PREFIX=/usr packaging/install.sh >/dev/null)
    # The driver that uses more than it may, and whatever device it is told.
    install -m 755 "$built/libvfun_attackdriver.so" "$root/usr/lib/virtfun/"
    # Emulated, it takes longer.
    sed 's/^deadline_ms = .*/deadline_ms = 120000/' "$here/services/attackdriver/function.toml" \
        >"$root/usr/share/virtfun/functions/attack.toml"
    install -m 644 "$here/packaging/systemd/gpu.toml" "$root/usr/share/virtfun/"
    install -m 755 "$here/packaging/systemd/check.sh" "$root/usr/bin/vfun-check"
    install -m 644 "$here/packaging/systemd/vfun-check.service" "$root/etc/systemd/system/"
    wants=$root/etc/systemd/system/multi-user.target.wants
    mkdir -p "$wants"
    ln -sf /usr/lib/systemd/system/vfund.service "$wants/vfund.service"
    ln -sf /etc/systemd/system/vfun-check.service "$wants/vfun-check.service"
    # What a machine of some minutes needs not.
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
        fstrim.timer systemd-timesyncd.service getty@tty1.service serial-getty@ttyS0.service; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    echo systemd-guest >"$root/etc/hostname"
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
[ $task != base ] || { make_base; exit 0; }
up_to_date || make_disk
[ $task = test ] || { (cd "$dir" && pwd); exit 0; }

qemu=qemu-system-x86_64
command -v $qemu >/dev/null 2>&1 || die "$qemu is missing: run packaging/setup.sh"
case ${VFUN_SYSTEMD_ACCEL:-tcg} in
    kvm) accel='-accel kvm -cpu host' ;;
    *) accel='-accel tcg,thread=multi -cpu max' ;;
esac
say "booting it; what it says goes to $dir/console"
# What is written to the disk is gone with QEMU.
# shellcheck disable=SC2086  # a list of words is meant
timeout "$patience" $qemu -M q35 -nodefaults -no-user-config -display none $accel \
    -m 1024 -smp 2 -no-reboot -kernel "$dir/vmlinuz" -initrd "$dir/initrd" \
    -append 'root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on systemd.show_status=no' \
    -drive "if=none,id=disk,format=raw,snapshot=on,cache=unsafe,file=$dir/disk" \
    -device virtio-blk-pci,drive=disk -device virtio-gpu-pci -serial stdio </dev/null >"$dir/console" 2>&1 ||
    say "QEMU ended with $?"
tr -d '\r' <"$dir/console" | grep '^check: ' >&2 || true
if tr -d '\r' <"$dir/console" | grep -qx 'check: all done' && ! grep -q '^check: FAILED' "$dir/console"; then
    exit 0
fi
tail -n 60 "$dir/console" >&2
die "not everything holds under systemd (all of it: $dir/console)"
