"""Calls that an event loop awaits.

No transport of today hands out a descriptor that becomes readable when a call
is answered and is shared with nobody, so one thread waits for all awaited
calls of the process, without the interpreter's lock, and tells their loops.
It lives only while something is awaited. A call that is answered within some
20 microseconds is not worth a thread's wake-up: that long the loop waits itself.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from typing import Any

from ._errors import _classes
from ._native import Function, Pending, wait_any

_Full = _classes["Full"]

# Seconds: what a hand-over to another thread and back costs.
_HERE = 20e-6
# How long the thread stays with a set of calls before it looks for new ones.
_TURN = 2e-3


class _Waiter:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.new: list[tuple[Pending, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self.thread: threading.Thread | None = None
        self.ending = False

    def add(self, call: Pending) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self.lock:
            self.new.append((call, loop, future))
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="virtfun", daemon=True)
                self.thread.start()
        return future

    def run(self) -> None:
        waiting: list[tuple[Pending, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        while True:
            with self.lock:
                waiting += self.new
                self.new = []
                waiting = [w for w in waiting if not w[2].cancelled()]
                if not waiting or self.ending:
                    self.thread = None
                    return
            for i in reversed(wait_any([w[0] for w in waiting], _TURN)):
                _, loop, future = waiting.pop(i)
                try:
                    loop.call_soon_threadsafe(_set, future)
                except RuntimeError:
                    pass  # the loop is closed: nobody waits any more

    def end(self) -> None:
        self.ending = True
        thread = self.thread
        if thread is not None:
            thread.join(1.0)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_waiter = _Waiter()
atexit.register(_waiter.end)


def _after_fork() -> None:
    global _waiter
    _waiter = _Waiter()


import os  # noqa: E402

os.register_at_fork(after_in_child=_after_fork)


async def settled(call: Pending) -> Any:
    """Waits for a call and gives its results."""
    if not wait_any([call], _HERE):
        await _waiter.add(call)
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
