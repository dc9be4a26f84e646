#!/bin/sh
# Tests under the address and the thread sanitizer, on the stable compiler
# (RUSTC_BOOTSTRAP=1). What a toolchain cannot do is said and counted as
# skipped, not as passed.
#
# usage: sanitizers.sh [address|thread]...       (default: both)
#
# The standard library is not rebuilt: what it does itself is not watched. For
# the address sanitizer that misses nothing of ours. The thread sanitizer sees
# no synchronization inside the library (its locks and channels would be
# reported falsely), so it runs only on crates that synchronize by atomics of
# their own; `std::thread`'s own start and join it knows from pthread. It does
# not understand fences either, which `vfun-ring` is built on: loom checks those.
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
base=${CARGO_TARGET_DIR:-$PWD/target}
passed=0 failed=0 skipped=0

# Whether a program with this sanitizer can be built and run here.
works() {
	dir=$(mktemp -d)
	echo 'fn main() {}' >"$dir/a.rs"
	if rustc --target "$host" -Zsanitizer="$1" $2 -o "$dir/a" "$dir/a.rs" 2>"$dir/err" && "$dir/a" 2>>"$dir/err"; then
		rm -r "$dir"
		return 0
	fi
	echo "SKIPPED: the $1 sanitizer does not work with this toolchain: $(head -n 1 "$dir/err")"
	rm -r "$dir"
	return 1
}

run() { # SANITIZER FLAGS PACKAGE...
	name=$1 flags=$2
	shift 2
	if ! works "$name" "$flags"; then
		skipped=$((skipped + $#))
		return
	fi
	for package in "$@"; do
		echo "== $name sanitizer: $package"
		if CARGO_TARGET_DIR="$base/sanitize-$name" RUSTFLAGS="-Zsanitizer=$name $flags" \
			cargo test --quiet --target "$host" -p "$package" --lib --tests; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
		fi
	done
}

for which in ${*:-address thread}; do
	case $which in
	address)
		# A leak check needs ptrace, which containers refuse.
		ASAN_OPTIONS=detect_leaks=0 && export ASAN_OPTIONS
		run address '' vfun-wire vfun-window vfun-ring vfun-wait vfun-signature vfun-sdk vfun
		;;
	thread)
		run thread '-Cunsafe-allow-abi-mismatch=sanitizer' vfun-window
		;;
	*)
		echo "'$which' is neither address nor thread" >&2
		exit 2
		;;
	esac
done
echo "sanitizers: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
