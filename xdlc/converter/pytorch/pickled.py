"""Values of PyTorch's pickles: plain values and tensors; no code is executed.

It executes the opcodes that torch and TorchScript write (torch/csrc/jit/serialization/pickler.cpp,
Lib/pickletools.py).  Objects of any class, and results of functions that are not known, are ``Record``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdlc.converter.pytorch.archive import AGAIN
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
        raise _damaged(f"the pickle has {len(data)} bytes, which is too many", where)
    try:
        value = _Machine(data).run()
        check_depth(value)
    except (LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise _damaged(f"{type(error).__name__}: {error}"[:200], where) from error
    return value


def _damaged(reason: str, where: str) -> ModelError:
    return ModelError(f"xdlc cannot read the pickle: {reason}", where=where, fix=AGAIN)


class _Machine:
    """Machine of pickles."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return the final value of the pickle.

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
        raise ValueError(f"the pickle has more than {_MOST_STEPS} opcodes")

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError("the pickle ends early")
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
        """Pop the last values of the stack and return them."""
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
            raise TypeError(f"the pickle appends to a {type(held).__name__}")
        held.extend(values)

    def set_items(self, values: list[Any]) -> None:
        mapping = self._stack[-1]
        if not isinstance(mapping, dict) or len(values) % 2:
            raise TypeError(f"the pickle sets items of a {type(mapping).__name__}")
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
            raise TypeError("the pickle calls a value that is not a function")
        if not isinstance(arguments, tuple):  # TorchScript makes members of an enumeration from their values
            arguments = (arguments,)
        known = FUNCTIONS.get(function)
        if known is not None and len(arguments) > MOST_ARGUMENTS:
            raise TypeError(f"{function} has {len(arguments)} arguments")
        self.push(Record(function, arguments) if known is None else known(*arguments))

    def new(self) -> None:
        kind, arguments = self.last(2)
        if not isinstance(kind, Global) or not isinstance(arguments, tuple):
            raise TypeError("the pickle makes an object of a value that is not a class")
        self.push(Record(kind, arguments))

    def build(self) -> None:
        state, held = self._stack.pop(), self._stack[-1]
        if isinstance(held, Record):
            held.state = state
        elif not isinstance(held, dict):  # attributes of an OrderedDict have no meaning here
            raise TypeError(f"the pickle sets the state of a {type(held).__name__}")

    def push_persistent(self) -> None:
        given = self._stack.pop()
        if not isinstance(given, tuple) or not 3 <= len(given) <= MOST_ARGUMENTS:
            raise TypeError("the pickle refers to a value that is not a storage")
        kind, of, key = given[:3]
        if kind != "storage" or not isinstance(of, Global) or not isinstance(key, str):
            raise TypeError("the pickle refers to a value that is not a storage")
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


MOST_ARGUMENTS = 16
_MOST_DEPTH = 200
_TOO_DEEP = f"the values of the pickle nest more than {_MOST_DEPTH} deep, or contain themselves"
_MOST_RANK = 64


class Global(str):
    """Name of a class or function, with its module: ``torch.per_tensor_affine``."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Record:
    """An unbuilt object of a class, or unevaluated result of a function.

    Attributes:
        kind: Class or function, with its module.
        arguments: What it is made with.
        state: State that it is given then; None if it is given none.
    """

    kind: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


class Storage(NamedTuple):
    """Storage of tensors.

    Attributes:
        number: Data type of its elements, as a number of c10; -1 for bytes of any type.
        key: Name of the record that holds it.
    """

    number: int
    key: str


class StoredTensor(NamedTuple):
    """A tensor in a storage.

    Attributes:
        storage: The storage, of the type of the tensor.
        offset: Its first element.
        strides: Elements between neighbours along each axis.
        quantizer: Scheme of a quantized tensor, then scale and zero point, or tensors of these and an axis.
    """

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    quantizer: tuple[Any, ...] = ()


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_tensor_v2``."""
    if not isinstance(storage, Storage) or max(len(shape), len(strides)) > _MOST_RANK:
        raise TypeError("a tensor has no storage, or too many sizes")
    if not all(type(number) is int for number in (offset, *shape, *strides)):
        raise TypeError("a tensor has sizes that are not numbers")
    return StoredTensor(storage, offset, tuple(shape), tuple(strides))


def _typed_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, _: Any, __: Any, dtype: Any, *___: Any
) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_tensor_v3``."""
    made = _tensor(storage, offset, shape, strides)
    number = _TYPES.get(dtype, -1) if isinstance(dtype, str) else -1
    return made._replace(storage=made.storage._replace(number=number))


def _quantized(storage: Any, offset: Any, shape: Any, strides: Any, quantizer: Any, *_: Any) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_qtensor``."""
    if not isinstance(quantizer, tuple) or not quantizer or not isinstance(quantizer[0], Global):
        raise TypeError("a quantized tensor has no quantizer")
    return _tensor(storage, offset, shape, strides)._replace(quantizer=quantizer)


def _from_type(function: Any, _: Any, arguments: Any, *__: Any) -> Any:
    """Return a tensor subclass with a custom rebuild function as a plain tensor."""
    if function not in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"):
        raise TypeError(f"{function} builds a tensor, but only torch's functions may")
    if not isinstance(arguments, tuple) or len(arguments) > MOST_ARGUMENTS:
        raise TypeError("a tensor has too many arguments")
    return FUNCTIONS[function](*arguments)


def _dict(values: Any = (), *_: Any) -> dict[Any, Any]:
    """Return an empty OrderedDict, whose items are set later."""
    if values:
        raise TypeError("a call passes items to an OrderedDict")
    return {}


_LISTS = ("intlist", "doublelist", "boollist", "tensorlist")
_PASSING = [
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    *(f"torch.jit._pickle.build_{name}" for name in _LISTS),
    "torch.jit._pickle.restore_type_tag",
    "torch.Size",
]
"""Functions whose result is their first argument."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "collections.OrderedDict": _dict,
    **dict.fromkeys(_PASSING, lambda value, *_: value),
}


_STORED = (
    "Byte Char Short Int Long Half Float Double ComplexHalf ComplexFloat ComplexDouble Bool QInt8 QUInt8 "
    "QInt32 BFloat16 QUInt4x2 QUInt2x4"
)
STORAGES = {f"{name}Storage": number for number, name in enumerate(_STORED.split())} | {"UntypedStorage": -1}
"""Number of c10 by class of storage (c10/core/ScalarType.h)."""
_TYPED = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 "
    "qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn "
    "float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
)
_TYPES = {f"torch.{name}": number for number, name in enumerate(_TYPED.split())}
"""Number of c10 by data type."""


def check_depth(value: Any) -> None:
    """Refuse values that contain themselves, or nest deep.

    Raises:
        ValueError: If so.
    """
    if _depth(value, 0, {}) > _MOST_DEPTH:
        raise ValueError(_TOO_DEEP)


def _depth(value: Any, level: int, depths: dict[int, int]) -> int:
    """Return the nesting depth of a value at a level; results are cached."""
    if level > _MOST_DEPTH:
        raise ValueError(_TOO_DEEP)
    if id(value) not in depths:
        inner = (part for part in _parts(value) if isinstance(part, list | tuple | dict | Record))
        depths[id(value)] = 1 + max((_depth(part, level + 1, depths) for part in inner), default=0)
    return depths[id(value)]


def _parts(value: Any) -> tuple[Any, ...]:
    """Return the values directly inside another."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, Record):
        return value.arguments, value.state  # arguments may be those of many records
    if isinstance(value, StoredTensor):
        return value.quantizer
    return tuple(value) if isinstance(value, list | tuple) else ()
