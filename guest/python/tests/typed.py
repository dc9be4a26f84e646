"""For mypy --strict: what callers write is typed."""

from __future__ import annotations

import virtfun


def total(endpoint: str) -> float:
    with virtfun.connect(endpoint, wait="sleep") as host:
        info = host.info
        size: int = info["window_bytes"]
        f: virtfun.Function = host.function("sum_f64", cell_bytes=size // 8)
        x = f.empty(10)
        pending: virtfun.Pending = f.start(x)
        try:
            return float(pending.wait(timeout=1.0))
        except virtfun.TimedOut as e:
            print(e.advice, e.retryable)
        except virtfun.Refused as e:
            print(e.code, e.sentence)
        with host.buffer(4096, align=8192) as shared:
            handle: int = shared.handle
            memoryview(shared)[0] = handle & 1
    return 0.0


async def later(host: virtfun.Session) -> int:
    return int(await host.factorial.acall(20))
