#!/usr/bin/env bash
# Runs programs that know of nothing but PKCS#11 with a module, and prints what they say, without
# what differs from token to token (serial numbers, keys). The environment says what the module
# needs to know.
#
#   programs.sh MODULE    status 1 if a program fails
#
# VFUN_SSHD   the server to log in to by ssh (default: /usr/sbin/sshd, and if it is not there,
#             nobody logs in)
#
# It makes a new token in the first slot of the module that has none.
set -euo pipefail

module=$1
work=$(mktemp -d)
trap 'rm -rf "$work"; [ -z "${sshd-}" ] || kill "$sshd" 2>/dev/null || true' EXIT
trap 'exit 1' HUP INT TERM
so_pin=12345678
pin=1234
label=programs
server=${VFUN_SSHD-$(ls /usr/sbin/sshd 2>/dev/null || true)}

say() { printf '\n== %s\n' "$*"; }
die() { printf 'programs.sh: %s\n' "$*" >&2; exit 1; }

# What differs from token to token, and which module it is.
same() {
    sed -E -e "s|$module|MODULE|g" -e "s|$work|WORK|g" \
        -e 's/0x[0-9a-f]{5,}/NUMBER/g' -e 's/[0-9a-f]{16,}/HEX/g' -e 's/=[0-9a-f]{16}\b/=HEX/g' \
        -e 's/(%[0-9A-F]{2}|[0-9a-f]){8,}/HEX/g' -e 's/in [0-9.]+ m?s/in TIME/'
}
# The order of objects is the files' in the token, whose names are random.
sorted() { sed '/^$/d' | LC_ALL=C sort; }
run() { # COMMAND...: its words, and a failure ends all
    "$@" >"$work/out" 2>&1 || { same <"$work/out"; die "failed: $(printf "%s " "$@" | same)"; }
    same <"$work/out"
}
tool() { run pkcs11-tool --module "$module" "$@"; }
user() { tool --token-label $label --login --pin $pin "$@"; }

say a token
free=$(pkcs11-tool --module "$module" --list-slots 2>/dev/null | grep -c '^Slot' || true)
tool --slot-index $((free - 1)) --init-token --label $label --so-pin $so_pin
tool --token-label $label --login --login-type so --so-pin $so_pin --init-pin --new-pin $pin
tool --list-slots | grep -v '^Slot'
tool --token-label $label --list-mechanisms | head -n 20
tool --show-info

say a wrong PIN
if pkcs11-tool --module "$module" --token-label $label --login --pin 4321 --list-objects >"$work/out" 2>&1; then
    die "a wrong PIN was taken"
fi
grep -o 'CKR_[A-Z_]*' "$work/out"

# The tool tests the first key that it finds. SoftHSM 2.6 has OAEP with SHA-1 only, and the tool ends
# there.
say keys, and the tool\'s own tests of each
user --keypairgen --key-type EC:prime256v1 --label ec --id 01
user --test
user --delete-object --type privkey --id 01
user --delete-object --type pubkey --id 01
user --keypairgen --key-type rsa:2048 --label rsa --id 02
(user --test) 2>&1 || true
user --keypairgen --key-type EC:prime256v1 --label ec --id 01
user --list-objects | sorted

say sign and verify
printf 'words to sign' >"$work/words"
openssl dgst -sha256 -binary <"$work/words" >"$work/hash"
user --sign --mechanism ECDSA --id 01 --signature-format openssl -i "$work/hash" -o "$work/ec.sig"
tool --read-object --type pubkey --id 01 --token-label $label -o "$work/ec.der"
run openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/ec.der" -in "$work/hash" -sigfile "$work/ec.sig"
user --sign --mechanism SHA256-RSA-PKCS --id 02 -i "$work/words" -o "$work/rsa.sig"
user --verify --mechanism SHA256-RSA-PKCS --id 02 -i "$work/words" --signature-file "$work/rsa.sig"
tool --read-object --type pubkey --id 02 --token-label $label -o "$work/rsa.der"
run openssl dgst -sha256 -verify "$work/rsa.der" -keyform DER -signature "$work/rsa.sig" "$work/words"
user --sign --mechanism SHA256-RSA-PKCS-PSS --id 02 -i "$work/words" -o "$work/pss.sig"
run openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:-1 -verify "$work/rsa.der" \
    -keyform DER -signature "$work/pss.sig" "$work/words"

say secrets
run openssl pkeyutl -encrypt -pubin -keyform DER -inkey "$work/rsa.der" -pkeyopt rsa_padding_mode:oaep \
    -in "$work/words" -out "$work/secret"
user --decrypt --mechanism RSA-PKCS-OAEP --hash-algorithm SHA-1 --mgf MGF1-SHA1 --id 02 \
    -i "$work/secret" -o "$work/clear"
cmp "$work/words" "$work/clear"
user --keygen --key-type AES:32 --label aes --id 03
user --generate-random 32 -o "$work/random"
[ "$(wc -c <"$work/random")" = 32 ] || die "no 32 random bytes"

say p11tool
p11tool --provider "$module" --list-tokens 2>&1 | grep -v 'Serial\|URL' | same
run env GNUTLS_PIN=$pin p11tool --provider "$module" --batch --login --list-all "pkcs11:token=$label" | sorted
run env GNUTLS_PIN=$pin p11tool --provider "$module" --batch --login --test-sign "pkcs11:token=$label;object=rsa;type=private"

say openssl
cat >"$work/openssl.cnf" <<TEXT
openssl_conf = all
[all]
engines = engines
[engines]
pkcs11 = pkcs11
[pkcs11]
engine_id = pkcs11
MODULE_PATH = $module
init = 0
TEXT
for key in ec rsa; do
    run env OPENSSL_CONF="$work/openssl.cnf" openssl dgst -sha256 -engine pkcs11 -keyform engine \
        -sign "pkcs11:token=$label;object=$key;type=private;pin-value=$pin" -out "$work/sig" "$work/words"
    run openssl dgst -sha256 -verify "$work/$key.der" -keyform DER -signature "$work/sig" "$work/words"
done

say two at once
two_at_once() {
    for n in 1 2; do
        pkcs11-tool --module "$module" --token-label $label --login --pin $pin --sign --mechanism ECDSA --id 01 \
            -i "$work/hash" -o "$work/two.$n" >"$work/two.$n.out" 2>&1 &
        eval "two$n=\$!"
    done
    # shellcheck disable=SC2154  # set by eval
    wait "$two1" && wait "$two2"
}
# SoftHSM itself fails now and then if two processes use one token.
case $module in
    */libsofthsm2.so) two_at_once || two_at_once || two_at_once ;;
    *) two_at_once ;;
esac || { cat "$work"/two.*.out; die "two programs at once failed"; }
wc -c <"$work/two.1" && wc -c <"$work/two.2"

say ssh
# It asks for the PIN by a program.
printf '#!/bin/sh\necho %s\n' $pin >"$work/ask"
chmod 755 "$work/ask"
export SSH_ASKPASS="$work/ask" SSH_ASKPASS_REQUIRE=force
ssh-keygen -D "$module" >"$work/keys" 2>"$work/out" || { cat "$work/out"; die "ssh-keygen -D"; }
cut -d ' ' -f 1,3- "$work/keys" | same | sort
# A certificate that a key of the token signs.
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
grep ecdsa "$work/keys" >"$work/ca.pub"
run ssh-keygen -q -s "$work/ca.pub" -D "$module" -I try -n somebody "$work/host.pub"
ssh-keygen -L -f "$work/host-cert.pub" | grep -o 'Signing CA: ECDSA\|Key ID.*'
# A login, where there is a server.
for key in rsa ecdsa; do
    [ -n "$server" ] || break
    grep "$key" "$work/keys" >"$work/authorized"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    $server -D -e -f /dev/null -p "$port" -h "$work/host" -o ListenAddress=127.0.0.1 -o UsePAM=no \
        -o StrictModes=no -o PidFile=none -o AuthorizedKeysFile="$work/authorized" \
        -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password 2>"$work/sshd" &
    sshd=$!
    tries=0
    until ssh-keyscan -p "$port" 127.0.0.1 2>/dev/null | grep -q ed25519; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || { cat "$work/sshd"; die "sshd does not listen"; }
        sleep 0.2
    done
    run ssh -F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
        -o IdentityFile=none -o PreferredAuthentications=publickey -I "$module" -p "$port" 127.0.0.1 \
        echo "in by a key of $key"
    kill $sshd
    sshd=''
done

say the end
user --delete-object --type privkey --id 01
user --delete-object --type pubkey --id 01
user --list-objects --type privkey
