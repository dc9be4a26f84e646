#!/bin/sh
# Fetches a QEMU that emulates a card with SR-IOV (igb), with its libraries and
# loader, without installing it, and prints the folder it lies in. Does nothing
# but print when it is there already. Debian 12's QEMU has no such card, and that
# of its backports has one that does not work; so it is Debian's newest.
#
#   packaging/qemu-igb.sh             fetch if missing
#   packaging/qemu-igb.sh --refresh   fetch again
#
# VFUN_QEMU_IGB_DIR     the folder (default: target/qemu-igb)
# VFUN_QEMU_IGB_SUITE   where it is taken from (default: sid)
#
# FOLDER/qemu starts it, wherever the folder lies: on this machine or in a guest.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
dir=${VFUN_QEMU_IGB_DIR:-$here/target/qemu-igb}
suite=${VFUN_QEMU_IGB_SUITE:-sid}

. "$here/packaging/unpacked.sh"
only_refresh "$@"

complete() { [ -x "$dir/qemu" ] && "$dir/qemu" -device igb,help >/dev/null 2>&1; }
if [ $refresh = no ] && complete; then
    (cd "$dir" && pwd)
    exit 0
fi

begin_unpacking "$dir"
mkdir -p "$temp/new/firmware"

. "$here/packaging/apt.sh"
apt_for "$suite" "$temp/apt" ||
    die "cannot reach the suite $suite on the mirrors that apt has configured"

say "fetching QEMU of $suite"
unpack_packages "$temp" qemu-system-x86 || exit 1

# The program, the libraries that it links to, and the firmware of a machine
# without display.
new=$temp/new
cp "$temp/all/usr/bin/qemu-system-x86_64" "$new/qemu-system-x86_64"
for name in bios-256k kvmvapic linuxboot_dma pvh efi-virtio; do
    find "$temp/all" \( -name "$name.bin" -o -name "$name.rom" \) -exec cp -L {} "$new/firmware" \;
done
copy_libraries "$temp" "$new/lib" "$new/qemu-system-x86_64" || exit 1
cat >"$new/qemu" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" \
    "$here/qemu-system-x86_64" -L "$here/firmware" "$@"
END
chmod +x "$new/qemu"
"$new/qemu" -device igb,help >/dev/null || die "this QEMU has no igb, or does not start"
rm -rf "$dir"
mv -T "$new" "$dir"
(cd "$dir" && pwd)
