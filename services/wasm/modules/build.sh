#!/bin/sh
# Compiles modules from C into a folder: build.sh DIR [SOURCE...]
# Without sources: those beside this script.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:?"say where: $0 DIR [SOURCE...]"}
shift
[ $# -gt 0 ] || set -- "$here"/*.c
mkdir -p "$to"
for source in "$@"; do
    name=$(basename "$source" .c)
    # Nothing but the compiler and its linker: no library, so nothing is imported.
    # With the stack first, an overflow of it is a trap and not a change of data.
    clang --target=wasm32 -O3 -msimd128 -mbulk-memory -ffreestanding -fvisibility=default \
        -nostdlib -Wall -Wextra -Werror -I "$here/../../sdk/include" \
        -Wl,--no-entry,--export-dynamic,--strip-all,--stack-first,-z,stack-size=65536 \
        -o "$to/$name.wasm.new" "$source"
    # Whoever is reading the old one keeps it.
    mv "$to/$name.wasm.new" "$to/$name.wasm"
done
