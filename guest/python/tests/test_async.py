"""Calls that an event loop awaits."""

from __future__ import annotations

import asyncio
import selectors
import struct
import threading

import pytest

import virtfun
from virtfun import _async


def sleep(ms):
    return struct.pack("<BI", 6, ms)


def test_await_a_call(host):
    async def main():
        assert await host.factorial.acall(20) == 2432902008176640000
        pending = host.echo.start(b"hello")
        assert await pending == b"hello"
        assert await pending == b"hello"
        with pytest.raises(virtfun.Driver):
            await host.misbehave.acall(struct.pack("<BI", 3, 1))

    asyncio.run(main())


def test_the_loop_goes_on_meanwhile(host):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        await host.misbehave.acall(sleep(300))
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) >= 10


@pytest.mark.parametrize("mode", [0, 3], ids=["results", "errors"])
def test_calls_that_are_answered_at_once_let_others_run(host, monkeypatch, mode):
    # None of them takes a turn of the loop for its answer.
    monkeypatch.setattr(_async, "_HERE", 60.0)
    f = host.misbehave

    async def main():
        steps = 0

        async def step():
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(step())
        for _ in range(20_000):
            try:
                await f.acall(struct.pack("<BI", mode, 1))
            except virtfun.Driver:
                assert mode == 3
            if steps >= 5:
                break
        other.cancel()
        return steps

    assert asyncio.run(main()) >= 5


def test_many_at_once_and_more_than_there_are_cells(host):
    f = host.function("factorial", depth=4)

    async def main():
        return await asyncio.gather(*(f.acall(n % 20) for n in range(100)))

    want = [f(n % 20) for n in range(100)]
    assert asyncio.run(main()) == want


def test_several_functions_finish_in_their_own_time(host):
    slow, fast = host.function("misbehave"), host.function("misbehave")

    async def main():
        order = []

        async def one(f, ms):
            await f.acall(sleep(ms))
            order.append(ms)

        # Two functions of one service: each has its thread.
        await asyncio.gather(one(slow, 500), one(fast, 50))
        return order

    assert asyncio.run(main()) == [50, 500]


def later(ms, answer):
    """The driver answers from a timer of its own, after it has returned."""
    return struct.pack("<BI", 16, ms) + answer


def test_answers_that_come_late_and_out_of_order(host):
    f = host.function("misbehave", depth=16)

    async def main():
        order = []

        async def one(ms):
            assert await f.acall(later(ms, b"%d" % ms)) == b"%d" % ms
            order.append(ms)

        # One channel, one thread of its service: all are open at the same time.
        await asyncio.gather(*(one(ms) for ms in (600, 400, 200, 5)))
        return order

    assert asyncio.run(main()) == [5, 200, 400, 600]


def test_an_event_is_awaited_while_other_calls_go_on(host):
    f = host.function("misbehave", depth=8)

    async def main():
        events = [asyncio.ensure_future(f.acall(b"\x14" + bytes([n]))) for n in range(5)]
        # A call that ends at once does not give way to other tasks: let these begin.
        await asyncio.sleep(0)
        for n in range(50):
            assert await f.acall(b"\0%d" % n) == b"%d" % n
        assert not any(e.done() for e in events)
        assert await f.acall(b"\x15") == struct.pack("<Q", 5)
        return await asyncio.gather(*events)

    assert asyncio.run(main()) == [bytes([n]) for n in range(5)]


def test_late_answers_by_threads_and_a_waiter(host):
    f = host.function("misbehave", depth=8)
    calls = [f.start(later(ms, b"%d" % ms)) for ms in (300, 10)]
    assert calls[1].wait() == b"10"
    assert calls[0].wait() == b"300"
    waiter, order = virtfun.Waiter(), []
    calls = {ms: f.start(later(ms, b"")) for ms in (300, 150, 10)}
    with selectors.DefaultSelector() as selector:
        selector.register(waiter, selectors.EVENT_READ)
        while calls:
            waiting = list(calls)
            found = waiter.arm([calls[ms] for ms in waiting])
            if not found:
                assert selector.select(60)
            for i in found:
                order.append(waiting[i])
                calls.pop(waiting[i]).wait()
    assert order == [10, 150, 300]


def test_a_cancelled_wait_leaves_the_call_alone(host):
    t = host.function("misbehave", depth=2)

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(t.acall(sleep(200)), 0.02)
        assert await t.acall(b"\0after") == b"after"

    asyncio.run(main())


def test_a_loop_in_another_thread(host):
    got = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(host.factorial.acall(6))))
    thread.start()
    thread.join()
    assert got == [720]


def test_awaiting_takes_no_thread(host):
    async def main():
        before = threading.active_count()
        waiting = asyncio.gather(*(host.misbehave.acall(sleep(50)) for _ in range(3)))
        await asyncio.sleep(0.02)
        assert threading.active_count() == before
        await waiting

    asyncio.run(main())


def test_a_call_is_awaited_while_a_thread_waits_for_it(host):
    pending = host.misbehave.start(sleep(300))
    thread = threading.Thread(target=pending.wait)
    thread.start()

    async def main():
        await asyncio.sleep(0.05)  # the thread waits by now
        return await asyncio.wait_for(pending_result(), 60)

    async def pending_result():
        return await pending

    got = asyncio.run(main())
    thread.join()
    assert got == pending.wait()


def test_a_waiter_in_a_selector(host):
    """Any event loop: a descriptor that is readable when a call may be answered."""
    waiter = virtfun.Waiter()
    slow, fast = host.function("misbehave"), host.function("misbehave")
    calls = [slow.start(sleep(400)), fast.start(sleep(30))]
    order = []
    with selectors.DefaultSelector() as selector:
        selector.register(waiter, selectors.EVENT_READ)
        while calls:
            found = waiter.arm(calls)
            if not found:
                assert selector.select(60)
            for i in reversed(found):
                order.append(len(calls))
                calls.pop(i).wait()
        assert waiter.arm([]) == [] and not selector.select(0)
    assert order == [2, 1]


def test_many_loops_one_after_the_other(host):
    for n in range(20):
        assert asyncio.run(host.misbehave.acall(sleep(2) if n % 2 else b"\0x")) is not None
