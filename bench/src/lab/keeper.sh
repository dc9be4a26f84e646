# Keeps a manager: vfund is its child, and the manager's folder is its own. Its
# stdin is a pipe from the measuring program, and the end of that pipe, however
# it comes about, is the end of vfund, of its services and of the folder.
#   keeper ROOT VFUND ARGUMENT...
root=$1
shift
trap '' HUP INT TERM
"$@" </dev/null >"$root/vfund.log" 2>&1 &
vfund=$!
cat >/dev/null
kill -TERM $vfund
# Asked in vain, it is made to; what it served for notices by itself.
(sleep 10 && kill -KILL $vfund) >/dev/null 2>&1 &
killer=$!
wait $vfund
kill -KILL $killer 2>/dev/null
rm -rf -- "$root"
