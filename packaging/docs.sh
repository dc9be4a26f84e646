#!/usr/bin/env bash
# The documentation as a site: the pages of docs/ by mdBook, the API of the public
# crates by rustdoc, that of the C headers by Doxygen.
#
#   packaging/docs.sh           everything, into target/book
#   packaging/docs.sh --pages   the pages alone (seconds, once mdBook is built)
#
# mdBook is built once into target/tools. Doxygen is a package of Debian's: it is
# installed where this runs as root; else the C headers are left out, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
site=$target/book
mdbook_version=0.5.4
crates=(vfun vfun-sdk vfun-function vfun-wire)

say() { printf '%s\n' "docs: $*" >&2; }
die() { say "$*"; exit 1; }

case "${1-}" in
    '' | --pages) ;;
    *) die "unknown argument '$1'; the only one is --pages" ;;
esac

mdbook=$target/tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$mdbook_version" ]; then
    say "building mdBook $mdbook_version, once"
    cargo install mdbook --version "$mdbook_version" --locked --quiet --root "$target/tools" ||
        die "mdBook could not be built (the reason is above)"
fi
rm -rf "$target/book-pages" "$site"
packaging/docs.py "$target/book-pages"
"$mdbook" build "$target/book-pages" --dest-dir "$(realpath -m "$site")"
rm -f "$site/book.toml"

if [ "${1-}" != --pages ]; then
    packages=()
    for crate in "${crates[@]}"; do packages+=(-p "$crate"); done
    cargo doc --no-deps --quiet "${packages[@]}"
    mkdir -p "$site/api"
    cp -R "$target/doc" "$site/api/rust"
    if ! command -v doxygen >/dev/null && [ "$(id -u)" = 0 ]; then
        say "installing doxygen"
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install \
            --no-install-recommends doxygen >&2 || say "doxygen could not be installed"
    fi
    if command -v doxygen >/dev/null; then
        # The headers' comments are ordinary ones, so all that is declared is shown.
        doxygen - >"$target/doxygen.log" 2>&1 <<DOXYFILE || die "doxygen failed: see $target/doxygen.log"
PROJECT_NAME     = "VirtFun, C"
INPUT            = guest/client/include services/sdk/include functions/function/include protocol/wire/include protocol/queue/include
FILE_PATTERNS    = *.h
OUTPUT_DIRECTORY = $site/api
HTML_OUTPUT      = c
GENERATE_LATEX   = NO
EXTRACT_ALL      = YES
OPTIMIZE_OUTPUT_FOR_C = YES
SOURCE_BROWSER   = YES
HAVE_DOT         = NO
QUIET            = YES
DOXYFILE
    else
        say "the C headers are left out: there is no doxygen (install it, or run this as root)"
        sed -i '/api\/c\/index.html/d' "$site/api.html"
    fi
fi
say "open $site/index.html"
