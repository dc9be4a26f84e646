# To be sourced, after apt.sh: a system of Debian's own packages.
#
#   debian_base SUITE PACKAGES TAR [OPTION]...
#       makes TAR, the system's files, with these packages; needs root, for
#       their owners. Options are mmdebstrap's.

debian_base() {
    base_suite=$1 base_packages=$2 base_tar=$3
    shift 3
    mirror=$(apt_mirrors | awk -v suite="$base_suite" '$2 == suite { print $1; exit }')
    [ -n "$mirror" ] || { echo "apt has no mirror for $base_suite configured" >&2; return 1; }
    # Documents and translations are a third of the files.
    mmdebstrap --quiet --format=tar --mode=root --variant=minbase --components=main --include="$base_packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        "$@" "$base_suite" "$base_tar.new" "$mirror" >&2 ||
        { echo "mmdebstrap failed (its reason is above): is the mirror within reach, is the disk full?" >&2; return 1; }
    mv "$base_tar.new" "$base_tar"
}
