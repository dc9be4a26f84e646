#!/bin/busybox sh
# pid 1 of a test guest. It never ends, because the kernel panics if it does.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM=linux SHELL=/bin/sh
if [ "$1" = on-disk ]; then
    # The second time, see below: the system on the disk, with its own programs
    # first, is around us.
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/vfun/bin
    /run/vfun/bin/busybox --install -s /run/vfun/bin
    echo /sbin/modprobe >/proc/sys/kernel/modprobe
    . /run/vfun/config
else
    /bin/busybox --install -s /bin
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs dev /dev
    mkdir -p /dev/shm /dev/pts /run /tmp /var
    mount -t devpts devpts /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t tmpfs tmp /tmp
    mount -t tmpfs run /run
    mkdir /run/vfun
    ln -s /proc/self/fd /dev/fd
    ln -s /run /var/run
    echo /bin/modprobe >/proc/sys/kernel/modprobe

    . /etc/vfun/config # insmod=, kernel_module=, disk=, net=, shell=, rows=, columns=, LD_LIBRARY_PATH=

    for module in $insmod; do
        insmod "/lib/modules/$(uname -r)/$module" || echo "init: module $module does not load"
    done
    if [ -n "$kernel_module" ]; then
        # What a package's udev rule does.
        insmod "$kernel_module" && chgrp vfun /dev/vfun* || echo "init: $kernel_module does not load, or finds no window"
    fi
    if [ -n "$disk" ]; then
        mkdir /disk /run/vfun/bin
        until [ -b "$disk" ]; do usleep 2000; done
        mount -t ext4 "$disk" /disk || echo "init: the disk cannot be mounted"
        cp /bin/busybox /run/vfun/bin
        cp /init /etc/vfun/config /run/vfun
        for mount in dev proc sys run tmp; do mount -o move "/$mount" "/disk/$mount"; done
        exec switch_root /disk /run/vfun/bin/busybox sh /run/vfun/init on-disk
    fi
fi
hostname -F /etc/hostname
ip link set lo up
if [ "$net" = 1 ]; then
    ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 &&
        ip route add default via 10.0.2.2 || echo "init: no network card eth0"
fi

[ ! -x /etc/vfun-start ] || /etc/vfun-start || echo "init: /etc/vfun-start failed"

# busybox's poweroff, halt and reboot ask pid 1 by signals.
trap 'sync; busybox poweroff -f' USR2
trap 'sync; busybox halt -f' USR1
trap 'sync; busybox reboot -f' TERM

if [ "$shell" = 1 ]; then
    cd /root
    cat /etc/motd
    while :; do
        [ -z "$rows" ] || stty rows "$rows" cols "$columns" </dev/ttyS0
        # In the background, because a trap waits for what is in the foreground.
        setsid cttyhack sh -l </dev/console &
        wait $!
        echo 'The shell has ended; here is a new one. Leave with: poweroff'
        sleep 1
    done
fi

# Kills all processes of the session that a script runs in.
kill_session() {
    for stat in /proc/[0-9]*/stat; do
        read -r line <"$stat" || continue
        # After "pid (name)", whose name may hold anything: state ppid group session.
        set -- ${line##*) }
        stat=${stat#/proc/}
        [ "$4" = "$session" ] && kill -KILL "${stat%/stat}"
    done 2>/dev/null
}

# Only one may write into the channel at a time.
lock() { until mkdir /run/vfun/lock 2>/dev/null; do usleep 2000; done; }
unlock() { rmdir /run/vfun/lock; }

# Runs a script, each of its outputs on a tmpfs of its own: that bounds it, lets
# a daemon that it leaves behind write on, and takes nothing from its neighbours.
job() {
    d=/run/vfun/$1
    mkdir -p "$d/out" "$d/err" && mount -t tmpfs -o "size=$max_out" out "$d/out" &&
        mount -t tmpfs -o "size=$max_err" err "$d/err"
    printf %b "$2" >"$d/script"
    : >"$d/out/t"
    : >"$d/err/t"
    # By its path, or it would be busybox's, which prefers its own programs, on a
    # disk as well.
    setsid /bin/sh "$d/script" </dev/null >"$d/out/t" 2>"$d/err/t" 3>&- &
    session=$!
    echo $session >"$d/session"
    wait $session 2>/dev/null
    status=$?
    set -- "$1" $(stat -c %s "$d/out/t" "$d/err/t")
    full=0
    [ "$2" -lt "$max_out" ] && [ "$3" -lt "$max_err" ] || full=1
    lock
    printf 'D %d %d %d %d %d\n' "$1" $status "$2" "$3" $full >&3
    # By length, since something left behind may still be writing.
    [ "$2" = 0 ] || head -c "$2" "$d/out/t" >&3
    [ "$3" = 0 ] || head -c "$3" "$d/err/t" >&3
    unlock
    umount -l "$d/out" "$d/err"
    rm -rf "$d"
}

port=
until [ -n "$port" ]; do
    for entry in /sys/class/virtio-ports/*; do
        read -r name 2>/dev/null <"$entry/name" && [ "$name" = vfun.commands ] && port=/dev/${entry##*/}
    done
    [ -n "$port" ] || usleep 2000
done
until [ -c "$port" ]; do usleep 2000; done
exec 3<>"$port"
echo H >&3
cd /root
while :; do
    # The end of the file means that nobody is at the other end for now.
    while read -r op id rest <&3; do
        case $op in
            R) job "$id" "$rest" & ;;
            K) if read -r session <"/run/vfun/$id/session"; then kill_session; fi 2>/dev/null ;;
            Q) sync; busybox poweroff -f ;;
        esac
    done
    usleep 20000
done
