#!/bin/sh
# Fuzzes each target for SECONDS (default 60), one after the other, on the
# stable compiler and without cargo-fuzz: the flags below are what cargo-fuzz
# passes. Inputs found are kept in corpus/TARGET, findings in artifacts/TARGET;
# a finding is run again with:
#   fuzz/run.sh 0 TARGET artifacts/TARGET/FILE
#
# usage: run.sh [SECONDS [TARGET [libFuzzer argument ...]]]
#        run.sh build     only builds the targets
#
# VFUN_PROFILE   the build's profile (default: release)
#
# `cargo fuzz run TARGET` works too, where it is installed (on stable with
# RUSTC_BOOTSTRAP=1). No address sanitizer here: the code under test has no
# unsafe code.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
seconds=${1:-60}
targets=${2:-server_lines caller_lines queue_producer queue_consumer packet_ends verbs_entries verbs_connections wire_decode signature peer_bytes switch_bytes proxy_bytes texts window_requests kept_notes manager_events}
[ $# -ge 1 ] && shift
[ $# -ge 1 ] && shift

# Edges and comparisons are counted; the build is kept apart from others.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}/coverage"
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# --target keeps the flags away from build scripts and macros.
profile=${VFUN_PROFILE:-release}
RUSTFLAGS="$flags ${RUSTFLAGS:-}" cargo build --profile "$profile" --bins --quiet --target "$host"
[ "$seconds" != build ] || exit 0

status=0
for target in $targets; do
	mkdir -p "corpus/$target" "artifacts/$target"
	program="$CARGO_TARGET_DIR/$host/$profile/$target"
	if [ $# -ge 1 ]; then
		"$program" "$@" || status=$?
		continue
	fi
	echo "== $target, $seconds s"
	"$program" -max_total_time="$seconds" -max_len=2048 -timeout=10 -print_final_stats=1 \
		-artifact_prefix="artifacts/$target/" "corpus/$target" >"artifacts/$target/log" 2>&1 || status=$?
	grep -E 'DONE|panicked|ERROR|stat::(number|average|new)' -A1 "artifacts/$target/log" | grep -v '^--' || true
done
exit $status
