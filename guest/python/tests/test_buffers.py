"""Memory that this program and the host's functions both write."""

from __future__ import annotations

import gc
import json
import os
import struct

import pytest

import virtfun

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

BUFFER, SUM, FILL = 26, 0, 1
MIB = 1 << 20


def ask(host, op, value, handle, length, offset=0):
    args = struct.pack("<BBB5xQQQ", BUFFER, op, value, handle, offset, length)
    return host.misbehave(args)


def test_both_sides_write_the_same_bytes(host):
    with host.buffer(MIB, align=2 * MIB) as shared:
        view = memoryview(shared)
        assert (len(shared), view.nbytes, view.readonly, view.format) == (MIB, MIB, False, "B")
        assert not any(view)
        ask(host, FILL, 0x5A, shared.handle, MIB)
        assert view[0] == view[MIB - 1] == 0x5A
        view[:] = bytes(range(256)) * (MIB // 256)
        (total,) = struct.unpack("<Q", ask(host, SUM, 0, shared.handle, MIB))
        assert total == sum(range(256)) * (MIB // 256)
        if np is not None:
            x = np.frombuffer(shared, dtype=np.float64)
            x[:] = 0.0
            assert struct.unpack("<Q", ask(host, SUM, 0, shared.handle, MIB)) == (0,)
            ask(host, FILL, 1, shared.handle, 8)
            assert x.view(np.uint64)[0] == 0x0101010101010101
            del x
    assert shared.closed and "closed" in repr(shared)


def test_a_view_that_is_left_over_reaches_nothing(host):
    shared = host.buffer(4096)
    view = memoryview(shared)
    view[0] = 7
    shared.close()
    shared.close()
    assert view[0] == 0
    view[0] = 9
    fresh = host.buffer(4096)
    assert fresh.handle != shared.handle and memoryview(fresh)[0] == 0
    for use in (shared.check, lambda: memoryview(shared)):
        with pytest.raises(virtfun.Closed, match="the buffer was closed"):
            use()
    with pytest.raises(virtfun.Driver):
        ask(host, SUM, 0, shared.handle, 1)


def test_buffers_end_with_their_session(stand):
    session = virtfun.connect(stand.endpoint, app="pytest")
    shared = session.buffer(4096)
    view = memoryview(shared)
    view[0] = 7
    session.close()
    assert shared.closed and view[0] == 0
    with pytest.raises(virtfun.Closed):
        shared.check()
    with pytest.raises(virtfun.Closed):
        session.buffer(4096)


def test_what_is_collected_is_given_back(stand, host):
    # Of sessions, not of the manager: a session of an earlier test may end meanwhile.
    def held():
        shown = json.loads(stand.vfun("ps", "--json").stdout)
        return [(g["session_buffers"], g["session_buffer_bytes"]) for g in shown]

    kept = [host.buffer(4096) for _ in range(5)]
    host.echo(b"x")
    assert (5, 5 * 4096) in held()
    assert "+5, 20 KiB" in stand.vfun("ps").stdout
    del kept
    gc.collect()
    assert (0, 0) in held() and (5, 5 * 4096) not in held()


def test_what_cannot_be_is_refused_with_its_limit(host):
    for wrong in (0, 1 << 60):
        with pytest.raises(virtfun.Error):
            host.buffer(wrong)
    with pytest.raises(ValueError, match="bytes = -1"):
        host.buffer(-1)
    for align in (0, 1, 4097, 4 * MIB):
        with pytest.raises(virtfun.BadOption, match="2097152"):
            host.buffer(4096, align=align)
    with pytest.raises(virtfun.Refused):
        host.buffer(64 * MIB, contiguous=True)


def test_a_child_has_none_of_it(host):
    shared = host.buffer(4096)
    pid = os.fork()
    if pid == 0:
        try:
            shared.check()
        except virtfun.Forked:
            shared.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    shared.check()
    memoryview(shared)[0] = 1
