# To be sourced: programs of packages that are not installed, each with its libraries and
# loader. What fetches also needs apt.sh.
#
#   say SENTENCE, die SENTENCE            to people, in the name of the script that sources this
#   only_refresh ARGUMENT...              sets $refresh: yes if --refresh is the argument, which
#                                         is the only one there is
#   begin_unpacking FOLDER                makes a folder beside FOLDER, $temp, which goes when
#                                         the script ends
#   unpack_packages FOLDER PACKAGE...     fetches them with all that they need, and unpacks
#                                         that into FOLDER/all
#   copy_libraries FOLDER TO PROGRAM...   copies what these programs link to, and the loader,
#                                         into TO; PROGRAMs may lie anywhere

say() {
    say_name=${0##*/}
    printf '%s\n' "${say_name%.sh}: $*" >&2
}
die() { say "$*"; exit 1; }

# shellcheck disable=SC2034  # read by the script that sources this
only_refresh() {
    refresh=no
    case "${1-}" in
        '') ;;
        --refresh) refresh=yes ;;
        *) die "unknown argument '$1'; there is --refresh" ;;
    esac
}

begin_unpacking() {
    for unpack_tool in apt-get dpkg; do
        command -v $unpack_tool >/dev/null 2>&1 ||
            die "$unpack_tool is missing: this script unpacks packages of Debian"
    done
    mkdir -p "$(dirname "$1")"
    temp=$(mktemp -d "$1.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    trap 'exit 1' HUP INT TERM
}

unpack_packages() {
    unpack_to=$1
    shift
    mkdir -p "$unpack_to/cache/archives/partial" "$unpack_to/all"
    : >"$unpack_to/status"
    # As if nothing were installed, so that what they need comes along.
    apt_get -o Dir::State::status="$unpack_to/status" -o Dir::Cache="$unpack_to/cache" -o Debug::NoLocking=1 \
        --no-install-recommends --download-only --yes install "$@" >&2 ||
        { echo "could not fetch $*: is the network up?" >&2; return 1; }
    for unpack_deb in "$unpack_to"/cache/archives/*.deb; do
        dpkg -x "$unpack_deb" "$unpack_to/all" ||
            { echo "could not unpack $unpack_deb; is the disk full?" >&2; return 1; }
    done
}

copy_libraries() {
    copy_from=$1/all copy_to=$2
    shift 2
    copy_path=$(find "$copy_from" -type d -name x86_64-linux-gnu | tr '\n' ':')
    # The file itself: a link to it may be one to this machine's own.
    copy_loader=$(find "$copy_from" -type f -name ld-linux-x86-64.so.2 | head -n1)
    [ -n "$copy_loader" ] || { echo "the packages hold no loader" >&2; return 1; }
    mkdir -p "$copy_to"
    cp "$copy_loader" "$copy_to"
    for copy_program in "$@"; do
        "$copy_loader" --library-path "$copy_path" --list "$copy_program" >"$copy_from.needed" ||
            { echo "$copy_program lacks a library" >&2; return 1; }
        sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' "$copy_from.needed" | xargs -I{} cp -L {} "$copy_to" || return 1
    done
}
