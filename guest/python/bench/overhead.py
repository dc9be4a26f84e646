"""What Python adds to a call, against the C library in the same run.

    VFUN_ENDPOINT=host:/ROOT/host.sock python guest/python/bench/overhead.py [TARGET]

TARGET is cargo's target folder (for libvfun.so; default: target). Rounds of
Python and C take turns; each figure is the median of the rounds' medians.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

import virtfun

REPO = pathlib.Path(__file__).resolve().parents[3]
TARGET = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "target"
ENDPOINT = os.environ["VFUN_ENDPOINT"]
ROUNDS, CALLS = 9, 50_000
BYTES = 64 << 20


def build(folder: str) -> str:
    program = f"{folder}/null_call"
    source = pathlib.Path(__file__).with_name("null_call.c")
    lib = TARGET / "release"
    subprocess.run(
        ["cc", "-O2", "-o", program, source, f"-I{REPO}/guest/client/include"]
        + [f"-L{lib}", "-lvfun", f"-Wl,-rpath,{lib}"],
        check=True,
    )
    return program


def c(program: str, *words: object) -> float:
    done = subprocess.run(
        [program, ENDPOINT, *map(str, words)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def timed(calls: int, call: Callable[[], object]) -> float:
    clock = time.perf_counter_ns
    times = []
    for _ in range(calls):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def resident() -> int:
    """Private resident memory, bytes: the window, which is shared, apart."""
    rows = dict(
        line.split(":", 1)
        for line in open("/proc/self/smaps_rollup").read().splitlines()[1:]
        if ":" in line
    )
    return sum(int(rows[k].split()[0]) for k in ("Private_Dirty", "Private_Clean")) * 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        with virtfun.connect(ENDPOINT, app="py-overhead") as host:
            null, factorial = host.null, host.factorial
            rows: dict[str, list[float]] = {"clock": [], "c": [], "null": [], "scalar": []}
            for _ in range(ROUNDS):
                rows["c"].append(c(program, "null", CALLS))
                rows["null"].append(timed(CALLS, null))
                rows["scalar"].append(timed(CALLS, lambda: factorial(1)))
                rows["clock"].append(timed(CALLS, lambda: None))
            m = {k: statistics.median(v) for k, v in rows.items()}
            print(f"null call, p50: C {m['c']:.0f} ns, Python {m['null']:.0f} ns: {m['null'] - m['c']:.0f} ns more")
            print(f"typed call factorial(1): {m['scalar']:.0f} ns (timing a lambda that does nothing: {m['clock']:.0f} ns)")

        n = BYTES // 8
        with virtfun.connect(ENDPOINT, app="py-overhead") as host:
            f = host.function("sum_f64", cell_bytes=BYTES, depth=1)
            x = f.empty(n)
            x.fill(0.5)
            f(x)
            before = resident()
            place = timed(15, lambda: f(x))
            print(f"64 MiB to sum_f64 in place: {place / 1e6:.2f} ms, {(resident() - before) / 2**20:+.1f} MiB private memory")
            assert f(x) == n / 2
            del x
            y = np.full(n, 0.5)
            copied = timed(15, lambda: f(y))
            assert f(y) == n / 2
            del f
        print(f"the same copied into the cell: {copied / 1e6:.2f} ms")
        print(f"C in place {c(program, 'place', BYTES, 15) / 1e6:.2f} ms, C copied {c(program, 'copy', BYTES, 15) / 1e6:.2f} ms")


if __name__ == "__main__":
    main()
