"""The examples in the documentation run."""

from __future__ import annotations

import doctest
import pathlib
import runpy

import pytest

import virtfun

np = pytest.importorskip("numpy")


def test_doctests(stand, monkeypatch):
    monkeypatch.setenv("VFUN_ENDPOINT", stand.endpoint)
    failed, tried = doctest.testmod(virtfun, optionflags=doctest.ELLIPSIS)
    assert failed == 0 and tried >= 12


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
