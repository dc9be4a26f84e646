#!/bin/sh
# Fetches programs of Debian that talk over a network (sockperf, iperf3, ping, ssh,
# vsftpd, curl), each with its libraries and loader, without installing them, and
# prints the folder they lie in. They are as Debian built them. Does nothing but
# print when they are there already.
#
#   packaging/net-programs.sh             fetch if missing
#   packaging/net-programs.sh --servers   instead of these servers with the programs that
#                                         load them: redis, nginx, dnsmasq, PostgreSQL,
#                                         MariaDB, sockperf
#   packaging/net-programs.sh [--servers] --refresh   fetch again
#
# VFUN_NET_PROGRAMS_DIR   the folder (default: target/net-programs, target/net-servers)
#
# FOLDER/run PROGRAM ARGUMENT... runs one on this machine, by its path, such as
# /usr/bin/ssh. FOLDER/root.tar is a small system with them, for a guest to change
# its root to.
set -eu
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
default=net-programs
packages='sockperf iperf3 iputils-ping openssh-server openssh-client vsftpd curl dash coreutils'
# A shell and cat are for who logs in by ssh.
programs='/usr/bin/sockperf /usr/bin/iperf3 /bin/ping /usr/sbin/sshd /usr/bin/ssh /usr/bin/ssh-keygen
    /usr/sbin/vsftpd /usr/bin/curl /bin/dash /bin/cat'
# Folders that they read. What they load while they run lies in some of them.
folders=''

. "$here/packaging/unpacked.sh"

refresh=no
for word in "$@"; do
    case "$word" in
        --refresh) refresh=yes ;;
        --servers)
            default=net-servers
            packages='sockperf redis-server redis-tools nginx wrk dnsmasq-base dnsperf
                postgresql-15 mariadb-server-core sysbench dash util-linux'
            postgres=/usr/lib/postgresql/15
            # PostgreSQL's programs start each other by a shell, and not as root.
            programs="/usr/bin/sockperf /usr/bin/redis-server /usr/bin/redis-benchmark /usr/sbin/nginx
                /usr/bin/wrk /usr/sbin/dnsmasq /usr/bin/dnsperf $postgres/bin/postgres $postgres/bin/initdb
                $postgres/bin/pgbench /usr/sbin/mariadbd /usr/bin/sysbench /bin/dash /usr/bin/setpriv"
            folders="$postgres/lib /usr/share/postgresql/15 /usr/share/mysql/english /usr/share/sysbench"
            ;;
        *) die "unknown argument '$word'; there are --servers and --refresh" ;;
    esac
done
dir=${VFUN_NET_PROGRAMS_DIR:-$here/target/$default}

# Of the programs that are wanted now.
wanted="$suite $packages $programs $folders"
complete() { [ -s "$dir/root.tar" ] && [ "$(cat "$dir/of" 2>/dev/null)" = "$wanted" ]; }
if [ $refresh = no ] && complete; then
    (cd "$dir" && pwd)
    exit 0
fi

begin_unpacking "$dir"
new=$temp/new
root=$new/root
# Where Debian's loader looks by itself.
libraries=lib/x86_64-linux-gnu
mkdir -p "$root"

. "$here/packaging/apt.sh"
apt_for "$suite" "$temp/apt" ||
    die "cannot reach the suite $suite on the mirrors that apt has configured"

say "fetching $packages of $suite"
# shellcheck disable=SC2086  # lists of words are meant
unpack_packages "$temp" $packages || exit 1
for program in $programs; do
    [ -x "$temp/all$program" ] || die "the packages of $suite have no $program"
    mkdir -p "$root${program%/*}"
    cp "$temp/all$program" "$root$program"
    copy_libraries "$temp" "$root/$libraries" "$root$program" || exit 1
done
for folder in $folders; do
    [ -d "$temp/all$folder" ] || die "the packages of $suite have no $folder"
    mkdir -p "$root${folder%/*}"
    cp -rL "$temp/all$folder" "$root$folder"
done
# A compiler that PostgreSQL can do without: larger than all else.
rm -rf "$root"/usr/lib/postgresql/*/lib/bitcode "$root"/usr/lib/postgresql/*/lib/llvmjit*
ln -s $libraries "$root/lib64"
ln -s dash "$root/bin/sh"

# What servers look for: their users, and empty folders that nobody but root can write to.
mkdir -p "$root/dev" "$root/proc" "$root/tmp" "$root/root" "$root/etc/ssh" "$root/run/sshd" \
    "$root/run/vsftpd/empty" "$root/srv/ftp" "$root/var/lib/nginx" "$root/var/log/nginx"
chmod 1777 "$root/tmp"
cat >"$root/etc/passwd" <<'TEXT'
root:x:0:0:root:/root:/bin/sh
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
ftp:x:102:102::/srv/ftp:/usr/sbin/nologin
postgres:x:105:105::/srv:/usr/sbin/nologin
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
TEXT
printf '%s\n' root:x:0: ftp:x:102: postgres:x:105: nogroup:x:65534: >"$root/etc/group"
cat >"$new/run" <<'TEXT'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
program=$1
shift
exec "$here/root/lib64/ld-linux-x86-64.so.2" --library-path "$here/root/lib64" "$here/root$program" "$@"
TEXT
chmod +x "$new/run"
"$new/run" /usr/bin/sockperf --version >/dev/null || die "sockperf does not start"
tar -C "$root" --owner=0 --group=0 --numeric-owner -cf "$new/root.tar" .
printf '%s\n' "$wanted" >"$new/of"
chmod 755 "$new"
rm -rf "$dir"
mv -T "$new" "$dir"
(cd "$dir" && pwd)
