#!/bin/sh
# In the machine of packaging/systemd-guest.sh: what the unit that ships
# promises, tried with real drivers. Each line says what came of one check.
set -u
groups=/sys/fs/cgroup/virtfun.slice/virtfun
long=          # a program that calls all the time
failed=0

ok() { echo "check: ok $1"; }
failed() {
    echo "check: FAILED $1"
    failed=1
}
# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@" >/tmp/said 2>&1; then ok "$name"; else failed "$name"; cat /tmp/said; fi
}
# Until a command succeeds: an emulated machine may be a hundred times as slow.
eventually() {
    name=$1 end=$(($(date +%s) + 120))
    shift
    until "$@" >/tmp/said 2>&1; do
        if [ "$(date +%s)" -gt "$end" ]; then failed "$name"; cat /tmp/said; return; fi
        sleep 0.2
    done
    ok "$name"
}
has() { # FILE WORDS: the first line of the file is this
    [ "$(head -n1 "$1")" = "$2" ] || { echo "$1 says $(head -n1 "$1"), not $2"; false; }
}
main_pid() { systemctl show -p MainPID --value vfund; }
generation() { vfun --json status | tr ',{}' '\n\n\n' | sed -n 's/.*"generation": *\([0-9]*\).*/\1/p'; }
# Of the function that is called all the time.
service_pid() { vfun service list | awk '$3 == "echo" { print $4; exit }'; }
runs() { grep -q '^State:.[^Z]' "/proc/$1/status"; }
calls_go_on() { runs "$long" && [ "$(service_pid)" = "$was" ]; }
has_ended() { ! runs "$1"; }
complete() { vfun service list | grep " $1 .* complete"; }
one() { echo "$groups"/*/host/"$1"-*; } # the group of a function's service
throttled() { [ "$(sed -n 's/^nr_throttled //p' "$(one factorial)/cpu.stat")" -gt 0 ]; }

echo "check: $(systemctl --version | head -n1), kernel $(uname -r)"
check 'control groups are of version 2' test -f /sys/fs/cgroup/cgroup.controllers
eventually 'the manager answers' vfun status
check 'the unit is active' systemctl is-active vfund
check 'a function answers' sh -c 'test "$(vfun call echo hello --quiet)" = hello'

# Limits.
vfun call echo hi --repeat 100000000 --quiet >/tmp/long 2>&1 &
long=$!
eventually 'its service has every layer of the sandbox' complete echo
check 'doctor says so' sh -c 'vfun doctor --no-start | grep "have all 14 layers"'
check 'its group is in the slice' test -f "$(one echo)/pids.max"
check 'a bound on threads' has "$(one echo)/pids.max" 69
check 'a policy is set without a doubt' sh -c 'printf "[default]\ncpu = \"20%%\"\nmemory = \"64 MiB\"\nthreads = 16\n" >/tmp/policy.toml && vfun policy set /tmp/policy.toml | tee /tmp/set && ! grep -q "not enforced" /tmp/set'
vfun call factorial 51 --repetitions 2000000000 --deadline 60000 --quiet >/tmp/burns 2>&1 &
burns=$!
eventually 'a share of the processors holds a driver back' throttled
check 'it is the one of the policy' has "$(one factorial)/cpu.max" '20000 100000'
kill $burns
# Without that share, which an emulated processor would feel for minutes.
check 'another policy is set' sh -c 'sed -i /cpu/d /tmp/policy.toml && vfun policy set /tmp/policy.toml'
# Mode 3 of the driver that attacks: 512 MiB at once.
check 'a driver that takes more memory is ended' sh -c '! vfun call attack --quiet --hex 03000000000000000000002000000000'
eventually 'and the history says why' sh -c 'vfun history | tee /tmp/history | grep "more memory" || { cat /tmp/history; false; }'
# Mode 4: 200 threads; the first byte of the answer is how many there were.
check 'no more threads than policy says' sh -c 'n=$(vfun call attack --quiet --hex 0400000000000000c800000000000000 --out - | od -An -tu1 -N1); echo "$n"; test "$n" -ge 4 && test "$n" -le 21'

# A device: the GPU that QEMU emulates. Mode 10 of the driver that attacks opens a
# node and makes one request of it; the answer is the name of the kernel's driver,
# or an error's number below zero.
gpu=/dev/dri/renderD128
which=006440c000000000 # DRM_IOCTL_VERSION, as eight bytes
other=0c6410c000000000 # DRM_IOCTL_GET_CAP
asks() { # NODE REQUEST
    node=$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')
    vfun call attack --quiet --hex "0a00000000000000$2$node" --out - >/tmp/answer
}
refuses() { # NODE REQUEST ERROR...: one of these
    asks "$1" "$2" || return 1
    n=$(od -An -v -td8 /tmp/answer | tr -d ' \n')
    shift 2
    for e; do [ "$n" != "-$e" ] || return 0; done
    echo "it answers $n"
    return 1
}
names() { asks "$1" "$2" && [ "$(cat /tmp/answer)" = "$3" ]; }
denied() { ! asks "$1" "$2" 2>/tmp/denied && grep "$1" /tmp/denied && grep 'devices in' /tmp/denied; }
eventually 'there is a GPU, of a group of its own' sh -c "test -c $gpu && ls -l $gpu | tee /tmp/node | grep ' root render ' || { ls -l /dev/dri; false; }"
check 'a function without devices cannot open it' refuses $gpu $which 2 13
cat /usr/share/virtfun/functions/attack.toml /usr/share/virtfun/gpu.toml >/tmp/gpu.toml
check 'its manifest is taken' vfun function add /tmp/gpu.toml
check 'a function whose manifest names it asks it what it is' names $gpu $which virtio_gpu
check 'another request is refused' refuses $gpu $other 25
check 'another node is refused' refuses /dev/dri/card0 $which 2 13
check 'policy takes it' sh -c 'printf "[default]\nmemory = \"64 MiB\"\nthreads = 16\ndevices = []\n" >/tmp/policy.toml && vfun policy set /tmp/policy.toml'
check 'it is denied then' denied $gpu $which
check 'policy gives it back' sh -c 'sed -i /devices/d /tmp/policy.toml && vfun policy set /tmp/policy.toml'
check 'and it answers again' names $gpu $which virtio_gpu

# A manager that dies.
was=$(service_pid) old=$(main_pid)
kill -9 "$old"
eventually 'systemd starts a manager that was killed' sh -c "test \$(systemctl show -p MainPID --value vfund) != 0 && test \$(systemctl show -p MainPID --value vfund) != $old && vfun status"
eventually 'its service serves on' calls_go_on
check 'it has every layer still' complete echo
check 'new services start' sh -c 'vfun call sha256 /etc/hostname --quiet && vfun call echo x --quiet'

# Upgrade: another file in the program's place, and a reload.
was=$(service_pid) before=$(generation) main=$(main_pid)
cp -L /usr/bin/vfund /usr/lib/virtfun/vfund.new && mv /usr/lib/virtfun/vfund.new /usr/lib/virtfun/vfund
new=$(stat -Lc %i /usr/lib/virtfun/vfund)
check 'reload' systemctl reload vfund
upgraded() { [ "$(stat -Lc %i "/proc/$main/exe")" = "$new" ] && [ "$(generation)" != "$before" ]; }
eventually 'the new program runs in the same process' upgraded
eventually 'calls went on through the upgrade' calls_go_on
check 'systemd knows the same process' test "$(main_pid)" = "$main"
# One thread more, for the second channel that it had.
check 'limits hold after it' has "$(one echo)/pids.max" 70

# Restart and stop.
check 'restart' systemctl restart vfund
eventually 'it answers' vfun status
check 'a function answers after it' sh -c 'test "$(vfun call echo hello --quiet)" = hello'
eventually 'the program that called through it was told' has_ended "$long"
check 'stop' systemctl stop vfund
gone() { [ ! -d $groups ] || [ -z "$(find $groups -name cgroup.procs -exec cat {} +)" ]; }
eventually 'no service is left' gone
check 'start once more' systemctl start vfund
eventually 'it answers once more' vfun status
check 'a function answers once more' sh -c 'test "$(vfun call echo hello --quiet)" = hello'

if [ $failed = 0 ]; then
    echo 'check: all done'
else
    echo 'check: what the manager said:'
    journalctl -u vfund --no-pager -o cat | tail -n 60
    systemctl status vfund --no-pager | head -n 20
    find $groups -type d
fi
sync
exit $failed
