"""Modules of one's own; they need `make wasm` for what compiles and serves them."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import pytest
import virtfun
from conftest import PROGRAMS, REPO, Stand

pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "vfun-service-wasm").exists(), reason="vfun-service-wasm is not built: make wasm"
)

SOURCE = """
#include "vfun_driver.h"
const struct vfun_driver_info vfun_driver_info = {
    .abi = VFUN_DRIVER_ABI, .name = "times", .version_major = 1, .version_minor = MINOR,
    .max_args = 8, .max_result = 8 };
int vfun_driver_function(void *state, struct vfun_call *call)
{
    (void)state;
    uint64_t x;
    __builtin_memcpy(&x, call->args, 8);
    x *= FACTOR;
    __builtin_memcpy(call->out, &x, 8);
    call->out_len = 8;
    return VFUN_DRIVER_OK;
}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """By factor: a function `times` that multiplies by it."""
    folder = tmp_path_factory.mktemp("modules")
    files = []
    for factor in (2, 3):
        file = folder / f"times{factor}.c"
        file.write_text(SOURCE.replace("FACTOR", str(factor)).replace("MINOR", str(factor)))
        files.append(file)
    subprocess.run([REPO / "services/wasm/modules/build.sh", folder, *files], check=True)
    return {factor: (folder / f"times{factor}.wasm").read_bytes() for factor in (2, 3)}


@pytest.fixture(scope="module")
def open_to_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A host on which the client `host` may submit."""
    made = Stand()
    policy = tmp_path_factory.mktemp("policy") / "policy.toml"
    policy.write_text("[client.host]\nsubmit = true\n")
    done = made.vfun("policy", "set", str(policy))
    assert done.returncode == 0, done.stderr
    yield made
    made.end()


def test_a_module_is_brought_called_listed_and_taken_back(
    open_to_modules: Stand, modules: dict[int, bytes]
) -> None:
    with virtfun.connect(open_to_modules.endpoint, app="pytest") as host:
        typed = "(n: u64) -> u64"
        done = host.submit_module(modules[2], signature=typed, memory=1 << 20, deadline=0.5)
        assert (done["name"], done["version"]) == ("my.times", "1.2")
        assert (done["memory"], done["deadline"], done["max_args"]) == (1 << 20, 0.5, 8)
        assert len(done["sha256"]) == 64
        assert not (done["already_there"] or done["replaced"] or done["renewed"])
        assert host.function("my.times")(21) == 42
        again = host.submit_module(modules[2], signature=typed, memory=1 << 20, deadline=0.5)
        assert again["already_there"]
        again = host.submit_module(
            modules[2], signature=typed, memory=1 << 20, deadline=0.5, replace=True
        )
        assert again["renewed"] and not again["already_there"]
        [listed] = host.submitted_modules()
        assert listed["sha256"] == done["sha256"]

        # Another one in its place, when that is asked for.
        with pytest.raises(virtfun.NotAccepted, match="another module's name") as e:
            host.submit_module(modules[3], signature=typed)
        assert e.value.code == 7
        named = getattr(host, "my.times")
        assert named(5) == 10
        assert host.submit_module(modules[3], signature=typed, replace=True)["replaced"]
        assert named(5) == 10, "who has it keeps it"
        assert getattr(host, "my.times")(5) == 15
        host.submit_module(modules[2], name="twice", signature=typed)
        assert host.function("my.twice")(5) == 10
    with virtfun.connect(open_to_modules.endpoint, app="pytest") as host:
        assert host.function("my.times")(5) == 15
        for name in ("times", "my.twice"):
            getattr(host, "my." + name.removeprefix("my."))
            host.withdraw_module(name)
        assert host.submitted_modules() == []
        with pytest.raises(virtfun.NotAccepted, match="nothing was submitted") as e:
            host.withdraw_module("times")
        assert e.value.code == 8
        for name in ("my.times", "my.twice"):
            with pytest.raises(AttributeError):
                getattr(host, name)


def test_what_is_refused_says_why(
    stand: Stand, open_to_modules: Stand, modules: dict[int, bytes], tmp_path: pathlib.Path
) -> None:
    with virtfun.connect(open_to_modules.endpoint, app="pytest") as host:
        with pytest.raises(virtfun.NotAccepted, match="not a WebAssembly module") as e:
            host.submit_module(b"text")
        assert e.value.code == 2 and "not a WebAssembly module" in e.value.sentence
        with pytest.raises(virtfun.NotAccepted, match="not valid"):
            host.submit_module(modules[2][:-9])
        with pytest.raises(ValueError, match="no number of seconds"):
            host.submit_module(modules[2], deadline=-1)
        with pytest.raises(virtfun.BadOption, match="at most 8388608"):
            host.submit_module(bytes((8 << 20) + 1))
        assert host.submitted_modules() == []
    # Nobody may where policy does not say so.
    with virtfun.connect(stand.endpoint, app="pytest") as host:
        with pytest.raises(virtfun.Denied, match="may not use 'submit'"):
            host.submit_module(modules[2])
