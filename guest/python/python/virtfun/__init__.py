"""Call functions that run on the VM's host, through memory that both share.

>>> import virtfun
>>> with virtfun.connect() as host:
...     host.factorial(20)
2432902008176640000

Functions are the session's attributes. They have the signatures that their
manifests declare:

>>> import inspect
>>> host = virtfun.connect()
>>> inspect.signature(host.factorial)
<Signature (n: int, repetitions: int = 1) -> int>
>>> host.factorial.signature
'(n: u64, repetitions: u64 = 1) -> u64'
>>> host.fibonacci(n=93)
12200160415121876738
>>> host.sha256(b"abc").hex()[:16]
'ba7816bf8f01cfea'

Arrays are numpy's, where numpy is installed. An ordinary array is copied once,
to where the host reads it; one from ``empty`` lies there already:

>>> x = host.sum_f64.empty(1000)
>>> x[:] = 0.5
>>> host.sum_f64(x)
500.0

What the host refuses is an exception of its own class:

>>> host.function("no-such")
Traceback (most recent call last):
    ...
virtfun.UnknownFunction: no function 'no-such' is offered to client host: `vfun list` shows those that are
>>> host.close()
"""

from __future__ import annotations

import os as _os

from . import _errors
from ._errors import *  # noqa: F401,F403
from ._native import Buffer, Function, Pending, Results, Session, Slot, Waiter, __version__

__all__ = [
    "Buffer",
    "Function",
    "Pending",
    "Results",
    "Session",
    "Slot",
    "Waiter",
    "connect",
]
__all__ += _errors.__all__


def connect(
    endpoint: str | None = None,
    app: str | None = None,
    client: str | None = None,
    credential: bytes | str | None = None,
    wait: str = "hybrid",
) -> Session:
    """Open a session with the host.

    endpoint
        ``auto``, ``host[:SOCKET]``, ``ivshmem[:PCIADDRESS]``,
        ``pmem[:/dev/daxN.M]``, ``dir:FOLDER``, ``tcp:HOST:PORT``,
        ``tls:HOST:PORT`` (with ``VFUN_TLS_CA``);
        None for the environment's VFUN_ENDPOINT, else the best that is there.
    app
        The app's name, for the host's tools; None for the script's name.
    client
        The client to act for, where the endpoint does not settle it.
    credential
        The client's secret or a token; None for the environment's VFUN_CREDENTIAL.
    wait
        How calls wait: ``hybrid`` spins for a while, then sleeps; ``spin`` never
        sleeps; ``sleep`` sleeps soon.
    """
    if app is None:
        app = _app_name()
    if credential is None:
        credential = _os.environ.get("VFUN_CREDENTIAL") or None
    if isinstance(credential, str):
        credential = credential.encode()
    return Session(endpoint, app, client, credential, wait)


def _app_name() -> str:
    import sys

    script = _os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    name = "".join(c for c in script if c.isascii() and (c.isalnum() or c in "._-"))[:64]
    return name.lstrip(".-") or "python"
