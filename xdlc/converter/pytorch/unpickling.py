"""Restricted unpickler: plain values and tensors; imports and runs nothing.

It executes the opcodes that torch and TorchScript write (torch/csrc/jit/serialization/pickler.cpp,
Lib/pickletools.py).  Objects of any class, and results of functions that are not known, are ``Record``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from xdlc.converter.pytorch.archive import AGAIN
from xdlc.converter.pytorch.pickled import (
    FUNCTIONS,
    MOST_ARGUMENTS,
    STORAGES,
    Global,
    Record,
    Storage,
    check_depth,
)
from xdlc.errors import ModelError

_MOST_BYTES = 1 << 25
_MOST_STEPS = 1 << 20
_MOST_NAME = 1 << 10
_LONGEST_INTEGER = 9  # bytes of a number of 64 bits without sign


def unpickle(data: bytes, where: str) -> Any:
    """Return the content of a pickle, without cycles or deep nesting.

    Raises:
        ModelError: If it is damaged, too large, or needs more than is understood.
    """
    if len(data) > _MOST_BYTES:
        raise _damaged(f"has {len(data)} bytes", where)
    try:
        value = _Machine(data).run()
        check_depth(value)
    except (LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise _damaged(f"{type(error).__name__}: {error}"[:200], where) from error
    return value


def _damaged(reason: str, where: str) -> ModelError:
    return ModelError(f"the pickle is damaged: {reason}", where=where, fix=AGAIN)


class _Machine:
    """Machine of pickles."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return the value that the pickle ends with.

        Raises:
            ValueError: If an opcode is not understood, or there are too many.
        """
        for _ in range(_MOST_STEPS):
            code = self._take(1)
            if code == b".":
                return self._stack.pop()
            if code in _CONSTANTS:
                self._stack.append(_CONSTANTS[code]())
            elif code in _PACKED:
                format, take = _PACKED[code]
                number = struct.unpack(format, self._take(struct.calcsize(format)))[0]
                take(self, number)
            elif code in _ACTIONS:
                _ACTIONS[code](self)
            else:
                raise ValueError(f"opcode {code!r} at {self._at - 1} is not supported")
        raise ValueError(f"it has more than {_MOST_STEPS} opcodes")

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError("it ends early")
        self._at += count
        return taken

    def _line(self) -> str:
        end = self._data.index(b"\n", self._at)
        taken = self._data[self._at : end].decode()
        self._at = end + 1
        return taken

    # ------------------------------------------------------------------ opcodes

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_text(self, size: int) -> None:
        self.push(self._take(size).decode())

    def push_bytes(self, size: int) -> None:
        self.push(self._take(size))

    def push_integer(self, size: int) -> None:
        if size > _LONGEST_INTEGER:
            raise ValueError(f"a number has {size} bytes")
        self.push(int.from_bytes(self._take(size), "little", signed=True))

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self.push(self._memo[index])

    def skip(self, _: int) -> None:
        """Skip a number: the protocol, or the length of a frame."""

    def mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def marked(self) -> list[Any]:
        """Return the values since the last mark."""
        values, self._stack = self._stack, self._marks.pop()
        return values

    def last(self, count: int) -> list[Any]:
        """Return the last values of the stack, which they leave."""
        if count > len(self._stack):
            raise ValueError("the stack is empty")
        values = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return values

    def pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self.marked()

    def append(self, values: list[Any]) -> None:
        held = self._stack[-1]
        if not isinstance(held, list):
            raise TypeError(f"appends to a {type(held).__name__}")
        held.extend(values)

    def set_items(self, values: list[Any]) -> None:
        mapping = self._stack[-1]
        if not isinstance(mapping, dict) or len(values) % 2:
            raise TypeError(f"sets items of a {type(mapping).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int | float | None):
                raise TypeError(f"a key is a {type(key).__name__}")
            mapping[key] = value

    def push_dict(self) -> None:
        values = self.marked()
        self.push({})
        self.set_items(values)

    def push_global(self, module: str, name: str) -> None:
        if len(module) + len(name) > _MOST_NAME:
            raise ValueError("a name is too long")
        self.push(Global(f"{module}.{name}"))

    def reduce(self) -> None:
        function, arguments = self.last(2)
        if not isinstance(function, Global):
            raise TypeError("calls a value that is not a function")
        if not isinstance(arguments, tuple):  # TorchScript makes members of an enumeration from their values
            arguments = (arguments,)
        known = FUNCTIONS.get(function)
        if known is not None and len(arguments) > MOST_ARGUMENTS:
            raise TypeError(f"{function} has {len(arguments)} arguments")
        self.push(Record(function, arguments) if known is None else known(*arguments))

    def new(self) -> None:
        kind, arguments = self.last(2)
        if not isinstance(kind, Global) or not isinstance(arguments, tuple):
            raise TypeError("makes an object of a value that is not a class")
        self.push(Record(kind, arguments))

    def build(self) -> None:
        state, held = self._stack.pop(), self._stack[-1]
        if isinstance(held, Record):
            held.state = state
        elif not isinstance(held, dict):  # attributes of an OrderedDict have no meaning here
            raise TypeError(f"sets a state of a {type(held).__name__}")

    def push_persistent(self) -> None:
        given = self._stack.pop()
        if not isinstance(given, tuple) or not 3 <= len(given) <= MOST_ARGUMENTS:
            raise TypeError("refers to a value that is not a storage")
        kind, of, key = given[:3]
        if kind != "storage" or not isinstance(of, Global) or not isinstance(key, str):
            raise TypeError("refers to a value that is not a storage")
        name = of.removeprefix("torch.").removeprefix("storage.")
        if name not in STORAGES:
            raise ValueError(f"a storage is a {of}")
        self.push(Storage(STORAGES[name], key))


_CONSTANTS: dict[bytes, Callable[[], Any]] = {
    b"N": lambda: None,
    b"\x88": lambda: True,
    b"\x89": lambda: False,
    b")": tuple,
    b"]": list,
    b"}": dict,
}
_PACKED: dict[bytes, tuple[str, Callable[[_Machine, Any], None]]] = {
    b"\x80": ("<B", _Machine.skip),
    b"\x95": ("<Q", _Machine.skip),
    b"J": ("<i", _Machine.push),
    b"K": ("<B", _Machine.push),
    b"M": ("<H", _Machine.push),
    b"G": (">d", _Machine.push),
    b"X": ("<I", _Machine.push_text),
    b"\x8c": ("<B", _Machine.push_text),
    b"\x8d": ("<Q", _Machine.push_text),
    b"B": ("<I", _Machine.push_bytes),
    b"C": ("<B", _Machine.push_bytes),
    b"\x8a": ("<B", _Machine.push_integer),
    b"q": ("<B", _Machine.put),
    b"r": ("<I", _Machine.put),
    b"h": ("<B", _Machine.get),
    b"j": ("<I", _Machine.get),
}
_ACTIONS: dict[bytes, Callable[[_Machine], Any]] = {
    b"\x94": lambda machine: machine.put(len(machine._memo)),
    b"(": _Machine.mark,
    b"0": _Machine.pop,
    b"1": _Machine.marked,
    b"t": lambda machine: machine.push(tuple(machine.marked())),
    b"\x85": lambda machine: machine.push(tuple(machine.last(1))),
    b"\x86": lambda machine: machine.push(tuple(machine.last(2))),
    b"\x87": lambda machine: machine.push(tuple(machine.last(3))),
    b"l": lambda machine: machine.push(machine.marked()),
    b"a": lambda machine: machine.append(machine.last(1)),
    b"e": lambda machine: machine.append(machine.marked()),
    b"d": _Machine.push_dict,
    b"s": lambda machine: machine.set_items(machine.last(2)),
    b"u": lambda machine: machine.set_items(machine.marked()),
    b"c": lambda machine: machine.push_global(machine._line(), machine._line()),
    b"\x93": lambda machine: machine.push_global(*machine.last(2)),
    b"R": _Machine.reduce,
    b"\x81": _Machine.new,
    b"b": _Machine.build,
    b"Q": _Machine.push_persistent,
}
