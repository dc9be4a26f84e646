# Keeps a manager: vfund is its child, and the manager's folder is its own. A vfund
# that is killed is started again, as an init does. Its stdin is a pipe from the
# measuring program, and the end of that pipe, however it comes about, is the end
# of vfund, of its services and of the folder.
#   keeper ROOT VFUND ARGUMENT...
root=$1
shift
trap '' HUP INT TERM
keep() {
    while :; do
        "$@" </dev/null >>"$root/vfund.log" 2>&1 &
        echo $! >"$root/vfund.pid"
        wait $!
        # 128 and SIGKILL.
        [ $? -eq 137 ] && [ ! -e "$root/ends" ] || break
    done
}
keep "$@" &
keep=$!
cat >/dev/null
: >"$root/ends"
kill -TERM "$(cat "$root/vfund.pid")"
# Asked in vain, it is made to; what it served for notices by itself.
(sleep 10 && kill -KILL "$(cat "$root/vfund.pid")") >/dev/null 2>&1 &
killer=$!
wait $keep
kill -KILL $killer 2>/dev/null
rm -rf -- "$root"
