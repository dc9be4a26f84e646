#!/bin/sh
# Tests under the address and the thread sanitizer, on the stable compiler
# (RUSTC_BOOTSTRAP=1), and under valgrind. What cannot be done here is said and
# counted as skipped, not as passed.
#
# usage: sanitizers.sh [address|thread|valgrind] [PACKAGE]...
#        (default: all three; with packages only these)
#
# address   Memory of ours: bounds, use after free. The standard library is not
#           rebuilt, which misses nothing of ours.
# thread    Data races. It sees no synchronization inside the standard library
#           (locks and channels would be reported falsely), so it runs only on
#           a crate that synchronizes by atomics of its own; `std::thread`'s own
#           start and join it knows from pthread. It does not understand fences,
#           which `vfun-ring` is built on: loom checks those.
# valgrind  Memory that is read before it is written, which the address
#           sanitizer does not see. In place of Miri, which needs a nightly
#           compiler: it sees what the machine does, not what the language
#           forbids (aliasing, provenance).
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
base=${CARGO_TARGET_DIR:-$PWD/target}
passed=0 failed=0 skipped=0 targets='--lib --tests' harness=
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Programs with a fault that the sanitizer is there to find.
cat >"$scratch/address.rs" <<-'END'
	fn main() {
	    let bytes = vec![0u8; 8];
	    // SAFETY: none, on purpose: one byte beyond the end.
	    unsafe { bytes.as_ptr().add(8 * std::env::args().count()).read_volatile() };
	}
END
cat >"$scratch/thread.rs" <<-'END'
	static mut N: u64 = 0;
	// SAFETY: none, on purpose: two threads at once.
	fn count() { for _ in 0..10_000 { unsafe { let n = &raw mut N; *n += 1 } } }
	fn main() {
	    let other = std::thread::spawn(count);
	    count();
	    other.join().unwrap();
	}
END

# Whether a program with this sanitizer can be built and run here, and the
# sanitizer finds what it is there to find.
works() {
	echo 'fn main() {}' >"$scratch/sound.rs"
	for source in sound "$1"; do
		if ! RUSTC_BOOTSTRAP=1 rustc --target "$host" -Zsanitizer="$1" $2 -o "$scratch/$source" "$scratch/$source.rs" 2>"$scratch/err"; then
			echo "SKIPPED: the $1 sanitizer does not work with this toolchain: $(head -n 1 "$scratch/err")"
			return 1
		fi
	done
	if ! "$scratch/sound" 2>"$scratch/err"; then
		echo "SKIPPED: a program with the $1 sanitizer does not run here: $(head -n 1 "$scratch/err")"
		return 1
	fi
	if "$scratch/$1" 2>/dev/null; then
		echo "SKIPPED: the $1 sanitizer does not find the fault that was made for it"
		return 1
	fi
}

count() { # STATUS
	if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

sanitized() { # SANITIZER FLAGS PACKAGE...
	name=$1 flags=$2
	shift 2
	if ! works "$name" "$flags"; then
		skipped=$((skipped + $#))
		return
	fi
	for package in "$@"; do
		echo "== $name sanitizer: $package"
		status=0
		RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$base/sanitize-$name" RUSTFLAGS="-Zsanitizer=$name $flags" \
			cargo test --quiet --no-fail-fast --target "$host" -p "$package" $targets -- $harness || status=$?
		count "$status"
	done
}

# C programs of tests, linked with a library of ours that was built for it.
compiler_for_address() {
	printf '#!/bin/sh\nexec %s -fsanitize=address "$@"\n' "${CC:-cc}" >"$scratch/cc"
	chmod +x "$scratch/cc"
	CC=$scratch/cc
	export CC
}

kind=all
case ${1-} in
address | thread | valgrind) kind=$1 && shift ;;
esac

if [ "$kind" = all ] || [ "$kind" = address ]; then (
	# A leak check needs ptrace, which containers refuse. Signals are left to
	# the tests: some are about a process that SIGBUS ends.
	ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0
	export ASAN_OPTIONS
	compiler_for_address
	# Random calls of a remoted API's fuzzer: some seconds.
	VFUN_FUZZ_CALLS=${VFUN_FUZZ_CALLS:-1000000}
	export VFUN_FUZZ_CALLS
	sanitized address '' ${*:-vfun-wire vfun-window vfun-ring vfun-queue vfun-wait vfun-signature vfun-supervise vfun-sdk vfun vfun-remoting vfun-remoting-host vfun-remoting-guest vfun-gdmaback}
	echo "$passed $failed $skipped" >"$scratch/address"
); fi
if [ "$kind" = all ] || [ "$kind" = thread ]; then (
	# The test harness hands its results and its tests over by the library's
	# channels and locks. These are left out by the types of what is handed
	# over, and what the library keeps of threads by its name: none of it is in
	# a stack of a test of ours. One test at a time.
	printf 'race:%s\n' 'test::event::CompletedTest' 'Option<test::run_test::' 'std::sys::pal::unix::stack_overflow::' 'alloc::sync::Arc<std::thread::' >"$scratch/harness"
	TSAN_OPTIONS=handle_segv=0:handle_sigbus=0:suppressions=$scratch/harness
	export TSAN_OPTIONS
	harness='--test-threads 1'
	# Not tests/guard.rs: what it tests is that a signal's handler maps pages anew
	# under other threads, each of which is a race to the sanitizer.
	targets=--lib
	sanitized thread '-Cunsafe-allow-abi-mismatch=sanitizer' ${*:-vfun-window vfun-wait}
	echo "$passed $failed $skipped" >"$scratch/thread"
); fi
if [ "$kind" = all ] || [ "$kind" = valgrind ]; then (
	packages=${*:-vfun-wire vfun-window vfun-ring vfun-queue vfun-wait vfun-signature vfun-supervise}
	if ! command -v valgrind >/dev/null; then
		set -- $packages
		echo "SKIPPED: valgrind is not installed"
		skipped=$#
		packages=
	fi
	# It is some thirty times slower, on one processor: few cases of each kind.
	export PROPTEST_CASES="${PROPTEST_CASES:-4}"
	# What is built already: a build for each package would choose other features,
	# and compile what it stands on again.
	[ -n "${VFUN_STAGES:-}" ] || tests/built.py build
	for package in $packages; do
		echo "== valgrind: $package"
		status=0
		case $package in
		# valgrind makes another signal of SIGBUS, and does not know that a child of
		# fork lacks mappings of its parent.
		vfun-window) without='-vfun-window/guard -- --skip process::tests::a_child' ;;
		*) without= ;;
		esac
		# shellcheck disable=SC2086  # none is meant where it is empty
		VFUN_TRIES=0 tests/built.py run --under 'valgrind --quiet --error-exitcode=99 --fair-sched=yes' \
			"$package" $without || status=$?
		count "$status"
	done
	echo "$passed $failed $skipped" >"$scratch/valgrind"
); fi
for each in address thread valgrind; do
	[ -f "$scratch/$each" ] || continue
	read -r p f s <"$scratch/$each"
	echo "$each: $p packages passed, $f failed, $s skipped"
	failed=$((failed + f))
done
[ "$failed" = 0 ]
