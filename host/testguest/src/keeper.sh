# The keeper of a guest: QEMU is its child, and the guest's folder is its own.
# Its stdin is a pipe from the harness, and the end of that pipe, however it
# comes about, is the end of QEMU and of the folder.
#   keeper FOLDER LIFE QEMU ARGUMENT...
folder=$1 life=$2
shift 2
trap '' HUP INT TERM
# The harness says "go" when the folder is filled, or dies while it fills it.
if read -r go && [ "$go" = go ]; then
    "$@" </dev/null &
    qemu=$!
    # Let go of the console's pipe: only QEMU holds it, so its end shows.
    exec >/dev/null 2>&1
    echo $qemu >"$folder/pid.new" && mv "$folder/pid.new" "$folder/pid"
    timeout -s KILL "$life" cat
    kill -KILL $qemu
    wait $qemu
fi
rm -rf -- "$folder"
