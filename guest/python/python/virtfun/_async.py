"""Calls that an event loop awaits.

Each loop has one descriptor (a Waiter) that is readable when one of the calls
it awaits may be answered. A call that is answered within some 20 microseconds
is not worth a turn of the loop: that long the loop waits itself. Each millisecond
such calls let the loop have a turn all the same, for what else there is to do.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from time import monotonic
from typing import Any

from ._errors import _classes
from ._native import Function, Pending, Waiter, wait_any

_Full = _classes["Full"]

# Seconds: what a turn of the loop costs.
_HERE = 20e-6

# Seconds: how long calls that are answered here keep everybody else waiting.
_SLICE = 1e-3


class _Turn(threading.local):
    """When the loop of this thread is to have a turn, at the latest."""

    over = 0.0


_turn = _Turn()


class _Awaited:
    """The calls that one event loop awaits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the loop has this, and is to go when nobody else needs it.
        self.loop = weakref.ref(loop)
        self.waiter = Waiter()
        self.calls: list[tuple[Pending, asyncio.Future[None]]] = []
        self.looks = False
        loop.add_reader(self.waiter.fileno(), self.look)

    def add(self, call: Pending) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self.calls.append((call, future))
        if not self.looks:
            # Once for all that begin in this turn.
            self.looks = True
            loop.call_soon(self.look)
        return future

    def look(self) -> None:
        self.looks = False
        while True:
            self.calls = [c for c in self.calls if not c[1].done()]
            try:
                found = self.waiter.arm([c[0] for c in self.calls])
            except Exception as e:
                for _, future in self.calls:
                    if not future.done():
                        future.set_exception(e)
                return
            if not found:
                return
            for i in found:
                future = self.calls[i][1]
                if not future.done():
                    future.set_result(None)


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Awaited] = (
    weakref.WeakKeyDictionary()
)


def _after_fork() -> None:
    _loops.clear()


os.register_at_fork(after_in_child=_after_fork)


async def settled(call: Pending) -> Any:
    """Waits for a call and gives its results."""
    if wait_any([call], _HERE):
        now = monotonic()
        if now >= _turn.over:
            # The next one who calls has a slice of its own, and so has this one then.
            _turn.over = now + _SLICE
            # Its results first: who is cancelled in the pause leaves no call behind.
            try:
                return call.wait()
            finally:
                await asyncio.sleep(0)
                _turn.over = monotonic() + _SLICE
    else:
        loop = asyncio.get_running_loop()
        awaited = _loops.get(loop)
        if awaited is None:
            awaited = _loops[loop] = _Awaited(loop)
        await awaited.add(call)
    return call.wait()


async def acall(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Starts a call as soon as a cell is free, and waits for it."""
    pause = 0.0
    while True:
        try:
            call = function.start(*args, **kwargs)
            break
        except _Full:
            await asyncio.sleep(pause)
            pause = min(pause + 1e-4, 5e-3)
    return await settled(call)
