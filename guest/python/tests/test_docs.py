"""The examples in the documentation run."""

from __future__ import annotations

import doctest
import pathlib
import re
import runpy

import pytest

import virtfun

np = pytest.importorskip("numpy")


def test_doctests(stand, monkeypatch):
    monkeypatch.setenv("VFUN_ENDPOINT", stand.endpoint)
    failed, tried = doctest.testmod(virtfun, optionflags=doctest.ELLIPSIS)
    assert failed == 0 and tried >= 12


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "guest/python/README.md"])
def test_a_pages_example_fits_the_window_of_the_readmes_vm(stand, monkeypatch, page):
    made = stand.vfun("client", "add", "vm1", "--kind", "host", "--window", "64MiB")
    assert made.returncode == 0, made.stderr
    text = (pathlib.Path(__file__).parents[3] / page).read_text()
    code = re.search(r"```python\n(import virtfun\n.*?)```", text, re.DOTALL)
    assert code
    monkeypatch.setenv("VFUN_ENDPOINT", stand.endpoint)
    with_client = code[1].replace("connect()", "connect(client='vm1')")
    assert with_client != code[1]
    exec(with_client, {})


def test_the_tour(stand, monkeypatch, capsys):
    monkeypatch.setenv("VFUN_ENDPOINT", stand.endpoint)
    tour = pathlib.Path(__file__).parents[1] / "examples/tour.py"
    runpy.run_path(str(tour), run_name="__main__")
    out = capsys.readouterr().out
    assert "2432902008176640000" in out and "UnknownFunction" in out


def test_four_jobs_go_to_the_host(stand, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["offload.py", stand.endpoint])
    offload = pathlib.Path(__file__).parents[1] / "examples/offload.py"
    runpy.run_path(str(offload), run_name="__main__")
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "zstd true of 220000"
    assert out[1].startswith("sha256 ba7816bf8f01cfea")
    assert out[2] == "resize 3072 [0, 0, 255, 255]"


def test_stubs_name_every_exception():
    stub = (pathlib.Path(virtfun.__file__).parent / "_errors.pyi").read_text()
    for name in virtfun._errors.__all__:
        assert f"class {name}(" in stub, name
    assert (pathlib.Path(virtfun.__file__).parent / "py.typed").is_file()
