#!/bin/sh
# What cargo calls instead of the compiler for a fuzz target's build
# (RUSTC_WRAPPER, see run.sh): COVERAGE_FLAGS are for our crates alone. To
# count the edges of what they depend on as well doubles the build and draws
# the fuzzer to code that is not under test.
#
# usage: coverage.sh RUSTC ARGUMENT...
set -eu
case " $* " in
	*" --crate-name vfun"*" --target "*) exec "$@" $COVERAGE_FLAGS ;;
	*" --crate-name "*"fuzz_targets/"*" --target "*) exec "$@" $COVERAGE_FLAGS ;;
esac
exec "$@"
