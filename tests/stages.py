#!/usr/bin/env python3
"""Runs the checks, stage by stage, and shows the time that each one took.

usage: tests/run.sh            every stage of `make test`
       tests/run.sh full       every stage of `make test-all`
       tests/run.sh local      the stages that boot no guest
       tests/run.sh vm         the stages that boot guests
       tests/run.sh NAME...    these stages alone, by the short names of --list
       tests/run.sh --list     the stages, one a line

Some work needs no attention: packages that are fetched, programs that only a
later stage runs, checks that other programs beside them do not disturb. It goes
on in the background while stages run. A stage that needs a piece of it waits for
that piece first. Its output is in TARGET/log/NAME.log, and is shown when it fails.

The table of times is printed last and kept in TARGET/stages.txt.

VFUN_PROFILE     the build profile (default: ci; its programs are in TARGET/ci)
VFUN_TESTS=full  tests run at their full length, as `make test-all` sets it
"""
import dataclasses, os, pathlib, signal, subprocess, sys, threading, time

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
PROFILE = os.environ.setdefault("VFUN_PROFILE", "ci")
LOGS = TARGET / "log"
TABLE = TARGET / "stages.txt"
FAILED = TARGET / "failed.txt"
WORKSPACE = f"--profile {PROFILE} --workspace"

# Which command runs a stage: with all of them, or only where these words are asked for.
LOCAL, VM, FULL = "local", "vm", "full"


@dataclasses.dataclass
class Stage:
    name: str                # for the command line
    title: str
    command: str
    part: str                # LOCAL or VM
    needs: tuple = ()        # background work that must have ended
    full: bool = False       # only in `make test-all`
    instead: str = ""        # a stage of `make test` whose tests this one runs too, so that the other is left out


@dataclasses.dataclass
class Work:
    """Background work."""
    name: str
    command: str
    part: str
    after: str               # the stage after which it begins
    full: bool = False
    lane: str = ""           # works of one lane run one after the other
    needs: tuple = ()        # other works that must have ended


# Fetching waits for the network, so each fetch has a lane of its own. Builds use
# both processors, so they share one lane; they yield to the stages (SCHED_IDLE).
BUILDS, PACKAGES, CHECKS = "builds", "packages", "checks"
BACKGROUND = [
    Work("guest-kernel", "packaging/guest-kernel.sh && packaging/kmod.sh", VM, after="setup", lane="kernels"),
    Work("igb", "tests/igb.sh --fetch", VM, after="setup", lane="kernels"),
    Work("ovs", "tests/ovs.sh --fetch", VM, after="setup", lane="kernels", full=True),
    Work("servers", "tests/servers.sh --fetch", VM, after="setup", lane="kernels", full=True),
    Work("debian-base", "packaging/debian-guest.sh --base", VM, after="setup"),
    Work("systemd-base", "packaging/systemd-guest.sh --base", VM, after="setup", full=True),
    Work("bootbond-base", "tests/bootbond.sh --fetch", VM, after="setup", full=True),
    Work("python-tools", "packaging/python.sh --tools", LOCAL, after="setup"),
    Work("guest-vfun", "for p in vfun-cli vfun-agent; do cargo build --locked --quiet --profile guest -p $p || exit 1; done", VM,
         after="build", lane=BUILDS, full=True),
    Work("static-lib", f"cargo rustc --locked --quiet --profile {PROFILE} -p vfun --lib --crate-type staticlib", VM,
         after="build", lane=BUILDS),
    Work("wasm-build", "packaging/wasm.sh --build-tests", LOCAL, after="build", lane=BUILDS, full=True),
    Work("fuzz-build", "fuzz/run.sh build", LOCAL, after="build", lane=BUILDS),
    Work("loom-build", "tests/loom.sh build", LOCAL, after="build", lane=BUILDS),
    Work("lint", f"cargo clippy {WORKSPACE} --all-targets --quiet -- -D warnings", LOCAL, after="build", lane=BUILDS),
    Work("doc", f"cargo test {WORKSPACE} --doc --quiet", LOCAL, after="build", lane=BUILDS),
    # Checks that wait most of their time, or that do not care how fast they go.
    Work("debian", "packaging/debian-guest.sh", VM, after="hostile", lane=PACKAGES, needs=("debian-base", "guest-vfun")),
    Work("packages", "packaging/deb-test.sh", VM, after="hostile", lane=PACKAGES,
         needs=("debian-base", "guest-vfun", "static-lib")),
    Work("kmod", "packaging/kmod.sh --check", VM, after="build", lane=CHECKS, needs=("guest-kernel",)),
    Work("valgrind", "tests/sanitizers.sh valgrind", LOCAL, after="build", lane=CHECKS),
    Work("wasm", "packaging/wasm.sh --test", LOCAL, after="build", lane=CHECKS, needs=("wasm-build",)),
    Work("fuzz", "fuzz/run.sh {fuzz_seconds}", LOCAL, after="build", lane=CHECKS, needs=("fuzz-build",)),
    Work("loom", "tests/loom.sh", LOCAL, after="build", lane=CHECKS, needs=("loom-build",)),
    Work("python", "guest/python/test.sh -q", LOCAL, after="build", lane=CHECKS, needs=("python-tools",)),
]


def beside(name, title, part, full=False):
    """A stage that is a work of the same name, and waits for it."""
    return Stage(name, title, "true", part, needs=(name,), full=full)


STAGES = [
    Stage("setup", "setup", "packaging/setup.sh", LOCAL),
    Stage("format", "format", "cargo fmt --all --check", LOCAL),
    Stage("links", "links of the documentation", "tests/docs.py", LOCAL),
    Stage("build", "build", "tests/built.py build", LOCAL),
    Stage("unit", "unit and local tests",
          "tests/built.py run --beside 3 -vfun-tests-vm -vfun-testguest -vfun-tests-hostile", LOCAL, needs=("guest-kernel",)),
    Stage("hostile", "attacks, chaos, crash matrix",
          "tests/built.py run vfun-tests-hostile -vfun-tests-hostile/guests -- --test-threads 2", LOCAL),
    Stage("mutants", "mutations find their places", "tests/sim/mutants.py --check && host/links/tests/mutants.py --check", LOCAL),
    # Both wait most of their time.
    Stage("testguest", "test guests, attackers' guests",
          "tests/built.py run --beside 2 vfun-testguest vfun-tests-hostile/guests -- --test-threads 1", VM,
          needs=("guest-kernel",)),
    beside("kmod", "kernel module: all warnings, sparse", VM),
    beside("valgrind", "valgrind: protocol", LOCAL),
    beside("debian", "a guest of Debian: our packages by DKMS", VM),
    Stage("backports", "kernel module: the newer kernel too", "packaging/kmod.sh --backports", VM, full=True),
    beside("wasm", "WebAssembly", LOCAL, full=True),
    beside("fuzz", "fuzz", LOCAL),
    beside("loom", "loom: callers, server, queues, sleep and wake", LOCAL),
    beside("python", "Python package", LOCAL),
    Stage("guests", "real guests", "tests/built.py run vfun-tests-vm", VM,
          needs=("guest-kernel", "debian-base", "guest-vfun")),
    # It waits most of its time, so that guests run beside it.
    beside("packages", "our packages in Debian: install, upgrade, purge", VM),
    Stage("lintian", "our packages as Debian's checker sees them",
          "packaging/setup.sh --lintian && packaging/deb-test.sh --lintian", VM, full=True,
          needs=("guest-vfun", "static-lib")),
    beside("lint", "lint", LOCAL),
    beside("doc", "examples in the documentation", LOCAL),
    # From here on nothing is in the background.
    Stage("counts", "instructions and line transfers a call", "tests/counts.py", LOCAL),
    Stage("igb", "a VF with a card's own driver goes from VM to VM", "tests/igb.sh", VM,
          needs=("guest-kernel", "igb")),
    Stage("systemd", "the unit under Debian's systemd", "packaging/systemd-guest.sh --test", VM, full=True,
          needs=("systemd-base",)),
    Stage("bootbond", "the bond that each of Debian's network tools makes", "tests/bootbond.sh", VM, full=True,
          needs=("bootbond-base",)),
    Stage("ports", "ports: Open vSwitch, programs of Debian, the DPDK driver", "tests/ports.sh", VM, full=True),
    Stage("direct-links", "direct links of two guests, past a stock Open vSwitch and back", "tests/links.sh", VM, full=True),
    Stage("links-features", "each feature of Open vSwitch has the frames of a direct link back", "tests/links.sh features", VM, full=True),
    Stage("links-trouble", "a VM of a direct link is stopped, killed, started again, or writes anything", "tests/links.sh trouble", VM,
          full=True),
    Stage("detector", "the detector of links, on a stock Open vSwitch", "tests/detector.sh", LOCAL, full=True),
    Stage("proxy", "the proxy of links, between a stock Open vSwitch and a controller", "tests/links.sh proxy", LOCAL, full=True),
    Stage("ovs", "a port of Open vSwitch with DPDK goes from VM to VM", "tests/ovs.sh", VM, full=True,
          needs=("guest-kernel", "ovs")),
    Stage("servers", "what a VF gains for servers of Debian, on a real path", "tests/servers.sh", VM, full=True,
          needs=("guest-kernel", "igb", "ovs", "servers")),
    Stage("nested", "a genuine VF goes from VM to VM, in a machine in a machine", "tests/nested.sh", VM, full=True),
    Stage("programs", "programs of Debian go on while a VF comes and goes", "tests/programs.sh", VM, full=True,
          needs=("guest-kernel",)),
    Stage("rdma", "all programs of Debian for RDMA, in two guests", "tests/rdma.sh", VM, full=True,
          needs=("guest-kernel",)),
    Stage("rdma-conform", "answers of the NIC for RDMA, compared with Soft-RoCE", "tests/rdma-conform.sh", VM, full=True,
          needs=("igb",)),
    Stage("release", "real guests, the build that ships", "tests/release.sh", VM, full=True, needs=("guest-kernel", "debian-base", "guest-vfun"),
          instead="guests"),
    Stage("newcomer", "a new API, as the documentation tells to add one", "tests/newcomer.py", LOCAL, full=True),
    Stage("soak", "soak", "MINUTES=${MINUTES:-10} tests/soak.sh", VM, full=True, needs=("guest-kernel",)),
]


class Background:
    """Runs works beside the stages; the end of each can be waited for."""

    def __init__(self, works):
        self.works = works
        self.ended = {w.name: threading.Event() for w in works}
        self.status, self.took, self.cpu = {}, {}, {}
        self.children = set()

    def after(self, stage):
        lanes = {}
        for work in self.works:
            if work.after == stage:
                lanes.setdefault(work.lane or work.name, []).append(work)
        for works in lanes.values():
            threading.Thread(target=self.lane, args=(works,), daemon=True).start()

    def lane(self, works):
        for work in works:
            bad = self.wait(work.needs)
            began, status, usage = time.monotonic(), 1, 0.0
            try:
                with (LOGS / f"{work.name}.log").open("w") as log:
                    if bad:
                        raise OSError(f"{bad}, which it needs, has failed; {LOGS}/{bad}.log says why")
                    # SCHED_IDLE: a stage that wants a processor has it at once.
                    child = subprocess.Popen(
                        ["chrt", "--idle", "0", "bash", "-c", work.command], start_new_session=True,
                        cwd=REPO, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
                    self.children.add(child)
                    status, usage = ended(child)
                    self.children.discard(child)
            except OSError as e:  # who waits for it must hear of it
                (LOGS / f"{work.name}.log").write_text(f"{work.command}: {e}\n")
            self.status[work.name] = status
            self.took[work.name] = time.monotonic() - began
            self.cpu[work.name] = usage
            self.ended[work.name].set()

    def wait(self, names):
        """The first of these that failed, if any."""
        bad = None
        for name in names:
            if name in self.ended:
                self.ended[name].wait()
                bad = bad or (name if self.status[name] else None)
        return bad

    def stop(self):
        for child in list(self.children):
            os.killpg(child.pid, signal.SIGTERM)


def ended(child):
    """Waits for a child: its exit status, and the processor seconds of it and all it waited for."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_utime + usage.ru_stime


class Table:
    """What each stage took; printed, and kept in a file."""

    def __init__(self):
        self.rows, self.failed, self.began = [], [], time.monotonic()

    def add(self, stage, status, took, waited, cpu, why=""):
        verdict = "ok" if status == 0 else "FAILED"
        note = f"  (waited {waited:.0f} s for {', '.join(stage.needs)})" if waited >= 1 else ""
        self.rows.append(f"{took:6.0f} s {cpu:6.0f} s  {verdict:7} {stage.name:10} {stage.title}{note}{why}")
        if status:
            self.failed.append(stage.name)

    def text(self, background):
        lines = ["  time   processors  stage", *self.rows, "  in the background:"]
        for name, took in background.took.items():
            verdict = "ok" if background.status[name] == 0 else "FAILED"
            lines.append(f"{took:6.0f} s {background.cpu[name]:6.0f} s  {verdict:7} {name}")
        lines.append(f"{time.monotonic() - self.began:6.0f} s  in all, on {os.cpu_count()} processors; {stolen()}")
        return "\n".join(lines)


def stolen():
    """How much of the machine others took since it started, in words."""
    ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return f"{ticks[7] / 100:.0f} s were taken away since the machine started"


def run(stages, works):
    full = os.environ.get("VFUN_TESTS") == FULL
    seconds = "5" if full else "1"
    if not full:  # packages of what is built already (packaging/deb.sh)
        os.environ["VFUN_DEB_QUICK"] = "1"
        works = [w for w in works if w.name != "guest-vfun"]
    wanted = {n for s in stages for n in s.needs}
    for work in reversed(works):  # none needs one that comes later
        wanted |= set(work.needs) if work.name in wanted else set()
    background, table = Background([
        dataclasses.replace(w, command=w.command.replace("{fuzz_seconds}", seconds))
        for w in works if w.name in wanted]), Table()
    names = {s.name for s in stages}
    for work in background.works:  # a stage that is not run has nothing to wait for
        if work.after not in names:
            work.after = ""
    background.after("")
    for stage in stages:
        began = time.monotonic()
        missing = [n for n in stage.needs if n in background.ended and not background.ended[n].is_set()]
        if missing:
            print(f"\n--- {stage.title}: waits for {', '.join(missing)}", flush=True)
        bad = background.wait(stage.needs)
        waited = time.monotonic() - began
        print(f"\n=== {stage.title}: {stage.command}", flush=True)
        if bad:
            print((LOGS / f"{bad}.log").read_text(errors="replace")[-20000:])
            status, cpu = 1, 0.0
        else:
            child = subprocess.Popen(["bash", "-c", stage.command], cwd=REPO, stdin=subprocess.DEVNULL)
            status, cpu = ended(child)
        took = time.monotonic() - began
        table.add(stage, status, took, waited, cpu, f"  ({bad} failed)" if bad else "")
        beside = f" ({background.took[stage.name]:.0f} s in the background)" if stage.command == "true" else ""
        print(f"=== {stage.title}: {'ok' if status == 0 else 'FAILED'}, {took:.0f} s{beside}", flush=True)
        if status and stage.name in ("setup", "build"):
            break
        background.after(stage.name)
    background.stop()
    return table, background


def chosen(words):
    """The stages and the background works that the words ask for."""
    full = FULL in words or os.environ.get("VFUN_TESTS") == FULL
    names = [w for w in words if w not in (FULL, "all", LOCAL, VM)]
    known = {s.name: s for s in STAGES}
    unknown = [n for n in names if n not in known]
    if unknown:
        sys.exit(f"tests/run.sh: no stage is named {', '.join(unknown)}; there are: {' '.join(known)}")
    if names:
        return [known[n] for n in names]
    parts = {w for w in words if w in (LOCAL, VM)} or {LOCAL, VM}
    always = ("setup", "build")
    stages = [s for s in STAGES if (s.part in parts or s.name in always) and (full or not s.full)]
    covered = {s.instead for s in stages}
    return [s for s in stages if s.name not in covered]


def main():
    words = sys.argv[1:]
    if "--list" in words:
        for s in STAGES:
            print(f"{s.name:10} {s.title}{'  (make test-all)' if s.full else ''}")
        return
    if any(w in ("-h", "--help") for w in words):
        print(__doc__.strip())
        return
    stages = chosen(words)
    if FULL in words:
        os.environ["VFUN_TESTS"] = FULL
    LOGS.mkdir(parents=True, exist_ok=True)
    # What tests/built.py keeps for the end.
    FAILED.unlink(missing_ok=True)
    # The log of a good run is short.
    os.environ.setdefault("RUST_BACKTRACE", "0")
    os.environ["VFUN_REPO"] = str(REPO)
    if any(s.name == "build" for s in stages):
        os.environ["VFUN_STAGES"] = "1"
    table, background = run(stages, BACKGROUND)
    text = table.text(background)
    TABLE.write_text(text + "\n")
    print(f"\n=== stages\n{text}")
    if FAILED.exists() and FAILED.stat().st_size:
        print(f"\n=== tests that failed, some perhaps at the first try only\n{FAILED.read_text()}")
    print(f"{len(table.rows) - len(table.failed)} passed, {len(table.failed)} failed", flush=True)
    sys.exit(1 if table.failed else 0)


if __name__ == "__main__":
    main()
