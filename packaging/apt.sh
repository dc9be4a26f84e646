# To be sourced: packages of one suite, looked for without changing what apt
# knows of this machine.
#
#   apt_for SUITE FOLDER   '' for the suites that are configured; otherwise the
#                          mirrors configured for Debian are asked for SUITE
#                          (such as bookworm-backports, or sid), its lists kept
#                          in FOLDER
#   apt_get ..., apt_cache ...

apt_options=''

# Mirrors with a suite of Debian proper (not security, not updates), from both
# of apt's formats: "URI SUITE" lines.
apt_mirrors() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
        grep -E -v -- '-(security|updates|backports)' | sort -u
}

apt_for() {
    [ -n "$1" ] || return 0
    mkdir -p "$2/lists/partial" "$2/cache" "$2/parts"
    base=${1%%-*}
    # A mirror of any release has sid, too.
    [ "$base" != sid ] || base=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")
    mirror=$(apt_mirrors | awk -v base="$base" '$2 == base { print $1; exit }')
    [ -n "$mirror" ] || return 1
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -s "$keys" ] || return 1
    printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$mirror" "$1" >"$2/parts/suite.list"
    apt_options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$2/parts \
-o Dir::State::lists=$2/lists -o Dir::Cache=$2/cache"
    apt_get update >&2
}

# apt's download user may not be able to write where we are; root may.
# shellcheck disable=SC2086  # lists of words are meant
apt_get() {
    if [ "$(id -u)" = 0 ]; then
        apt-get -qq -o APT::Sandbox::User=root $apt_options "$@"
    else
        apt-get -qq $apt_options "$@"
    fi
}
# shellcheck disable=SC2086
apt_cache() { apt-cache $apt_options "$@"; }
