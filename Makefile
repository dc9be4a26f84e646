# The two commands of a newcomer are `make demo` and `make test`; `make help` lists the rest.
.PHONY: help setup build demo host-demo guest test test-all test-local test-vm python packages wasm docs bench sanitize mutants fuzz soak chaos install uninstall clean
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)

help:           ## what there is
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

setup:          ## installs what is missing (root or sudo) and fetches the guests' kernel
	@packaging/setup.sh
	@packaging/guest-kernel.sh >/dev/null
	@packaging/kmod.sh >/dev/null

build: setup    ## release binaries, drivers and libvfun.so in target/release
	cargo build --release --workspace

demo: build     ## the main job, from nothing: a program in a real guest calls its host; then the published experiment, and leases that move
	@packaging/demo.sh

host-demo:      ## the same without a guest, in a minute
	@packaging/setup.sh
	cargo build --release --workspace
	@packaging/demo.sh --host-only

guest: build    ## a shell in a real guest with vfun ready
	@packaging/guest-shell.sh

python: build   ## the Python package: target/wheels, and an environment with it in target/python
	@packaging/python.sh

wasm: setup     ## WebAssembly: its service program and modules, in target/release (minutes, once)
	@packaging/wasm.sh

docs:           ## these pages and the API references as a site with search: target/book (minutes, once)
	@packaging/docs.sh

packages: build ## Debian packages for hosts and guests, and the Python wheel: target/deb
	@packaging/wasm.sh
	@packaging/deb.sh
	@cp "$$(packaging/python.sh --wheel)" target/deb/
	@ls target/deb/*.whl

test:           ## every check, real guests included
	@tests/run.sh

test-all:       ## the same at full length, and what takes longer: the build that ships, the newer kernel, a soak
	@tests/run.sh full

test-local:     ## the checks that need no guest
	@tests/run.sh local

test-vm:        ## the checks in real guests
	@tests/run.sh vm

bench: build    ## everything that is measured, at a scale that takes some minutes
	target/release/vfun bench all --scale 0.01

sanitize:       ## tests under the address and thread sanitizers and valgrind
	@tests/sanitizers.sh

mutants:        ## whether the simulation finds bugs that are made on purpose (half an hour)
	@tests/sim/mutants.py

fuzz:           ## each fuzz target for ten minutes
	fuzz/run.sh 600

soak: setup     ## guests rebooting, apps dying, attackers, for an hour (MINUTES=60): does anything grow?
	@tests/soak.sh

chaos: build    ## 1,000,000 checked calls while managers and services are killed
	target/release/vfun-chaos
	target/release/vfun-chaos --both --seed 2

install:        ## what `make build` built into /usr/local (PREFIX=...): programs, drivers, library, headers, manifests
	@packaging/install.sh

uninstall:      ## removes what `make install` with the same PREFIX put there
	@packaging/install.sh --remove

clean:
	cargo clean
