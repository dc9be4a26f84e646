# Cleans up after a guest on a person's terminal, whose QEMU is the harness's own
# child because it needs the terminal. Ends QEMU if the harness is gone before it.
#   watcher FOLDER
trap '' HUP INT TERM
qemu=
while read -r word number; do
    case $word in
        pid) qemu=$number ;;
        done) qemu= ;;
    esac
done
[ -z "$qemu" ] || kill -KILL "$qemu"
rm -rf -- "$1"
