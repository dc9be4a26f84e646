"""Exceptions mirror refusals and statuses."""

from __future__ import annotations

import struct

import pytest

import virtfun
from virtfun import _errors, _native


def test_every_refusal_has_a_class():
    codes = _native.nack_codes()
    assert len(codes) >= 18
    for code in codes:
        made = _errors.class_of(code, True)
        assert issubclass(made, virtfun.Refused) and made is not virtfun.Refused, code
        assert getattr(virtfun, made.__name__) is made and made.__doc__


def test_classes_stand_under_one_another():
    for name in virtfun._errors.__all__:
        made = getattr(virtfun, name)
        assert issubclass(made, virtfun.Error) and made.__module__ == "virtfun"
    assert issubclass(virtfun.TimedOut, TimeoutError)
    assert issubclass(virtfun.BadEndpoint, ValueError)
    assert _errors.class_of("OfALaterVersion", False) is virtfun.Error
    assert _errors.class_of("OfALaterVersion", True) is virtfun.Refused


def test_refusals(host):
    with pytest.raises(virtfun.UnknownFunction) as e:
        host.function("no-such")
    assert e.value.code == 4 and e.value.advice and not e.value.retryable
    with pytest.raises(virtfun.WrongVersion):
        host.function("echo", version="9.0")
    with pytest.raises(virtfun.NoHardware):
        host.function("echo", on="hardware")
    with pytest.raises(virtfun.BeyondLimit):
        host.function("echo", deadline=3000)
    with pytest.raises(virtfun.BadOption):
        host.function("echo", depth=3)
    with pytest.raises(ValueError):
        host.function("echo", on="mars")


def test_another_signature_is_refused_by_name(host):
    with pytest.raises(virtfun.WrongSignature) as e:
        host.function("factorial", signature=0x1234)
    words = str(e.value)
    assert "(n: u64, repetitions: u64 = 1) -> u64" in words and "0000000000001234" in words
    assert "vfun bindgen factorial" in words
    assert host.function("factorial", signature=host.factorial.fingerprint)(3) == 6


def test_what_calls_raise(host):
    t = host.misbehave
    with pytest.raises(virtfun.Driver) as e:
        t(struct.pack("<BI", 3, 42))
    assert e.value.code == 42 and "told to fail" in e.value.sentence
    with pytest.raises(virtfun.Driver) as e:
        t(struct.pack("<Bi", 3, -3))
    assert e.value.code == -3 and "(code -3, bad arguments)" in str(e.value)
    assert "arguments" in e.value.advice
    with pytest.raises(virtfun.ResultTooLarge):
        t(b"\4")
    with pytest.raises(virtfun.DriverCrashed):
        t(b"\1")
    assert t(b"\0again") == b"again"
    with pytest.raises(virtfun.Deadline):
        host.function("misbehave", deadline=0.05)(b"\2")


def test_connecting(stand):
    with pytest.raises(virtfun.BadEndpoint):
        virtfun.connect("nonsense:")
    with pytest.raises(virtfun.HostSocket) as e:
        virtfun.connect("host:/no/such.sock")
    assert isinstance(e.value, virtfun.ConnectError) and "vfund" in e.value.advice
    with pytest.raises(ValueError, match="'hybrid', 'spin', 'sleep'"):
        virtfun.connect(stand.endpoint, wait="never")
    with pytest.raises(virtfun.Refused):
        virtfun.connect(stand.endpoint, client="nobody")
    for wait in ("spin", "hybrid", "sleep"):
        with virtfun.connect(stand.endpoint, wait=wait) as host:
            assert host.factorial(5) == 120
            assert host.info["transport"] == "host" and host.ping() < 10
            assert "host" in host.describe() and "virtfun.Session" in repr(host)
