"""Calls: typed, untyped, in place, kept, and from several threads."""

from __future__ import annotations

import array
import faulthandler
import gc
import hashlib
import inspect
import mmap
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

import virtfun

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]
needs_numpy = pytest.mark.skipif(np is None, reason="without numpy")

FILL, SLEEP, CODE = 8, 6, 3


def test_scalars_by_position_name_and_default(host):
    assert host.factorial(20) == 2432902008176640000
    assert host.factorial(n=5, repetitions=3) == 120
    assert host.fibonacci(93, 1) == 12200160415121876738
    if np is not None:
        assert host.factorial(np.uint8(4)) == 24


@pytest.mark.parametrize(
    "args, kwargs, error, words",
    [
        ((), {}, TypeError, "needs the argument 'n'"),
        ((1, 2, 3), {}, TypeError, "takes 2 arguments, 3"),
        ((1,), {"n": 1}, TypeError, "'n' twice"),
        ((1,), {"m": 1}, TypeError, "'m' which it does not have"),
        (("x",), {}, TypeError, "argument 'n' is a u64"),
        ((-1,), {}, OverflowError, "argument 'n' is a u64"),
        ((1 << 64,), {}, OverflowError, "argument 'n' is a u64"),
        ((1.5,), {}, TypeError, "argument 'n' is a u64"),
    ],
)
def test_wrong_arguments_are_named(host, args, kwargs, error, words):
    with pytest.raises(error, match=words):
        host.factorial(*args, **kwargs)


def test_functions_show_what_they_are(host):
    f = host.factorial
    assert f is host.factorial
    assert str(inspect.signature(f)) == "(n: int, repetitions: int = 1) -> int"
    assert f.__name__ == "factorial" and "u64" in f.__doc__
    assert f.signature == "(n: u64, repetitions: u64 = 1) -> u64"
    assert f.fingerprint == 11841142547413121154
    assert "factorial" in repr(f) and "factorial" in dir(host)
    assert f.info["depth"] == 64
    t = host.misbehave
    assert t.signature is None and t.fingerprint == 0
    assert str(inspect.signature(t)).startswith("(args")
    assert not hasattr(host, "no_such")


def test_error_codes_have_meanings(host):
    assert host.function_codes("factorial") == {-3: "fewer than two numbers of 8 bytes"}
    assert host.function_codes("echo") == {}
    with pytest.raises(virtfun.UnknownFunction):
        host.function_codes("no_such")


def test_structs_stand_behind_the_function(host):
    shown = "nearest(to: Point, within: f64, among: [Point]) -> Hit; struct Point { x: f64, y: f64 }; struct Hit { "
    f = host.nearest
    assert f.__doc__.startswith(shown) and shown in repr(f)
    assert f.signature.startswith("struct Point { ")
    with pytest.raises(TypeError, match=r"argument 'to': nearest\(to: Point, "):
        f()


def test_bytes_in_and_out(host):
    data = bytes(range(256)) * 8
    for give in (data, bytearray(data), memoryview(data), array.array("B", data)):
        assert host.sha256(give) == hashlib.sha256(data).digest()
        assert host.echo(give) == data
    assert isinstance(host.echo(b"x"), memoryview) and host.echo(b"x").readonly
    assert host.echo(memoryview(data)[::2]) == data[::2]
    assert host.echo([1, 2, 3]) == b"\1\2\3"
    assert host.echo() == b""
    assert host.null(b"anything") is None
    with pytest.raises(TypeError, match="encode it"):
        host.echo("text")


def test_functions_without_a_signature_take_and_give_bytes(host):
    t = host.misbehave
    assert t(b"\0hello") == b"hello"
    assert t() == b""
    assert len(t(struct.pack("<BI", FILL, 3000))) == 3000
    with pytest.raises(TypeError, match="has no signature"):
        t(b"a", b"b")
    raw = t.raw(struct.pack("<BI", FILL, 3000))
    assert raw.in_place and len(raw) == 3000 and bytes(raw)[250:253] == b"\xfa\0\1"
    assert not t.raw(b"\0short").in_place


def test_sums_of_lists_and_arrays(host):
    assert host.sum_f64([1, 2.5]) == 3.5
    assert host.sum_f64(array.array("d", [1, 2])) == 3.0
    assert host.sum_f64(()) == 0.0
    with pytest.raises(TypeError, match="array of f64, not of"):
        host.sum_f64(array.array("i", [1, 2]))
    with pytest.raises(TypeError, match=r"array of f64"):
        host.sum_f64(["x"])
    with pytest.raises(TypeError, match="array of f64, not of B"):
        host.sum_f64(b"12345678")


def test_larger_arguments_than_the_cells_hold(host):
    big = array.array("d", [1.0]) * 100_000
    assert host.sum_f64(big) == 100_000.0
    assert host.sum_f64.info["cell_bytes"] >= 800_000
    assert host.sum_f64([1.0]) == 1.0
    fixed = host.function("sum_f64", cell_bytes=4096)
    with pytest.raises(virtfun.ArgumentsTooLong) as e:
        fixed(big)
    assert "cell_bytes" in e.value.advice


def buffer_of(x):
    return memoryview(x).cast("B")


def test_an_array_in_the_window_is_used_where_it_lies(host):
    x = host.echo.empty(5000)
    view = memoryview(x)
    assert len(view) == 5000 and not view.readonly
    for value in (1, 2):
        buffer_of(x)[:] = bytes([value]) * 5000
        got = host.echo(x)
        assert got == bytes([value]) * 5000
        del got
    raw = host.echo.raw(x)
    assert raw.in_place
    # Its results are looked at: the next call takes another cell, and is right too.
    buffer_of(x)[0] = 77
    again = host.echo(x)
    assert bytes(raw)[0] == 2 and again[0] == 77
    # A part from the start is in place too, one from further on is copied.
    assert host.echo(memoryview(x)[:100]) == bytes(view[:100])
    assert host.echo(memoryview(x)[100:200]) == bytes(view[100:200])


def test_the_window_is_where_arrays_say_it_is(host):
    """What is written through `empty` is what the host reads: no copy in between."""
    f = host.function("echo", cell_bytes=1 << 20, depth=2)
    x = f.empty(1 << 20)
    buffer_of(x)[:5] = b"first"
    call = f.start(x)
    got = call.wait()
    assert got[:5] == b"first"
    maps = open("/proc/self/maps").read()
    import ctypes

    at = ctypes.addressof(ctypes.c_char.from_buffer(memoryview(x).cast("B")))
    line = next(
        l for l in maps.splitlines()
        if int(l.split("-")[0], 16) <= at < int(l.split("-")[1].split()[0], 16)
    )  # fmt: skip
    assert "rw-s" in line, line


def test_results_hold_cells_and_give_them_back(host):
    f = host.function("echo", depth=8, cell_bytes=4096)
    data = bytes(4000)
    kept = [f.raw(data) for _ in range(20)]
    assert 1 <= sum(r.in_place for r in kept) <= 4, "half of the cells are for calls"
    assert all(bytes(r) == data for r in kept)
    kept.clear()
    gc.collect()
    assert f.raw(data).in_place


def test_arrays_do_not_take_the_last_cell(host):
    f = host.function("echo", depth=4, cell_bytes=4096)
    held = [f.empty(10) for _ in range(3)]
    with pytest.raises(virtfun.Full, match="all but one"):
        f.empty(10)
    assert f(b"still") == b"still"
    held.pop()
    gc.collect()
    held.append(f.empty(10))


@needs_numpy
def test_numpy_in_and_out(host):
    x = np.linspace(0, 1, 1001)
    assert host.sum_f64(x) == pytest.approx(x.sum())
    assert host.sum_f64(x[::-1]) == pytest.approx(x.sum())
    assert host.sum_f64(x.reshape(7, 143).T) == pytest.approx(x.sum())
    with pytest.raises(TypeError, match="not of float32"):
        host.sum_f64(x.astype("f4"))
    with pytest.raises(TypeError, match="not of >f8"):
        host.sum_f64(x.astype(">f8"))
    y = host.sum_f64.empty((10, 10))
    assert y.shape == (10, 10) and y.dtype == np.float64 and y.flags.writeable
    y[:] = 2.0
    assert host.sum_f64(y) == 200.0
    assert host.sum_f64(y[:5]) == 100.0
    assert host.echo.empty(4, "u4").nbytes == 16
    e = host.echo.empty(0)
    assert host.echo(e) == b""


def test_arrays_outlive_functions_sessions_and_closing(stand):
    session = virtfun.connect(stand.endpoint, app="outlive")
    f = session.echo
    x = f.empty(4096)
    raw = f.raw(bytes(4096))
    call = f.start(b"z" * 100)
    session.close()
    session.close()
    assert session.closed
    buffer_of(x)[:] = b"a" * 4096
    assert bytes(x)[:3] == b"aaa" and bytes(raw) == bytes(4096)
    assert call.wait() == b"z" * 100
    with pytest.raises(virtfun.Closed):
        f(b"x")
    with pytest.raises(virtfun.Closed):
        session.ping()
    del f, session
    gc.collect()
    buffer_of(x)[:] = b"b" * 4096
    assert bytes(raw) == bytes(4096)
    assert "outlive" in stand.vfun("ps").stdout, "held as long as memory of it is"
    del x, raw, call
    gc.collect()
    until = time.monotonic() + 10
    while "outlive" in stand.vfun("ps").stdout:
        assert time.monotonic() < until, stand.vfun("ps").stdout
        time.sleep(0.02)


def test_threads_share_a_function(host):
    f = host.function("factorial", depth=4)
    wrong = []

    def work(n):
        want = f(n)
        wrong.extend(i for i in range(300) if f(n) != want)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_interpreter_is_free_while_a_call_waits(host):
    ticks = []
    call = threading.Thread(target=host.misbehave, args=(struct.pack("<BI", SLEEP, 400),))
    call.start()
    while call.is_alive():
        ticks.append(1)
        time.sleep(0.001)
    call.join()
    assert len(ticks) > 20


def test_pending_calls(host):
    t = host.function("misbehave", depth=8)
    slow = t.start(struct.pack("<BI", SLEEP, 300))
    with pytest.raises(virtfun.TimedOut) as e:
        slow.wait(timeout=0.01)
    assert isinstance(e.value, TimeoutError)
    assert not slow.done()
    assert slow.wait(10) == b"" and slow.done() and slow.wait() == b""
    many = [t.start(b"\0" + bytes([i])) for i in range(8)]
    with pytest.raises(virtfun.Full):
        t.start(b"\0")
    assert [bytes(p.wait())[0] for p in many] == list(range(8))
    failing = t.start(struct.pack("<BI", CODE, 7))
    for _ in range(2):
        with pytest.raises(virtfun.Driver):
            failing.wait()


def test_structs_both_ways(stand, tmp_path):
    manifest = tmp_path / "echo.toml"
    release = str(__import__("conftest").PROGRAMS)
    manifest.write_text(
        'name = "echo"\nversion = "1.0"\n'
        f'library = "{release}/libvfun_fn_echo.so"\n'
        'signature = """\n'
        "struct point { x: f64, y: f64, class: u8 }\n"
        "(p: point, flag: bool, three: [i16; 3], from: i8, data: [u32; 1..=4])\n"
        "-> (p: point, flag: bool, three: [i16; 3], from: i8, data: [u32; 1..=4])\n"
        '"""\n'
    )
    before = stand.vfun("function", "list").stdout
    assert "echo" in before
    added = stand.vfun("function", "add", str(manifest))
    assert added.returncode == 0, added.stderr
    try:
        with virtfun.connect(stand.endpoint, app="structs") as host:
            f = host.echo
            names = list(inspect.signature(f).parameters)
            assert names == ["p", "flag", "three", "from_", "data"]
            for point in ((1.5, 2.0, 9), {"x": 1.5, "y": 2.0, "class": 9}):
                got = f(point, True, [1, -2, 3], -4, [7, 8])
                assert got.p == (1.5, 2.0, 9) and got.p.x == 1.5
                assert got.flag is True and got._3 == -4 if hasattr(got, "_3") else True
                assert list(got.three) == [1, -2, 3] and list(got.data) == [7, 8]
            got = f(got.p, False, (0, 0, 0), 0, data=[1])
            assert list(got.data) == [1] and got.flag is False
            for args, error, words in (
                (((1.5, 2.0), True, [1, 2, 3], 0, [1]), TypeError, "has 3 members"),
                (({"x": 1.0, "y": 2.0}, True, [1, 2, 3], 0, [1]), TypeError, "no member 'class'"),
                (((1, 2, 300), True, [1, 2, 3], 0, [1]), TypeError, "p'.class is a u8"),
                (((1, 2, 3), True, [1, 2], 0, [1]), ValueError, r"\[i16; 3\]"),
                (((1, 2, 3), True, [1, 2, 3], 0, []), ValueError, "bytes where"),
                (((1, 2, 3), True, [1, 2, 3], 0, [1] * 5), ValueError, "bytes where"),
            ):
                with pytest.raises(error, match=words):
                    f(*args)
            x = f.empty(3)
            x[0], x[1], x[2] = 4, 5, 6
            assert list(f((0, 0, 1), True, [1, 2, 3], 5, x).data) == [4, 5, 6]
            assert list(f((0, 0, 2), True, [1, 2, 3], 5, x).data) == [4, 5, 6]
    finally:
        shipped = __import__("conftest").REPO / "functions/echo/function.toml"
        text = shipped.read_text().replace("libvfun", f"{release}/libvfun")
        manifest.write_text(text)
        again = stand.vfun("function", "add", str(manifest))
        assert again.returncode == 0, again.stderr


def test_a_released_function_is_not_called_with_its_arrays(host):
    with host.function("echo", depth=8) as f:
        arrays = [f.empty(4096) for _ in range(4)]
        for i, x in enumerate(arrays):
            buffer_of(x)[:] = bytes([i + 1]) * 4096
        assert bytes(f(arrays[0])) == b"\1" * 4096
    with host.function("echo", depth=8) as g:
        theirs = [g.empty(4096) for _ in range(4)]
        for x in theirs:
            buffer_of(x)[:] = b"t" * 4096
        for i, x in enumerate(arrays):
            with pytest.raises(virtfun.Closed):
                f(x)
            with pytest.raises(virtfun.Closed):
                f.start(x)
            assert bytes(buffer_of(x)) == bytes([i + 1]) * 4096
            buffer_of(x)[:] = b"o" * 4096
            # To another function it is an array like any other.
            assert bytes(g(x)) == b"o" * 4096
        for x in theirs:
            assert bytes(g(x)) == b"t" * 4096


def _use(host, what, said):
    for use in what:
        try:
            use()
            said.put(f"{use} went through")
            return
        except virtfun.Forked:
            pass
    host.close()
    with virtfun.connect(said.get(), app="child") as own:
        said.put(bytes(own.echo(b"own")))


def test_processes_that_are_forked(stand):
    host = virtfun.connect(stand.endpoint, app="forks")
    f = host.function("echo", depth=8)
    x, p, raw = f.empty(100), f.start(b"z" * 100), f.raw(bytes(4096))
    slotted = f.raw(f.empty(4096))
    assert raw.in_place and slotted.in_place
    # Another thread holds what it holds while the child is made.
    stop = threading.Event()

    def pings():
        while not stop.is_set():
            host.ping()

    busy = threading.Thread(target=pings)
    busy.start()
    try:
        context = multiprocessing.get_context("fork")
        for _ in range(5):
            said = context.Queue()
            uses = [
                lambda: f(b"x"),
                lambda: f.start(b"x"),
                lambda: f.empty(10),
                lambda: p.wait(1),
                lambda: f(b"x", b"one too many"),
                lambda: memoryview(raw),
                lambda: memoryview(slotted),
                lambda: len(slotted),
                lambda: slotted.in_place,
                host.list,
                host.ping,
                lambda: host.sum_f64,
                lambda: host.function("echo"),
            ]
            said.put(stand.endpoint)
            child = context.Process(target=_use, args=(host, uses, said))
            child.start()
            child.join(30)
            assert child.exitcode == 0
            assert said.get(timeout=10) == b"own"
    finally:
        stop.set()
        busy.join()
    buffer_of(x)[:] = b"p" * 100
    assert bytes(f(x)) == b"p" * 100 and bytes(p.wait()) == b"z" * 100
    assert bytes(raw) == bytes(4096)
    host.close()


def test_a_child_has_no_part_in_its_parents_session(host):
    x = host.echo.empty(10)
    host.echo(b"x")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                host.echo(b"y")
            except virtfun.Forked:
                status = 0
            del x
            gc.collect()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert host.echo(b"z") == b"z"


def test_a_view_that_a_child_inherits_shows_nothing_of_the_childs(host):
    """A view cannot be taken back: who touches it ends, and reads or writes nothing else."""
    f = host.function("echo", depth=8)
    x = buffer_of(f.empty(1 << 16))
    kept, slotted = memoryview(f.raw(bytes(1 << 16))), memoryview(f.raw(f.empty(1 << 16)))
    for touch in (lambda: kept[0], lambda: slotted[0], lambda: x.__setitem__(0, 1)):
        child = os.fork()
        if child == 0:
            try:
                # The child's own memory must not come to lie there.
                faulthandler.disable()  # its report would look like a failure of the tests
                own = [mmap.mmap(-1, 1 << 16) for _ in range(4096)]
                touch()
                del own
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV
    assert bytes(kept) == bytes(1 << 16) and len(slotted) == 1 << 16


def test_ctrl_c_ends_a_wait(stand):
    # A call that takes minutes, of a function whose deadline is far away.
    code = (
        # Whoever runs the tests in the background has it ignored, and all below it.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import virtfun\n"
        f"h = virtfun.connect({stand.endpoint!r}, app='ctrlc')\n"
        "f = h.factorial; f(1, 1)\n"
        "print('ready', flush=True)\n"
        "try: f(51, 1 << 40)\n"
        "except KeyboardInterrupt: print('interrupted', flush=True); import os; os._exit(0)\n"
    )
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None and p.stdout.readline() == "ready\n"
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    assert p.stdout.readline() == "interrupted\n"
    assert p.wait(10) == 0
