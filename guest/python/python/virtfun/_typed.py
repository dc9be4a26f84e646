"""What a signature's values are in Python: structs, arrays, `inspect`.

Scalars are not here: they are on a call's way and native.
"""

from __future__ import annotations

import array as _array
import collections
import inspect
import keyword
import struct
import sys
from typing import Any, Callable

from ._native import Function, Results

try:
    import numpy as _np
except ImportError:  # numpy is optional
    _np = None  # type: ignore[assignment]

_CODES = {
    "bool": "?", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "i8": "b", "i16": "h", "i32": "i", "i64": "q", "f32": "f", "f64": "d",
}  # fmt: skip
_PYTHON = {"bool": bool, "f32": float, "f64": float}


def _identifier(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def _text(ty: Any) -> str:
    if isinstance(ty, str):
        return ty
    return f"[{_text(ty[1])}; {ty[2]}]" if ty[0] == "array" else str(ty[1])


def _size(ty: Any) -> int:
    if isinstance(ty, str):
        return struct.calcsize("<" + _CODES[ty])
    return _size(ty[1]) * int(ty[2]) if ty[0] == "array" else int(ty[2])


def dtype_of(ty: Any) -> Any:
    """numpy's dtype of a type; structs are structured dtypes, with C's offsets."""
    if isinstance(ty, str):
        return _np.dtype("<" + _CODES[ty])
    if ty[0] == "array":
        return _np.dtype((dtype_of(ty[1]), (ty[2],)))
    _, _, size, members = ty
    return _np.dtype(
        {
            "names": [m[0] for m in members],
            "offsets": [m[1] for m in members],
            "formats": [dtype_of(m[2]) for m in members],
            "itemsize": size,
        }
    )


class Codec:
    """Encodes and decodes by one signature."""

    def __init__(self, function: str, text: str, args: Any, results: Any, bare: bool) -> None:
        self.function, self.text, self.bare = function, text, bare
        self.args, self.tail, _ = args
        self.results, self.result_tail, self.result_bytes = results
        self._tuples: dict[str, Any] = {}
        names = [_identifier(f[0]) for f in self.results]
        if self.result_tail:
            names.append(_identifier(self.result_tail[0]))
        self._record = None if bare else collections.namedtuple(f"{function.replace('-', '_').replace('.', '_')}_result", names, rename=True)

    # Arguments.

    def encode(self, ty: Any, value: Any, what: str) -> bytes:
        """The bytes of a value."""
        if isinstance(ty, str):
            try:
                return struct.pack("<" + _CODES[ty], value)
            except struct.error as e:
                raise TypeError(f"{self.function}(): {what} is a {ty}: {e}") from None
        if ty[0] == "array":
            of, count = ty[1], ty[2]
            if of == "u8" and isinstance(value, (bytes, bytearray, memoryview)):
                value = bytes(value)
            if len(value) != count:
                raise ValueError(f"{self.function}(): {what} is a {_text(ty)}, not of {len(value)}")
            if of == "u8" and isinstance(value, bytes):
                return value
            return b"".join(self.encode(of, v, f"{what}[{i}]") for i, v in enumerate(value))
        _, name, size, members = ty
        out = bytearray(size)
        for i, (member, offset, of) in enumerate(members):
            if isinstance(value, dict):
                if member not in value:
                    raise TypeError(f"{self.function}(): {what} ({name}) has no member '{member}'")
                v = value[member]
            elif hasattr(value, member):
                v = getattr(value, member)
            else:
                if len(value) != len(members):
                    raise TypeError(f"{self.function}(): {what} ({name}) has {len(members)} members")
                v = value[i]
            part = self.encode(of, v, f"{what}.{member}")
            out[offset : offset + len(part)] = part
        if isinstance(value, dict) and len(value) > len(members):
            strange = sorted(set(value) - {m[0] for m in members})
            raise TypeError(f"{self.function}(): {what} ({name}) has no member '{strange[0]}'")
        return bytes(out)

    def encode_field(self, index: int, value: Any) -> bytes:
        """A struct or array among the arguments."""
        name, _, ty, _, _ = self.args[index]
        return self.encode(ty, value, f"argument '{name}'")

    def encode_tail(self, value: Any) -> Any:
        """A buffer with a variable array's elements, from what is none."""
        name, _, ty, each, _, _ = self.tail
        what = f"argument '{name}'"
        if isinstance(value, str):
            raise TypeError(f"{self.function}(): {what} is an array of {_text(ty)}, not a str: encode it")
        try:
            view = memoryview(value)
        except TypeError:
            view = None
        if view is not None and not isinstance(value, (list, tuple)):
            if view.itemsize == each and (not isinstance(ty, str) or self._alike(ty, view.format)):
                return view.tobytes()  # right, but not in one piece
            if ty == "u8":
                return view.tobytes()
            dtype = getattr(value, "dtype", view.format)
            raise TypeError(
                f"{self.function}(): {what} is an array of {_text(ty)}, not of {dtype}: "
                "convert it, for example with .astype()"
            )
        if isinstance(ty, str) and ty != "bool":
            try:
                made = _array.array(_CODES[ty], value)
            except (TypeError, OverflowError) as e:
                raise type(e)(f"{self.function}(): {what} is an array of {ty}: {e}") from None
            if sys.byteorder == "big":
                made.byteswap()
            return made.tobytes()
        return b"".join(self.encode(ty, v, f"{what}[{i}]") for i, v in enumerate(value))

    @staticmethod
    def _alike(ty: str, code: str) -> bool:
        code = code.lstrip("<=@")
        kinds = "?" if ty == "bool" else "fd" if ty[0] == "f" else "bhilqn" if ty[0] == "i" else "BHILQN"
        return len(code) == 1 and code in kinds

    # Results.

    def _tuple(self, ty: Any) -> Any:
        if ty[1] not in self._tuples:
            names = [_identifier(m[0]) for m in ty[3]]
            self._tuples[ty[1]] = collections.namedtuple(ty[1], names, rename=True)
        return self._tuples[ty[1]]

    def value(self, ty: Any, view: memoryview, at: int) -> Any:
        """The value of a type in a buffer."""
        if isinstance(ty, str):
            return struct.unpack_from("<" + _CODES[ty], view, at)[0]
        if ty[0] == "array":
            return self.elements(ty[1], view, at, ty[2])
        return self._tuple(ty)(*(self.value(m[2], view, at + m[1]) for m in ty[3]))

    def elements(self, ty: Any, view: memoryview, at: int, count: int) -> Any:
        """An array over a buffer: nothing is copied, where that can be."""
        part = view[at : at + count * _size(ty)]
        if ty == "u8":
            return part
        if _np is not None:
            return _np.frombuffer(part, dtype=dtype_of(ty), count=count)
        if isinstance(ty, str) and sys.byteorder == "little":
            return part.cast(_CODES[ty])
        return [self.value(ty, view, at + i * _size(ty)) for i in range(count)]

    def decode(self, results: Results) -> Any:
        """What a call's results are."""
        from ._errors import make

        view = memoryview(results)
        count = 0
        if self.result_tail:
            _, offset, ty, each, least, most = self.result_tail
            count, rest = divmod(len(view) - offset, each)
            wrong = len(view) < offset or rest or count < least or (most is not None and count > most)
        else:
            wrong = len(view) != self.result_bytes
        if wrong:
            text = f"the host sent nonsense: {len(view)} bytes of results of {self.text}"
            raise make("HostNonsense", False, text, "Update the older of the two sides.", False, 0, text)
        values = [self.value(f[2], view, f[1]) for f in self.results]
        if self.result_tail:
            values.append(self.elements(self.result_tail[2], view, self.result_tail[1], count))
        if self._record is None:
            return values[0]
        return self._record(*values)

    # For people and tools.

    def annotation(self, ty: Any, tail: bool = False) -> Any:
        """What stands in `inspect.signature`."""
        if tail:
            return "Buffer" if ty == "u8" else f"ArrayLike[{_text(ty)}]"
        if isinstance(ty, str):
            return _PYTHON.get(ty, int)
        if ty[0] == "array":
            return bytes if ty[1] == "u8" else _text(ty)
        return self._tuple(ty)

    def inspected(self) -> inspect.Signature:
        """For `inspect.signature`."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        params = [
            inspect.Parameter(
                _identifier(name), kind, annotation=self.annotation(ty),
                default=default if has else inspect.Parameter.empty,
            )
            for name, _, ty, has, default in self.args
        ]  # fmt: skip
        if self.tail:
            name, _, ty, _, least, _ = self.tail
            default = inspect.Parameter.empty if least else ()
            params.append(inspect.Parameter(_identifier(name), kind, annotation=self.annotation(ty, True), default=default))
        return inspect.Signature(params, return_annotation=self._returns())

    def _returns(self) -> Any:
        if self._record is None:
            if self.results:
                ty = self.results[0][2]
                return self.annotation(ty)
            ty = self.result_tail[2]
            return memoryview if ty == "u8" else f"ndarray[{_text(ty)}]"
        return self._record if self.results or self.result_tail else None


def inspected(codec: Codec | None) -> inspect.Signature:
    """The signature of a function; one of bytes where it has none."""
    if codec is not None:
        return codec.inspected()
    p = inspect.Parameter("args", inspect.Parameter.POSITIONAL_ONLY, annotation="Buffer", default=b"")
    return inspect.Signature([p], return_annotation=bytes)


def empty(function: Function, shape: Any, dtype: Any = None) -> Any:
    """An array in the window; see `Function.empty`."""
    codec = function._codec
    ty: Any = codec.tail[2] if codec is not None and codec.tail else "u8"
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    count = 1
    for n in lengths:
        if n < 0:
            raise ValueError("an array has no negative length")
        count *= n
    if _np is not None:
        kind = _np.dtype(dtype) if dtype is not None else dtype_of(ty)
        slot = function.slot(count * kind.itemsize)
        if count * kind.itemsize == 0:
            return _np.empty(lengths, kind)
        return _np.frombuffer(memoryview(slot), dtype=kind.base, count=-1).reshape(lengths + kind.shape)
    if dtype is not None:
        code = dtype
    elif isinstance(ty, str):
        code = _CODES[ty]
    else:
        raise TypeError("an array of structs needs numpy, or dtype='B' for its bytes")
    view = memoryview(function.slot(count * struct.calcsize(code)))
    if len(lengths) == 1:
        return view.cast(code)
    return view.cast(code, lengths)


_: Callable[..., Any]
