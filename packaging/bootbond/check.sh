#!/bin/sh
# In the machine of tests/bootbond.sh: each network tool makes the bond of its example, first in
# a VM without a VF, then in one that has its VF from the start. Each line says what came of
# one check.
set -u
shown=
examples=/usr/share/doc/virtfun-guest/examples
nic=enp1s0 vf=enp2s0 mac=52:54:00:00:00:01
bond=/sys/class/net/bond0
# The VF is a virtio NIC, too: this machine has no driver of a card. It comes and goes with
# its driver.
vf_device=$(basename "$(echo /sys/bus/pci/devices/0000:02:00.0/virtio*)")

ok() { echo "check: ok $tool: $1"; }
failed() { # CHECK: what is to be seen goes with it, once
    echo "check: FAILED $tool: $1"
    cat /tmp/said
    [ "$shown" != "$tool" ] || return 0
    shown=$tool
    cat /tmp/began
    ip addr
    cat /proc/net/bonding/bond0
    journalctl -b -n 40 --no-pager
}
check() { # CHECK COMMAND...
    what=$1
    shift
    if "$@" >/tmp/said 2>&1; then ok "$what"; else failed "$what"; fi
}
# Until a command succeeds: an emulated machine may be a hundred times as slow.
eventually() {
    what=$1 end=$(($(date +%s) + 60))
    shift
    until "$@" >/tmp/said 2>&1; do
        if [ "$(date +%s)" -gt "$end" ]; then failed "$what"; return 1; fi
        sleep 0.2
    done
    ok "$what"
}
has() { # FILE WORDS
    [ "$(cat "$1")" = "$2" ] || { echo "$1 says '$(cat "$1")', not '$2'"; false; }
}
# Sorted: the bond's list has them in the order in which they came.
slaves() { [ "$(tr ' ' '\n' <$bond/bonding/slaves | sort | xargs)" = "$*" ]; }
addressed() { ip -4 -o addr show dev bond0 scope global | grep -q .; }
bare() { # INTERFACE: it has no address and no route of its own
    ! ip -4 -o addr show dev "$1" scope global | grep . && ! ip route show dev "$1" | grep .
}
vf_comes() {
    echo "$vf_device" >/sys/bus/virtio/drivers/virtio_net/bind
    udevadm settle
    until [ -e /sys/class/net/$vf ]; do sleep 0.1; done
}
vf_goes() { [ ! -e /sys/class/net/$vf ] || echo "$vf_device" >/sys/bus/virtio/drivers/virtio_net/unbind; }
adopts() { # what the agent says of the bond, with this VF
    vfun-agent status | tee /tmp/status
    grep -q "paravirtual *$nic\$" /tmp/status && grep -q "VF *$1\$" /tmp/status &&
        grep -q 'packets take *paravirtual' /tmp/status && grep -q 'a bond, fail_over_mac none' /tmp/status &&
        ! grep -q trouble /tmp/status
}

# The bond is as docs/nics-guest.md says, the agent takes it on, and the tool leaves the VF alone.
is_made() { # none, or the VF that is there already
    eventually 'the bond has an address' addressed || return
    check 'its mode' has $bond/bonding/mode 'active-backup 1'
    check 'the NIC alone is in it' slaves $nic
    check 'no primary' has $bond/bonding/primary ''
    check 'packets take the NIC' has $bond/bonding/active_slave $nic
    check 'its MAC address' has $bond/address $mac
    check 'miimon' has $bond/bonding/miimon 100
    check 'packets pass' ping -c 1 -w 20 10.0.2.2
    check 'the NIC has no address' bare $nic
    vfun-agent run --bond bond0 >/tmp/agent 2>&1 &
    agent=$!
    eventually 'the agent takes it on' adopts "$1"
    # What the agent sets itself, as not every tool can.
    eventually 'all_slaves_active' has $bond/bonding/all_slaves_active 1
    eventually 'notices to the switch' has $bond/bonding/num_grat_arp 40
    [ "$1" != none ] || vf_comes
    eventually 'the agent sees the VF' adopts $vf
    # A tool that wants the VF takes it in this time.
    sleep 3
    check 'the tool lets the VF be' bare $vf
    # As the agent does when the host wants the VF.
    check 'the VF comes into the bond' sh -c "ip link set $vf down && ip link set $vf master bond0"
    eventually 'it has a carrier' has /sys/class/net/$vf/carrier 1
    check 'packets are to take it' sh -c "echo $vf >$bond/bonding/active_slave"
    sleep 3
    check 'the tool leaves it in the bond' slaves $nic $vf
    check 'and lets packets take it' has $bond/bonding/active_slave $vf
    check 'the bond keeps its address' addressed
    vf_goes
    check 'packets take the NIC again' has $bond/bonding/active_slave $nic
    check 'and pass' ping -c 1 -w 20 10.0.2.2
    kill $agent
    wait $agent 2>/dev/null
}

# As at a machine's start.
down() {
    ip link del bond0 2>/dev/null
    vf_goes
    ip link set $nic down
    ip addr flush dev $nic
    ip route flush dev $nic
    rm -rf /run/systemd/network/* /run/vfun-agent /run/network/* /run/cloud-init /var/lib/dhcp/*
    rmmod bonding 2>/dev/null
}
# As in a machine that was never configured.
forget() {
    rm -rf /etc/network/interfaces.d/* /etc/systemd/network/* /etc/netplan/* /etc/NetworkManager/system-connections/*
    printf 'auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n' >/etc/network/interfaces
}

# For each tool: what is written, once; how it begins at each start; how it ends.
ifupdown_writes() { cat $examples/ifupdown >>/etc/network/interfaces; }
ifupdown_begins() { ifup -a; }
ifupdown_ends() { ifdown -a; }

networkd_writes() { cp $examples/systemd-networkd/* /etc/systemd/network; }
networkd_begins() { systemctl start systemd-networkd; }
networkd_ends() { systemctl stop systemd-networkd.socket systemd-networkd; }

networkmanager_writes() {
    install -m 600 $examples/networkmanager/*.nmconnection /etc/NetworkManager/system-connections
    # Its driver is that of the paravirtual NIC, here.
    printf '[keyfile]\nunmanaged-devices=interface-name:%s\n' $vf >/etc/NetworkManager/conf.d/vf.conf
}
networkmanager_begins() { systemctl start NetworkManager; }
networkmanager_ends() { systemctl stop NetworkManager; }

netplan_writes() { install -m 600 $examples/cloud-init.yaml /etc/netplan; }
netplan_begins() {
    netplan generate
    systemctl start systemd-networkd
}
netplan_ends() { networkd_ends; }

# cloud-init, which writes for another tool.
cloud_init_writes() { # RENDERER EDIT
    cloud-init clean
    seed=/var/lib/cloud/seed/nocloud
    mkdir -p $seed
    echo 'instance-id: one' >$seed/meta-data
    echo '#cloud-config' >$seed/user-data
    sed "$2" $examples/cloud-init.yaml >$seed/network-config
    printf 'datasource_list: [NoCloud]\nsystem_info: {network: {renderers: [%s]}}\n' "$1" \
        >/etc/cloud/cloud.cfg.d/99-check.cfg
}
# With an address: by DHCP, what it writes for ifupdown asks before the NIC is in the bond, and
# gets no answer.
cloud_init_eni_writes() { cloud_init_writes eni 's/dhcp4: true/addresses: [10.0.2.15\/24]/'; }
cloud_init_eni_begins() {
    cloud-init init --local
    cat /etc/network/interfaces.d/*
    ifup -a
}
cloud_init_eni_ends() { ifupdown_ends; }
cloud_init_netplan_writes() { cloud_init_writes netplan ''; }
cloud_init_netplan_begins() {
    cloud-init init --local
    cat /etc/netplan/*
    netplan_begins
}
cloud_init_netplan_ends() { networkd_ends; }

for package in ifupdown ifenslave systemd network-manager netplan.io cloud-init; do
    echo "check: $(dpkg-query -W "$package")"
done
tools='ifupdown networkd networkmanager netplan cloud_init_eni cloud_init_netplan'
# shellcheck disable=SC2013  # words are meant
for word in $(cat /proc/cmdline); do
    case $word in vfun.tools=*) tools=$(echo "${word#*=}" | tr , ' ') ;; esac
done
for each in $tools; do
    tool=$each
    down
    forget
    { "${each}_writes" && "${each}_begins"; } >/tmp/began 2>&1
    is_made none
    "${each}_ends" >/tmp/ended 2>&1
    # As after a reboot of a VM that holds a VF.
    tool="$each, VF from the start"
    down
    vf_comes
    "${each}_begins" >/tmp/began 2>&1
    is_made $vf
    "${each}_ends" >/tmp/ended 2>&1
done
echo 'check: all done'
