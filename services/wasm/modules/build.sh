#!/bin/sh
# Compiles the modules here into a folder: modules/build.sh DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:?"say where: $0 DIR"}
mkdir -p "$to"
for source in "$here"/*.c; do
    name=$(basename "$source" .c)
    # Nothing but the compiler and its linker: no library, so nothing is imported.
    clang --target=wasm32 -O2 -mbulk-memory -ffreestanding -fvisibility=default -nostdlib -Wall -Wextra -Werror \
        -I "$here/../../sdk/include" \
        -Wl,--no-entry,--export-dynamic,--strip-all,-z,stack-size=65536 \
        -o "$to/$name.wasm.new" "$source"
    # Whoever has the old one mapped or is reading it keeps it.
    mv "$to/$name.wasm.new" "$to/$name.wasm"
done
