# To be sourced, after apt.sh: a system of Debian's own packages.
#
#   debian_base SUITE PACKAGES TAR   makes TAR, the system's files, with these
#                                    packages; needs root, for their owners

debian_base() {
    mirror=$(apt_mirrors | awk -v suite="$1" '$2 == suite { print $1; exit }')
    [ -n "$mirror" ] || { echo "apt has no mirror for $1 configured" >&2; return 1; }
    # Documents and translations are a third of the files.
    mmdebstrap --quiet --format=tar --mode=root --variant=minbase --components=main --include="$2" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        "$1" "$3.new" "$mirror" >&2 ||
        { echo "mmdebstrap failed (its reason is above): is the mirror within reach, is the disk full?" >&2; return 1; }
    mv "$3.new" "$3"
}
