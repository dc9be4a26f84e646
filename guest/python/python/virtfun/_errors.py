"""Exceptions: one class for each thing that can go wrong, all under Error."""

from __future__ import annotations

__all__: list[str] = []


class Error(Exception):
    """Anything that VirtFun says went wrong.

    ``advice`` says what to do about it; ``retryable`` whether the same again
    may succeed.
    """

    advice: str = ""
    retryable: bool = False


class ConnectError(Error):
    """No session could be opened."""


class SessionError(Error):
    """The session is of no use any more: connect again."""


class ControlError(Error):
    """The manager could not be asked."""


class Refused(Error):
    """The manager refused. ``code`` is the nack's number, ``sentence`` its words."""

    code: int = 0
    sentence: str = ""


class CallError(Error):
    """A call failed."""


class OptionError(Error, ValueError):
    """An option is not possible; nothing was sent."""


_classes: dict[str, type[Error]] = {}


def _define(base: type[Error] | tuple[type, ...], *names: tuple[str, str] | str) -> None:
    for item in names:
        name, doc = item if isinstance(item, tuple) else (item, "")
        bases = base if isinstance(base, tuple) else (base,)
        made = type(name, bases, {"__doc__": doc, "__module__": "virtfun"})
        _classes[name] = made
        globals()[name] = made


# Opening a session.
_define(
    ConnectError,
    ("NoHost", "No endpoint was named and none that was tried is there."),
    ("HostSocket", "The manager's socket could not be reached."),
    ("NoDevice", "No such PCI device is in this machine."),
    ("Device", "The device cannot be opened or mapped."),
    ("SeveralWindows", "Several windows are in this machine: name one."),
    ("NotAWindow", "What was mapped is not a window of this version."),
    ("Map", "A part of the window could not be mapped."),
    ("Gateway", "The gateway could not be reached."),
)
_define(
    OptionError,
    ("BadEndpoint", "The endpoint's text is none of the known forms."),
    ("BadName", "A name is not possible."),
    ("BadOption", "An option is beyond its limit."),
)
_define(
    SessionError,
    ("StaleGeneration", "The window was made again, empty."),
    ("ConnectionLost", "The connection to the gateway ended."),
    ("Closed", "The session or function was closed."),
    ("Forked", "A child process used what its parent opened."),
)
_define(
    ControlError,
    ("ManagerGone", "The manager is not running; calls of active functions go on."),
    ("ControlTimeout", "The manager did not answer in time."),
    ("ControlBusy", "All control cells stayed in use."),
)
# The manager's nacks.
_define(
    Refused,
    ("Malformed", "The request could not be read."),
    ("WrongProtocol", "No protocol version is spoken by both sides."),
    ("UnknownFunction", "No function of this name is offered to this client."),
    ("WrongVersion", "No version of the function serves this caller."),
    ("Denied", "Policy does not allow it."),
    ("BadCredential", "The credential is missing or wrong."),
    ("OverQuota", "The client has as many grants or bytes as it may have."),
    ("NoCapacity", "The window or the host has no room now."),
    ("DeviceBusy", "Every hardware instance is taken."),
    ("NoHardware", "The function has no hardware behind it."),
    ("BadHandle", "The handle is unknown."),
    ("Stale", "The handle is of an earlier generation."),
    ("ServiceFailed", "The service could not be started."),
    ("Draining", "The manager takes nothing new."),
    ("BeyondLimit", "What was asked for is beyond a limit."),
    ("WrongState", "Not in this state."),
    ("WrongSignature", "The caller was made for another signature."),
    ("Starting", "The function's service is not ready yet: ask again in a few seconds."),
)
# Calls.
_define(
    CallError,
    ("Full", "Every cell of the channel is in use."),
    ("ArgumentsTooLong", "More arguments than a cell takes; nothing was sent."),
    ("BufferTooSmall", "The results do not fit the buffer."),
    ("DriverCrashed", "The function crashed during this call."),
    ("Deadline", "The call ran past its deadline."),
    ("ServiceLost", "The service was ended for another call's sake."),
    ("ResultTooLarge", "The results do not fit the cell."),
    ("BadCall", "The service refused the cell itself."),
    ("Broken", "The channel is broken."),
    ("Released", "The grant was released."),
    ("Unanswered", "No answer came; service and manager are both gone."),
    ("HostGone", "Service and manager are both gone."),
)
_define((CallError, TimeoutError), ("TimedOut", "Your own time limit passed; the call goes on."))
_define(Error, ("HostNonsense", "The host sent bytes that make no sense."))
_define(Error, ("Unsupported", "The channel, transport or host has no such operation."))


class Driver(CallError):
    """The function returned an error: its own ``code`` and ``sentence``."""

    code: int = 0
    sentence: str = ""


Driver.__module__ = "virtfun"
_classes["Driver"] = Driver


class NotAccepted(CallError):
    """The host did not take a module: its ``code`` and the compiler's or host's ``sentence``."""

    code: int = 0
    sentence: str = ""


NotAccepted.__module__ = "virtfun"
_classes["NotAccepted"] = NotAccepted
for _base in (Error, ConnectError, SessionError, ControlError, Refused, CallError, OptionError):
    _base.__module__ = "virtfun"
    __all__.append(_base.__name__)
__all__ += _classes


class _UnsupportedRequest(Refused, _classes["Unsupported"]):  # type: ignore[misc]
    """The manager does not know the request, or its feature is not in force."""


_UnsupportedRequest.__name__ = _UnsupportedRequest.__qualname__ = "UnsupportedRequest"
_UnsupportedRequest.__module__ = "virtfun"
UnsupportedRequest = _UnsupportedRequest
__all__.append("UnsupportedRequest")


def class_of(kind: str, refused: bool) -> type[Error]:
    """The class of an error by its name in the library."""
    if refused and kind == "Unsupported":
        return UnsupportedRequest
    return _classes.get(kind, Refused if refused else Error)


def make(
    kind: str, refused: bool, text: str, advice: str, retryable: bool, code: int, sentence: str
) -> Error:
    """An exception as the native half raises it."""
    made = class_of(kind, refused)(sentence if refused else text)
    made.advice, made.retryable = advice, retryable
    if isinstance(made, (Refused, Driver, NotAccepted)):
        made.code, made.sentence = code, sentence
    return made
