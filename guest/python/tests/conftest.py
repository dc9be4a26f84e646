"""A real manager for the tests, in a root of its own."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest

REPO = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / os.environ.get("VFUN_PROFILE", "release")

if os.environ.get("VFUN_WITHOUT_NUMPY"):
    sys.modules["numpy"] = None  # type: ignore[assignment]


class Stand:
    """vfund with the functions that ship, and one that misbehaves."""

    def __init__(self) -> None:
        # Short: a UNIX socket's path has 107 bytes.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="vfun-", dir="/dev/shm"))
        self.endpoint = f"host:{self.root}/host.sock"
        self.log = open(self.root / "vfund.log", "ab")
        self.vfund = subprocess.Popen(
            [PROGRAMS / "vfund", "--root", self.root, "--window-dir", self.root]
            + ["--functions", REPO / "functions", "--functions", REPO / "services/testdriver"],
            stdin=subprocess.DEVNULL,
            stderr=self.log,
        )
        until = time.monotonic() + 20
        while not (self.root / "host.sock").exists() or self.vfun("status").returncode:
            assert self.vfund.poll() is None and time.monotonic() < until, self.said()
            time.sleep(0.01)

    def said(self) -> str:
        return (self.root / "vfund.log").read_text()

    def vfun(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAMS / "vfun", "--root", self.root, *words], capture_output=True, text=True
        )

    def end(self) -> None:
        self.vfund.terminate()
        try:
            self.vfund.wait(10)
        finally:
            self.vfund.kill()
            shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="session")
def stand() -> Iterator[Stand]:
    made = Stand()
    yield made
    made.end()


@pytest.fixture
def host(stand: Stand):  # type: ignore[no-untyped-def]
    import virtfun

    with virtfun.connect(stand.endpoint, app="pytest") as session:
        yield session
