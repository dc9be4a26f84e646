#!/bin/sh
# In the system of packaging/deb-test.sh: our packages are installed, upgraded and
# purged. The folder /deb has two versions of them, old and new.
set -eu
answer=2432902008176640000 # factorial 20
manager=

say() { echo "check: $*"; }
fail() {
    say "FAILED: $*"
    cat /tmp/vfund.log /tmp/long 2>/dev/null || true
    exit 1
}
eventually() { # COMMAND...
    end=$(($(date +%s) + 120))
    until "$@" >/tmp/said 2>&1; do
        [ "$(date +%s)" -le "$end" ] || { cat /tmp/said; fail "$*"; }
        sleep 0.1
    done
}
# What is there, but for what apt and dpkg note for themselves.
files() {
    find / -xdev -path /deb -prune -o -path /tmp -prune -o -path /var/cache -prune -o -path /var/log -prune -o \
        -path /var/lib/apt -prune -o -path /var/lib/dpkg -prune -o -printf '%y %p\n' | LC_ALL=C sort
}
apt() { apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" || fail "apt-get $*"; }

# As the unit does it: its user, its capabilities, its command.
start() {
    unit=/lib/systemd/system/vfund.service
    ! grep -q '^User=' $unit || fail "the unit has a user, and this test starts it as root"
    command=$(sed -n 's/^ExecStart=//p' $unit)
    caps=$(sed -n 's/^CapabilityBoundingSet=//p' $unit | tr A-Z a-z | sed 's/cap_/+/g; s/ /,/g')
    install -d "/var/lib/$(sed -n 's/^StateDirectory=//p' $unit)"
    # shellcheck disable=SC2086  # words are meant
    setpriv --no-new-privs "--bounding-set=-all,$caps" $command >/tmp/vfund.log 2>&1 &
    manager=$!
    eventually vfun status
}
generation() { vfun --json status | tr ',{}' '\n\n\n' | sed -n 's/.*"generation": *\([0-9]*\).*/\1/p'; }
serves() {
    [ "$(vfun call factorial 20)" = $answer ] || fail "vfun call says something else"
    [ "$(python3 -c 'import virtfun; print(virtfun.connect().factorial(20))')" = $answer ] || fail "Python says something else"
    /deb/shared 20 | grep -q $answer || fail "the program with libvfun.so says something else"
    /deb/static 20 | grep -q $answer || fail "the program with libvfun.a says something else"
    # The same program, by the host's service and by itself.
    for libraries in apis native; do
        LD_LIBRARY_PATH=/usr/lib/virtfun/$libraries/gdma /deb/bounce 300000 >/tmp/bounce 2>&1 || true
        grep -q '^300000 bytes went .* and came back' /tmp/bounce || {
            cat /tmp/bounce
            fail "bounce does not run with the library in $libraries"
        }
    done
}
versions() { dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' '*vfun*' '*virtfun*' 2>/dev/null | grep ' ii' | sort -u; }
module() { dkms status | grep -c 'virtfun.*: installed' || true; }

files >/tmp/before

apt install /deb/old/*.deb
[ "$(versions | wc -l)" = 8 ] || fail "not all are installed: $(versions)"
[ "$(module)" = 1 ] || fail "DKMS has not built the module: $(dkms status)"
getent group vfun >/dev/null || fail 'there is no group vfun'
say "installed: $(versions | tr '\n' ';')"

ldd /deb/shared | grep -q 'libvfun.so.0 ' || fail "$(ldd /deb/shared)"
! ldd /deb/static | grep libvfun || fail 'the static one needs the shared library'
ldd /deb/bounce | grep -q 'libgdma.so.0 => not found' || fail "a loader finds libgdma by itself: $(ldd /deb/bounce)"
start
ls /usr/lib/*/pkcs11/virtfun-pkcs11.so >/dev/null || fail 'there is no module for PKCS#11'
grep -q '^module: virtfun-pkcs11.so$' /usr/share/p11-kit/modules/virtfun.module || fail 'p11-kit does not find the module'
# This machine has no module that could do the work.
said=$(vfun function add /usr/share/virtfun/functions-pkcs11/pkcs11.toml 2>&1) && fail 'pkcs11 is offered without SoftHSM'
printf '%s\n' "$said" | grep -q 'reads: /usr/lib/softhsm is not there' || fail "$said"
# Not on by default: its engine is simulated.
! vfun list | grep gdma || fail 'the simulated engine is offered to everybody'
vfun function add /usr/share/virtfun/functions-gdma-simulated/gdma.toml >/dev/null
# Nor is the NIC: by it programs of a client reach one another.
! vfun list | grep verbs || fail 'the NIC for verbs is offered to everybody'
vfun function add /usr/share/virtfun/functions-verbs/verbs.toml >/dev/null
vfun list | grep -q verbs || fail "the NIC for verbs is not offered: $(vfun list)"
serves
vfun history | grep -q gdma || fail "bounce did not ask the manager: $(vfun history)"
vfun client add vm1 --window 1MiB >/dev/null
say 'a host serves, to the command, C and Python'

# Upgrade, while a program calls. What a person wrote stays.
echo 'lease_interval_ms = 500' >>/etc/virtfun/vfund.toml
vfund --config /etc/virtfun/vfund.toml --check || fail 'vfund --check'
vfun call echo hi --repeat 100000000 --quiet >/tmp/long 2>&1 &
long=$!
was=$(generation)
apt install /deb/new/*.deb
! versions | grep -q ' 0\.0\.1-1 ' || fail "not all are upgraded: $(versions)"
[ "$(module)" = 1 ] || fail "DKMS has not built the module anew, or has the old one still: $(dkms status)"
# What the package does where systemd runs: it reloads the unit.
kill -HUP $manager
upgraded() {
    now=$(generation) # nothing, while there is no manager
    [ -n "$now" ] && [ "$now" != "$was" ]
}
eventually upgraded
serves
grep -q '^lease_interval_ms = 500' /etc/virtfun/vfund.toml || fail 'the configuration is the new package'"'"'s'
vfun client list | grep -q vm1 || fail 'the client is gone'
kill -0 $long 2>/dev/null || fail 'the program that called was ended'
kill $long
say "upgraded: $(versions | tr '\n' ';')"

# What prerm does where systemd runs.
vfun stop
wait $manager || fail 'vfund did not end well'
apt remove '?name(virtfun)' '?name(libvfun)'
[ -z "$(versions)" ] || fail "not all are removed: $(versions)"
[ -f /etc/virtfun/vfund.toml ] && [ -d /var/lib/virtfun ] || fail 'the data went with a mere removal'
apt purge '?name(virtfun)' '?name(libvfun)'
files >/tmp/after
diff /tmp/before /tmp/after >/tmp/diff || { cat /tmp/diff; fail 'the purge left something, or took too much'; }
[ -z "$(find /dev/shm /var/lib/dpkg/info -name '*virtfun*' -o -name '*libvfun*')" ] ||
    fail "left: $(find /dev/shm /var/lib/dpkg/info -name '*virtfun*' -o -name '*libvfun*')"
say 'purged: nothing is left'
